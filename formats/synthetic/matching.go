package synthetic

import (
	"sort"

	"github.com/khop-gnn/khop/internal/rng"
)

// block is the slots (ends of edges) of the nodes of one class on one side of a matching.
type block struct {
	law    law
	order  shuffle // place -> slot; slots are matched by their places
	inside uint64  // places below it are matched within the class, the others over the pool of all classes
	pool   uint64  // number in the pool of the first place that is not inside
}

// side is all slots of a matching's side: of the nodes of a type, by class.
type side struct {
	nodes  *population
	blocks []block
}

// matching pairs the slots of edges at random, with nothing stored: the configuration model, with classes that prefer
// themselves. The pair of any slot is computed alone, and pair(pair(slot)) is the slot.
//
// Method: the configuration model (B. Bollobás, "A probabilistic proof of an asymptotic formula for the number of
// labelled regular graphs", European J. Combinatorics 1, 1980), where shuffles take the place of a random matching.
type matching struct {
	left, right side // the same for an undirected graph
	pool        shuffle
	perClass    float64 // pool places of a class, about
}

// newMatching returns a matching of slots, dealt to the classes of left and right alike. The fraction own of each
// class's slots is matched within the class. right is nil, for left's slots to be matched with each other, or has as
// many classes as left.
func newMatching(key, slots uint64, own float64, left, right *population, leftShape, rightShape shape) *matching {
	m := &matching{}
	m.left = newSide(rng.Stream(key, 0), slots, own, left, leftShape)
	m.right = m.left
	if right != nil {
		m.right = newSide(rng.Stream(key, 1), slots, own, right, rightShape)
	}
	total := uint64(0)
	for i := range m.left.blocks {
		b := &m.left.blocks[i]
		total += b.law.slots - b.inside
	}
	m.pool = newShuffle(rng.Stream(key, 2), total)
	m.perClass = float64(total) / float64(left.classes)
	return m
}

func newSide(key, slots uint64, own float64, nodes *population, s shape) side {
	sd := side{nodes: nodes, blocks: make([]block, nodes.classes)}
	if nodes.classes == 1 {
		own = 1
	}
	pool := uint64(0)
	for c := range sd.blocks {
		n := share(slots, nodes.classes, uint64(c))
		b := &sd.blocks[c]
		b.law = newLaw(nodes.size(uint64(c)), n, s)
		b.order = newShuffle(rng.Stream(key, uint64(c)), n)
		b.inside = min(uint64(float64(float64(n)*own)), n) &^ 1 // even: places are matched in twos
		b.pool = pool
		pool += n - b.inside
	}
	return sd
}

// run returns the slots of a node: class and [from, to).
func (s *side) run(id uint64) (class, from, to uint64) {
	rank, class := s.nodes.of(id)
	l := &s.blocks[class].law
	from = l.first(rank)
	return class, from, l.first(rank + 1)
}

// owner returns the node that has the slot at a place of a class.
func (s *side) owner(class, place uint64) uint64 {
	b := &s.blocks[class]
	return s.nodes.node(b.law.rank(b.order.at(place)), class)
}

// pooled returns the node that has the slot of number g in the pool.
func (m *matching) pooled(s *side, g uint64) uint64 {
	c := min(int(float64(g)/m.perClass), len(s.blocks)-1) // classes are of nearly one size: mostly right
	if s.blocks[c].pool > g || c+1 < len(s.blocks) && s.blocks[c+1].pool <= g {
		c = sort.Search(len(s.blocks), func(i int) bool { return s.blocks[i].pool > g }) - 1
	}
	b := &s.blocks[c]
	return s.owner(uint64(c), g-b.pool+b.inside)
}

// mirror returns the node at the other end of a slot in an undirected matching. With an odd number of slots one is its
// own pair.
func (m *matching) mirror(class, slot uint64) uint64 {
	b := &m.left.blocks[class]
	place := b.order.inverse(slot)
	if place < b.inside {
		return m.left.owner(class, place^1)
	}
	g := m.pool.inverse(b.pool + place - b.inside)
	if g^1 < m.pool.n {
		g ^= 1
	}
	return m.pooled(&m.left, m.pool.at(g))
}

// rightOf returns the node on the right that a slot on the left is matched with.
func (m *matching) rightOf(class, slot uint64) uint64 {
	b := &m.left.blocks[class]
	place := b.order.inverse(slot)
	if place < b.inside {
		return m.right.owner(class, place)
	}
	return m.pooled(&m.right, m.pool.at(b.pool+place-b.inside))
}

// leftOf is rightOf the other way round.
func (m *matching) leftOf(class, slot uint64) uint64 {
	b := &m.right.blocks[class]
	place := b.order.inverse(slot)
	if place < b.inside {
		return m.left.owner(class, place)
	}
	return m.pooled(&m.left, m.pool.inverse(b.pool+place-b.inside))
}
