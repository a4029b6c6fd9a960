//go:build cuda

package loader_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/gather/cuda"
	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
)

// Rows that copies bring are those of the CPU; no kernel reads the column, nothing page-locks it, and what the slots
// need is there when New returns.
func TestCopiesBringRowsToADevice(t *testing.T) {
	cudatest.Open(t)
	g := graphs.Wide(t, 500, 6)
	cpu := loader.Options{Sampler: neighbor, Device: loader.DeviceOptions{Name: "cpu"}, BatchSize: 100,
		Columns: loader.ColumnOptions{Edges: []string{"time"}}}
	want := digests(t, open(t, g, cpu).Epoch(context.Background(), 0))
	opt := cpu
	opt.Device.Name, opt.Tuning.Carry, opt.Device.Cache = "cuda:0", loader.CarryCopies, 10_000
	l := open(t, g, opt)
	held := l.Stats().Memory.Batches
	for range each(t, l.Epoch(context.Background(), 0)) {
	}
	// Lists of ids are taken with the first batch that needs them.
	if now := l.Stats().Memory.Batches; held < 100*129*4 || now > held+held/10 {
		t.Errorf("slots held %d bytes of the host before the first batch, %d after an epoch", held, now)
	}
	got := digests(t, l.Epoch(context.Background(), 0))
	expect.That(t, slices.Equal(got, want), "got %q, want %q", got, want)
	for _, p := range l.Placed() {
		if carried := p.Array == "column feature" || p.Array == "column time"; (p.Carry == "copies") != carried ||
			(p.Rung == pinned.RungHost) != carried || carried && p.CachedRows != 0 {
			t.Errorf("%+v", p)
		}
	}
	s := l.Stats()
	if rows := int64(s.Rows); s.DeviceRows == 0 || s.DeviceRows >= rows {
		t.Errorf("kernels gathered %d of %d rows: want those of small columns alone", s.DeviceRows, rows)
	}
	copiesGoTogether(t, opt, g, want)
}

// copiesGoTogether moves the small arrays of a batch by one call of the drivers that have it, to the same bytes.
func copiesGoTogether(t *testing.T, opt loader.Options, g *graph.Graph, want []string) {
	if !cudatest.Simulated() {
		return // its driver is what it is
	}
	for _, driver := range []string{"driver=12080", "driver=13000,order=random,seed=2", "driver=12040"} {
		cudatest.Configure(t, driver)
		l := open(t, g, opt)
		got := digests(t, l.Epoch(context.Background(), 0))
		expect.That(t, slices.Equal(got, want), "%s: got %q, want %q", driver, got, want)
		cudatest.Fail(t, "cuMemcpyBatchAsync", 1, 999)
		failed := 0
		for _, err := range l.Epoch(context.Background(), 0) {
			if e := (*device.Error)(nil); errors.As(err, &e) && e.Code == 999 {
				failed++
			}
		}
		one := driver != "driver=12040"
		expect.That(t, (failed == 1) == one, "%s: %d failed; one call copies all: %v", driver, failed, one)
	}
}

// The simulator runs a kernel on the CPU, a lane at a time, so a copy is faster by far.
func TestTheFasterWayToBringRowsIsTaken(t *testing.T) {
	cudatest.Open(t)
	g := graphs.Wide(t, 500, 6)
	opt := loader.Options{Sampler: neighbor, Device: loader.DeviceOptions{Name: "cuda:0", Cache: 10_000},
		BatchSize: 100, Tuning: loader.TuningOptions{Carry: loader.CarryMeasured}}
	l := open(t, g, opt)
	carried := 0
	for _, p := range l.Placed() {
		if p.Carry == "copies" {
			carried++
		}
	}
	if carried != 1 {
		t.Errorf("%+v: want the features brought by copies", l.Placed())
	}
	opt.Device.Cache = 0 // all fits
	for _, p := range open(t, g, opt).Placed() {
		expect.That(t, p.Rung == pinned.RungDevice && p.Carry == "", "%+v: want it on the device", p)
	}
}

// A mapped file that is cut short under the copying threads is an error of the batch.
func TestAFileCutShortUnderCopiesIsAFault(t *testing.T) {
	cudatest.Open(t)
	ds := storedGraph(t, graphs.Wide(t, 500, 6))
	l := open(t, ds, loader.Options{Sampler: neighbor, Device: loader.DeviceOptions{Name: "cuda:0",
		Cache: loader.NoDeviceCache}, BatchSize: 100, Tuning: loader.TuningOptions{Carry: loader.CarryCopies},
		Columns: loader.ColumnOptions{Nodes: []string{"feature"}, Seeds: []string{}}})
	cut := 0
	for _, err := range l.Epoch(context.Background(), 0) {
		if err != nil {
			expect.Ensure(t, errors.Is(err, pinned.ErrFault), "%v; want %v", err, pinned.ErrFault)
			return
		}
		if cut++; cut == 1 {
			expect.OK(t, os.Truncate(filepath.Join(ds.Path(), "nodes/n0/feature.arrow"), 4096))
		}
	}
	t.Errorf("%d batches without an error", cut)
}

// Columns on disk come to a device, through page-locked memory, as they come to the CPU: over epochs, into a loop that
// is left and begun again, with a cache of a page, of some rows and of everything.
func TestColumnsOnDiskComeToADevice(t *testing.T) {
	needDisk(t)
	cudatest.Open(t)
	for name, g := range map[string]*graph.Graph{"plain": onDisk(t, graphs.Plain(t, 500, 6)),
		"typed": onDisk(t, graphs.Typed(t, 150, 120))} {
		for _, cache := range []int64{1, 3000, 1 << 30} {
			opt := onDiskOptions
			opt.Disk.CacheBytes, opt.Device.Cache = cache, 2_000
			if name == "typed" {
				opt.Columns.Edges, opt.Seeds = []string{"stars"}, loader.AllNodes("user")
			}
			mapped := opt
			mapped.Residence = loader.Mapped
			opt.Device.Name = "cuda:0"
			a, b := open(t, g, mapped), open(t, g, opt)
			for epoch := range uint64(2) {
				for range each(t, b.Epoch(context.Background(), epoch)) {
					break
				}
				want, got := digests(t, a.Epoch(background, epoch)), digests(t, b.Epoch(background, epoch))
				d := expect.Diff(want, got)
				expect.Ensure(t, d == "", "%s, cache %d, epoch %d: %s", name, cache, epoch, d)
			}
			s, whole := b.Stats(), cache == 1<<30
			if (s.OnDisk == nil) != whole || !whole && (s.OnDisk.Misses == 0 || s.Disk.Count == 0) {
				t.Errorf("%s, cache %d: statistics %+v, disk %+v", name, cache, s.OnDisk, s.Disk)
			}
			if fromDisk := slices.ContainsFunc(b.Placed(), func(p tier.PlacedArray) bool {
				return p.Carry == "disk"
			}); fromDisk == whole {
				t.Errorf("%s, cache %d: %+v", name, cache, b.Placed())
			}
		}
	}
}

// A disk that fails is an error of the batch, with the file, and the device is whole for the next loader.
func TestADiskThatFailsUnderADeviceIsSaid(t *testing.T) {
	needDisk(t)
	cudatest.Open(t)
	g := onDisk(t, graphs.Plain(t, 500, 6))
	opt := onDiskOptions
	opt.Device.Name, opt.Device.Cache = "cuda:0", 20_000
	want := digests(t, open(t, g, opt).Epoch(background, 0))
	t.Run("failing", func(t *testing.T) {
		loader.ReadWith(t, diskio.ReaderOptions{Intercept: func(string, int64, []byte, int, error) (int, error) {
			return 0, syscall.EIO
		}})
		var failed *disk.ReadError
		for _, err := range open(t, g, opt).Epoch(background, 0) {
			if errors.As(err, &failed) {
				break
			}
		}
		expect.That(t, failed != nil && errors.Is(failed, syscall.EIO), "%v; want a disk.ReadError of %v", failed,
			syscall.EIO)
	})
	got := digests(t, open(t, g, opt).Epoch(background, 0))
	expect.That(t, slices.Equal(got, want), "got %q, want %q", got, want)
}

// Hot rows of a column on disk stay on the device: nobody asks the disk for them again, and batches are the same.
func TestHotRowsOfColumnsOnDiskStayOnADevice(t *testing.T) {
	needDisk(t)
	cudatest.Open(t)
	for name, g := range map[string]*graph.Graph{"plain": onDisk(t, graphs.Plain(t, 500, 6)),
		"odd rows": onDisk(t, graphs.Hub(t, 1000)), "typed": onDisk(t, graphs.Typed(t, 150, 120))} {
		opt := onDiskOptions
		opt.Disk.CacheBytes, opt.Device.Cache, opt.Device.Name, opt.BatchSize = 3000, 16_000, "cuda:0", 200
		if name == "typed" {
			opt.Seeds = loader.AllNodes("user")
		}
		hot, cold := opt, opt
		hot.Device.HotRows, cold.Device.HotRows = loader.RankPresample, loader.RankNone
		mapped := opt
		mapped.Residence, mapped.Device.Name = loader.Mapped, "cpu"
		want := digests(t, open(t, g, mapped).Epoch(background, 0))
		rows, _ := g.NodeColumn(0, "feature")
		n := planned(t, g, hot).Expected.Columns - planned(t, g, cold).Expected.Columns
		expect.That(t, name == "typed" || n == cuda.HotIndexBytes(rows.Len()),
			"%s: %d bytes are planned for finding hot rows", name, n)
		asked := map[loader.Ranking]int64{} // rows of a batch
		for _, opt := range []loader.Options{hot, cold} {
			l := open(t, g, opt)
			for _, err := range l.Range(background, 0, 1, 2) { // which is given up
				expect.OK(t, err)
				break
			}
			d := expect.Diff(want, digests(t, l.Epoch(background, 0)))
			expect.Ensure(t, d == "", "%s, %v: %s", name, opt.Device.HotRows, d)
			s, kept := l.Stats(), int64(0)
			for _, p := range l.Placed() {
				if p.Carry == "disk" {
					kept += p.CachedRows
				}
			}
			if keeps := opt.Device.HotRows != loader.RankNone; keeps != (kept > 0) || keeps && s.DeviceHits == 0 {
				t.Errorf("%s, %v: %d rows are kept, %d were asked for", name, opt.Device.HotRows, kept, s.DeviceHits)
			}
			asked[opt.Device.HotRows] = s.OnDisk.Rows / s.OnDisk.Batches
		}
		if asked[hot.Device.HotRows] >= asked[cold.Device.HotRows] {
			t.Errorf("%s: a batch asks the disk's cache for %d rows", name, asked)
		}
	}
}

// A consumer's stream waits for a batch whose rows are still on their way from page-locked memory to the device, and
// the batch is released. What the disk reads for the slot's next batch must not be written there meanwhile.
func TestRowsOnTheirWayToAConsumersStreamAreNotReadOver(t *testing.T) {
	needDisk(t)
	d := cudatest.Open(t)
	cudatest.Configure(t, "order=forward") // nothing but the batch's own work goes before its rows
	consumer, err := d.NewStream()
	check(t, err)
	defer consumer.Close()
	var mu sync.Mutex
	came := sync.NewCond(&mu)
	requests, awaited := 0, 0
	var on atomic.Bool
	// one request at a time, of a page: when the third comes, two have been written where they belong
	loader.ReadWith(t, diskio.ReaderOptions{Depth: 1, Engine: "threads", Shape: disk.Shape{Page: 4096, Most: 4096},
		Intercept: func(_ string, _ int64, _ []byte, n int, err error) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			requests++
			came.Broadcast()
			return n, err
		}})
	g := graphs.Wide(t, 300, 6)
	l := open(t, onDisk(t, g), loader.Options{Sampler: watchedSampler{sampling.Neighbor{Fanouts: []int{5, 5}},
		func(*graph.Sample) {
			mu.Lock()
			defer mu.Unlock()
			for on.Load() && requests < awaited {
				came.Wait()
			}
		}}, Residence: loader.Disk, Disk: loader.DiskOptions{CacheBytes: 1},
		Device: loader.DeviceOptions{Name: "cuda:0", Cache: loader.NoDeviceCache}, BatchSize: 64,
		Workers: 1, Tuning: loader.TuningOptions{Prefetch: 1},
		Columns: loader.ColumnOptions{Nodes: []string{"feature"}, Seeds: []string{}}})
	var got, want [][]byte
	var kept *loader.Batch
	for b, err := range l.Epoch(background, 0) {
		check(t, err)
		if kept == nil { // then all others share one slot
			kept = b.Keep()
			continue
		}
		got, want = append(got, copyLater(t, d, consumer, b)), append(want, rowsOf(t, l, b))
		mu.Lock()
		awaited = requests + 3
		mu.Unlock()
		on.Store(b.Number+1 < l.AllBatches())
	}
	kept.Release()
	check(t, consumer.Synchronize())
	for i := range got {
		if string(got[i]) != string(want[i]) {
			t.Errorf("batch %d changed under its consumer", i+1)
		}
	}
	expect.That(t, len(got) >= 3, "%d batches", len(got))
}
