package pipe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

const nodes, width = 500, 9

// rows are the features, which both processes make.
func rows() []float32 {
	r := rand.New(rand.NewPCG(1, 2))
	list := make([]float32, nodes*width)
	for i := range list {
		list[i] = float32(r.NormFloat64())
	}
	return list
}

// example returns a graph whose features are those.
func example(t *testing.T, features []float32) *graph.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	var src, dst []int64
	labels := make([]int64, nodes)
	for v := range int64(nodes) {
		labels[v] = v * v
		for range v % 12 {
			src, dst = append(src, r.Int64N(nodes)), append(dst, v)
		}
	}
	x, err := unified.FromSlice(features).Reshape(nodes, width)
	if err != nil {
		t.Fatal(err)
	}
	g, err := graph.New(graph.Data{Nodes: []graph.NodeData{{Columns: map[string]unified.Tensor{"feature": x,
		"label": unified.FromSlice(labels)}}}, Edges: []graph.EdgeData{{Src: src, Dst: dst}}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestMain is the other process, too.
func TestMain(m *testing.M) {
	switch os.Getenv("PIPE_ROLE") {
	case "":
		os.Exit(m.Run())
	case "broken":
		os.Exit(3)
	}
	x, err := unified.FromSlice(rows()).Reshape(nodes, width)
	if err == nil {
		err = Serve(os.Stdin, os.Stdout, x)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func process(role string) func() *exec.Cmd {
	return func() *exec.Cmd {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), "PIPE_ROLE="+role)
		c.Stderr = os.Stderr
		return c
	}
}

func options() loader.Options {
	return loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{4, 3}}, BatchSize: 40, Shuffle: true, Seed: 7,
		Workers: 3, Columns: loader.ColumnOptions{Nodes: []string{"feature"}, Seeds: []string{"feature", "label"}}}
}

// digests returns those of two epochs.
func digests(t *testing.T, g *graph.Graph, opt loader.Options) (all [][2]uint64) {
	t.Helper()
	l, err := loader.New(g, opt)
	if err != nil {
		t.Fatal(err)
	}
	for epoch := range uint64(2) {
		for b, err := range l.Epoch(context.Background(), epoch) {
			if err != nil {
				t.Fatal(err)
			}
			topology, full := b.Digest()
			all = append(all, [2]uint64{topology, full})
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if held := l.Stats().Memory; held != (loader.Memory{}) {
		t.Errorf("%+v are held", held)
	}
	return all
}

// Batches are the same, byte for byte, whether features are mapped or come over a pipe. The graph that is loaded by the
// pipe does not have them at all.
func TestBatchesAreThoseOfAMappedLoader(t *testing.T) {
	want := digests(t, example(t, rows()), options())
	opt := options()
	opt.Hooks.Tier = &Pipe{Column: "feature", Command: process("serve")}
	got := digests(t, example(t, make([]float32, nodes*width)), opt)
	if len(want) != 26 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%d batches, %v, want %d, %v", len(got), got, len(want), want)
	}
}

// What the tier takes is in the estimate of a loader, and MaxMemory bounds it.
func TestTheTierHasItsCost(t *testing.T) {
	opt := options()
	opt.Hooks.Tier = &Pipe{Column: "feature", Command: process("serve")}
	for _, max := range []int64{0, 64 << 20} {
		opt.MaxMemory = max
		plan, err := loader.Plan(context.Background(), example(t, rows()), opt)
		if err != nil {
			t.Fatal(err)
		}
		bare := options()
		bare.MaxMemory = max
		without, err := loader.Plan(context.Background(), example(t, rows()), bare)
		if more := plan.Bound.Scratch - without.Bound.Scratch; err != nil || more != 3*2*buffered {
			t.Errorf("the tier takes %d bytes: %v", more, err)
		}
	}
	opt.MaxMemory = 1
	if _, err := loader.New(example(t, rows()), opt); !errors.Is(err, loader.ErrMemory) {
		t.Errorf("one byte: %v", err)
	}
}

// A process that ends ends the epoch, with an error that names it, and leaves nothing.
func TestAProcessThatEndsIsAnError(t *testing.T) {
	opt := options()
	opt.Hooks.Tier = &Pipe{Column: "feature", Command: process("broken")}
	l, err := loader.New(example(t, rows()), opt)
	if err != nil {
		t.Fatal(err)
	}
	var last error
	for _, err := range l.Epoch(context.Background(), 0) {
		last = err
	}
	if last == nil {
		t.Error("no error")
	}
	if err := l.Close(); err == nil {
		t.Error("the end of the process is not told")
	}
	if held := l.Stats().Memory; held.Total() != 0 {
		t.Errorf("%+v are held", held)
	}
	opt.Hooks.Tier = &Pipe{Column: "feature", Command: func() *exec.Cmd { return exec.Command("/no/such/program") }}
	if _, err := loader.New(example(t, rows()), opt); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no program: %v", err)
	}
}
