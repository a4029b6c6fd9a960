package gnn

import (
	"cmp"
	"slices"
)

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

// rates are seconds that primitives take on this machine.
type rates struct {
	edge, edgeColumn             float64 // a sum without values: an edge, and each of its columns
	valuedEdge, valuedEdgeColumn float64 // the same with values
	dot, dotColumn               float64 // a dot product at an edge
	row, multiplication          float64 // a dense product: a row of its result, and each multiplication
	scale                        float64 // an element
	project                      float64 // an element that both scores of attention read, forward and backward
}

// sizes are those of a layer.
type sizes struct {
	rows, cols, edges float64    // destinations, sources
	columns           [2]float64 // of input and output
	heads             float64    // of attention; 0: there is none
	inGrad            bool       // the input has a gradient
	entries           float64    // of a sparse input; 0: it is dense
}

// seconds predicts how long a step of a layer takes, forward and backward.
func (r rates) seconds(p *product, s sizes) float64 {
	if p.kind != dense || p.left == nil {
		return 0
	}
	sum, columns := r.seconds(p.left, s)+r.seconds(p.right, s), s.columns[p.right.at()]
	times := 1.0
	if p.right.weight || s.inGrad {
		times = 2 // the gradient is a product with the transpose
	}
	switch {
	case p.left.kind == adjacency && s.heads > 0:
		return sum + r.attention(p, s, times)
	case p.left.kind == adjacency && p.left.normed():
		return sum + times*s.edges*(r.valuedEdge+r.valuedEdgeColumn*columns)
	case p.left.kind == adjacency:
		return sum + times*s.edges*(r.edge+r.edgeColumn*columns)
	case p.left.kind == diagonal && p.left.name == "L":
		return sum + times*s.rows*columns*r.scale
	case p.left.kind == diagonal:
		return sum + times*s.cols*columns*r.scale
	}
	if s.entries > 0 {
		return sum + 2*s.entries*(r.valuedEdge+r.valuedEdgeColumn*s.columns[atOut])
	}
	products, rows := 2.0, s.cols                   // with the gradient of the weight
	if s.inGrad || s.heads > 0 && p.left.summed() { // attention itself has a gradient
		products = 3
	}
	if p.left.summed() {
		rows = s.rows * max(s.heads, 1)
	}
	return sum + products*rows*(r.row+r.multiplication*s.columns[atIn]*s.columns[atOut]/max(s.heads, 1))
}

// summed reports whether there are sums over edges in a product.
func (p *product) summed() bool {
	w := p.work()
	return w.sums != [2]int{} || w.valued != [2]int{}
}

// attention predicts what ways to compute attention differ in: sums of each head, their gradients, which are sums and
// dot products, and projections.
func (r rates) attention(p *product, s sizes, times float64) float64 {
	columns := s.columns[p.right.at()]
	if !p.right.weight { // each head sums all columns
		columns *= s.heads
	}
	return times*s.edges*(s.heads*r.valuedEdge+r.valuedEdgeColumn*columns) +
		s.edges*(s.heads*r.dot+r.dotColumn*columns) + s.cols*columns*r.project
}

// fastest returns the candidate that takes least by the rates.
func (r rates) fastest(all []*product, s sizes) *product {
	return slices.MinFunc(all, func(a, b *product) int { return cmp.Compare(r.seconds(a, s), r.seconds(b, s)) })
}
