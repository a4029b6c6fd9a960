package synthetic

import (
	"math/bits"
)

// productsOwn is the fraction of the stubs that is matched within a class.
const productsOwn = 0.5

// The split of ogbn-products: the best-sold products train. Here the order is random.
const (
	productsNodes = 2_449_029
	productsTrain = 196_615
	productsVal   = 39_323
)

// products plans an undirected graph with power-law degrees and classes that prefer themselves: the configuration
// model, where every class has the same law of degrees. Each undirected edge is there in both directions.
func products(o Options, k keys) *plan {
	p, nodes := plain(o, k, "product", "bought_with")
	train, val := scaled(o.Nodes, productsTrain), scaled(o.Nodes, productsVal)
	p.splits = []split{{"train", train}, {"val", val}, {"test", o.Nodes - train - val}}
	if o.Nodes == 0 {
		return p
	}
	ends := newMatching(k.part(partMatching), uint64(o.Edges), productsOwn, nodes, nil, heavy, heavy)
	p.edges = func(c *chunk) {
		for i := range uint64(c.n) {
			class, from, to := ends.left.run(c.first + i)
			for stub := from; stub < to; stub++ {
				c.push(ends.mirror(class, stub))
			}
			c.endRun(0, false)
			c.endColumn()
		}
	}
	return p
}

// scaled returns n · part / productsNodes.
func scaled(n, part int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(part))
	q, _ := bits.Div64(hi, lo, productsNodes)
	return int64(q)
}
