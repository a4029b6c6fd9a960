//go:build cuda

package loader_test

import (
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
)

// onADisk makes loaders on a device leave the topology on disk: neither the device nor the host has room.
func onADisk(t testing.TB, opt loader.Options) loader.Options {
	loader.AvailableMemory(t, 100_000)
	opt.Device.Name, opt.Device.Cache = "cuda:0", loader.NoDeviceCache
	return opt
}

// Batches of a device whose topology stays on disk are those of the CPU, lie on the device, and take no more memory
// than was planned; the loader says that the CPU samples.
func TestATopologyOnDiskIsSampledByTheCPUForADevice(t *testing.T) {
	cudatest.Open(t)
	needDisk(t)
	plain, _ := wideTopology(t)
	typed, _ := inFiles(t, graphs.Typed(t, 3000, 2000), true)
	for name, set := range map[string]func(*loader.Options){
		"topology": func(*loader.Options) {},
		"columns":  func(o *loader.Options) { o.Columns.Nodes = nil },
		"edges": func(o *loader.Options) {
			o.Seeds, o.Links.Negatives.Ratio, o.Links.ExcludeSeeds = loader.AllEdges(), 1, loader.ExcludeSeeds
			o.Columns.EdgePos = true
		},
	} {
		for _, g := range []loader.Source{plain, typed} {
			opt, log := pagedOptions, &lines{}
			set(&opt)
			mapped := opt
			mapped.Residence = loader.Mapped
			want := digests(t, open(t, g, mapped).Range(background, 1, 3, 4))
			opt = onADisk(t, opt)
			opt.Hooks.Logger = log.logger()
			plan := expect.Must(loader.Plan(background, g, opt))(t)
			l := open(t, g, opt)
			expect.Same(t, digests(t, l.Range(background, 1, 3, 4)), want, name)
			for b := range each(t, l.Range(background, 0, 0, 1)) {
				for i, a := range l.Arrays() {
					at := b.Array(i)
					expect.That(t, a.OnHost() || !at.Valid() || at.Placement() == pinned.Device, "%s: %s is %v", name,
						a.Name, at)
				}
			}
			s := l.Stats()
			most := plan.Bound.Total()
			if d := s.TopologyOnDisk; d == nil || d.Read == 0 || s.Device != "cuda:0" || s.MemoryPeak > most {
				t.Errorf("%s: %+v, %d bytes at most, planned %d", name, d, s.MemoryPeak, most)
			}
			onDisk := 0
			for _, p := range l.Placed() {
				if p.Array == "indptr" || p.Array == "indices" {
					onDisk++
					expect.That(t, p.Carry == "disk" && p.Rung == pinned.RungHost, "%s: %+v", name, p)
				}
			}
			expect.That(t, onDisk == 2 && strings.Contains(log.String(), "samples, since the topology stays on disk"),
				"%s: %d arrays are said to be on disk: %s", name, onDisk, log)
		}
	}
}

// A topology that has room in memory that the device reads is sampled there, whatever the cache of pages is.
func TestATopologyWithRoomIsSampledByTheDevice(t *testing.T) {
	cudatest.Open(t)
	g, _ := wideTopology(t)
	for name, c := range map[string]struct {
		available, cache int64
	}{"device memory": {100_000, 4 << 20}, "memory of the host": {4 << 20, loader.NoDeviceCache},
		"both of them": {530_000, 600_000}} {
		opt := onADisk(t, pagedOptions)
		loader.AvailableMemory(t, c.available)
		opt.Device.Cache = c.cache
		l := open(t, g, opt)
		expect.That(t, l.Stats().TopologyOnDisk == nil, "%s: the topology is on disk: %+v", name, l.Placed())
	}
}

// A request that fails is the error of its batch, on a device too.
func TestAFailingDiskUnderATopologyForADevice(t *testing.T) {
	cudatest.Open(t)
	failsUnderATopology(t, onADisk(t, pagedOptions))
}

// If a disk does not answer, the message says that a device's batches wait for it, and the epoch can be left.
func TestWaitingForATopologyForADevice(t *testing.T) {
	cudatest.Open(t)
	opt := onADisk(t, pagedOptions)
	opt.Disk.CacheBytes = 1
	waitsForATopology(t, opt)
}

// readEachSlot makes what a digest needs of each slot. Which slots an epoch uses is a matter of time.
func readEachSlot(t *testing.T, l *loader.Loader) {
	t.Helper()
	var kept []*loader.Batch
	for b, err := range l.Epoch(background, 1) {
		if err != nil {
			expect.Is(t, err, loader.ErrSlotsHeld, "the batch after the last slot")
			break
		}
		b.Digest()
		kept = append(kept, b.Keep())
	}
	for _, b := range kept {
		b.Release()
	}
}

// Loaders that share a source share what is in memory of its topology, and no batch takes memory of the driver's once
// all of a size were made.
func TestLoadersOfADeviceShareATopologyOnDisk(t *testing.T) {
	cudatest.Open(t)
	g, _ := wideTopology(t)
	opt, seeds := pagedOptions, make([]int64, 20*100)
	for i := range seeds {
		seeds[i] = int64(i % 100)
	}
	opt.Workers, opt.BatchSize, opt.Shuffle, opt.Seeds = 1, 100, false, loader.NodeIDs(seeds)
	opt.Sampler = sampling.Neighbor{Fanouts: []int{sampling.All, sampling.All}}
	want := digests(t, open(t, g, opt).Epoch(background, 0))
	opt = onADisk(t, opt)
	opt.Tuning.SlotTimeout = 100 * time.Millisecond
	p := place(t, g, opt, 2)
	a, b := open(t, p, opt), open(t, p, opt)
	for _, l := range []*loader.Loader{a, b} {
		expect.Same(t, digests(t, l.Epoch(background, 0)), want, "a loader of two")
	}
	expect.That(t, a.Stats().TopologyOnDisk.Read == b.Stats().TopologyOnDisk.Read, "each has a cache of its own")
	readEachSlot(t, b)
	cudatest.FailAllocations(t)
	expect.Same(t, digests(t, b.Epoch(background, 0)), want, "without memory")
	cudatest.Report(t) // forgets the failures, which have not come
}
