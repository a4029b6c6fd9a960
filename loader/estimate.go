package loader

import (
	"context"
	"errors"

	"github.com/khop-gnn/khop/loader/internal/oncuda"
	"github.com/khop-gnn/khop/sampling"
)

// Estimate says how much memory a loader needs: Loader.Estimate before the first batch, Plan before any memory is
// taken.
type Estimate struct {
	Workers  int `json:"workers"`  // after MaxMemory
	Prefetch int `json:"prefetch"` // after MaxMemory
	Slots    int `json:"slots"`    // Workers + Prefetch

	// Expected is the memory that the loader holds when New has returned, with room for batches a quarter larger than
	// those that it tried. Unless batches differ much it stays so.
	Expected Memory `json:"expected"`
	// Bound is the memory if every slot had the largest batch that the sampler can make. MaxMemory is compared with it.
	Bound Memory `json:"bound"`
	// SlotBound is one slot's part of it.
	SlotBound int64 `json:"slot_bound"`
	// Device and DeviceBound are the same for device memory, whose limit is DeviceMemory.
	Device      Memory `json:"device"`
	DeviceBound Memory `json:"device_bound"`
	// FileBytes is how many bytes of the source are read in place, through the page cache if they are in mapped files.
	FileBytes int64 `json:"file_bytes"`
}

// Estimate returns how much memory the loader needs, without the arrays of a Placed source that it shares.
func (l *Loader) Estimate() Estimate { return Estimate(l.plan.Estimate) }

// Plan returns what memory New would need with these arguments, without taking it: Expected within some percent. It
// samples a few batches in one slot to learn their size. Its errors are those of New.
func Plan(ctx context.Context, src Source, opt Options) (Estimate, error) {
	s, err := settle(src, opt, 1)
	if err != nil {
		return Estimate{}, err
	}
	p := s.plan
	if err = errors.Join(p.ExplainDamage(p.Foresee(ctx)), p.On.Close()); err != nil {
		return Estimate{}, err
	}
	return Estimate(p.Estimate), nil
}

// Answer says what a loader has made of what its options leave open, and of limits. A loader of a Placed source has the
// limits and the Residence of that.
type Answer struct {
	// Sampler is that of the options, with what Columns.Prepare adds to its samples.
	Sampler sampling.Sampler
	// Seeds are what an epoch goes over. In place of a default they are what that stands for.
	Seeds SeedSource
	// BatchSize is the seeds of a batch, or the items of a sampler that has items of its own.
	BatchSize int
	// Workers and Prefetch are those that MaxMemory leaves.
	Workers, Prefetch int
	// Residence is where the dataset is: in place of Auto Mapped or Disk.
	Residence Residence
	// CacheBytes is the bytes of rows that are kept in memory, of columns on disk or of other machines.
	CacheBytes int64
	// MaxMemory is the limit in bytes, at most what the control group leaves; 0 for no limit.
	MaxMemory int64
	// Device is where batches are made: "cpu", "cuda:0" and so on.
	Device string
	// DeviceMemory is the limit of device memory in bytes; 0 on the CPU.
	DeviceMemory int64
}

// Options returns the options that were given, with defaults that depend on nothing else; Answer has the others.
func (l *Loader) Options() Options { return l.asked.Options }

// Answer returns what the loader has made of its options.
func (l *Loader) Answer() Answer {
	p := l.plan
	a := Answer{Sampler: p.Sampler, Seeds: l.seeds, BatchSize: p.BatchSize, Workers: p.Workers, Prefetch: p.Prefetch,
		Residence: l.residence, CacheBytes: l.cache, MaxMemory: p.MaxMemory, Device: p.On.String()}
	if d, ok := p.On.(*oncuda.Processor); ok {
		a.DeviceMemory = d.Opt.Memory
	}
	return a
}
