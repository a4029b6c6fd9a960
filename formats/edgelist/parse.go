package edgelist

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/khop-gnn/khop/formats/source"
)

// parseNumbers is the fast path: two node numbers at the start of each line, no columns. What is unusual about a line
// is left to parseLine. b ends in a newline, so that no number runs over its end.
func (r *reader) parseNumbers(b []byte) error {
	delim, fields, limit := r.lay.delim, r.lay.fields, uint64(1)<<62
	if r.opt.Nodes > 0 {
		limit = uint64(r.opt.Nodes)
	}
	src, dst := r.src, r.dst
	for i := 0; i < len(b); {
		j := i
		x, j := digits(b, j)
		if j == i || j-i > 18 || b[i] == '0' && j-i > 1 || x >= limit {
			goto slow
		}
		if c := b[j]; c != delim && (c != '\t' || delim != ' ') {
			goto slow
		}
		for j++; b[j] == ' ' || b[j] == '\t' && delim == ' '; j++ {
		}
		{
			k := j
			y, j := digits(b, k)
			if j == k || j-k > 18 || b[k] == '0' && j-k > 1 || y >= limit {
				goto slow
			}
			if fields > 2 {
				if j = skipFields(b, j, delim, fields-2); j < 0 {
					goto slow
				}
			}
			if b[j] == '\r' {
				j++
			}
			if b[j] != '\n' {
				goto slow
			}
			i = j + 1
			src, dst = append(src, int64(x)), append(dst, int64(y))
		}
		if len(src) >= chunkEdges {
			r.src, r.dst = src, dst
			if err := r.flush(); err != nil {
				return err
			}
			src, dst = r.src, r.dst
		}
		continue
	slow:
		r.src, r.dst = src, dst
		line, next := cutLine(b, i)
		if err := r.parseLine(line); err != nil {
			return r.explain(b[i:], err)
		}
		src, dst, i = r.src, r.dst, next
	}
	r.src, r.dst = src, dst
	return nil
}

// digits reads a number; what has more than 18 digits is wrong but harmless.
func digits(b []byte, j int) (uint64, int) {
	x := uint64(0)
	for {
		d := b[j] - '0'
		if d > 9 {
			return x, j
		}
		x = x*10 + uint64(d)
		j++
	}
}

// skipFields returns the end of a line that has exactly n more fields, without quotes, else -1.
func skipFields(b []byte, j int, delim byte, n int) int {
	for ; b[j] != '\n' && b[j] != '\r'; j++ {
		switch c := b[j]; {
		case c == '"':
			return -1
		case delim == ' ' && (c == ' ' || c == '\t'):
			if next := b[j+1]; next != ' ' && next != '\t' && next != '\n' && next != '\r' {
				n--
			}
		case c == delim:
			n--
		}
	}
	if n != 0 {
		return -1
	}
	return j
}

// parseLines takes lines of any layout.
func (r *reader) parseLines(b []byte) error {
	for i := 0; i < len(b); {
		line, next := cutLine(b, i)
		if err := r.parseLine(line); err != nil {
			return r.explain(b[i:], err)
		}
		i = next
		if len(r.src) >= chunkEdges {
			if err := r.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// badLine is an error about the line that is being parsed.
type badLine struct {
	remedy string
	err    error
}

func (e *badLine) Error() string { return e.err.Error() }

func badf(remedy, format string, args ...any) error {
	return &badLine{remedy, fmt.Errorf(format, args...)}
}

func (r *reader) explain(rest []byte, err error) error {
	var bad *badLine
	if errors.As(err, &bad) {
		return r.lineError(rest, bad.remedy, bad.err)
	}
	return err
}

func (r *reader) parseLine(line []byte) error {
	if skippable(line) {
		return nil
	}
	if len(line) > MaxLine {
		return badf("this is not an edge list", "the line is longer than %d bytes", MaxLine)
	}
	f, err := r.split(line, r.lay.delim, r.fields[:0])
	r.fields = f
	if err != nil {
		return badf("", "%w", err)
	}
	if len(f) != r.lay.fields {
		return badf("every line must have as many fields as the first one", "the line has %d fields, not %d", len(f),
			r.lay.fields)
	}
	src, err := r.id(r.names, f[r.lay.src])
	if err != nil {
		return err
	}
	dst, err := r.id(r.targets, f[r.lay.dst])
	if err != nil {
		return err
	}
	for _, c := range r.columns {
		if err := c.add(f[c.field]); err != nil {
			return err
		}
	}
	r.src, r.dst = append(r.src, src), append(r.dst, dst)
	return nil
}

// id returns the node that a field names.
func (r *reader) id(list *source.Names, f []byte) (int64, error) {
	if r.lay.names {
		if len(f) == 0 {
			return 0, badf("", "an id is empty")
		}
		v, err := list.Number(f)
		if errors.Is(err, source.ErrText) {
			return 0, badf("convert the file to UTF-8 first", "id %w", err)
		}
		if err != nil {
			return 0, badf("", "%w", err)
		}
		return v, nil
	}
	const names = "if ids are names, take them as such by --ids names"
	v, err := strconv.ParseInt(string(f), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, badf(names, "id %s does not fit 64 bits", clip(f))
	case err != nil:
		return 0, badf(names, "id %q is not a number", clip(f))
	case v < 0:
		return 0, badf("node numbers count from 0; "+names, "id %d is negative", v)
	case len(f) > 1 && f[0] == '0' && r.opt.IDs == Auto:
		return 0, badf(names+", as numbers by --ids numbers", "id %s has leading zeros", clip(f))
	case r.opt.Nodes > 0 && v >= r.opt.Nodes:
		return 0, badf("the tables do not belong to this graph, or ids do not count from 0",
			"id %d is not below the %d nodes that the tables have rows for", v, r.opt.Nodes)
	case v >= 1<<62:
		return 0, badf(names, "id %d is too large for a node number", v)
	}
	return v, nil
}

func clip(f []byte) []byte { return f[:min(len(f), 80)] }

// split cuts a line into fields, without white space around them and without quotes. They are valid until the next
// call.
func (r *reader) split(line []byte, delim byte, f [][]byte) ([][]byte, error) {
	line = bytes.TrimRight(line, "\r")
	if delim == ' ' {
		for line = bytes.TrimLeft(line, " \t"); len(line) > 0; line = bytes.TrimLeft(line, " \t") {
			end := bytes.IndexAny(line, " \t")
			if end < 0 {
				end = len(line)
			}
			f, line = append(f, line[:end]), line[end:]
		}
		return f, nil
	}
	r.quoted = r.quoted[:0]
	for {
		trimmed := bytes.TrimLeft(line, " ")
		if len(trimmed) > 0 && trimmed[0] == '"' {
			field, rest, err := r.unquote(trimmed[1:])
			if err != nil {
				return f, err
			}
			f = append(f, field)
			if rest = bytes.TrimLeft(rest, " "); len(rest) == 0 {
				return f, nil
			}
			if rest[0] != delim {
				return f, fmt.Errorf("something follows the quotes of field %d", len(f))
			}
			line = rest[1:]
			continue
		}
		end := bytes.IndexByte(line, delim)
		if end < 0 {
			return append(f, bytes.Trim(line, " ")), nil
		}
		f, line = append(f, bytes.Trim(line[:end], " ")), line[end+1:]
	}
}

// unquote reads up to the closing quotes; two quotes within stand for one.
func (r *reader) unquote(s []byte) (field, rest []byte, err error) {
	if cap(r.quoted)-len(r.quoted) < len(s) { // fields that were returned keep the old memory
		r.quoted = make([]byte, 0, 2*len(s)+256)
	}
	from := len(r.quoted)
	for {
		end := bytes.IndexByte(s, '"')
		if end < 0 {
			return nil, nil, errors.New("quotes do not end on the line")
		}
		r.quoted = append(r.quoted, s[:end]...)
		s = s[end+1:]
		if len(s) == 0 || s[0] != '"' {
			return r.quoted[from:len(r.quoted):len(r.quoted)], s, nil
		}
		r.quoted = append(r.quoted, '"')
		s = s[1:]
	}
}
