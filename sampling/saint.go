package sampling

import (
	"context"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/unified"
)

// purposeSaint is the purpose of draws of subgraphs.
const purposeSaint = Purpose(12)

// SaintKind says what the subgraphs of Saint are drawn from.
type SaintKind uint8

const (
	// SaintNodes draws the sources of edges, all edges with equal probability: nodes in proportion to their out-edges.
	SaintNodes SaintKind = iota
	// SaintEdges draws nodes with equal probability, and one in-edge of each; it takes both ends. If all edges are
	// stored in both directions, an edge is drawn in proportion to 1/deg(u) + 1/deg(v), as in the paper.
	SaintEdges
	// SaintWalks draws roots, all nodes with equal probability, and takes a walk from each.
	SaintWalks
)

var saintKinds = []string{"node", "edge", "walk"}

// String returns the name of the kind: "node", "edge" or "walk".
func (k SaintKind) String() string { return saintKinds[min(int(k), len(saintKinds)-1)] }

// Saint makes each batch from a subgraph that is drawn from the whole graph, with all edges between its nodes:
// GraphSAINT. Batches have no seeds; an epoch is a number of steps. Blocks are those of Induced; all nodes are
// destinations, and seed columns are delivered for all of them.
//
// With Coverage there are norms, which make loss and aggregation unbiased. The array "node_norm/T" for each node type
// (float32, an entry for each node) multiplies the loss of a node; "edge_norm/E" for each edge type (float32, an entry
// for each edge) multiplies a message. They are estimated from subgraphs that are drawn once, before the first batch,
// and are always the same.
//
// Cost: that of Induced over the nodes drawn; for the norms 4 bytes a node and an edge of the graph, for all workers
// together. Source: Zeng et al., "GraphSAINT: graph sampling based inductive learning method", ICLR
// 2020. docs/sampling.md states the result in full.
type Saint struct {
	Kind SaintKind
	// Budget is the draws of a subgraph: of nodes, edges or roots.
	Budget int `id:"budget" default:"6000" range:"1," help:"Nodes, edges or roots drawn per subgraph."`
	// Length is the steps of a walk, for SaintWalks; 0 is 2.
	Length int `same:"length" id:"length" for:"saint-walk" default:"2" zero:"0"`
	// Steps is the batches of an epoch. 0: enough of them to draw as many nodes as the graph has.
	Steps int `id:"steps" default:"0" range:"0," help:"..."`
	// Norms are estimated from subgraphs that have, together, Coverage nodes for each node of the graph, on average. 0
	// means no norms.
	Coverage int `id:"coverage" default:"50" zero:"0" range:"0," help:"..."`
}

// steps returns the steps of a walk from each draw.
func (k Saint) steps() int {
	switch {
	case k.Kind == SaintNodes:
		return 0
	case k.Kind == SaintEdges:
		return 1
	case k.Length == 0:
		return 2
	}
	return k.Length
}

func (k Saint) validate(s *graph.Schema) error {
	if k.Kind > SaintWalks || k.Budget < 1 || k.Budget > math.MaxInt32 || k.Length < 0 || k.Length > mostSteps ||
		k.Steps < 0 || k.Coverage < 0 {
		return fmt.Errorf("%w: saint: kind %d, budget %d, length %d, steps %d, coverage %d: a budget of 1 or more, "+
			"at most %d steps a walk, and nothing negative", ErrOptions, k.Kind, k.Budget, k.Length, k.Steps,
			k.Coverage, mostSteps)
	}
	return nil
}

func (k Saint) Fingerprint() string {
	k.Length = k.steps()
	return option.Fingerprint("saint-"+k.Kind.String(), k)
}

// Describe implements Sampler: an item is a step.
func (k Saint) Describe(s *graph.Schema, batchSize int) (Description, error) {
	d, err := describe(checked(k), s, batchSize)
	steps := int64(k.Steps)
	if steps == 0 {
		n := sat.Mul(int64(max(k.Budget, 1)), int64(k.steps()+1))
		steps = (s.NumNodes() + n - 1) / n
	}
	d.Items = &Items{Count: steps, PerBatch: 1}
	return d, err
}

func (k Saint) bound(s *graph.Schema, _ int) Bound {
	most := sat.Mul(int64(k.Budget), int64(k.steps()+1))
	b := boundNodes(s, most)
	inducedBound(s, &b, 1)
	b.Scratch = sat.Add(b.Scratch, sat.Add(sat.Mul(s.IDType().Size()+4, most), sat.Mul(16, int64(k.Budget))))
	if k.Coverage == 0 {
		return b
	}
	for t := range s.Nodes {
		b.Arrays = append(b.Arrays, ArrayBound{graph.Column{Name: "node_norm/" + s.Nodes[t].Name,
			DType: unified.Float32}, min(b.Nodes, s.Nodes[t].Count)})
	}
	for e := range s.Edges {
		b.Arrays = append(b.Arrays, ArrayBound{graph.Column{Name: "edge_norm/" + s.Edges[e].String(),
			DType: unified.Float32}, b.Blocks[0][e]})
	}
	b.Shared = sat.Mul(4, sat.Add(s.NumNodes(), s.NumEdges()))
	return b
}

// Open implements Sampler. Without Prepare the worker estimates norms for itself.
func (k Saint) Open(env Env) (Worker, error) {
	if k.Coverage == 0 {
		return k.open(env, nil)
	}
	return openPrepared(k, env)
}

func (k Saint) open(env Env, counts *saintCounts) (Worker, error) {
	return open(checked(countedSaint{k, counts}), env, openSaint, openSaint)
}

// preparedSaint is Saint with the counts that norms come from.
type preparedSaint struct {
	Saint
	scratch
	counts saintCounts
}

// saintCounts says how many of some subgraphs had each node and each edge.
type saintCounts struct {
	graphs       int64
	nodes, edges []uint32
	behind       [2]unified.Buffer
}

// Prepare implements PreparedSampler: it draws the subgraphs that norms are estimated from.
func (k Saint) Prepare(ctx context.Context, env Env) (Sampler, error) {
	if err := k.validate(env.Graph.Schema()); err != nil || k.Coverage == 0 {
		return k, err
	}
	p := &preparedSaint{Saint: k, scratch: scratch{options: env.Scratch}}
	if err := p.count(ctx, env); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *preparedSaint) Open(env Env) (Worker, error) { return p.open(env, &p.counts) }

func (p *preparedSaint) count(ctx context.Context, env Env) (err error) {
	g, c := env.Graph, &p.counts
	sizes := [2]int64{g.NumNodes(), g.NumEdges()}
	for i, to := range []*[]uint32{&c.nodes, &c.edges} {
		p.own(&c.behind[i])
		if *to, err = exactly[uint32](&c.behind[i], sizes[i]); err != nil {
			return err
		}
		clear(*to)
	}
	plain, s := p.Saint, g.Schema()
	plain.Coverage = 0
	env.EdgePos = true
	w, err := plain.open(env, nil)
	if err != nil {
		return err
	}
	var out graph.Sample
	b := plain.bound(s, 1)
	b.Init(&out, s, env.Scratch)
	defer func() { err = errors.Join(err, w.Close(), out.Close()) }()
	for total, wanted := int64(0), sat.Mul(int64(p.Coverage), sizes[0]); total < wanted; c.graphs++ {
		if c.graphs > wanted { // a graph without edges
			break
		}
		req := &Request{Rand: NewRand(0, math.MaxUint32, math.MaxUint32, uint64(c.graphs))}
		if err := w.Sample(ctx, req, &out); err != nil {
			return err
		}
		report(env.Progress, min(total, wanted), wanted)
		for t := range out.Nodes {
			total += out.NumNodes[1][t]
			countAll(c.nodes[g.Offset(t):], out.Nodes[t])
		}
		for e := range out.Blocks[0] {
			countAll(c.edges, out.Blocks[0][e].EdgePos)
		}
	}
	return nil
}

func countAll(counts []uint32, at unified.Tensor) {
	if number, err := unified.Integers(at); err == nil {
		for i := range at.Len() {
			counts[number(i)]++
		}
	}
}

// saintWorker draws a subgraph for each batch.
type saintWorker[V nodeID] struct {
	*inducer[V]
	Saint
	at    []V // [draw][step+1]; -1 for no node
	local []int32
	pos   []int64
	draws []uint64
}

// countedSaint is Saint with the counts that norms come from, or none.
type countedSaint struct {
	Saint
	counts *saintCounts
}

func openSaint[V nodeID](k countedSaint, env Env, a *assembly[V]) (Worker, error) {
	w := &saintWorker[V]{inducer: newInducer(a, env), Saint: k.Saint}
	w.counts = k.counts
	n := k.Budget * (k.steps() + 1)
	w.at, w.local = make([]V, n), make([]int32, n)
	w.pos, w.draws = make([]int64, k.Budget), make([]uint64, k.Budget)
	return w, nil
}

func (w *saintWorker[V]) Sample(ctx context.Context, req *Request, out *graph.Sample) error {
	empty := emptyRequest(w.schema, req)
	if err := w.beginLists(empty, out); err != nil {
		return err
	}
	if err := w.draw(req.Rand); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return w.induce(w.at, w.local, empty, out)
}

// draw draws the nodes of a subgraph.
func (w *saintWorker[V]) draw(r Rand) error {
	stage, stride := r.Stage(0, purposeSaint, 0), w.steps()+1
	numNodes, numEdges := uint64(len(w.indptr)-1), uint64(len(w.indices))
	for j := range w.Budget {
		w.draws[j] = stage.Stream(uint64(j)).state
		first := rng.Draw(w.draws[j], 0)
		if w.Kind == SaintNodes {
			w.pos[j] = -1
			if numEdges > 0 {
				w.pos[j] = int64(rng.Bounded(first, numEdges))
			}
			continue
		}
		w.at[j*stride] = -1
		if numNodes > 0 {
			w.at[j*stride] = V(rng.Bounded(first, numNodes))
		}
	}
	if w.Kind == SaintNodes {
		return w.follow(0, 1)
	}
	for s := 1; s < stride; s++ {
		if err := w.pick(s, stride); err != nil {
			return err
		}
		if err := w.follow(s, stride); err != nil {
			return err
		}
	}
	return nil
}

// pick chooses an in-edge of the node that each draw is at.
func (w *saintWorker[V]) pick(s, stride int) error {
	for j := range w.Budget {
		if ahead := j + walkBlock; ahead < w.Budget {
			if v := w.at[ahead*stride+s-1]; v >= 0 {
				prefetchNodes8(unsafe.Pointer(&w.indptr[0]), w.at[ahead*stride+s-1:ahead*stride+s])
			}
		}
		v := w.at[j*stride+s-1]
		w.pos[j] = -1
		if v < 0 {
			continue
		}
		from, to, err := w.column(v)
		if err != nil {
			return err
		}
		if from < to {
			w.pos[j] = from + int64(rng.Bounded(rng.Draw(w.draws[j], uint64(s)), uint64(to-from)))
		}
	}
	return nil
}

// follow takes each draw to the source of the edge that it chose. A draw of an edge of a node that has none is void.
func (w *saintWorker[V]) follow(s, stride int) error {
	if w.pages.Pages != nil {
		if err := w.pages.bringAt(w.pages.indices, w.pos); err != nil {
			return err
		}
	}
	for b := 0; b < w.Budget; b += walkBlock {
		end := min(b+walkBlock, w.Budget)
		prefetchPositions(w.indices, w.pos[min(b+walkBlock, w.Budget):min(end+walkBlock, w.Budget)])
		for j := b; j < end; j++ {
			v := V(-1)
			if p := w.pos[j]; p >= 0 {
				if v = w.indices[p]; uint64(v) >= uint64(len(w.indptr)-1) {
					return w.errNode(p, v)
				}
			} else if w.Kind == SaintEdges {
				w.at[j*stride] = -1
			}
			w.at[j*stride+s] = v
		}
	}
	return nil
}
