package loader

import (
	"errors"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/sampling"
)

// ring is a graph of n nodes, each with the in-edges of the next 8.
func ring(t *testing.T, n int) *graph.Graph {
	var e graph.EdgeData
	for i := range n {
		for k := range 8 {
			e.Src, e.Dst = append(e.Src, int64((i+k+1)%n)), append(e.Dst, int64(i))
		}
	}
	g, err := graph.New(graph.Data{Nodes: []graph.NodeData{{Count: int64(n)}}, Edges: []graph.EdgeData{e}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestALoaderStaysWithinItsControlGroup: without MaxMemory the plan is compared with what the group leaves, before
// anything is taken, and MaxMemory is lowered to it.
func TestALoaderStaysWithinItsControlGroup(t *testing.T) {
	g := ring(t, 20_000)
	opt := Options{Sampler: sampling.Neighbor{Fanouts: []int{8, 8}}, BatchSize: 5000, Workers: 4, Prefetch: 4,
		Device: "cpu"}
	free, err := New(g, opt)
	if err != nil {
		t.Fatal(err)
	}
	need := free.Estimate().Expected.Total()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	defer func() { probeMachine = machine.Probe }()
	within := func(room int64) {
		probeMachine = func() *machine.Machine {
			return &machine.Machine{MemoryLimit: 10<<20 + machine.Own + room, MemoryInGroup: 10 << 20}
		}
	}
	within(2 * need)
	l, err := New(g, opt)
	if err != nil {
		t.Fatalf("twice the %d bytes that are needed: %v", need, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, room := range []int64{need / 2, need / 8, 1000, 0, -5} {
		within(room)
		_, err := New(g, opt)
		if !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), "allow") {
			t.Errorf("room for %d bytes of %d: %v", room, need, err)
		}
		if _, err := Plan(t.Context(), g, opt); !errors.Is(err, ErrMemory) {
			t.Errorf("room for %d bytes of %d: planned with %v", room, need, err)
		}
	}
	within(need / 2)
	opt.MaxMemory = 1 << 40
	if l, err = New(g, opt); err != nil {
		t.Fatalf("with MaxMemory there may be fewer slots: %v", err)
	}
	if peak := l.Stats().MemoryPeak; peak > need/2 {
		t.Errorf("%d bytes were taken, the group has room for %d", peak, need/2)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
