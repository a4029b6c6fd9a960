package loader_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

func TestAnEpochTakesNoMoreMemoryThanNewDid(t *testing.T) {
	for _, g := range []*graph.Graph{plainGraph(t, 20000, 8), typedGraph(t, 3000, 2000)} {
		l := open(t, g, loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{5, 3}}, BatchSize: 200, Shuffle: true,
			Workers: 3,
			Seeds:   loader.AllNodes()})
		want := l.Stats().Memory
		if e := l.Estimate().Expected; e != want {
			t.Errorf("expected %+v, held after New %+v", e, want)
		}
		digests(t, l.Epoch(background, 3))
		if got := l.Stats(); got.Memory != want || got.MemoryPeak > l.Estimate().Bound.Total() {
			t.Errorf("memory after New %+v, after an epoch %+v (at most %d, bound %+v)", want, got.Memory,
				got.MemoryPeak, l.Estimate().Bound)
		}
	}
}

func TestPlanSaysBeforehandWhatNewTakes(t *testing.T) {
	for _, g := range []*graph.Graph{plainGraph(t, 6000, 8), typedGraph(t, 3000, 2000)} {
		for _, opt := range []loader.Options{{}, {Residence: loader.Resident,
			Tuning: loader.TuningOptions{Prefetch: 5}}, {MaxMemory: 100 << 20},
			{MaxMemory: 1 << 20}} {
			opt.Sampler, opt.BatchSize, opt.Workers, opt.Seeds = sampling.Neighbor{Fanouts: []int{5, 3}}, 200, 3,
				loader.AllNodes()
			plan, err := loader.Plan(background, g, opt)
			l, err2 := loader.New(g, opt)
			if err != nil || err2 != nil {
				if !errors.Is(err, loader.ErrMemory) || !errors.Is(err2, loader.ErrMemory) {
					t.Errorf("Plan: %v, New: %v", err, err2)
				}
				continue
			}
			is := l.Estimate()
			want, got := is.Expected.Total(), plan.Expected.Total()
			is.Expected, plan.Expected = loader.Memory{}, loader.Memory{}
			if is != plan || got < want*8/10 || got > want*12/10 {
				t.Errorf("Plan says %d and %+v, New takes %d and says %+v", got, plan, want, is)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestMaxMemoryIsKept(t *testing.T) {
	g := plainGraph(t, 6000, 8)
	opt := loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{-1, 5}}, BatchSize: 100, Shuffle: true, Workers: 4,
		Tuning:    loader.TuningOptions{Prefetch: 4},
		Residence: loader.Resident}
	free := open(t, g, opt)
	want := digests(t, free.Epoch(background, 0))
	most := free.Estimate().Bound.Total()
	least := int64(0)
	workers := map[int]bool{}
	for limit := most; ; limit -= limit / 8 {
		opt.MaxMemory = limit
		l, err := loader.New(g, opt)
		if errors.Is(err, loader.ErrMemory) {
			if !strings.Contains(err.Error(), "MaxMemory") {
				t.Errorf("the error does not say what is allowed: %v", err)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		least = limit
		workers[l.Estimate().Slots] = true
		if d := expect.Diff(want, digests(t, l.Epoch(background, 0))); d != "" {
			t.Errorf("limit %d: %s", limit, d)
		}
		if s, e := l.Stats(), l.Estimate(); s.MemoryPeak > limit || e.Bound.Total() > limit ||
			s.Slots != e.Workers+e.Prefetch {
			t.Errorf("limit %d: took %d, said %+v", limit, s.MemoryPeak, e)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if least == 0 || len(workers) < 5 {
		t.Errorf("the limits tried were all too small or all alike: least %d, slots %v", least, workers)
	}
}

func TestASamplerThatTakesMoreThanItSaidIsStoppedByMaxMemory(t *testing.T) {
	g := plainGraph(t, 1000, 8)
	s := greedy{cycle{}}
	for _, opt := range []loader.Options{{Sampler: s, MaxMemory: 1 << 20}, {Sampler: s, MaxMemory: 4 << 10}} {
		if _, err := loader.New(g, opt); !errors.Is(err, loader.ErrMemory) {
			t.Errorf("%d bytes: %v", opt.MaxMemory, err)
		}
	}
}

// greedy takes memory that it does not tell of.
type greedy struct{ cycle }

func (g greedy) Open(env sampling.Env) (sampling.Worker, error) {
	w, err := g.cycle.Open(env)
	b := &unified.Buffer{}
	b.Options = env.Scratch
	return greedyWorker{w, b}, errors.Join(err, b.Reserve(8<<20))
}

type greedyWorker struct {
	sampling.Worker
	b *unified.Buffer
}

func (w greedyWorker) Close() error { return w.b.Close() }

func TestAWarmLoaderAllocatesNothing(t *testing.T) {
	for _, g := range []*graph.Graph{plainGraph(t, 4000, 8), typedGraph(t, 3000, 1000)} {
		l := open(t, g, loader.Options{Sampler: neighbor, BatchSize: 2, Shuffle: true, Seeds: loader.AllNodes(),
			Workers: 2})
		digests(t, l.Range(background, 0, 0, 50))
		var before, after runtime.MemStats
		n := uint64(0)
		runtime.ReadMemStats(&before)
		for b, err := range l.Range(background, 1, 0, 1000) {
			if err != nil {
				t.Fatal(err)
			}
			_ = b.X()
			n++
		}
		runtime.ReadMemStats(&after)
		if perBatch := float64(after.Mallocs-before.Mallocs) / float64(n); n != 1000 || perBatch > 0.2 {
			t.Errorf("%.2f allocations a batch over %d batches", perBatch, n)
		}
	}
}

func TestResidentCopiesWhatIsReadAndSaysHowFar(t *testing.T) {
	g := plainGraph(t, 5000, 8)
	stages := map[string][2]int64{}
	opt := loader.Options{Sampler: neighbor, BatchSize: 100, Residence: loader.Resident, Workers: 2,
		Hooks: loader.Hooks{Progress: func(stage string, done, total int64) {
			if last := stages[stage]; done < last[0] || done > total || last[1] != 0 && last[1] != total {
				t.Errorf("%s: %d of %d after %d of %d", stage, done, total, last[0], last[1])
			}
			stages[stage] = [2]int64{done, total}
		}}}
	l := open(t, g, opt)
	m := l.Stats().Memory
	if topology := int64(5001*8 + 40000*4); m.Topology < topology || m.Topology > topology+3*65536 ||
		stages["topology"] != [2]int64{topology, topology} {
		t.Errorf("topology takes %d, reported %v, has %d", m.Topology, stages["topology"], topology)
	}
	if columns := int64(5000 * 20); m.Columns < columns || stages["columns"] != [2]int64{columns, columns} {
		t.Errorf("columns take %d, reported %v, have %d", m.Columns, stages["columns"], columns)
	}
	if e := l.Estimate(); e.Bound.Topology != m.Topology || e.Bound.Columns != m.Columns || e.FileBytes != 0 {
		t.Errorf("%+v is held, the estimate is %+v", m, e)
	}
	if s := stages["slots"]; s[0] == 0 || s[0] != s[1] {
		t.Errorf("slots: %v", s)
	}
	opt.Residence, opt.Hooks.Progress = loader.Mapped, nil
	mapped := open(t, g, opt)
	if d := expect.Diff(digests(t, mapped.Epoch(background, 0)), digests(t, l.Epoch(background, 0))); d != "" {
		t.Error(d)
	}
	copies := l.Estimate().Bound
	if m := mapped.Stats().Memory; m.Topology != 0 || m.Columns != 0 ||
		mapped.Estimate().FileBytes != copies.Topology+copies.Columns {
		t.Errorf("a loader that reads in place holds %+v", m)
	}
}

func TestNewStopsWhenItsContextEnds(t *testing.T) {
	g := plainGraph(t, 5000, 8)
	why := errors.New("why")
	for _, stage := range []string{"topology", "columns", "slots"} {
		ctx, cancel := context.WithCancelCause(background)
		defer cancel(nil)
		l, err := loader.NewContext(ctx, g, loader.Options{Sampler: neighbor, BatchSize: 100,
			Residence: loader.Resident,
			Hooks: loader.Hooks{Progress: func(s string, _, _ int64) {
				if s == stage {
					cancel(why)
				}
			}}})
		if l != nil || !errors.Is(err, why) {
			t.Errorf("cancelled at %s: %v, %v", stage, l, err)
		}
	}
}

// files is a graph in mapped files.
type files struct {
	loader.Source // a *graph.Graph
	dir           string
}

func (f files) Path() string { return f.dir }

// mappedGraph writes a plain graph to files, one an array, and maps them.
func mappedGraph(t *testing.T, n int) files {
	t.Helper()
	g := plainGraph(t, n, 8)
	dir := t.TempDir()
	onDisk := func(name string, x unified.Tensor) unified.Tensor {
		return inFile(t, filepath.Join(dir, name), 0, x)
	}
	feature, _ := g.NodeColumn(0, "feature")
	label, _ := g.NodeColumn(0, "label")
	weight, _ := g.EdgeColumn("weight")
	train, _ := g.Split("train", 0)
	a := graph.Arrays{
		Schema: *g.Schema(), ID: g.ID(),
		Indptr: onDisk("indptr", unified.FromSlice(g.Indptr())), Indices: onDisk("indices", g.Indices()),
		NodeColumns: []map[string]unified.Tensor{{"feature": onDisk("feature", feature),
			"label": onDisk("label", label)}},
		EdgeColumns: map[string]unified.Tensor{"weight": onDisk("weight", weight)},
		Splits: []graph.Split{{Name: "train", Seeds: graph.Seeds{Sets: []graph.SeedSet{{IDs: onDisk("train",
			train.Sets[0].IDs)}}}}},
	}
	m := expect.Must(graph.FromArrays(a))(t)
	return files{m, dir}
}

func TestAFileCutShortMeanwhileEndsTheEpochWithAnError(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows refuses to cut a mapped file")
	}
	for _, name := range []string{"indptr", "indices", "feature", "label", "weight", "train"} {
		src := mappedGraph(t, 12000)
		l := open(t, src, loader.Options{Sampler: neighbor, BatchSize: 50, Shuffle: true, Workers: 3,
			Columns: loader.ColumnOptions{Edges: []string{"weight"}}})
		n := 0
		var last error
		for _, err := range l.Epoch(background, 0) {
			if n++; n == 2 {
				expect.OK(t, os.Truncate(filepath.Join(src.dir, name), 4096))
			}
			last = err
		}
		if !errors.Is(last, pinned.ErrFault) || !strings.Contains(last.Error(), src.dir) || n < 3 || n > 20 {
			t.Errorf("%s: after %d batches: %v", name, n, last)
		}
		if err := lastError(l.Epoch(background, 1)); !errors.Is(err, pinned.ErrFault) {
			t.Errorf("%s: the epoch after: %v", name, err)
		}
		if name == "feature" || name == "label" || name == "weight" { // not read by New unless copied
			continue
		}
		if _, err := loader.New(src, loader.Options{Sampler: neighbor, Residence: loader.Resident}); !errors.Is(err,
			pinned.ErrFault) {
			t.Errorf("%s: New: %v", name, err)
		}
	}
}
