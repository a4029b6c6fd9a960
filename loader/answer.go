package loader

import (
	"github.com/khop-gnn/khop/loader/internal/oncuda"
	"github.com/khop-gnn/khop/sampling"
)

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
