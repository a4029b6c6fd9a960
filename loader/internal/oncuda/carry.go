package oncuda

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/gather/cuda"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/internal/disk"
	"github.com/khop-gnn/khop/loader/internal/placed"
	"github.com/khop-gnn/khop/loader/internal/recipe"
	"github.com/khop-gnn/khop/loader/internal/slots"
	"github.com/khop-gnn/khop/loader/tier"
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

// Reserve takes memory for the rows of an array.
func (c *carried) Reserve(array int, n int64) error {
	if !c.is[array] {
		return nil
	}
	return c.rows[array].Reserve(n)
}

func (c *carried) Close() error {
	var errs []error
	for i := range c.rows {
		errs = append(errs, c.rows[i].Close(), c.places[i].Close())
	}
	return errors.Join(errs...)
}

// copies is the tier of columns that a tier of the host has and a device needs: rows come to page-locked memory of the
// slot, from where a copy engine moves them.
type copies struct {
	tier.Tier // of the host
	columns   []*placed.Column
	keeps     bool // the device keeps rows of a column on disk
}

func (t *copies) Cost(b tier.Bound) tier.Memory {
	m, index := t.Tier.Cost(b), int64(0)
	m.Batches = sat.Add(m.Batches, sat.Mul(int64(b.Slots), b.Batch)) // rows are there twice
	for i := range b.Columns {
		if t.keeps && b.Columns[i].NodeType >= 0 {
			index = max(index, cuda.HotIndexBytes(b.Columns[i].Data.Len()))
		}
	}
	m.Columns = sat.Add(m.Columns, index)
	return m
}

func (t *copies) Reader(w tier.Worker) (tier.Reader, error) {
	stream := w.Stream
	w.Stream = nil
	r, err := t.Tier.Reader(w)
	return &copiesReader{Reader: r, stream: stream}, err
}

func (t *copies) Stats() (s tier.Stats, err error) {
	if s, err = t.Tier.Stats(); err != nil {
		return s, err
	}
	for _, c := range t.columns {
		if c.Hot == nil {
			continue
		}
		of, err := c.Hot.Traffic()
		if err != nil {
			return s, err
		}
		s.Add(traffic(of, cuda.Traffic{}))
	}
	return s, nil
}

// copiesReader lets a reader of the host bring rows to page-locked memory, and the stream move them on.
type copiesReader struct {
	tier.Reader
	stream *device.Stream
	late   []lateArray // that are on their way to page-locked memory
	ready  device.Copies
}

// atOnce is how many bytes are moved while others are still brought. Fewer are not worth a call of the driver's.
const atOnce = 1 << 20

// lateArray is an array whose rows the device gets when others have brought them.
type lateArray struct {
	array int
	to    unified.Tensor
	hot   *cuda.HotRows // that has the other rows; nil for none
}

// Expect is of tier.Early.
func (r *copiesReader) Expect(ctx context.Context, s tier.Slot) (waited time.Duration, err error) {
	early, ok := r.Reader.(tier.Early)
	if !ok {
		return 0, nil
	}
	// Nothing of the batch before may be moved out of the memory any more. Else sampling waits for that.
	if err := s.(*slots.Slot).Sync(); err != nil {
		return 0, err
	}
	return early.Expect(ctx, s)
}

// Begin waits for the ids, which are there since the batch was sampled.
func (r *copiesReader) Begin(ctx context.Context, s tier.Slot, w tier.Want) (done bool, err error) {
	late := lateArray{array: w.Array}
	if w.IDs, err = fenceOf(s).hostIDs(w.IDs); err != nil {
		return false, err
	}
	if d, ok := r.Reader.(*disk.Reader); ok && d.Hot(w.Array) != nil {
		late.hot = d.Hot(w.Array)
		err = r.beginHot(fenceOf(s), d, late.hot, w)
	} else {
		done, err = r.Reader.Begin(ctx, s, w)
	}
	if err != nil {
		return false, err
	}
	if late.to, err = s.Rows(w.Array, w.IDs.Len()); err != nil || w.IDs.Len() == 0 {
		return done, err
	}
	if done {
		return true, r.send(s, late)
	}
	r.late = append(r.late, late)
	return false, nil
}

// beginHot notes where the rows of an array come from. The disk reads those that the device does not keep.
func (r *copiesReader) beginHot(f *cudaFence, d *disk.Reader, hot *cuda.HotRows, w tier.Want) (err error) {
	if d.Rows, err = d.List(d.Rows[:0], w.Array, w.IDs); err != nil {
		return err
	}
	n := int64(len(d.Rows))
	places, err := unified.Grow[int32](&f.carried.places[w.Array], n, 0)
	if err != nil {
		return err
	}
	return d.Check(w.Array, hot.Missing(d.Rows, places[:n]))
}

// send sees that the rows go to the device, at the latest by Finish.
func (r *copiesReader) send(s tier.Slot, a lateArray) error {
	f := fenceOf(s)
	if a.hot != nil {
		return r.joinHot(f, a)
	}
	r.ready.Add(a.to.Address(), f.carried.rows[a.array].Bytes()[:len(a.to.Bytes())])
	if r.ready.Bytes() < atOnce {
		return nil
	}
	return r.stream.CopyAll(&r.ready)
}

// joinHot lets a kernel put together the rows of an array that were read, and those that the device keeps.
func (r *copiesReader) joinHot(f *cudaFence, a lateArray) error {
	places, err := f.carried.places[a.array].Tensor(unified.Int32, a.to.Len())
	if err != nil {
		return err
	}
	rows := &f.carried.rows[a.array]
	return a.hot.Enqueue(r.stream, a.to, places, rows.Address(), min(rows.Cap()/a.to.RowBytes(), a.hot.Most))
}

func (r *copiesReader) Finish(ctx context.Context, s tier.Slot) (time.Duration, error) {
	waited, err := r.Reader.Finish(ctx, s)
	if err == nil && len(r.late) > 0 {
		err = r.stream.Record(fenceOf(s).gathering) // the time before was the other tier's
	}
	if err != nil {
		return waited, err
	}
	for _, a := range r.late {
		if err := r.send(s, a); err != nil {
			return waited, err
		}
	}
	r.late = r.late[:0]
	return waited, r.stream.CopyAll(&r.ready)
}

func (r *copiesReader) Cancel() {
	r.Reader.Cancel()
	r.late = r.late[:0]
	r.ready.Clear()
}

// fenceOf returns the fence of a slot on a device.
func fenceOf(s tier.Slot) *cudaFence { return s.(*slots.Slot).Fence.(*cudaFence) }

// hostIDs copies ids to the host. Columns of one node type have the same list, or the seeds at its beginning.
func (f *cudaFence) hostIDs(ids unified.Tensor) (host unified.Tensor, err error) {
	c := &f.carried
	if c.of == 0 || c.of != ids.Address() || c.ids.Len() < ids.Len() {
		c.of = 0
		if c.ids, err = f.Host(ids); err != nil {
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
		if c.device == nil || p.d.Placed[c.placed].Rung == pinned.RungDevice {
			continue
		}
		if err := p.measureColumn(c); err != nil {
			return fmt.Errorf("column %s: time how its rows come: %w", c.Name, err)
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
	if err = errors.Join(err, t.Close()); err != nil {
		return err
	}
	p.plan.Log.Info("timed how rows come to the device", "column", c.Name, "kernels", t.kernels, "copies", t.copies,
		"batches", len(batches))
	if t.copies < t.kernels {
		return p.leaveToCopies(c)
	}
	c.before, err = c.device.Traffic()
	return err
}

// idsOf returns the rows that some batches of epoch 0 have of a column.
func (p *placer) idsOf(c *deviceColumn) (batches [][]int64, err error) {
	r := p.plan
	err = r.Trial(p.ctx, min(r.Batches, carryTrials), nil, func(s *slots.Slot) {
		var ids []int64
		for i := range r.Arrays {
			a := &r.Arrays[i]
			if !a.IsColumn() || recipe.KeyOf(a) != c.ColumnKey {
				continue
			}
			if rows, view := s.RowIDs(a); !view {
				eachID(rows, func(id int64) { ids = append(ids, id) })
			}
		}
		if len(ids) > 0 {
			batches = append(batches, ids)
		}
	})
	return batches, err
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
	memory := pinned.Options{Ledger: &p.plan.Set.Ledger, Purpose: pinned.Batches, Device: p.d.Device}
	t.out.Options = memory
	for half := range t.staged {
		t.staged[half].Options = memory
		t.staged[half].Options.Place = pinned.Pinned
		if t.sent[half], err = p.d.NewEvent(); err != nil {
			return t, err
		}
	}
	for _, ids := range batches {
		there, r, err := p.upload(ids, memory)
		t.regions = append(t.regions, r)
		if err != nil {
			return t, err
		}
		t.ids = append(t.ids, there)
	}
	return t, nil
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
	store := t.column.Store
	for i, ids := range t.batches {
		half := i % 2
		if err := t.sent[half].Synchronize(); err != nil {
			return err
		}
		rows, err := store.Gather(&t.staged[half], unified.FromSlice(ids), carryGoroutines(1))
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

func (t *carryTrial) Close() error {
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
	err := errors.Join(c.device.Close(), c.attached.Close()) // the processor closes both again, which does nothing
	c.device, c.attached, c.counted = nil, nil, false
	p.d.Placed[c.placed] = p.carriedArray(c)
	return err
}

// carriedArray says where a column is whose rows copies bring.
func (p *placer) carriedArray(c *deviceColumn) tier.PlacedArray {
	by := "copies"
	switch {
	case c.Given:
		by = "tier"
	case p.plan.Set.Disk.Has(c.Column):
		by = "disk"
	}
	return tier.PlacedArray{Array: "column " + c.Name, Bytes: int64(len(c.Store.Column().Bytes())),
		Rung: pinned.RungHost, Carry: by}
}
