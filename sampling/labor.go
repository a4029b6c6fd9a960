package sampling

import (
	"fmt"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/sat"
)

// Labor samples in-neighbours as Neighbor does, but destinations share draws: each source has one variate, uniform over
// [0, 1), that all its destinations share, and a destination takes the in-edges whose sources have the least. So every
// destination has as many edges as with Neighbor, all in-edges are equally likely, and a batch has fewer nodes. Picks
// are ascending by edge position.
//
// A destination of n in-edges of a type takes k of them, those with the least (variate, position), or all where k >= n.
// Without parallel edges all subsets of size k are equally likely. Parallel edges share the variate of their source:
// they are taken together, up to k. With Poisson it takes each edge whose variate is below k/n: k on average, and
// independently of the others.
//
// Cost: O(in-edges) a destination, each with a variate, where there are more than k; with Poisson twice that. Method:
// LABOR-0 of Balin and Catalyurek, "Layer-Neighbor Sampling: Defusing Neighborhood Explosion in GNNs", NeurIPS 2023;
// the fixed number of edges is its appendix A.3 (sequential Poisson sampling), as in GraphBolt's LayerNeighborSampler;
// Poisson is DGL's LaborSampler. docs/sampling.md states the result in full.
type Labor struct {
	// Fanouts and PerType are as Neighbor's.
	Fanouts []int `same:"fanouts" id:"fanouts"`
	PerType map[string][]int
	// Frontier says which nodes a hop expands. Default NewNodes.
	Frontier Frontier `same:"frontier" id:"frontier"`
	// Poisson takes the edges of a destination independently of each other: k on average.
	Poisson bool `id:"poisson" help:"Pick each edge independently, so that the fan-out is a mean."`
	// LayerDependent keeps the variate of a source for all hops, so that layers share nodes too.
	LayerDependent bool `id:"layer-dependent" help:"Use the same random numbers in all hops, which then share nodes."`
	// BatchDependency is the number of batches for which a source keeps its variate, so that successive batches share
	// nodes: from one batch to the next, one source in BatchDependency draws anew. With 0 or 1 all draw anew for every
	// batch.
	BatchDependency int `id:"batch-dependency" default:"1" range:"1," help:"..."`
}

// laborRules are options of Labor that were checked against a schema, and the Neighbor of the same fan-outs.
type laborRules struct {
	Labor
	like neighborRules
}

func (l Labor) check(s *graph.Schema) (r laborRules, err error) {
	r.Labor = l
	if l.BatchDependency < 0 {
		return r, fmt.Errorf("%w: batch dependency %d: must be 1 batch or more, or 0 for 1", ErrOptions,
			l.BatchDependency)
	}
	r.like, err = Neighbor{Fanouts: l.Fanouts, PerType: l.PerType, Frontier: l.Frontier}.check(s)
	return r, err
}

func (l Labor) Describe(s *graph.Schema, batchSize int) (Description, error) {
	d, err := describe(l.check, s, batchSize)
	d.Excludes, d.Frontier = true, &l.Frontier
	return d, err
}

func (l Labor) Fingerprint() string {
	return option.Fingerprint("labor", option.Filled(l))
}

func (l laborRules) bound(s *graph.Schema, batchSize int) Bound {
	most := l.like
	if l.Poisson { // a destination may take all
		most.hops = make(hopFanouts, len(l.like.hops))
		for h, fanouts := range l.like.hops {
			for _, k := range fanouts {
				if k > 0 {
					k = All
				}
				most.hops[h] = append(most.hops[h], k)
			}
		}
	}
	b := most.bound(s, batchSize)
	b.Scratch = sat.Add(b.Scratch, 16*l.like.hops.laborRoom(s))
	return b
}

// laborRoom returns how many edges a picker of a fixed number keeps in view while it looks for the least. Twice the
// most picks make room for a look at as many edges again before the greater half is dropped.
func (p hopFanouts) laborRoom(s *graph.Schema) int64 {
	most := int64(0)
	for _, fanouts := range p {
		for e, k := range fanouts {
			most = max(most, min(int64(k), s.Edges[e].Count))
		}
	}
	return 2*most + laborSlack
}

// laborSlack is the room beyond that. Vectors write to its last laborBehind elements, which nobody reads.
const laborSlack, laborBehind = 256, 8

func (l Labor) Open(env Env) (Worker, error) { return open(l.check, env, openLabor, openLabor) }

func openLabor[V nodeID](opt laborRules, env Env, a *assembly[V]) (Worker, error) {
	a.frontier = opt.Frontier
	a.pages.looksAt(env.Graph.Indices())
	w := &laborPicker[V]{a: a, fanouts: opt.like.hops, opt: opt.Labor}
	a.own(&w.seen)
	return &worker[V]{a, w}, nil
}
