package synthetic

import (
	"github.com/khop-gnn/khop/internal/rng"
)

// Graph500's probabilities of the quadrants of the adjacency matrix, in hundredths: a (0,0), b (0,1), c (1,0), d (1,1),
// where the first bit is the source's and the second the destination's.
const (
	rmatA, rmatB, rmatC, rmatD = 57, 19, 19, 5

	// Probability that a bit of the source is 0 given the destination's bit, as a fraction of 2^32.
	rmatGiven0 = rmatA << 32 / (rmatA + rmatC)
	rmatGiven1 = rmatB << 32 / (rmatB + rmatD)
)

// rmat plans an R-MAT graph, destination by destination. The levels of R-MAT are independent, so its edges can be drawn
// in two steps with the same joint distribution: how many edges each destination has, by splitting them bit by bit of
// its number (tree), and then each edge's source, bit by bit given the destination's. Numbers are shuffled into ids, as
// Graph500 does.
//
// Where the nodes are no power of two, numbers that are too large do not occur: destinations are drawn given that they
// are not, and sources given their destination and that they are not.
//
// Method: D. Chakrabarti, Y. Zhan and C. Faloutsos, "R-MAT: a recursive model for graph mining", SDM 2004.
func rmat(o Options, k keys) *plan {
	p, nodes := plain(o, k, "node", "to")
	if o.Classes == 0 {
		p.splits = nil
	}
	if o.Nodes == 0 {
		return p
	}
	degrees := newTree(k.part(partDegrees), nodes.n, uint64(o.Edges), float64(rmatA+rmatC)/100)
	sources := k.part(partSources)
	p.edges = func(c *chunk) {
		for i := range uint64(c.n) {
			id := c.first + i
			number := nodes.order.inverse(id)
			s, draw := rng.Stream(sources, id), uint64(0)
			for range degrees.count(number) {
				var source uint64
				source, draw = rmatSource(s, draw, number, degrees.levels, nodes.n)
				c.push(nodes.order.at(source))
			}
			c.endRun(0, false)
			c.endColumn()
		}
	}
	return p
}

// rmatSource draws a source below n for a destination, two bits a draw, and returns the next draw's number.
func rmatSource(s, draw, destination uint64, levels uint, n uint64) (source, next uint64) {
	given := [2]uint64{rmatGiven0, rmatGiven1}
	for {
		source = 0
		d := uint64(0)
		for l := uint(0); l < levels; l++ {
			if l%2 == 0 {
				d = rng.Draw(s, draw)
				draw++
			}
			bit := uint64(0)
			if d>>32 >= given[destination>>l&1] {
				bit = 1
			}
			source |= bit << l
			d <<= 32
		}
		if source < n {
			return source, draw
		}
	}
}
