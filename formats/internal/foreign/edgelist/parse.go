package edgelist

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
)

// parser parses pieces of a text whose layout is known. Each worker has one.
type parser struct {
	r       *reader
	lay     *layout
	limit   uint64 // ids are below it
	plain   bool   // two numbers a line, and no columns
	fields  []int  // what becomes of each; the number of a column, or fieldSrc and so on
	columns []columnSpec
	cut     cutFields
	at      marks
}

func newParser(r *reader) *parser {
	p := &parser{r: r, lay: r.lay, limit: 1 << 62, columns: r.lay.columns, fields: make([]int, r.lay.fields)}
	if r.opt.Nodes > 0 {
		p.limit = uint64(r.opt.Nodes)
	}
	return p
}

// parse parses a piece.
func (p *parser) parse(w *piece) {
	w.reset()
	if w.columns == nil {
		w.columns = make([]values, len(p.columns))
	}
	p.prepare()
	for i := w.start; i < w.n && w.err == nil; {
		if !p.lay.names {
			if i = p.fast(w, i); i == w.n {
				break
			}
		}
		line, next := cutLine(w.text(), i)
		if err := p.line(w, line); err != nil {
			w.truncate()
			if bad := (*badLine)(nil); errors.As(err, &bad) && p.r.opt.Skips.Any() {
				w.bad = append(w.bad, int32(i))
			} else {
				w.err = p.r.lineError(w, i, err)
			}
		}
		i = next
	}
	if p.lay.names {
		return
	}
	if (p.lay.twoTypes() || p.r.yield != nil) && len(w.src) > 0 {
		w.most = [2]int64{slices.Max(w.src), slices.Max(w.dst)}
	}
	if p.r.yield == nil {
		w.chunk.Pack(w.src, w.dst)
	}
}

// badLine is an error about the line that is being parsed.
type badLine struct {
	at  func(path string, line int64) error // the error, where it is
	err error
}

func (e *badLine) Error() string { return e.err.Error() }

func badf[R source.Remedy](remedy R, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &badLine{func(path string, line int64) error { return source.Error(path, "", line, remedy, err) }, err}
}

// prepare decides what becomes of the fields: columns that are not stored are not looked at any more.
func (p *parser) prepare() {
	for i := range p.fields {
		p.fields[i] = fieldSkip
	}
	stored := 0
	for i := range p.columns {
		if !p.r.columns[i].gone.Load() {
			p.fields[p.columns[i].field] = i
			stored++
		}
	}
	p.fields[p.lay.src], p.fields[p.lay.dst] = fieldSrc, fieldDst
	p.plain = stored == 0 && p.lay.src == 0 && p.lay.dst == 1
}

// wrong returns what is wrong with a line.
func (p *parser) wrong(line []byte) error {
	p.prepare()
	return p.line(&piece{columns: make([]values, len(p.columns))}, line)
}

// line parses a line.
func (p *parser) line(w *piece, line []byte) error {
	if skippable(line) {
		return nil
	}
	if len(line) > MaxLine {
		return badf("this is not an edge list", "the line is longer than %d bytes", MaxLine)
	}
	f, err := p.cut.split(line, p.lay.delim)
	if err != nil {
		return badf("", "%w", err)
	}
	if len(f) != p.lay.fields {
		return badf("every line must have as many fields as the first one", "the line has %s, not %d",
			source.Counted(int64(len(f)), "field", "fields"), p.lay.fields)
	}
	var ids [2]int64
	for i, field := range [2]int{p.lay.src, p.lay.dst} {
		if p.lay.names {
			err = checkName(f[field])
		} else {
			ids[i], err = p.id(f[field])
		}
		if err != nil {
			return err
		}
	}
	for i := range p.columns {
		if p.fields[p.columns[i].field] == i {
			if err := w.columns[i].add(&p.columns[i], f[p.columns[i].field]); err != nil {
				return err
			}
		}
	}
	if p.lay.names {
		for _, field := range [2]int{p.lay.src, p.lay.dst} {
			w.names = append(w.names, f[field]...)
			w.ends = append(w.ends, int32(len(w.names)))
		}
		return nil
	}
	w.src, w.dst = append(w.src, ids[0]), append(w.dst, ids[1])
	return nil
}

func checkName(f []byte) error {
	switch {
	case len(f) == 0:
		return badf("", "an id is empty")
	case !utf8.Valid(f):
		return badf("convert the file to UTF-8 first", "id %w: %q", graph.ErrText, clip(f))
	}
	return nil
}

// id returns the node that a field names.
func (p *parser) id(f []byte) (int64, error) {
	byIDs := option.Named("IDs")
	names := option.Textf("if ids are names, take them as such by %s names", byIDs)
	opt := &p.r.opt
	v, err := strconv.ParseInt(string(f), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, badf(names, "id %s does not fit 64 bits", clip(f))
	case err != nil:
		return 0, badf(names, "id %q is not a number", clip(f))
	case v < 0:
		return 0, badf(option.Textf("node numbers count from 0; %w", names), "id %d is negative", v)
	case len(f) > 1 && f[0] == '0' && opt.IDs == Auto:
		return 0, badf(option.Textf("%w, as numbers by %s numbers", names, byIDs), "id %s has leading zeros", clip(f))
	case opt.Nodes > 0 && v >= opt.Nodes:
		return 0, badf("the tables do not belong to this graph, or ids do not count from 0",
			"id %d is not below the %d nodes that the tables have rows for", v, opt.Nodes)
	case v >= 1<<62:
		return 0, badf(names, "id %d is too large for a node number", v)
	}
	return v, nil
}

func clip(f []byte) []byte { return f[:min(len(f), 80)] }

// cutFields cuts lines into fields. The zero value is ready.
type cutFields struct {
	fields [][]byte
	quoted []byte
}

// split cuts a line into fields, without white space around them and without quotes. They are valid until the next
// call.
func (r *cutFields) split(line []byte, delim byte) ([][]byte, error) {
	f, err := r.append(r.fields[:0], line, delim)
	r.fields = f
	return f, err
}

func (r *cutFields) append(f [][]byte, line []byte, delim byte) ([][]byte, error) {
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
func (r *cutFields) unquote(s []byte) (field, rest []byte, err error) {
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
