package disk

import (
	"io"

	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/internal/recipe"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
)

// Paged is a topology that is larger than memory. Its files stay mapped: samplers have the pages that they are
// about to read brought first, all of a hop at once.
type Paged struct {
	arrays  []diskio.Mapped
	Bytes   int64
	cache   int64 // bytes of pages that are taken to be in memory at most
	Loaders int
	Lands   bool          // what the CPU samples goes to a device
	pages   *diskio.Pages // once they are placed
}

// PageTopology returns what stays on disk of the arrays that a sampler on the CPU reads: nothing where a cache has room
// for all.
func PageTopology(r *recipe.Recipe, cache int64, loaders int) *Paged {
	t := &Paged{cache: cache, Loaders: loaders}
	for _, array := range r.Topology() {
		if len(array.Bytes()) == 0 {
			continue
		}
		if err := diskio.CanPage(array); err != nil {
			r.Log.Info("an array of the topology is read in place, not from disk", "bytes",
				len(array.Bytes()), "reason", err)
			continue
		}
		t.arrays = append(t.arrays, diskio.Mapping(array))
		t.Bytes += int64(len(array.Bytes()))
	}
	if t.Bytes <= t.cache {
		return nil
	}
	return t
}

// Open opens the files, and adds to owned what is to be closed.
func (t *Paged) Open(r *recipe.Recipe, ledger *pinned.Ledger, owned *[]io.Closer) (err error) {
	if t == nil {
		return nil
	}
	reader := ReaderOptions
	reader.Memory = pinned.Options{Ledger: ledger, Purpose: pinned.Scratch}
	if t.pages, err = diskio.OpenPages(t.arrays, diskio.PagesOptions{Bytes: t.cache, Reader: reader}); err != nil {
		return err
	}
	*owned = append(*owned, t.pages)
	probe := t.pages.Probe()
	r.Log.Info("the topology is read from disk", "bytes", t.Bytes, "cache", t.cache, "engine", probe.Engine,
		"refused", probe.Refused, "depth", probe.Depth)
	return nil
}

// Begin is called when nobody goes through the topology in order any more.
func (t *Paged) Begin() {
	if t != nil && t.pages != nil {
		t.pages.AtRandom(true)
	}
}

// Ask returns who asks for pages for one sampler; nil where the topology is not on disk.
func (t *Paged) Ask() (*diskio.Asker, error) {
	if t == nil || t.pages == nil {
		return nil, nil
	}
	return t.pages.Ask()
}

// Memory returns what the topology on disk takes in a loader, whose samplers and presamplers are so many.
func (t *Paged) Memory(samplers int) int64 {
	if t == nil {
		return 0
	}
	return sat.Add(diskio.PagesBytes(t.Bytes)/int64(t.Loaders), int64(samplers)*diskio.AskerBytes)
}

// Stats says what was read; nil where nothing is on disk.
func (t *Paged) Stats() *tier.TopologyStats {
	if t == nil || t.pages == nil {
		return nil
	}
	return &tier.TopologyStats{PageCounts: t.pages.Count(), Bytes: t.Bytes, CacheBytes: t.cache, Probe: t.pages.Probe()}
}
