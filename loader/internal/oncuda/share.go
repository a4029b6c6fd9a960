package oncuda

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/gather/cuda"
	"github.com/khop-gnn/khop/loader/internal/errs"
	"github.com/khop-gnn/khop/loader/internal/placed"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/pinned"
)

// ShareHotRows fills the caches of hot rows of several devices, each placed with ShareLater. It returns those that then
// read each other's.
func ShareHotRows(all []*Processor) (groups [][]*Processor, err error) {
	var waiting []*placer
	for _, d := range all {
		waiting = append(waiting, d.waiting)
		d.waiting = nil
	}
	for len(waiting) > 0 {
		group, rest, err := reachGroup(waiting)
		shared := false
		if err == nil && len(group) > 1 {
			shared, err = shareGroup(group)
		} else if err == nil {
			err = group[0].keepHotRows()
		}
		if shared {
			var devices []*Processor
			for _, p := range group {
				devices = append(devices, p.d)
			}
			groups = append(groups, devices)
		}
		if err != nil {
			return groups, group[0].d.Explain(err, group[0].plan.MaxMemory)
		}
		waiting = rest
	}
	return groups, nil
}

// reachGroup returns the first placer with all those after it whose devices reach each other in both directions, and
// the others.
func reachGroup(all []*placer) (group, rest []*placer, err error) {
	group = all[:1:1]
	if all[0].d.Opt.Share == ShareNone {
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
		if why == nil && len(group) < cuda.MaxPeers {
			group = append(group, p)
			continue
		}
		refused = cmp.Or(refused, why)
		rest = append(rest, p)
	}
	first := all[0]
	switch {
	case len(group) > 1 || refused == nil:
	case first.d.Opt.Share == ShareAll:
		err = fmt.Errorf("%w: %s shares hot rows with no other device: %w; take HotShare auto or none", errs.ErrDevice,
			first.d, refused)
	default:
		first.plan.Log.Info("hot rows are kept on each device", "device", first.d.String(), "why", refused)
	}
	return group, rest, err
}

// shareGroup divides the hot rows of a column among devices that reach each other, where the plan says so. It reports
// whether they then read each other's caches.
func shareGroup(group []*placer) (shared bool, err error) {
	first := group[0]
	columns, room, same := make([]*deviceColumn, len(group)), int64(cuda.MaxPeerRows), true
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
		if scores, err = first.scoresOf(columns[0]); err != nil {
			return false, err
		}
		cost := fixedCost
		if first.d.Opt.Share == shareFastest {
			if cost, err = measureCost(group); err != nil {
				return false, err
			}
		}
		plan = planSharing(first.d.Opt.Share, scores, room, int64(len(group)), cost)
	}
	if plan.dealt == 0 { // each for itself
		for _, p := range group {
			p.ranked = first.ranked
			if err := p.keepHotRows(); err != nil {
				return false, err
			}
		}
		return false, nil
	}
	return true, keepShared(group, columns, plan, scores)
}

// keepShared fills the caches as planned.
func keepShared(group []*placer, columns []*deviceColumn, plan sharing, scores []float64) error {
	own := cuda.Hottest(scores, plan.own)
	dealt := without(cuda.Hottest(scores, plan.own+plan.dealt), own)
	stores, memory := make([]*cuda.Store, len(group)), make([]pinned.Options, len(group))
	for i, c := range columns {
		stores[i], memory[i] = c.device, pinned.Options{Ledger: c.ledger, Purpose: pinned.Columns}
	}
	if err := cuda.ShareCaches(group[0].ctx, stores, own, dealt, memory); err != nil {
		return fmt.Errorf("column %s: %w", columns[0].Name, err)
	}
	for i, p := range group {
		p.d.shareColumn(p.plan.Set, columns[i])
		a := &p.d.Placed[columns[i].placed]
		a.CachedRows, a.PeerRows = stores[i].Cached(), int64(len(own)+len(dealt))-stores[i].Cached()
		stores[i].CacheShare = plan.hits
		p.plan.Log.Info("hot rows shared among devices", "device", p.d.String(), "column", columns[i].Name,
			"rows_here", a.CachedRows, "rows_at_peers", a.PeerRows, "of", columns[i].Store.Column().Len(), "plan",
			plan.why)
	}
	return nil
}

// peers is the tier of a column of which each device keeps some rows, for all of them.
type peers struct{ deviceCache }

// shareColumn makes peers the tier of a column, in place of the device's own cache.
func (d *Processor) shareColumn(s *tiers.Set, c *deviceColumn) {
	cache := c.Tier.Tier.(*deviceCache)
	at := slices.Index(cache.columns, c)
	cache.columns = slices.Delete(cache.columns, at, at+1)
	c.Tier.Take(slices.Delete(c.Tier.Columns, at, at+1))
	s.Add(&peers{deviceCache{d, s, []*deviceColumn{c}}}, false, []*placed.Column{c.Column})
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
