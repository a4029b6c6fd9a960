package loader

import (
	"context"
	"io"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
)

// TopologyStats says what was read from disk of a topology that stays there, for all loaders that share it. How long
// workers waited for it is in Stats.Disk.
type TopologyStats struct {
	disk.PageCounts
	Bytes int64 `json:"topology_bytes"` // of the arrays on disk
	// CacheBytes of pages are taken to be in memory at most: Options.Disk.CacheBytes.
	CacheBytes int64      `json:"cache_bytes"`
	Probe      disk.Probe `json:"probe"`
}

// pagedTopology is a topology that is larger than memory. Its files stay mapped: samplers have the pages that they are
// about to read brought first, all of a hop at once.
type pagedTopology struct {
	arrays  []diskio.Mapped
	bytes   int64
	cache   int64 // bytes of pages that are taken to be in memory at most
	loaders int
	pages   *diskio.Pages // once they are placed
}

// pageTopology returns what stays on disk of the arrays that the sampler reads: nothing where a cache has room for all,
// and on a device, which reads them itself.
func (r *recipe) pageTopology(cache int64, loaders int) *pagedTopology {
	t := &pagedTopology{cache: cache, loaders: loaders}
	if r.opt.Device.Name != "cpu" {
		return nil
	}
	for _, array := range r.topology() {
		if len(array.Bytes()) == 0 {
			continue
		}
		if err := diskio.CanPage(array); err != nil {
			r.opt.log().Info("an array of the topology is read where it lies, and not from disk", "bytes",
				len(array.Bytes()), "reason", err)
			continue
		}
		t.arrays = append(t.arrays, diskio.Mapping(array))
		t.bytes += int64(len(array.Bytes()))
	}
	if t.bytes <= t.cache {
		return nil
	}
	return t
}

// pagedWorkers is the default of Options.Workers for a topology on disk: while some wait for the disk, others sample.
func pagedWorkers() int { return 2*machine.Workers() + 2 }

// spareWorkers reports whether there are more workers than cores that nobody asked for.
func (r *recipe) spareWorkers() bool {
	return r.paged != nil && r.anyWorkers && r.opt.Workers > machine.Workers()
}

// spareRoom says what is left free where there are spare workers: such a part of what is expected. Batches differ.
const spareRoom = 8

// fitWorkers makes spare workers fewer until what is expected of them is within the room. The tables that all samplers
// share have taken so many bytes.
func (l *Loader) fitWorkers(ctx context.Context, tables int64) error {
	if !l.spareWorkers() || l.limit() == 0 || l.opt.MaxMemory > 0 || l.batches == 0 {
		return nil
	}
	p := l.placed
	n, err := l.tryBatches(ctx, p.on, l.ledger)
	if err != nil {
		return err
	}
	n.tables = tables
	e, err := p.on.fit(p, l.recipe)
	if err == nil {
		err = p.expect(l.recipe, &e, n)
	}
	l.estimate.Workers, l.estimate.Slots = e.Workers, e.Slots
	l.estimate.Bound.Batches, l.estimate.Bound.Scratch = e.Bound.Batches, e.Bound.Scratch
	return err
}

// openPages opens the files.
func (r *recipe) openPages(ledger *pinned.Ledger, owned *[]io.Closer) (err error) {
	t := r.paged
	if t == nil {
		return nil
	}
	reader := tiers.ReaderOptions
	reader.Memory = pinned.Options{Ledger: ledger, Purpose: pinned.Scratch}
	if t.pages, err = diskio.OpenPages(t.arrays, diskio.PagesOptions{Bytes: t.cache, Reader: reader}); err != nil {
		return err
	}
	*owned = append(*owned, t.pages)
	probe := t.pages.Probe()
	r.opt.log().Info("the topology is read from disk", "bytes", t.bytes, "cache", t.cache, "engine", probe.Engine,
		"refused", probe.Refused, "depth", probe.Depth)
	return nil
}

// begin is called when nobody goes through the topology in order any more.
func (t *pagedTopology) begin() {
	if t != nil && t.pages != nil {
		t.pages.AtRandom(true)
	}
}

// ask returns who asks for pages for one sampler; nil where the topology is not on disk.
func (t *pagedTopology) ask() (*diskio.Asker, error) {
	if t == nil || t.pages == nil {
		return nil, nil
	}
	return t.pages.Ask()
}

// pagedMemory returns what the topology on disk takes in a loader.
func (r *recipe) pagedMemory() int64 {
	if r.paged == nil {
		return 0
	}
	askers := r.opt.Workers
	if r.split != nil && len(r.split.OnDisk) > 0 {
		askers += tiers.Presamplers(r.opt.Workers)
	}
	return sat.Add(diskio.PagesBytes(r.paged.bytes)/int64(r.paged.loaders), int64(askers)*diskio.AskerBytes)
}

func (t *pagedTopology) stats() *TopologyStats {
	if t == nil || t.pages == nil {
		return nil
	}
	return &TopologyStats{PageCounts: t.pages.Count(), Bytes: t.bytes, CacheBytes: t.cache, Probe: t.pages.Probe()}
}

// sampleFrom samples, and notes how long that waited for the disk.
func (s *slot) sampleFrom(ctx context.Context, sampler sampling.Worker, asker *diskio.Asker) error {
	if asker == nil {
		return sampler.Sample(ctx, &s.request, &s.sample)
	}
	asker.Begin(ctx)
	err := sampler.Sample(ctx, &s.request, &s.sample)
	s.awaited = asker.Waited()
	return err
}
