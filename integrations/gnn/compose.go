package gnn

import "slices"

// A layer is a product of factors, and products are associative: a graph's sums can be taken of a layer's input or of
// what its weight makes of it, and the norms of rows and columns (L and R) can scale dense rows or the graph's edges.
//
// Source: Lenadora, Sathia, Gerogiannis, Yesil, Torrellas and Mendis, "SENSEi: Input-Sensitive Compilation for
// Accelerating GNNs", arXiv 2306.15155.

type factorKind uint8

const (
	diagonal  factorKind = iota // constant
	adjacency                   // sparse and constant
	dense
)

// product is a factor, or the product of two.
type product struct {
	name        string // of a factor or a constant product; of others "(left right)"
	kind        factorKind
	left, right *product // nil for a factor
	weight      bool     // it contains W: it has the columns of the layer's output
}

// Columns of dense operands: those of a layer's input or of its output.
const (
	atIn  = 0
	atOut = 1
)

func (p *product) at() int {
	if p.weight {
		return atOut
	}
	return atIn
}

// work counts the primitives of a product by the columns of their dense operand.
type work struct {
	sums, valued, scaled [2]int // sums without and with values of edges; rows scaled
}

// factorsOf returns the factors of a model's layer.
func factorsOf(model string) []*product {
	var all []*product
	for _, name := range map[string][]string{"gcn": {"L", "A", "R"}, "sage": {"M"}, "gin": {"A"}, "gat": {"S"}}[model] {
		kind := adjacency
		if name == "L" || name == "R" {
			kind = diagonal
		}
		all = append(all, &product{name: name, kind: kind})
	}
	return append(all, &product{name: "X", kind: dense}, &product{name: "W", kind: dense, weight: true})
}

// enumerate returns all ways to multiply factors from the left to the right, each once.
func enumerate(f []*product) []*product {
	if len(f) <= 1 {
		return f
	}
	var all []*product
	for cut := 1; cut < len(f); cut++ {
		for _, l := range enumerate(f[:cut]) {
			for _, r := range enumerate(f[cut:]) {
				p := multiplied(l, r)
				if !slices.ContainsFunc(all, func(o *product) bool { return o.name == p.name }) {
					all = append(all, p)
				}
			}
		}
	}
	return all
}

func multiplied(l, r *product) *product {
	p := &product{kind: max(l.kind, r.kind), left: l, right: r, weight: l.weight || r.weight}
	if p.kind == dense {
		p.name = "(" + l.name + " " + r.name + ")"
	} else {
		p.name = l.name + r.name // constants are multiplied once
	}
	return p
}

// normed reports whether a sparse factor has values: norms, or attention.
func (p *product) normed() bool { return len(p.name) > 1 || p.name == "S" }

// work counts what a product takes each time.
func (p *product) work() work {
	if p.kind != dense || p.left == nil {
		return work{}
	}
	w, right, at := p.left.work(), p.right.work(), p.right.at()
	for i := range 2 {
		w.sums[i] += right.sums[i]
		w.valued[i] += right.valued[i]
		w.scaled[i] += right.scaled[i]
	}
	switch {
	case p.left.kind == adjacency && p.left.normed():
		w.valued[at]++
	case p.left.kind == adjacency:
		w.sums[at]++
	case p.left.kind == diagonal:
		w.scaled[at]++
	}
	return w
}

// atMost reports whether a product takes no more of anything than another, whatever the sizes are.
func (w work) atMost(o work) bool {
	for i := range 2 {
		if w.sums[i] > o.sums[i] || w.valued[i] > o.valued[i] || w.scaled[i] > o.scaled[i] {
			return false
		}
	}
	return true
}

// candidates returns the ways to compute a layer that can be fastest for some sizes. A sparse input is only multiplied
// with the weight.
func candidates(model string, sparseInput bool) []*product {
	all := slices.DeleteFunc(enumerate(factorsOf(model)), func(p *product) bool {
		w := p.work()
		return sparseInput && w.sums[atIn]+w.valued[atIn]+w.scaled[atIn] > 0
	})
	var left []*product
	for i, p := range all {
		worse := false
		for at, o := range all {
			worse = worse || at != i && o.work().atMost(p.work()) && (o.work() != p.work() || at < i)
		}
		if !worse {
			left = append(left, p)
		}
	}
	return left
}

// sumsAtOut reports whether sums are taken of rows that the weight has made.
func (p *product) sumsAtOut() bool {
	w := p.work()
	return w.sums[atOut]+w.valued[atOut] > 0
}

// usual returns the way that a layer is computed where no other is asked for: edges have the norms, and sums are taken
// of the narrower rows. Attention sums what the weight has made.
func usual(model string, in, out int, sparseInput bool) *product {
	for _, p := range candidates(model, sparseInput) {
		if p.work().scaled == [2]int{} && (sparseInput || p.sumsAtOut() == (out < in || model == "gat")) {
			return p
		}
	}
	return nil
}

// primitive is what a way to compute a layer is made of.
type primitive uint8

const (
	summing       primitive = iota // the graph's sums, without values
	summingBack                    // their gradient
	summingValues                  // sums with values of one or more heads
	summingValuesBack
	dotting        // the gradient of values
	multiplying    // the rows of the destinations with a weight
	multiplyingAll // the rows of the sources with it
	weighing       // the gradient of the weight, over the destinations
	weighingAll    // over the sources
	scaling        // the rows of the destinations
	scalingAll     // the rows of the sources
	projecting     // what both scores of attention read of the sources, forward and backward
	entering       // a sparse input's product and its gradient
)

// prices are the seconds that a primitive takes on this machine, by the columns of its operand: of input and output
// for products with a weight, of all heads and heads otherwise.
type prices func(what primitive, columns, other int) float64

// sizes are those of a layer.
type sizes struct {
	columns     [2]int // of input and output
	heads       int    // of attention; 0: there is none
	inGrad      bool   // the input has a gradient
	sparseInput bool
}

// seconds predicts how long a step of a layer takes, forward and backward.
func (r prices) seconds(p *product, s sizes) float64 {
	if p.kind != dense || p.left == nil {
		return 0
	}
	sum, columns := r.seconds(p.left, s)+r.seconds(p.right, s), s.columns[p.right.at()]
	grad := p.right.weight || s.inGrad
	if p.left.kind != dense {
		return sum + r.times(p, s, columns, grad)
	}
	in, out := s.columns[atIn], s.columns[atOut]
	summed := p.left.summed()
	multiply, weigh := multiplyingAll, weighingAll
	if summed {
		multiply, weigh = multiplying, weighing
	}
	switch {
	case s.sparseInput:
		return sum + r(entering, out, 1)
	case s.heads > 0 && summed: // attention itself has a gradient
		return sum + float64(s.heads)*(r(multiply, in, out/s.heads)+r(weigh, in, out/s.heads)+
			r(multiply, out/s.heads, in))
	case s.inGrad:
		sum += r(multiply, out, in)
	}
	return sum + r(multiply, in, out) + r(weigh, in, out)
}

// times predicts what a constant factor, or attention, takes on its left of dense columns.
func (r prices) times(p *product, s sizes, columns int, grad bool) float64 {
	forward, back := summing, summingBack
	switch {
	case s.heads > 0 && p.right.weight:
		return r(summingValues, columns, s.heads) + r(summingValuesBack, columns, s.heads) +
			r(dotting, columns, s.heads) + r(projecting, columns, 1)
	case s.heads > 0: // each head reads all columns
		one := r(summingValues, columns, 1) + r(dotting, columns, 1) + r(projecting, columns, 1)
		if grad {
			one += r(summingValuesBack, columns, 1)
		}
		return float64(s.heads) * one
	case p.left.kind == adjacency && p.left.normed():
		forward, back = summingValues, summingValuesBack
	case p.left.name == "L":
		forward, back = scaling, scaling
	case p.left.name == "R":
		forward, back = scalingAll, scalingAll
	}
	if !grad {
		return r(forward, columns, 1)
	}
	return r(forward, columns, 1) + r(back, columns, 1)
}

// summed reports whether there are sums over edges in a product.
func (p *product) summed() bool {
	w := p.work()
	return w.sums != [2]int{} || w.valued != [2]int{}
}
