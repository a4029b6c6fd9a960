package sampling

import (
	"context"
	"fmt"

	"github.com/khop-gnn/khop/graph"
)

// Assembler makes node lists, local ids and blocks for a custom sampler, as for all samplers. The sampler says which
// edges are picked. Only one goroutine may use an Assembler.
type Assembler struct{ impl assembler }

// Destination is a node for which to pick in-edges of one type.
type Destination struct {
	Hop      int   // distance from the seeds, 0 for the first hop
	EdgeType int   // index in Schema.Edges
	Node     int64 // own id
	// First .. Last-1 are the positions of the edges in the graph's CSC, ordered by source.
	First, Last int64
	// Draws are the draws of this batch, hop, edge type and node for PurposePick.
	Draws Stream
}

// pickFunc is what an Assembler asks for the edges of a destination.
type pickFunc = func(d *Destination, picks []int64) []int64

type assembler interface {
	sample(context.Context, *Request, *graph.Sample, pickFunc) error
	Close() error
}

// NewAssembler returns an assembler for samples of b.Layers hops. b is the bound of the sampler's Description.
func NewAssembler(env Env, frontier Frontier, b Bound) (*Assembler, error) {
	impl, err := openByWidth(customOptions{frontier, b}, env, newCustom, newCustom)
	return &Assembler{impl}, err
}

// Sample fills out, asking pick for every destination of every hop and edge type, in the order of docs/sampling.md. A
// custom Worker's Sample is this call. pick appends the positions of the edges that d follows to picks, in their order
// in the block, and returns picks, which it must not keep. Positions outside d.First .. d.Last-1 are an error.
func (a *Assembler) Sample(ctx context.Context, req *Request, out *graph.Sample,
	pick func(d *Destination, picks []int64) []int64) error {
	return a.impl.sample(ctx, req, out, pick)
}

// Close frees the assembler's memory.
func (a *Assembler) Close() error { return a.impl.Close() }

// custom is an Assembler for one width of ids, and its picker.
type custom[V nodeID] struct {
	*assembly[V]
	pick pickFunc // of the batch at hand
	rand Rand
	keptPicks[V]
}

type customOptions struct {
	frontier Frontier
	bound    Bound
}

func newCustom[V nodeID](opt customOptions, env Env, indices []V) (assembler, error) {
	opt.bound.Lists = nil // trees are not kept apart
	a, err := newAssembly(env, indices, opt.frontier, opt.bound)
	return &custom[V]{assembly: a, keptPicks: keptPicks[V]{sources: indices}}, err
}

func (c *custom[V]) sample(ctx context.Context, req *Request, out *graph.Sample, pick pickFunc) error {
	c.pick = pick
	return c.assembly.sample(ctx, req, out, customPicker[V]{c})
}

// customPicker keeps the methods of a picker apart from those of the assembly.
type customPicker[V nodeID] struct{ *custom[V] }

func (c customPicker[V]) hop(r Rand, _ []stage[V]) error {
	c.rand = r
	return nil
}

func (c customPicker[V]) count(st *stage[V], ends []int32) (int64, error) {
	if err := c.ranges(st); err != nil {
		return 0, err
	}
	draws := c.rand.Stage(c.schema.Edges[st.edgeType].Key, PurposePick, uint8(st.hop))
	d := Destination{Hop: st.hop, EdgeType: st.edgeType}
	c.picks = c.picks[:0]
	for i := st.lo; i < st.hi; i++ {
		d.Node, d.First, d.Last = int64(st.dst.ids[i]), c.start[i], c.start[i]+c.degree[i]
		d.Draws = draws.Stream(st.index(i))
		n := len(c.picks)
		c.picks = c.pick(&d, c.picks)
		if len(c.picks) < n {
			return 0, fmt.Errorf("%w: node %d: its picks were returned without those before them", ErrOptions, d.Node)
		}
		for _, p := range c.picks[n:] {
			if p < d.First || p >= d.Last {
				return 0, fmt.Errorf("%w: node %d: pick %d lies outside its edges %d to %d", ErrOptions, d.Node, p,
					d.First, d.Last-1)
			}
		}
		ends[i] = int32(st.have + len(c.picks))
	}
	c.keptPicks.made, c.done = len(c.picks), 0
	return int64(st.have + len(c.picks)), nil
}
