package gomlx_test

import (
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/gomlx"
	"github.com/khop-gnn/khop/internal/expect"
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

	var want [][]int64
	ld := openLoader(t, g, loader.Options{Sampler: neighbor, BatchSize: 16, Shuffle: true, Seed: 3})
	for epoch := range uint64(3) {
		var seeds []int64
		for b, err := range ld.Epoch(background, epoch) {
			expect.OK(t, err)
			ids := hostInt32(t, b.Sample.Nodes[0])[:b.Sample.NumNodes[0][0]]
			for _, id := range ids {
				seeds = append(seeds, int64(id))
			}
		}
		want = append(want, seeds)
	}
	expect.That(t, reflect.DeepEqual(got, want), "seeds %v, want the loader's %v", got, want)
	expect.That(t, !slices.Equal(got[0], got[1]), "two epochs have the same order")
}

func TestEOFIsRepeatedUntilReset(t *testing.T) {
	ds := openDataset(t, openLoader(t, smallGraph(t, 40), loader.Options{Sampler: neighbor, BatchSize: 16}),
		gomlx.Options{})
	epochOf(t, ds)
	for range 3 {
		_, _, _, err := ds.Yield()
		expect.Ensure(t, err == io.EOF, "error %v after the end of the epoch, want io.EOF", err)
	}
	ds.Reset()
	n := len(epochOf(t, ds))
	expect.That(t, n == 2, "%d batches after Reset, want 2", n)
}

func TestSameEpochYieldsTheSameBatchesAgain(t *testing.T) {
	ld := openLoader(t, smallGraph(t, 100), loader.Options{Sampler: neighbor, BatchSize: 16, Shuffle: true})
	ds := openDataset(t, ld, gomlx.Options{After: gomlx.SameEpoch, Epoch: 5, Pad: gomlx.Maximum})
	first := epochOf(t, ds)
	ds.Reset()
	for i, second := range epochOf(t, ds) {
		for k := range second.inputs {
			if !first[i].inputs[k].Equal(second.inputs[k]) {
				t.Errorf("batch %d, input %d differs the second time", i, k)
			}
		}
		if !first[i].labels[0].Equal(second.labels[0]) {
			t.Errorf("batch %d has other labels the second time", i)
		}
	}
	s, _ := ds.State()
	expect.That(t, s.Epoch == 5, "epoch %d, want 5", s.Epoch)
}

func TestEndlessGoesOnWithTheNextEpoch(t *testing.T) {
	g := smallGraph(t, 100)
	opt := loader.Options{Sampler: neighbor, BatchSize: 16, Shuffle: true}
	want := slices.Concat(seedsByEpoch(t, openDataset(t, openLoader(t, g, opt), gomlx.Options{}), 3)...)
	ds := openDataset(t, openLoader(t, g, opt), gomlx.Options{After: gomlx.Endless})
	var got []int64
	for range 3 * 4 { // 50 seeds are 4 batches
		spec, inputs, labels, err := ds.Yield()
		expect.OK(t, err)
		got = append(got, yielded{spec, inputs, labels}.ids(t)...)
	}
	expect.That(t, slices.Equal(got, want), "seeds %v, want %v", got, want)
}

func TestEndlessOverNothingIsRefused(t *testing.T) {
	ld := openLoader(t, smallGraph(t, 20), loader.Options{Sampler: neighbor, BatchSize: 16, DropLast: true})
	_, err := gomlx.New(background, ld, gomlx.Options{After: gomlx.Endless})
	expect.That(t, errors.Is(err, gomlx.ErrOptions), "error %v, want ErrOptions", err)
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
			spec, inputs, labels, err := ds.Yield()
			expect.OK(t, err)
			got = append(got, yielded{spec, inputs, labels}.ids(t)...)
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
		want := slices.Concat(whole...)
		expect.That(t, slices.Equal(got, want), "resumed after %d batches: seeds %v, want %v", done, got, want)
	}
}

func TestAStateOfOtherOptionsIsRefused(t *testing.T) {
	g := smallGraph(t, 100)
	a := openDataset(t, openLoader(t, g, loader.Options{Sampler: neighbor, BatchSize: 8}), gomlx.Options{})
	_, _, _, err := a.Yield()
	expect.Ensure(t, err == nil, "%v", err)
	s, _ := a.State()
	b := openDataset(t, openLoader(t, g, loader.Options{Sampler: neighbor, BatchSize: 16}), gomlx.Options{})
	b.Resume(s)
	if _, _, _, err := b.Yield(); !errors.Is(err, loader.ErrState) || !strings.Contains(err.Error(), "batch size") {
		t.Errorf("error %v, want loader.ErrState that names the batch size", err)
	}
	b.Reset()
	if _, _, _, err := b.Yield(); err != nil {
		t.Errorf("after Reset: %v", err)
	}
}

// TestMain finds goroutines that are left behind; these tests leave at every point where one could stay.
func TestStoppingEarlyLeavesNothingBehind(t *testing.T) {
	ld := openLoader(t, smallGraph(t, 400), loader.Options{Sampler: neighbor, BatchSize: 8})
	for taken := range 6 {
		ds, err := gomlx.New(background, ld, gomlx.Options{})
		expect.OK(t, err)
		for range taken {
			_, _, _, err := ds.Yield()
			expect.Ensure(t, err == nil, "%v", err)
		}
		if taken%2 == 0 {
			ds.Reset()
			ds.Reset()
		}
		ds.Close()
		ds.Close()
		if _, _, _, err := ds.Yield(); !errors.Is(err, gomlx.ErrClosed) {
			t.Fatalf("error %v after Close, want ErrClosed", err)
		}
		ds.Reset()
		if _, _, _, err := ds.Yield(); !errors.Is(err, gomlx.ErrClosed) {
			t.Fatalf("error %v after Close and Reset, want ErrClosed", err)
		}
		for _, err := range ld.Range(background, 0, 0, 1) { // the loader is free again
			expect.OK(t, err)
		}
	}
}

func TestACancelledContextEndsYieldWithItsCause(t *testing.T) {
	ld := openLoader(t, smallGraph(t, 400), loader.Options{Sampler: neighbor, BatchSize: 8})
	ctx, cancel := context.WithCancelCause(background)
	ds, err := gomlx.New(ctx, ld, gomlx.Options{})
	expect.OK(t, err)
	defer ds.Close()
	if _, _, _, err := ds.Yield(); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("enough")
	cancel(cause)
	for range 3 {
		_, _, _, err := ds.Yield()
		expect.Ensure(t, errors.Is(err, cause), "error %v, want the cause", err)
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
		go func() {
			_, _, _, err := ds.Yield()
			result <- err
		}()
		<-s.entered
		ds.Close()
		err := <-result
		expect.Ensure(t, errors.Is(err, gomlx.ErrClosed), "error %v, want ErrClosed", err)
	}
}

func TestResetDoesNotWaitForTheRestOfTheEpoch(t *testing.T) {
	s := stuck{Neighbor: neighbor, from: 2, entered: make(chan struct{}, 1)}
	ds := openDataset(t, openLoader(t, smallGraph(t, 400), loader.Options{Sampler: s, BatchSize: 8, Workers: 1}),
		gomlx.Options{})
	_, _, _, err := ds.Yield()
	expect.Ensure(t, err == nil, "%v", err)
	<-s.entered // the third batch never comes
	ds.Reset()
}

func TestAClosedLoaderIsReportedAsSuch(t *testing.T) {
	ld := openLoader(t, smallGraph(t, 400), loader.Options{Sampler: neighbor, BatchSize: 8})
	ds := openDataset(t, ld, gomlx.Options{})
	if _, _, _, err := ds.Yield(); err != nil {
		t.Fatal(err)
	}
	expect.OK(t, ld.Close())
	var err error
	for range 400 / 8 { // what was ready may come first
		if _, _, _, err = ds.Yield(); err != nil {
			break
		}
	}
	expect.That(t, errors.Is(err, loader.ErrClosed), "error %v, want loader.ErrClosed", err)
}

func TestATypedGraphIsRefusedWithARemedy(t *testing.T) {
	g, err := graph.New(graph.Data{
		Nodes: []graph.NodeData{{Name: "user", Count: 4}, {Name: "item", Count: 4}},
		Edges: []graph.EdgeData{{Source: "user", Relation: "buys", Target: "item", Src: []int64{0, 1},
			Dst: []int64{2, 3}}},
	})
	expect.OK(t, err)
	ld := openLoader(t, g, loader.Options{Sampler: neighbor, Seeds: loader.AllNodes("item")})
	_, err = gomlx.New(background, ld, gomlx.Options{})
	expect.That(t, errors.Is(err, gomlx.ErrGraph) && strings.Contains(err.Error(), "2 node types and 1 edge types"),
		"error %v, want ErrGraph with the numbers", err)
}

func TestUnknownOptionsAreRefused(t *testing.T) {
	ld := openLoader(t, smallGraph(t, 40), loader.Options{Sampler: neighbor})
	for _, opt := range []gomlx.Options{{Pad: 7}, {After: 9}} {
		_, err := gomlx.New(background, ld, opt)
		expect.That(t, errors.Is(err, gomlx.ErrOptions), "%+v: error %v, want ErrOptions", opt, err)
	}
}
