package loader

import (
	"context"
	"fmt"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// presampled is how many batches RankPresample samples, at most. GNNLab's authors found one epoch to be as good as knowing
// the future; the ranking of the first rows is settled much earlier.
const presampled = 64

// keepHotRows gives what is left of the budget to the rows that HotRows ranks first, of the largest column first.
func (p *placer) keepHotRows() error {
	l := p.d.loader
	if l.opt.HotRows == RankNone {
		return nil
	}
	for i := len(p.d.columns) - 1; i >= 0; i-- {
		c := p.d.columns[i]
		k := gather.CacheRows(c.tensor, p.rest)
		if p.d.placed[c.placed].Rung == pinned.RungDevice || c.nodeType < 0 || k == 0 {
			continue
		}
		scores, err := l.rankRows(p.ctx, c.nodeType)
		if err != nil {
			return fmt.Errorf("rank the rows of column %s by %v: %w", c.name, l.opt.HotRows, err)
		}
		if err := c.keep(p.ctx, gather.Hottest(scores, k), &l.ledger); err != nil {
			return fmt.Errorf("column %s: %w", c.name, err)
		}
		p.d.placed[c.placed].CachedRows = c.store.Cached()
		p.rest = 0 // the next column's would be the crumbs
		if l.opt.HotRows == RankUses {
			if err := c.store.CountUses(pinned.Options{Ledger: &l.ledger, Purpose: pinned.Columns}); err != nil {
				return fmt.Errorf("column %s: %w", c.name, err)
			}
			c.counted = true
		}
		l.opt.log().Info("rows kept in device memory", "column", c.name, "rows", k, "of", c.tensor.Len(), "ranked_by", l.opt.HotRows.String())
	}
	return nil
}

func (c *deviceColumn) keep(ctx context.Context, hot []int64, ledger *pinned.Ledger) error {
	return c.store.Cache(ctx, hot, pinned.Options{Ledger: ledger, Purpose: pinned.Columns})
}

// rankRows returns a score for each node of a type.
func (l *Loader) rankRows(ctx context.Context, nodeType int) ([]float64, error) {
	lo, hi := l.graph.Offset(nodeType), l.graph.Offset(nodeType+1)
	switch l.opt.HotRows {
	case RankPageRank:
		rank := gather.PageRank{Indptr: l.graph.Indptr(), Indices: l.graph.Indices(), Seeds: l.fusedSeeds()}
		scores, err := rank.Scores(ctx)
		if err != nil {
			return nil, err
		}
		return scores[lo:hi], nil
	case RankPresample, RankUses:
		return l.presample(ctx, nodeType)
	default:
		scores := make([]float64, hi-lo)
		for i, degree := range gather.InDegree(l.graph.Indptr()[lo : hi+1]) {
			scores[i] = float64(degree)
		}
		return scores, nil
	}
}

// fusedSeeds returns the seeds of an epoch as ids of all types together.
func (l *Loader) fusedSeeds() []int64 {
	ids := make([]int64, l.seeds.n)
	for i := range ids {
		t, id := l.seeds.at(int64(i))
		ids[i] = l.graph.Offset(t) + id
	}
	return ids
}

// presample counts how often each node of a type is in batches of epoch 0, which the CPU samples.
func (l *Loader) presample(ctx context.Context, nodeType int) (counts []float64, err error) {
	schema := l.graph.Schema()
	counts = make([]float64, schema.Nodes[nodeType].Count)
	onCPU := &Loader{opt: l.opt, name: l.name, graph: l.graph, seeds: l.seeds, bound: l.bound, batches: l.batches,
		cols: columns{node: make([][]column, len(schema.Nodes)), seed: make([][]column, len(schema.Nodes))}}
	w := &worker{loader: onCPU}
	if err := w.open(); err != nil {
		return nil, err
	}
	s := onCPU.newSlot()
	defer func() {
		err = firstError(err, w.close())
		err = firstError(err, s.close())
	}()
	order := onCPU.order(0)
	n := min(l.batches, presampled)
	for i := range n {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		number := i * (l.batches / n) // spread over the epoch
		if err := w.fill(ctx, s, job{number: number, order: order, stages: sampleOnly}); err != nil {
			return nil, err
		}
		count(s.sample.Nodes[nodeType], counts)
	}
	return counts, nil
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// count adds one for each id.
func count(ids unified.Tensor, counts []float64) {
	if v, err := unified.View[int32](ids); err == nil {
		for _, id := range v {
			counts[id]++
		}
	} else if v, err := unified.View[int64](ids); err == nil {
		for _, id := range v {
			counts[id]++
		}
	}
}

// rankAgain keeps from now on the rows that were gathered most since the last time (RankUses). No batch may be under way.
func (d *device) rankAgain(ctx context.Context) error {
	for _, c := range d.columns {
		if !c.counted {
			continue
		}
		uses, err := c.store.Uses()
		if err != nil {
			return err
		}
		k := c.store.Cached()
		if k == 0 || k == c.tensor.Len() || !anyUse(uses) {
			continue
		}
		if err := c.keep(ctx, gather.Hottest(uses, k), &d.loader.ledger); err != nil {
			return fmt.Errorf("column %s: %w", c.name, err)
		}
	}
	return nil
}

func anyUse(uses []uint32) bool {
	for _, n := range uses {
		if n > 0 {
			return true
		}
	}
	return false
}
