package synthetic

import (
	"github.com/khop-gnn/khop/internal/rng"
)

// sbmOwn is the probability that a source is of its destination's class.
const sbmOwn = 0.7

// sbm plans a stochastic block model with classes of equal size: in-degrees are multinomial over all nodes, and each
// in-edge's source is a node of the destination's class with probability sbmOwn, else one of another class.
//
// Model: P. W. Holland, K. B. Laskey and S. Leinhardt, "Stochastic blockmodels: first steps", Social Networks 5(2),
// 1983; directed, with the number of edges given, and so with parallel edges and self-loops at random.
func sbm(o Options, k keys) *plan {
	p, nodes := plain(o, k, "node", "to")
	if o.Nodes == 0 {
		return p
	}
	degrees := newTree(k.part(partDegrees), nodes.n, uint64(o.Edges), 0.5)
	sources := k.part(partSources)
	p.edges = func(c *chunk) {
		in := c.scratch(c.n)
		degrees.counts(c.first, in)
		for i, degree := range in {
			id := c.first + uint64(i)
			_, class := nodes.of(id)
			s := rng.Stream(sources, id)
			for e := range degree {
				c.push(nodes.homophilous(s, e, class, probability(sbmOwn)))
			}
			c.endRun(0, false)
			c.endColumn()
		}
	}
	return p
}

// probability returns p, below 1, as a fraction of 2^64.
func probability(p float64) uint64 { return uint64(p * 0x1p64) }
