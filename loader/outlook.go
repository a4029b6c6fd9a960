package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/pinned"
)

// Outlook says what an epoch reads of columns on disk, by size of the cache and by policy.
type Outlook struct {
	Batches int64 `json:"batches"` // of an epoch
	Rows    int64 `json:"rows"`    // that an epoch asks for, about
	// Share of the rows was simulated, all places of the columns alike; what is said is scaled to all rows.
	Share       float64        `json:"share"`
	ColumnBytes int64          `json:"column_bytes"` // of the columns that can stay on disk
	Probe       disk.Probe     `json:"probe"`
	Caches      []OutlookCache `json:"caches"` // ascending
	// TopologyBytes is of the arrays that the sampler reads. Topology is what an epoch reads of those that stay on
	// disk, with Options.Disk.CacheBytes, as the sampling of two has shown; nil where they do not stay there.
	TopologyBytes int64          `json:"topology_bytes"`
	Topology      *TopologyStats `json:"topology_on_disk,omitempty"`
}

// OutlookCache is an Outlook for a cache of a size.
type OutlookCache struct {
	CacheBytes int64           `json:"cache_bytes"` // Options.Disk.CacheBytes
	Policies   []OutlookPolicy `json:"policies"`    // in the order of disk.Policies; Packed last, with PackBytes
}

// OutlookPolicy is what an epoch reads under a policy.
type OutlookPolicy struct {
	Policy disk.Policy `json:"policy"`
	disk.Counts
	Seconds float64 `json:"seconds"` // of the disk, as the probe has it
}

// Seconds returns how long the disk would take for khop's own policy.
func (c *OutlookCache) Seconds() float64 { return c.Policies[disk.Ahead].Seconds }

// mostSimulated is how many asks for rows are simulated, about.
var mostSimulated int64 = 4 << 20 // tests try less

// LookOut samples two epochs and simulates what the second reads of columns on disk, with caches from 1 % to 40 % of
// their size, and one of Options.Disk.CacheBytes. Columns are not read, but for the probe of the disk. Errors are those
// of New, and ErrOptions where no column lies in a file.
func LookOut(ctx context.Context, src Source, opt Options) (*Outlook, error) {
	opt.Residence, opt.Device.Name = Disk, "cpu"
	r, on, err := settle(src, opt)
	if err != nil {
		return nil, err
	}
	o, err := r.lookOut(ctx)
	if err = errors.Join(r.explainDamage(err), on.close()); err != nil {
		return nil, err
	}
	return o, nil
}

func (r *recipe) lookOut(ctx context.Context) (_ *Outlook, err error) {
	columns, err := findColumns(r)
	if err != nil {
		return nil, err
	}
	mapped, total := r.inFiles(columns)
	if r.paged = r.pageTopology(cmp.Or(r.opt.Disk.CacheBytes, r.defaultCache()), 1); r.batches == 0 ||
		len(mapped) == 0 &&
			r.paged == nil {
		return nil, fmt.Errorf("%w: %s: batches have no rows of columns that lie in files, and the topology fits in "+
			"memory", ErrOptions, r.name)
	}
	t := &rowTrace{recipe: r, columns: mapped}
	var owned []io.Closer
	defer func() { err = errors.Join(err, r.closeShared(), tiers.CloseAll(owned)) }()
	if err := r.openPages(&pinned.Ledger{}, &owned); err != nil {
		return nil, err
	}
	if err := t.sample(ctx); err != nil {
		return nil, err
	}
	o := &Outlook{Batches: int64(r.batches), Rows: t.asked / 2, Share: 1 / float64(t.one), ColumnBytes: total,
		Topology: r.paged.stats()}
	for _, array := range r.topology() {
		o.TopologyBytes += int64(len(array.Bytes()))
	}
	if o.Topology != nil {
		o.Topology.PageCounts = o.Topology.Less(&t.before).Half()
		o.Probe = o.Topology.Probe
	}
	if len(mapped) == 0 {
		return o, nil
	}
	var layouts map[*tiers.Column]diskio.Layout
	if o.Probe, layouts, err = probeColumns(ctx, mapped); err != nil {
		return nil, err
	}
	var caches []int64
	for _, percent := range []int64{1, 2, 5, 10, 20, 40} {
		caches = append(caches, total/100*percent)
	}
	if own := r.opt.Disk.CacheBytes; own > 0 && !slices.Contains(caches, own) {
		caches = append(caches, own)
		slices.Sort(caches)
	}
	o.Caches = make([]OutlookCache, len(caches))
	return o, t.simulate(ctx, o, layouts, caches)
}

// probeColumns opens the files of columns for a probe.
func probeColumns(ctx context.Context, columns []*tiers.Column) (disk.Probe, map[*tiers.Column]diskio.Layout, error) {
	var list []diskio.Mapped
	for _, c := range columns {
		list = append(list, c.Mapped())
	}
	reader, layouts, err := diskio.Open(ctx, list, tiers.ReaderOptions)
	if err != nil {
		return disk.Probe{}, nil, err
	}
	at := map[*tiers.Column]diskio.Layout{}
	for i, c := range columns {
		at[c] = layouts[i]
	}
	return reader.Probe(), at, reader.Close()
}

// rowTrace is which rows two epochs ask for, of some places of the columns.
type rowTrace struct {
	*recipe
	columns []*tiers.Column
	one     uint32 // of so many places is in the trace
	asked   int64
	before  disk.PageCounts              // of batches on trial
	sampled int64                        // batches
	asks    map[*tiers.Column][][]uint32 // by batch
	mu      sync.Mutex
}

// keeps reports whether the place numbered n is in the trace.
func (t *rowTrace) keeps(n uint32) bool { return (n*2654435761>>4)%t.one == 0 }

// sample samples the epochs.
func (t *rowTrace) sample(ctx context.Context) error {
	var ledger pinned.Ledger
	if err := t.openShared(ctx, &ledger); err != nil {
		return err
	}
	t.paged.begin()
	mean := int64(0)
	err := t.trial(ctx, min(t.batches, leastTried), &ledger, func(s *slot) {
		for _, c := range t.columns {
			for _, a := range t.arraysOf(c) {
				if ids, view := s.rowIDs(a); !view {
					mean += ids.Len()
				}
			}
		}
	})
	if err != nil {
		return err
	}
	if on := t.paged.stats(); on != nil {
		t.before = on.PageCounts
	}
	all := mean / int64(min(t.batches, leastTried)) * int64(t.batches) * 2
	t.one, t.asks = uint32(all/mostSimulated+1), map[*tiers.Column][][]uint32{}
	for _, c := range t.columns {
		t.asks[c] = make([][]uint32, 2*t.batches)
	}
	errs := make([]error, t.opt.Workers)
	var wg sync.WaitGroup
	for w := range t.opt.Workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[w] = t.sampleSome(ctx, uint64(w), &ledger)
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}

// sampleSome samples every so manieth batch, from one on.
func (t *rowTrace) sampleSome(ctx context.Context, from uint64, ledger *pinned.Ledger) (err error) {
	s, err := newPresampler(t.recipe, ledger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var rows []uint32
	for i := from; i < 2*t.batches; i += uint64(t.opt.Workers) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		j := job{epoch: uint32(i / t.batches), number: i % t.batches}
		if err := s.Sample(ctx, j.epoch, j.number); err != nil {
			return t.explain(err, j)
		}
		for _, c := range t.columns {
			if rows, err = t.rowsOf(s.slot, c, rows[:0]); err != nil {
				return t.explain(err, j)
			}
			t.note(c, i, rows)
		}
	}
	return nil
}

// rowsOf appends the rows that a sampled batch asks for of a column.
func (r *recipe) rowsOf(s *slot, c *tiers.Column, rows []uint32) (_ []uint32, err error) {
	for _, a := range r.arraysOf(c) {
		if ids, view := s.rowIDs(a); !view && err == nil {
			rows, err = c.Store.Rows(rows, ids)
		}
	}
	return rows, err
}

// note keeps those rows of a batch that are in the trace.
func (t *rowTrace) note(c *tiers.Column, batch uint64, rows []uint32) {
	var kept []uint32
	place := c.Together()
	for _, row := range rows {
		if t.keeps(row / place) {
			kept = append(kept, row)
		}
	}
	t.asks[c][batch] = kept
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked += int64(len(rows))
	if c == t.columns[0] {
		t.sampled++
		t.opt.progress("sampling", t.sampled, int64(2*t.batches))
	}
}

// pack numbers the rows of the trace anew, so that a simulation takes no more memory than they need, and returns how
// many there are. Places that were no neighbours are none afterwards.
func (t *rowTrace) pack(c *tiers.Column) (rows int64) {
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

// simulate fills in what each policy reads, with caches of some sizes.
func (t *rowTrace) simulate(ctx context.Context, o *Outlook, layouts map[*tiers.Column]diskio.Layout,
	caches []int64) error {
	if t.one > 1 {
		for _, c := range t.columns {
			l := layouts[c]
			l.Rows = t.pack(c)
			layouts[c] = l
		}
	}
	type run struct{ cache, policy int }
	runs := make(chan run)
	errs := make([]error, machine.Workers())
	var wg sync.WaitGroup
	for w := range errs {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for x := range runs {
				p := &o.Caches[x.cache].Policies[x.policy]
				errs[w] = errors.Join(errs[w], t.simulateOne(o, layouts, caches[x.cache], p))
			}
		}()
	}
	for i, bytes := range caches {
		o.Caches[i].CacheBytes = bytes
		policies := disk.Policies()
		if t.opt.Disk.PackBytes > 0 {
			policies = append(policies, disk.Packed)
		}
		for _, p := range policies {
			o.Caches[i].Policies = append(o.Caches[i].Policies, OutlookPolicy{Policy: p})
		}
		for p := range policies {
			if ctx.Err() == nil {
				runs <- run{i, p}
			}
		}
		if ctx.Err() != nil {
			break
		}
		t.opt.progress("simulating", int64(i+1), int64(len(caches)))
	}
	close(runs)
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(errs...)
}

// simulateOne fills in what a policy reads with a cache of some bytes.
func (t *rowTrace) simulateOne(o *Outlook, layouts map[*tiers.Column]diskio.Layout, cache int64,
	to *OutlookPolicy) error {
	columns := slices.Clone(t.columns)
	opt := t.opt
	opt.Disk.CacheBytes = cache
	for _, d := range tiers.SplitColumns(columns, o.ColumnBytes, tiers.DiskOptions(opt.Disk), 1, opt.log()).OnDisk {
		asks := t.asks[d.Column]
		perBatch := int64(0)
		for _, a := range asks {
			perBatch += int64(len(a))
		}
		perBatch = perBatch * int64(t.one) / int64(len(asks))
		c, err := diskio.Simulate(to.Policy, layouts[d.Column], diskio.PlannerOptions{Slots: d.Slots / int(t.one),
			Lookahead: int(min(int64(t.opt.Disk.Lookahead), d.MostAsks/max(perBatch, 1)+1)),
			Along:     d.Along / int(t.one),
			Pack:      d.Pack.OfShare(int64(t.one))},
			asks, int(t.batches))
		if err != nil {
			return err
		}
		to.Counts.Add(c.Times(int64(t.one)))
	}
	to.Batches = o.Batches
	to.Seconds = o.Probe.Seconds(to.Requests+to.Writes, to.Bytes+to.Written) // to write takes about as long as to read
	return nil
}
