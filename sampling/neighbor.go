package sampling

import (
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/enum"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/unified"
)

// Frontier says which nodes a hop expands.
type Frontier uint8

const (
	// NewNodes expands only the nodes that the previous hop was the first to reach (PyG). Layers are then prefix views
	// of one CSC: Blocks[l+1] begins as Blocks[l] does, in the same memory.
	NewNodes Frontier = iota
	// AllNodes expands every node reached so far at each hop, with picks of that hop (DGL, GraphBolt).
	AllNodes
)

var frontiers = []string{"new", "all"}

// String returns the frontier's name on the command line: "new" or "all".
func (f Frontier) String() string { return enum.Name(frontiers, f) }

// Neighbor samples in-neighbours: for each destination and edge type up to a fan-out of its in-edges, every subset of
// that size with equal probability (up to 2^-32), or with Replace that many independent picks. Without replacement
// picks are ascending by edge position, with replacement in the order of the draws.
//
// With Weight the picks are in proportion to weights. Without replacement this is as if edges were drawn one after the
// other, each in proportion to its weight among the remaining ones; with Replace each pick is independent. Edges of
// weight 0 are never followed, even if fewer edges than the fan-out have another weight.
//
// Cost: O(fan-out) a destination, whatever its degree; O(degree) with Weight or Mask. Method: node-wise neighbour
// sampling, Hamilton, Ying and Leskovec, "Inductive Representation Learning on Large Graphs", NeurIPS 2017; subsets by
// R. W. Floyd, in Bentley, "Programming pearls: a sample of brilliance", CACM 30(9), 1987; weighted subsets by
// exponential races, Efraimidis and Spirakis, "Weighted random sampling with a reservoir", Information Processing
// Letters 97(5), 2006. docs/sampling.md states the result in full.
type Neighbor struct {
	// Fanouts are the picks of each hop, Fanouts[0] out of the seeds; All (-1) takes every in-edge, 0 none.
	Fanouts []int `id:"fanouts" default:"15,10,5" help:"..."`
	// PerType overrides Fanouts for single edge types, named by relation or as source:relation:target. Types in neither
	// are not followed. A list shorter than the longest ends early.
	PerType map[string][]int
	// Replace picks with replacement.
	Replace bool `id:"replace" help:"Sample with replacement."`
	// Frontier says which nodes a hop expands. Default NewNodes.
	Frontier Frontier `id:"frontier" default:"new" help:"Nodes that a hop expands: new ones, or all reached so far."`
	// Disjoint keeps the trees of a batch's items apart: a node is in a list once for every tree that reaches it, and
	// each repeat of a seed has a tree of its own. The sample has an array "tree/T" for each node type T: int32, the
	// number of the item whose tree each node of the list is in.
	Disjoint bool `help:"Keep the seeds' trees apart: each has its own copy of a node."`
	// Weight names a column of the edges with their weights, float32 or float64; "" is uniform. Weights must be finite
	// and not negative: a batch that reads another fails with ErrGraph.
	Weight string `empty:"none" value:"COLUMN" help:"Edge column of weights; default: all alike."`
	// Mask names a column of the edges, uint8, int32 or int64: only edges where it is not 0 are followed. "" follows
	// all.
	Mask string `empty:"none" value:"COLUMN" help:"Follow only edges where this whole-number column is not 0."`
	// Induced takes all edges between the nodes that are reached, in place of the picked ones, whatever their Weight
	// and Mask: one layer, whose blocks have all nodes as sources and as destinations. With Disjoint they are the edges
	// within each tree. Not with Time, nor in a Direction other than In.
	Induced bool `for:"neighbor" help:"Take all edges between the reached nodes, as one layer."`
	// Direction says which edges of a node are followed. Edges that lead out of it need an index, which Prepare makes
	// once: two or three passes over the edges, and for each edge 8 to 16 bytes, plus its type and its values of
	// Weight, Mask and Time; for Both twice that. The followed edge types must then join a node type to itself. A block
	// has a node as the destination of all edges that it follows, whatever their direction, and positions are those of
	// the edges.
	Direction Direction `default:"in" help:"Edges to follow: in, out or both; the last two need an index, made first."`
	// Together applies each fan-out to all in-edges of a destination, whatever their types, not to each edge type. Not
	// with PerType, nor with times of nodes.
	Together bool `help:"Apply each fan-out to the edges of all types together."`
	// Share, above 0 and up to 1, is the greatest share of the edges that a destination may follow to take, rounded up,
	// and no more than the fan-out.
	Share float64 `default:"0" range:"0,1" value:"X" help:"..."`
	// Time follows only edges of the past. The zero value follows all.
	Time Temporal
}

// neighborRules are options of Neighbor that were checked against a schema, and their fan-outs.
type neighborRules struct {
	Neighbor
	hops hopFanouts
}

func (n Neighbor) check(s *graph.Schema) (r neighborRules, err error) {
	r.Neighbor = n
	if n.Frontier > AllNodes {
		return r, fmt.Errorf("%w: frontier %d", ErrOptions, n.Frontier)
	}
	if !(n.Share >= 0 && n.Share <= 1) {
		return r, fmt.Errorf("%w: share %v: must be above 0 and up to 1, or 0 for none", ErrOptions, n.Share)
	}
	if err := errors.Join(n.checkColumns(s), n.checkTimes(s), n.checkTogether(), n.checkInduced()); err != nil {
		return r, err
	}
	if r.hops, err = newHopFanouts(s, n.Fanouts, n.PerType); err != nil {
		return r, err
	}
	return r, n.checkDirection(s, r.hops)
}

// Describe implements Sampler. Requests can exclude edges along in-edges, without Together and Induced.
func (n Neighbor) Describe(s *graph.Schema, batchSize int) (Description, error) {
	n.Time = n.Time.of(s)
	d, err := describe(n.check, s, batchSize)
	d.EdgeColumns, d.NodeColumns, d.Times = n.edgeColumns(), n.nodeColumns(), n.Time.on()
	d.From = d.Times && n.Disjoint
	d.Excludes = !n.Together && !n.Induced && n.Direction == In
	if d.Frontier = &n.Frontier; n.Induced {
		n.Frontier = AllNodes
	}
	return d, err
}

func (n Neighbor) Fingerprint() string {
	return option.Fingerprint("neighbor", n) + n.Time.fingerprint()
}

func (n neighborRules) bound(s *graph.Schema, batchSize int) Bound {
	if n.Induced {
		return n.boundInduced(s, batchSize)
	}
	p := n.hops
	b := Bound{Layers: len(p), Shared: n.reversedBytes(s)}
	s = n.reversedSchema(s)
	trees := int64(1)
	if n.Disjoint || n.Time.on() { // one for each seed, or time of a seed
		trees, batchSize = int64(max(batchSize, 0)), 1
	}
	lists, blocks := p.bound(s, batchSize, n.Neighbor)
	for t := range lists {
		lists[t] = sat.Mul(lists[t], trees)
		b.Nodes = sat.Add(b.Nodes, lists[t])
	}
	for _, layer := range blocks {
		for e := range layer {
			layer[e] = sat.Mul(layer[e], trees)
			b.Edges = sat.Add(b.Edges, layer[e])
		}
	}
	b.Blocks = blocks
	if n.Disjoint {
		b.Lists, b.Arrays = lists, listArrays(s, "tree/", unified.Int32, lists)
	}
	if n.Time.on() {
		b.Lists, b.Arrays = lists, append(b.Arrays, listArrays(s, "time/", unified.Int64, lists)...)
		b.Scratch = groupBytes(sat.Mul(trees, 1+bit(n.Disjoint)), n.mostGroups(trees, b.Nodes))
	}
	if s.IDType() == unified.Int32 {
		b.Scratch = sat.Add(b.Scratch, scratchBytes[int32](s, b))
	} else {
		b.Scratch = sat.Add(b.Scratch, scratchBytes[int64](s, b))
	}
	if n.Together {
		b.Scratch = sat.Add(b.Scratch, n.togetherBytes(s, p, b))
	} else if n.chooses() {
		b.Scratch = sat.Add(b.Scratch, n.chooseBytes(s, p, blocks))
	} else if !n.Replace {
		b.Scratch = sat.Add(b.Scratch, 8*p.manyPicks(s))
	}
	return b
}

func (n Neighbor) Open(env Env) (Worker, error) {
	n.Time = n.Time.of(env.Graph.Schema())
	if n.Direction != In {
		return openPrepared(n, env)
	}
	if n.Induced {
		return open(n.checkNodes, env, openInducing, openInducing)
	}
	return open(n.check, env, openNeighbor, openNeighbor)
}

func openNeighbor[V nodeID](opt neighborRules, env Env, a *assembly[V]) (Worker, error) {
	a.frontier = opt.Frontier
	of := newPicker[V]
	if opt.Together {
		of = newTogetherPicker[V]
	}
	pick, err := of(a, opt.Neighbor, opt.hops, env)
	return &worker[V]{a, pick}, err
}

// newPicker returns the picker among the edges of one type.
func newPicker[V nodeID](a *assembly[V], opt Neighbor, p hopFanouts, env Env) (picker[V], error) {
	if !opt.chooses() {
		w := &neighborPicker[V]{a: a, fanouts: p, replace: opt.Replace}
		a.own(&w.picks)
		return w, nil
	}
	c, err := newChoosePicker(a, opt, p, env)
	if err == nil && opt.Time.on() {
		c.lookAtTimes()
	}
	return c, err
}
