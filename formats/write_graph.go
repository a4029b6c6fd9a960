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

// WriteGraph writes a graph with its columns and splits as a dataset at dir. It copies no array. ExpectBytes is set
// from the graph where it is 0. Errors are those of Create, and context.Cause(ctx); nothing is then left. Strings
// belong to datasets: those of a dataset that the graph came from are not written.
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
	if err := w.writeEdges(ctx, g); err != nil {
		return err
	}
	s := g.Schema()
	for t := range s.Nodes {
		for _, c := range s.Nodes[t].Columns {
			col, _ := g.NodeColumn(t, c.Name)
			cw, err := w.NodeColumn(t, c, col.Len())
			if err := writeTensor(ctx, cw, err, col); err != nil {
				return err
			}
		}
	}
	for _, split := range g.Splits() {
		if err := w.writeSplit(ctx, s, split); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) writeEdges(ctx context.Context, g *graph.Graph) error {
	topology := []struct {
		name string
		t    unified.Tensor
	}{
		{nameIndptr, unified.FromSlice(g.Indptr())}, {nameIndices, g.Indices()}, {nameType, g.Types()},
		{nameEdgeID, g.EdgeIDs()},
	}
	for _, a := range topology {
		if !a.t.Valid() {
			continue
		}
		cw, err := w.Topology(a.name, a.t.DType(), a.t.Len())
		if err := writeTensor(ctx, cw, err, a.t); err != nil {
			return err
		}
	}
	for _, c := range g.Schema().EdgeColumns {
		t, _ := g.EdgeColumn(c.Name)
		cw, err := w.EdgeColumn(c, t.Len())
		if err := writeTensor(ctx, cw, err, t); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) writeSplit(ctx context.Context, s *graph.Schema, split graph.Split) error {
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
	add := func(t unified.Tensor) {
		if t.Valid() {
			n += arrayfile.FileBytes(int64(len(t.Bytes())))
		}
	}
	for _, t := range []unified.Tensor{unified.FromSlice(g.Indptr()), g.Indices(), g.Types(), g.EdgeIDs()} {
		add(t)
	}
	s := g.Schema()
	for t := range s.Nodes {
		for _, c := range s.Nodes[t].Columns {
			col, _ := g.NodeColumn(t, c.Name)
			add(col)
		}
	}
	for _, c := range s.EdgeColumns {
		col, _ := g.EdgeColumn(c.Name)
		add(col)
	}
	for _, split := range g.Splits() {
		n += split.Seeds.Len() * s.IDType().Size()
	}
	return n
}
