// Package outlook simulates what epochs read of columns on disk, by size of the cache and by policy.
package outlook

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/machine"
	ondisk "github.com/khop-gnn/khop/loader/internal/disk"
	"github.com/khop-gnn/khop/loader/internal/placed"
	"github.com/khop-gnn/khop/loader/internal/plan"
	"github.com/khop-gnn/khop/loader/internal/presamplers"
	"github.com/khop-gnn/khop/loader/internal/slots"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
)

// MostSimulated is how many asks for rows are simulated, about.
var MostSimulated int64 = 4 << 20 // tests try less

// rowTrace is which rows two epochs ask for, of some places of the columns.
type rowTrace struct {
	*presamplers.Kit
	workers  int
	disk     ondisk.Options
	Bytes    int64 // of the columns
	columns  []*placed.Column
	layouts  map[*placed.Column]diskio.Layout
	Probe    disk.Probe
	One      uint32 // one in this number of places is in the trace
	Asked    int64
	Topology *tier.TopologyStats           // what an epoch reads of it; nil where it is not on disk
	before   disk.PageCounts               // of batches on trial
	sampled  int64                         // batches
	asks     map[*placed.Column][][]uint32 // by batch
	mu       sync.Mutex
	ledger   pinned.Ledger
}

// keeps reports whether the place numbered n is in the trace.
func (t *rowTrace) keeps(n uint32) bool { return (n*2654435761>>4)%t.One == 0 }

// New makes a trace of the columns of a plan that lie in files; none where there is nothing to look at.
func New(p *plan.Plan, o ondisk.Options) *rowTrace {
	t := &rowTrace{Kit: p.Kit, workers: p.Workers, disk: o}
	t.ledger.SetLimit(p.Limit())
	t.columns, t.Bytes = ondisk.InFiles(p.Set.Columns, p.Log)
	if p.Batches == 0 || len(t.columns) == 0 && p.Paged == nil {
		return nil
	}
	return t
}

// Look samples two epochs, and probes the disk.
func (t *rowTrace) Look(ctx context.Context) (err error) {
	var owned []io.Closer
	defer func() { err = errors.Join(err, t.CloseShared(), tiers.CloseAll(owned)) }()
	if err := t.Paged.Open(t.Recipe, &t.ledger, &owned); err != nil {
		return err
	}
	if err := t.Sample(ctx); err != nil {
		return err
	}
	if t.Topology = t.Paged.Stats(); t.Topology != nil {
		both := t.Topology.Less(&t.before) // epochs
		t.Topology.PageCounts = disk.PageCounts{Wanted: both.Wanted / 2, Read: both.Read / 2,
			Requests: both.Requests / 2, Bytes: both.Bytes / 2}
		t.Probe = t.Topology.Probe
	}
	if len(t.columns) == 0 {
		return nil
	}
	return t.probeColumns(ctx)
}

// probeColumns opens the files of columns for a probe.
func (t *rowTrace) probeColumns(ctx context.Context) error {
	var list []diskio.Mapped
	for _, c := range t.columns {
		list = append(list, ondisk.RowsOf(c))
	}
	reader, layouts, err := diskio.Open(ctx, list, ondisk.ReaderOptions)
	if err != nil {
		return err
	}
	t.Probe, t.layouts = reader.Probe(), map[*placed.Column]diskio.Layout{}
	for i, c := range t.columns {
		t.layouts[c] = layouts[i]
	}
	return reader.Close()
}

// Sample samples the epochs.
func (t *rowTrace) Sample(ctx context.Context) error {
	if err := t.OpenShared(ctx, &t.ledger); err != nil {
		return err
	}
	t.Paged.Begin()
	mean, before := int64(0), t.ledger.Total()
	err := t.Trial(ctx, min(t.Batches, plan.LeastTried), &t.ledger, func(s *slots.Slot) {
		for _, c := range t.columns {
			for _, a := range t.ArraysOf(c.ColumnKey) {
				if ids, view := s.RowIDs(a); !view {
					mean += ids.Len()
				}
			}
		}
	})
	if err != nil {
		return err
	}
	if on := t.Paged.Stats(); on != nil {
		t.before = on.PageCounts
	}
	all := mean / int64(min(t.Batches, plan.LeastTried)) * int64(t.Batches) * 2
	if err := t.fit(all, t.ledger.Peak()-before); err != nil {
		return err
	}
	t.asks = map[*placed.Column][][]uint32{}
	for _, c := range t.columns {
		t.asks[c] = make([][]uint32, 2*t.Batches)
	}
	errs := make([]error, t.workers)
	var wg sync.WaitGroup
	for w := range t.workers {
		wg.Go(func() { errs[w] = t.sampleSome(ctx, uint64(w)) })
	}
	wg.Wait()
	return cmp.Or(errs...) // all workers may say the same
}

// sampleSome samples the batches of one worker: from, from + workers, and so on.
func (t *rowTrace) sampleSome(ctx context.Context, from uint64) (err error) {
	s, err := presamplers.New(t.Kit, &t.ledger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var rows []uint32
	for i := from; i < 2*t.Batches; i += uint64(t.workers) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		epoch, number := uint32(i/t.Batches), i%t.Batches
		if err := s.Sample(ctx, epoch, number); err != nil {
			return t.Explain(err, epoch, number)
		}
		for _, c := range t.columns {
			if rows, err = t.rowsOf(s.Slot, c, rows[:0]); err != nil {
				return t.Explain(err, epoch, number)
			}
			if err := t.note(c, i, rows); err != nil {
				return err
			}
		}
	}
	return nil
}

// rowsOf appends the rows that a sampled batch asks for of a column.
func (t *rowTrace) rowsOf(s *slots.Slot, c *placed.Column, rows []uint32) (_ []uint32, err error) {
	for _, a := range t.ArraysOf(c.ColumnKey) {
		if ids, view := s.RowIDs(a); !view && err == nil {
			rows, err = c.Store.Rows(rows, ids)
		}
	}
	return rows, err
}

// note keeps those rows of a batch that are in the trace.
func (t *rowTrace) note(c *placed.Column, batch uint64, rows []uint32) error {
	var kept []uint32
	place := c.Together()
	for _, row := range rows {
		if t.keeps(row / place) {
			kept = append(kept, row)
		}
	}
	if err := t.ledger.Take(pinned.Scratch, int64(cap(kept))*rowBytes); err != nil {
		return err
	}
	t.asks[c][batch] = kept
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Asked += int64(len(rows))
	if c == t.columns[0] {
		t.sampled++
		t.Progress("sampling", t.sampled, int64(2*t.Batches))
	}
	return nil
}

// rowBytes is a row of the trace, whose memory is at most twice what it needs; mapBytes is a place while pack numbers
// them.
const rowBytes, mapBytes = 4, 48

// fit decides how much is simulated, and by how many workers, so that it has room: asks is the number of requests for
// rows in two epochs, and sampler the bytes that a sampler takes. pinned.ErrLimit where a thousandth has none.
func (t *rowTrace) fit(asks, sampler int64) error {
	left := t.ledger.Left()
	t.workers = int(max(min(int64(t.workers), left/2/max(2*sampler, 1)), 1))
	left -= min(int64(t.workers)*2*sampler, left)
	t.One = uint32(asks/MostSimulated + 1)
	for t.need(asks) > left && t.One < 1000 {
		t.One *= 2
	}
	if need := t.need(asks); need > left {
		return t.ledger.Take(pinned.Scratch, need+t.ledger.Left()-left)
	}
	return nil
}

// need returns what the trace takes of all asks, with one simulation over it.
func (t *rowTrace) need(asks int64) int64 {
	asks /= int64(t.One)
	most := int64(0)
	for _, c := range t.columns {
		rows, place, numbers := c.Store.Column().Len(), int64(c.Together()), int64(0)
		if t.One > 1 { // pack numbers places anew, and every second one is empty
			numbers = min(rows/place/int64(t.One)+1, asks)
			rows = 2 * place * numbers
		}
		most = max(most, simulationBytes(rows, asks)+mapBytes*numbers)
	}
	return 2*rowBytes*asks + most
}

// simulationBytes returns the most bytes that a simulation takes for these numbers of rows and of requests for them.
func simulationBytes(rows, asks int64) int64 {
	return max(diskio.PlanBytes(rows, rows)+2*diskio.WindowBytes(asks), diskio.QueueBytes(rows))
}

// simulations returns how many simulations have room at a time.
func (t *rowTrace) simulations() int {
	most := int64(1)
	for _, c := range t.columns {
		asks := int64(0)
		for _, rows := range t.asks[c] {
			asks += int64(len(rows))
		}
		most = max(most, simulationBytes(t.layouts[c].Rows, asks))
	}
	return int(max(min(int64(machine.Workers()), t.ledger.Left()/most), 1))
}

// pack numbers the rows of the trace anew, so that a simulation takes no more memory than they need, and returns how
// many there are. Places that were not neighbours are not afterwards.
func (t *rowTrace) pack(c *placed.Column) (rows int64) {
	place := c.Together()
	numbers := map[uint32]uint32{}
	for _, asks := range t.asks[c] {
		for i, row := range asks {
			n, ok := numbers[row/place]
			if !ok {
				n = uint32(len(numbers))
				numbers[row/place] = n
			}
			asks[i] = (2*n)*place + row%place
		}
	}
	return 2 * int64(len(numbers)) * int64(place)
}

// cacheRead is what an epoch reads with a cache of some bytes.
type cacheRead struct {
	Bytes    int64
	Policies []disk.Policy
	Counts   []disk.Counts // [policy]
}

// Simulate returns what each policy reads, with caches of some sizes.
func (t *rowTrace) Simulate(ctx context.Context, caches []int64) ([]cacheRead, error) {
	if t.One > 1 {
		for _, c := range t.columns {
			l := t.layouts[c]
			l.Rows = t.pack(c)
			t.layouts[c] = l
		}
	}
	policies := disk.Policies()
	if t.disk.PackBytes > 0 {
		policies = append(policies, disk.Packed)
	}
	read := make([]cacheRead, len(caches))
	for i, bytes := range caches {
		read[i] = cacheRead{bytes, policies, make([]disk.Counts, len(policies))}
	}
	type run struct{ cache, policy int }
	runs := make(chan run)
	errs := make([]error, t.simulations())
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			for x := range runs {
				n, err := t.simulateOne(caches[x.cache], policies[x.policy])
				read[x.cache].Counts[x.policy], errs[w] = n, cmp.Or(errs[w], err)
			}
		})
	}
	for i := 0; i < len(caches) && ctx.Err() == nil; i++ {
		for p := 0; p < len(policies) && ctx.Err() == nil; p++ {
			runs <- run{i, p}
		}
		t.Progress("simulating", int64(i+1), int64(len(caches)))
	}
	close(runs)
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return read, cmp.Or(errs...)
}

// simulateOne returns what a policy reads with a cache of some bytes.
func (t *rowTrace) simulateOne(cache int64, policy disk.Policy) (sum disk.Counts, err error) {
	opt := t.disk
	opt.CacheBytes = cache
	for _, d := range ondisk.Split(slices.Clone(t.columns), t.Bytes, opt, 1, t.Log).OnDisk {
		asks := t.asks[d.Column]
		perBatch := int64(0)
		for _, a := range asks {
			perBatch += int64(len(a))
		}
		perBatch = perBatch * int64(t.One) / int64(len(asks))
		c, err := diskio.Simulate(policy, t.layouts[d.Column], diskio.PlannerOptions{Slots: d.Slots / int(t.One),
			Lookahead: int(min(int64(opt.Lookahead), d.MostAsks/max(perBatch, 1)+1)),
			Along:     d.Along / int(t.One),
			Memory:    pinned.Options{Ledger: &t.ledger, Purpose: pinned.Scratch},
			Pack:      d.Pack.OfShare(int64(t.One))},
			asks, int(t.Batches))
		if err != nil {
			return sum, err
		}
		sum.Add(c.Times(int64(t.One)))
	}
	sum.Batches = int64(t.Batches)
	return sum, nil
}
