package sampling

import (
	"fmt"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/unified"
)

// Request is one batch to sample: items, which are nodes or edges, numbered through the nodes by type, then through the
// edges by type. The worker must not keep or change its slices.
type Request struct {
	// Seeds are the items that are nodes: own ids by node type, in order, repeats allowed.
	Seeds [][]int64
	// Times are the times of these items, by node type, for temporal samplers: one a seed, or nil.
	Times [][]int64
	// From are the first times of these items, beside their times: one a seed, or nil; math.MinInt64 for none. Nothing
	// earlier is followed in the item's tree. A sampler that looks at times fails unless it keeps trees apart.
	From [][]int64
	// Edges are the items that are edges, by edge type; nil without such items. Both ends of an edge become seeds of
	// their types: after the nodes, edge type by edge type, first all sources and then all targets.
	Edges []SeedEdges
	// Exclude are edges, by edge type, that the batch leaves out, with all parallel ones, as if the graph did not have
	// them; nil for none. Pairs that are not edges of the graph change nothing. A sampler that cannot leave edges out
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
	Times, From      []int64 // of the items, as those of Request: one an edge, or nil
	Labels           []int64 // likewise
}

// check refuses a request, or a sample, that is not shaped for the schema.
func (r *Request) check(s *graph.Schema, layers int, out *graph.Sample) error {
	if len(r.Seeds) != len(s.Nodes) || len(out.Blocks) != layers {
		return fmt.Errorf("%w: request of %d node types, sample of %d layers; must be %d and %d", ErrOptions,
			len(r.Seeds), len(out.Blocks), len(s.Nodes), layers)
	}
	for t, ids := range r.Seeds {
		if !oneEach(r.Times, r.Seeds, t) || !oneEach(r.From, r.Seeds, t) || !oneEach(r.From, r.Times, t) {
			return fmt.Errorf("%w: there must be %d times of seeds of type %q, one a seed, and as many first times",
				ErrOptions, len(ids), s.Nodes[t].Name)
		}
	}
	if r.Edges != nil && len(r.Edges) != len(s.Edges) {
		return fmt.Errorf("%w: request of %d edge types; must be %d, or none", ErrOptions, len(r.Edges), len(s.Edges))
	}
	for e := range r.Edges {
		edges := &r.Edges[e]
		n := len(edges.Sources)
		if len(edges.Targets) != n || edges.Times != nil && len(edges.Times) != n ||
			edges.Labels != nil && len(edges.Labels) != n || edges.From != nil && len(edges.From) != len(edges.Times) {
			return fmt.Errorf("%w: seeds of edge type %v: %d sources, %d targets, %d first times, %d times and %d "+
				"labels", ErrOptions, &s.Edges[e], n, len(edges.Targets), len(edges.From), len(edges.Times),
				len(edges.Labels))
		}
	}
	return r.checkExclude(s)
}

// oneEach reports whether there is one of list for each of those of a node type, or no list.
func oneEach(list, of [][]int64, t int) bool {
	return list == nil || len(list) == len(of) && (list[t] == nil || len(list[t]) == len(of[t]))
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

// Purpose is what draws are for; different purposes have independent draws (docs/sampling.md, "Purposes").
type Purpose uint8

// The purposes of draws; your own samplers use PurposePick, too.
const (
	PurposePick   = Purpose(rng.Pick)          // choosing neighbours
	purposeShared = Purpose(rng.SharedVariate) // a variate a node that its destinations share
	purposePhase  = Purpose(rng.Phase)         // when a shared variate that stays for several batches is drawn anew
	purposeWeigh  = Purpose(rng.Weigh)         // choosing edges by weight
)

// Rand is the randomness of one batch, a value: every draw is a function of the batch (seed, epoch, number, instance)
// and of its purpose, never of other draws, threads or devices.
type Rand struct {
	key             uint64
	seed, batch     uint64
	epoch, instance uint32
}

// NewRand returns the randomness of a batch. Loaders make it; tests and other users of samplers may.
func NewRand(seed uint64, epoch, instance uint32, batch uint64) Rand {
	return Rand{rng.BatchKey(seed, epoch, instance, batch), seed, batch, epoch, instance}
}

// of returns the randomness of another batch of the epoch.
func (r Rand) of(batch uint64) Rand { return NewRand(r.seed, r.epoch, r.instance, batch) }

// Stage returns the draws for a purpose at a hop. typeKey is the Key of the edge or node type that is drawn for.
func (r Rand) Stage(typeKey uint64, p Purpose, hop uint8) Stage {
	return Stage{rng.StageKey(r.key, typeKey, rng.Purpose(p), hop)}
}

// Stage is the draws of one batch for one purpose, type and hop: a stream for every index, such as a node's own id.
type Stage struct{ key uint64 }

// Stream returns the draws of one index.
func (s Stage) Stream(index uint64) Stream { return Stream{rng.Stream(s.key, index)} }

// Stream is a sequence of 64-bit draws, each of which can be computed without the others.
type Stream struct{ state uint64 }

// Draw returns draw i, uniform over all 64-bit numbers.
func (s Stream) Draw(i uint64) uint64 { return rng.Draw(s.state, i) }

// IntN returns draw i as an integer of 0 .. n-1, for n >= 1.
func (s Stream) IntN(i, n uint64) uint64 { return rng.Bounded(rng.Draw(s.state, i), n) }

// Float64 returns draw i as a number of [0, 1).
func (s Stream) Float64(i uint64) float64 { return rng.Float64(rng.Draw(s.state, i)) }
