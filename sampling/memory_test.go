package sampling

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// scarce gives memory, but refuses one time; none is refused at 0.
type scarce struct {
	refuse, asked int
	given         map[*byte]*pinned.Region
}

var errScarce = errors.New("there is no memory")

func (s *scarce) Take(n int64) ([]byte, error) {
	if s.asked++; s.asked == s.refuse {
		return nil, errScarce
	}
	r, err := pinned.Allocate(n, pinned.Options{})
	if err != nil {
		return nil, err
	}
	b := r.Bytes()[:n:n]
	s.given[unsafe.SliceData(b)] = r
	return b, nil
}

func (s *scarce) Give(b []byte) error {
	r := s.given[unsafe.SliceData(b)]
	if r == nil {
		return errors.New("this was not given")
	}
	delete(s.given, unsafe.SliceData(b))
	return r.Close()
}

// The smaller table is chosen, and it takes the stated memory, however many nodes a batch has.
func TestTablesTakeWhatTheyAreSaidTo(t *testing.T) {
	for _, batch := range []int64{1, 100, 2047, 2048, 2049, 4096, 4097, 8192, 8193, 10_000} {
		for _, nodes := range []int64{10, 4096, 4097, 2 * 4096, 2*4096 + 1, 4 * 4096, 4*4096 + 1, 8 * 4096, 8*4096 + 1,
			16 * 4096, 32 * 4096, 64 * 4096, 64*4096 + 1, 1 << 20} {
			if batch <= nodes {
				tableTakes[int32](t, nodes, batch)
				tableTakes[int64](t, nodes, batch)
			}
		}
	}
}

func tableTakes[V nodeID](t *testing.T, nodes, batch int64) {
	t.Helper()
	var ledger pinned.Ledger
	memory := &scratch{options: pinned.Options{Ledger: &ledger}}
	table := newRelabeler[V](nodes, batch, memory)
	expect.OK(t, table.begin())
	lists := []list[V]{{ids: make([]V, batch+1), count: V(nodes)}}
	out := make([]int32, 1)
	for lists[0].n < int(batch) {
		expect.OK(t, table.grow(1, lists))
		table.relabel([]V{V(lists[0].n)}, out, &lists[0])
	}
	said := relabelerBytes[V](nodes, batch)
	if took := ledger.Peak(); took > (pinned.Options{}).Size(said) {
		t.Errorf("%T of %d nodes, batches of %d: %d bytes were said, %d taken", table, nodes, batch, said, took)
	}
	err := memory.Close()
	expect.That(t, err == nil && ledger.Total() == 0, "closing leaves %d bytes: %v", ledger.Total(), err)
}

func TestASampleOfAnotherShapeIsRefused(t *testing.T) {
	g := graphs.CSC(t, []int64{0, 1, 3}, []int32{1, 0, 1})
	n := Neighbor{Fanouts: []int{1}, Disjoint: true}
	w := expect.Must(n.Open(Env{Graph: g, BatchSize: 4}))(t)
	defer w.Close()
	for _, c := range []struct {
		layers, arrays int
		says           string
	}{{2, 1, "request of 1 node types, sample of 2 layers; must be 1 and 1"},
		{1, 0, "sample with 0 arrays; must be 1: shape it by Bound.Init"}} {
		var out graph.Sample
		shape := Bound{Layers: c.layers, Arrays: make([]ArrayBound, c.arrays)}
		shape.Init(&out, g.Schema(), pinned.Options{})
		err := w.Sample(context.Background(), &Request{Seeds: [][]int64{{0}}}, &out)
		expect.That(t, errors.Is(err, ErrOptions) && strings.Contains(err.Error(), c.says), "%v, want %q", err, c.says)
		out.Close()
	}
}

// What a batch can take is the product of the fan-outs, or what the graph has: memory is planned by it, to the byte.
func TestBoundIsTheProductOfFanoutsOrTheGraph(t *testing.T) {
	one := func(nodes, edges int64) *graph.Schema {
		return &graph.Schema{Nodes: []graph.NodeType{{Name: "n", Count: nodes}},
			Edges: []graph.EdgeType{{Source: "n", Relation: "e", Target: "n", Count: edges}}}
	}
	two := &graph.Schema{Nodes: []graph.NodeType{{Name: "user", Count: 200}, {Name: "item", Count: 30}},
		Edges: []graph.EdgeType{{Source: "item", Relation: "rated", Target: "user", Count: 90},
			{Source: "user", Relation: "rates", Target: "item", Count: 400}}}
	const table = 8 * 4096 // the least that a hash table of int32 takes
	for name, c := range map[string]struct {
		s     *graph.Schema
		n     Neighbor
		batch int
		want  Bound
	}{
		"product": {one(100_000, 1_000_000), Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes}, 10,
			Bound{Layers: 2, Nodes: 120, Edges: 110, Blocks: [][]int64{{80}, {30}}, Scratch: table + 16*120}},
		"new nodes": {one(100_000, 1_000_000), Neighbor{Fanouts: []int{3, 2}, Frontier: NewNodes}, 10,
			Bound{Layers: 2, Nodes: 100, Edges: 90, Blocks: [][]int64{{90}, {0}}, Scratch: table + 16*100}},
		"graph": {one(50, 60), Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes}, 10,
			Bound{Layers: 2, Nodes: 50, Edges: 90, Blocks: [][]int64{{60}, {30}}, Scratch: 4*50 + 16*50}},
		"graph, new nodes": {one(50, 60), Neighbor{Fanouts: []int{3, 2}, Frontier: NewNodes}, 10,
			Bound{Layers: 2, Nodes: 50, Edges: 60, Blocks: [][]int64{{60}, {0}}, Scratch: 4*50 + 16*50}},
		"graph, replaced": {one(50, 60), Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes, Replace: true}, 10,
			Bound{Layers: 2, Nodes: 50, Edges: 110, Blocks: [][]int64{{80}, {30}}, Scratch: 4*50 + 16*50}},
		"all": {one(50, 60), Neighbor{Fanouts: []int{All, 0}, Frontier: AllNodes}, 100,
			Bound{Layers: 2, Nodes: 50, Edges: 60, Blocks: [][]int64{{0}, {60}}, Scratch: 4*50 + 16*50}},
		"table of a large batch": {one(1<<30, 1<<40), Neighbor{Fanouts: []int{3}, Frontier: AllNodes}, 10_000,
			Bound{Layers: 1, Nodes: 40_000, Edges: 30_000, Blocks: [][]int64{{30_000}}, Scratch: 8<<17 + 16*40_000}},
		"two types": {two, Neighbor{Fanouts: []int{2, 3}, Frontier: AllNodes, PerType: map[string][]int{"rates": {4}}},
			10,
			Bound{Layers: 2, Nodes: 50 + 30, Edges: 20 + 40 + 90, Blocks: [][]int64{{90, 0}, {20, 40}},
				Scratch: 4*230 + 32*80}},
		"trees": {one(50, 60), Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes, Disjoint: true}, 10,
			Bound{Layers: 2, Nodes: 120, Edges: 110, Blocks: [][]int64{{80}, {30}}, Lists: []int64{120},
				Arrays:  listArrays(one(50, 60), "tree/", unified.Int32, []int64{120}),
				Scratch: 2*table + 8*120 + 16*120}},
	} {
		expect.OK(t, c.s.Init())
		expect.Same(t, boundOf(c.n, c.s, c.batch), c.want, name)
	}
}

// More seeds never take less, however large the numbers become.
func TestBoundsDoNotRunOver(t *testing.T) {
	s := &graph.Schema{Nodes: []graph.NodeType{{Name: "n", Count: 1 << 40}},
		Edges: []graph.EdgeType{{Source: "n", Relation: "e", Target: "n", Count: 1 << 46}}}
	expect.OK(t, s.Init())
	for _, disjoint := range []bool{false, true} {
		n := Neighbor{Replace: true, Frontier: AllNodes, Disjoint: disjoint}
		for range 4 {
			n.Fanouts = append(n.Fanouts, math.MaxInt32)
			before := Bound{}
			for shift := range 62 {
				b := boundOf(n, s, 1<<shift)
				if b.Nodes < max(before.Nodes, 1) || b.Edges < max(before.Edges, 1<<31-1) ||
					b.Scratch < max(before.Scratch, b.Nodes) {
					t.Errorf("%s, 1<<%d seeds: %+v, half as many %+v", n.Fingerprint(), shift, b, before)
				}
				before = b
			}
		}
	}
}
