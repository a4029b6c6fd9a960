package oncuda

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/gather/cuda"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/internal/placed"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/loader/tier"
)

// deviceCache is the tier of columns that kernels read: out of device memory, and over the bus what that does not hold.
type deviceCache struct {
	d       *Processor
	set     *tiers.Set
	columns []*deviceColumn // once it is open
}

func (t *deviceCache) Cost(b tier.Bound) (m tier.Memory) {
	if t.d.Opt.CarryCopies || t.d.Opt.CarryMeasured { // copies may come to bring some
		m.Batches = sat.Mul(int64(b.Slots), b.Batch)
	}
	return m
}

// Open places the columns. Those that copies turn out to bring get another tier.
func (t *deviceCache) Open(context.Context, tier.Env) error {
	if err := t.d.placer.columns(); err != nil {
		return err
	}
	s := t.set
	i := slices.IndexFunc(s.Tiers, func(x *placed.Tier) bool { return x.Tier == tier.Tier(t) })
	kept, moved := placed.Divide(s.Tiers[i].Columns, func(c *placed.Column) bool { return t.d.find(c).device != nil })
	s.Tiers[i].Take(kept)
	for _, c := range kept {
		t.columns = append(t.columns, t.d.find(c))
	}
	s.Add(&copies{Tier: &tiers.Mapped{Columns: moved}}, false, moved)
	return nil
}

func (t *deviceCache) Reader(w tier.Worker) (tier.Reader, error) {
	return &deviceReader{columns: t.columns, stream: w.Stream}, nil
}

func (t *deviceCache) Stats() (all tier.Stats, err error) {
	for _, c := range t.columns {
		of, err := c.device.Traffic()
		if err != nil {
			return all, err
		}
		all.Add(traffic(of, c.before))
	}
	return all, nil
}

// traffic is what was gathered after what had been before.
func traffic(t, before cuda.Traffic) tier.Stats {
	return tier.Stats{Rows: t.Rows - before.Rows, Hits: t.Hits - before.Hits, Peers: t.Peers - before.Peers,
		Saved: t.Saved - before.Saved}
}

// Close leaves to the device to free what it placed.
func (t *deviceCache) Close() error { return nil }

// Renew keeps from now on the rows that were gathered most since the last time (RankUses).
func (t *deviceCache) Renew(ctx context.Context) error {
	for _, c := range t.columns {
		if !c.counted {
			continue
		}
		uses, err := c.device.Uses()
		if err != nil {
			return err
		}
		k := c.device.Cached()
		if k == 0 || k == c.Store.Column().Len() || !anyUse(uses) {
			continue
		}
		err = c.keep(ctx, cuda.Hottest(uses, k))
		if errors.Is(err, device.ErrOutOfMemory) { // somebody else has taken it meanwhile: all rows go over the bus
			t.d.log.Warn("no rows are kept in device memory any more", "column", c.Name, "error", err)
			continue
		}
		if err != nil {
			return fmt.Errorf("column %s: %w", c.Name, err)
		}
	}
	return nil
}

func anyUse(uses []uint32) bool {
	return slices.ContainsFunc(uses, func(n uint32) bool { return n > 0 })
}

// deviceReader puts kernels on the stream that gather rows.
type deviceReader struct {
	tier.Done
	columns []*deviceColumn
	stream  *device.Stream
}

// Expect is of tier.Early: it tells of an id that was no row in an earlier batch, which only a sampler of yours can
// cause.
func (r *deviceReader) Expect(context.Context, tier.Slot) (waited time.Duration, err error) {
	for _, c := range r.columns {
		if err := c.device.Err(); err != nil {
			return 0, fmt.Errorf("column %s: %w", c.Name, err)
		}
	}
	return 0, nil
}

func (r *deviceReader) Begin(_ context.Context, s tier.Slot, w tier.Want) (done bool, err error) {
	out, err := s.Rows(w.Array, w.IDs.Len())
	if err != nil {
		return false, err
	}
	return true, r.columns[w.Column].device.EnqueueInto(r.stream, out, w.IDs, 0)
}
