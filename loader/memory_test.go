package loader_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

func TestAnEpochTakesNoMoreMemoryThanNewDid(t *testing.T) {
	for _, g := range []*graph.Graph{graphs.Plain(t, 20000, 8), graphs.Typed(t, 3000, 2000)} {
		l := open(t, g, loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{5, 3}}, BatchSize: 200, Shuffle: true,
			Workers: 3,
			Seeds:   loader.AllNodes()})
		want := l.Stats().Memory
		e := l.Estimate().Expected
		expect.That(t, e == want, "expected %+v, held after New %+v", e, want)
		digests(t, l.Epoch(background, 3))
		if got := l.Stats(); got.Memory != want || got.MemoryPeak > l.Estimate().Bound.Total() {
			t.Errorf("memory after New %+v, after an epoch %+v (at most %d, bound %+v)", want, got.Memory,
				got.MemoryPeak, l.Estimate().Bound)
		}
	}
}

func TestPlanSaysBeforehandWhatNewTakes(t *testing.T) {
	for _, g := range []*graph.Graph{graphs.Plain(t, 6000, 8), graphs.Typed(t, 3000, 2000)} {
		for _, opt := range []loader.Options{{}, {Residence: loader.Resident,
			Tuning: loader.TuningOptions{Prefetch: 5}}, {MaxMemory: 100 << 20},
			{MaxMemory: 1 << 20}} {
			opt.Sampler, opt.BatchSize, opt.Workers, opt.Seeds = sampling.Neighbor{Fanouts: []int{5, 3}}, 200, 3,
				loader.AllNodes()
			plan, err := loader.Plan(background, g, opt)
			l, err2 := loader.New(g, opt)
			if err != nil || err2 != nil {
				expect.That(t, errors.Is(err, loader.ErrMemory) && errors.Is(err2, loader.ErrMemory),
					"Plan: %v, New: %v", err, err2)
				continue
			}
			is := l.Estimate()
			want, got := is.Expected.Total(), plan.Expected.Total()
			is.Expected, plan.Expected = loader.Memory{}, loader.Memory{}
			expect.That(t, is == plan && got >= want*8/10 && got <= want*12/10,
				"Plan says %d and %+v, New takes %d and says %+v", got, plan, want, is)
			expect.OK(t, l.Close())
		}
	}
}

func TestMaxMemoryIsKept(t *testing.T) {
	g := graphs.Plain(t, 6000, 8)
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
			expect.That(t, strings.Contains(err.Error(), "MaxMemory"), "the error does not say what is allowed: %v",
				err)
			break
		}
		expect.OK(t, err)
		least = limit
		workers[l.Estimate().Slots] = true
		expect.Same(t, digests(t, l.Epoch(background, 0)), want, "limit %d", limit)
		s, e := l.Stats(), l.Estimate()
		expect.That(t, s.MemoryPeak <= limit && e.Bound.Total() <= limit && s.Slots == e.Workers+e.Prefetch,
			"limit %d: took %d, said %+v", limit, s.MemoryPeak, e)
		expect.OK(t, l.Close())
	}
	expect.That(t, least != 0 && len(workers) >= 5,
		"the limits tried were all too small or all alike: least %d, slots %v", least, workers)
}

func TestASamplerThatTakesMoreThanItSaidIsStoppedByMaxMemory(t *testing.T) {
	g := graphs.Plain(t, 1000, 8)
	s := greedy{cycle{}}
	for _, opt := range []loader.Options{{Sampler: s, MaxMemory: 1 << 20}, {Sampler: s, MaxMemory: 4 << 10}} {
		expect.Is(t, expect.Err(loader.New(g, opt)), loader.ErrMemory, "%d bytes", opt.MaxMemory)
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
	nodes := loader.Options{Sampler: neighbor, BatchSize: 2, Shuffle: true, Seeds: loader.AllNodes(), Workers: 2}
	links := loader.Options{Sampler: neighbor, BatchSize: 2, Shuffle: true, Seeds: loader.AllEdges("likes", "friend"),
		Workers: 2, Links: loader.LinkOptions{ExcludeSeeds: loader.ExcludeReverse,
			Negatives: sampling.Negatives{Ratio: 3}}}
	for name, c := range map[string]struct {
		g    *graph.Graph
		opt  loader.Options
		most uint64 // batches of an epoch
	}{"nodes": {graphs.Plain(t, 4000, 8), nodes, 1000}, "nodes of types": {graphs.Typed(t, 3000, 1000), nodes, 1000},
		"edges": {reversible(t), links, 80}} {
		l := open(t, c.g, c.opt)
		allocated := func(epoch, n uint64) float64 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for b := range each(t, l.Range(background, epoch, 0, n)) {
				_ = b.X()
			}
			runtime.ReadMemStats(&after)
			return float64(after.Mallocs - before.Mallocs)
		}
		allocated(0, 50)
		least := math.Inf(1) // what else runs allocates, too, and each epoch a little
		for epoch := uint64(1); epoch <= 5; epoch++ {
			least = min(least, (allocated(epoch, c.most)-allocated(epoch, c.most/5))/float64(c.most-c.most/5))
		}
		expect.That(t, least <= 0.2, "%s: %.2f allocations a batch", name, least)
	}
}

func TestResidentCopiesWhatIsReadAndSaysHowFar(t *testing.T) {
	g := graphs.Plain(t, 5000, 8)
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
	s := stages["slots"]
	expect.That(t, s[0] != 0 && s[0] == s[1], "slots: %v", s)
	opt.Residence, opt.Hooks.Progress = loader.Mapped, nil
	mapped := open(t, g, opt)
	expect.Same(t, digests(t, l.Epoch(background, 0)), digests(t, mapped.Epoch(background, 0)))
	copies := l.Estimate().Bound
	m = mapped.Stats().Memory
	expect.That(t, m.Topology == 0 && m.Columns == 0 && mapped.Estimate().FileBytes == copies.Topology+copies.Columns,
		"a loader that reads in place holds %+v", m)
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
	g := graphs.Plain(t, n, 8)
	dir := t.TempDir()
	onDisk := func(name string, x unified.Tensor) unified.Tensor {
		return inFile(t, filepath.Join(dir, name), 0, x)
	}
	a := graphs.ArraysOf(g)
	a.Indptr, a.Indices = onDisk("indptr", a.Indptr), onDisk("indices", a.Indices)
	for _, columns := range []map[string]unified.Tensor{a.NodeColumns[0], a.EdgeColumns} {
		for name, x := range columns {
			columns[name] = onDisk(name, x)
		}
	}
	train, _ := g.Split("train", 0)
	a.Splits = []graph.Split{{Name: "train", Seeds: graph.Seeds{Sets: []graph.SeedSet{{IDs: onDisk("train",
		train.Sets[0].IDs)}}}}}
	return files{graphs.Of(t, a), dir}
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
		expect.That(t, errors.Is(last, pinned.ErrFault) && strings.Contains(last.Error(), src.dir) && n >= 3 && n <= 20,
			"%s: after %d batches: %v", name, n, last)
		expect.Is(t, lastError(l.Epoch(background, 1)), pinned.ErrFault, "%s: the epoch after", name)
		if name == "feature" || name == "label" || name == "weight" { // not read by New unless copied
			continue
		}
		expect.Is(t, expect.Err(loader.New(src, loader.Options{Sampler: neighbor, Residence: loader.Resident})),
			pinned.ErrFault, "%s: New", name)
	}
}
