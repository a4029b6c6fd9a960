package loader

import (
	"context"
	"errors"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// ring is a graph of n nodes, each with the in-edges of the next 8.
func ring(t *testing.T, n int) *graph.Graph {
	var e graph.EdgeData
	for i := range n {
		for k := range 8 {
			e.Src, e.Dst = append(e.Src, int64((i+k+1)%n)), append(e.Dst, int64(i))
		}
	}
	return graphs.New(t, graph.Data{Nodes: []graph.NodeData{{Count: int64(n)}}, Edges: []graph.EdgeData{e}})
}

// TestALoaderStaysWithinItsControlGroup: without MaxMemory the plan is compared with what the group leaves, before
// anything is taken, and MaxMemory is lowered to it.
func TestALoaderStaysWithinItsControlGroup(t *testing.T) {
	g := ring(t, 20_000)
	opt := Options{Sampler: sampling.Neighbor{Fanouts: []int{8, 8}}, BatchSize: 5000, Workers: 4,
		Tuning: TuningOptions{Prefetch: 4},
		Device: DeviceOptions{Name: "cpu"}}
	free := expect.Must(New(g, opt))(t)
	need := free.Estimate().Expected.Total()
	expect.OK(t, free.Close())
	within := func(room int64) { GroupRoom(t, room) }
	within(2 * need)
	l, err := New(g, opt)
	expect.Ensure(t, err == nil, "twice the %d bytes that are needed: %v", need, err)
	expect.OK(t, l.Close())
	for _, room := range []int64{need / 2, need / 8, 1000, 0, -5} {
		within(room)
		_, err := New(g, opt)
		expect.Says(t, err, ErrMemory, "allow", "room for %d bytes of %d", room, need)
		_, err = Plan(t.Context(), g, opt)
		expect.That(t, errors.Is(err, ErrMemory), "room for %d bytes of %d: planned with %v", room, need, err)
	}
	within(need / 2)
	opt.MaxMemory = 1 << 40
	l, err = New(g, opt)
	expect.Ensure(t, err == nil, "with MaxMemory there may be fewer slots: %v", err)
	peak := l.Stats().MemoryPeak
	expect.That(t, peak <= need/2, "%d bytes were taken, the group has room for %d", peak, need/2)
	expect.OK(t, l.Close())
}

// The seeds of a batch lie in the slot's memory, which the ledger counts, and not on the Go heap: also those of a type
// that no batch on trial has.
func TestSeedsLieInMemoryThatIsCounted(t *testing.T) {
	edges := graph.EdgeData{Source: "a", Relation: "to", Target: "a", Src: []int64{0}, Dst: []int64{1}}
	g := graphs.New(t, graph.Data{Nodes: []graph.NodeData{{Name: "a", Count: 10}, {Name: "b", Count: 10}},
		Edges: []graph.EdgeData{edges}})
	many, rare := unified.FromSlice(make([]int32, 1<<20)), unified.FromSlice(make([]int32, 3<<10))
	l := expect.Must(New(g, Options{Sampler: sampling.Neighbor{Fanouts: []int{2}}, BatchSize: 4 << 10,
		Device:  DeviceOptions{Name: "cpu"},
		Workers: 1, Seeds: GivenSeeds(graph.Seeds{Sets: []graph.SeedSet{{Type: 0, IDs: many}, {Type: 1, IDs: rare},
			{Type: 0, IDs: many}}})}))(t)
	defer l.Close()
	seen := int64(0)
	for b, err := range l.Range(t.Context(), 0, 255, 3) {
		expect.OK(t, err)
		for nodeType, seeds := range b.slot.Request.Seeds {
			n := int64(len(seeds))
			seen += int64(nodeType) * n
			b.slot.Each(func(i int, memory *unified.Buffer, _ int64) {
				if a := &l.Arrays()[i]; n == 0 || a.Kind != layout.Inputs || a.Type != nodeType {
					return
				}
				if counted, err := unified.Grow[int64](memory, n, n); err != nil || &counted[0] != &seeds[0] {
					t.Fatalf("batch %d: %d seeds of type %d are elsewhere: %v", b.Number, n, nodeType, err)
				}
			})
		}
	}
	expect.That(t, seen == rare.Len(), "%d seeds of the rare type", seen)
}

// What a sampler learns of the whole graph is there once for all workers, and to learn it ends with the context.
func TestAPlanPreparesTheSamplerOnce(t *testing.T) {
	g := ring(t, 20_000)
	opt := Options{Sampler: sampling.Saint{Budget: 2000, Coverage: 1}, Workers: 4, Device: DeviceOptions{Name: "cpu"}}
	planned := expect.Must(Plan(t.Context(), g, opt))(t)
	l := expect.Must(New(g, opt))(t)
	held := l.Estimate().Expected.Scratch
	expect.OK(t, l.Close())
	expect.That(t, planned.Expected.Scratch <= (held*5/4), "the plan expects %d bytes of scratch; %d are held",
		planned.Expected.Scratch, held)
	ended, end := context.WithCancel(t.Context())
	end()
	opt.Sampler = sampling.Saint{Budget: 2000, Coverage: 1 << 20} // an hour's work
	expect.Is(t, expect.Err(Plan(ended, g, opt)), context.Canceled, "Plan")
}
