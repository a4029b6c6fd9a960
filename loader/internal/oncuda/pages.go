package oncuda

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/gather/cuda"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/loader/internal/plan"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// copyGain is the share of the time that a copy must spare. Times repeat to some percent, and the copy costs memory.
const copyGain = 0.1

// PageSample is how much of a column is tried. A device that reads few pages finds them all in its translation caches
// (TLB), and the size of a page says nothing then. Nobody states how many those hold. Measured was a V100 on its own
// memory, on pages of 2 MiB: 32 MiB are within reach of the first level, 8 GiB of the second (Jia et al., "Dissecting
// the NVIDIA Volta GPU architecture via microbenchmarking", 2018). That the second has as many entries for 4 KiB pages
// of the host, which then reach 16 MiB, is a guess, and what an IOMMU adds is not known; so this is four times as much.
// A copy that is larger than the reach of huge pages may gain less than its sample.
var PageSample int64 = 64 << 20 // tests try less

// TimePages is a variable for tests only.
var TimePages = timed

// choosing lets one placed source at a time try pages and attach: two that share a column choose once.
var choosing sync.Mutex

// attachColumn lets the device address a column, on pages that Options.HostPages chooses.
func (p *placer) attachColumn(c *deviceColumn) (err error) {
	name, column := "column "+c.Name, c.Store.Column()
	opt := pinned.AttachOptions{Purpose: pinned.Columns}
	if !p.choosesPages(column.Bytes()) {
		c.attached, err = p.array(name, column, opt)
		return err
	}
	choosing.Lock()
	defer choosing.Unlock()
	t, err := p.tryPages(column)
	if err != nil {
		return fmt.Errorf("time its pages: %w", err)
	}
	if t.Copied {
		huge := opt
		huge.From, huge.Last, huge.Why = pinned.RungCopy, pinned.RungCopy, t.Why
		huge.Available = plan.ProbeMachine().Room()
		if c.attached, err = p.array(name, column, huge); err != nil {
			if p.ends(err) {
				return err
			}
			t.Copied, t.Why = false, fmt.Sprintf("%s, but the copy was refused: %v", t.Why, err)
		}
	}
	if !t.Copied {
		if c.attached, err = p.array(name, column, opt); err != nil {
			return err
		}
	}
	p.d.Placed[len(p.d.Placed)-1].Pages = t
	p.plan.Log.Info("pages of a column chosen", "column", c.Name, "copied", t.Copied, "why", t.Why)
	return nil
}

// choosesPages reports whether b is a mapped file whose pages the driver registers as they are, and more may be asked.
func (p *placer) choosesPages(b []byte) bool {
	if !p.d.Opt.MeasurePages || p.d.Opt.Resident || p.held(b) <= p.rest || len(b) == 0 {
		return false
	}
	for _, s := range pinned.Ladder(p.d.Device, b) {
		if s.Refused == "" {
			return s.Rung == pinned.RungReadOnly || s.Rung == pinned.RungInPlace
		}
	}
	return false
}

// ends reports whether an error ends placing, rather than speaks against a way to do it.
func (p *placer) ends(err error) bool {
	return p.ctx.Err() != nil || errors.Is(err, pinned.ErrFault) || errors.Is(err, device.ErrDeviceLost)
}

// tryPages chooses the pages of a column that is a mapped file. What is refused speaks against a copy.
func (p *placer) tryPages(column unified.Tensor) (*tier.PageTrial, error) {
	switch {
	case pinned.Attached(column.Bytes()):
		return &tier.PageTrial{Why: "another source has attached it"}, nil
	case int64(len(column.Bytes())) < PageSample:
		few := machine.Bytes(int64(len(column.Bytes())))
		return &tier.PageTrial{Why: fmt.Sprintf("%s are too few to tell", few)}, nil
	}
	t := &pageTrial{placer: p}
	err := t.run(column)
	if err = errors.Join(err, t.Close()); err != nil && p.ends(err) {
		return nil, err
	} else if err != nil {
		return &tier.PageTrial{Why: "not measured: " + err.Error()}, nil
	}
	r := &t.PageTrial
	r.Copied = r.Copy < r.Registered*(1-copyGain)
	r.Why = fmt.Sprintf("%s of random rows took %.3g ms from registered pages, %.3g ms from a copy on huge pages",
		machine.Bytes(r.Bytes), r.Registered, r.Copy)
	return r, nil
}

// pageTrial is what trying the pages of a column takes.
type pageTrial struct {
	tier.PageTrial
	*placer
	undo []func() error
	rows unified.Tensor // random ones of the sample, on the device
	out  unified.Buffer
}

// run times random rows out of the middle of a column both ways.
func (t *pageTrial) run(column unified.Tensor) error {
	memory := pinned.Options{Ledger: &t.plan.Set.Ledger, Purpose: pinned.Scratch, Device: t.d.Device}
	row := column.RowBytes()
	count := max(1, PageSample/row)
	const aligned = 128 // rows, so that the sample's lie in lines as the column's do
	first := (column.Len() - count) / 2 / aligned * aligned
	sample, err := column.Rows(first, first+count)
	if err != nil {
		return err
	}
	t.out.Options = memory
	if err := t.drawRows(count, memory); err != nil {
		return err
	}
	t.Bytes = t.rows.Len() * row
	registered, err := t.mapAgain(sample)
	if err != nil {
		return err
	}
	if err := t.gather(sample, registered, pinned.RungReadOnly, pinned.RungInPlace, &t.Registered); err != nil {
		return err
	}
	return t.gather(sample, sample.Bytes(), pinned.RungCopy, pinned.RungCopy, &t.Copy)
}

// drawRows draws half as many rows as the sample has, by a fixed seed, and brings their ids to the device.
func (t *pageTrial) drawRows(count int64, memory pinned.Options) (err error) {
	ids, random := make([]int64, max(1, count/2)), rand.New(rand.NewPCG(0, uint64(count)))
	for i := range ids {
		ids[i] = random.Int64N(count)
	}
	var r *pinned.Region
	t.rows, r, err = t.upload(ids, memory)
	t.undo = append(t.undo, r.Close)
	return err
}

// mapAgain maps the sample's file once more, and returns the sample there: pages of the mapping at hand stay free for
// whoever attaches all of it meanwhile.
func (t *pageTrial) mapAgain(sample unified.Tensor) ([]byte, error) {
	f, at, err := pinned.OpenMapped(sample.Bytes())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	again, err := pinned.Map(f)
	if err != nil {
		return nil, err
	}
	t.undo = append(t.undo, again.Close)
	n := int64(len(sample.Bytes()))
	if at+n > again.Len() {
		return nil, fmt.Errorf("%s was cut short: %w", f.Name(), pinned.ErrFault)
	}
	return again.Bytes()[at : at+n], nil
}

// gather attaches b, which has the sample's bytes, by one of two rungs, and times the gather of the rows.
func (t *pageTrial) gather(sample unified.Tensor, b []byte, from, last pinned.Rung, took *float64) (err error) {
	a, err := pinned.Attach(t.ctx, t.d.Device, b, pinned.AttachOptions{Ledger: &t.plan.Set.Ledger,
		Purpose: pinned.Scratch, From: from, Last: last, Available: plan.ProbeMachine().Room()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if a.Rung() > last || a.Rung() < from { // of who attached it meanwhile
		return fmt.Errorf("another source has attached it: %v", a.Rung())
	}
	store, err := cuda.NewStore(t.d.Device, sample, a.Address())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.stream.Synchronize(), store.Close()) }()
	store.MaxBlocks = t.d.Opt.MaxBlocks
	*took, err = TimePages(t.d.Device, t.stream, func() error {
		if t.ctx.Err() != nil {
			return context.Cause(t.ctx)
		}
		_, err := store.Enqueue(t.stream, &t.out, t.rows)
		return err
	})
	return cmp.Or(err, store.Err())
}

func (t *pageTrial) Close() error {
	errs := []error{t.stream.Synchronize(), t.out.Close()}
	for i := len(t.undo) - 1; i >= 0; i-- {
		errs = append(errs, t.undo[i]())
	}
	return errors.Join(errs...)
}
