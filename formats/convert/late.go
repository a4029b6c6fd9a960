package convert

import (
	"context"
	"errors"
	"math/bits"
	"slices"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/edgesort"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// lateEdges is the least number of edges that are not read only to count the nodes. Tests change it.
var lateEdges int64 = 1 << 24

// countLater reports whether the nodes may be counted while the edges are taken in. What numbers, shares or adds to
// nodes has to know them before.
func (c *conversion) countLater() bool {
	return c.graph.CountNodes != nil && !c.opt.DryRun && c.opt.Reorder <= AsListed &&
		c.opt.Loops != AddLoops
}

// placeFirst has the edges taken in before anything else, and counts the nodes meanwhile. Edges that reach beyond what
// the sample of them made believable are counted, and nil is returned.
func (c *conversion) placeFirst(ctx context.Context, o *order) (*edgesort.Sorter, error) {
	node := c.graph.Node()
	late := *o
	late.opt.Nodes = slices.Clone(o.opt.Nodes)
	late.opt.Nodes[0].Count = 1 << bits.Len64(uint64(max(node.Count-1, 1)))
	sorter, gaps, err := late.place(ctx)
	var beyond *edgesort.RangeError
	switch {
	case errors.As(err, &beyond):
		if err := c.graph.CountNodes(ctx); err != nil {
			return nil, err
		}
		c.watch = false
		return nil, c.noteGaps(ctx)
	case err != nil:
		return nil, o.explain(err)
	}
	defer gaps.close()
	node.Count = max(node.Count, sorter.Greatest()+1)
	if source.TooSparse(sorter.Greatest(), c.graph.Edges.Count) { // counting says so, with a remedy
		return nil, errors.Join(sorter.Close(), c.graph.CountNodes(ctx))
	}
	sorter.SetNodes(node.Count)
	gaps.say()
	return sorter, nil
}

// roomFor refuses a target that the dataset does not fit, before it is written.
func (c *conversion) roomFor(bytes int64) error {
	w, err := formats.Create(c.dst, formats.WriterOptions{Force: c.opt.Force, ExpectBytes: bytes,
		Inputs: c.inputs()})
	if err != nil {
		return err
	}
	return w.Abort()
}
