package sampling

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/unified"
)

// PinSage takes as neighbours of a node those that short walks from it visit most: edges of its blocks need not be
// edges of the graph. Layer l has an array "weight/l" (float32, an entry for each edge): the visits of the neighbour,
// divided by the sum of all visits taken. Neighbours are in order of falling visits, then of id.
//
// Nodes and neighbours are of one type, and the blocks are those of an edge type that joins it to itself. Cost: that of
// Walk; on a device the steps of each node are also sorted. Source: Ying et al., "Graph convolutional neural networks
// for web-scale recommender systems", KDD 2018. docs/sampling.md states the result in full.
type PinSage struct {
	// Neighbors is the most neighbours of a node, 1 or more.
	Neighbors int `id:"neighbors" default:"32" zero:"0" help:"The most neighbours per node."`
	// Hops is the layers, each of which expands all nodes so far. Hops times Walks are at most 256.
	Hops     int      `id:"hops" default:"1" help:"Layers; each expands all nodes so far."`
	Walks    int      `same:"walks" id:"walks" default:"10"`           // of a node
	Length   int      `same:"length" id:"length" default:"2" zero:"2"` // steps of a walk
	Restart  float64  `same:"restart" id:"restart"`                    // as in Walk
	Stop     float64  `same:"stop" id:"stop"`                          // as in Walk
	Metapath []string `same:"metapath" id:"metapath"`                  // it leads back to the type of the nodes
	// As is the edge type of the blocks. "" means the only edge type whose source and target are the nodes' type. It
	// may be one without edges.
	As string `name:"edge-type" id:"as" value:"TYPE" help:"..."`
}

// PPR takes as neighbours of a seed the nodes of highest approximate personalised PageRank: its blocks' edges need not
// be edges of the graph. The walk that defines it follows in-edges, as Walk does. The array "weight/0" (float32, an
// entry for each edge) has the score of the neighbour, divided by the sum of all scores taken. Neighbours, of which the
// seed is one, are in order of falling score, then of id.
//
// All is integer arithmetic: no draws, and the same result on every machine. Cost: at most 1 / (Alpha Epsilon) edges a
// seed, whatever the graph. Nodes, neighbours and blocks are of types as in PinSage. It runs on the CPU. Sources:
// forward push of Andersen, Chung and Lang, "Local graph partitioning using PageRank vectors", FOCS 2006; Bojchevski et
// al., "Scaling graph neural networks with approximate PageRank", KDD 2020. docs/sampling.md states the result in full.
type PPR struct {
	Neighbors int `same:"neighbors" id:"neighbors" default:"32" zero:"0"` // of a seed, 1 or more
	// Alpha is the probability with which the walk ends at a node; at least 0.001.
	Alpha float64 `id:"alpha" default:"0.15" help:"Probability that the walk behind PageRank ends at a node."`
	// Epsilon is the residual, for each in-edge, that is not pushed on; at least 1e-9.
	Epsilon float64 `id:"epsilon" default:"0.0001" help:"Residual of PageRank that may remain per in-edge."`
	As      string  `same:"edge-type" id:"as"` // as in PinSage
}

// visitRules has the options of PinSage and PPR in one form, checked against a schema.
type visitRules struct {
	walks         walkRules
	hops, most    int
	as            int // edge type
	alpha, spread uint64
	push          bool
}

func (k PinSage) rules(s *graph.Schema) (p visitRules, err error) {
	p.hops, p.most = max(k.Hops, 1), k.Neighbors
	walks := max(k.Walks, 10*int(bit(k.Walks == 0)))
	if k.Neighbors < 1 || k.Hops < 0 || k.Walks < 0 || p.hops*walks > mostWalks {
		return p, fmt.Errorf("%w: pinsage: %d neighbours, %d hops of %d walks: there must be a neighbour, and at most "+
			"%d walks over all hops", ErrOptions, k.Neighbors, p.hops, walks, mostWalks)
	}
	p.walks, err = Walk{Length: k.Length, PerSeed: walks, Restart: k.Restart, Stop: k.Stop, Metapath: k.Metapath,
		Edges: true}.rules(s)
	if err != nil {
		return p, err
	}
	nodes := -1
	if len(p.walks.path) > 0 {
		nodes = s.Edges[p.walks.path[0]].Dst
	}
	p.as, err = joining(s, k.As, nodes)
	return p, err
}

func (k PPR) rules(s *graph.Schema) (p visitRules, err error) {
	alpha, epsilon := cmp.Or(k.Alpha, 0.15), cmp.Or(k.Epsilon, 1e-4)
	if k.Neighbors < 1 || !(alpha >= 0.001 && alpha < 1 && epsilon >= 1e-9 && epsilon <= 1) {
		return p, fmt.Errorf("%w: ppr: %d neighbours, alpha %v, epsilon %v: there must be a neighbour, 0.001 <= alpha "+
			"< 1, 1e-9 <= epsilon <= 1", ErrOptions, k.Neighbors, k.Alpha, k.Epsilon)
	}
	p.hops, p.most, p.push = 1, k.Neighbors, true
	p.alpha, p.spread = uint64(alpha*(1<<32)), uint64(epsilon*pushUnit)
	p.as, err = joining(s, k.As, -1)
	return p, err
}

// joining returns the edge type that joins a node type, -1 for any, to itself.
func joining(s *graph.Schema, name string, nodes int) (int, error) {
	fits := func(e int) bool { return s.Edges[e].Src == s.Edges[e].Dst && (nodes < 0 || s.Edges[e].Dst == nodes) }
	if name != "" {
		e, err := s.EdgeType(name)
		if err == nil && !fits(e) {
			err = fmt.Errorf("edge type %v does not join the nodes' type to itself", &s.Edges[e])
		}
		if err != nil {
			return -1, fmt.Errorf("%w: as: %w", ErrOptions, err)
		}
		return e, nil
	}
	var found []int
	for e := range s.Edges {
		if fits(e) {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		return -1, fmt.Errorf("%w: neighbours need an edge type that joins their node type to itself, and %d do: name "+
			"one (as), or give the dataset one, which may have no edges", ErrOptions, len(found))
	}
	return found[0], nil
}

func (k PinSage) Fingerprint() string {
	return option.Fingerprint("pinsage", option.Filled(k))
}

func (k PPR) Fingerprint() string {
	return option.Fingerprint("ppr", option.Filled(k))
}

func (k PinSage) Describe(s *graph.Schema, batchSize int) (Description, error) {
	return describe(k.rules, s, batchSize)
}

func (k PPR) Describe(s *graph.Schema, batchSize int) (Description, error) {
	return describe(k.rules, s, batchSize)
}

func (p visitRules) bound(s *graph.Schema, batchSize int) Bound {
	of := s.Nodes[s.Edges[p.as].Dst].Count
	most := int64(p.most)
	if !p.push {
		most = min(most, int64(p.walks.length)*int64(p.walks.perSeed))
	}
	most = min(most, of)
	lists := []int64{min(int64(batchSize), of)} // by hop
	for range p.hops {
		n := lists[len(lists)-1]
		lists = append(lists, min(of, sat.Add(n, sat.Mul(n, most))))
	}
	b := boundNodes(s, sat.Add(int64(batchSize), lists[p.hops]))
	b.Layers, b.Blocks = p.hops, make([][]int64, p.hops)
	for h := range p.hops {
		layer := p.hops - 1 - h
		b.Blocks[layer] = make([]int64, len(s.Edges))
		edges := sat.Mul(lists[h], most)
		b.Blocks[layer][p.as] = edges
		b.Edges = sat.Add(b.Edges, edges)
	}
	for layer := range p.hops {
		b.Arrays = append(b.Arrays, ArrayBound{graph.Column{Name: fmt.Sprintf("weight/%d", layer),
			DType: unified.Float32}, b.Blocks[layer][p.as]})
	}
	if !p.push {
		steps := int64(p.walks.length) * int64(p.walks.perSeed) // of a root: nodes, and their scores
		b.Scratch = sat.Add(b.Scratch, sat.Add(p.walks.scratch(s), sat.Mul(32, steps)))
	} else {
		touched := min(s.NumNodes(), int64(float64(1<<32)/float64(p.alpha)*pushUnit/float64(p.spread))+1)
		b.Scratch = sat.Add(b.Scratch, sat.Add(sat.Mul(32, hashSlots(touched)), sat.Mul(64, touched)))
	}
	return b
}

func (k PinSage) Open(env Env) (Worker, error) { return open(k.rules, env, openVisits, openVisits) }
func (k PPR) Open(env Env) (Worker, error)     { return open(k.rules, env, openVisits, openVisits) }

// errNoPositions refuses to deliver positions.
func errNoPositions(env Env) error {
	if !env.EdgePos {
		return nil
	}
	return fmt.Errorf("%w: edges to neighbours that walks or scores choose are not edges of the graph, so they have "+
		"no positions and no columns", ErrOptions)
}

// scored is a node and its score.
type scored[V nodeID] struct {
	node  V // fused
	score uint64
}

// visitWorker makes blocks of the nodes that score highest.
type visitWorker[V nodeID] struct {
	*assembly[V]
	visitRules
	walk *walkWorker[V] // of PinSage
	push *pusher[V]     // of PPR
	best []scored[V]    // of the node at hand
	ids  []V            // of the neighbours that were taken
}

func openVisits[V nodeID](p visitRules, env Env, a *assembly[V]) (Worker, error) {
	w := &visitWorker[V]{assembly: a, visitRules: p}
	if p.push {
		w.push = newPusher(a, p)
	} else {
		w.walk = walkerOver(p.walks, a)
	}
	return w, errNoPositions(env)
}

func (w *visitWorker[V]) Sample(ctx context.Context, req *Request, out *graph.Sample) error {
	if err := w.beginLists(req, out); err != nil {
		return err
	}
	if err := w.checkSeeds(w.schema, func(t int) int64 { return out.NumNodes[0][t] }); err != nil {
		return err
	}
	for h := range w.hops {
		if err := w.hop(ctx, h, req.Rand, out); err != nil {
			return err
		}
	}
	return w.finish(req, out)
}

func (w *visitWorker[V]) hop(ctx context.Context, h int, r Rand, out *graph.Sample) error {
	layer, nodes := w.hops-1-h, w.schema.Edges[w.as].Dst
	n := int(out.NumNodes[h][nodes])
	out.ViewOf[layer] = layer
	indptr, err := unified.Grow[int32](&out.Buffers.Indptr[layer][w.as], int64(n)+1, 0)
	if err != nil {
		return err
	}
	indptr[0] = 0
	to := edgeSink{layer: layer, e: w.as}
	size := 1
	if w.walk != nil {
		w.walk.key(r, h*w.walk.perSeed)
		size = w.walk.size / w.walk.perSeed
	}
	for i := 0; i < n; i += size {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		m := min(size, n-i)
		if w.walk != nil {
			w.walk.start(nodes, i*w.walk.perSeed, m*w.walk.perSeed)
			if err := w.walk.walk(); err != nil {
				return err
			}
		}
		for k := range m {
			if err := w.score(ctx, nodes, i, k); err != nil {
				return err
			}
			if err := w.take(&to, out); err != nil {
				return err
			}
			indptr[i+k+1] = int32(to.n)
		}
	}
	return w.closeHop(h, to.n, out)
}

// score sets best to the candidates of destination i+k, node k of the group.
func (w *visitWorker[V]) score(ctx context.Context, nodes, i, k int) error {
	w.best = w.best[:0]
	l := &w.lists[nodes]
	if w.push != nil {
		return w.push.scores(ctx, l.ids[i+k]+l.offset, l, &w.best)
	}
	w.best = w.walk.visits(k, l, w.best)
	return nil
}

// edgeSink is a block that grows, and the weights of its edges.
type edgeSink struct{ layer, e, n int }

// take makes neighbours of the best nodes.
func (w *visitWorker[V]) take(to *edgeSink, out *graph.Sample) error {
	slices.SortFunc(w.best, func(a, b scored[V]) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.node, b.node))
	})
	best := w.best[:min(len(w.best), w.most)]
	w.ids = w.ids[:0]
	sum := uint64(0)
	for _, b := range best {
		w.ids = append(w.ids, b.node)
		sum += b.score
	}
	all, have := int64(to.n+len(best)), int64(to.n)
	if all > maxBlockEdges {
		return errTooManyEdges(all)
	}
	local, err := unified.Grow[int32](&out.Buffers.Indices[to.layer][to.e], all, have)
	if err != nil {
		return err
	}
	weights, err := unified.Grow[float32](&out.Buffers.Arrays[to.layer], all, have)
	if err != nil {
		return err
	}
	for i, b := range best {
		weights[to.n+i] = float32(float64(b.score) / float64(sum))
	}
	if err := w.place(w.ids, local[to.n:], out); err != nil {
		return err
	}
	to.n += len(best)
	return nil
}

// closeHop ends a hop, whose one block has that many edges.
func (w *visitWorker[V]) closeHop(h, edges int, out *graph.Sample) (err error) {
	layer := w.hops - 1 - h
	if err := w.closeBlocks(h, layer, w.as, edges, out); err != nil {
		return err
	}
	a := &out.Arrays[layer]
	a.Rows, err = out.Buffers.Arrays[layer].Tensor(unified.Float32, int64(edges))
	return err
}

// visits counts the nodes of a list's type that walks of root k of the group stepped to.
func (w *walkWorker[V]) visits(k int, l *list[V], best []scored[V]) []scored[V] {
	w.seen = w.seen[:0]
	for row := k * w.perSeed; row < (k+1)*w.perSeed; row++ {
		for s := range w.length {
			v := w.nodes[row*(w.length+1)+s+1]
			if w.edge[row*w.length+s] >= 0 && uint64(v-l.offset) < uint64(l.count) {
				w.seen = append(w.seen, v)
			}
		}
	}
	slices.Sort(w.seen)
	for i, v := range w.seen {
		if i > 0 && v == w.seen[i-1] {
			best[len(best)-1].score++
		} else {
			best = append(best, scored[V]{v, 1})
		}
	}
	return best
}
