package sampling

import (
	"fmt"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// Request is one batch to sample: items, which are nodes or edges, numbered through the nodes by type, then through the
// edges by type. The worker must not keep or change its slices.
type Request struct {
	// Seeds are the items that are nodes: own ids by node type, in order, repeats allowed.
	Seeds [][]int64
	// Times are the times of these items, by node type, for samplers that look at time: one a seed, or nil.
	Times [][]int64
	// Edges are the items that are edges, by edge type; nil where there are none. Both ends of an edge become seeds of
	// their types: after the nodes, edge type by edge type, first all sources and then all targets.
	Edges []SeedEdges
	// Exclude are edges, by edge type, that the batch leaves out, with all parallel ones, as if the graph did not have
	// them; nil for none. Those that the graph does not have change nothing. A sampler that cannot leave edges out
	// fails.
	Exclude []EdgePairs
	// Items are numbers of the sampler's own (Description.Items); such a request has no seeds.
	Items []int64
	// Rand keys every draw of the batch.
	Rand Rand
}

// SeedEdges are items that are edges of one type, in order. They need not be edges of the graph.
type SeedEdges struct {
	Sources, Targets []int64 // own ids, as many
	Times            []int64 // of the items: one an edge, or nil
	Labels           []int64 // likewise
}

// check refuses a request, or a sample, that is not shaped for the schema.
func (r *Request) check(s *graph.Schema, layers int, out *graph.Sample) error {
	if len(r.Seeds) != len(s.Nodes) || len(out.Blocks) != layers {
		return fmt.Errorf("%w: request of %d node types, sample of %d layers; must be %d and %d", ErrOptions,
			len(r.Seeds), len(out.Blocks), len(s.Nodes), layers)
	}
	if r.Times != nil {
		for t, ids := range r.Seeds {
			if len(r.Times) != len(r.Seeds) || r.Times[t] != nil && len(r.Times[t]) != len(ids) {
				return fmt.Errorf("%w: the times of seeds of type %q are not as many as the seeds, %d", ErrOptions,
					s.Nodes[t].Name, len(ids))
			}
		}
	}
	if r.Edges != nil && len(r.Edges) != len(s.Edges) {
		return fmt.Errorf("%w: request of %d edge types; must be %d, or none", ErrOptions, len(r.Edges), len(s.Edges))
	}
	for e := range r.Edges {
		edges := &r.Edges[e]
		n := len(edges.Sources)
		if len(edges.Targets) != n || edges.Times != nil && len(edges.Times) != n ||
			edges.Labels != nil && len(edges.Labels) != n {
			return fmt.Errorf("%w: seeds of edge type %v: %d sources, %d targets, %d times and %d labels", ErrOptions,
				&s.Edges[e], n, len(edges.Targets), len(edges.Times), len(edges.Labels))
		}
	}
	return r.checkExclude(s)
}

func errArrays(have, want int) error {
	return fmt.Errorf("%w: sample with %d arrays; must be %d: shape it by Bound.Init", ErrOptions, have, want)
}

// NumSeeds returns how many seeds of a node type there are, repeats included: nodes, and ends of edges. A sample has
// as many entries in SeedLocal.
func (r *Request) NumSeeds(s *graph.Schema, nodeType int) int64 {
	n := len(r.Seeds[nodeType])
	for e := range r.Edges {
		n += len(r.Edges[e].Sources) * int(bit(s.Edges[e].Src == nodeType)+bit(s.Edges[e].Dst == nodeType))
	}
	return int64(n)
}

// seeds calls f for the seeds of a node type, part by part, in order. item is the number of a part's first item.
func (r *Request) seeds(s *graph.Schema, nodeType int, f func(ids []int64, item int) error) error {
	item := 0
	for t, ids := range r.Seeds {
		if t == nodeType {
			if err := f(ids, item); err != nil {
				return err
			}
		}
		item += len(ids)
	}
	for e := range r.Edges {
		for end, ids := range [...][]int64{r.Edges[e].Sources, r.Edges[e].Targets} {
			if [...]int{s.Edges[e].Src, s.Edges[e].Dst}[end] != nodeType {
				continue
			}
			if err := f(ids, item); err != nil {
				return fmt.Errorf("%s of edges %v: %w", [...]string{"sources", "targets"}[end], &s.Edges[e], err)
			}
		}
		item += len(r.Edges[e].Sources)
	}
	return nil
}

// seedCounts is how many items a request has: nodes by type, and edges by type, nil where none are edges.
type seedCounts struct{ nodes, edges []int64 }

func (c *seedCounts) of(r *Request) {
	c.nodes, c.edges = c.nodes[:0], c.edges[:0]
	for t := range r.Seeds {
		c.nodes = append(c.nodes, int64(len(r.Seeds[t])))
	}
	for e := range r.Edges {
		c.edges = append(c.edges, int64(len(r.Edges[e].Sources)))
	}
}

// viewEnds views the local ids of the ends of edges as out.SeedEdges. It uses c up.
func (c *seedCounts) viewEnds(s *graph.Schema, out *graph.Sample) (err error) {
	out.SeedEdges = out.SeedEdges[:0]
	next := func(t int, n int64) (ids unified.Tensor) {
		if err == nil && n > 0 {
			ids, err = out.SeedLocal[t].Rows(c.nodes[t], c.nodes[t]+n)
		}
		c.nodes[t] += n
		return ids
	}
	for e, n := range c.edges {
		et := &s.Edges[e]
		ends := graph.Ends{Source: next(et.Src, n)}
		ends.Target = next(et.Dst, n)
		out.SeedEdges = append(out.SeedEdges, ends)
	}
	return err
}
