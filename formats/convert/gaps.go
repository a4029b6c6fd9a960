package convert

import (
	"context"
	"math/bits"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/pinned"
)

// gaps finds the nodes that no edge has, of types that nothing but edges counts: numbers from 1 make one of 0.
type gaps struct {
	c     *conversion
	seen  [][]uint64 // a bit a node of each type; nil: of a type that is counted elsewhere
	words int64
}

// newGaps returns gaps for nodes whose number is only a bound. Without memory for a bit for each of them it finds
// nothing.
func (c *conversion) newGaps(nodes []source.NodeType) *gaps {
	g := &gaps{c: c, seen: make([][]uint64, len(nodes))}
	for _, n := range nodes {
		if n.Counted && n.Count > 0 {
			g.words += n.Count/64 + 1
		}
	}
	if c.ledger.Take(pinned.Sources, 8*g.words) != nil {
		g.words = 0
		return g
	}
	for i, n := range nodes {
		if n.Counted && n.Count > 0 {
			g.seen[i] = make([]uint64, n.Count/64+1)
		}
	}
	return g
}

// close gives the memory back.
func (g *gaps) close() { g.c.ledger.Give(pinned.Sources, 8*g.words) }

// watch looks at edges as they are yielded.
func (g *gaps) watch(each func(func(source.Batch) error) error) func(func(source.Batch) error) error {
	if g.words == 0 {
		return each
	}
	types := g.c.graph.Types
	return func(yield func(source.Batch) error) error {
		return each(func(b source.Batch) error {
			if b.Types == nil && len(b.Src) > 0 {
				mark(g.seen[types[0].Source], b.Src...)
				mark(g.seen[types[0].Target], b.Dst...)
			}
			for i, t := range b.Types {
				mark(g.seen[types[t].Source], b.Src[i])
				mark(g.seen[types[t].Target], b.Dst[i])
			}
			return yield(b)
		})
	}
}

// say notes the nodes that no edge has.
func (g *gaps) say() {
	for i, set := range g.seen {
		if set != nil {
			g.c.sayGaps(&g.c.graph.Nodes[i], set)
		}
	}
}

// noteGaps reads all edges to note the nodes that none has: where it must be known before they are taken in.
func (c *conversion) noteGaps(ctx context.Context) error {
	g := c.newGaps(c.graph.Nodes)
	defer g.close()
	if g.words == 0 {
		return nil
	}
	if err := g.watch(c.graph.Edges.Each)(func(source.Batch) error { return context.Cause(ctx) }); err != nil {
		return err
	}
	g.say()
	return nil
}

// mark sets the bits of ids; those beyond the set are for others to refuse.
func mark(set []uint64, ids ...int64) {
	for _, id := range ids {
		if word := uint64(id) >> 6; word < uint64(len(set)) {
			set[word] |= 1 << (id & 63)
		}
	}
}

// sayGaps notes how many nodes have no edge.
func (c *conversion) sayGaps(n *source.NodeType, seen []uint64) {
	missing := n.Count
	for _, w := range seen {
		missing -= int64(bits.OnesCount64(w))
	}
	change := source.Guessed
	if c.opt.IDs == "numbers" {
		change = source.Said
	}
	switch {
	case missing == 1 && seen[0]&1 == 0:
		c.graph.Tell(change, n.Name, 1,
			"the smallest id of %q is 1: node 0 exists and has no edges; %s numbers says that it is meant", n.Name,
			option.NameOf(c.opt, "IDs"))
	case missing > 0:
		c.graph.Tell(change, n.Name, missing,
			"%d of %d ids of %q have no edge, and are nodes without edges; %s names numbers those that have, "+
				"and keeps the ids", missing, n.Count, n.Name, option.NameOf(c.opt, "IDs"))
	}
}
