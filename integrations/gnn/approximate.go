package gnn

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// Source: Liu, Chen, Zhou, Lin, Zhao, Ma and Hu, "RSC: Accelerate Graph Neural Networks Training via Randomized Sparse
// Computations", ICML 2023, for scores, budget, caching and switching. Its authors keep the rows with the highest
// scores, and cut them from the layer that loses least. On dense graphs that missed most of the gradient (0.94 of its
// norm for GCN, at a tenth of the work), and some trainings lost a class. So rows are drawn here, and scaled such that
// the gradient is right in the mean, which misses 0.2: by priorities, of Duffield, Lund and Thorup, "Priority sampling
// for estimation of arbitrary subset sums", JACM 54(6), 2007, over the rows of all layers together.
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

// site is an aggregation: a matrix, and the values of its edges. Its backward product multiplies the transpose with the
// gradient of the result, and can leave rows of both out.
type site struct {
	matrix  *sparse.Matrix
	values  unified.Tensor
	mean    bool
	width   int
	norms   []float64      // of the rows
	of      *sparse.Matrix // whose they are
	weights []float64      // of the rows, in the last step that chose: they are drawn in proportion to them

	scale []float32 // of the rows: 0 leaves one out; nil before they were chosen
	thin  *sparse.Matrix
	left  unified.Tensor // values of what is kept

	exact, sampled   time.Duration
	exacts, sampleds int
	lost, whole      float64 // squares of the gradient's error, and of the gradient
}

// Approximation says what sampled gradients cost and gave: docs/cli.md has the names.
type Approximation struct {
	Budget   float64 `json:"budget"`
	Kept     float64 `json:"kept"`              // share of non-zeros times columns in sampled products
	Error    float64 `json:"gradient_error"`    // of what products give to the gradient, relative, in Euclidean norm
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
	work := 0.0
	for _, s := range p.sites {
		work += s.work()
	}
	choose(p.stream(), p.budget*work, p.sites...)
	for _, s := range p.sites {
		if err := s.cut(); err != nil {
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
	s.matrix, s.values, s.mean, s.width = g.a, g.values, g.mean, int(g.dy.Width())
	if p.batches && p.active {
		return p.ofBatch(n, pool, g)
	}
	if p.active && !p.refresh && s.scale != nil {
		if s.thin == nil { // training goes on from a checkpoint
			if err := s.cut(); err != nil {
				return err
			}
			start = time.Now()
		}
		err := pool.SpMM(g.dx, sparse.Sum, s.thin, s.left, g.dy)
		s.sampled, s.sampleds = s.sampled+time.Since(start), s.sampleds+1
		return err
	}
	if err := g.exact(pool); err != nil || !p.refresh {
		return err
	}
	s.exact, s.exacts = s.exact+time.Since(start), s.exacts+1
	if err := s.rate(pool, g.dy); err != nil {
		return err
	}
	s.weigh(g.dx, n)
	if s.thin == nil {
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
	if err := s.rate(pool, g.dy); err != nil {
		return err
	}
	choose(p.stream()+uint64(n), p.budget*s.work(), s)
	err := s.cut()
	if s.scale = nil; err != nil { // of this batch alone
		return err
	}
	if p.refresh {
		return s.compare(pool, g)
	}
	err = pool.SpMM(g.dx, sparse.Sum, s.thin, s.left, g.dy)
	s.sampled, s.sampleds = s.sampled+time.Since(start), s.sampleds+1
	return err
}

// rate weighs each row by the norm of its values times that of its gradient, which is the norm of what it gives to the
// product, by the root of its edges.
func (s *site) rate(pool *sparse.Pool, dy unified.Tensor) (err error) {
	if s.norms == nil || s.of != s.matrix {
		if s.norms, err = s.matrix.RowNorms(s.values); err != nil {
			return err
		}
		s.weights, s.of = make([]float64, len(s.norms)), s.matrix
	}
	grad, _ := unified.View[float32](dy)
	return pool.Split(int64(len(s.weights)), int64(rowSpan(s.width)), func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			sum := 0.0
			for _, v := range grad[i*int64(s.width) : (i+1)*int64(s.width)] {
				sum += float64(v) * float64(v)
			}
			edges := max(float64(s.matrix.Degree(i)), 1)
			if s.weights[i] = s.norms[i] * math.Sqrt(sum/edges); s.mean {
				s.weights[i] /= edges
			}
		}
	})
}

// weigh makes weights of several sites comparable: each is divided by the gradient's norm and the root of what an edge
// costs, and multiplied by the root of how many sites an error reaches, its own and those below.
func (s *site) weigh(dx unified.Tensor, number int) {
	sum := 0.0
	all, _ := unified.View[float32](dx)
	for _, v := range all {
		sum += float64(v) * float64(v)
	}
	factor := math.Sqrt(float64(number+1) / max(sum*float64(s.width), math.SmallestNonzeroFloat64))
	for i := range s.weights {
		s.weights[i] *= factor
	}
}

// compare adds to the error what the rows that are kept would give in place of dx.
func (s *site) compare(pool *sparse.Pool, g gradient) error {
	exact, _ := unified.View[float32](g.dx)
	got := make([]float32, len(exact))
	if err := pool.SpMM(tensor(got, int(g.dx.Len()), s.width), sparse.Sum, s.thin, s.left, g.dy); err != nil {
		return err
	}
	for i, v := range exact {
		d := float64(v) - float64(got[i])
		s.lost, s.whole = s.lost+float64(d*d), s.whole+float64(v)*float64(v)
	}
	return nil
}

// choose draws rows that cost at most so much together: a row of a site costs its edges times the site's columns. A
// row's priority is its weight by a draw from 0 to 1, and those with the highest are kept, of whichever site. A row
// whose weight is below the first priority that is not kept is scaled up to it, so that what is kept has the whole
// gradient for its mean. Weights are such that the sum of the variances, each relative to the gradient of its site, is
// least for what the rows cost.
func choose(stream uint64, most float64, sites ...*site) {
	var rows []candidate
	for n, s := range sites {
		s.scale = make([]float32, len(s.weights))
		for i, w := range s.weights {
			draw := rng.Unit(rng.Draw(rng.Mix64(stream+uint64(n)), uint64(i)))
			rows = append(rows, candidate{s, int32(i), w / draw})
		}
	}
	slices.SortFunc(rows, func(a, b candidate) int { return cmp.Compare(b.priority, a.priority) })
	end := 0
	for ; end < len(rows); end++ {
		if most -= rows[end].cost(); most < 0 {
			break
		}
	}
	least := 0.0
	if end < len(rows) {
		least = rows[end].priority
	}
	for _, r := range rows[:end] {
		r.scale[r.row] = 1
		if w := r.weights[r.row]; w < least {
			r.scale[r.row] = float32(least / w)
		}
	}
}

// candidate is a row of a site.
type candidate struct {
	*site
	row      int32
	priority float64
}

func (c candidate) cost() float64 { return float64(c.matrix.Degree(int64(c.row))) * float64(c.width) }

// work returns what an exact product costs.
func (s *site) work() float64 { return float64(s.matrix.Edges()) * float64(s.width) }

// cut makes the matrix of what is kept.
func (s *site) cut() (err error) {
	scale := s.scale
	if s.mean {
		scale = make([]float32, len(s.scale))
		for i, v := range s.scale {
			if v != 0 {
				scale[i] = v * (1 / float32(max(s.matrix.Degree(int64(i)), 1)))
			}
		}
	}
	s.thin, s.left, err = s.matrix.ThinTranspose(scale, s.values)
	return err
}

// kept returns the scales as a checkpoint has them: a bit a row, and the numbers of those that are kept.
func (s *site) kept() []byte {
	if s.scale == nil {
		return nil
	}
	text := make([]byte, (len(s.scale)+7)/8)
	for i, v := range s.scale {
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
	s.scale = make([]float32, rows)
	for i := range s.scale {
		if i/8 < len(bits) && bits[i/8]>>(i%8)&1 == 1 && len(numbers) >= 4 {
			s.scale[i] = math.Float32frombits(binary.LittleEndian.Uint32(numbers))
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
		if s.thin != nil {
			kept, all = kept+float64(s.thin.Edges())*float64(s.width), all+float64(s.matrix.Edges())*float64(s.width)
		}
	}
	r.Kept, r.Error = kept/max(all, 1), math.Sqrt(lost/max(whole, math.SmallestNonzeroFloat64))
	if steps > 0 {
		r.Backward = r.Exact / ((spent.Seconds() + saved) / float64(steps))
	}
	return r
}
