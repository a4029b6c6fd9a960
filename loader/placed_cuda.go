package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// onCUDA makes batches on a CUDA device, where they then lie: kernels read topology and columns where place put them,
// in device memory or, over the bus, in host memory.
type onCUDA struct {
	*device.Device
	topology sampling.Topology
	owned    []io.Closer // device copies, attachments and caches, to close in reverse order
	placed   []PlacedArray
	columns  []*deviceColumn
	log      *slog.Logger
	hotRows  hotRows
	placer   *placer // while arrays are placed
	waiting  *placer // what is to fill the cache of hot rows (shareLater)
}

// deviceColumn is a column that a device reads.
type deviceColumn struct {
	*tiers.Column
	device   *gather.DeviceStore // nil: copies bring its rows, out of memory or from disk
	attached *pinned.Attachment
	placed   int            // in onCUDA.placed
	counted  bool           // its rows are ranked again, from their uses
	before   gather.Traffic // what was gathered on trial
	ledger   *pinned.Ledger
}

func (d *onCUDA) String() string        { return fmt.Sprintf("cuda:%d", d.Ordinal()) }
func (d *onCUDA) bounded(*Options) bool { return false }

func (d *onCUDA) busAddress() string {
	at := d.Attribute
	return machine.FindPCI(at(device.AttrPCIDomain), at(device.AttrPCIBus), at(device.AttrPCIDevice)).Address
}

// find returns a column as the device has it.
func (d *onCUDA) find(c *tiers.Column) *deviceColumn {
	return d.columns[slices.IndexFunc(d.columns, func(x *deviceColumn) bool { return x.Column == c })]
}

// carried returns whether copies bring the rows of an array.
func (d *onCUDA) carried(a *Array) bool {
	return a.IsColumn() && slices.ContainsFunc(d.columns, func(c *deviceColumn) bool {
		return c.device == nil && keyOfColumn(a) == columnKey{c.Name, c.NodeType}
	})
}

// close frees what the source's arrays took. No kernel that reads them may be under way.
func (d *onCUDA) close() error {
	err := tiers.CloseAll(d.owned)
	d.owned = nil
	return errors.Join(err, d.Device.Close())
}

// place brings each array of the source into device memory while that lasts, topology first, then the columns from the
// smallest on; else into host memory that the device addresses. Of the columns there the device keeps the rows that
// HotRows ranks first.
func (d *onCUDA) place(ctx context.Context, source *Placed) error {
	d.log = source.recipe.opt.log()
	rest, err := d.budget(source)
	if err != nil {
		return err
	}
	p := &placer{d: d, source: source, opt: &source.recipe.opt, ctx: ctx, rest: rest,
		total: source.sourceBytes().Total()}
	if p.stream, err = d.NewStream(device.PriorityLow); err != nil {
		return err
	}
	defer p.stream.Close()
	if err := p.topology(); err != nil {
		return err
	}
	d.placer = p
	if err := source.openTiers(ctx); err != nil {
		return err
	}
	return p.stream.Synchronize()
}

// budget returns how much device memory is for the source.
func (d *onCUDA) budget(p *Placed) (int64, error) {
	o := &p.recipe.opt
	free, _, err := d.Memory()
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", ErrDevice, o.Device.Name, err)
	}
	if o.Device.Memory == 0 {
		o.Device.Memory = free / 2
	}
	p.ledger.SetDeviceLimit(o.Device.Memory)
	if o.Device.Cache == NoDeviceCache {
		return 0, nil
	}
	if o.Device.Cache > 0 {
		return min(o.Device.Cache, o.Device.Memory), nil
	}
	b := sat.Mul(p.estimate.DeviceBound.Total(), int64(p.loaders))
	return o.Device.Memory - min(b, o.Device.Memory/2), nil
}

// placer brings the arrays of a source to where kernels read them.
type placer struct {
	d           *onCUDA
	source      *Placed
	opt         *Options
	ctx         context.Context
	stream      *device.Stream
	rest        int64 // device memory that may still be taken
	done, total int64 // for progress
	ranked      []float64
}

// array brings one array to where the budget lets it be.
func (p *placer) array(name string, t unified.Tensor, opt pinned.AttachOptions) (*pinned.Attachment, error) {
	size := int64(len(t.Bytes()))
	if size == 0 {
		return new(pinned.Attachment), nil
	}
	opt.Ledger = &p.source.ledger
	if p.opt.Residence == Resident {
		opt.From = pinned.RungCopy
	}
	opt.Progress = func(done, _ int64) { p.opt.progress("device", p.done+done, p.total) }
	a, err := p.bring(t.Bytes(), opt)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p.d.owned = append(p.d.owned, a)
	p.d.placed = append(p.d.placed, PlacedArray{Array: name, Bytes: size, Rung: a.Rung(), Refused: a.Reasons()})
	p.done += size
	p.opt.log().Debug("array placed", "array", name, "bytes", size, "rung", a.Rung().String())
	return a, nil
}

// bring uploads b where the budget allows, and else attaches it.
func (p *placer) bring(b []byte, opt pinned.AttachOptions) (*pinned.Attachment, error) {
	held := p.held(b)
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

// held returns the device memory that so many bytes take.
func (p *placer) held(b []byte) int64 {
	return (pinned.Options{Device: p.d.Device}).Size(int64(len(b)))
}

// topology places what samplers read.
func (p *placer) topology() (err error) {
	of := p.source.recipe.opt.Sampler
	names := append([]string{"indptr", "indices", "edge types"}, readColumns(of)...)
	edges := len(names)
	if s, ok := sampling.As[sampling.NodeColumnSampler](of); ok {
		for _, name := range s.NodeColumns() {
			for _, t := range p.source.recipe.graph.Schema().Nodes {
				names = append(names, fmt.Sprintf("column %s of %s", name, t.Name))
			}
		}
	}
	at := make([]device.Address, len(names))
	for i, array := range p.source.recipe.topology() {
		a, err := p.array(names[i], array, pinned.AttachOptions{Purpose: pinned.Topology})
		if err != nil {
			return err
		}
		at[i] = a.Address()
	}
	p.d.topology = sampling.Topology{Indptr: at[0], Indices: at[1], Types: at[2], Columns: at[3:edges],
		NodeColumns: slices.Collect(slices.Chunk(at[edges:], len(p.source.recipe.graph.Schema().Nodes)))}
	return p.keepHotAdjacency()
}

// columns places each column, the smallest first, and makes the stores that gather from them.
func (p *placer) columns() error {
	for _, c := range p.source.columns {
		p.d.columns = append(p.d.columns, &deviceColumn{Column: c, ledger: &p.source.ledger})
	}
	bytes := func(c *deviceColumn) int { return len(c.Store.Column().Bytes()) }
	slices.SortStableFunc(p.d.columns, func(a, b *deviceColumn) int { return cmp.Compare(bytes(a), bytes(b)) })
	for _, c := range p.d.columns {
		if err := p.column(c); err != nil {
			return fmt.Errorf("column %s: %w", c.Name, err)
		}
	}
	if p.d.hotRows == shareLater {
		p.d.waiting = p
		return nil
	}
	if err := p.keepHotRows(); err != nil || p.opt.Tuning.Carry != CarryMeasured {
		return err
	}
	return p.measureCarry()
}

// column places a column and makes the store that gathers from it.
func (p *placer) column(c *deviceColumn) (err error) {
	b, elsewhere := c.Store.Column().Bytes(), c.Given || p.source.recipe.split.Has(c.Column)
	if elsewhere || p.opt.Tuning.Carry == CarryCopies && p.held(b) > p.rest {
		c.placed = len(p.d.placed)
		p.d.placed = append(p.d.placed, p.carriedArray(c))
		p.done += int64(len(b))
		return nil
	}
	if err := p.attachColumn(c); err != nil {
		return err
	}
	c.placed = len(p.d.placed) - 1
	if c.device, err = gather.NewDeviceStore(p.d.Device, c.Store.Column(), c.attached.Address()); err != nil {
		return err
	}
	c.device.MaxBlocks = p.opt.Tuning.DeviceBlocks
	p.d.owned = append(p.d.owned, c.device)
	return nil
}
