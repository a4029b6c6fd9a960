package gomlx_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/gomlx"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

// seedsByEpoch takes n epochs, with a Reset after each.
func seedsByEpoch(t *testing.T, ds *gomlx.Dataset, n int) (epochs [][]int64) {
	t.Helper()
	for range n {
		var seeds []int64
		for _, y := range epochOf(t, ds) {
			seeds = append(seeds, y.ids(t)...)
		}
		epochs = append(epochs, seeds)
		ds.Reset()
	}
	return epochs
}

func TestAnEpochEndsWithEOFAndResetBeginsTheNext(t *testing.T) {
	g := smallGraph(t, 100)
	ds := openDataset(t, openLoader(t, g, loader.Options{Sampler: neighbor, BatchSize: 16, Shuffle: true, Seed: 3}),
		gomlx.Options{})
	ds.Reset() // nothing was yielded: epoch 0 is still to come
	got := seedsByEpoch(t, ds, 3)

	want := make([][]int64, 3)
	ld := openLoader(t, g, loader.Options{Sampler: neighbor, BatchSize: 16, Shuffle: true, Seed: 3})
	for epoch := range want {
		for b, err := range ld.Epoch(background, uint64(epoch)) {
			expect.OK(t, err)
			for _, id := range hostInt32(t, b.Sample.Nodes[0])[:b.Sample.NumNodes[0][0]] {
				want[epoch] = append(want[epoch], int64(id))
			}
		}
	}
	expect.Same(t, got, want, "seeds")
	expect.That(t, !slices.Equal(got[0], got[1]), "two epochs have the same order")
	epochOf(t, ds)
	for range 3 { // until Reset
		_, err := next(ds)
		expect.That(t, err == io.EOF, "error %v after the end of the epoch, want io.EOF", err)
	}
}

func TestEndlessGoesOnWithTheNextEpoch(t *testing.T) {
	g := smallGraph(t, 100)
	opt := loader.Options{Sampler: neighbor, BatchSize: 16, Shuffle: true}
	want := slices.Concat(seedsByEpoch(t, openDataset(t, openLoader(t, g, opt), gomlx.Options{}), 3)...)
	ds := openDataset(t, openLoader(t, g, opt), gomlx.Options{After: gomlx.Endless})
	var got []int64
	for range 3 * 4 { // 50 seeds are 4 batches
		got = append(got, expect.Must(next(ds))(t).ids(t)...)
	}
	expect.Same(t, got, want, "seeds")
}

func TestTrainingResumesAfterAnyBatch(t *testing.T) {
	g := smallGraph(t, 100)
	opt := loader.Options{Sampler: neighbor, BatchSize: 8, Shuffle: true, Seed: 11}
	whole := seedsByEpoch(t, openDataset(t, openLoader(t, g, opt), gomlx.Options{}), 2)
	batches := len(epochOf(t, openDataset(t, openLoader(t, g, opt), gomlx.Options{})))
	for done := 1; done <= batches; done++ {
		ds := openDataset(t, openLoader(t, g, opt), gomlx.Options{})
		if _, ok := ds.State(); ok {
			t.Fatal("there is a state before the first batch")
		}
		var got []int64
		for range done {
			got = append(got, expect.Must(next(ds))(t).ids(t)...)
		}
		state, ok := ds.State()
		expect.Ensure(t, ok && state.Next == uint64(done), "state %+v, %t after %d batches", state, ok, done)
		ds.Close()

		again := openDataset(t, openLoader(t, g, opt), gomlx.Options{})
		again.Resume(state)
		if s, ok := again.State(); !ok || s != state {
			t.Fatalf("state %+v, %t after Resume, want %+v", s, ok, state)
		}
		again.Reset() // as the evaluation loop does at its start: must not skip what is to come
		for _, seeds := range seedsByEpoch(t, again, 2) {
			got = append(got, seeds...)
		}
		expect.Same(t, got, slices.Concat(whole...), "seeds, resumed after %d batches", done)
	}
}

func TestAStateOfOtherOptionsIsRefused(t *testing.T) {
	g := smallGraph(t, 100)
	a := openDataset(t, openLoader(t, g, loader.Options{Sampler: neighbor, BatchSize: 8}), gomlx.Options{})
	expect.Must(next(a))(t)
	s, _ := a.State()
	b := openDataset(t, openLoader(t, g, loader.Options{Sampler: neighbor, BatchSize: 16}), gomlx.Options{})
	b.Resume(s)
	expect.Says(t, expect.Err(next(b)), loader.ErrState, "batch size")
	b.Reset()
	expect.Must(next(b))(t)
}

// TestMain finds goroutines that are left behind; these tests leave at every point where one could stay.
func TestStoppingEarlyLeavesNothingBehind(t *testing.T) {
	ld := openLoader(t, smallGraph(t, 400), loader.Options{Sampler: neighbor, BatchSize: 8})
	for taken := range 6 {
		ds := expect.Must(gomlx.New(background, ld, gomlx.Options{}))(t)
		for range taken {
			expect.Must(next(ds))(t)
		}
		if taken%2 == 0 {
			ds.Reset()
			ds.Reset()
		}
		ds.Close()
		ds.Close()
		expect.Is(t, expect.Err(next(ds)), gomlx.ErrClosed, "after Close")
		ds.Reset()
		expect.Is(t, expect.Err(next(ds)), gomlx.ErrClosed, "after Close and Reset")
		for _, err := range ld.Range(background, 0, 0, 1) { // the loader is free again
			expect.OK(t, err)
		}
	}
}

func TestACancelledContextEndsYieldWithItsCause(t *testing.T) {
	ld := openLoader(t, smallGraph(t, 400), loader.Options{Sampler: neighbor, BatchSize: 8})
	ctx, cancel := context.WithCancelCause(background)
	ds := expect.Must(gomlx.New(ctx, ld, gomlx.Options{}))(t)
	defer ds.Close()
	expect.Must(next(ds))(t)
	cause := errors.New("enough")
	cancel(cause)
	for range 3 {
		expect.Is(t, expect.Err(next(ds)), cause)
		ds.Reset()
	}
}

// stuck is a sampler whose batches from the given one on do not come before the context ends.
type stuck struct {
	sampling.Neighbor
	from    int
	entered chan struct{} // told when a batch is stuck
}

func (s stuck) Open(env sampling.Env) (sampling.Worker, error) {
	w, err := s.Neighbor.Open(env)
	return &stuckWorker{Worker: w, stuck: s}, err
}

type stuckWorker struct {
	sampling.Worker
	stuck
	made int
}

func (w *stuckWorker) Sample(ctx context.Context, req *sampling.Request, out *graph.Sample) error {
	if ctx.Done() != nil { // not while the loader learns the size of batches
		if w.made++; w.made > w.from {
			select {
			case w.entered <- struct{}{}:
			default:
			}
			<-ctx.Done()
			return ctx.Err()
		}
	}
	return w.Worker.Sample(ctx, req, out)
}

func TestCloseFreesAYieldThatWaits(t *testing.T) {
	g := smallGraph(t, 40)
	for range 20 { // several things end at once, in any order
		s := stuck{Neighbor: neighbor, entered: make(chan struct{}, 1)}
		ds := openDataset(t, openLoader(t, g, loader.Options{Sampler: s, BatchSize: 8, Workers: 1}), gomlx.Options{})
		result := make(chan error)
		go func() { result <- expect.Err(next(ds)) }()
		<-s.entered
		ds.Close()
		expect.Is(t, <-result, gomlx.ErrClosed)
	}
}

func TestResetDoesNotWaitForTheRestOfTheEpoch(t *testing.T) {
	s := stuck{Neighbor: neighbor, from: 2, entered: make(chan struct{}, 1)}
	ds := openDataset(t, openLoader(t, smallGraph(t, 400), loader.Options{Sampler: s, BatchSize: 8, Workers: 1}),
		gomlx.Options{})
	expect.Must(next(ds))(t)
	<-s.entered // the third batch never comes
	ds.Reset()
}

func TestWhatCannotBeFedIsRefused(t *testing.T) {
	small := func(opt loader.Options) *loader.Loader { return openLoader(t, smallGraph(t, 20), opt) }
	typed := graphs.New(t, graph.Data{
		Nodes: []graph.NodeData{{Name: "user", Count: 4}, {Name: "item", Count: 4}},
		Edges: []graph.EdgeData{{Source: "user", Relation: "buys", Target: "item", Src: []int64{0, 1},
			Dst: []int64{2, 3}}},
	})
	for _, c := range []struct {
		ld   *loader.Loader
		opt  gomlx.Options
		want error
		text string
	}{
		{small(loader.Options{Sampler: neighbor, BatchSize: 16, DropLast: true}), gomlx.Options{After: gomlx.Endless},
			gomlx.ErrOptions, "no batches"},
		{small(loader.Options{Sampler: neighbor}), gomlx.Options{Pad: 7}, gomlx.ErrOptions, "Pad(7)"},
		{small(loader.Options{Sampler: neighbor}), gomlx.Options{After: 9}, gomlx.ErrOptions, "After(9)"},
		{small(loader.Options{Sampler: endlessBound{neighbor}, BatchSize: 8}), gomlx.Options{Pad: gomlx.Maximum},
			gomlx.ErrOptions, "PowerOfTwo"},
		{openLoader(t, typed, loader.Options{Sampler: neighbor, Seeds: loader.AllNodes("item")}), gomlx.Options{},
			gomlx.ErrGraph, "2 node types and 1 edge types"},
	} {
		_, err := gomlx.New(background, c.ld, c.opt)
		expect.Says(t, err, c.want, c.text)
	}
}
