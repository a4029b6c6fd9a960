package loader_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/wholefile"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/trace"
	"github.com/khop-gnn/khop/sampling"
)

// traceEvent is an event of a Chrome trace.
type traceEvent struct {
	Phase    string  `json:"ph"`
	Name     string  `json:"name"`
	Thread   int     `json:"tid"`
	Start    float64 `json:"ts"` // microseconds
	Duration float64 `json:"dur"`
	ID       int     `json:"id"`
	Args     struct {
		Name   string `json:"name"`
		Number int    `json:"number"`
		Value  int    `json:"value"` // of a counter
	} `json:"args"`
}

// readTrace returns the events of a trace by lane.
func readTrace(t testing.TB, path string) (lanes map[string][]traceEvent, base int64) {
	t.Helper()
	var file struct {
		Base   int64        `json:"baseTimeNanoseconds"`
		Events []traceEvent `json:"traceEvents"`
	}
	expect.OK(t, json.Unmarshal(expect.Must(os.ReadFile(path))(t), &file))
	lanes, names := map[string][]traceEvent{}, map[int]string{}
	for _, e := range file.Events {
		if e.Name == "thread_name" {
			names[e.Thread] = e.Args.Name
		} else if e.Phase != "M" {
			lanes[names[e.Thread]] = append(lanes[names[e.Thread]], e)
		}
	}
	return lanes, file.Base
}

// nests fails the test unless spans of a lane nest, and returns how long those take that lie in no other.
func nests(t testing.TB, name string, lane []traceEvent) (total float64) {
	t.Helper()
	var open []float64
	at := math.Inf(-1)
	for _, e := range lane {
		if e.Phase != "X" {
			continue
		}
		expect.That(t, e.Start >= at, "%s: %+v begins before the one before it", name, e)
		at = e.Start
		for len(open) > 0 && e.Start >= open[len(open)-1]-0.0015 { // times have three decimals
			open = open[:len(open)-1]
		}
		if end := e.Start + e.Duration; len(open) == 0 {
			total += e.Duration
		} else {
			expect.That(t, end <= open[len(open)-1]+0.0015, "%s: %+v ends after the span that it lies in", name, e)
		}
		open = append(open, e.Start+e.Duration)
	}
	return total
}

// A trace has a lane for the loop and for each worker, whose spans nest and add up to the epoch, an arrow for each
// batch, and counters.
func TestATraceShowsWhatWorkersAndLoopDid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	g := graphs.Plain(t, 1000, 4)
	var began time.Time
	var seconds float64
	batches := 0
	synctest.Test(t, func(t *testing.T) { // its clock goes on when all wait
		takes := func(context.Context, int64) error {
			time.Sleep(3 * time.Millisecond)
			return nil
		}
		sampler := hooked{Neighbor: sampling.Neighbor{Fanouts: []int{3, 2}}, before: takes}
		l := expect.Must(loader.New(g, loader.Options{Sampler: sampler, BatchSize: 50, Workers: 2,
			Device: loader.DeviceOptions{Name: "cpu"}, Tuning: loader.TuningOptions{Trace: path},
			Hooks: loader.Hooks{Trace: trace.Open}}))(t)
		began = time.Now()
		for range each(t, l.Epoch(background, 0)) {
			batches++
			time.Sleep(2 * time.Millisecond)
		}
		seconds = time.Since(began).Seconds()
		expect.OK(t, l.Close())
	})
	lanes, base := readTrace(t, path)
	total := nests(t, "loop", lanes["loop"]) / 1e6
	expect.That(t, math.Abs(total-seconds) <= 0.02*seconds, "the loop's spans take %v s of %v", total, seconds)
	names, arrows := map[string]int{}, map[int]string{}
	for name, lane := range lanes {
		total := nests(t, name, lane) / 1e6
		expect.That(t, total <= seconds*1.0001, "%s: %v s of %v", name, total, seconds)
		first := lane[0].Start*1e3 + float64(base) - float64(began.UnixNano())
		expect.That(t, first >= -1e3 && first <= 1e9*seconds, "%s: it begins %v ns after the epoch", name, first)
		for _, e := range lane {
			names[e.Name]++
			if e.Phase == "s" || e.Phase == "f" {
				arrows[e.ID] += e.Phase
			}
		}
	}
	for _, name := range []string{"batch", "sample", "seeds", "fetch", "finish", "step", "wait for a batch"} {
		if n := names[name]; n != batches && !(name == "batch" && n == 3*batches) { // arrows are called so, too
			t.Errorf("%d spans %q, want %d", n, name, batches)
		}
	}
	expect.That(t, names["hop"] == 2*batches && names["wait for a slot"] > 0 && names["batches ready"] > 0 &&
		names["memory: batches"] > 0 && names["cache misses"] == 0, "%v", names)
	expect.That(t, len(arrows) == batches, "%d arrows, %d batches", len(arrows), batches)
	for id, ends := range arrows {
		expect.That(t, len(ends) == 2 && strings.Contains("sf fs", ends), "arrow %d has the ends %q", id, ends)
	}
}

// Bytes are in flight while rows are fetched, and a batch that a trainer keeps has a span on a lane of its slot.
func TestATraceShowsWhatIsFetchedAndWhatIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	const fetching, held = 4 * time.Millisecond, 9 * time.Millisecond
	slow := &clocked{situation: situation{fetch: fetching}}
	batches, bytes := 0, uint64(0)
	synctest.Test(t, func(t *testing.T) {
		l := expect.Must(loader.New(graphs.Plain(t, 400, 4), loader.Options{Sampler: neighbor, BatchSize: 50,
			Workers: 2, Device: loader.DeviceOptions{Name: "cpu"}, Tuning: loader.TuningOptions{Trace: path},
			Hooks: loader.Hooks{Trace: trace.Open, Tier: slow}}))(t)
		for b := range each(t, l.Epoch(background, 0)) {
			b.Keep()
			time.AfterFunc(held, b.Release)
			batches++
		}
		time.Sleep(2 * held)
		bytes = l.Stats().Bytes
		expect.OK(t, l.Close())
	})
	lanes, _ := readTrace(t, path)
	most := inFlight(t, lanes)
	expect.That(t, most > 0 && uint64(most) <= bytes, "%d bytes were in flight, of %d", most, bytes)
	kept := 0
	for name, lane := range lanes {
		if !strings.HasPrefix(name, "trainer, slot ") {
			continue
		}
		nests(t, name, lane)
		for _, e := range lane {
			expect.That(t, math.Abs(e.Duration-float64(held.Microseconds())) < 0.01, "%s: %+v", name, e)
			kept++
		}
	}
	expect.That(t, kept == batches, "%d batches were kept, %d spans", batches, kept)
}

// inFlight returns the most bytes that were in flight, and fails the test unless none are in the end.
func inFlight(t testing.TB, lanes map[string][]traceEvent) (most int) {
	t.Helper()
	last, at := -1, math.Inf(-1)
	for _, lane := range lanes {
		for _, e := range lane {
			if e.Name == "bytes in flight" {
				expect.That(t, e.Args.Value >= 0 && e.Start >= at, "%+v after %v", e, at)
				last, at, most = e.Args.Value, e.Start, max(most, e.Args.Value)
			}
		}
	}
	expect.That(t, last == 0, "%d bytes are in flight in the end", last)
	return most
}

// Batches that nobody takes, because a loop breaks off, are not counted as ready in the next epoch.
func TestATraceCountsTheBatchesThatAreReady(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	synctest.Test(t, func(t *testing.T) {
		l := expect.Must(loader.New(graphs.Plain(t, 400, 4), loader.Options{Sampler: neighbor, BatchSize: 20,
			Workers: 2, Device: loader.DeviceOptions{Name: "cpu"}, Tuning: loader.TuningOptions{Trace: path},
			Hooks: loader.Hooks{Trace: trace.Open}}))(t)
		for epoch := range uint64(10) {
			n := 0
			for range each(t, l.Epoch(background, epoch)) {
				synctest.Wait() // the workers have made all that may wait
				if n++; n == 3 {
					break
				}
			}
		}
		expect.OK(t, l.Close())
	})
	lanes, _ := readTrace(t, path)
	most := 0
	for _, e := range lanes["loop"] {
		if e.Name == "batches ready" {
			most = max(most, e.Args.Value)
		}
	}
	expect.That(t, most > 0 && most < 2+2, "%d batches were ready, of 4 slots of which the loop had one", most)
}

// Loaders of one process share a trace, which has the lanes of each rank.
func TestRanksShareATrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	g := graphs.Plain(t, 400, 4)
	var all []*loader.Loader
	for rank := range 2 {
		l := expect.Must(loader.New(g, loader.Options{Sampler: neighbor, BatchSize: 50, Workers: 1, Rank: rank,
			WorldSize: 2, Device: loader.DeviceOptions{Name: "cpu"}, Tuning: loader.TuningOptions{Trace: path},
			Hooks: loader.Hooks{Trace: trace.Open}}))(t)
		digests(t, l.Epoch(background, 0))
		all = append(all, l)
	}
	for _, l := range all {
		_, err := os.Stat(path)
		expect.That(t, os.IsNotExist(err), "the trace is there before the last loader is closed: %v", err)
		expect.OK(t, l.Close())
	}
	lanes, _ := readTrace(t, path)
	var names []string
	for name := range lanes {
		names = append(names, name)
	}
	slices.SortFunc(names, cmp.Compare[string])
	expect.Same(t, names, []string{"rank 0: loop", "rank 0: worker 0", "rank 1: loop", "rank 1: worker 0"})
}

func TestATraceReplacesTracesAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	expect.OK(t, os.WriteFile(path, []byte("my notes"), 0o600))
	opt := loader.Options{Sampler: neighbor, BatchSize: 50, Tuning: loader.TuningOptions{Trace: path},
		Hooks:  loader.Hooks{Trace: trace.Open},
		Device: loader.DeviceOptions{Name: "cpu"}}
	_, err := loader.New(graphs.Plain(t, 400, 4), opt)
	expect.That(t, err != nil && strings.Contains(err.Error(), "notes.txt"), "a foreign file: %v", err)
	expect.Same(t, string(expect.Must(os.ReadFile(path))(t)), "my notes")
	opt.Tuning.Trace = filepath.Dir(path)
	_, err = loader.New(graphs.Plain(t, 400, 4), opt)
	expect.That(t, errors.Is(err, wholefile.ErrKind), "a folder: %v", err)
	opt.Hooks.Trace = nil
	_, err = loader.New(graphs.Plain(t, 400, 4), opt)
	expect.Says(t, err, loader.ErrOptions, "Tuning.Trace needs Hooks.Trace: trace.Open", "nobody writes it")
}
