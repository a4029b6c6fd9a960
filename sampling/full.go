package sampling

import (
	"context"
	"fmt"
	"sort"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/unified"
)

// Full takes all in-edges of all nodes, one range of nodes after another, for inference layer by layer: an epoch is one
// layer of a model. Batches have no seeds and come in order. The first nodes of a batch are a range of nodes, which are
// the destinations; the others are their sources. Each node is a destination in one batch, unless it has more in-edges
// than a batch takes.
//
// Such a hub is a destination of several batches in a row, each with some of its edges. The array "degree/E" (int64, an
// entry for each destination) has all in-edges of type E, so a destination with fewer edges in its block is such a hub:
// add up its sums over edges over the batches.
//
// Cost: all nodes and edges, once, in memory of a batch. It runs on the CPU. Sources: the method inference of PyG's and
// DGL's examples. docs/sampling.md states the result in full.
type Full struct {
	// Work is about how many nodes and in-edges a batch has; it has at most twice as many.
	Work int `id:"work" default:"65536" range:"0," help:"..."`
}

func (k Full) work() int64 {
	return int64(option.Filled(k).Work)
}

func (k Full) validate(*graph.Schema) error {
	if k.Work < 0 || k.Work == 1 || k.Work > maxBlockEdges/2 {
		return fmt.Errorf("%w: full: %d nodes and edges a batch: must be 2 to %d", ErrOptions, k.Work, maxBlockEdges/2)
	}
	return nil
}

func (k Full) Fingerprint() string { return option.Fingerprint("full", option.Filled(k)) }

// Describe implements Sampler: an item is a range.
func (k Full) Describe(s *graph.Schema, batchSize int) (Description, error) {
	d, err := describe(checked(k), s, batchSize)
	all := sat.Add(s.NumNodes(), s.NumEdges())
	d.Items = &Items{Count: (all + k.work() - 1) / k.work(), PerBatch: 1, InOrder: true}
	return d, err
}

func (k Full) bound(s *graph.Schema, _ int) Bound {
	most := sat.Mul(2, k.work())
	b := boundNodes(s, sat.Mul(2, most))
	for e := range s.Edges {
		b.Blocks[0][e] = min(most, s.Edges[e].Count)
		b.Edges = sat.Add(b.Edges, b.Blocks[0][e])
		b.Arrays = append(b.Arrays, ArrayBound{graph.Column{Name: "degree/" + s.Edges[e].String(),
			DType: unified.Int64}, min(most, s.Nodes[s.Edges[e].Dst].Count)})
	}
	b.Scratch = sat.Add(b.Scratch, sat.Mul(8, most))
	return b
}

func (k Full) Open(env Env) (Worker, error) { return open(checked(k), env, openFull, openFull) }

// fullWorker is Full's picker and its assembly.
type fullWorker[V nodeID] struct {
	*assembly[V]
	work    int64
	request Request
	window  [2]int64          // positions that the batch takes of a hub
	picks   neighborPicker[V] // of all edges within the window
	out     *graph.Sample
}

func openFull[V nodeID](k Full, _ Env, a *assembly[V]) (Worker, error) {
	w := &fullWorker[V]{assembly: a, work: k.work(), picks: neighborPicker[V]{a: a, fanout: All}}
	w.request.Seeds = make([][]int64, len(a.lists))
	return w, nil
}

func (w *fullWorker[V]) Sample(ctx context.Context, req *Request, out *graph.Sample) error {
	if len(req.Items) != 1 || req.Items[0] < 0 {
		return fmt.Errorf("%w: full: items %v: a batch has one", ErrOptions, req.Items)
	}
	if err := w.checkArrays(out); err != nil {
		return err
	}
	for t := range w.request.Seeds {
		w.request.Seeds[t] = w.request.Seeds[t][:0]
	}
	if err := w.nodes(req.Items[0]); err != nil {
		return err
	}
	w.out, w.request.Rand = out, req.Rand
	if err := w.sample(ctx, &w.request, out, fullPicker[V]{w}); err != nil {
		return err
	}
	for t := range out.SeedLocal { // the request had no seeds
		none, err := out.SeedLocal[t].Rows(0, 0)
		if err != nil {
			return err
		}
		out.SeedLocal[t] = none
	}
	return nil
}

// before returns the nodes and in-edges before a node.
func (w *fullWorker[V]) before(v int64) int64 { return w.indptr[v] + v }

// nodes makes the destinations of range k the seeds: those that begin in it, and a hub that goes on.
func (w *fullWorker[V]) nodes(k int64) error {
	numNodes := int64(len(w.indptr) - 1)
	from, to := k*w.work, (k+1)*w.work
	w.window = [2]int64{0, int64(len(w.indices))}
	v := int64(sort.Search(int(numNodes), func(v int) bool { return w.before(int64(v)) >= from }))
	add := func(v int64) {
		t := w.typeOf(V(v))
		w.request.Seeds[t] = append(w.request.Seeds[t], v-int64(w.lists[t].offset))
	}
	hub := func(v int64) bool { return w.before(v+1)-w.before(v) > w.work }
	if v > 0 && hub(v-1) && w.before(v) > from { // it began earlier
		w.window[0] = from - v // edges before: the work before it, less the nodes
		if w.before(v) > to {
			w.window[1] = to - v
		}
		add(v - 1)
	}
	for ; v < numNodes && w.before(v) < to; v++ {
		if from, to := w.indptr[v], w.indptr[v+1]; uint64(from) > uint64(to) || uint64(to) > uint64(len(w.indices)) {
			return errColumn(v, from, to, len(w.indices))
		}
		if hub(v) {
			w.window[1] = to - v - 1
		}
		add(v)
	}
	return nil
}

// fullPicker keeps the methods of a picker apart from those of the assembly.
type fullPicker[V nodeID] struct{ w *fullWorker[V] }

func (fullPicker[V]) hop(Rand, []stage[V]) error { return nil }

func (p fullPicker[V]) count(st *stage[V], ends []int32) (int64, error) {
	w := p.w
	if err := w.ranges(st); err != nil {
		return 0, err
	}
	w.picks.begin(st)
	degrees, err := unified.Grow[int64](&w.out.Buffers.Arrays[st.edgeType], int64(st.hi), 0)
	if err != nil {
		return 0, err
	}
	n := int64(0)
	for i := range st.hi {
		degrees[i] = w.degree[i]
		from, to := w.start[i], w.start[i]+w.degree[i]
		from, to = max(from, min(w.window[0], to)), min(to, max(w.window[1], from))
		w.start[i], w.degree[i] = from, max(0, to-from)
		n += w.degree[i]
		ends[i] = int32(n)
	}
	w.out.Arrays[st.edgeType].Rows, err = w.out.Buffers.Arrays[st.edgeType].Tensor(unified.Int64, int64(st.hi))
	return n, err
}

func (p fullPicker[V]) fill(c *chunk[V]) { p.w.picks.fill(c) }
