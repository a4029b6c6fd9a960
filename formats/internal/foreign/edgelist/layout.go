package edgelist

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/names"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/unified"
)

// layout is what the first lines say about a file.
type layout struct {
	delim    byte      // ' ' is any white space
	fields   int       // in every line
	src, dst int       // which of them are the ids
	names    bool      // ids are names
	types    [2]string // of the nodes at both ends, where the user names them
	columns  []columnSpec
	skip     int // bytes of the first piece up to the first edge
	notes    []source.Note
}

// columnSpec is a column to be stored.
type columnSpec struct {
	name     string
	field    int
	dtype    unified.DType // Invalid: found out
	explicit bool          // asked for: not to be dropped
	nulls    map[string]bool
}

// maxColumns is the greatest number of columns that are stored: each has a temporary file of its own.
const maxColumns = 256

// sampleLines is how many lines of edges decide on the layout.
const sampleLines = 1000

// sampled is a line that is not a comment, with where it stands.
type sampled struct {
	at     int // offset in the piece
	fields [][]byte
}

// detect decides on the layout by the first lines of a piece; nil if there is no edge in it.
func (r *reader) detect(p *piece) (*layout, error) {
	lay, b := &layout{src: 0, dst: 1}, p.text()
	if p.lines == 0 {
		if err := r.checkText(b); err != nil {
			return nil, err
		}
	}
	var lines []sampled
	var cut cutFields
	for offset := 0; offset < len(b) && len(lines) <= sampleLines; {
		line, next := cutLine(b, offset)
		if !skippable(line) {
			if lay.delim == 0 {
				lay.delim = delimiter(line)
			}
			f, err := cut.split(line, lay.delim)
			if err != nil && !r.opt.Skips.Any() {
				return nil, r.lineError(p, offset, err)
			}
			s := sampled{at: offset}
			for _, x := range f {
				s.fields = append(s.fields, bytes.Clone(x))
			}
			lines = append(lines, s)
		}
		offset = next
	}
	if len(lines) == 0 {
		return nil, nil
	}
	lay.fields, lay.skip = len(lines[0].fields), lines[0].at
	if lay.fields < 2 {
		return nil, r.lineError(p, lines[0].at, badf("an edge list has two ids a line", "there is one field only"))
	}
	if err := r.nameFields(lay, p, &lines); err != nil {
		return nil, err
	}
	if err := r.decideIDs(lay, p, lines); err != nil {
		return nil, err
	}
	return lay, nil
}

func (r *reader) checkText(b []byte) error {
	head := b[:min(len(b), 4096)]
	switch {
	case bytes.HasPrefix(head, []byte("%%MatrixMarket")):
		return source.Error(r.path, "", 1,
			option.Textf("leave out %s, or say %[1]s mtx: its first line holds sizes, its ids count from 1",
				option.Named("From")),
			errors.New("is a Matrix Market file"))
	default:
		what := source.NotLines(head)
		if what == "" {
			return nil
		}
		return source.Error(r.path, "", -1, "an edge list is text with two ids a line", fmt.Errorf("is %s", what))
	}
}

// cutLine returns the line at an offset, without its end, and the offset of the next one.
func cutLine(b []byte, at int) (line []byte, next int) {
	end := bytes.IndexByte(b[at:], '\n')
	if end < 0 {
		return b[at:], len(b)
	}
	return b[at : at+end], at + end + 1
}

// skippable tells empty lines and comments.
func skippable(line []byte) bool {
	line = bytes.TrimLeft(line, " \t\r")
	return len(line) == 0 || line[0] == '#' || line[0] == '%' || len(line) > 1 && line[0] == '/' && line[1] == '/'
}

func delimiter(line []byte) byte {
	for _, d := range []byte("\t,;") {
		if bytes.IndexByte(line, d) >= 0 {
			return d
		}
	}
	return ' '
}

func isNumber(f []byte) bool {
	_, err := strconv.ParseInt(string(f), 10, 64)
	return err == nil
}

// columnName makes a header's word a name; "" for none.
func columnName(s string) string { return names.Clean(strings.TrimSpace(s)) }

func uniqueName(columns []columnSpec, name string) string {
	for slices.ContainsFunc(columns, func(c columnSpec) bool { return c.name == name }) {
		name += "_"
	}
	return name
}

// explicitColumns takes Options.Columns.
func (r *reader) explicitColumns(lay *layout) error {
	lower := make([]string, len(r.opt.Columns))
	for i, c := range r.opt.Columns {
		lower[i], _, _ = strings.Cut(strings.ToLower(c), ":")
	}
	bad := func(format string, args ...any) error {
		by := option.Named("Columns")
		return source.Error(r.path, "", -1,
			option.Textf("name the fields in order, as in %s src,dst,weight,-,time:int64", by),
			option.Textf("%s"+format, append([]any{by}, args...)...))
	}
	if len(lower) > lay.fields || len(lower) < 2 {
		return bad(" names %d fields, the first line has %d", len(lower), lay.fields)
	}
	if more := lay.fields - len(lower); more > 0 {
		lay.notes = append(lay.notes, source.NewNote(source.LeftOut, "edges", int64(more),
			"%s names %d of %d fields, and the others are not stored; name them, too, or skip each by -",
			option.Named("Columns"), len(lower), lay.fields))
	}
	lay.src, lay.dst = 0, 1
	findEnds(lower, lay)
	named := map[string]bool{}
	for i, c := range r.opt.Columns {
		name, typ, typed := strings.Cut(c, ":")
		if name == "-" && i != lay.src && i != lay.dst {
			continue
		}
		if named[lower[i]] || named[name] {
			return bad(" names %q twice", name)
		}
		named[name] = true
		if i == lay.src || i == lay.dst {
			named[lower[i]] = true // src and SRC would mean the same
			if i == lay.src {
				lay.types[0] = columnName(typ)
			} else {
				lay.types[1] = columnName(typ)
			}
			continue
		}
		spec := columnSpec{name: columnName(name), field: i, explicit: true}
		if typed {
			var err error
			if spec.dtype, err = unified.ParseDType(typ); err != nil || !storable(spec.dtype) {
				return bad(": %q: type %q is none of int8, int16, int32, int64, float32, float64", c, typ)
			}
		}
		if spec.name == "" || uniqueName(lay.columns, spec.name) != spec.name || len(lay.columns) == maxColumns {
			return bad(": name %q is empty, or that of another, or one of more than %d", name, maxColumns)
		}
		lay.columns = append(lay.columns, spec)
	}
	if (lay.types[0] == "") != (lay.types[1] == "") {
		return bad(" names the type of nodes at one end only: src:user,dst:item names both")
	}
	if lay.twoTypes() && r.opt.Nodes > 0 {
		return bad(" names two types of nodes, and a table has rows for one")
	}
	return nil
}

// twoTypes reports whether both ends have nodes of their own type.
func (l *layout) twoTypes() bool { return l.types[0] != l.types[1] }

// decideIDs decides between numbers and names.
func (r *reader) decideIDs(lay *layout, p *piece, lines []sampled) error {
	lay.names = r.opt.IDs == Names
	if r.opt.IDs != Auto {
		return nil
	}
	for _, field := range []int{lay.src, lay.dst} {
		numbers, zeros, odd := 0, 0, -1
		for i, l := range lines {
			if len(l.fields) <= field {
				break // an error when its turn comes
			}
			switch f := l.fields[field]; {
			case !isNumber(f) && !isDigits(f):
				if odd < 0 {
					odd = i
				}
			case len(f) > 1 && f[0] == '0':
				zeros++
			default:
				numbers++
			}
		}
		if odd >= 0 && numbers > 9*len(lines)/10 && r.opt.Skips.Any() {
			continue
		}
		if odd >= 0 {
			f := string(lines[odd].fields[field])
			if _, err := strconv.ParseFloat(f, 64); err == nil && (strings.ContainsAny(f, ".eE") ||
				strings.EqualFold(f, "nan")) {
				return r.lineError(p, lines[odd].at, badf(
					option.Textf("write ids as whole numbers, or take them as names by %s names", option.Named("IDs")),
					"id %q is not a whole number", f))
			}
			if numbers > 9*len(lines)/10 {
				return r.lineError(p, lines[odd].at, badf(
					option.Textf("correct the line, or take all ids as names by %s names", option.Named("IDs")),
					"id %q is not a number, but most are", f))
			}
		}
		lay.names = lay.names || odd >= 0 || zeros > 0
	}
	return nil
}

func isDigits(f []byte) bool {
	return len(f) > 0 && !slices.ContainsFunc(f, func(c byte) bool { return c < '0' || c > '9' })
}

// Looks reports whether the first bytes of a file can be those of an edge list: text, and nothing that is known to be
// else.
func Looks(head []byte) bool {
	r := &reader{}
	return len(head) > 0 && (source.Wide(head) || r.checkText(head) == nil) // Read says what to do about wide text
}
