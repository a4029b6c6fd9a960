package loader_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/outlook"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
)

// wideTopology is a graph whose topology lies in files, which the folder has.
func wideTopology(t testing.TB) (g *graph.Graph, folder string) {
	t.Helper()
	needDisk(t)
	return inFiles(t, graphs.Plain(t, 20_000, 6), true)
}

var pagedOptions = loader.Options{Sampler: neighbor, BatchSize: 500, Shuffle: true, Residence: loader.Disk,
	Disk: loader.DiskOptions{CacheBytes: 40_000, Lookahead: 5}, Device: loader.DeviceOptions{Name: "cpu"},
	Columns: loader.ColumnOptions{Nodes: []string{}, Seeds: []string{}}}

// A topology on disk makes the batches that a mapped one makes, with rows on disk or without, wherever it resumes, and
// the statistics say what was read.
func TestATopologyOnDiskMakesTheSameBatches(t *testing.T) {
	g, _ := wideTopology(t)
	for _, cache := range []int64{1, 40_000, 1 << 30} {
		for _, columns := range [][]string{{}, {"feature"}} {
			opt := pagedOptions
			opt.Disk.CacheBytes, opt.Columns.Nodes = cache, columns
			mapped := opt
			mapped.Residence = loader.Mapped
			a, b := open(t, g, mapped), open(t, g, opt)
			want, got := digests(t, a.Range(background, 1, 5, 10)), digests(t, b.Range(background, 1, 5, 10))
			d := expect.Diff(want, got)
			expect.Ensure(t, d == "", "cache %d, columns %v: %s", cache, columns, d)
			s := b.Stats()
			if onDisk := s.TopologyOnDisk; (onDisk == nil) != (cache == 1<<30) {
				t.Errorf("cache %d: %+v", cache, onDisk)
			} else if onDisk != nil && (onDisk.Read == 0 || onDisk.Requests == 0 || onDisk.Bytes < 500_000 ||
				onDisk.CacheBytes != cache || s.Disk.Sum == 0) {
				t.Errorf("cache %d: %+v, %v of waiting", cache, onDisk, s.Disk)
			}
		}
	}
}

// While some workers wait for the disk, others sample: unless the user says otherwise.
func TestATopologyOnDiskHasMoreWorkersThanCores(t *testing.T) {
	g, _ := wideTopology(t)
	mapped, opt := pagedOptions, pagedOptions
	mapped.Residence = loader.Mapped
	few, many := open(t, g, mapped).Answer().Workers, open(t, g, opt).Answer().Workers
	if opt.Workers = 1; few >= many || open(t, g, opt).Answer().Workers != 1 {
		t.Errorf("%d workers where the topology is mapped, %d where it is on disk", few, many)
	}
	opt.Workers = 0
	shared := open(t, place(t, g, opt, 1), opt)
	n := shared.Answer().Workers
	expect.That(t, n == many, "%d workers of a placed source, %d of another", n, many)
	expect.That(t, len(digests(t, shared.Range(background, 0, 0, 3))) == 3 && shared.Stats().TopologyOnDisk != nil,
		"a placed source reads nothing from disk")
}

// Workers beyond the cores, which are a default, are no reason to refuse. In a control group of any size a loader opens
// where one with as many workers as cores does. It has as many as have room, and the plan says how many.
func TestWorkersThatNobodyAskedForFitTheRoom(t *testing.T) {
	g, _ := wideTopology(t)
	seed := expect.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	cores := machine.Workers()
	for _, columns := range [][]string{{}, {"feature"}} {
		opt := pagedOptions
		opt.Columns.Nodes, opt.BatchSize = columns, 100
		few := opt
		few.Workers = cores
		loader.GroupRoom(t, 1<<40)
		all := open(t, g, opt)
		want, most := digests(t, all.Range(background, 1, 2, 4)), all.Answer().Workers
		lo, hi := planned(t, g, few).Expected.Total(), planned(t, g, opt).Expected.Total()
		counts := map[int]int{}
		for i := range 8 {
			room := lo + r.Int64N(hi+hi/4-lo)
			if i < 2 {
				room = []int64{lo, 2 * hi}[i]
			}
			loader.GroupRoom(t, room)
			of := fmt.Sprintf("seed %d: columns %v, room for %d, %d to %d are planned", seed, columns, room, lo, hi)
			plan := planned(t, g, opt)
			l, err := loader.New(g, opt)
			expect.Ensure(t, err == nil, "%s: %v", of, err)
			n := l.Answer().Workers
			counts[n]++
			expect.Same(t, digests(t, l.Range(background, 1, 2, 4)), want, of)
			if n < cores || n > most || i == 0 && n != cores || i == 1 && n != most || plan.Workers != n ||
				l.Estimate().Workers != n || plan.Expected.Total() > room || l.Stats().MemoryPeak > room {
				t.Errorf("%s: %d workers, %d planned, at most %d bytes", of, n, plan.Workers, l.Stats().MemoryPeak)
			}
			err = l.Close()
			expect.Ensure(t, err == nil, "%s: %v", of, err)
		}
		t.Logf("workers, and how often: %v", counts)
	}
}

func planned(t *testing.T, g *graph.Graph, opt loader.Options) loader.Estimate {
	t.Helper()
	return expect.Must(loader.Plan(background, g, opt))(t)
}

// MaxMemory takes such workers before it takes batches that wait for the loop.
func TestWorkersThatNobodyAskedForGoBeforeBatchesAhead(t *testing.T) {
	g, _ := wideTopology(t)
	opt := pagedOptions
	opt.MaxMemory = 1 << 40
	most := open(t, g, opt)
	opt.MaxMemory = most.Estimate().Bound.Total() - 1
	l := open(t, g, opt)
	if o := l.Answer(); o.Workers != most.Answer().Workers-1 || o.Prefetch != most.Answer().Prefetch {
		t.Errorf("%d workers, %d batches ahead", o.Workers, o.Prefetch)
	}
	p := place(t, g, opt, 2)
	a, b := open(t, p, opt), open(t, p, opt)
	expect.That(t, a.Answer().Workers < l.Answer().Workers && b.Answer().Workers == a.Answer().Workers,
		"%d and %d workers of two loaders that share the memory", a.Answer().Workers, b.Answer().Workers)
	opt.MaxMemory = 0
	loader.GroupRoom(t, planned(t, g, opt).Expected.Total()*3/2)
	n := open(t, g, opt).Answer().Workers
	expect.That(t, n == most.Answer().Workers, "%d workers in a control group", n)
	p = place(t, g, opt, 2)
	a, b = open(t, p, opt), open(t, p, opt)
	if n := a.Answer().Workers; n >= most.Answer().Workers || b.Answer().Workers != n {
		t.Errorf("%d and %d workers of two loaders that share a control group", n, b.Answer().Workers)
	}
}

func TestAFailingDiskUnderTheTopologyIsTheErrorOfItsBatch(t *testing.T) {
	failsUnderATopology(t, pagedOptions)
}

// failsUnderATopology loads with a request that fails: it is the error of its batch, and the next epoch is right.
func failsUnderATopology(t *testing.T, opt loader.Options) {
	t.Helper()
	g, folder := wideTopology(t)
	var requests, fail atomic.Int64
	failRead(t, func() bool { return requests.Add(1) == fail.Load() })
	opt.Disk.CacheBytes, opt.Workers = 1, 2
	l := open(t, g, opt)
	want := digests(t, l.Epoch(background, 0))
	fail.Store(requests.Load() + 200)
	at := failsOnce(t, l, want)
	expect.That(t, filepath.Dir(at.Path) == folder, "got %v", at)
}

func TestATopologyThatIsCutShortIsAnErrorWithItsPlace(t *testing.T) {
	g, folder := wideTopology(t)
	opt := pagedOptions
	opt.Disk.CacheBytes = 1
	l := open(t, g, opt)
	path := filepath.Join(folder, "indices")
	expect.OK(t, os.Truncate(path, 8192))
	var failed error
	for _, err := range l.Epoch(background, 0) {
		failed = err
	}
	expect.That(t,
		errors.Is(failed, pinned.ErrFault) && errors.Is(failed, io.ErrUnexpectedEOF) &&
			strings.Contains(failed.Error(), path+": byte "), "got %v", failed)
}

// A trainer that waits for the disk gets a message of it, and can stop waiting.
func TestWaitingForATopologyIsSaidSo(t *testing.T) {
	opt := pagedOptions
	opt.Disk.CacheBytes = 1
	waitsForATopology(t, opt)
}

// waitsForATopology fails the test where a loader does not say that it waits for the disk, or cannot be left then.
func waitsForATopology(t *testing.T, opt loader.Options) {
	t.Helper()
	g, _ := wideTopology(t)
	release, stalled := make(chan struct{}), make(chan struct{})
	var stall atomic.Bool
	var once sync.Once
	loader.ReadWith(t, diskio.ReaderOptions{Intercept: func(_ string, _ int64, _ []byte, n int, err error) (int,
		error) {
		if stall.Load() {
			once.Do(func() { close(stalled) })
			<-release
		}
		return n, err
	}})
	l := open(t, g, opt)
	stall.Store(true)
	leaveAStalledDisk(t, l, stalled, release)
	s := l.Stats()
	expect.That(t, s.Disk.Count != 0 && s.Disk.Sum != 0 && s.Disk.Count == s.Sample.Count,
		"waiting for the disk is not in the statistics: %+v, sampling %+v", s.Disk, s.Sample)
}

func TestPlanCountsWhatATopologyOnDiskTakes(t *testing.T) {
	g, _ := wideTopology(t)
	opt := pagedOptions
	opt.MaxMemory = 400 << 20
	plan := expect.Must(loader.Plan(background, g, opt))(t)
	l := open(t, g, opt)
	digests(t, l.Epoch(background, 0))
	peak, planned := l.Stats().MemoryPeak, plan.Bound.Total()
	expect.That(t, peak <= planned && planned <= opt.MaxMemory, "%d bytes were taken, %d planned", peak, planned)
}

// An outlook says what an epoch reads of the topology, with columns or without.
func TestAnOutlookSaysWhatATopologyOnDiskCosts(t *testing.T) {
	needDisk(t)
	g, _ := inFiles(t, graphs.Plain(t, 4000, 6), true)
	loader.ReadWith(t, diskio.ReaderOptions{Depth: 8}) // without a probe, which takes its time
	opt := pagedOptions
	for _, columns := range [][]string{{}, {"feature"}} {
		opt.Columns.Nodes, opt.Disk.CacheBytes = columns, 40_000
		o, err := outlook.Look(background, g, opt)
		expect.OK(t, err)
		l := open(t, g, opt)
		before := l.Stats().TopologyOnDisk.Wanted
		if len(columns) == 0 { // nobody samples ahead
			digests(t, l.Epoch(background, 0))
			digests(t, l.Epoch(background, 1))
			if is := (l.Stats().TopologyOnDisk.Wanted - before) / 2; is != o.Topology.Wanted || is == 0 {
				t.Errorf("%d pages are wanted in an epoch, an outlook has %d", is, o.Topology.Wanted)
			}
		}
		if d := o.Topology; d == nil || d.Requests == 0 || d.Bytes != o.TopologyBytes || d.Read > d.Wanted ||
			len(o.Caches) > 0 == (len(columns) == 0) || len(columns) == 0 && o.Probe.Depth != 8 {
			t.Errorf("columns %v: %+v", columns, o)
		}
		opt.Disk.CacheBytes = 1 << 30
		o, err = outlook.Look(background, g, opt)
		if len(columns) == 0 && !errors.Is(err, loader.ErrOptions) ||
			len(columns) > 0 && (err != nil || o.Topology != nil) {
			t.Errorf("columns %v, with room for all: %+v, %v", columns, o, err)
		}
	}
}

func TestAutoLeavesATopologyOnDiskThatIsLargerThanMemory(t *testing.T) {
	g, _ := wideTopology(t)
	opt := pagedOptions
	opt.Residence, opt.Disk.CacheBytes = loader.Auto, 0
	opt.Sampler = sampling.Neighbor{Fanouts: []int{2}}
	for available, want := range map[int64]loader.Residence{1 << 30: loader.Mapped, 300_000: loader.Disk} {
		loader.AvailableMemory(t, available)
		l := open(t, g, opt)
		if got := l.Answer().Residence; got != want || (l.Stats().TopologyOnDisk != nil) != (want == loader.Disk) {
			t.Errorf("%d bytes available: %v, %+v", available, got, l.Stats().TopologyOnDisk)
		}
	}
}
