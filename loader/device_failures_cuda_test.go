//go:build cuda

package loader_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
)

// What the driver answers, by its numbers.
const (
	notSupported   = 801
	illegalAddress = 700
)

// onDevice has as many batches under way on any machine.
var onDevice = loader.Options{Sampler: neighbor, Device: loader.DeviceOptions{Name: "cuda:0",
	Cache: loader.NoDeviceCache}, BatchSize: 16,
	Workers: 2, Tuning: loader.TuningOptions{Prefetch: 2}}

func TestRefusedRegistrationsFallBackToCopies(t *testing.T) {
	cudatest.Open(t)
	g := graphs.Wide(t, 300, 6)
	want := digests(t, open(t, g, loader.Options{Sampler: neighbor, Device: loader.DeviceOptions{Name: "cpu"},
		BatchSize: 16}).Epoch(context.Background(), 0))
	cudatest.Fail(t, "cuMemHostRegister_v2", 1, notSupported)
	l := open(t, g, onDevice)
	got := digests(t, l.Epoch(context.Background(), 0))
	expect.That(t, slices.Equal(got, want), "device %v, CPU %v", got, want)
	if p := l.Placed()[0]; p.Rung != pinned.RungHostAlloc || !strings.Contains(p.Refused[len(p.Refused)-1].Refused,
		"NOT_SUPPORTED") {
		t.Errorf("%+v: want a copy in memory of the driver, and the driver's reason", p)
	}
}

func TestTooLittleDeviceMemoryIsSaid(t *testing.T) {
	cudatest.Open(t)
	g := graphs.Wide(t, 3000, 6)
	opt := onDevice
	opt.BatchSize, opt.Device.Memory = 1024, 300_000
	_, err := loader.New(g, opt)
	expect.Says(t, err, loader.ErrMemory, "Device.Memory is 300000", "Device.Memory below one batch")
	cudatest.SetMemory(t, 2<<20)
	opt.Device.Memory = 1 << 30
	_, err = loader.New(g, opt)
	if !errors.Is(err, loader.ErrMemory) || !errors.Is(err, device.ErrOutOfMemory) ||
		!strings.Contains(err.Error(), "smaller batches") {
		t.Errorf("a device smaller than one batch: %v", err)
	}
}

func TestLoadersShareADevice(t *testing.T) {
	cudatest.Open(t)
	g := graphs.Wide(t, 300, 6)
	want := digests(t, open(t, g, loader.Options{Sampler: neighbor, Device: loader.DeviceOptions{Name: "cpu"},
		BatchSize: 16}).Epoch(context.Background(), 0))
	var wg sync.WaitGroup
	for range 2 {
		l := open(t, g, onDevice)
		wg.Go(func() {
			i := 0
			for b, err := range l.Epoch(context.Background(), 0) {
				if err != nil {
					t.Error(err)
					return
				}
				if got := digestOf(b); got != want[i] {
					t.Errorf("batch %d: %s, want %s", i, got, want[i])
				}
				i++
			}
		})
	}
	wg.Wait()
}

func TestALostDeviceEndsTheEpochWithItsName(t *testing.T) {
	for kernel, run := range map[string]int{"neighbor_pick": 15, "gather_rows_ragged": 5} {
		t.Run(kernel, func(t *testing.T) {
			cudatest.Open(t)
			defer cudatest.Findings() // the loss is expected
			l, err := loader.New(graphs.Wide(t, 300, 6), onDevice)
			expect.OK(t, err)
			cudatest.Fail(t, "kernel:"+kernel, run, illegalAddress)
			batches := 0
			for _, err = range l.Epoch(context.Background(), 0) {
				if err == nil {
					batches++
				}
			}
			if !errors.Is(err, device.ErrDeviceLost) || !strings.Contains(err.Error(), "cuda:0") || batches == 0 ||
				batches > 12 {
				t.Errorf("%d batches, then %v", batches, err)
			}
			for _, err := range l.Epoch(context.Background(), 1) {
				expect.Is(t, err, device.ErrDeviceLost, "another epoch")
			}
			if err := l.Close(); err != nil && !errors.Is(err, device.ErrDeviceLost) {
				t.Errorf("close: %v", err)
			}
			if m := l.Stats(); m.Memory.Total() != 0 || m.DeviceMemory.Total() != 0 {
				t.Errorf("memory held after Close: %+v, %+v", m.Memory, m.DeviceMemory)
			}
		})
	}
}

// TestSteadyStateAllocatesNothing: after a first epoch any allocation of the driver's, and any free, fails, and none is
// asked for. All batches are of one size, for a slot may meet its largest batch late.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	cudatest.Open(t)
	opt := onDevice
	opt.Sampler = sampling.Neighbor{Fanouts: []int{sampling.All, sampling.All}}
	seeds := make([]int64, 20*opt.BatchSize)
	for i := range seeds {
		seeds[i] = int64(i % opt.BatchSize)
	}
	opt.Seeds = loader.NodeIDs(seeds)
	l := open(t, graphs.Wide(t, 300, 6), opt)
	want := digests(t, l.Epoch(context.Background(), 0))
	cudatest.FailAllocations(t)
	got := digests(t, l.Epoch(context.Background(), 0))
	expect.That(t, slices.Equal(got, want), "the second epoch: %v, the first: %v", got, want)
	cudatest.Report(t) // forgets the failures, which have not come
}

func TestCloseWaitsForKernels(t *testing.T) {
	cudatest.Open(t)
	before := cudatest.NowLive(t)
	for stop := range 6 {
		l := expect.Must(loader.New(graphs.Wide(t, 300, 6), onDevice))(t)
		n := 0
		for b, err := range l.Epoch(context.Background(), 0) {
			if err != nil {
				expect.Ensure(t, errors.Is(err, loader.ErrClosed), "%v", err)
				break
			}
			if n++; n == stop {
				if stop%2 == 0 {
					b.Keep()
					defer b.Release()
				}
				expect.OK(t, l.Close())
				if stop%2 == 0 {
					topology, _ := b.Digest()
					expect.That(t, topology != 0, "a kept batch cannot be read after Close")
					b.Release()
				}
			}
		}
		expect.OK(t, l.Close())
		if m := l.Stats(); m.Memory.Total() != 0 || m.DeviceMemory.Total() != 0 {
			t.Errorf("memory held after Close: %+v, %+v", m.Memory, m.DeviceMemory)
		}
	}
	after := cudatest.NowLive(t)
	expect.That(t, after == before, "left on the device: %+v, before %+v", after, before)
}

// TestSlotsThatNobodyReadsGoOnWhenTheyAreFilled: the loop releases each batch at once and waits for none, so that slots
// are taken again while rows are still on their way to them.
func TestSlotsThatNobodyReadsGoOnWhenTheyAreFilled(t *testing.T) {
	cudatest.Open(t)
	opt := onDevice
	opt.Tuning.Prefetch, opt.BatchSize = 1, 8
	l := open(t, graphs.Wide(t, 300, 6), opt)
	expect.OK(t, lastError(l.Range(context.Background(), 0, 0, 12)))
}

func TestAConsumersStreamHoldsTheSlot(t *testing.T) {
	g := graphs.Wide(t, 300, 6)
	for name, opt := range map[string]loader.Options{"kernels": {},
		"copies": {Tuning: loader.TuningOptions{Carry: loader.CarryCopies}},
		"disk":   {Residence: loader.Disk, Disk: loader.DiskOptions{CacheBytes: 1}}} {
		t.Run(name, func(t *testing.T) {
			opt.Sampler, opt.Device.Name, opt.BatchSize, opt.Device.Cache = neighbor, "cuda:0", 16, loader.NoDeviceCache
			opt.Workers, opt.Tuning.Prefetch, opt.Columns.Nodes = 1, 1, []string{"feature"}
			if opt.Residence == loader.Disk {
				needDisk(t)
				holdSlot(t, onDisk(t, g), opt)
				return
			}
			holdSlot(t, g, opt)
		})
	}
}

func holdSlot(t *testing.T, g *graph.Graph, opt loader.Options) {
	d := cudatest.Open(t)
	consumer := expect.Must(d.NewStream())(t)
	defer consumer.Close()
	l := open(t, g, opt)
	var sums [][]byte
	var want []string
	for b := range each(t, l.Epoch(context.Background(), 0)) {
		sums = append(sums, copyLater(t, d, consumer, b))
		want = append(want, string(rowsOf(t, l, b)))
	}
	expect.OK(t, consumer.Synchronize())
	for i := range sums {
		if string(sums[i]) != want[i] {
			t.Errorf("batch %d changed under its consumer", i)
		}
	}
}

// copyLater has a consumer copy the features of a batch on its own stream, and waits for nothing on the host: the
// batch's memory must stay until then.
func copyLater(t *testing.T, d *device.Device, consumer *device.Stream, b *loader.Batch) []byte {
	t.Helper()
	x := b.X()
	host, err := d.HostAlloc(int64(len(x.Bytes())))
	check(t, err)
	t.Cleanup(func() { check(t, d.HostFree(host)) })
	check(t, b.Wait(consumer.Handle()))
	check(t, consumer.CopyToHost(host, x.Address()))
	check(t, b.RecordStream(consumer.Handle()))
	return host
}

// rowsOf returns the features that the batch of the same number has on the CPU.
func rowsOf(t *testing.T, l *loader.Loader, b *loader.Batch) []byte {
	t.Helper()
	opt := l.Options()
	opt.Device.Name, opt.Device.Memory, opt.Device.Cache, opt.Tuning.Carry, opt.Residence = "cpu", 0, 0, 0,
		loader.Mapped
	c := open(t, graphs.Wide(t, 300, 6), opt)
	for same := range each(t, c.Range(context.Background(), b.Epoch, b.Number, 1)) {
		return slices.Clone(same.X().Bytes())
	}
	return nil
}

// TestTheLogSaysWhatTheHostDoes: work that the device does not do is in the log, and with its reason.
func TestTheLogSaysWhatTheHostDoes(t *testing.T) {
	cudatest.Open(t)
	g, _ := inFiles(t, graphs.Plain(t, 400, 5), true)
	for want, set := range map[string]func(*loader.Options){
		"":                                     func(*loader.Options) {},
		`work="looks up seeds that are edges"`: func(o *loader.Options) { o.Seeds = loader.AllEdges() },
		`work="reads rows from disk; brings rows: carry copies"`: func(o *loader.Options) {
			o.Residence, o.Disk.CacheBytes, o.Tuning.Carry = loader.Disk, 1<<20, loader.CarryCopies
		},
		`work="samples batches to rank rows for the device"`: func(o *loader.Options) {
			o.Device.HotRows = loader.RankPresample
		},
		`msg="the topology is not read from disk" bytes=`: func(o *loader.Options) {
			o.Residence, o.Disk.CacheBytes = loader.Disk, 1
		},
		`device=cpu why="the sampler sampling.Full runs on the CPU alone"`: func(o *loader.Options) {
			o.Sampler, o.Device.Name, o.Seeds, o.Shuffle = sampling.Full{}, "auto", loader.SeedSource{}, false
		},
	} {
		opt, log := onDevice, &lines{}
		set(&opt)
		opt.Hooks.Logger = log.logger()
		l := expect.Must(loader.New(g, opt))(t)
		expect.OK(t, l.Close())
		said := log.String()
		expect.That(t, strings.Contains(said, want) && (want != "" || !strings.Contains(said, "work=")),
			"%q is not in the log: %s", want, said)
	}
}
