package gnn

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// Composition is an order of operations for a layer: a product of A (sums over edges), M (means), S (sums with
// attention as values), L and R (GCN's norms of rows and columns), X (the layer's input) and W (its weight). All orders
// give the same result, except for rounding.
type Composition struct {
	Layer     int     `json:"layer"` // from 1
	Inputs    int     `json:"inputs"`
	Outputs   int     `json:"outputs"`
	Product   string  `json:"product"`
	Predicted float64 `json:"predicted_seconds"` // of a step, forward and backward
	Measured  float64 `json:"measured_seconds"`  // the median of Rounds
	Usual     bool    `json:"usual"`             // it is the default
	Fastest   bool    `json:"fastest"`           // it is chosen as the fastest (Options.Fastest)
	Regret    float64 `json:"regret"`            // how much longer it takes than the fastest: 0.1 is a tenth

	// Rounds are the seconds of each measurement. All orders of a layer run alternately, after the choice was made.
	Rounds []float64 `json:"round_seconds"`
	// Choosing is the time of the choice for the layer; 0 if Tuning had it, and for orders that are not chosen.
	Choosing float64 `json:"choosing_seconds"`
}

// Explain predicts and measures, for each layer of a model, every order of operations that can be fastest, over the
// whole graph or, with Fanouts, over the blocks of one batch. It trains nothing.
func Explain(ctx context.Context, source loader.Source, opt Options) ([]Composition, error) {
	opt = opt.withDefaults()
	opt.Checkpoint, opt.BackwardBudget = "", 0
	t, err := prepare(ctx, source, opt)
	if err != nil {
		return nil, err
	}
	defer t.close()
	if err := t.sample(ctx); err != nil {
		return nil, err
	}
	var all []Composition
	for i := range t.model.layers {
		found, err := t.explain(ctx, i)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// explain predicts, chooses, and then measures the ways of a layer.
func (t *trainer) explain(ctx context.Context, number int) ([]Composition, error) {
	l, ways := &t.model.layers[number], t.ways(number)
	taken, choosing, err := t.fastest(ctx, number)
	if err != nil {
		return nil, err
	}
	predicted, err := t.predict(number, ways)
	if err != nil {
		return nil, err
	}
	seconds, err := t.race(ctx, number, ways, explaining)
	if err != nil {
		return nil, err
	}
	usual, best := t.model.way(number, number == 0 && t.data.sparse != nil), math.Inf(1)
	for _, rounds := range seconds {
		best = min(best, median(rounds))
	}
	var found []Composition
	for k, way := range ways {
		c := Composition{Layer: number + 1, Inputs: l.in, Outputs: l.out, Product: way.name, Predicted: predicted[k],
			Measured: median(seconds[k]), Regret: median(seconds[k])/best - 1, Usual: way.name == usual.name,
			Fastest: way.name == taken.name, Rounds: seconds[k]}
		if way.name == taken.name {
			c.Choosing = choosing.Seconds()
		}
		found = append(found, c)
	}
	return found, nil
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
			room := (matrixBytes + 8) * (b.NumDst + b.Indices.Len())
			if err := t.tape.memory.take(room, "the blocks"); err != nil {
				return err
			}
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

// waves returns numbers of many sizes.
func waves(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i%29) - 14
	}
	return x
}
