package export

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// writerBytes bounds what Arrow's writer takes beside the rows: an encoder of Zstandard for each page, which is garbage
// after it, pages, and levels.
const writerBytes = 24 << 20

// tables writes a folder of Parquet tables, and graph.yaml, which khop convert reads them by.
func tables(j *job) error {
	if err := j.opt.Memory.Take(pinned.Scratch, writerBytes); err != nil {
		return err
	}
	defer j.opt.Memory.Give(pinned.Scratch, writerBytes)
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

// batchBytes is how much of a table is written at once, about.
const batchBytes = 16 << 20

// field is a column of a table.
type field struct {
	graph.Column
	mask bool // of booleans
}

// table is a table being written.
type table struct {
	w      *file.Writer
	fields []field
	rows   int64 // of a batch
}

// newTable begins a table.
func newTable(w io.Writer, fields []field) (*table, error) {
	var nodes schema.FieldList
	rowBytes := int64(0)
	names := make(map[string]bool, len(fields))
	for _, f := range fields {
		if names[f.Name] {
			return nil, fmt.Errorf("%w: two columns of a table would both be %q: rename one of them", formats.ErrExist,
				f.Name)
		}
		names[f.Name] = true
		n, err := f.node()
		if err != nil {
			return nil, err
		}
		nodes, rowBytes = append(nodes, n), rowBytes+f.RowBytes()
	}
	root, err := schema.NewGroupNode("khop", parquet.Repetitions.Required, nodes, -1)
	if err != nil {
		return nil, err
	}
	props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithDictionaryDefault(false))
	return &table{w: file.NewParquetWriter(struct{ io.Writer }{w}, root, file.WithWriterProps(props)), fields: fields,
		rows: max(1<<10, min(1<<18, batchBytes/max(rowBytes, 1)))}, nil
}

// roomy gives a buffer that asks for little more half as much again. Where rows are lists, Arrow's encoder of levels
// asks for 64 bytes more at each of their runs, and would copy them all each time.
type roomy struct{ memory.Allocator }

// Reallocate implements memory.Allocator.
func (r roomy) Reallocate(size int, b []byte) []byte {
	if size > cap(b) && size <= len(b)+64 {
		return r.Allocator.Reallocate(size+size/2, b)[:size]
	}
	return r.Allocator.Reallocate(size, b)
}

// The encoder takes its buffers from a pool that has no other allocator.
func init() { memory.DefaultAllocator = roomy{memory.DefaultAllocator} }

// node describes a column: floating-point numbers of 16 bits are float32; a row of several numbers is a list.
func (f *field) node() (schema.Node, error) {
	physical, logical := f.types()
	n, err := schema.NewPrimitiveNodeLogical(f.Name, parquet.Repetitions.Required, logical, physical, -1, -1)
	if err != nil || len(f.Shape) == 0 {
		return n, err
	}
	return schema.ListOf(n, parquet.Repetitions.Required, -1)
}

func (f *field) types() (parquet.Type, schema.LogicalType) {
	whole := schema.NewIntLogicalType(int8(8*f.DType.Size()), f.DType.Kind() == unified.Signed)
	switch {
	case f.mask:
		return parquet.Types.Boolean, schema.NoLogicalType{}
	case !f.DType.IsFloat() && f.DType.Size() < 8:
		return parquet.Types.Int32, whole
	case !f.DType.IsFloat():
		return parquet.Types.Int64, whole
	case f.DType == unified.Float64:
		return parquet.Types.Double, schema.NoLogicalType{}
	}
	return parquet.Types.Float, schema.NoLogicalType{}
}

// put writes a batch: the elements of each column.
func (t *table) put(columns [][]byte) error {
	rows := t.w.AppendRowGroup()
	for i := range t.fields {
		cw, err := rows.NextColumn()
		if err == nil {
			err = t.fields[i].write(cw, columns[i])
		}
		if err == nil {
			err = cw.Close()
		}
		if err != nil {
			return err
		}
	}
	return rows.Close()
}

// piece is how many elements are converted at a time: a multiple of what Arrow writes at a time, so that its pages end
// where they would otherwise.
const piece = 1 << 16

// write writes elements.
func (f *field) write(cw file.ColumnChunkWriter, data []byte) error {
	size := f.DType.Size()
	for from, n := int64(0), int64(len(data))/size; from < n; from += piece {
		if err := f.writePiece(cw, data[from*size:min(from+piece, n)*size], from); err != nil {
			return err
		}
	}
	return nil
}

// writePiece writes elements of which the first has a number in its column.
func (f *field) writePiece(cw file.ColumnChunkWriter, data []byte, first int64) error {
	n := int64(len(data)) / f.DType.Size()
	var def, rep []int16
	if len(f.Shape) > 0 { // each row is a list: its first element begins it
		def, rep = make([]int16, n), make([]int16, n)
		for i := range def {
			if def[i] = 1; (first+int64(i))%f.Width() != 0 {
				rep[i] = 1
			}
		}
	}
	var err error
	switch w := cw.(type) {
	case *file.BooleanColumnChunkWriter:
		_, err = w.WriteBatch(each(n, func(i int64) bool { return data[i] != 0 }), def, rep)
	case *file.Int32ColumnChunkWriter:
		size := f.DType.Size()
		_, err = w.WriteBatch(each(n, func(i int64) int32 { return int32(f.DType.Integer(data[i*size:])) }), def, rep)
	case *file.Int64ColumnChunkWriter:
		_, err = w.WriteBatch(each(n, func(i int64) int64 { return f.DType.Integer(data[8*i:]) }), def, rep)
	case *file.Float64ColumnChunkWriter:
		_, err = w.WriteBatch(each(n, func(i int64) float64 { return f.DType.Float(data[8*i:]) }), def, rep)
	case *file.Float32ColumnChunkWriter:
		values := make([]float32, n)
		f.DType.Floats(values, data)
		_, err = w.WriteBatch(values, def, rep)
	default:
		err = fmt.Errorf("column %q: no writer of %v", f.Name, f.DType)
	}
	return err
}

func each[T any](n int64, at func(i int64) T) []T {
	v := make([]T, n)
	for i := range v {
		v[i] = at(int64(i))
	}
	return v
}

// number is a column of whole numbers.
func number(name string) field { return field{Column: graph.Column{Name: name, DType: unified.Int64}} }

// nodeTable writes the nodes of a type: id, columns, and splits as columns of booleans.
func (j *job) nodeTable(w io.Writer, t int) error {
	n, fields := j.s.Nodes[t], []field{number("id")}
	var data []unified.Tensor
	for _, c := range n.Columns {
		col, _ := j.g.NodeColumn(t, c.Name)
		fields, data = append(fields, field{Column: c}), append(data, col)
	}
	masks, err := j.masks(t)
	defer func() { j.opt.Memory.Give(pinned.Scratch, int64(len(masks))*n.Count) }()
	if err != nil {
		return err
	}
	for _, m := range masks {
		fields = append(fields, field{graph.Column{Name: m.name, DType: unified.Uint8}, true})
	}
	out, err := newTable(w, fields)
	if err != nil {
		return err
	}
	held := 8 * out.rows // the ids; columns are read where they lie
	if err := j.opt.Memory.Take(pinned.Scratch, held); err != nil {
		return err
	}
	defer j.opt.Memory.Give(pinned.Scratch, held)
	for lo := int64(0); lo < n.Count; lo += out.rows {
		hi := min(lo+out.rows, n.Count)
		if err := j.verify(lo, hi, data...); err != nil {
			return err
		}
		ids := each(hi-lo, func(i int64) int64 { return lo + i })
		columns := [][]byte{unified.FromSlice(ids).Bytes()}
		for i, c := range n.Columns {
			columns = append(columns, data[i].Bytes()[lo*c.RowBytes():hi*c.RowBytes()])
		}
		for _, m := range masks {
			columns = append(columns, m.in[lo:hi])
		}
		if err := out.put(columns); err != nil {
			return err
		}
	}
	return out.w.Close()
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
	fields := []field{number("src"), number("dst")}
	var from []unified.Tensor
	for _, c := range j.s.EdgeColumns {
		col, _ := j.g.EdgeColumn(c.Name)
		fields, from = append(fields, field{Column: c}), append(from, col)
	}
	out, err := newTable(w, fields)
	if err != nil {
		return err
	}
	data, n, e := make([][]byte, len(fields)), int64(0), j.s.Edges[t]
	rows, held := min(out.rows, e.Count), int64(0)
	for i := range fields {
		held += rows * fields[i].RowBytes()
	}
	if err := j.opt.Memory.Take(pinned.Scratch, held); err != nil {
		return err
	}
	defer j.opt.Memory.Give(pinned.Scratch, held)
	for i := range data {
		data[i] = make([]byte, 0, rows*fields[i].RowBytes())
	}
	flush := func() error {
		err := out.put(data)
		for i := range data {
			data[i] = data[i][:0]
		}
		n = 0
		return err
	}
	if err := j.eachEdge(t, from, func(at, v int64) error {
		data[0] = binary.LittleEndian.AppendUint64(data[0], uint64(j.ids(at)-j.g.Offset(e.Src)))
		data[1] = binary.LittleEndian.AppendUint64(data[1], uint64(v-j.g.Offset(e.Dst)))
		for i, c := range j.s.EdgeColumns {
			data[i+2] = append(data[i+2], from[i].Bytes()[at*c.RowBytes():(at+1)*c.RowBytes()]...)
		}
		if n++; n < out.rows {
			return nil
		}
		return flush()
	}); err != nil {
		return err
	}
	if n > 0 {
		if err := flush(); err != nil {
			return err
		}
	}
	return out.w.Close()
}
