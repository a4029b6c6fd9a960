package export

import (
	"context"
	"io"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/parquetrows"
	foreign "github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Sink takes the rows of a table.
type Sink interface {
	// Begin says what columns the table has, of which the last, this number of masks, are bytes of 0 and 1. It returns
	// how many rows Put shall get.
	Begin(columns []graph.Column, masks int) (rows int64, err error)
	// Put takes some rows: the elements of each column. It may keep those of columns 1 up to mapped, which are the
	// dataset's, until that is closed.
	Put(elements [][]byte, mapped int) error
}

// Nodes puts the nodes of a type, by its place in the schema, into a table: id, columns, and splits as masks. Errors
// are those of Run and of the sink.
func Nodes(ctx context.Context, ds *formats.Dataset, t int, to Sink) error {
	return put(ctx, ds, func(j *job) error { return j.nodes(to, t) })
}

// Edges puts the edges of a type into a table: src, dst (own ids) and columns.
func Edges(ctx context.Context, ds *formats.Dataset, t int, to Sink) error {
	return put(ctx, ds, func(j *job) error { return j.edges(to, t) })
}

func put(ctx context.Context, ds *formats.Dataset, rows func(*job) error) error {
	x, err := newSource(ctx, ds)
	if err != nil {
		return err
	}
	return pinned.Guard(func() error { return rows(&job{source: x, res: &Result{}}) })
}

// NodeTexts returns the names of the lists of strings that have one for each node of a type, and of those that have
// not, such as that of its classes. All have been compared with their checksums: formats.ErrCorrupt.
func NodeTexts(ds *formats.Dataset, t int) (of, others []string, err error) {
	for _, name := range foreign.ListsOf(ds, t) {
		list, err := ds.Strings(t, name)
		if err == nil {
			err = ds.Verify(list.Bytes())
		}
		if err != nil {
			return nil, nil, err
		}
		if name == "class" || list.Len() != ds.Graph().Schema().Nodes[t].Count {
			others = append(others, name)
		} else {
			of = append(of, name)
		}
	}
	return of, others, nil
}

// parquetOf writes the rows of a table as Parquet.
func parquetOf(w io.Writer, rows func(Sink) error) error {
	p := &parquetTable{w: w}
	if err := rows(p); err != nil {
		return err
	}
	return p.Close()
}

// parquetTable is a Sink that writes Parquet.
type parquetTable struct {
	w io.Writer
	*parquetrows.Table
}

// Begin implements Sink.
func (p *parquetTable) Begin(columns []graph.Column, masks int) (rows int64, err error) {
	var fields []parquetrows.Field
	for i, c := range columns {
		fields = append(fields, parquetrows.Field{Column: c, Mask: i >= len(columns)-masks})
	}
	if p.Table, err = newTable(p.w, fields); err != nil {
		return 0, err
	}
	return p.Rows, nil
}

// Put implements Sink.
func (p *parquetTable) Put(elements [][]byte, _ int) error { return p.Table.Put(elements) }

// nodes writes the nodes of a type: id, columns, and splits as columns of booleans.
func (j *job) nodes(out Sink, t int) error {
	n, columns := j.s.Nodes[t], []graph.Column{{Name: "id", DType: unified.Int64}}
	var data []unified.Tensor
	for _, c := range n.Columns {
		col, _ := j.g.NodeColumn(t, c.Name)
		columns, data = append(columns, c), append(data, col)
	}
	masks, err := j.masks(t)
	defer func() { j.opt.Memory.Give(pinned.Scratch, int64(len(masks))*n.Count) }()
	if err != nil {
		return err
	}
	for _, m := range masks {
		columns = append(columns, graph.Column{Name: m.name, DType: unified.Uint8})
	}
	rows, err := out.Begin(columns, len(masks))
	if err != nil {
		return err
	}
	held := 8 * rows // the ids; columns are read where they lie
	if err := j.opt.Memory.Take(pinned.Scratch, held); err != nil {
		return err
	}
	defer j.opt.Memory.Give(pinned.Scratch, held)
	for lo := int64(0); lo < n.Count; lo += rows {
		hi := min(lo+rows, n.Count)
		if err := j.verify(lo, hi, data...); err != nil {
			return err
		}
		ids := parquetrows.Each(hi-lo, func(i int64) int64 { return lo + i })
		parts := [][]byte{unified.FromSlice(ids).Bytes()}
		for i, c := range n.Columns {
			parts = append(parts, data[i].Bytes()[lo*c.RowBytes():hi*c.RowBytes()])
		}
		for _, m := range masks {
			parts = append(parts, m.in[lo:hi])
		}
		if err := out.Put(parts, 1+len(data)); err != nil {
			return err
		}
	}
	return nil
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

// edges writes the edges of a type: src, dst (own ids) and columns.
func (j *job) edges(out Sink, t int) error {
	columns := []graph.Column{{Name: "src", DType: unified.Int64}, {Name: "dst", DType: unified.Int64}}
	var from []unified.Tensor
	for _, c := range j.s.EdgeColumns {
		col, _ := j.g.EdgeColumn(c.Name)
		columns, from = append(columns, c), append(from, col)
	}
	batch, err := out.Begin(columns, 0)
	if err != nil {
		return err
	}
	e := j.s.Edges[t]
	put := func(data [][]byte) error { return out.Put(data, 1) }
	return j.gather(columns, batch, e.Count, put, func(r *rows) error {
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
