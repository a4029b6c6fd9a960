// Package oncuda makes batches on a CUDA device, and has the tiers of columns that a device reads: its cache and those
// of its peers, and copies through page-locked memory.
package oncuda

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/gather/cuda"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/internal/errs"
	"github.com/khop-gnn/khop/loader/internal/placed"
	"github.com/khop-gnn/khop/loader/internal/plan"
	"github.com/khop-gnn/khop/loader/internal/recipe"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// Processor makes batches on a CUDA device, where they then lie: kernels read topology and columns where Place put
// them, in device memory or, over the bus, in host memory.
type Processor struct {
	*device.Device
	topology sampling.Topology
	owned    []io.Closer // device copies, attachments and caches, to close in reverse order
	Placed   []tier.PlacedArray
	columns  []*deviceColumn
	Opt      Options
	log      *slog.Logger
	// ShareLater leaves the cache of hot rows to ShareHotRows, which fills it for all devices.
	ShareLater bool
	placer     *placer // while arrays are placed
	waiting    *placer // what is to fill the cache of hot rows (ShareLater)
}

// Options are those of package loader that decide how a device reads the source.
type Options struct {
	Memory        int64    `same:"device-memory"` // the most device memory; 0: half of what is free
	Cache         int64    // of it for the source; 0: what slots and scratch leave; negative: none
	Resident      bool     // what the device reads over the bus is a copy on huge pages
	Ranking       *Ranking // of hot rows; nil: none are kept
	Share         Share    // of hot rows among devices
	MeasurePages  bool
	CarryCopies   bool // copies bring the rows of columns that do not fit
	CarryMeasured bool // what brings them is measured
	MaxBlocks     int  // of a kernel; 0: as many as suit it
}

// Share says how devices that reach each other's memory keep hot rows.
type Share uint8

const (
	shareFastest Share = iota // as a plan says
	ShareNone                 // the same rows on each device
	ShareAll                  // each row on one device alone
)

// New takes over a device.
func New(d *device.Device, opt Options) *Processor { return &Processor{Device: d, Opt: opt} }

// deviceColumn is a column that a device reads.
type deviceColumn struct {
	*placed.Column
	device   *cuda.Store // nil: copies bring its rows, out of memory or from disk
	attached *pinned.Attachment
	placed   int          // in Processor.Placed
	counted  bool         // its rows are ranked again, from their uses
	before   cuda.Traffic // what was gathered on trial
	ledger   *pinned.Ledger
}

func (d *Processor) String() string       { return fmt.Sprintf("cuda:%d", d.Ordinal()) }
func (*Processor) Bounded() bool          { return false }
func (*Processor) Fit(p *plan.Plan) error { return p.FitDevice() }

// deviceWorkers is the default of Workers on a device: while one waits for sizes, the other keeps the device busy.
const deviceWorkers = 2

func (*Processor) DefaultWorkers() int { return deviceWorkers }

func (d *Processor) ChooseTiers(s *tiers.Set) {
	rest := s.AddElsewhere(func(t tier.Tier, columns []*placed.Column) tier.Tier {
		return &copies{Tier: t, columns: columns, keeps: t == tier.Tier(s.Disk) && d.Opt.Ranking != nil}
	}, false)
	cache := &placed.Tier{Tier: &deviceCache{d: d, set: s}} // which places all columns, also where it has none
	cache.Take(rest)
	s.Tiers = append(s.Tiers, cache)
}

func (*Processor) Expect(e *plan.Estimate, batches, _ int64) {
	e.Device = tier.Memory{Batches: batches, Scratch: e.DeviceBound.Scratch}
	if e.Bound.Batches > 0 { // rows are there twice (Carry)
		e.Expected = tier.Memory{Columns: e.Bound.Columns, Batches: batches}
	}
}

// find returns a column on the device.
func (d *Processor) find(c *placed.Column) *deviceColumn {
	return d.columns[slices.IndexFunc(d.columns, func(x *deviceColumn) bool { return x.Column == c })]
}

// carried returns whether copies bring the rows of an array.
func (d *Processor) carried(a *layout.Array) bool {
	return a.IsColumn() && slices.ContainsFunc(d.columns, func(c *deviceColumn) bool {
		return c.device == nil && recipe.KeyOf(a) == c.ColumnKey
	})
}

func (d *Processor) Explain(err error, maxMemory int64) error {
	const remedy = "; take smaller batches or fan-outs, a lower Prefetch, or \"cpu\""
	switch {
	case errors.Is(err, pinned.ErrLimit):
		return d.memoryError("%w", err, maxMemory)
	case errors.Is(err, device.ErrOutOfMemory):
		return d.memoryError("%w"+remedy, err, maxMemory)
	case errors.Is(err, device.ErrDeviceLost):
		return fmt.Errorf("%s: %w; start the process again, or take \"cpu\"", d, err)
	}
	return err
}

// memoryError names the options that bound memory.
func (d *Processor) memoryError(format string, err error, maxMemory int64) error {
	limits, args := " is %d: ", []any{d.Opt.Memory, err}
	if maxMemory > 0 {
		limits, args = " is %d, %s %d: ", []any{d.Opt.Memory, option.Named("MaxMemory"), maxMemory, err}
	}
	of := option.Errorf(errs.ErrMemory, d.Opt, "Memory", limits+format, args...).(*option.Error)
	of.Field = "Device.Memory" // of loader.Options
	return of
}

// Close frees what the source's arrays took. No kernel that reads them may be under way.
func (d *Processor) Close() error {
	err := tiers.CloseAll(d.owned)
	d.owned = nil
	return errors.Join(err, d.Device.Close())
}

// Place brings each array of the source into device memory while that lasts, topology first, then the columns from the
// smallest on; else into host memory that the device addresses. Of the columns there the device keeps the rows that
// HotRows ranks first.
func (d *Processor) Place(ctx context.Context, of *plan.Plan) error {
	d.log = of.Log
	rest, err := d.budget(of)
	if err != nil {
		return err
	}
	p := &placer{d: d, plan: of, ctx: ctx, rest: rest, total: of.Set.SourceBytes().Total()}
	if p.stream, err = d.NewStream(); err != nil {
		return err
	}
	defer p.stream.Close()
	place := p.topology
	if of.Paged != nil {
		place = p.pagedTopology
	}
	if err := place(); err != nil {
		return err
	}
	d.placer = p
	if err := of.Set.Open(ctx); err != nil {
		return err
	}
	return p.stream.Synchronize()
}

// budget returns how much device memory is for the source.
func (d *Processor) budget(p *plan.Plan) (int64, error) {
	o := &d.Opt
	free, _, err := d.Memory()
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", errs.ErrDevice, d, err)
	}
	if o.Memory == 0 {
		o.Memory = free / 2
	}
	p.Set.Ledger.SetDeviceLimit(o.Memory)
	if o.Cache < 0 {
		return 0, nil
	}
	if o.Cache > 0 {
		return min(o.Cache, o.Memory), nil
	}
	b := sat.Mul(p.Estimate.DeviceBound.Total(), int64(p.Set.Loaders))
	return o.Memory - min(b, o.Memory/2), nil
}

// placer brings the arrays of a source to where kernels read them.
type placer struct {
	d           *Processor
	plan        *plan.Plan
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
	opt.Ledger = &p.plan.Set.Ledger
	if p.d.Opt.Resident {
		opt.From = pinned.RungCopy
	}
	opt.Progress = func(done, _ int64) { p.plan.Progress("device", p.done+done, p.total) }
	a, err := p.bring(t.Bytes(), opt)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p.d.owned = append(p.d.owned, a)
	p.d.Placed = append(p.d.Placed, tier.PlacedArray{Array: name, Bytes: size, Rung: a.Rung(), Refused: a.Reasons()})
	p.done += size
	p.plan.Log.Debug("array placed", "array", name, "bytes", size, "rung", a.Rung().String())
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

// held returns the device memory that bytes take.
func (p *placer) held(b []byte) int64 {
	return (pinned.Options{Device: p.d.Device}).Size(int64(len(b)))
}

// names are those of the arrays of the topology.
func (p *placer) names() []string {
	names := append([]string{"indptr", "indices", "edge types"}, p.plan.EdgesRead...)
	for _, name := range p.plan.NodesRead {
		for _, t := range p.plan.Graph.Schema().Nodes {
			names = append(names, fmt.Sprintf("column %s of %s", name, t.Name))
		}
	}
	return names
}

// topology places what samplers read.
func (p *placer) topology() (err error) {
	names, edges := p.names(), 3+len(p.plan.EdgesRead)
	at := make([]device.Address, len(names))
	for i, array := range p.plan.Topology() {
		a, err := p.array(names[i], array, pinned.AttachOptions{Purpose: pinned.Topology})
		if err != nil {
			return err
		}
		at[i] = a.Address()
	}
	p.d.topology = sampling.Topology{Indptr: at[0], Indices: at[1], Types: at[2], Columns: at[3:edges],
		NodeColumns: slices.Collect(slices.Chunk(at[edges:], len(p.plan.Graph.Schema().Nodes)))}
	return p.keepHotAdjacency()
}

// columns places each column, the smallest first, and makes the stores that gather from them.
func (p *placer) columns() error {
	for _, c := range p.plan.Set.Columns {
		p.d.columns = append(p.d.columns, &deviceColumn{Column: c, ledger: &p.plan.Set.Ledger})
	}
	bytes := func(c *deviceColumn) int { return len(c.Store.Column().Bytes()) }
	slices.SortStableFunc(p.d.columns, func(a, b *deviceColumn) int { return cmp.Compare(bytes(a), bytes(b)) })
	for _, c := range p.d.columns {
		if err := p.column(c); err != nil {
			return fmt.Errorf("column %s: %w", c.Name, err)
		}
	}
	if p.d.ShareLater {
		p.d.waiting = p
		return nil
	}
	if err := p.keepHotRows(); err != nil || !p.d.Opt.CarryMeasured {
		return err
	}
	return p.measureCarry()
}

// column places a column and makes the store that gathers from it.
func (p *placer) column(c *deviceColumn) (err error) {
	b, elsewhere := c.Store.Column().Bytes(), c.Given || p.plan.Set.Disk.Has(c.Column)
	if elsewhere || p.d.Opt.CarryCopies && p.held(b) > p.rest {
		c.placed = len(p.d.Placed)
		p.d.Placed = append(p.d.Placed, p.carriedArray(c))
		p.done += int64(len(b))
		return nil
	}
	scales := device.Address(0)
	for _, t := range c.Tensors()[1:] {
		a, err := p.array("column "+graph.ScaleOf(c.Name), t, pinned.AttachOptions{Purpose: pinned.Columns})
		if err != nil {
			return err
		}
		scales = a.Address()
	}
	if err := p.attachColumn(c); err != nil {
		return err
	}
	c.placed = len(p.d.Placed) - 1
	if c.device, err = cuda.NewStore(p.d.Device, c.Store.Column(), c.attached.Address()); err != nil {
		return err
	}
	c.device.MaxBlocks = p.d.Opt.MaxBlocks
	p.d.owned = append(p.d.owned, c.device)
	return c.device.Widen(c.Store, scales)
}

// upload copies ids to the device, and waits for them. The region is to be closed also where that fails.
func (p *placer) upload(ids []int64, memory pinned.Options) (t unified.Tensor, r *pinned.Region, err error) {
	b := unified.FromSlice(ids).Bytes()
	if r, err = pinned.Allocate(int64(len(b)), memory); err != nil {
		return t, r, err
	}
	if err := p.stream.CopyToDevice(r.Address(), b); err != nil {
		return t, r, err
	}
	if err := p.stream.Synchronize(); err != nil {
		return t, r, err
	}
	t, err = unified.NewPlaced(pinned.Device, unified.Int64, r.Bytes(), int64(len(ids)))
	return t, r, err
}
