package export

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/parquetrows"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// textBytes is how many bytes of texts a batch of rows has, about. Tests change it.
var textBytes int64 = 8 << 20

// garColumn is a column of nodes: numbers, or texts.
type garColumn struct {
	field parquetrows.Field
	rows  func(lo, hi int64) ([]byte, error) // elements of rows
	text  func(i int64) (string, error)
}

// garVertices writes the vertices of a type, and describes them.
func (j *job) garVertices(t int) (*garVertex, error) {
	n := &j.s.Nodes[t]
	v := &garVertex{Type: n.Name, Chunk: vertexChunk, Prefix: "vertex/" + safe(n.Name) + "/", Version: garVersion}
	if err := j.count(v.Prefix+"vertex_count", n.Count); err != nil {
		return nil, err
	}
	masks, err := j.masks(t)
	defer func() { j.opt.Memory.Give(pinned.Scratch, int64(len(masks))*n.Count) }()
	if err != nil {
		return nil, err
	}
	columns, err := j.garColumnsOf(t, masks)
	if err != nil {
		return nil, err
	}
	var fields []parquetrows.Field
	seen := map[string]bool{}
	for _, c := range columns {
		if seen[c.field.Name] {
			return nil, fmt.Errorf("%w: two properties of %q would both be %q: rename one of them", formats.ErrExist,
				n.Name, c.field.Name)
		}
		seen[c.field.Name], fields = true, append(fields, c.field)
	}
	for _, g := range garFields(fields) {
		v.Groups = append(v.Groups, g.group())
		for lo, k := int64(0), 0; lo < n.Count; lo, k = lo+vertexChunk, k+1 {
			if err := j.file(fmt.Sprintf("%s%schunk%d", v.Prefix, g.prefix, k), func(w io.Writer) error {
				return j.garVertexChunk(w, &g, columns, lo, min(lo+vertexChunk, n.Count))
			}); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// garColumnsOf returns the columns of a node type: its own, its texts, and its splits.
func (j *job) garColumnsOf(t int, masks []mask) (all []garColumn, err error) {
	n := &j.s.Nodes[t]
	j.tellGarColumns(fmt.Sprintf("%q", n.Name), n.Columns)
	for _, c := range n.Columns {
		col, _ := j.g.NodeColumn(t, c.Name)
		row, data := c.RowBytes(), col.Bytes()
		all = append(all, garColumn{field: parquetrows.Field{Column: c}, rows: func(lo, hi int64) ([]byte, error) {
			return data[lo*row : hi*row], j.verify(lo, hi, col)
		}})
	}
	texts, err := j.garTexts(t)
	if err != nil {
		return nil, err
	}
	for _, name := range texts {
		list, err := j.ds.Strings(t, name)
		if err != nil {
			return nil, err
		}
		all = append(all, garColumn{field: parquetrows.Field{Column: graph.Column{Name: name}, Text: true},
			text: list.At})
	}
	for _, m := range masks {
		all = append(all, garColumn{field: parquetrows.Field{Mask: true,
			Column: graph.Column{Name: m.name, DType: unified.Uint8}},
			rows: func(lo, hi int64) ([]byte, error) { return m.in[lo:hi], nil }})
	}
	return all, nil
}

// garVertexChunk writes vertices first to below last of a group.
func (j *job) garVertexChunk(w io.Writer, g *garColumns, columns []garColumn, first, last int64) error {
	fields := append([]parquetrows.Field{parquetrows.Number("_graphArVertexIndex")}, g.fields...)
	out, err := newTable(w, fields)
	if err != nil {
		return err
	}
	held := 8*min(out.Rows, last-first) + textBytes // the ids and texts; columns are read where they lie
	if err := j.opt.Memory.Take(pinned.Scratch, held); err != nil {
		return err
	}
	defer j.opt.Memory.Give(pinned.Scratch, held)
	data := make([][]byte, len(fields))
	for lo := first; lo < last; {
		hi, err := g.texts(columns, data[1:], lo, min(lo+out.Rows, last))
		if err != nil {
			return err
		}
		ids := parquetrows.Each(hi-lo, func(i int64) int64 { return lo + i })
		data[0] = unified.FromSlice(ids).Bytes()
		for i, from := range g.from {
			if c := columns[from]; c.rows != nil {
				if data[i+1], err = c.rows(lo, hi); err != nil {
					return err
				}
			}
		}
		if err := out.Put(data); err != nil {
			return err
		}
		lo = hi
	}
	return out.Close()
}

// texts puts the texts of rows from lo on, each behind its length, up to a row that it returns: last, or where they are
// many bytes.
func (g *garColumns) texts(columns []garColumn, to [][]byte, lo, last int64) (hi int64, err error) {
	size := int64(0)
	for i := range to {
		if g.fields[i].Text {
			to[i] = to[i][:0]
		}
	}
	for hi = lo; hi < last && size < textBytes; hi++ {
		for i, from := range g.from {
			if columns[from].text == nil {
				continue
			}
			s, err := columns[from].text(hi)
			if err != nil {
				return 0, err
			}
			to[i] = append(binary.AppendUvarint(to[i], uint64(len(s))), s...)
			size += int64(len(s))
		}
	}
	return hi, nil
}
