// Package outlook says what epochs of a loader would read of columns on disk.
package outlook

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/loader"
	ondisk "github.com/khop-gnn/khop/loader/internal/disk"
	"github.com/khop-gnn/khop/loader/internal/outlook"
	"github.com/khop-gnn/khop/loader/internal/plan"
	"github.com/khop-gnn/khop/loader/tier"
)

// Outlook says how much an epoch reads of columns on disk, by size of the cache and by policy.
type Outlook struct {
	Batches int64 `json:"batches"` // of an epoch
	Rows    int64 `json:"rows"`    // that an epoch needs, about
	// Share of the rows was simulated, all places of the columns alike; the figures are scaled to all rows.
	Share       float64    `json:"share"`
	ColumnBytes int64      `json:"column_bytes"` // of the columns that can stay on disk
	Probe       disk.Probe `json:"probe"`
	Caches      []Cache    `json:"caches"` // ascending
	// TopologyBytes are the bytes of the arrays that the sampler reads. Topology is how much an epoch reads of those
	// that stay on disk, with Options.Disk.CacheBytes, estimated from two sampled epochs; nil if none stays there.
	TopologyBytes int64               `json:"topology_bytes"`
	Topology      *tier.TopologyStats `json:"topology_on_disk,omitempty"`
}

// Cache is an Outlook for one size of the cache.
type Cache struct {
	CacheBytes int64    `json:"cache_bytes"` // Options.Disk.CacheBytes
	Policies   []Policy `json:"policies"`    // in the order of disk.Policies; Packed last, with PackBytes
}

// Policy is how much an epoch reads under a policy.
type Policy struct {
	Policy disk.Policy `json:"policy"`
	disk.Counts
	Seconds float64 `json:"seconds"` // of the disk, by the probe
}

// Seconds returns how long the disk would take for khop's own policy.
func (c *Cache) Seconds() float64 { return c.Policies[disk.Ahead].Seconds }

// Look samples two epochs and simulates the reads of the second from columns on disk, with caches from 1 % to 40 %
// of their size, and one of Options.Disk.CacheBytes. It reads no columns, except to probe the disk. Errors are those of
// loader.New, and loader.ErrOptions if no column is in a file.
func Look(ctx context.Context, src loader.Source, opt loader.Options) (*Outlook, error) {
	asked := opt.Disk.CacheBytes
	opt.Residence, opt.Device.Name = loader.Disk, "cpu"
	p, own, err := plan.Settle(src, opt)
	if err != nil {
		return nil, err
	}
	o, err := lookOut(ctx, p, asked, own)
	if err = errors.Join(p.ExplainMemory(p.ExplainDamage(err)), p.On.Close()); err != nil {
		return nil, err
	}
	return o, nil
}

// lookOut looks out where the caller has asked for a cache of own bytes; 0 for none.
func lookOut(ctx context.Context, p *plan.Plan, own int64, opt ondisk.Options) (*Outlook, error) {
	t := outlook.New(p, opt)
	if t == nil {
		return nil, fmt.Errorf("%w: %s: batches have no rows of columns that lie in files, and the topology fits in "+
			"memory", loader.ErrOptions, p.Name)
	}
	if err := t.Look(ctx); err != nil {
		return nil, err
	}
	o := &Outlook{Batches: int64(p.Batches), Rows: t.Asked / 2, Share: 1 / float64(t.One), ColumnBytes: t.Bytes,
		Topology: t.Topology, Probe: t.Probe}
	for _, array := range p.Topology() {
		o.TopologyBytes += int64(len(array.Bytes()))
	}
	if t.Bytes == 0 {
		return o, nil
	}
	var caches []int64
	for _, percent := range []int64{1, 2, 5, 10, 20, 40} {
		caches = append(caches, t.Bytes/100*percent)
	}
	if own > 0 && !slices.Contains(caches, own) {
		caches = append(caches, own)
		slices.Sort(caches)
	}
	reads, err := t.Simulate(ctx, caches)
	for _, read := range reads {
		c := Cache{CacheBytes: read.Bytes}
		for i, n := range read.Counts { // to write takes about as long as to read
			c.Policies = append(c.Policies, Policy{read.Policies[i], n,
				t.Probe.Seconds(n.Requests+n.Writes, n.Bytes+n.Written)})
		}
		o.Caches = append(o.Caches, c)
	}
	return o, err
}
