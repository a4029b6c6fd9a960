package sampling

import (
	"context"
	"fmt"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/unified"
)

// HGT draws the same number of nodes of each type at each hop, and takes the subgraph between them. So a batch has
// about equally many of each type, whatever their degrees. Every node that is not in the batch has a budget: 1/n for
// each edge that leads from it to a node of the batch with n in-edges of that type. Nodes are drawn without
// replacement, each in proportion to the square of its budget among the remaining nodes.
//
// The one layer has all nodes as sources and as destinations, as Induced has. Cost: the in-edges of the nodes, twice.
// Source: Hu, Dong, Wang and Sun, "Heterogeneous graph transformer", WWW 2020. docs/sampling.md
// states the result in full.
type HGT struct {
	// Nodes are how many nodes of each type a hop draws, Nodes[0] around the seeds; All (-1) draws every node that has
	// a budget, 0 none.
	Nodes []int `name:"layer-nodes" id:"nodes" default:"512,512" help:"..."`
	// PerType overrides Nodes for single node types. A list shorter than the longest ends early.
	PerType map[string][]int
}

// purposeBudget is the purpose of races by budget.
const purposeBudget = Purpose(14)

// hgtRules is how many nodes are drawn: [hop][node type].
type hgtRules struct{ hops hopFanouts }

func (k HGT) check(s *graph.Schema) (r hgtRules, err error) {
	r.hops, err = hopFanoutsFor("number of nodes", len(s.Nodes), k.Nodes, k.PerType, func(name string) (int, error) {
		t := s.NodeType(name)
		if t < 0 {
			return t, fmt.Errorf("no node type %q", name)
		}
		return t, nil
	})
	return r, err
}

func (k HGT) Fingerprint() string { return option.Fingerprint("hgt", k) }

func (k HGT) Describe(s *graph.Schema, batchSize int) (Description, error) {
	return describe(k.check, s, batchSize)
}

func (k hgtRules) bound(s *graph.Schema, batchSize int) Bound {
	all, scratch, most := int64(0), int64(0), int64(0)
	for t := range s.Nodes {
		n := int64(batchSize)
		for h := range k.hops {
			drawn := int64(k.hops[h][t])
			if drawn < 0 {
				drawn = s.Nodes[t].Count
			}
			n, most = sat.Add(n, drawn), max(most, min(drawn, s.Nodes[t].Count))
		}
		all = sat.Add(all, min(n, s.Nodes[t].Count))
		scratch = sat.Add(scratch, sat.Add(poolBytes(s.Nodes[t].Count), sat.Mul(8, s.Nodes[t].Count+chunkPicks)))
	}
	b := boundNodes(s, all)
	inducedBound(s, &b, 1)
	b.Scratch = sat.Add(b.Scratch, sat.Add(scratch, smallestBytes(most, s.NumNodes())))
	return b
}

func (k HGT) Open(env Env) (Worker, error) { return open(k.check, env, openHGT, openHGT) }

// budget holds the budgets of the nodes of one type that may be drawn.
type budget[V nodeID] struct {
	pool[V]
	of     []float64 // [pool] 0 for a node that was drawn
	behind unified.Buffer
}

type hgtWorker[V nodeID] struct {
	*inducer[V]
	fanouts hopFanouts
	budgets []budget[V]       // [node type]
	spent   []int             // [node type] nodes of the list whose in-edges count in budgets
	race    smallest[float64] // by place in the pool
	fresh   [chunkPicks]V
	some    [chunkPicks]int32
}

func openHGT[V nodeID](k hgtRules, env Env, a *assembly[V]) (Worker, error) {
	s := a.schema
	w := &hgtWorker[V]{inducer: newInducer(a, env), fanouts: k.hops, budgets: make([]budget[V], len(s.Nodes)),
		spent: make([]int, len(s.Nodes))}
	for t := range w.budgets {
		w.budgets[t].pool.init(s.Nodes[t].Count, a.scratch)
		a.own(&w.budgets[t].behind)
	}
	a.own(w.race.buffers()...)
	return w, nil
}

func (w *hgtWorker[V]) Sample(ctx context.Context, req *Request, out *graph.Sample) error {
	if err := w.beginLists(req, out); err != nil {
		return err
	}
	clear(w.spent)
	for t := range w.budgets {
		if err := w.budgets[t].begin(); err != nil {
			return err
		}
	}
	for h := range w.fanouts {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for t := range w.lists {
			if err := w.spend(t); err != nil {
				return err
			}
		}
		for t := range w.lists {
			if err := w.draw(req.Rand, h, t, out); err != nil {
				return fmt.Errorf("hop %d, node type %q: %w", h, w.schema.Nodes[t].Name, err)
			}
		}
	}
	if err := w.blocks(out); err != nil {
		return err
	}
	return w.finish(req, out)
}

// spend gives budgets to the in-neighbours of those nodes of a type that were appended since the last call.
func (w *hgtWorker[V]) spend(t int) error {
	l := &w.lists[t]
	if w.pages.Pages != nil {
		ids := l.ids[w.spent[t]:l.n]
		if err := w.bringNodes(ids, l.offset); err != nil {
			return err
		}
		for _, array := range []int{w.pages.types, w.pages.indices} {
			if err := w.bringEdges(array, ids, l.offset); err != nil {
				return err
			}
		}
	}
	for ; w.spent[t] < l.n; w.spent[t]++ {
		from, to, err := w.column(l.ids[w.spent[t]] + l.offset)
		if err != nil {
			return err
		}
		for from < to {
			end := w.runEnd(from, to)
			src := w.schema.Edges[w.types.at(from)].Src
			for at := from; at < end; at += chunkPicks {
				if err := w.give(src, at, min(at+chunkPicks, end), 1/float64(end-from)); err != nil {
					return err
				}
			}
			from = end
		}
	}
	return nil
}

// give adds to the budgets of those sources of the edges from .. to-1, all of one type, that are not in the batch.
func (w *hgtWorker[V]) give(t int, from, to int64, amount float64) (err error) {
	ids, l, b := w.indices[from:to], &w.lists[t], &w.budgets[t]
	for i, v := range ids {
		if uint64(v-l.offset) >= uint64(l.count) {
			return errSource(w.schema, t, from+int64(i), int64(v))
		}
	}
	w.assembly.local.prefetch(ids)
	w.assembly.local.find(ids, w.some[:])
	n := 0
	for i, v := range ids {
		w.fresh[n] = v
		n += int(bit(w.some[i] < 0))
	}
	have := b.nodes.n
	if err := b.add(w.fresh[:n], w.some[:]); err != nil {
		return err
	}
	if b.of, err = unified.Grow[float64](&b.behind, int64(b.nodes.n), int64(have)); err != nil {
		return err
	}
	clear(b.of[have:b.nodes.n])
	for _, at := range w.some[:n] {
		b.of[at] += amount
	}
	return nil
}

// draw draws nodes of a type.
func (w *hgtWorker[V]) draw(r Rand, h, t int, out *graph.Sample) (err error) {
	b, l, k := &w.budgets[t], &w.lists[t], w.fanouts[h][t]
	n := b.nodes.n
	if k == 0 || n == 0 {
		return nil
	}
	if k < 0 || k > n {
		k = n
	}
	if err := w.race.begin(k, int64(n)); err != nil {
		return err
	}
	stage := r.Stage(w.schema.Nodes[t].Key, purposeBudget, uint8(h))
	for at, v := range b.nodes.ids[:n] {
		if x := b.of[at]; x > 0 {
			u := rng.Unit(stage.Stream(uint64(v - l.offset)).Draw(0))
			w.race.add(-rng.Log(u)/(x*x), int64(at))
		}
	}
	drawn := w.race.end()
	for len(drawn) > 0 {
		some := drawn[:min(chunkPicks, len(drawn))]
		drawn = drawn[len(some):]
		for i, at := range some {
			w.fresh[i], b.of[at] = b.nodes.ids[at], 0
		}
		if err := w.place(w.fresh[:len(some)], w.some[:], out); err != nil {
			return err
		}
	}
	return nil
}
