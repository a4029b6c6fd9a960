package synthetic

import (
	"github.com/khop-gnn/khop/internal/rng"
)

// population is the nodes of one type. Position q = r·classes + c is that of rank r in class c; a shuffle makes node
// ids of positions, so that an id tells neither rank nor class. Class sizes differ by one at most.
type population struct {
	n, classes uint64
	order      shuffle // position -> id
}

func newPopulation(key, n, classes uint64) population {
	return population{n: n, classes: max(classes, 1), order: newShuffle(key, n)}
}

// of returns the rank and the class of a node.
func (p *population) of(id uint64) (rank, class uint64) {
	q := p.order.inverse(id)
	return q / p.classes, q % p.classes
}

// node returns the id of a rank in a class.
func (p *population) node(rank, class uint64) uint64 { return p.order.at(rank*p.classes + class) }

// size returns the nodes of a class.
func (p *population) size(class uint64) uint64 { return (p.n - class + p.classes - 1) / p.classes }

// homophilous draws the source of edge i of stream s: with probability own/2^64 a node of the given class, else one of
// another class, all classes and all nodes of one alike.
func (p *population) homophilous(s, i, class, own uint64) uint64 {
	if p.classes > 1 {
		if d := rng.Draw(s, 2*i); d >= own {
			// d is uniform above own: what remains of it chooses among the other classes.
			other := rng.Bounded(rng.Mix64(d), p.classes-1)
			if other >= class {
				other++
			}
			class = other
		}
	}
	return p.node(rng.Bounded(rng.Draw(s, 2*i+1), p.size(class)), class)
}

// share returns part i of n split into k parts that differ by one at most.
func share(n, k, i uint64) uint64 {
	size := n / k
	if i < n%k {
		size++
	}
	return size
}
