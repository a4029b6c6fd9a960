package loader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// hooked is Neighbor with a hook that is called before each sample, with the first seed of type 0.
type hooked struct {
	sampling.Neighbor
	before func(ctx context.Context, seed int64) error
	opened *atomic.Int64 // nil: not counted
}

func (h hooked) Open(env sampling.Env) (sampling.Worker, error) {
	if h.opened != nil {
		h.opened.Add(1)
	}
	w, err := h.Neighbor.Open(env)
	return hookedWorker{w, h}, err
}

type hookedWorker struct {
	sampling.Worker
	h hooked
}

func (w hookedWorker) Sample(ctx context.Context, req *sampling.Request, out *graph.Sample) error {
	if err := w.h.before(ctx, req.Seeds[0][0]); err != nil {
		return err
	}
	return w.Worker.Sample(ctx, req, out)
}

// cycle is a sampler of somebody else: one hop, from each distinct seed v to node v+1, which it draws with certainty.
type cycle struct {
	spoil func(*graph.Sample)   // applied to what was made; nil for nothing
	bound func(*sampling.Bound) // applied to what it says a batch takes; nil for nothing
}

func (cycle) Fingerprint() string { return "cycle" }
func (c cycle) Describe(_ *graph.Schema, n int) (sampling.Description, error) {
	b := sampling.Bound{Layers: 1, Nodes: 2 * int64(n), Edges: int64(n)}
	if c.bound != nil {
		c.bound(&b)
	}
	return sampling.Description{Bound: b}, nil
}

func (c cycle) Open(env sampling.Env) (sampling.Worker, error) {
	return &cycleWorker{spoil: c.spoil, nodes: env.Graph.NumNodes(), edgePos: env.EdgePos}, nil
}

type cycleWorker struct {
	spoil   func(*graph.Sample)
	nodes   int64
	edgePos bool
}

func (w *cycleWorker) Close() error { return nil }

func (w *cycleWorker) Sample(_ context.Context, req *sampling.Request, out *graph.Sample) error {
	n := int64(len(req.Seeds[0]))
	local := map[int64]int32{}
	var list []int64
	add := func(v int64) int32 {
		if _, ok := local[v]; !ok {
			local[v] = int32(len(list))
			list = append(list, v)
		}
		return local[v]
	}
	seed, _ := unified.Grow[int32](&out.Buffers.Seeds[0], n, 0)
	for i, v := range req.Seeds[0] {
		seed[i] = add(v)
	}
	distinct := int64(len(list))
	indptr, _ := unified.Grow[int32](&out.Buffers.Indptr[0][0], distinct+1, 0)
	indices, _ := unified.Grow[int32](&out.Buffers.Indices[0][0], distinct, 0)
	indptr[0] = 0
	for i := range distinct {
		indices[i], indptr[i+1] = add((list[i]+1)%w.nodes), int32(i+1)
	}
	nodes, err := unified.Grow[int32](&out.Buffers.Nodes[0], int64(len(list)), 0)
	for i, v := range list {
		nodes[i] = int32(v)
	}
	out.NumNodes[0][0], out.NumNodes[1][0] = distinct, int64(len(list))
	out.Nodes[0], _ = out.Buffers.Nodes[0].Tensor(unified.Int32, int64(len(list)))
	out.SeedLocal[0], _ = out.Buffers.Seeds[0].Tensor(unified.Int32, n)
	b := &out.Blocks[0][0]
	b.NumDst, b.NumSrc = distinct, int64(len(list))
	b.Indptr, _ = out.Buffers.Indptr[0][0].Tensor(unified.Int32, distinct+1)
	b.Indices, _ = out.Buffers.Indices[0][0].Tensor(unified.Int32, distinct)
	if w.edgePos {
		pos, _ := unified.Grow[int32](&out.Buffers.EdgePos[0][0], distinct, 0)
		clear(pos)
		b.EdgePos, _ = out.Buffers.EdgePos[0][0].Tensor(unified.Int32, distinct)
	}
	if w.spoil != nil {
		w.spoil(out)
	}
	return err
}

// A sampler may have 256 layers, and none.
func TestASamplersLayersAreBounded(t *testing.T) {
	g := graphs.Plain(t, 100, 3)
	for layers, fits := range map[int]bool{-1: false, 0: true, 256: true, 257: false} {
		l, err := loader.New(g, loader.Options{Device: loader.DeviceOptions{Name: "cpu"}, BatchSize: 7, Sampler: cycle{
			bound: func(b *sampling.Bound) { b.Layers = layers }}})
		says := fmt.Sprintf(": %d layers", layers)
		refused := errors.Is(err, loader.ErrSampler) && strings.HasSuffix(err.Error(), says)
		expect.That(t, refused != fits, "%d layers: %v", layers, err)
		expect.That(t, err != nil || l.Close() == nil, "it does not close")
	}
}

func lastError(seq func(func(*loader.Batch, error) bool)) (last error) {
	for _, err := range seq {
		last = err
	}
	return last
}

func TestAnErrorComesInItsBatchsPlaceAndTheNextEpochIsWhole(t *testing.T) {
	g := graphs.Plain(t, 400, 4) // 200 seeds, 199 first
	mine := errors.New("mine")
	for what, fail := range map[string]func() error{
		"error": func() error { return mine },
		"panic": func() error { panic("of the sampler") },
	} {
		var broken atomic.Bool
		var opened atomic.Int64
		s := hooked{Neighbor: neighbor, opened: &opened, before: func(_ context.Context, seed int64) error {
			if broken.Load() && seed == 199-7*10 {
				return fail()
			}
			return nil
		}}
		l := open(t, g, loader.Options{Sampler: s, BatchSize: 10, Workers: 3,
			Tuning: loader.TuningOptions{Prefetch: 4}})
		want := digests(t, l.Epoch(background, 5))
		broken.Store(true)
		var got []string
		var errs []error
		for b, err := range l.Epoch(background, 5) {
			if err != nil {
				errs = append(errs, err)
				continue
			}
			got = append(got, digestOf(b))
		}
		d := expect.Diff(want[:7], got)
		expect.Ensure(t, d == "" && len(errs) == 1, "%s: %d errors, batches before: %s", what, len(errs), d)
		text := errs[0].Error()
		expect.That(t, strings.Contains(text, "epoch 5, batch 7"), "%s: the error does not say where: %s", what, text)
		if !errors.Is(errs[0], mine) && !errors.Is(errs[0], loader.ErrSampler) {
			t.Errorf("%s: %v", what, errs[0])
		}
		broken.Store(false)
		expect.Same(t, digests(t, l.Epoch(background, 5)), want, "%s: the epoch after", what)
		if n := opened.Load(); what == "panic" && n != 4 || what == "error" && n != 3 {
			t.Errorf("%s: samplers were opened %d times", what, n)
		}
	}
}

func TestWorkersGoOnWhileTheBodyRuns(t *testing.T) {
	g := graphs.Plain(t, 400, 4)
	for _, c := range []struct{ workers, prefetch int }{{1, 1}, {1, 3}, {2, 2}, {4, 1}} {
		var started atomic.Int64
		ahead := make(chan struct{}, 1000)
		s := hooked{Neighbor: neighbor, before: func(context.Context, int64) error {
			started.Add(1)
			ahead <- struct{}{}
			return nil
		}}
		l := open(t, g, loader.Options{Sampler: s, BatchSize: 10, Workers: c.workers,
			Tuning: loader.TuningOptions{Prefetch: c.prefetch}})
		for len(ahead) > 0 { // batches on trial
			<-ahead
		}
		first := true
		for range each(t, l.Epoch(background, 0)) {
			if first { // all slots but this one are filled before the body ends
				for range c.workers + c.prefetch {
					<-ahead
				}
				first = false
			}
		}
	}
}

func ExampleLoader_Epoch() {
	g, err := graph.New(graph.Data{
		Nodes: []graph.NodeData{{Count: 4, Columns: map[string]unified.Tensor{"label": unified.FromSlice([]int64{10, 11,
			12, 13})}}},
		Edges: []graph.EdgeData{{Src: []int64{1, 2, 3, 0}, Dst: []int64{0, 1, 2, 3}}},
	})
	if err != nil {
		panic(err)
	}
	ld, err := loader.New(g, loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{2, 2}}, BatchSize: 2})
	if err != nil {
		panic(err)
	}
	defer ld.Close()
	for batch, err := range ld.Epoch(context.Background(), 0) {
		if err != nil {
			panic(err)
		}
		labels, _ := unified.View[int64](batch.Y())
		fmt.Println(batch.Number, batch.Sample.NumNodes, labels)
	}
	// Output:
	// 0 [[2] [3] [4]] [10 11]
	// 1 [[2] [3] [4]] [12 13]
}

// A loop body that takes T a batch, and loading that takes L, together take max(T, L) a batch and not T + L.
func TestTheSlowerOfBodyAndLoadingDecides(t *testing.T) {
	g := graphs.Plain(t, 1200, 4)
	for _, c := range []struct {
		workers, prefetch int
		body, load        time.Duration
	}{{1, 1, 4 * time.Second, 3 * time.Second}, {1, 1, 3 * time.Second, 4 * time.Second},
		{2, 1, 4 * time.Second, 7 * time.Second}} {
		synctest.Test(t, func(t *testing.T) { // its clock goes on when all wait
			s := hooked{Neighbor: neighbor, before: func(context.Context, int64) error {
				time.Sleep(c.load) // stands for work, on any number of cores
				return nil
			}}
			l := open(t, g, loader.Options{Sampler: s, BatchSize: 10, Workers: c.workers,
				Tuning: loader.TuningOptions{Prefetch: c.prefetch}})
			begin, n := time.Now(), time.Duration(0)
			for range each(t, l.Epoch(background, 0)) {
				n++
				time.Sleep(c.body)
			}
			slower := n * max(c.body, c.load/time.Duration(c.workers))
			if took := time.Since(begin); n != 60 || took > slower+c.load+c.body {
				t.Errorf("%d workers, prefetch %d, body %v, load %v: %d batches take %v, want %v", c.workers,
					c.prefetch, c.body, c.load, n, took, slower)
			}
		})
	}
}

// panicky panics in one of its methods.
type panicky struct {
	cycle
	in string
}

func (p panicky) at(method string) {
	if p.in == method {
		panic(method)
	}
}

func (p panicky) Fingerprint() string { p.at("Fingerprint"); return "" }

func (p panicky) Describe(s *graph.Schema, n int) (sampling.Description, error) {
	p.at("Describe")
	return p.cycle.Describe(s, n)
}

func (p panicky) Open(env sampling.Env) (sampling.Worker, error) {
	p.at("Open")
	w, err := p.cycle.Open(env)
	return panickyWorker{w, p}, err
}

type panickyWorker struct {
	sampling.Worker
	p panicky
}

func (w panickyWorker) Close() error { w.p.at("Close"); return nil }

func TestASamplersPanicIsAnErrorWhereverItHappens(t *testing.T) {
	g := graphs.Plain(t, 100, 3)
	for _, method := range []string{"Describe", "Fingerprint", "Open", "Close"} {
		l, err := loader.New(g, loader.Options{Sampler: panicky{in: method}, BatchSize: 10})
		if err == nil {
			err = l.Close()
		}
		expect.Says(t, err, loader.ErrSampler, method, method)
	}
}
