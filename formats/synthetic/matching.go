package synthetic

import (
	"sort"

	"github.com/khop-gnn/khop/internal/rng"
)

// group is the stubs of one class on one side of a matching. A stub is one end of an edge.
type group struct {
	law    law
	order  shuffle // place -> stub; stubs are matched by their places
	inside uint64  // places below it are matched within the class, the others over the pool of all classes
	pool   uint64  // number in the pool of the first place that is not inside
}

// side is all stubs of a matching's side: of the nodes of a type, by class.
type side struct {
	nodes  *population
	groups []group
}

// matching pairs the stubs of edges at random, with nothing stored, by the configuration model (B. Bollobás, "A
// probabilistic proof of an asymptotic formula for the number of labelled regular graphs", European J. Combinatorics 1,
// 1980), with classes that prefer themselves. The pair of any stub is computed alone, and pair(pair(stub)) is the stub.
type matching struct {
	left, right side // the same for an undirected graph
	pool        shuffle
	perClass    float64 // pool places of a class, about
}

// newMatching returns a matching of stubs, dealt to the classes of left and right alike. The fraction own of each
// class's stubs is matched within the class. right is nil, for left's stubs to be matched with each other, or has as
// many classes as left.
func newMatching(key, stubs uint64, own float64, left, right *population, leftShape, rightShape shape) *matching {
	m := &matching{}
	m.left = newSide(rng.Stream(key, 0), stubs, own, left, leftShape)
	m.right = m.left
	if right != nil {
		m.right = newSide(rng.Stream(key, 1), stubs, own, right, rightShape)
	}
	total := uint64(0)
	for i := range m.left.groups {
		b := &m.left.groups[i]
		total += b.law.stubs - b.inside
	}
	m.pool = newShuffle(rng.Stream(key, 2), total)
	m.perClass = float64(total) / float64(left.classes)
	return m
}

func newSide(key, stubs uint64, own float64, nodes *population, s shape) side {
	sd := side{nodes: nodes, groups: make([]group, nodes.classes)}
	if nodes.classes == 1 {
		own = 1
	}
	pool := uint64(0)
	for c := range sd.groups {
		n := share(stubs, nodes.classes, uint64(c))
		b := &sd.groups[c]
		b.law = newLaw(nodes.size(uint64(c)), n, s)
		b.order = newShuffle(rng.Stream(key, uint64(c)), n)
		b.inside = min(uint64(float64(float64(n)*own)), n) &^ 1 // even: places are matched in twos
		b.pool = pool
		pool += n - b.inside
	}
	return sd
}

// run returns the stubs of a node: class and [from, to).
func (s *side) run(id uint64) (class, from, to uint64) {
	rank, class := s.nodes.of(id)
	l := &s.groups[class].law
	from = l.first(rank)
	return class, from, l.first(rank + 1)
}

// owner returns the node that has the stub at a place of a class.
func (s *side) owner(class, place uint64) uint64 {
	b := &s.groups[class]
	return s.nodes.node(b.law.rank(b.order.at(place)), class)
}

// pooled returns the node that has the stub of number g in the pool.
func (m *matching) pooled(s *side, g uint64) uint64 {
	c := min(int(float64(g)/m.perClass), len(s.groups)-1) // classes are of nearly one size: mostly right
	if s.groups[c].pool > g || c+1 < len(s.groups) && s.groups[c+1].pool <= g {
		c = sort.Search(len(s.groups), func(i int) bool { return s.groups[i].pool > g }) - 1
	}
	b := &s.groups[c]
	return s.owner(uint64(c), g-b.pool+b.inside)
}

// mirror returns the node at the other end of a stub in an undirected matching. With an odd number of stubs one is its
// own pair.
func (m *matching) mirror(class, stub uint64) uint64 {
	b := &m.left.groups[class]
	place := b.order.inverse(stub)
	if place < b.inside {
		return m.left.owner(class, place^1)
	}
	g := m.pool.inverse(b.pool + place - b.inside)
	if g^1 < m.pool.n {
		g ^= 1
	}
	return m.pooled(&m.left, m.pool.at(g))
}

// rightOf returns the node on the right that a stub on the left is matched with.
func (m *matching) rightOf(class, stub uint64) uint64 {
	return m.across(&m.left, &m.right, class, stub)
}

// leftOf is rightOf the other way round.
func (m *matching) leftOf(class, stub uint64) uint64 {
	return m.across(&m.right, &m.left, class, stub)
}

func (m *matching) across(from, to *side, class, stub uint64) uint64 {
	b := &from.groups[class]
	place := b.order.inverse(stub)
	if place < b.inside {
		return to.owner(class, place)
	}
	g := b.pool + place - b.inside
	if from == &m.left {
		return m.pooled(to, m.pool.at(g))
	}
	return m.pooled(to, m.pool.inverse(g))
}
