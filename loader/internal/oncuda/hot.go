package oncuda

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/gather/cuda"
	"github.com/khop-gnn/khop/loader/internal/disk"
	"github.com/khop-gnn/khop/loader/internal/presamplers"
	"github.com/khop-gnn/khop/loader/internal/slots"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// presampled is how many batches RankPresample samples, at most. GNNLab's authors found one epoch to be as good as
// knowing the future; the ranking of the first rows is settled much earlier.
const presampled = 64

// Ranking is how rows are ranked of which the device keeps the first.
type Ranking struct {
	Name   string // in logs
	Scores func(ctx context.Context, k *presamplers.Kit) ([]float64, error)
	Again  bool // they are ranked again before each epoch, from their uses
}

// ByInDegree scores nodes, by fused id, by how many in-edges they have.
func ByInDegree(_ context.Context, k *presamplers.Kit) ([]float64, error) {
	scores := make([]float64, k.Graph.NumNodes())
	for v, degree := range cuda.InDegree(k.Graph.Indptr()) {
		scores[v] = float64(degree)
	}
	return scores, nil
}

// ByPageRank scores nodes by how often walks from the seeds come to them.
func ByPageRank(ctx context.Context, k *presamplers.Kit) ([]float64, error) {
	rank := cuda.PageRank{Indptr: k.Graph.Indptr(), Indices: k.Graph.Indices(), Seeds: k.Seeds.Fused(k.Graph)}
	return rank.Scores(ctx)
}

// ByPresampling scores nodes by how often each is in batches of epoch 0, which the CPU samples.
func ByPresampling(ctx context.Context, k *presamplers.Kit) ([]float64, error) {
	counts := make([]float64, k.Graph.NumNodes())
	err := k.Trial(ctx, min(k.Batches, presampled), nil, func(s *slots.Slot) {
		for t := range s.Sample.Nodes {
			of := counts[k.Graph.Offset(t):]
			eachID(s.Sample.Nodes[t], func(id int64) { of[id]++ })
		}
	})
	return counts, err
}

// scores returns how hot each node is, by fused id. It ranks once.
func (p *placer) scores() (_ []float64, err error) {
	if p.ranked == nil {
		if p.ranked, err = p.d.Opt.Ranking.Scores(p.ctx, p.plan.Kit); err != nil {
			return nil, fmt.Errorf("rank nodes by %s: %w", p.d.Opt.Ranking.Name, err)
		}
	}
	return p.ranked, nil
}

// picksOfANode is how many in-edges batches pick of a node that has more, about.
const picksOfANode = 16

// hottestInEdges returns nodes whose in-edges spare most picks over the bus for the room that they take, the best
// first: enough of them to fill the room, which counts edges. A hub takes as much as thousands of others, and no more
// is picked of it in a batch than of a node with a few in-edges.
func hottestInEdges(scores []float64, indptr []int64, room int64) []int64 {
	gain := slices.Clone(scores)
	for v := range gain {
		if degree := indptr[v+1] - indptr[v]; degree > picksOfANode {
			gain[v] *= picksOfANode / float64(degree)
		}
	}
	n := int64(len(gain))
	for k := 1 + n/16; ; k *= 2 {
		order, edges := cuda.Hottest(gain, k), int64(0)
		for _, v := range order {
			edges += indptr[v+1] - indptr[v]
		}
		if k < n && edges < room {
			continue
		}
		slices.SortStableFunc(order, func(a, b int64) int { return cmp.Compare(gain[b], gain[a]) })
		return order
	}
}

// keepHotAdjacency gives a quarter of the remaining budget to in-edges of hot nodes, where the whole graph does
// not fit: a pick takes a request of the bus, but rows take most of its bytes.
func (p *placer) keepHotAdjacency() error {
	g := p.plan.Graph
	bytes := p.rest / 4
	room := (bytes - 4*g.NumNodes()) / g.Schema().IDType().Size()
	edges := slices.IndexFunc(p.d.Placed, func(a tier.PlacedArray) bool { return a.Array == "indices" })
	if p.d.Opt.Ranking == nil || room <= 0 || edges < 0 || p.d.Placed[edges].Rung == pinned.RungDevice {
		return nil
	}
	scores, err := p.scores()
	if err != nil {
		return err
	}
	order := hottestInEdges(scores, g.Indptr(), room)
	hot, err := newHotAdjacency(p.ctx, p.stream, g, order, bytes,
		pinned.Options{Ledger: &p.plan.Set.Ledger, Purpose: pinned.Topology, Device: p.d.Device})
	if err != nil {
		return fmt.Errorf("in-edges of hot nodes: %w", err)
	}
	p.d.owned = append(p.d.owned, hot)
	hot.addTo(&p.d.topology)
	p.rest -= hot.bytes()
	p.d.Placed[edges].CachedRows = hot.edges
	p.plan.Log.Info("in-edges kept in device memory", "nodes", hot.nodes, "edges", hot.edges, "of", g.NumEdges(),
		"ranked_by", p.d.Opt.Ranking.Name)
	return nil
}

// hotColumn returns the largest column that does not fit, and how many of its rows the budget has room for; nil for
// none.
func (p *placer) hotColumn() (*deviceColumn, int64) {
	if p.d.Opt.Ranking == nil {
		return nil, 0
	}
	for i := len(p.d.columns) - 1; i >= 0; i-- {
		c := p.d.columns[i]
		k := cuda.CacheRows(c.Store.Column(), p.rest)
		if c.device != nil && p.d.Placed[c.placed].Rung != pinned.RungDevice && c.NodeType >= 0 && k > 0 {
			return c, k
		}
	}
	return nil, 0
}

// scoresOf returns the scores of a column's rows.
func (p *placer) scoresOf(c *deviceColumn) ([]float64, error) {
	scores, err := p.scores()
	if err != nil {
		return nil, err
	}
	g := p.plan.Graph
	return scores[g.Offset(c.NodeType):g.Offset(c.NodeType+1)], nil
}

// keepHotRows gives the remaining budget to the rows of hot nodes, of one column: crumbs would be left for
// others.
func (p *placer) keepHotRows() error {
	c, k := p.hotColumn()
	if c == nil {
		return p.keepHotOnDisk()
	}
	scores, err := p.scoresOf(c)
	if err != nil {
		return err
	}
	if err := c.keep(p.ctx, cuda.Hottest(scores, k)); err != nil {
		return fmt.Errorf("column %s: %w", c.Name, err)
	}
	c.device.CacheShare = shareOfHottest(scores)(k)
	p.d.Placed[c.placed].CachedRows = c.device.Cached()
	if p.d.Opt.Ranking.Again && p.plan.Set.Loaders == 1 {
		if err := c.device.CountUses(pinned.Options{Ledger: &p.plan.Set.Ledger, Purpose: pinned.Columns}); err != nil {
			return fmt.Errorf("column %s: %w", c.Name, err)
		}
		c.counted = true
	}
	p.plan.Log.Info("rows kept in device memory", "column", c.Name, "rows", k, "of", c.Store.Column().Len(),
		"ranked_by", p.d.Opt.Ranking.Name)
	return nil
}

// keepHotOnDisk is keepHotRows where no column is read over the bus: for the largest of those on disk. Its rows are
// ranked once.
func (p *placer) keepHotOnDisk() error {
	r := p.plan
	if p.d.Opt.Ranking == nil || r.Set.Disk == nil || r.Set.Disk.Files == nil {
		return nil
	}
	for i := len(p.d.columns) - 1; i >= 0; i-- {
		c := p.d.columns[i]
		at := slices.IndexFunc(r.Set.Disk.OnDisk, func(d disk.Column) bool { return d.Column == c.Column })
		if at < 0 || c.NodeType < 0 || c.Store.DType() != c.Store.Column().DType() { // the host widens what it reads
			continue
		}
		most := int64(0)
		for _, a := range r.ArraysOf(c.ColumnKey) {
			most = max(most, a.Most)
		}
		k := cuda.HotRowsCount(c.Store.Column(), most, p.rest)
		if k == 0 {
			return nil
		}
		return p.keepOnDisk(c, &r.Set.Disk.OnDisk[at], most, k)
	}
	return nil
}

// keepOnDisk reads the k hottest rows of a column on disk to the device.
func (p *placer) keepOnDisk(c *deviceColumn, d *disk.Column, most, k int64) error {
	scores, err := p.scoresOf(c)
	if err != nil {
		return err
	}
	reader := p.plan.Set.Disk.Files
	c.Column.Hot, err = cuda.NewHotRows(p.ctx, p.d.Device, cuda.HotRowsOptions{Column: c.Store.Column(),
		Rows: cuda.Hottest(scores, k), Most: most,
		Memory: pinned.Options{Ledger: &p.plan.Set.Ledger, Purpose: pinned.Columns},
		Read: func(ctx context.Context, rows []int64, to []byte) error {
			return reader.Fetch(ctx, d.Index, d.Layout, rows, to)
		}})
	if err != nil {
		return fmt.Errorf("column %s: keep rows on the device (HotRows: RankNone keeps none): %w", c.Name, err)
	}
	p.d.owned = append(p.d.owned, c.Column.Hot)
	p.d.Placed[c.placed].CachedRows = k
	p.plan.Log.Info("rows of a column on disk kept in device memory", "column", c.Name, "rows", k, "of",
		c.Store.Column().Len(), "ranked_by", p.d.Opt.Ranking.Name)
	return nil
}

func (c *deviceColumn) keep(ctx context.Context, hot []int64) error {
	return c.device.Cache(ctx, hot, pinned.Options{Ledger: c.ledger, Purpose: pinned.Columns})
}

// eachID calls f for each id of a list, which may be nil.
func eachID(ids unified.Tensor, f func(id int64)) {
	at, err := unified.Integers(ids)
	for i := int64(0); err == nil && i < ids.Len(); i++ {
		f(at(i))
	}
}
