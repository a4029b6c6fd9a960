package recipe

import (
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader/internal/seedlist"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// What a batch can have at most is within the graph, what the sampler says, and what blocks can number.
func TestTheMostOfABatchIsWithinWhatIsSaid(t *testing.T) {
	g := expect.Must(graph.New(graph.Data{Nodes: []graph.NodeData{{Count: 30}}, Edges: []graph.EdgeData{{}}}))(t)
	for _, c := range []struct {
		bound               sampling.Bound
		byEdge              []int64
		size, seeds         int64
		batch, nodes, edges int64
		ofSeeds             int64
	}{
		{sampling.Bound{Nodes: 50, Edges: 60}, nil, 10, 30, 10, 30, 60, 10},
		{sampling.Bound{Nodes: 20, Edges: -1}, nil, 10, 4, 4, 20, 0, 4},
		{sampling.Bound{Nodes: -5, Edges: 1 << 40}, nil, 10, 0, 1, 0, 1<<31 - 1, 0},
		{sampling.Bound{Nodes: 90, Lists: []int64{70}}, nil, 40, 30, 30, 70, 0, 30},
		{sampling.Bound{Nodes: 60, Lists: []int64{70}}, nil, 40, 30, 30, 60, 0, 30},
		{sampling.Bound{Nodes: 60, Lists: []int64{0}}, nil, 40, 30, 30, 0, 0, 30},
		{sampling.Bound{Nodes: 60, Lists: []int64{-1}}, nil, 40, 30, 30, 0, 0, 30},
		{sampling.Bound{Edges: 9, Blocks: [][]int64{{7}}}, nil, 40, 30, 30, 0, 7, 30},
		{sampling.Bound{Edges: 9, Blocks: [][]int64{}}, nil, 40, 30, 30, 0, 9, 30},
		{sampling.Bound{Edges: 9, Blocks: [][]int64{{}}}, nil, 40, 30, 30, 0, 9, 30},
		{sampling.Bound{}, []int64{240}, 10, 240, 20, 0, 0, 20},
		{sampling.Bound{}, []int64{0}, 10, 0, 1, 0, 0, 0}, {sampling.Bound{}, []int64{1}, 10, 1, 2, 0, 0, 2},
	} {
		r := &Recipe{Bound: c.bound, Spec: Spec{Graph: g, BatchSize: int(c.size),
			Seeds: seedlist.List{Count: c.seeds, ByType: []int64{c.seeds}, ByEdge: c.byEdge}}}
		b, n, e, s := r.mostEnds(), r.mostNodes(0), r.mostEdges(0, 0), r.MostSeeds(0)
		expect.That(t, b == c.batch && n == c.nodes && e == c.edges && s == c.ofSeeds,
			"%+v: %d, %d nodes, %d edges, %d seeds", c, b, n, e, s)
	}
}

// A sampler's scratch has room for buffers that move, and for huge pages where it needs such.
func TestScratchHasRoomForBuffersThatMove(t *testing.T) {
	const more = 64 << 10
	for says, want := range map[int64]int64{-9: more, 0: more, 4: 7 + more, 5: 8 + more, 1198372: 1<<21 - 1 + more,
		1198373: 1<<21 + 4<<21 + more, 1 << 62: 1<<63 - 1} {
		r := &Recipe{Bound: sampling.Bound{Scratch: says}}
		if got := r.MostScratch(); got != want && (says < 1<<62 || got < 1<<60) {
			t.Errorf("%d bytes of a sampler that says %d, want %d", got, says, want)
		}
	}
}

// A list of nodes has room for ids that a sampler writes beyond the last.
func TestAListOfNodesHasRoomBeyondItsLast(t *testing.T) {
	a := layout.Array{Kind: layout.Nodes, DType: unified.Int32, Most: 5}
	b := layout.Array{Kind: layout.NodeColumn, DType: unified.Int64, Most: 5, Row: []int64{3, 7}}
	expect.That(t, MostBytes(&a) == (5+1024)*4 && MostBytes(&b) == 5*8*21 && RowBytes(&b) == 168, "%d and %d bytes",
		MostBytes(&a), MostBytes(&b))
}
