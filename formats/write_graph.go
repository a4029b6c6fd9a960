package formats

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// WriteGraph writes a graph with its columns and splits as a dataset at dir. It copies no array. If ExpectBytes is 0,
// it is set from the graph. Errors are those of Create, and context.Cause(ctx); no files then remain. Strings belong to
// datasets, not to graphs: WriteGraph does not write them.
func WriteGraph(ctx context.Context, dir string, g *graph.Graph, opt WriterOptions) (err error) {
	if opt.ExpectBytes == 0 {
		opt.ExpectBytes = graphBytes(g)
	}
	w, err := Create(dir, opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	if err := w.writeArrays(ctx, g); err != nil {
		return err
	}
	return w.Commit(*g.Schema())
}

// writeArrays writes all arrays of a graph.
func (w *Writer) writeArrays(ctx context.Context, g *graph.Graph) error {
	if err := w.writeAll(ctx, append(edgeArrays(g), nodeArrays(g)...)); err != nil {
		return err
	}
	for _, split := range g.Splits() {
		if err := w.writeSplit(ctx, g.Schema(), split); err != nil {
			return err
		}
	}
	return nil
}

// storedArray is an array of a graph, and what opens the writer of its file.
type storedArray struct {
	unified.Tensor
	open func(w *Writer) (*ColumnWriter, error)
}

func (w *Writer) writeAll(ctx context.Context, all []storedArray) error {
	for _, a := range all {
		cw, err := a.open(w)
		if err := writeTensor(ctx, cw, err, a.Tensor); err != nil {
			return err
		}
	}
	return nil
}

// edgeArrays returns the structure of a graph and the columns of its edges.
func edgeArrays(g *graph.Graph) (all []storedArray) {
	topology := func(name string, t unified.Tensor) {
		if t.Valid() {
			all = append(all, storedArray{t, func(w *Writer) (*ColumnWriter, error) {
				return w.Topology(name, t.DType(), t.Len())
			}})
		}
	}
	topology(nameIndptr, unified.FromSlice(g.Indptr()))
	topology(nameIndices, g.Indices())
	topology(nameType, g.Types())
	topology(nameEdgeID, g.EdgeIDs())
	for _, c := range g.Schema().EdgeColumns {
		col, _ := g.EdgeColumn(c.Name)
		all = append(all, storedArray{col, func(w *Writer) (*ColumnWriter, error) {
			return w.EdgeColumn(c, col.Len())
		}})
	}
	return all
}

// nodeArrays returns the columns of the nodes.
func nodeArrays(g *graph.Graph) (all []storedArray) {
	for t, n := range g.Schema().Nodes {
		for _, c := range n.Columns {
			col, _ := g.NodeColumn(t, c.Name)
			all = append(all, storedArray{col, func(w *Writer) (*ColumnWriter, error) {
				return w.NodeColumn(t, c, col.Len())
			}})
		}
	}
	return all
}

func (w *Writer) writeSplit(ctx context.Context, s *graph.Schema, split graph.Split) error {
	if isTable(split) {
		return w.Table(split.Name, split.Seeds, s, func(cw *ColumnWriter, err error,
			rows unified.Tensor) error {
			return writeTensor(ctx, cw, err, rows)
		})
	}
	for _, set := range split.Seeds.Sets {
		if set.Types != nil {
			return fileError(w.dir, "make a set of each type",
				fmt.Errorf("%w: split %q: seeds of several types in one set", graph.ErrSchema, split.Name))
		}
		if set.IDs.Valid() {
			cw, err := w.Split(split.Name, split.Index, set.Type, set.IDs.DType(), set.IDs.Len())
			if err := writeTensor(ctx, cw, err, set.IDs); err != nil {
				return err
			}
			continue
		}
		if err := w.writeRange(ctx, s, split, set); err != nil {
			return err
		}
	}
	return nil
}

// writeRange writes the seeds of a set that is stored as "all nodes" in memory.
func (w *Writer) writeRange(ctx context.Context, s *graph.Schema, split graph.Split, set graph.SeedSet) error {
	cw, err := w.Split(split.Name, split.Index, set.Type, s.IDType(), set.Count)
	if err != nil {
		return err
	}
	const step = 1 << 16
	ids32, ids64 := make([]int32, 0, step), make([]int64, 0, step)
	for lo := int64(0); lo < set.Count; lo += step {
		ids32, ids64 = ids32[:0], ids64[:0]
		for i := lo; i < min(lo+step, set.Count); i++ {
			ids32, ids64 = append(ids32, int32(i)), append(ids64, i)
		}
		t := unified.FromSlice(ids64)
		if s.IDType() == unified.Int32 {
			t = unified.FromSlice(ids32)
		}
		if err := copyTensor(ctx, cw, t); err != nil {
			return err
		}
	}
	return cw.Close()
}

// writeTensor writes a whole column. err is that of making its writer, passed through.
func writeTensor(ctx context.Context, cw *ColumnWriter, err error, t unified.Tensor) error {
	if err != nil {
		return err
	}
	if err := copyTensor(ctx, cw, t); err != nil {
		return err
	}
	return cw.Close()
}

// copyTensor writes in steps, so that a cancelled context is seen soon.
func copyTensor(ctx context.Context, w io.Writer, t unified.Tensor) error {
	const step = 4 << 20
	for b := t.Bytes(); len(b) > 0; b = b[min(step, len(b)):] {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := pinned.Guard(func() error { // the tensor may view a mapped file
			_, err := w.Write(b[:min(step, len(b))])
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// graphBytes estimates the bytes of a dataset: the arrays, and what is around them.
func graphBytes(g *graph.Graph) int64 {
	n := int64(1 << 16)
	for _, a := range append(edgeArrays(g), nodeArrays(g)...) {
		n += arrayfile.FileBytes(int64(len(a.Bytes())))
	}
	for _, split := range g.Splits() {
		n += split.Seeds.Len() * g.Schema().IDType().Size()
		for _, set := range split.Seeds.Sets {
			n += 8*int64(len(set.Times)+len(set.From)) + int64(len(set.Labels.Bytes()))
		}
	}
	return n
}
