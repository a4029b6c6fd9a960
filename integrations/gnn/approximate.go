package gnn

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/internal/rowsample"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// Package rowsample says how rows are chosen, and of whom the method is.
const (
	approximateEvery = 10  // steps: the first is exact, and chooses the rows of the others
	approximateUntil = 0.8 // of the epochs; from then on training is exact
)

// approximation makes the gradients of aggregations of some of the rows.
type approximation struct {
	budget  float64 // share of all non-zeros times columns
	seed    uint64
	step    uint64
	last    uint64  // the last step that is not exact
	sites   []*site // one an aggregation, in the order of the model
	refresh bool    // this step chooses rows
	active  bool    // this step may leave rows out
	batches bool    // every step has matrices of its own, so rows are chosen in each, for each aggregation by itself
}

// site is an aggregation, and what its backward products took.
type site struct {
	rowsample.Site

	exact, sampled   time.Duration
	exacts, sampleds int
	lost, whole      float64 // squares of the gradient's error, and of the gradient
}

// Approximation has cost and error of sampled gradients; docs/json.md explains the names.
type Approximation struct {
	Budget   float64 `json:"budget"`
	Kept     float64 `json:"kept"`              // share of non-zeros times columns in sampled products
	Error    float64 `json:"gradient_error"`    // of the products' part of the gradient, relative, in Euclidean norm
	Exact    float64 `json:"exact_seconds"`     // of one step's products, exact
	Sampled  float64 `json:"sampled_seconds"`   // of one step's products, sampled
	Backward float64 `json:"share_of_training"` // share of these products in the time of an exact step
}

func newApproximation(opt Options) *approximation {
	if opt.BackwardBudget == 0 {
		return nil
	}
	return &approximation{budget: opt.BackwardBudget, seed: rng.Mix64(opt.Seed + 2),
		last: uint64(approximateUntil * float64(opt.Epochs)), batches: opt.Fanouts != nil}
}

// of says how many batches an epoch has.
func (p *approximation) of(batches uint64) {
	if p != nil {
		p.last *= batches
	}
}

// begin says which step follows.
func (p *approximation) begin(step uint64) {
	if p != nil {
		p.step, p.active = step, step <= p.last
		p.refresh = p.active && (step-1)%approximateEvery == 0
	}
}

// end chooses rows, if this step did.
func (p *approximation) end() error {
	if p == nil || !p.refresh || p.batches {
		return nil
	}
	work, sites := 0.0, make([]*rowsample.Site, len(p.sites))
	for i, s := range p.sites {
		work, sites[i] = work+s.Work(), &s.Site
	}
	rowsample.Draw(p.stream(), p.budget*work, sites...)
	for _, s := range sites {
		if err := s.Cut(); err != nil {
			return err
		}
	}
	return nil
}

// stream returns that of the draws of rows in this step.
func (p *approximation) stream() uint64 { return rng.Mix64(p.seed + p.step) }

// site returns an aggregation by its number.
func (p *approximation) site(n int) *site {
	for len(p.sites) <= n {
		p.sites = append(p.sites, &site{})
	}
	return p.sites[n]
}

// gradient is the backward product of an aggregation: dx = a^T dy. values are those of a's edges, transposed those of
// its transpose's, for a mean without the rows' degrees and with them.
type gradient struct {
	a                  *sparse.Matrix
	values, transposed unified.Tensor
	mean               bool
	dx, dy             unified.Tensor
}

func (g gradient) exact(pool *sparse.Pool) error {
	return pool.SpMM(g.dx, sparse.Sum, g.a.Transpose(), g.transposed, g.dy)
}

// product computes a gradient, the n-th of a step; without an approximation exactly.
func (p *approximation) product(n int, pool *sparse.Pool, g gradient) error {
	if p == nil || !p.active && len(p.sites) == 0 {
		return g.exact(pool)
	}
	s, start := p.site(n), time.Now()
	s.Matrix, s.Values, s.Mean = g.a, g.values, g.mean
	if p.batches && p.active {
		return p.ofBatch(n, pool, g)
	}
	if p.active && !p.refresh && s.Scale != nil {
		if s.Thin == nil { // training goes on from a checkpoint
			if err := s.Cut(); err != nil {
				return err
			}
			start = time.Now()
		}
		err := s.Multiply(pool, g.dx, g.dy)
		s.sampled, s.sampleds = s.sampled+time.Since(start), s.sampleds+1
		return err
	}
	if err := g.exact(pool); err != nil || !p.refresh {
		return err
	}
	s.exact, s.exacts = s.exact+time.Since(start), s.exacts+1
	if err := s.Weigh(pool, g.dy); err != nil {
		return err
	}
	s.weigh(g.dx, n)
	if s.Thin == nil {
		return nil
	}
	return s.compare(pool, g)
}

// ofBatch is product for the matrix of one batch. No choice outlives it, so the time of choosing is part of the time of
// a product. Every tenth step is exact, to measure by.
func (p *approximation) ofBatch(n int, pool *sparse.Pool, g gradient) error {
	s, start := p.sites[n], time.Now()
	if p.refresh {
		if err := g.exact(pool); err != nil {
			return err
		}
		s.exact, s.exacts = s.exact+time.Since(start), s.exacts+1
	}
	err := s.Choose(pool, p.stream()+uint64(n), p.budget, g.dy)
	if s.Scale = nil; err != nil { // of this batch alone
		return err
	}
	if p.refresh {
		return s.compare(pool, g)
	}
	err = s.Multiply(pool, g.dx, g.dy)
	s.sampled, s.sampleds = s.sampled+time.Since(start), s.sampleds+1
	return err
}

// weigh makes weights of several sites comparable: each is divided by the gradient's norm and the root of what an edge
// costs, and multiplied by the root of how many sites an error reaches, its own and those below.
func (s *site) weigh(dx unified.Tensor, number int) {
	sum := 0.0
	all, _ := unified.View[float32](dx)
	for _, v := range all {
		sum += float64(v) * float64(v)
	}
	factor := math.Sqrt(float64(number+1) / max(sum*float64(s.Width), math.SmallestNonzeroFloat64))
	for i := range s.Weights {
		s.Weights[i] *= factor
	}
}

// compare adds to the error what the rows that are kept would give in place of dx.
func (s *site) compare(pool *sparse.Pool, g gradient) error {
	exact, _ := unified.View[float32](g.dx)
	got := make([]float32, len(exact))
	if err := s.Multiply(pool, tensor(got, int(g.dx.Len()), s.Width), g.dy); err != nil {
		return err
	}
	for i, v := range exact {
		d := float64(v) - float64(got[i])
		s.lost, s.whole = s.lost+float64(d*d), s.whole+float64(v)*float64(v)
	}
	return nil
}

// kept returns the scales for a checkpoint: a bit a row, and the numbers of those that are kept.
func (s *site) kept() []byte {
	if s.Scale == nil {
		return nil
	}
	text := make([]byte, (len(s.Scale)+7)/8)
	for i, v := range s.Scale {
		if v != 0 {
			text[i/8] |= 1 << (i % 8)
			text = binary.LittleEndian.AppendUint32(text, math.Float32bits(v))
		}
	}
	return text
}

// restore takes what kept has returned, for that many rows.
func (s *site) restore(text []byte, rows int) {
	if text == nil {
		return
	}
	bits, numbers := text[:min((rows+7)/8, len(text))], text[min((rows+7)/8, len(text)):]
	s.Scale = make([]float32, rows)
	for i := range s.Scale {
		if i/8 < len(bits) && bits[i/8]>>(i%8)&1 == 1 && len(numbers) >= 4 {
			s.Scale[i] = math.Float32frombits(binary.LittleEndian.Uint32(numbers))
			numbers = numbers[4:]
		}
	}
}

// report says what it came to; spent is the time of training, in that many steps.
func (p *approximation) report(spent time.Duration, steps int) *Approximation {
	if p == nil {
		return nil
	}
	r := &Approximation{Budget: p.budget}
	lost, whole, kept, all, saved := 0.0, 0.0, 0.0, 0.0, 0.0
	for _, s := range p.sites {
		exact := s.exact.Seconds() / float64(max(s.exacts, 1))
		sampled := s.sampled.Seconds() / float64(max(s.sampleds, 1))
		r.Exact, r.Sampled = r.Exact+exact, r.Sampled+sampled
		saved += float64(s.sampleds) * (exact - sampled)
		lost, whole = lost+s.lost, whole+s.whole
		if s.Thin != nil {
			kept, all = kept+float64(s.Thin.Edges())*float64(s.Width), all+s.Work()
		}
	}
	r.Kept, r.Error = kept/max(all, 1), math.Sqrt(lost/max(whole, math.SmallestNonzeroFloat64))
	if steps > 0 {
		r.Backward = r.Exact / ((spent.Seconds() + saved) / float64(steps))
	}
	return r
}
