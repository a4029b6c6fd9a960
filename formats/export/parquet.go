package export

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/parquetrows"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// tables writes a folder of Parquet tables, and graph.yaml, which khop convert reads them by.
func tables(j *job) error {
	if err := j.opt.Memory.Take(pinned.Scratch, parquetrows.WriterBytes); err != nil {
		return err
	}
	defer j.opt.Memory.Give(pinned.Scratch, parquetrows.WriterBytes)
	m := &strings.Builder{}
	m.WriteString("nodes:\n")
	for t, n := range j.s.Nodes {
		name := "nodes_" + safe(n.Name) + ".parquet"
		if err := j.file(name, func(w io.Writer) error { return j.nodeTable(w, t) }); err != nil {
			return err
		}
		fmt.Fprintf(m, "  %s {file: %q%s}\n", keyOf(n.Name), name, parts(n.Columns))
	}
	m.WriteString("edges:\n")
	for t, e := range j.s.Edges {
		name := "edges_" + safe(e.Source) + "__" + safe(e.Relation) + "__" + safe(e.Target) + ".parquet"
		if err := j.file(name, func(w io.Writer) error { return j.edgeTable(w, t) }); err != nil {
			return err
		}
		fmt.Fprintf(m, "  %s {file: %q, src: src, dst: dst%s}\n", keyOf(e.String()), name, parts(j.s.EdgeColumns))
	}
	if len(j.ds.LinkSplits()) > 0 {
		j.note("links are left out of the tables: \"khop export --to numpy\" has them")
	}
	if err := j.file("graph.yaml", func(w io.Writer) error {
		_, err := io.WriteString(w, m.String())
		return err
	}); err != nil {
		return err
	}
	return j.sign()
}

// keyOf is a name as a key of YAML, which has another form for long ones.
func keyOf(name string) string {
	text := fmt.Sprintf("%q", name)
	if len(text) > 1000 {
		return "? " + text + "\n  :"
	}
	return text + ":"
}

// parts says in a mapping what the columns of a table are.
func parts(columns []graph.Column) string {
	var others []string
	text := ""
	for _, c := range columns {
		switch c.Role() {
		case graph.NoRole:
			others = append(others, fmt.Sprintf("%q", c.Name))
		case graph.Feature:
			text += ", features: [" + c.Name + "]"
		default:
			text += fmt.Sprintf(", %v: %s", c.Role(), c.Name)
		}
	}
	return text + ", columns: [" + strings.Join(others, ", ") + "]"
}

// newTable begins a table, whose columns must have other names.
func newTable(w io.Writer, fields []parquetrows.Field) (*parquetrows.Table, error) {
	names := make(map[string]bool, len(fields))
	for _, f := range fields {
		if names[f.Name] {
			return nil, fmt.Errorf("%w: two columns of a table would both be %q: rename one of them", formats.ErrExist,
				f.Name)
		}
		names[f.Name] = true
	}
	return parquetrows.New(w, fields)
}

// NewTable begins a Parquet table of these columns, whose names differ. put writes some rows, which it does not keep:
// the elements of each column. end ends the table. Errors: formats.ErrExist for equal names, and those of w.
func NewTable(w io.Writer, columns []graph.Column) (put func(elements [][]byte) error, end func() error, err error) {
	var fields []parquetrows.Field
	for _, c := range columns {
		fields = append(fields, parquetrows.Field{Column: c})
	}
	t, err := newTable(w, fields)
	if err != nil {
		return nil, nil, err
	}
	return t.Put, t.Close, nil
}

// nodeTable writes the nodes of a type: id, columns, and splits as columns of booleans.
func (j *job) nodeTable(w io.Writer, t int) error {
	n, fields := j.s.Nodes[t], []parquetrows.Field{parquetrows.Number("id")}
	var data []unified.Tensor
	for _, c := range n.Columns {
		col, _ := j.g.NodeColumn(t, c.Name)
		fields, data = append(fields, parquetrows.Field{Column: c}), append(data, col)
	}
	masks, err := j.masks(t)
	defer func() { j.opt.Memory.Give(pinned.Scratch, int64(len(masks))*n.Count) }()
	if err != nil {
		return err
	}
	for _, m := range masks {
		fields = append(fields, parquetrows.Field{
			Column: graph.Column{Name: m.name, DType: unified.Uint8}, Mask: true})
	}
	out, err := newTable(w, fields)
	if err != nil {
		return err
	}
	held := 8 * out.Rows // the ids; columns are read where they lie
	if err := j.opt.Memory.Take(pinned.Scratch, held); err != nil {
		return err
	}
	defer j.opt.Memory.Give(pinned.Scratch, held)
	for lo := int64(0); lo < n.Count; lo += out.Rows {
		hi := min(lo+out.Rows, n.Count)
		if err := j.verify(lo, hi, data...); err != nil {
			return err
		}
		ids := parquetrows.Each(hi-lo, func(i int64) int64 { return lo + i })
		columns := [][]byte{unified.FromSlice(ids).Bytes()}
		for i, c := range n.Columns {
			columns = append(columns, data[i].Bytes()[lo*c.RowBytes():hi*c.RowBytes()])
		}
		for _, m := range masks {
			columns = append(columns, m.in[lo:hi])
		}
		if err := out.Put(columns); err != nil {
			return err
		}
	}
	return out.Close()
}

// mask is a split as a byte a node, which is held in memory.
type mask struct {
	name string
	in   []byte
}

// masks returns the splits of a node type, also after an error those that it has counted as memory.
func (j *job) masks(t int) (list []mask, err error) {
	for _, s := range j.splits() {
		for _, set := range s.Seeds.Sets {
			if set.Type != t {
				continue
			}
			n := j.s.Nodes[t].Count
			if err := j.opt.Memory.Take(pinned.Scratch, n); err != nil {
				return list, err
			}
			m := mask{splitName(s.Name, s.Index, "_mask"), make([]byte, n)}
			list = append(list, m)
			if set.IDs.Valid() && j.mask(set) == nil {
				j.note("the order of %q is lost: it is a mask", splitName(s.Name, s.Index, ""))
			}
			at, err := j.idsOf(set)
			if err != nil {
				return list, err
			}
			for i := range set.Len() {
				if v := at(i); v >= 0 && v < int64(len(m.in)) {
					m.in[v] = 1
				}
			}
		}
	}
	return list, nil
}

// edgeTable writes the edges of a type: src, dst (own ids) and columns.
func (j *job) edgeTable(w io.Writer, t int) error {
	fields := []parquetrows.Field{parquetrows.Number("src"), parquetrows.Number("dst")}
	var from []unified.Tensor
	for _, c := range j.s.EdgeColumns {
		col, _ := j.g.EdgeColumn(c.Name)
		fields, from = append(fields, parquetrows.Field{Column: c}), append(from, col)
	}
	e := j.s.Edges[t]
	return j.gathered(w, fields, e.Count, func(r *rows) error {
		return j.eachEdge(t, from, func(at, v int64) error {
			r.number(0, j.ids(at)-j.g.Offset(e.Src))
			r.number(1, v-j.g.Offset(e.Dst))
			for i, col := range from {
				r.copy(i+2, col, at)
			}
			return r.next()
		})
	})
}

// rows gathers rows for a table, and writes many at a time.
type rows struct {
	out   *parquetrows.Table
	width []int64 // bytes of a row of each column
	data  [][]byte
	n     int64
}

// gathered writes a table of most rows, which fill gives one by one.
func (j *job) gathered(w io.Writer, fields []parquetrows.Field, most int64, fill func(*rows) error) error {
	out, err := newTable(w, fields)
	if err != nil {
		return err
	}
	r, held := &rows{out: out, data: make([][]byte, len(fields))}, int64(0)
	for i := range fields {
		r.width = append(r.width, fields[i].RowBytes())
		held += min(out.Rows, most) * r.width[i]
	}
	if err := j.opt.Memory.Take(pinned.Scratch, held); err != nil {
		return err
	}
	defer j.opt.Memory.Give(pinned.Scratch, held)
	for i := range r.data {
		r.data[i] = make([]byte, 0, min(out.Rows, most)*r.width[i])
	}
	if err := fill(r); err != nil {
		return err
	}
	if r.n > 0 {
		if err := r.flush(); err != nil {
			return err
		}
	}
	return out.Close()
}

// number puts a whole number into the row.
func (r *rows) number(column int, v int64) {
	r.data[column] = binary.LittleEndian.AppendUint64(r.data[column], uint64(v))
}

// copy puts a row of an array into the row.
func (r *rows) copy(column int, from unified.Tensor, at int64) {
	r.data[column] = append(r.data[column], from.Bytes()[at*r.width[column]:][:r.width[column]]...)
}

// next ends the row.
func (r *rows) next() error {
	if r.n++; r.n < r.out.Rows {
		return nil
	}
	return r.flush()
}

func (r *rows) flush() error {
	err := r.out.Put(r.data)
	for i := range r.data {
		r.data[i] = r.data[i][:0]
	}
	r.n = 0
	return err
}
