package loader

import (
	"github.com/khop-gnn/khop/internal/sat"
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

// linkBytes returns what linkMemory takes in each slot; 0 where seeds are nodes.
func (r *recipe) linkBytes() int64 {
	asked, all := r.askedLinks(), r.mostLinks()
	return sat.Add(sat.Mul(40+8, asked), sat.Add(sat.Mul(8, r.linkInts()), sat.Mul(4, all)))
}

// askedLinks returns the most edges that a batch is asked for.
func (r *recipe) askedLinks() int64 {
	if r.seeds.ByEdge == nil {
		return 0
	}
	return min(int64(r.opt.BatchSize), r.seeds.Count)
}

// linkInts returns how many numbers of 64 bits the lists have together.
func (r *recipe) linkInts() int64 {
	n := sat.Add(sat.Mul(4, r.mostLinks()), r.askedLinks())
	return sat.Add(n, sat.Mul(2*r.exclusions(), r.askedLinks()))
}

// exclusions returns how many edges are left out at most because of one that was asked for.
func (r *recipe) exclusions() int64 {
	if r.opt.Links.ExcludeSeeds == ExcludeNone {
		return 0
	}
	most := 0
	for _, back := range r.reverses {
		most = max(most, len(back))
	}
	return 1 + int64(most)
}

// claim takes the memory.
func (m *linkMemory) claim(r *recipe, ledger *pinned.Ledger) error {
	asked := r.askedLinks()
	if asked == 0 {
		return nil
	}
	if err := ledger.Take(pinned.Batches, r.linkBytes()); err != nil {
		return err
	}
	*m = linkMemory{ledger: ledger, found: make([]seedlist.Link, asked), items: make([]int64, asked),
		ints: make([]int64, r.linkInts()), groups: make([]int32, r.mostLinks())}
	return nil
}

// close gives the memory back.
func (m *linkMemory) close(r *recipe) {
	if m.ledger != nil {
		m.ledger.Give(pinned.Batches, r.linkBytes())
	}
	*m = linkMemory{}
}

// carve gives the lists of each edge type their part: room for count[e][0] edges and their negatives.
func (m *linkMemory) carve(r *recipe, links []sampling.LinkSeeds, count [][3]int64, exclude []sampling.EdgePairs) {
	ints, groups := m.ints, m.groups
	next := func(n int64) (part []int64) {
		part, ints = ints[:0:n], ints[n:]
		return part
	}
	for e := range links {
		asked := count[e][0]
		all, l := asked+r.opt.Links.Negatives.Of(asked), &links[e]
		l.Reset()
		l.Sources, l.Targets, l.Labels, l.Items = next(all), next(all), next(all), next(asked)
		if l.Times = nil; r.seeds.Timed {
			l.Times = next(all)
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
	for e, back := range r.reverses {
		for _, b := range back {
			m.left[b] += count[e][0]
		}
	}
	for e := range exclude {
		exclude[e].Sources, exclude[e].Targets = next(m.left[e]), next(m.left[e])
	}
}
