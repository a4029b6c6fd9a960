package loader

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

func (t *diskTier) Cost(b tier.Bound) (m tier.Memory) {
	m.Columns = sat.Mul(t.cacheBytes, int64(b.Loaders))
	n := int64(scouts(b.Workers)) * sat.Add(b.Sampled, b.Worker)
	for i, d := range t.onDisk {
		c := &b.Columns[i]
		n = sat.Add(n, diskio.PlanBytes(c.Data.Len(), int64(d.slots)))
		n = sat.Add(n, max(d.mostAsks*diskio.AskBytes, diskio.WindowBytes(min(c.Most, 1<<40))))
		n = sat.Add(n, sat.Add(d.early+d.pack.Memory, sat.Mul(int64(b.Slots), alongBytes)))
	}
	m.Scratch = sat.Add(n, diskio.StagingBytes/int64(b.Loaders))
	return m
}

// Open opens the files.
func (t *diskTier) Open(ctx context.Context, env tier.Env) error {
	var list []diskio.Mapped
	for _, d := range t.onDisk {
		list = append(list, d.column.mapped())
	}
	opt := readerOptions
	opt.Memory = pinned.Options{Ledger: env.Ledger, Purpose: pinned.Scratch}
	reader, layouts, err := diskio.Open(ctx, list, opt)
	if err != nil {
		return err
	}
	t.reader = reader
	for i := range t.onDisk {
		t.onDisk[i].layout = layouts[i]
	}
	probe := reader.Probe()
	t.log.Info("columns are read from disk", "columns", len(t.onDisk), "engine", probe.Engine, "refused", probe.Refused,
		"buffered", probe.Buffered, "depth", probe.Depth, "cache", t.cacheBytes)
	return nil
}

func (t *diskTier) Reader(w tier.Worker) (tier.Reader, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &diskReader{ahead: t.ahead[w.Loader]}, nil
}

// Stats are those of a loader: see Stats.OnDisk.
func (*diskTier) Stats() (tier.Stats, error) { return tier.Stats{}, nil }

func (t *diskTier) Close() error {
	if t.reader == nil {
		return nil
	}
	return t.reader.Close()
}

// diskReader has the rows of a batch read while the sampler works.
type diskReader struct {
	ahead *ahead
	reads []*diskio.Batch // under way, by column
	rows  []uint32        // as the sample has them
}

// Expect is of tier.Early: what the batch asks for was planned before.
func (r *diskReader) Expect(ctx context.Context, s tier.Slot) error {
	b, err := r.ahead.claim(ctx, s.Turn()-1)
	if err != nil {
		return err
	}
	r.reads = b.reads
	for k, c := range r.ahead.columns {
		if err := c.start(s, b, k); err != nil {
			return err
		}
	}
	return nil
}

func (r *diskReader) Begin(_ context.Context, _ tier.Slot, w tier.Want) (done bool, err error) {
	r.rows, err = r.list(r.rows[:0], w.Array, w.IDs)
	if err != nil {
		return false, err
	}
	return false, r.check(w.Array, r.rows)
}

// hot returns the rows of an array's column that a device keeps; nil for none.
func (r *diskReader) hot(array int) *gather.HotRows {
	k, _ := r.ahead.find(array)
	return r.ahead.columns[k].hot
}

// list appends the rows that an array wants.
func (r *diskReader) list(rows []uint32, array int, ids unified.Tensor) ([]uint32, error) {
	column := r.ahead.l.columns[array]
	if err := column.verified.check(ids); err != nil {
		return rows, err
	}
	return column.store.Rows(rows, ids)
}

// check makes sure that the right rows of an array are being read.
func (r *diskReader) check(array int, rows []uint32) error {
	k, part := r.ahead.find(array)
	if !slices.Equal(rows, r.reads[k].Asked(part)) {
		return fmt.Errorf("%w: it gave other nodes or edges the second time that it made this batch: columns on disk "+
			"need a sampler whose batches follow from the request alone", ErrSampler)
	}
	return nil
}

func (r *diskReader) Finish(ctx context.Context, _ tier.Slot) (waited time.Duration, err error) {
	for _, b := range r.reads {
		w, err := b.Finish(ctx)
		if waited += w; err != nil {
			return waited, err
		}
	}
	r.reads = nil
	r.ahead.finished()
	return waited, nil
}

func (r *diskReader) Cancel() {
	for _, b := range r.reads {
		b.Cancel()
	}
	r.reads = nil
}

func (*diskReader) Close() error { return nil }

// join tells of what samples ahead for a loader.
func (t *diskTier) join(loader any, a *ahead) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ahead[loader] = a; a == nil {
		delete(t.ahead, loader)
	}
}
