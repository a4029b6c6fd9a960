package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Placed says where the kernels of a loader find an array of the source.
type Placed struct {
	Array string      `json:"array"` // "indptr", "feature of paper"
	Bytes int64       `json:"bytes"`
	Rung  pinned.Rung `json:"rung"`
	// Refused are the better ways to let the device address it, and why they were not taken.
	Refused []pinned.Step `json:"refused,omitempty"`
	// CachedRows are the rows of a column, or the edges, that are in device memory besides.
	CachedRows int64 `json:"cached_rows,omitempty"`
}

// Placed returns where each array of the source is that a device reads; nil on the CPU.
func (l *Loader) Placed() []Placed {
	if l.device == nil {
		return nil
	}
	return slices.Clone(l.device.placed)
}

// place decides where the kernels find each array of the source, and brings it there: into device memory while that
// lasts, topology first, then the columns from the smallest on; else into host memory that the device addresses. Of the
// columns there the device keeps the rows that HotRows ranks first.
func (d *deviceSource) place(ctx context.Context) error {
	l := d.loader
	rest, err := d.budget()
	if err != nil {
		return err
	}
	p := placer{d: d, ctx: ctx, rest: rest}
	topology, columns := l.sourceBytes()
	p.total = topology + columns
	if p.stream, err = d.NewStream(device.PriorityLow); err != nil {
		return err
	}
	defer p.stream.Close()
	if err := p.topology(); err != nil {
		return l.explainLimit(err)
	}
	if err := p.columns(); err != nil {
		return l.explainLimit(err)
	}
	return p.stream.Synchronize()
}

// budget returns how much device memory is for the source.
func (d *deviceSource) budget() (int64, error) {
	l := d.loader
	free, _, err := d.Memory()
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", ErrDevice, l.opt.Device, err)
	}
	if l.opt.DeviceMemory == 0 {
		l.opt.DeviceMemory = free / 2
	}
	l.ledger.SetDeviceLimit(l.opt.DeviceMemory)
	if l.opt.DeviceCache == NoDeviceCache {
		return 0, nil
	}
	b := &l.estimate.DeviceBound
	rest := l.opt.DeviceMemory - min(satAdd(b.Batches, b.Scratch), l.opt.DeviceMemory/2)
	if l.opt.DeviceCache > 0 {
		rest = min(l.opt.DeviceCache, l.opt.DeviceMemory)
	}
	return rest, nil
}

// deviceColumn is a column of the source, once, however often it is delivered.
type deviceColumn struct {
	*column
	tensor  unified.Tensor
	store   *gather.DeviceStore
	placed  int  // in device.placed
	counted bool // its rows are ranked again, from their uses
}

// placer brings the arrays of a source to where kernels read them.
type placer struct {
	d           *deviceSource
	ctx         context.Context
	stream      *device.Stream
	rest        int64 // device memory that may still be taken
	done, total int64 // for progress
	ranked      []float64
}

// array brings one array to where the budget lets it be.
func (p *placer) array(name string, t unified.Tensor, purpose pinned.Purpose) (device.Address, error) {
	l, size := p.d.loader, int64(len(t.Bytes()))
	if size == 0 {
		return 0, nil
	}
	opt := pinned.AttachOptions{Ledger: &l.ledger, Purpose: purpose}
	if l.opt.Residence == Resident {
		opt.From = pinned.RungCopy
	}
	if l.opt.Progress != nil {
		opt.Progress = func(done, _ int64) { l.opt.Progress("device", p.done+done, p.total) }
	}
	a, err := p.bring(t.Bytes(), opt)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	p.d.owned = append(p.d.owned, a)
	p.d.placed = append(p.d.placed, Placed{Array: name, Bytes: size, Rung: a.Rung(), Refused: a.Reasons()})
	p.done += size
	l.opt.log().Debug("array placed", "array", name, "bytes", size, "rung", a.Rung().String())
	return a.Address(), nil
}

// bring uploads b where the budget allows, and else attaches it.
func (p *placer) bring(b []byte, opt pinned.AttachOptions) (*pinned.Attachment, error) {
	held := (pinned.Options{Device: p.d.Device}).Size(int64(len(b)))
	if held > p.rest {
		return pinned.Attach(p.ctx, p.d.Device, b, opt)
	}
	a, err := pinned.Upload(p.ctx, p.d.Device, p.stream, b, opt)
	if errors.Is(err, device.ErrOutOfMemory) { // somebody else has taken it meanwhile
		p.rest = 0
		return pinned.Attach(p.ctx, p.d.Device, b, opt)
	}
	p.rest -= held
	return a, err
}

// topology places what samplers read.
func (p *placer) topology() (err error) {
	t := &p.d.topology
	for i, array := range p.d.loader.topology() {
		name := [...]string{"indptr", "indices", "edge types"}[i]
		to := [...]*device.Address{&t.Indptr, &t.Indices, &t.Types}[i]
		if *to, err = p.array(name, array, pinned.Topology); err != nil {
			return err
		}
	}
	return p.keepHotAdjacency()
}

// columns places each column once, the smallest first, and makes the stores that gather from them.
func (p *placer) columns() error {
	l := p.d.loader
	var list []*deviceColumn
	l.eachColumn(func(c *column) {
		list = append(list, &deviceColumn{column: c, tensor: c.store.Column()})
	})
	slices.SortStableFunc(list, func(a, b *deviceColumn) int {
		return cmp.Compare(len(a.tensor.Bytes()),
			len(b.tensor.Bytes()))
	})
	p.d.columns = list
	for _, c := range list {
		if err := p.column(c); err != nil {
			return fmt.Errorf("column %s: %w", c.name, err)
		}
	}
	return p.keepHotRows()
}

// column places a column and makes the store that gathers from it.
func (p *placer) column(c *deviceColumn) error {
	at, err := p.array("column "+c.name, c.tensor, pinned.Columns)
	if err != nil {
		return err
	}
	c.placed = len(p.d.placed) - 1
	if c.store, err = gather.NewDeviceStore(p.d.Device, c.tensor, at); err != nil {
		return err
	}
	c.store.MaxBlocks = p.d.loader.opt.DeviceBlocks
	p.d.owned = append(p.d.owned, c.store)
	c.onDevice = c.store
	return nil
}
