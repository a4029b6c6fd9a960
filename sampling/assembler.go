package sampling

import (
	"context"
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// Assembler does for a custom sampler what all samplers share: seeds first, each node once, local ids, blocks. The
// sampler says which edges are picked. An Assembler is for one goroutine.
type Assembler struct{ impl assembler }

// Destination is a node whose in-edges of one type are to be picked from.
type Destination struct {
	Hop      int   // distance from the seeds, 0 for the first hop
	EdgeType int   // index in Schema.Edges
	Node     int64 // own id
	// First .. Last-1 are the positions of the edges in the graph's CSC, ordered by source.
	First, Last int64
	// Draws are the draws of this batch, hop, edge type and node for PurposePick.
	Draws Stream
}

// PickFunc appends to picks the positions of the edges that d follows, in the order that they shall have in the block,
// and returns it. It must not keep picks. Positions outside d.First .. d.Last-1 are an error.
type PickFunc func(d *Destination, picks []int64) []int64

type assembler interface {
	sample(context.Context, *Request, *graph.Sample, PickFunc) error
	close() error
}

// NewAssembler returns an assembler for samples of b.Layers hops. b is what the sampler's Bound returned.
func NewAssembler(env Env, frontier Frontier, b Bound) (*Assembler, error) {
	if ids, err := unified.View[int32](env.Graph.Indices()); err == nil {
		impl, err := newCustom(env, ids, frontier, b)
		return &Assembler{impl}, err
	}
	ids, err := unified.View[int64](env.Graph.Indices())
	if err != nil {
		return nil, err
	}
	impl, err := newCustom(env, ids, frontier, b)
	return &Assembler{impl}, err
}

// Sample fills out, asking pick for every destination of every hop and edge type, in the order of docs/sampling.md. A
// custom Worker's Sample is this call.
func (a *Assembler) Sample(ctx context.Context, req *Request, out *graph.Sample, pick PickFunc) error {
	return a.impl.sample(ctx, req, out, pick)
}

// Close frees the assembler's memory.
func (a *Assembler) Close() error { return a.impl.close() }

// custom is an Assembler for one width of ids.
type custom[V nodeID] struct {
	assembly[V]
	picks []int64 // of the stage at hand
	chunk chunk[V]
}

func newCustom[V nodeID](env Env, indices []V, frontier Frontier, b Bound) (*custom[V], error) {
	a, err := newAssembly(env, indices, frontier, b)
	return &custom[V]{assembly: a, chunk: newChunk[V]()}, err
}

func (c *custom[V]) sample(ctx context.Context, req *Request, out *graph.Sample, pick PickFunc) error {
	if err := c.begin(req, out); err != nil {
		return err
	}
	for h := range c.layers {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := c.hop(h, out, func(st *stage[V]) error { return c.expand(st, req.Rand, out, pick) })
		if err != nil {
			return err
		}
	}
	return c.finish(out)
}

func (c *custom[V]) expand(st *stage[V], r Rand, out *graph.Sample, pick PickFunc) error {
	if err := c.ranges(st); err != nil {
		return err
	}
	indptr, err := c.openIndptr(st, out)
	if err != nil {
		return err
	}
	draws := r.Stage(c.schema.Edges[st.edgeType].Key, PurposePick, uint8(st.hop))
	d := Destination{Hop: st.hop, EdgeType: st.edgeType}
	c.picks = c.picks[:0]
	for i := st.lo; i < st.hi; i++ {
		d.Node, d.First, d.Last = int64(st.dst.ids[i]), c.start[i], c.start[i]+c.degree[i]
		d.Draws = draws.Stream(uint64(d.Node))
		n := len(c.picks)
		c.picks = pick(&d, c.picks)
		if len(c.picks) < n || slices.ContainsFunc(c.picks[n:], func(p int64) bool {
			return p < d.First ||
				p >= d.Last
		}) {
			return fmt.Errorf("%w: node %d: a pick lies outside its edges %d to %d", ErrOptions, d.Node, d.First,
				d.Last)
		}
		end := c.edges[st.edgeType].numEdges + len(c.picks)
		if end > maxBlockEdges {
			return errTooManyEdges(int64(end))
		}
		indptr[i+1] = int32(end)
	}
	return c.deliver(st, out)
}

// deliver turns the picks into local ids, chunk by chunk.
func (c *custom[V]) deliver(st *stage[V], out *graph.Sample) error {
	local, pos, err := c.open(st, len(c.picks), out)
	if err != nil {
		return err
	}
	for rest := c.picks; len(rest) > 0; rest = rest[c.chunk.n:] {
		c.chunk.n = copy(c.chunk.pos, rest)
		if err := c.load(st, &c.chunk, 0, c.chunk.n); err != nil {
			return err
		}
		if err := c.room(st.srcType, c.chunk.n, out); err != nil {
			return err
		}
		c.local.relabel(c.chunk.nbr[:c.chunk.n], local, st.src)
		pos.put(c.chunk.pos[:c.chunk.n])
		local = local[c.chunk.n:]
	}
	return nil
}
