package slots

import (
	"github.com/khop-gnn/khop/loader/internal/recipe"
	"github.com/khop-gnn/khop/loader/internal/seedlist"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
)

// linkMemory is where the lists of a slot's seeds that are edges lie: of all edge types together, as large as a batch
// can need. It is on the Go heap, where what Batch.Links returned does not fault if it is read too late; the ledger
// counts it.
type linkMemory struct {
	ledger *pinned.Ledger
	found  []seedlist.Link // the edges that were asked for, in the order of the epoch
	items  []int64
	ints   []int64 // ends, labels, times, items, and the edges to leave out
	groups []int32
	left   []int64 // [edge type] how many edges are left out
}

// claim takes the memory.
func (m *linkMemory) claim(r *recipe.Recipe, ledger *pinned.Ledger) error {
	asked := r.AskedLinks()
	if asked == 0 {
		return nil
	}
	if err := ledger.Take(pinned.Batches, r.LinkBytes()); err != nil {
		return err
	}
	*m = linkMemory{ledger: ledger, found: make([]seedlist.Link, asked), items: make([]int64, asked),
		ints: make([]int64, r.LinkInts()), groups: make([]int32, r.MostLinks())}
	return nil
}

// Close gives the memory back.
func (m *linkMemory) Close(r *recipe.Recipe) {
	if m.ledger != nil {
		m.ledger.Give(pinned.Batches, r.LinkBytes())
	}
	*m = linkMemory{}
}

// carve gives the lists of each edge type their part: room for count[e][0] edges and their negatives.
func (m *linkMemory) carve(r *recipe.Recipe, links []sampling.LinkSeeds, count [][3]int64,
	exclude []sampling.EdgePairs) {
	ints, groups := m.ints, m.groups
	next := func(n int64) (part []int64) {
		part, ints = ints[:0:n], ints[n:]
		return part
	}
	for e := range links {
		asked := count[e][0]
		all, l := r.LinksOf(asked), &links[e]
		l.Missed = 0
		l.Sources, l.Targets, l.Labels, l.Items = next(all), next(all), next(all), next(asked)
		if l.Times = nil; r.Seeds.Timed {
			l.Times = next(all)
		}
		if l.From = nil; r.Seeds.From != nil {
			l.From = next(all)
		}
		l.Group, groups = groups[:0:all], groups[all:]
	}
	if exclude == nil {
		return
	}
	m.left = m.left[:0]
	for e := range count {
		m.left = append(m.left, count[e][0])
	}
	for e, back := range r.Reverses {
		for _, b := range back {
			m.left[b] += count[e][0]
		}
	}
	for e := range exclude {
		exclude[e].Sources, exclude[e].Targets = next(m.left[e]), next(m.left[e])
	}
}

// takeLinks looks up the batch's seeds that are edges, and draws their negatives.
func (s *Slot) takeLinks(m Sampler, batch seedlist.Items) error {
	r := s.Recipe
	clear(s.LinkCounts)
	found, items := s.linkMemory.found[:batch.Len], s.linkMemory.items[:batch.Len]
	for i := range found {
		items[i] = batch.At(int64(i))
		var err error
		if found[i], err = r.Seeds.LinkAt(items[i], s.Request.Rand); err != nil {
			return err
		}
		s.LinkCounts[found[i].EdgeType][0]++
	}
	s.linkMemory.carve(r, s.Links, s.LinkCounts, s.Request.Exclude)
	for i, x := range found {
		l := &s.Links[x.EdgeType]
		l.Sources, l.Targets = append(l.Sources, x.Source), append(l.Targets, x.Target)
		l.Labels, l.Group = append(l.Labels, x.Label), append(l.Group, int32(len(l.Items)))
		if l.Items = append(l.Items, items[i]); r.Seeds.Timed {
			l.Times = append(l.Times, x.Time)
		}
		if r.Seeds.From != nil {
			l.From = append(l.From, r.Seeds.From[items[i]])
		}
	}
	s.exclude()
	if err := m.Negatives(s.Request.Rand, s.Links); err != nil {
		return err
	}
	for e := range s.Links {
		l := &s.Links[e]
		r.Seeds.AddNegatives(l)
		s.Request.Edges[e] = l.SeedEdges
		s.LinkCounts[e] = [3]int64{int64(len(l.Items)), int64(len(l.Sources) - len(l.Items)), l.Missed}
	}
	return nil
}

// exclude notes which edges the batch leaves out.
func (s *Slot) exclude() {
	r := s.Recipe
	if !r.Exclude {
		return
	}
	for e := range s.Request.Exclude {
		x := &s.Request.Exclude[e]
		l := &s.Links[e]
		x.Sources, x.Targets = append(x.Sources, l.Sources...), append(x.Targets, l.Targets...)
	}
	for e, back := range r.Reverses {
		for _, b := range back {
			x := &s.Request.Exclude[b]
			x.Sources, x.Targets = append(x.Sources, s.Links[e].Targets...), append(x.Targets, s.Links[e].Sources...)
		}
	}
}
