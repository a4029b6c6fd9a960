package loader_test

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/pinned/pinnedtest"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// inFile returns a tensor as a mapped file, which has that many zero bytes before it.
func inFile(t testing.TB, path string, zeros int, x unified.Tensor) unified.Tensor {
	t.Helper()
	return expect.Must(unified.New(x.DType(), pinnedtest.Map(t, path, zeros, x.Bytes()), x.Shape()...))(t)
}

// onDisk returns the graph with its columns in mapped files, as those of a dataset are.
func onDisk(t testing.TB, g *graph.Graph) *graph.Graph {
	t.Helper()
	again, _ := inFiles(t, g, false)
	return again
}

// inFiles returns the graph with its columns, and its topology as well if that is wanted, in mapped files of a folder.
func inFiles(t testing.TB, g *graph.Graph, topology bool) (_ *graph.Graph, folder string) {
	t.Helper()
	folder = t.TempDir()
	mapped := func(name string, x unified.Tensor) unified.Tensor {
		return inFile(t, filepath.Join(folder, strings.ReplaceAll(name, "/", "_")), 64, x)
	}
	a := graphs.ArraysOf(g)
	if topology {
		a.Indptr, a.Indices = mapped("indptr", a.Indptr), mapped("indices", a.Indices)
		if a.Types.Len() > 0 {
			a.Types = mapped("types", a.Types)
		}
	}
	for i, columns := range a.NodeColumns {
		for name, x := range columns {
			columns[name] = mapped(a.Schema.Nodes[i].Name+name, x)
		}
	}
	for name, x := range a.EdgeColumns {
		a.EdgeColumns[name] = mapped("edge"+name, x)
	}
	return graphs.Of(t, a), folder
}

// needDisk skips where the system does not tell which file is mapped: columns are read as mapped there.
func needDisk(t testing.TB) {
	t.Helper()
	if f, _, err := pinned.OpenMapped([]byte{1}); err == nil || strings.Contains(err.Error(), "does not tell") {
		t.Skip("the system does not tell which file is mapped", f)
	}
}

func wideRows(t testing.TB) *graph.Graph {
	t.Helper()
	needDisk(t)
	return onDisk(t, graphs.Plain(t, 4000, 6))
}

var onDiskOptions = loader.Options{Sampler: neighbor, BatchSize: 100, Shuffle: true, Residence: loader.Disk, Workers: 2,
	Disk: loader.DiskOptions{CacheBytes: 8000, Lookahead: 5}, Device: loader.DeviceOptions{Name: "cpu"}}

func TestColumnsOnDiskMakeTheSameBatches(t *testing.T) {
	for name, g := range map[string]*graph.Graph{"plain": wideRows(t), "typed": onDisk(t, graphs.Typed(t, 700, 900))} {
		for _, cache := range []int64{1, 4096, 20_000, 1 << 30} {
			opt := onDiskOptions
			opt.Disk.CacheBytes = cache
			if name == "typed" {
				opt.Columns.Edges, opt.Seeds = []string{"stars"}, loader.AllNodes("user")
			}
			mapped := opt
			mapped.Residence = loader.Mapped
			a, b := open(t, g, mapped), open(t, g, opt)
			for epoch := range uint64(3) {
				want, got := digests(t, a.Epoch(background, epoch)), digests(t, b.Epoch(background, epoch))
				d := expect.Diff(want, got)
				expect.Ensure(t, d == "", "%s, cache %d, epoch %d: %s", name, cache, epoch, d)
			}
			s := b.Stats()
			expect.That(t, (s.OnDisk == nil) == (cache == 1<<30), "%s, cache %d: statistics %+v", name, cache, s.OnDisk)
		}
	}
}

// Rows that are packed are those of the file, whatever is loaded after what.
func TestPackedRowsMakeTheSameBatches(t *testing.T) {
	g := wideRows(t)
	opt := onDiskOptions
	opt.Disk.CacheBytes, opt.Disk.Lookahead, opt.Disk.PackBytes = 20_000, 30, 1<<20
	mapped := opt
	mapped.Residence = loader.Mapped
	a, b := open(t, g, mapped), open(t, g, opt)
	for _, epoch := range []uint64{0, 1, 7, 8, 2} {
		for range each(t, b.Range(background, epoch, 3, 9)) {
			break
		}
		want, got := digests(t, a.Epoch(background, epoch)), digests(t, b.Epoch(background, epoch))
		d := expect.Diff(want, got)
		expect.Ensure(t, d == "", "epoch %d: %s", epoch, d)
	}
	s := b.Stats().OnDisk
	expect.Ensure(t, len(s.Pack) != 0, "%+v", s)
	if why := s.Pack[0].Refused; strings.Contains(why, "in memory") || strings.Contains(why, "O_DIRECT") {
		t.Skip(why)
	}
	expect.That(t, s.Packed != 0 && s.Packed <= s.Misses && s.Pack[0].Bytes <= opt.Disk.PackBytes, "%+v", s)
	peak, planned := b.Stats().MemoryPeak, b.Estimate().Bound.Total()
	expect.That(t, peak <= planned, "%d bytes were taken, %d planned", peak, planned)
}

// The window goes beyond the end of an epoch, and what the cache has is of use to the next.
func TestTheNextEpochIsKnownAhead(t *testing.T) {
	g := wideRows(t)
	opt := onDiskOptions
	opt.Disk.CacheBytes, opt.Disk.Lookahead = 40_000, 1000
	l := open(t, g, opt)
	misses := func() int64 { return l.Stats().OnDisk.Misses }
	digests(t, l.Epoch(background, 0))
	first := misses()
	n := l.Stats().OnDisk.Lookahead
	expect.That(t, n >= 5, "%d batches of the next epoch are known", n)
	digests(t, l.Epoch(background, 1))
	second := misses() - first
	expect.That(t, second < first, "the second epoch missed %d rows, the first %d", second, first)
}

// Whatever is loaded after what, and however a run ends, batches are the same.
func TestColumnsOnDiskFollowAnyOrderOfRuns(t *testing.T) {
	g := wideRows(t)
	mapped := onDiskOptions
	mapped.Residence = loader.Mapped
	a, b := open(t, g, mapped), open(t, g, onDiskOptions)
	part := func(l *loader.Loader, epoch, first, count uint64, stop int) (list []string) {
		for x := range each(t, l.Range(background, epoch, first, count)) {
			if list = append(list, digestOf(x)); len(list) == stop {
				break
			}
		}
		return list
	}
	for _, r := range [][4]uint64{{0, 0, 99, 99}, {1, 0, 5, 99}, {1, 5, 5, 99}, {1, 10, 99, 3}, {1, 13, 99, 99},
		{2, 0, 99, 0}, {3, 7, 3, 2}, {2, 0, 99, 99}, {2, 0, 99, 1}, {2, 1, 99, 99}} {
		want, got := part(a, r[0], r[1], r[2], int(r[3])), part(b, r[0], r[1], r[2], int(r[3]))
		if d := expect.Diff(want, got); d != "" {
			t.Fatalf("epoch %d, %d from %d, stopped after %d: %s", r[0], r[2], r[1], r[3], d)
		}
	}
}

func TestAFailingDiskIsTheErrorOfItsBatch(t *testing.T) {
	g := wideRows(t)
	var requests atomic.Int64
	failRead(t, func() bool { return requests.Add(1) == 8 })
	mapped := onDiskOptions
	mapped.Residence = loader.Mapped
	want := digests(t, open(t, g, mapped).Epoch(background, 0))
	l := open(t, g, onDiskOptions)
	failsOnce(t, l, want)
}

// failRead lets a read of the disk fail where fails says so. fails is called once for each read, from any goroutine.
func failRead(t *testing.T, fails func() bool) {
	loader.ReadWith(t, diskio.ReaderOptions{Intercept: func(_ string, _ int64, _ []byte, n int, err error) (int,
		error) {
		if fails() {
			return 0, syscall.EIO
		}
		return n, err
	}})
}

// failsOnce fails the test unless an epoch ends on the error of a disk, which it returns, and the next one is whole.
func failsOnce(t *testing.T, l *loader.Loader, want []string) *disk.ReadError {
	t.Helper()
	var got []string
	var failed error
	for b, err := range l.Epoch(background, 0) {
		if failed = err; err == nil {
			got = append(got, digestOf(b))
		}
	}
	var at *disk.ReadError
	expect.Ensure(t, errors.As(failed, &at) && errors.Is(failed, syscall.EIO) &&
		strings.Contains(failed.Error(), ": byte "), "got %v", failed)
	expect.Same(t, got, want[:len(got)])
	expect.Same(t, digests(t, l.Epoch(background, 0)), want, "after the failure")
	return at
}

// leaveAStalledDisk leaves an epoch when the disk stalls, and goes through one when that reads again.
func leaveAStalledDisk(t *testing.T, l *loader.Loader, stalled <-chan struct{}, release chan<- struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(background)
	go func() {
		<-stalled
		cancel()
	}()
	for _, err := range l.Epoch(ctx, 0) {
		expect.That(t, errors.Is(err, context.Canceled), "got %v", err)
	}
	close(release)
	digests(t, l.Epoch(background, 0))
}

// A trainer that waits for the disk gets a message of it, and can stop waiting.
func TestWaitingForADiskIsSaidSo(t *testing.T) {
	g := wideRows(t)
	release, stalled := make(chan struct{}), make(chan struct{}, 1)
	loader.ReadWith(t, diskio.ReaderOptions{Intercept: func(_ string, _ int64, _ []byte, n int, err error) (int,
		error) {
		select {
		case stalled <- struct{}{}:
		default:
		}
		<-release
		return n, err
	}})
	l := open(t, g, onDiskOptions)
	leaveAStalledDisk(t, l, stalled, release)
	s := l.Stats()
	expect.That(t, s.Disk.Count != 0 && s.Disk.Sum != 0, "waiting for the disk is not in the statistics: %+v", s.Disk)
}

// The disk reads for more batches than there are slots, whatever the trainer does meanwhile.
func TestTheDiskReadsAheadOfTheSlots(t *testing.T) {
	g := wideRows(t)
	opt := onDiskOptions
	opt.Workers, opt.Tuning.Prefetch, opt.Disk.CacheBytes, opt.Disk.Lookahead = 1, 1, 70_000, 3
	mapped := opt
	mapped.Residence = loader.Mapped
	l := open(t, g, opt)
	var got []string
	for b := range each(t, l.Epoch(background, 0)) {
		for deadline := time.Now().Add(2 * time.Minute); len(got) == 0 && l.Stats().OnDisk.Batches < 5; {
			if time.Now().After(deadline) {
				t.Fatalf("reads of %d batches have begun", l.Stats().OnDisk.Batches)
			}
			runtime.Gosched()
		}
		got = append(got, digestOf(b))
	}
	expect.Same(t, got, digests(t, open(t, g, mapped).Epoch(background, 0)))
}

// impure is a sampler whose batches differ each time.
type impure struct{ sampling.Neighbor }

type impureWorker struct {
	sampling.Worker
	calls *int
}

func (s impure) Open(env sampling.Env) (sampling.Worker, error) {
	w, err := s.Neighbor.Open(env)
	return &impureWorker{w, new(int)}, err
}

func (w *impureWorker) Sample(ctx context.Context, r *sampling.Request, s *graph.Sample) error {
	*w.calls++
	again := *r
	again.Rand = sampling.NewRand(uint64(*w.calls), 1, 2, 3)
	return w.Worker.Sample(ctx, &again, s)
}

func TestASamplerThatChangesItsMindIsRefusedOnDisk(t *testing.T) {
	opt := onDiskOptions
	opt.Sampler = impure{neighbor}
	var failed error
	for _, err := range open(t, wideRows(t), opt).Epoch(background, 0) {
		failed = err
	}
	expect.That(t, errors.Is(failed, loader.ErrSampler) && strings.Contains(failed.Error(), "second time"), "got %v",
		failed)
}

func TestPlanCountsWhatColumnsOnDiskTake(t *testing.T) {
	g := wideRows(t)
	opt := onDiskOptions
	opt.MaxMemory = 200 << 20
	plan := expect.Must(loader.Plan(background, g, opt))(t)
	l := open(t, g, opt)
	if held := l.Stats().Memory.Columns; plan.Bound.Columns != held || held == 0 {
		t.Errorf("%d bytes of columns are held, %d planned", held, plan.Bound.Columns)
	}
	digests(t, l.Epoch(background, 0))
	peak, planned := l.Stats().MemoryPeak, plan.Bound.Total()
	expect.That(t, peak <= planned && planned <= opt.MaxMemory, "%d bytes were taken, %d planned", peak, planned)
	opt.MaxMemory = 1 << 20
	_, err := loader.New(g, opt)
	expect.That(t, errors.Is(err, loader.ErrMemory), "got %v", err)
}

func TestLoadersOfAPlacedSourceReadColumnsFromDisk(t *testing.T) {
	g := wideRows(t)
	opt := onDiskOptions
	p := place(t, g, opt, 2)
	opt.WorldSize = 2
	for rank := range 2 {
		opt.Rank = rank
		mapped := opt
		mapped.Residence = loader.Mapped
		a, b := open(t, g, mapped), open(t, p, opt)
		for epoch := range uint64(2) {
			want, got := digests(t, a.Epoch(background, epoch)), digests(t, b.Epoch(background, epoch))
			expect.Same(t, got, want, "rank %d, epoch %d", rank, epoch)
		}
		expect.That(t, b.Stats().OnDisk != nil, "rank %d reads nothing from disk", rank)
	}
}

func TestAutoReadsFromDiskWhereMemoryIsTooSmall(t *testing.T) {
	g := wideRows(t)
	opt := onDiskOptions
	opt.Residence, opt.Disk.CacheBytes = loader.Auto, 0
	for available, want := range map[int64]loader.Residence{1 << 30: loader.Mapped, 60_000: loader.Disk} {
		loader.AvailableMemory(t, available)
		l := open(t, g, opt)
		if got := l.Answer(); got.Residence != want || got.CacheBytes != (available/2*int64(want/loader.Disk)) {
			t.Errorf("%d bytes available: %v with a cache of %d", available, got.Residence, got.CacheBytes)
		}
		expect.That(t, (l.Stats().OnDisk != nil) == (want == loader.Disk), "%d bytes available: statistics %+v",
			available, l.Stats().OnDisk)
	}
}
