package gnn

import (
	"errors"
	"fmt"
	"math"

	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/sparse"
)

// ErrOptions is returned for options that do not fit each other or the dataset.
var ErrOptions = errors.New("gnn: options and dataset do not fit")

// parameter is a parameter: a value to train, with the moments of Adam.
type parameter struct {
	Name string
	*variable
	first, second []float32
}

// network is a stack of layers of one kind, with parameters.
type network struct {
	kind   string
	opt    Options
	layers []layer
	params []*parameter
	memory *budget
	ways   []*product // of each layer, to be computed; nil: the usual one
}

// layer computes a destination's row from its sources.
type layer struct {
	in, out, heads int
	w              map[string]*variable
}

// newNetwork returns a model with parameters drawn from the seed: Glorot's uniform distribution for weights, zeros for
// biases. ErrOptions for what no model has; loader.ErrMemory where memory has no room for it.
func newNetwork(features, classes int, opt Options, memory *budget) (m *network, err error) {
	err = memory.within(func() (err error) {
		m, err = buildNetwork(features, classes, opt, memory)
		return err
	})
	return m, err
}

func buildNetwork(features, classes int, opt Options, memory *budget) (*network, error) {
	if opt.Dropout >= 1 {
		return nil, option.Errorf(ErrOptions, opt, "Dropout", " is %g: must be below 1", opt.Dropout)
	}
	if features < 1 || classes < 1 {
		return nil, fmt.Errorf("%w: %d features and %d classes", ErrOptions, features, classes)
	}
	m := &network{kind: opt.Model, opt: opt, memory: memory}
	in := features
	for i := range opt.Layers {
		l := layer{in: in, out: opt.Hidden, heads: 1, w: map[string]*variable{}}
		last := i == opt.Layers-1
		if m.kind == "gat" && !last {
			l.heads, l.out = opt.Heads, opt.Heads*opt.Hidden
		}
		if last {
			l.out = classes
		}
		m.shape(&l, i)
		m.layers = append(m.layers, l)
		in = l.out
	}
	return m, nil
}

// shape makes the parameters of a layer.
func (m *network) shape(l *layer, number int) {
	weight := func(name string, rows, cols, fanIn, fanOut int) {
		const copies = 4 // itself, its gradient and two moments
		if err := m.memory.take(int64(rows)*int64(cols)*copies*floatBytes, "the parameters"); err != nil {
			panic(exceeded{err})
		}
		p := &parameter{Name: fmt.Sprintf("%d.%s", number, name),
			variable: newVariable(rows, cols, make([]float32, rows*cols)),
			first:    make([]float32, rows*cols), second: make([]float32, rows*cols)}
		p.Grad = make([]float32, rows*cols)
		if fanIn > 0 {
			bound := math.Sqrt(6 / float64(fanIn+fanOut))
			stream := rng.Mix64(rng.Mix64(m.opt.Seed+1) + uint64(len(m.params)))
			for i := range p.Data {
				p.Data[i] = float32((2*rng.Float64(rng.Draw(stream, uint64(i))) - 1) * bound)
			}
		}
		l.w[name] = p.variable
		m.params = append(m.params, p)
	}
	switch m.kind {
	case "gin":
		weight("weight", l.in, m.opt.Hidden, l.in, m.opt.Hidden)
		weight("bias", 1, m.opt.Hidden, 0, 0)
		weight("weight2", m.opt.Hidden, l.out, m.opt.Hidden, l.out)
		weight("bias2", 1, l.out, 0, 0)
		return
	case "sage":
		weight("own", l.in, l.out, l.in, l.out)
	case "gat":
		weight("source", 1, l.out, 1, l.out/l.heads)
		weight("target", 1, l.out, 1, l.out/l.heads)
	}
	weight("weight", l.in, l.out, l.in, l.out)
	weight("bias", 1, l.out, 0, 0)
}

// modelInput is what the first layer reads: a dense matrix, or one of mostly zeros.
type modelInput struct {
	Dense  *variable
	Sparse *sparseFeatures
}

// Loops reports whether the model wants an edge from each destination to itself: Forward's blocks then have them.
func (m *network) Loops() bool { return m.kind == "gcn" || m.kind == "gat" }

// Forward computes the scores of the destinations of the last block. blocks are one a layer, the first furthest from
// the seeds; over a whole graph they are all the same.
func (m *network) Forward(t *autodiff, blocks []*sparse.Matrix, in modelInput) *variable {
	var x *variable
	for i := range m.layers {
		l, a := &m.layers[i], blocks[i]
		var bias *variable
		if i == 0 {
			x, bias = m.first(t, l, a, in)
		} else {
			x, bias = m.layer(t, l, a, func(w *variable) *variable { return t.Linear(x, w) }, x, m.way(i, false))
		}
		switch {
		case i == len(m.layers)-1:
			x = t.Activate(x, bias, same, 0)
		case m.kind == "gat":
			x = t.Activate(x, bias, elu, m.opt.Dropout)
		default:
			x = t.Activate(x, bias, relu, m.opt.Dropout)
		}
	}
	return x
}

// first is the first layer, whose input may be sparse.
func (m *network) first(t *autodiff, l *layer, a *sparse.Matrix, in modelInput) (x, bias *variable) {
	if in.Sparse != nil {
		x := t.SparseDropout(in.Sparse, m.opt.Dropout)
		return m.layer(t, l, a, func(w *variable) *variable { return t.SparseLinear(x, w) }, nil, m.way(0, true))
	}
	x = t.Dropout(in.Dense, m.opt.Dropout)
	return m.layer(t, l, a, func(w *variable) *variable { return t.Linear(x, w) }, x, m.way(0, false))
}

// way returns how a layer is computed.
func (m *network) way(number int, sparseInput bool) *product {
	if m.ways != nil {
		return m.ways[number]
	}
	return usual(m.kind, m.layers[number].in, m.summed(number), sparseInput)
}

// summed returns the columns that the weight of a layer's sums has.
func (m *network) summed(number int) int {
	if m.kind == "gin" { // and a second weight follows
		return m.opt.Hidden
	}
	return m.layers[number].out
}

// layer computes one layer in a chosen order of operations, and returns the result before the bias is added, and the
// bias. linear multiplies its input, x where that is dense, with a weight. All ways give the same but for rounding.
func (m *network) layer(t *autodiff, l *layer, a *sparse.Matrix, linear func(w *variable) *variable, x *variable,
	way *product) (y, bias *variable) {
	rows := int(a.Rows())
	switch m.kind {
	case "gcn":
		return t.multiply(a, way, x, l.w["weight"], linear), l.w["bias"]
	case "gat":
		source, target := l.w["source"], l.w["target"]
		if way.sumsAtOut() {
			y = t.Attend(a, l.heads, linear(l.w["weight"]), source, target, m.opt.Dropout)
		} else {
			y = t.AttendFirst(a, l.heads, x, l.w["weight"], source, target, m.opt.Dropout)
		}
		return y, l.w["bias"]
	case "sage":
		var own *variable
		if way.sumsAtOut() {
			y = t.Aggregate(a, sparse.Mean, linear(l.w["weight"]))
		} else {
			y = t.Linear(t.Aggregate(a, sparse.Mean, x), l.w["weight"])
		}
		if x != nil {
			own = t.Linear(t.First(x, rows), l.w["own"])
		} else {
			own = t.First(linear(l.w["own"]), rows)
		}
		return t.Add(y, own), l.w["bias"]
	}
	var sum *variable // gin: the sum with the destination itself, through two layers
	if way.sumsAtOut() {
		h := linear(l.w["weight"])
		sum = t.Add(t.Aggregate(a, sparse.Sum, h), t.First(h, rows))
	} else {
		sum = t.Linear(t.Add(t.Aggregate(a, sparse.Sum, x), t.First(x, rows)), l.w["weight"])
	}
	return t.Linear(t.Activate(sum, l.w["bias"], relu, 0), l.w["weight2"]), l.w["bias2"]
}

// adamSpan elements are computed by one goroutine at a time.
const adamSpan = 2048

// adam makes a step of Adam (Kingma and Ba, ICLR 2015) with weight decay added to the gradient, and clears the
// gradients.
func (m *network) adam(pool *sparse.Pool, step uint64, rate, decay float64) error {
	const b1, b2, eps = 0.9, 0.999, 1e-8
	c1, c2 := 1-math.Pow(b1, float64(step)), 1-math.Pow(b2, float64(step))
	for _, p := range m.params {
		if err := pool.Split(int64(len(p.Data)), adamSpan, func(lo, hi int64) {
			for i := lo; i < hi; i++ {
				g := float64(p.Grad[i]) + float64(decay*float64(p.Data[i]))
				first := float64(b1*float64(p.first[i])) + float64((1-b1)*g)
				second := float64(b2*float64(p.second[i])) + float64((1-b2)*float64(g*g))
				p.first[i], p.second[i] = float32(first), float32(second)
				p.Data[i] -= float32(rate * (first / c1) / (math.Sqrt(second/c2) + eps))
				p.Grad[i] = 0
			}
		}); err != nil {
			return err
		}
	}
	return nil
}
