package gnn

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// Composition is a way to compute a layer: a product of A (sums over edges), M (means), S (sums with attention as
// values), L and R (GCN's norms of rows and columns), X (the layer's input) and W (its weight). All ways give the same
// but for rounding.
type Composition struct {
	Layer     int     `json:"layer"` // from 1
	Inputs    int     `json:"inputs"`
	Outputs   int     `json:"outputs"`
	Product   string  `json:"product"`
	Predicted float64 `json:"predicted_seconds"` // of a step, forward and backward
	Measured  float64 `json:"measured_seconds"`
	Usual     bool    `json:"usual"`   // it is taken where nothing else is asked for
	Fastest   bool    `json:"fastest"` // it is predicted to be the fastest
	Regret    float64 `json:"regret"`  // how much longer it takes than the fastest measured: 0.1 is a tenth
}

// Explain predicts and measures every way to compute each layer of a model that can be fastest, over the whole graph
// or, with Fanouts, over the blocks of one batch. It trains nothing.
func Explain(ctx context.Context, source loader.Source, opt Options) ([]Composition, error) {
	opt = opt.withDefaults()
	opt.Checkpoint, opt.BackwardBudget = "", 0
	t, err := prepare(source, opt)
	if err != nil {
		return nil, err
	}
	defer t.tape.pool.Close()
	if opt.Fanouts != nil {
		if t.loader, err = open(ctx, source, opt, t.tape.memory); err != nil {
			return nil, err
		}
		defer t.loader.Close()
	}
	if err := t.sample(ctx); err != nil {
		return nil, err
	}
	var all []Composition
	for i := range t.model.layers {
		r, ways, sizes := newMeter(t, i), t.ways(i), t.sizes(i)
		price := prices(r.price)
		fastest := price.fastest(ways, sizes)
		found, best := make([]Composition, 0, len(ways)), 0.0
		for _, way := range ways {
			if err := context.Cause(ctx); err != nil {
				return nil, err
			}
			took, err := t.measure(i, way)
			if err != nil {
				return nil, err
			}
			if s := took.Seconds(); best == 0 || s < best {
				best = s
			}
			l := &t.model.layers[i]
			found = append(found, Composition{Layer: i + 1, Inputs: l.in, Outputs: l.out, Product: way.name,
				Predicted: price.seconds(way, sizes), Measured: took.Seconds(),
				Usual:   way.name == t.model.way(i, i == 0 && t.data.sparse != nil).name,
				Fastest: way.name == fastest.name})
		}
		if r.err != nil {
			return nil, r.err
		}
		for k := range found {
			found[k].Regret = found[k].Measured/best - 1
		}
		all = append(all, found...)
	}
	return all, nil
}

// ways returns the candidates of a layer, also for accuracy, which is measured on the whole graph.
func (t *trainer) ways(number int) []*product {
	return candidates(t.model.kind, number == 0 && t.data.sparse != nil)
}

// sparseInput reports whether a layer's input is sparse: the features of the whole graph may be.
func (t *trainer) sparseInput(number int) bool {
	return number == 0 && t.data.sparse != nil && t.loader == nil
}

// sample sets the blocks that ways are chosen for: the whole graph, or those of the first batch, copied.
func (t *trainer) sample(ctx context.Context) error {
	t.sampled = t.blocks
	if t.loader == nil {
		return nil
	}
	for batch, err := range t.loader.Epoch(ctx, 1) {
		if err != nil {
			return err
		}
		t.sampled = nil
		for i := range t.opt.Layers {
			b := &batch.Sample.Blocks[i][0]
			a, err := sparse.New(b.NumSrc, copied(b.Indptr), copied(b.Indices))
			if err == nil {
				a, err = t.prepared(a)
			}
			if err != nil {
				return err
			}
			t.sampled = append(t.sampled, a)
		}
		return nil
	}
	return nil // there is nothing to train on
}

// copied returns a tensor of int32 with memory of its own.
func copied(t unified.Tensor) unified.Tensor {
	s, _ := unified.View[int32](t)
	return unified.FromSlice(slices.Clone(s))
}

// sizes returns those of a layer.
func (t *trainer) sizes(number int) sizes {
	s := sizes{inGrad: number > 0, columns: [2]int{t.model.layers[number].in, t.model.summed(number)},
		sparseInput: t.sparseInput(number)}
	if t.model.kind == "gat" {
		s.heads = t.model.layers[number].heads
	}
	return s
}

// choose takes the ways that are predicted to be the fastest.
func (t *trainer) choose(ctx context.Context) error {
	if !t.opt.Fastest {
		return nil
	}
	if err := t.sample(ctx); err != nil {
		return err
	}
	for i := range t.model.layers {
		r := newMeter(t, i)
		t.model.ways = append(t.model.ways, prices(r.price).fastest(t.ways(i), t.sizes(i)))
		if r.err != nil {
			return r.err
		}
	}
	return nil
}

// take takes the ways of those names.
func (t *trainer) take(names []string) error {
	if len(names) != len(t.model.ways) {
		return fmt.Errorf("it has ways to compute %d layers, not %d", len(names), len(t.model.ways))
	}
	for i, name := range names {
		ways := t.ways(i)
		at := slices.IndexFunc(ways, func(p *product) bool { return p.name == name })
		if at < 0 {
			return fmt.Errorf("layer %d cannot be computed as %q", i+1, name)
		}
		t.model.ways[i] = ways[at]
	}
	return nil
}

// explainRounds is how often something is measured; the least time counts.
const explainRounds = 3

func least(f func() error) (best time.Duration, err error) {
	for range explainRounds + 1 { // the first one warms up
		start := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		if took := time.Since(start); best == 0 || took < best {
			best = took
		}
	}
	return best, nil
}

// measure returns the time of a layer's step, forward and backward.
func (t *trainer) measure(number int, way *product) (time.Duration, error) {
	l, a := &t.model.layers[number], t.sampled[number]
	var x *Value
	if !t.sparseInput(number) {
		x = NewValue(int(a.Cols()), l.in, waves(int(a.Cols())*l.in))
		if number > 0 {
			x.Grad = make([]float32, len(x.Data))
		}
	}
	return least(func() error {
		t.tape.Reset()
		return t.tape.memory.within(func() error {
			y, bias := t.model.layer(t.tape, l, a, func(w *Value) *Value {
				if x == nil {
					return t.tape.SparseLinear(t.data.sparse, w)
				}
				return t.tape.Linear(x, w)
			}, x, way)
			y = t.tape.Activate(y, bias, Same, 0)
			for i := range y.gradient() {
				y.Grad[i] = 1
			}
			return t.tape.Backward()
		})
	})
}

// waves returns numbers of many sizes.
func waves(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i%29) - 14
	}
	return x
}
