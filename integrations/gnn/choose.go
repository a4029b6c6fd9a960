package gnn

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// The choice of a way is made in two stages: prices of primitives predict what each way takes (prices), and those that
// the prediction cannot tell apart compute the layer in turns (race). The winner is kept by key, as kernels are.

// doubt is how much longer than the best prediction a way may be predicted to take and still be the fastest.
const doubt = 1.5

// contest says how long ways are raced.
type contest struct {
	least, most int           // rounds; least because something else may slow a few down that follow each other
	enough      time.Duration // after which least rounds suffice
	clear       float64       // a way that then takes longer than the best by this factor is out; 0: none is
}

var (
	choosing   = contest{least: 5, most: 25, enough: 200 * time.Millisecond, clear: 1.1}
	explaining = contest{least: 7, most: 25, enough: 300 * time.Millisecond}
)

// choose takes the ways that are the fastest here.
func (t *trainer) choose(ctx context.Context) error {
	if !t.opt.Fastest {
		return nil
	}
	start := time.Now()
	if err := t.sample(ctx); err != nil {
		return err
	}
	for i := range t.model.layers {
		way, _, err := t.fastest(ctx, i)
		if err != nil {
			return err
		}
		t.model.ways = append(t.model.ways, way)
	}
	t.choosing = time.Since(start)
	return nil
}

// wayKey names what a layer has in common with others that are computed best in the same way. Sizes differ by less than
// a fifth: half as many rows as columns, as blocks of a batch have, can make another way the fastest.
func (t *trainer) wayKey(number int) string {
	s, a, kind := t.sizes(number), t.sampled[number], "dense"
	switch {
	case s.sparseInput:
		kind = "sparse"
	case s.inGrad:
		kind = "hidden"
	}
	log := func(n int64) float64 { return math.Round(4*math.Log2(float64(max(n, 1)))) / 4 }
	return fmt.Sprintf("%s, %s input, %d to %d columns, %d heads, 2^%g rows, 2^%g columns, 2^%g edges, %d workers",
		t.model.kind, kind, s.columns[atIn], s.columns[atOut], s.heads, log(a.Rows()), log(a.Cols()), log(a.Edges()),
		t.tape.pool.Workers())
}

// fastest returns the way of a layer that is kept under its key; where there is none it chooses one, keeps it, and says
// how long that took.
func (t *trainer) fastest(ctx context.Context, number int) (*product, time.Duration, error) {
	ways, key, start := t.ways(number), t.wayKey(number), time.Now()
	name := t.opt.Tuning.Way(key)
	if at := slices.IndexFunc(ways, func(p *product) bool { return p.name == name }); at >= 0 {
		return ways[at], 0, nil
	}
	predicted, err := t.predict(number, ways)
	if err != nil {
		return nil, 0, err
	}
	var near []*product
	for i, p := range ways {
		if predicted[i] <= doubt*slices.Min(predicted) {
			near = append(near, p)
		}
	}
	best := 0
	if len(near) > 1 {
		seconds, err := t.race(ctx, number, near, choosing)
		if err != nil {
			return nil, 0, err
		}
		for i, s := range seconds {
			if quantile(s, 1, 4) < quantile(seconds[best], 1, 4) { // what else runs slows some rounds down
				best = i
			}
		}
	}
	t.opt.Tuning.KeepWay(key, near[best].name)
	return near[best], time.Since(start), nil
}

// predict returns the seconds that each way of a layer should take, of the prices of its primitives here.
func (t *trainer) predict(number int, ways []*product) ([]float64, error) {
	m := newMeter(t, number)
	defer m.release()
	seconds := make([]float64, len(ways))
	for i, p := range ways {
		seconds[i] = prices(m.price).seconds(p, t.sizes(number))
	}
	return seconds, m.err
}

// race computes a layer in all ways in turns, forwards and backwards, and returns the seconds of each round of each. A
// way that is clearly slow has fewer rounds.
func (t *trainer) race(ctx context.Context, number int, ways []*product, c contest) ([][]float64, error) {
	room := t.inputBytes(number)
	if err := t.tape.memory.take(room, "the input of a layer"); err != nil {
		return nil, err
	}
	defer t.tape.memory.give(room)
	step, seconds, out := t.layerStep(number), make([][]float64, len(ways)), make([]bool, len(ways))
	defer func() { // training begins without gradients
		for _, p := range t.model.params {
			clear(p.Grad)
		}
	}()
	var start time.Time
	for round := -1; round < c.most; round++ { // the first one warms up
		if round == 0 {
			start = time.Now()
		}
		for i := range ways {
			if round%2 != 0 {
				i = len(ways) - 1 - i
			}
			if out[i] {
				continue
			}
			if err := context.Cause(ctx); err != nil {
				return nil, err
			}
			began := time.Now()
			if err := step(ways[i]); err != nil {
				return nil, err
			}
			if round >= 0 {
				seconds[i] = append(seconds[i], time.Since(began).Seconds())
			}
		}
		if round >= c.least-1 && (time.Since(start) > c.enough || c.decided(seconds, out)) {
			break
		}
	}
	return seconds, nil
}

// decided puts ways out whose least time is clearly above the median of the best, and reports whether one is left.
func (c contest) decided(seconds [][]float64, out []bool) bool {
	if c.clear == 0 {
		return false
	}
	best, left := math.Inf(1), 0
	for _, s := range seconds {
		best = min(best, median(s))
	}
	for i, s := range seconds {
		if out[i] = slices.Min(s) > c.clear*best; !out[i] {
			left++
		}
	}
	return left == 1
}

func median(s []float64) float64 { return quantile(s, 1, 2) }

// quantile returns the number below which at most a part of all are.
func quantile(s []float64, part, of int) float64 {
	return slices.Sorted(slices.Values(s))[len(s)*part/of]
}

// inputBytes returns what layerStep makes: the input of a layer, and its gradient.
func (t *trainer) inputBytes(number int) int64 {
	n := t.sampled[number].Cols() * int64(t.model.layers[number].in) * floatBytes
	switch {
	case t.sparseInput(number):
		return 0
	case number > 0:
		return 2 * n
	}
	return n
}

// layerStep returns what computes a step of a layer in a way, forward and backward.
func (t *trainer) layerStep(number int) func(way *product) error {
	l, a := &t.model.layers[number], t.sampled[number]
	var x *variable
	if !t.sparseInput(number) {
		x = newVariable(int(a.Cols()), l.in, waves(int(a.Cols())*l.in))
		if number > 0 {
			x.Grad = make([]float32, len(x.Data))
		}
	}
	return func(way *product) error {
		t.tape.Reset()
		return t.tape.memory.within(func() error {
			y, bias := t.model.layer(t.tape, l, a, func(w *variable) *variable {
				if x == nil {
					return t.tape.SparseLinear(t.data.sparse, w)
				}
				return t.tape.Linear(x, w)
			}, x, way)
			y = t.tape.Activate(y, bias, same, 0)
			for i := range y.gradient() {
				y.Grad[i] = 1
			}
			return t.tape.Backward()
		})
	}
}
