package renumber

import (
	"context"
	"math"
	"time"
)

// Advice is an order of nodes, and what it would spare batches by the model.
type Advice struct {
	Order string  // as khop convert --reorder names it; "no": that which they have
	Now   Counts  // in the order that they have
	Tried []Tried // what was compared, besides what is there
}

// Tried is an order that was found, and what batches ask for in it.
type Tried struct {
	Order   string
	Counts  Counts
	Seconds float64 // to find it, without reading and writing the dataset anew
}

// worth is the most of misses and pages that may be left by an order that is advised: else converting again does not
// pay. cheaper is by how much one that takes neighbours has to be better than one by degrees, which is found faster.
const worth, cheaper = 0.85, 0.97

// Advise compares orders by the model. Where near is false only degrees are looked at.
func Advise[I ID](ctx context.Context, m Model, a *Adjacency[I], batches []*Batch, near bool) (*Advice, error) {
	now := m.Count(batches, a.Indptr, nil)
	r := &Advice{Order: "no", Now: now}
	orders := []struct {
		name string
		find func() ([]uint32, error)
	}{
		{"degree", func() ([]uint32, error) { return a.descendingByEdges(), nil }},
		{"rcm", func() ([]uint32, error) { return Search(ctx, a, true) }},
		{"community", func() ([]uint32, error) { return Communities(ctx, a) }},
	}
	if !near {
		orders = orders[:1]
	}
	best := worth
	for _, o := range orders {
		start := time.Now()
		order, err := o.find()
		if err != nil {
			return nil, err
		}
		took := time.Since(start).Seconds()
		c := m.Count(batches, a.Indptr, order)
		r.Tried = append(r.Tried, Tried{o.name, c, took})
		if left := c.share(now); left < best {
			r.Order, best = o.name, left*cheaper
		}
	}
	return r, nil
}

// share is the remaining share of misses and pages: the geometric mean of both.
func (c Counts) share(of Counts) float64 {
	part := func(n, of int64) float64 { return float64(max(n, 1)) / float64(max(of, 1)) }
	return math.Sqrt(part(c.Misses(), of.Misses()) * part(c.Pages, of.Pages))
}
