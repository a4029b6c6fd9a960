package loader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// carried is the host's side of a slot's rows that a copy engine moves: page-locked memory for the rows of each array,
// and the list of ids that was copied to the host last.
type carried struct {
	rows   []unified.Buffer // [array]
	places []unified.Buffer // [array] where each of its rows comes from, with hot rows of a column on disk
	is     []bool           // [array] copies bring its rows
	of     device.Address   // where the list is on the device; 0 for none
	ids    unified.Tensor   // in the fence's staging memory
}

// add tells of the next array. It takes no memory.
func (c *carried) add(is bool, memory pinned.Options) {
	c.is = append(c.is, is)
	c.rows = append(c.rows, unified.Buffer{})
	c.rows[len(c.rows)-1].Options = memory
	c.places = append(c.places, unified.Buffer{})
	c.places[len(c.places)-1].Options = memory
}

// reserve takes memory for the rows of an array.
func (c *carried) reserve(array int, n int64) error {
	if !c.is[array] {
		return nil
	}
	return c.rows[array].Reserve(n)
}

func (c *carried) close() error {
	var errs []error
	for i := range c.rows {
		errs = append(errs, c.rows[i].Close(), c.places[i].Close())
	}
	return errors.Join(errs...)
}

// carry copies the rows of a column to page-locked memory and lets the stream move them to the device. The host waits
// for the ids, which are there since the batch was sampled.
func (m *cudaMaker) carry(i int, to *unified.Buffer, ids unified.Tensor) (unified.Tensor, error) {
	f, store := m.into, m.columnOf[i].store
	out, err := m.room(i, to, ids.Len())
	if err != nil || ids.Len() == 0 {
		return out, err
	}
	host, err := f.hostIDs(ids)
	if err != nil {
		return unified.Tensor{}, err
	}
	rows, err := store.GatherParallel(&f.carried.rows[i], host, m.goroutines)
	if err != nil {
		return unified.Tensor{}, err
	}
	return out, m.columns.CopyToDevice(out.Address(), rows.Bytes())
}

// Rows that are read from disk land where those do that copies bring: cudaMaker is a lander.
func (m *cudaMaker) landing(s *slot, array int) *unified.Buffer {
	return &s.fence.(*cudaFence).carried.rows[array]
}

// clearLanding waits until nothing of the batch before is moved out of the memory any more. Without reads ahead,
// sampling has waited for that.
func (m *cudaMaker) clearLanding(s *slot) error { return s.fence.sync() }

func (m *cudaMaker) room(i int, to *unified.Buffer, rows int64) (unified.Tensor, error) {
	store := m.columnOf[i].store
	if err := to.Grow(rows*store.RowBytes(), 0); err != nil {
		return unified.Tensor{}, err
	}
	return store.Over(to, rows)
}

func (m *cudaMaker) toHost(s *slot, ids unified.Tensor) (unified.Tensor, error) {
	return s.fence.(*cudaFence).hostIDs(ids)
}

func (m *cudaMaker) place(s *slot, array int, hot *gather.HotRows, rows []uint32) ([]uint32, error) {
	n := int64(len(rows))
	places, err := unified.Grow[int32](&s.fence.(*cudaFence).carried.places[array], n, 0)
	if err != nil {
		return nil, err
	}
	return hot.Places(rows, places[:n]), nil
}

func (m *cudaMaker) landed(s *slot, arrays []int, hot *gather.HotRows) error {
	f := s.fence.(*cudaFence)
	if err := m.columns.Record(f.gathering); err != nil { // the time before was the disk's
		return err
	}
	for _, i := range arrays {
		_, view := s.rowIDs(&s.recipe.arrays[i])
		to := s.rows[i].tensor
		if hot != nil && !view {
			if err := m.joinHot(f, i, hot, to); err != nil {
				return err
			}
			continue
		}
		if n := len(to.Bytes()); n > 0 && !view {
			if err := m.columns.CopyToDevice(to.Address(), f.carried.rows[i].Bytes()[:n]); err != nil {
				return err
			}
		}
	}
	return nil
}

// joinHot lets a kernel put together the rows of an array that landed, and those that the device keeps.
func (m *cudaMaker) joinHot(f *cudaFence, array int, hot *gather.HotRows, to unified.Tensor) error {
	places, err := f.carried.places[array].Tensor(unified.Int32, to.Len())
	if err != nil {
		return err
	}
	landed := &f.carried.rows[array]
	return hot.Enqueue(m.columns, to, places, landed.Address(), min(landed.Cap()/to.RowBytes(), hot.Most()))
}

// hostIDs copies ids to the host. Columns of one node type have the same list, or the seeds at its beginning.
func (f *cudaFence) hostIDs(ids unified.Tensor) (host unified.Tensor, err error) {
	c := &f.carried
	if c.of == 0 || c.of != ids.Address() || c.ids.Len() < ids.Len() {
		c.of = 0
		if c.ids, err = f.host(ids); err != nil {
			return host, err
		}
		c.of = ids.Address()
	}
	return c.ids.Rows(0, ids.Len())
}

// carryGoroutines is how many goroutines of a worker copy rows.
func carryGoroutines(workers int) int { return max(1, machine.Workers()/workers) }

// carryTrials is how many batches measureCarry times each way.
const carryTrials = 4

// measureCarry times both ways to bring the rows of each column that lies in host memory, as they would go on here,
// and leaves to copies those that come faster so.
func (p *placer) measureCarry() error {
	for _, c := range p.d.columns {
		if c.device == nil || p.d.placed[c.placed].Rung == pinned.RungDevice {
			continue
		}
		if err := p.measureColumn(c); err != nil {
			return fmt.Errorf("column %s: time how its rows come: %w", c.name, err)
		}
	}
	return nil
}

func (p *placer) measureColumn(c *deviceColumn) (err error) {
	batches, err := p.idsOf(c)
	if err != nil || len(batches) == 0 {
		return err
	}
	t, err := newCarryTrial(p, c, batches)
	if err == nil {
		err = t.run()
	}
	if err = errors.Join(err, t.close()); err != nil {
		return err
	}
	p.opt.log().Info("timed how rows come to the device", "column", c.name, "kernels", t.kernels, "copies", t.copies,
		"batches", len(batches))
	if t.copies < t.kernels {
		return p.leaveToCopies(c)
	}
	c.before, err = c.device.Traffic()
	return err
}

// idsOf returns the rows that some batches of epoch 0 have of a column.
func (p *placer) idsOf(c *deviceColumn) (batches [][]int64, err error) {
	r := p.source.recipe
	err = r.trial(p.ctx, min(r.batches, carryTrials), nil, func(s *slot) {
		var ids []int64
		for i := range r.arrays {
			a := &r.arrays[i]
			if !a.IsColumn() || keyOfColumn(a) != (columnKey{c.name, c.nodeType}) {
				continue
			}
			if rows, view := s.rowIDs(a); !view {
				ids = appendIDs(ids, rows)
			}
		}
		if len(ids) > 0 {
			batches = append(batches, ids)
		}
	})
	return batches, err
}

func appendIDs(list []int64, ids unified.Tensor) []int64 {
	if v, err := unified.View[int32](ids); err == nil {
		for _, id := range v {
			list = append(list, int64(id))
		}
	} else if v, err := unified.View[int64](ids); err == nil {
		list = append(list, v...)
	}
	return list
}

// carryTrial is what timing both ways takes: batches' ids on both sides, and memory for the rows of two batches.
type carryTrial struct {
	*placer
	column  *deviceColumn
	batches [][]int64
	regions []*pinned.Region
	ids     []unified.Tensor // of batches, on the device
	out     unified.Buffer   // on the device
	staged  [2]unified.Buffer
	sent    [2]*device.Event

	kernels, copies time.Duration // for all batches
}

func newCarryTrial(p *placer, c *deviceColumn, batches [][]int64) (t *carryTrial, err error) {
	t = &carryTrial{placer: p, column: c, batches: batches}
	memory := pinned.Options{Ledger: &p.source.ledger, Purpose: pinned.Batches, Device: p.d.Device}
	t.out.Options = memory
	for half := range t.staged {
		t.staged[half].Options = memory
		t.staged[half].Options.Place = pinned.Pinned
		if t.sent[half], err = p.d.NewEvent(device.Untimed); err != nil {
			return t, err
		}
	}
	for _, ids := range batches {
		b := unified.FromSlice(ids).Bytes()
		r, err := pinned.Allocate(int64(len(b)), memory)
		if err != nil {
			return t, err
		}
		t.regions = append(t.regions, r)
		if err := p.stream.CopyToDevice(r.Address(), b); err != nil {
			return t, err
		}
		there, err := unified.NewPlaced(unified.Device, unified.Int64, r.Bytes(), int64(len(ids)))
		if err != nil {
			return t, err
		}
		t.ids = append(t.ids, there)
	}
	return t, p.stream.Synchronize()
}

// run times both ways, each once before that does not count.
func (t *carryTrial) run() error {
	for _, way := range []struct {
		bring func() error
		took  *time.Duration
	}{{t.byKernels, &t.kernels}, {t.byCopies, &t.copies}} {
		for range 2 {
			begin := time.Now()
			if err := way.bring(); err != nil {
				return err
			}
			if err := t.stream.Synchronize(); err != nil {
				return err
			}
			*way.took = time.Since(begin)
			if t.ctx.Err() != nil {
				return context.Cause(t.ctx)
			}
		}
	}
	return t.column.device.Err()
}

func (t *carryTrial) byKernels() error {
	for _, ids := range t.ids {
		if _, err := t.column.device.Enqueue(t.stream, &t.out, ids); err != nil {
			return err
		}
	}
	return nil
}

// byCopies copies the rows of a batch while those of the one before are moved.
func (t *carryTrial) byCopies() error {
	store := t.column.store
	for i, ids := range t.batches {
		half := i % 2
		if err := t.sent[half].Synchronize(); err != nil {
			return err
		}
		rows, err := store.GatherParallel(&t.staged[half], unified.FromSlice(ids), carryGoroutines(1))
		if err != nil {
			return err
		}
		if err := t.out.Grow(int64(len(rows.Bytes())), 0); err != nil {
			return err
		}
		if err := t.stream.CopyToDevice(t.out.Address(), rows.Bytes()); err != nil {
			return err
		}
		if err := t.stream.Record(t.sent[half]); err != nil {
			return err
		}
	}
	return nil
}

func (t *carryTrial) close() error {
	errs := []error{t.stream.Synchronize(), t.out.Close()}
	for half := range t.staged {
		errs = append(errs, t.staged[half].Close(), t.sent[half].Close())
	}
	for _, r := range t.regions {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// leaveToCopies frees what a column took on the device and what lets the device address it.
func (p *placer) leaveToCopies(c *deviceColumn) error {
	err := errors.Join(c.device.Close(), c.attached.Close()) // onCUDA closes both again, which does nothing
	c.device, c.attached, c.counted = nil, nil, false
	p.d.placed[c.placed] = p.carriedArray(c)
	return err
}

// carriedArray says where a column is whose rows copies bring.
func (p *placer) carriedArray(c *deviceColumn) PlacedArray {
	by := CarryCopies.String()
	if p.source.recipe.split.has(c.column) {
		by = Disk.String()
	}
	return PlacedArray{Array: "column " + c.name, Bytes: int64(len(c.store.Column().Bytes())), Rung: pinned.RungHost,
		Carry: by}
}
