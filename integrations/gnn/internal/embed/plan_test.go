package embed

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

func TestMain(m *testing.M) { expect.NoGoroutines(m) }

// TestGapsAreWhatNoRangeHas of some nodes.
func TestGapsAreWhatNoRangeHas(t *testing.T) {
	for _, c := range []struct {
		done []record
		left [][2]int64
	}{
		{nil, [][2]int64{{0, 10}}},
		{[]record{{Lo: 0, Hi: 10}}, nil},
		{[]record{{Lo: 6, Hi: 8}, {Lo: 2, Hi: 4}, {Lo: 3, Hi: 5}}, [][2]int64{{0, 2}, {5, 6}, {8, 10}}},
	} {
		expect.Same(t, gaps(c.done, 10), c.left, "what is left")
	}
}

// TestAStepGivesItsMemoryBack but for degrees, which later ones read.
func TestAStepGivesItsMemoryBack(t *testing.T) {
	r := &run{rooms: map[string]*pinned.Buffer{}, wide: map[*Table][]float32{}}
	for _, name := range []string{"sums 0", "next", degreesRoom + "a:to:b"} {
		expect.OK(t, expect.Err(room[float32](r, name, 1<<16)))
	}
	expect.OK(t, r.free())
	expect.Same(t, r.ledger.Total(), int64(4<<16), "bytes that are held")
	expect.OK(t, r.rooms[degreesRoom+"a:to:b"].Close())
}

// TestADamagedCutIsAnError, not a panic: a node or a source that is not there.
func TestADamagedCutIsAnError(t *testing.T) {
	r := &run{now: &StepReport{}, pool: sparse.Open(sparse.Options{Workers: 2}), opt: Options{Folder: "work"}}
	defer r.pool.Close()
	s := &sweeping{run: r, rel: &Relation{}, n: 4, width: 1, y: summed{rows: make([]float32, 4), width: 1}}
	s.rows = [][]float32{{1, 2, 3}}
	expect.OK(t, s.add([]edge{{1, 2}, {3, 0}}))
	expect.Same(t, s.y.rows, []float32{0, 3, 0, 1}, "sums")
	for _, wrong := range [][]edge{{{4, 0}}, {{1 << 31, 0}}, {{0, 3}}} {
		s.broken.Store(false)
		err := s.add(wrong)
		expect.That(t, err != nil && strings.Contains(err.Error(), "cut0 in work is damaged"), "%v", err)
	}
}

// TestARehearsalOfSomeRowsSaysWhatAllWouldRead compares a sample of the rows with all of them.
func TestARehearsalOfSomeRowsSaysWhatAllWouldRead(t *testing.T) {
	const nodes, width = 1 << 17, 64
	r := rand.New(rand.NewPCG(expect.Seed(t), 1))
	edges := graph.EdgeData{Source: "node", Relation: "edge", Target: "node"}
	for range 4 * nodes {
		edges.Src = append(edges.Src, int64(r.IntN(1+r.IntN(nodes)))) // low ones are hubs
		edges.Dst = append(edges.Dst, int64(r.IntN(nodes)))
	}
	x := unified.FromSlice(make([]float32, nodes*width))
	x, _ = x.Reshape(nodes, width)
	g := graphs.New(t, graph.Data{Nodes: []graph.NodeData{{Name: "node", Count: nodes}},
		Edges: []graph.EdgeData{edges}})
	plan := func(many int64) Work {
		defer func(was int64) { manyEdges = was }(manyEdges)
		manyEdges = many
		to := &Table{Name: "rows", Rows: nodes, Width: width, DType: unified.Float32}
		step := &Step{Name: "layer", Sums: []Relation{{Reduce: Mean, Table: Column("x", x)}}, To: []*Table{to},
			Apply: func(b *Block) error { return nil }}
		planned := expect.Must(open(t.Context(), &Program{Graph: g, Steps: []*Step{step}}, Options{Way: Gather,
			Memory: 16 << 20, Folder: filepath.Join(t.TempDir(), "work")}, true))(t)
		expect.OK(t, planned.close())
		return planned.plans[0].Plan
	}
	all, some := plan(1<<40), plan(0)
	near := func(a, b int64) bool { return 20*a >= 17*b && 20*a <= 23*b }
	expect.That(t, near(some.Read, all.Read) && near(some.Requests, all.Requests), "%+v of %+v", some, all)
}

// TestSumsOfListsDiffer, of lists of few sources, whose sums once were the same, and of one list at two nodes.
func TestSumsOfListsDiffer(t *testing.T) {
	sum := func(node int64, list []int64) uint64 {
		return sumOfList(node, int64(len(list)), func(i int64) int64 { return list[i] })
	}
	seen := map[uint64][]int64{}
	add := func(list ...int64) {
		if was, ok := seen[sum(5, list)]; ok {
			t.Errorf("%v has the sum of %v", list, was)
		}
		seen[sum(5, list)] = list
		expect.That(t, sum(5, list) != sum(6, list), "%v at two nodes", list)
	}
	add()
	for a := range int64(40) {
		add(a)
		for b := range int64(40) {
			add(a, b)
			for c := range int64(12) {
				add(a, b, c)
			}
		}
	}
	long := make([]int64, 64)
	add(long...)
	add(append(long, 0)...)
	add(append(long, long...)...)
}
