package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/pinned"
)

// PlaceAll is Place for several devices of one machine, which opt.Device names: "cuda:0,cuda:1". It returns a placed
// source for each, which loaders are divided among: loader number i is on device i modulo how many there are. They
// share MaxMemory in that proportion, and each has DeviceMemory for itself.
//
// Hot rows of a column that fits on no device are kept once among devices that reach each other's memory, or on each of
// them, as HotShare says. Devices that share rows free them when all of their placed sources are closed.
func PlaceAll(ctx context.Context, src Source, opt Options, loaders int) (all []*Placed, err error) {
	devices := strings.Split(opt.Device.Name, ",")
	if len(devices) > loaders {
		return nil, option.Errorf(ErrOptions, opt, "Device.Name", " is %s: more devices than the %d loaders",
			opt.Device.Name, loaders)
	}
	defer func() {
		if err != nil {
			for _, p := range all {
				err = errors.Join(err, p.Close())
			}
			all = nil
		}
	}()
	for i, name := range devices {
		own, n := opt, (loaders-i+len(devices)-1)/len(devices)
		own.Device.Name = name
		if opt.MaxMemory > 0 {
			own.MaxMemory = max(1, opt.MaxMemory/int64(loaders)*int64(n))
		}
		if len(devices) == 1 {
			p, err := Place(ctx, src, own, n)
			if err != nil {
				return nil, err
			}
			return []*Placed{p}, nil
		}
		p, err := newPlaced(ctx, src, own, n, shareLater)
		if err != nil {
			return all, err
		}
		all = append(all, p)
	}
	err = pinned.Guard(func() error { return shareHotRows(all) })
	return all, all[0].recipe.explainDamage(err)
}

// hotRows says when a placed source fills its cache of hot rows.
type hotRows uint8

const (
	keepAtOnce hotRows = iota
	shareLater         // PlaceAll does, for all devices
)

// fleet is placed sources whose devices read each other's caches.
type fleet struct {
	mu      sync.Mutex
	members []*Placed
	left    int // members that were closed
}

// leave counts a member that is not used any more, and frees all with the last: until then others may read its rows.
func (f *fleet) leave() error {
	f.mu.Lock()
	f.left++
	last := f.left == len(f.members)
	f.mu.Unlock()
	if !last {
		return nil
	}
	var errs []error
	for _, p := range f.members {
		errs = append(errs, p.free())
	}
	return errors.Join(errs...)
}

// shareHotRows fills the caches of placed sources on several devices.
func shareHotRows(all []*Placed) error {
	var waiting []*placer
	for _, p := range all {
		d, ok := p.on.(*onCUDA)
		if !ok {
			return option.Errorf(ErrOptions, Options{}, "Device.Name", " names several, but one of them is %s: name "+
				"CUDA devices, each once", p.Device())
		}
		if slices.ContainsFunc(waiting, func(w *placer) bool { return w.d.Ordinal() == d.Ordinal() }) {
			return option.Errorf(ErrOptions, Options{}, "Device.Name", " names %s twice", p.Device())
		}
		waiting = append(waiting, d.waiting)
		d.waiting = nil
	}
	for len(waiting) > 0 {
		group, rest, err := reachGroup(waiting)
		if err == nil && len(group) > 1 {
			err = shareGroup(group)
		} else if err == nil {
			err = group[0].keepHotRows()
		}
		if err != nil {
			return group[0].d.explain(err, group[0].opt)
		}
		waiting = rest
	}
	return nil
}

// reachGroup returns the first placer with all those after it whose devices reach each other in both directions, and
// the others.
func reachGroup(all []*placer) (group, rest []*placer, err error) {
	group = all[:1:1]
	if all[0].opt.Tuning.HotShare == ShareNone {
		return group, all[1:], nil
	}
	var refused error
	for _, p := range all[1:] {
		why := error(nil)
		for _, have := range group {
			if why == nil {
				why = errors.Join(p.d.Reach(have.d.Device), have.d.Reach(p.d.Device))
			}
		}
		if why == nil && len(group) < gather.MaxPeers {
			group = append(group, p)
			continue
		}
		refused = cmp.Or(refused, why)
		rest = append(rest, p)
	}
	first := all[0]
	switch {
	case len(group) > 1 || refused == nil:
	case first.opt.Tuning.HotShare == ShareAll:
		err = fmt.Errorf("%w: %s shares hot rows with no other device: %w; take HotShare auto or none", ErrDevice,
			first.d, refused)
	default:
		first.opt.log().Info("hot rows are kept on each device", "device", first.d.String(), "why", refused)
	}
	return group, rest, err
}

// shareGroup divides the hot rows of a column among devices that reach each other, where the plan says so.
func shareGroup(group []*placer) error {
	first := group[0]
	columns, room, same := make([]*deviceColumn, len(group)), int64(gather.MaxPeerRows), true
	for i, p := range group {
		c, k := p.hotColumn()
		if columns[i] = c; c == nil || columns[0] == nil || c.Column.Name != columns[0].Column.Name ||
			c.NodeType != columns[0].NodeType {
			same = false
			continue
		}
		room = min(room, k)
	}
	var plan sharing
	var scores []float64
	if same && room < columns[0].Store.Column().Len() {
		var err error
		if scores, err = first.scoresOf(columns[0]); err != nil {
			return err
		}
		cost := fixedCost
		if first.opt.Tuning.HotShare == ShareAuto {
			if cost, err = measureCost(group); err != nil {
				return err
			}
		}
		plan = planSharing(first.opt.Tuning.HotShare, scores, room, int64(len(group)), cost)
	}
	if plan.dealt == 0 { // each for itself
		for _, p := range group {
			p.ranked = first.ranked
			if err := p.keepHotRows(); err != nil {
				return err
			}
		}
		return nil
	}
	return keepShared(group, columns, plan, scores)
}

// keepShared fills the caches as planned.
func keepShared(group []*placer, columns []*deviceColumn, plan sharing, scores []float64) error {
	own := gather.Hottest(scores, plan.own)
	dealt := without(gather.Hottest(scores, plan.own+plan.dealt), own)
	stores, memory := make([]*gather.DeviceStore, len(group)), make([]pinned.Options, len(group))
	for i, c := range columns {
		stores[i], memory[i] = c.device, pinned.Options{Ledger: c.ledger, Purpose: pinned.Columns}
	}
	if err := gather.ShareCaches(group[0].ctx, stores, own, dealt, memory); err != nil {
		return fmt.Errorf("column %s: %w", columns[0].Name, err)
	}
	f := &fleet{}
	for i, p := range group {
		p.source.fleet = f
		f.members = append(f.members, p.source)
		p.source.shareColumn(columns[i])
		a := &p.d.placed[columns[i].placed]
		a.CachedRows, a.PeerRows = stores[i].Cached(), int64(len(own)+len(dealt))-stores[i].Cached()
		stores[i].CacheShare = plan.hits
		p.opt.log().Info("hot rows shared among devices", "device", p.d.String(), "column", columns[i].Name,
			"rows_here", a.CachedRows, "rows_at_peers", a.PeerRows, "of", columns[i].Store.Column().Len(), "plan",
			plan.why)
	}
	return nil
}

// peers is the tier of a column of which each device keeps some rows, for all of them.
type peers struct{ deviceCache }

// shareColumn makes peers the tier of a column, in place of the device's own cache.
func (p *Placed) shareColumn(c *deviceColumn) {
	cache := c.Tier.Tier.(*deviceCache)
	at := slices.Index(cache.columns, c)
	cache.columns = slices.Delete(cache.columns, at, at+1)
	c.Tier.Take(slices.Delete(c.Tier.Columns, at, at+1))
	p.addTier(&peers{deviceCache{cache.d, p, []*deviceColumn{c}}}, false, []*tiers.Column{c.Column})
}

// without returns the rows of all that are not in some; both ascend.
func without(all, some []int64) []int64 {
	rest := make([]int64, 0, len(all)-len(some))
	for _, row := range all {
		if len(some) > 0 && row == some[0] {
			some = some[1:]
			continue
		}
		rest = append(rest, row)
	}
	return rest
}
