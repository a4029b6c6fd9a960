package sampling

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/unified"
)

// FastGCN draws the nodes of each hop for all destinations together, from all nodes of the graph, with replacement and
// in proportion to their importance: the squared norm of the messages that they send to their destinations. A
// destination has those of its in-edges whose source was drawn, ascending by position. Layer l of a sample has an array
// "weight/l/E" for each edge type E (float32, one an edge): the sum of weight times message over the edges of a
// destination has, as its expectation, the weighted sum over all of its in-edges.
//
// Many of the nodes drawn have no edge to a destination; they are left out. Ladies draws no such nodes.
//
// Cost: O(in-edges) a destination; one pass over the graph beforehand, and 8 bytes a node. Source:
// Chen, Ma and Xiao, "FastGCN: fast learning with graph convolutional networks via importance sampling", ICLR 2018.
// docs/sampling.md states the result in full.
type FastGCN struct {
	// Nodes are how many nodes each hop draws, Nodes[0] for the seeds; All (-1) takes every in-edge, 0 none.
	Nodes []int `same:"layer-nodes" id:"nodes"`
	// Weight names a column of the edges, float32 or float64, with the factor of each edge's message: finite and not
	// negative. "" is the mean: 1 / in-edges of the type that the destination has.
	Weight string `same:"weight"`
}

// Ladies is FastGCN that draws only from the in-neighbours of the destinations, in proportion to the squared norm of
// the messages that they send to them.
//
// Cost: O(in-edges) a destination, twice. Source: Zou et al., "Layer-dependent importance sampling
// for training deep and large graph convolutional networks", NeurIPS 2019. docs/sampling.md states the result in full.
type Ladies struct {
	Nodes  []int  `same:"layer-nodes" id:"nodes"` // as in FastGCN
	Weight string `same:"weight"`                 // as in FastGCN
}

// layered has the options of FastGCN and Ladies in one form.
type layered struct {
	name   string
	nodes  []int
	values Neighbor                          // which names the column of the weights
	near   bool                              // draw from the in-neighbours of the destinations
	sums   []uint64                          // FastGCN: as in preparedFastGCN
	guide  func() (guide []int64, shift int) // FastGCN, for devices: likewise
}

func (k FastGCN) layered() layered {
	return layered{name: "fastgcn", nodes: k.Nodes, values: Neighbor{Weight: k.Weight}}
}
func (k Ladies) layered() layered {
	return layered{name: "ladies", nodes: k.Nodes, values: Neighbor{Weight: k.Weight}, near: true}
}

func (k FastGCN) Fingerprint() string { return option.Fingerprint("fastgcn", k) }
func (k Ladies) Fingerprint() string  { return option.Fingerprint("ladies", k) }

func (k FastGCN) Describe(s *graph.Schema, batchSize int) (Description, error) {
	return k.layered().describe(s, batchSize)
}

func (k Ladies) Describe(s *graph.Schema, batchSize int) (Description, error) {
	return k.layered().describe(s, batchSize)
}

func (k layered) describe(s *graph.Schema, batchSize int) (Description, error) {
	d, err := describe(checked(k), s, batchSize)
	d.EdgeColumns = k.values.edgeColumns()
	return d, err
}

func (k Ladies) Open(env Env) (Worker, error) { return k.layered().open(env, nil) }

// Open implements Sampler. Without Prepare the worker goes over the graph for itself.
func (k FastGCN) Open(env Env) (Worker, error) {
	return openPrepared(k, env)
}

// preparedFastGCN is FastGCN with the importance of all nodes.
type preparedFastGCN struct {
	FastGCN
	scratch
	sums   []uint64                          // of the importances up to and with each node, as integers
	guide  func() (guide []int64, shift int) // guideOf them: made once, where a device asks for it
	behind unified.Buffer
}

// Prepare implements PreparedSampler: it sums up the importance of all nodes.
func (k FastGCN) Prepare(ctx context.Context, env Env) (Sampler, error) {
	if err := k.layered().validate(env.Graph.Schema()); err != nil {
		return nil, err
	}
	p := &preparedFastGCN{FastGCN: k, scratch: scratch{options: env.Scratch}}
	p.own(&p.behind)
	err := p.behind.Claim(8 * env.Graph.NumNodes())
	if err == nil {
		at := importancesOf{k.layered(), ctx, &p.behind}
		p.sums, err = openByWidth(at, env, importances, importances)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.guide = sync.OnceValues(func() ([]int64, int) { return guideOf(p.sums) })
	return p, nil
}

func (p *preparedFastGCN) Open(env Env) (Worker, error) { return p.layered().open(env, p.sums) }

func (k layered) validate(s *graph.Schema) error {
	if len(k.nodes) == 0 || len(k.nodes) > maxHops {
		return fmt.Errorf("%w: %s: %d hops; there must be 1 to %d numbers of nodes", ErrOptions, k.name, len(k.nodes),
			maxHops)
	}
	for h, n := range k.nodes {
		if n < All || n > math.MaxInt32 {
			return fmt.Errorf("%w: %s: %d nodes for hop %d: must be -1 (all), 0 (none) or more", ErrOptions, k.name, n,
				h)
		}
	}
	return k.values.checkColumns(s)
}

// drawn returns how many different nodes a hop of n draws can have.
func (k layered) drawn(s *graph.Schema, n int) int64 {
	if n < 0 {
		return s.NumNodes()
	}
	return min(int64(n), s.NumNodes())
}

func (k layered) bound(s *graph.Schema, batchSize int) Bound {
	all, most, stage := int64(batchSize), k.candidates(s), int64(0)
	for _, n := range k.nodes {
		all = sat.Add(all, k.drawn(s, n))
	}
	b := boundNodes(s, all)
	b.Layers, b.Blocks = len(k.nodes), make([][]int64, len(k.nodes))
	for l := range b.Blocks {
		b.Blocks[l] = make([]int64, len(s.Edges))
		for e := range s.Edges {
			if k.nodes[len(k.nodes)-1-l] != 0 { // parallel edges may all lead to one of the nodes drawn
				b.Blocks[l][e] = s.Edges[e].Count
			}
			b.Edges, stage = sat.Add(b.Edges, b.Blocks[l][e]), max(stage, b.Blocks[l][e])
			b.Arrays = append(b.Arrays, ArrayBound{graph.Column{Name: fmt.Sprintf("weight/%d/%v", l, &s.Edges[e]),
				DType: unified.Float32}, b.Blocks[l][e]})
		}
	}
	perNode := int64(4)
	if k.near {
		perNode += 8
	} else {
		b.Shared = sat.Mul(8, s.NumNodes())
	}
	drawn := sat.Add(poolBytes(most), sat.Mul(perNode, most+chunkPicks))
	b.Scratch = sat.Add(b.Scratch, sat.Add(sat.Mul(8, stage), drawn))
	return b
}

// candidates returns how many different nodes the pool of a hop can have.
func (k layered) candidates(s *graph.Schema) int64 {
	if k.near {
		return min(s.NumNodes(), s.NumEdges())
	}
	return min(int64(max(0, slices.Max(k.nodes))), s.NumNodes())
}

func (k layered) open(env Env, sums []uint64) (Worker, error) {
	k.sums = sums
	return open(checked(k), env, openLayered, openLayered)
}

// layerWorker is an assembly and what draws the nodes of its hops.
type layerWorker[V nodeID] struct {
	*assembly[V]
	pick layerPicker[V]
}

func openLayered[V nodeID](k layered, env Env, a *assembly[V]) (Worker, error) {
	values, err := k.values.values(env.Graph)
	if err != nil {
		return nil, err
	}
	columns, err := EdgeColumns(env.Graph, k.values.edgeColumns())
	if err != nil {
		return nil, err
	}
	a.pages.looksAt(append(columns, env.Graph.Indices())...)
	w := &layerWorker[V]{assembly: a}
	w.pick = layerPicker[V]{a: a, opt: k, values: values, sums: k.sums}
	w.pick.sources = a.indices
	w.pick.pool.init(k.candidates(a.schema), a.scratch)
	a.own(&w.pick.timesMem, &w.pick.wholeMem, &w.pick.picksMem)
	return w, nil
}

func (w *layerWorker[V]) Sample(ctx context.Context, req *Request, out *graph.Sample) error {
	if err := w.checkArrays(out); err != nil {
		return err
	}
	w.pick.out = out
	if err := w.sample(ctx, req, out, &w.pick); err != nil {
		return err
	}
	for i := range out.Arrays {
		n := int64(w.made[i/len(w.edges)][i%len(w.edges)].numEdges)
		var err error
		if out.Arrays[i].Rows, err = out.Buffers.Arrays[i].Tensor(unified.Float32, n); err != nil {
			return err
		}
	}
	return nil
}
