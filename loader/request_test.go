package loader_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

// asking makes a loader that answers requests.
func asking(t testing.TB, src loader.Source, opt loader.Options) *loader.Loader {
	t.Helper()
	opt.Seeds = loader.OnRequest()
	return open(t, src, opt)
}

// batchOf returns the batch of a number that a loader makes of these seeds.
func batchOf(t *testing.T, src loader.Source, opt loader.Options, r loader.Request) (text string) {
	t.Helper()
	n := int(r.Seeds.Len())
	before := graph.NodeIDs(make([]int64, n*int(r.Number)))
	if r.Seeds.Sets[0].Times != nil {
		before.Sets[0].Times = make([]int64, n*int(r.Number))
	}
	if r.Seeds.Sets[0].From != nil {
		before.Sets[0].From = make([]int64, n*int(r.Number))
	}
	opt.BatchSize = n
	opt.Seeds = loader.GivenSeeds(graph.Seeds{Sets: append(before.Sets, r.Seeds.Sets...)})
	for b := range each(t, open(t, src, opt).Range(background, r.Epoch, r.Number, 1)) {
		text = digestOf(b)
	}
	return text
}

// An answer is, byte for byte, the batch that a loader of the same seeds has under the request's key.
func TestAnAnswerIsTheBatchOfALoaderOfItsSeeds(t *testing.T) {
	g := graphs.Columns(t, 2, 30, 150)
	past := sampling.Neighbor{Fanouts: []int{3, 2}, Time: sampling.Temporal{Edge: "time"}}
	apart := past
	apart.Disjoint = true
	for name, opt := range map[string]loader.Options{
		"plain":    {Sampler: neighbor},
		"resident": {Sampler: neighbor, Residence: loader.Resident, Seed: 7},
		"limited":  {Sampler: neighbor, MaxMemory: 8 << 20, Instance: 3},
		"of times": {Sampler: past, Columns: loader.ColumnOptions{EdgePos: true}},
		"windows":  {Sampler: apart},
	} {
		r := rand.New(rand.NewPCG(expect.Seed(t), 1))
		opt.BatchSize = 12
		l := asking(t, g, opt)
		for range 20 {
			ask := loader.Request{Epoch: r.Uint64N(3), Number: r.Uint64N(4)}
			for nodeType := range 2 {
				set := graph.SeedSet{Type: nodeType}
				ids := make([]int64, 1+r.IntN(6))
				for i := range ids {
					ids[i] = r.Int64N(30)
				}
				set.IDs = graph.NodeIDs(ids).Sets[0].IDs
				for range ids {
					if name == "of times" || name == "windows" {
						set.Times = append(set.Times, r.Int64N(100))
					}
					if name == "windows" {
						set.From = append(set.From, r.Int64N(100))
					}
				}
				ask.Seeds.Sets = append(ask.Seeds.Sets, set)
			}
			b := expect.Must(l.Sample(background, ask))(t)
			got, want := digestOf(b), batchOf(t, g, opt, ask)
			expect.That(t, got == want, "%s: %+v: the answer is %s, the batch %s", name, ask, got, want)
			ids, items := b.Seeds(0)
			expect.That(t, slices.Equal(ids, view[int64](t, ask.Seeds.Sets[0].IDs)) &&
				items[len(items)-1] == int64(len(ids)-1),
				"%s: seeds %v, numbers %v", name, ids, items)
			b.Release()
		}
	}
}

// about is a request for nodes of the first type.
func about(list ...int64) loader.Request { return loader.Request{Seeds: graph.NodeIDs(list)} }

// Goroutines that send requests at the same time get the same answers as each alone, and memory stays within the
// estimate.
func TestRequestsAreAnsweredAtATime(t *testing.T) {
	g := graphs.Plain(t, 300, 5)
	for _, most := range []int64{0, 4 << 20} {
		l := asking(t, g, loader.Options{Sampler: neighbor, BatchSize: 50, Workers: 3, MaxMemory: most})
		want := make([]string, 40)
		request := func(i int) loader.Request {
			r := about(int64(i), int64(i)*7%300, int64(i))
			r.Number = uint64(i)
			return r
		}
		for i := range want {
			b := expect.Must(l.Sample(background, request(i)))(t)
			want[i] = digestOf(b)
			b.Release()
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for i := range want {
					b, err := l.Sample(background, request(i))
					if err != nil {
						t.Error(err)
						return
					}
					got := digestOf(b)
					expect.That(t, got == want[i], "request %d: %s, want %s", i, got, want[i])
					b.Release()
				}
			})
		}
		wg.Wait()
		s, e := l.Stats(), l.Estimate()
		expect.That(t, s.Batches == 9*40 && s.SlotsHeld == 0 && s.Slots == e.Slots, "%d answers, %d held", s.Batches,
			s.SlotsHeld)
		expect.That(t, s.MemoryPeak <= e.Bound.Total() && (most == 0 || s.MemoryPeak <= most),
			"%d bytes were taken, of %d", s.MemoryPeak, e.Bound.Total())
	}
}

// A request may name a node more often than the graph has nodes, within the memory that was given in advance.
func TestARequestMayRepeatItself(t *testing.T) {
	l := asking(t, graphs.Plain(t, 20, 5), loader.Options{Sampler: neighbor, BatchSize: 100, MaxMemory: 4 << 20})
	b := expect.Must(l.Sample(background, about(make([]int64, 100)...)))(t)
	expect.That(t, b.Sample.SeedLocal[0].Len() == 100 && b.Sample.NumNodes[0][0] == 1, "%v", b.Sample.NumNodes)
	b.Release()
}

// A caller that holds all answers gets an error; a release, also another caller's, lets a waiting call continue.
func TestARequestWaitsForAnAnswerToBeReleased(t *testing.T) {
	g := graphs.Plain(t, 300, 5)
	l := asking(t, g, loader.Options{Sampler: neighbor, BatchSize: 5, Workers: 1,
		Tuning: loader.TuningOptions{Prefetch: 2, SlotTimeout: time.Millisecond}})
	var held []*loader.Batch
	for i := range int64(3) {
		held = append(held, expect.Must(l.Sample(background, about(i)))(t))
	}
	first := digestOf(held[0])
	_, err := l.Sample(background, about(9))
	expect.That(t, errors.Is(err, loader.ErrSlotsHeld) && strings.Contains(err.Error(), "release some"), "%v", err)
	ended, cancel := context.WithCancelCause(background)
	cancel(errFault)
	_, err = l.Sample(ended, about(9))
	expect.Is(t, err, errFault)
	got := make(chan error)
	patient := asking(t, g, loader.Options{Sampler: neighbor, BatchSize: 5, Workers: 1,
		Tuning: loader.TuningOptions{Prefetch: 1}})
	theirs := []*loader.Batch{expect.Must(patient.Sample(background, about(1)))(t),
		expect.Must(patient.Sample(background, about(2)))(t)}
	go func() {
		b, err := patient.Sample(background, about(3))
		if err == nil {
			b.Release()
		}
		got <- err
	}()
	theirs[0].Release()
	expect.OK(t, <-got)
	theirs[1].Release()
	again := digestOf(held[0])
	expect.That(t, again == first, "an answer that is held became %s, it was %s", again, first)
	for _, b := range held {
		b.Release()
	}
	b := expect.Must(l.Sample(background, about(9)))(t)
	held[0].Release() // does nothing to whatever lies in its slot now
	expect.That(t, !held[0].X().Valid() && b.X().Valid(), "a release was of another answer")
	b.Release()
}

// Close refuses further requests and waits for none that is held: answers outlive it.
func TestAnswersOutliveTheLoader(t *testing.T) {
	g := graphs.Plain(t, 300, 5)
	l := expect.Must(loader.New(g, loader.Options{Sampler: neighbor, BatchSize: 5, Workers: 1,
		Seeds: loader.OnRequest(), Device: loader.DeviceOptions{Name: "cpu"},
		Tuning: loader.TuningOptions{Prefetch: 1}}))(t)
	kept := expect.Must(l.Sample(background, about(1, 2)))(t)
	other := expect.Must(l.Sample(background, about(1, 2)))(t)
	want := digestOf(kept)
	ended := make(chan error)
	go func() {
		_, err := l.Sample(background, about(3)) // there is no room for it
		ended <- err
	}()
	expect.OK(t, l.Close())
	expect.Is(t, <-ended, loader.ErrClosed, "a request that waits")
	_, err := l.Sample(background, about(3))
	expect.Is(t, err, loader.ErrClosed, "a request after Close")
	got := digestOf(kept)
	expect.That(t, got == want, "an answer became %s after Close, it was %s", got, want)
	kept.Release()
	other.Release()
	n := l.Stats().Memory.Total()
	expect.That(t, n == 0, "%d bytes are held in the end", n)
}

// A request that cannot be answered says why, and the next one is answered.
func TestRequestsThatMakeNoSenseAreRefused(t *testing.T) {
	g := graphs.Columns(t, 2, 30, 150)
	l := asking(t, g, loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{3},
		Time: sampling.Temporal{Edge: "time"}}, BatchSize: 4, Workers: 1})
	timed := about(1)
	timed.Seeds.Sets[0].Times = []int64{5}
	far, typed, edges := timed, timed, about()
	far.Epoch = 1 << 32
	typed.Seeds.Sets = []graph.SeedSet{{Type: 2, IDs: timed.Seeds.Sets[0].IDs, Times: []int64{5}}}
	edges.Seeds = graph.EdgePairs([]int64{1}, []int64{2})
	for says, c := range map[string]struct {
		loader.Request
		is error
	}{
		"a request has 5 seeds":   {about(1, 2, 3, 4, 5), loader.ErrOptions},
		"nodes of type":           {about(30), graph.ErrSeed},
		"seeds of type \"n0\" ha": {about(1), sampling.ErrOptions},
		"epoch 4294967296":        {far, loader.ErrOptions},
		"node type 2 of 2":        {typed, graph.ErrSeed},
		"a request of 1 edges":    {edges, loader.ErrOptions},
	} {
		_, err := l.Sample(background, c.Request)
		expect.That(t, errors.Is(err, c.is) && strings.Contains(err.Error(), says), "%v, want %q", err, says)
	}
	b := expect.Must(l.Sample(background, timed))(t)
	b.Release()
	expect.That(t, l.NumBatches()+l.AllBatches()+l.NumBatchesFrom(0) == 0, "it has epochs")
	expect.Is(t, lastError(l.Epoch(background, 0)), loader.ErrOptions, "an epoch of requests")
	_, err := open(t, g, loader.Options{Sampler: neighbor}).Sample(background, about(1))
	expect.Is(t, err, loader.ErrOptions, "a request of a loader of epochs")
	_, err = loader.New(g, loader.Options{Sampler: neighbor, Seeds: loader.OnRequest(), Residence: loader.Disk})
	expect.That(t, errors.Is(err, loader.ErrOptions) && strings.Contains(err.Error(), "known ahead"), "disk: %v", err)
}

// A sampler that panics fails its request alone: the next has a new worker.
func TestAPanicIsTheErrorOfItsRequest(t *testing.T) {
	breaks := false
	s := hooked{Neighbor: neighbor, before: func(context.Context, int64) error {
		if breaks {
			panic("broken")
		}
		return nil
	}}
	l := asking(t, graphs.Plain(t, 300, 5), loader.Options{Sampler: s, BatchSize: 5, Workers: 1})
	var got [2]string
	for i := range got {
		breaks = true
		_, err := l.Sample(background, about(1))
		expect.Is(t, err, loader.ErrSampler)
		breaks = false
		b := expect.Must(l.Sample(background, about(1, 2)))(t)
		got[i] = digestOf(b)
		b.Release()
	}
	expect.That(t, got[0] == got[1], "%v", got)
}
