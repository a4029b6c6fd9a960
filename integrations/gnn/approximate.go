package gnn

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// Source: Liu, Chen, Zhou, Lin, Zhao, Ma and Hu, "RSC: Accelerate Graph Neural Networks Training via Randomized Sparse
// Computations", ICML 2023. Rows are not drawn: those with the highest scores are kept, as the authors do.
const (
	approximateEvery = 10   // steps: the first is exact, and chooses the rows of the others
	approximateUntil = 0.8  // of the epochs; from then on training is exact
	approximateStep  = 0.02 // of the rows, that one layer loses at a time
)

// approximation makes the gradients of aggregations of some of the rows, those that count most.
type approximation struct {
	budget  float64 // share of all non-zeros times columns
	last    uint64  // the last step that is not exact
	sites   []*site // one an aggregation, in the order of the model
	refresh bool    // this step chooses rows
	active  bool    // this step may leave rows out
	batches bool    // every step has matrices of its own, so rows are chosen in each, for each aggregation by itself
}

// site is an aggregation. Its backward product multiplies the transposed matrix with the gradient of the result.
type site struct {
	matrix *sparse.Matrix
	values unified.Tensor
	width  int
	norms  []float64      // of the columns
	of     *sparse.Matrix // whose they are
	scores []float64      // of the columns, in the last step that chose

	Kept []byte // bits of the columns that are kept; nil before they were chosen
	thin *sparse.Matrix
	left unified.Tensor // values of what is kept

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
	return &approximation{budget: opt.BackwardBudget, last: uint64(approximateUntil * float64(opt.Epochs)),
		batches: opt.Fanouts != nil}
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
		p.active = step <= p.last
		p.refresh = p.active && (step-1)%approximateEvery == 0
	}
}

// end chooses rows, if this step did.
func (p *approximation) end() error {
	if p == nil || !p.refresh || p.batches {
		return nil
	}
	p.allocate()
	for _, s := range p.sites {
		if err := s.cut(); err != nil {
			return err
		}
	}
	return nil
}

// site returns an aggregation by its number.
func (p *approximation) site(n int) *site {
	for len(p.sites) <= n {
		p.sites = append(p.sites, &site{})
	}
	return p.sites[n]
}

// product writes the gradient dx = a dy, where a is the transpose of the aggregation's matrix; without an approximation
// exactly.
func (p *approximation) product(n int, pool *sparse.Pool, dx unified.Tensor, a *sparse.Matrix, values,
	dy unified.Tensor) error {
	if p == nil || !p.active && len(p.sites) == 0 {
		return pool.SpMM(dx, sparse.Sum, a, values, dy)
	}
	s, start := p.site(n), time.Now()
	s.matrix, s.values, s.width = a, values, int(dy.Width())
	if p.batches && p.active {
		return p.ofBatch(s, pool, dx, dy)
	}
	if p.active && !p.refresh && s.Kept != nil {
		if s.thin == nil { // training goes on from a checkpoint
			if err := s.cut(); err != nil {
				return err
			}
			start = time.Now()
		}
		err := pool.SpMM(dx, sparse.Sum, s.thin, s.left, dy)
		s.sampled, s.sampleds = s.sampled+time.Since(start), s.sampleds+1
		return err
	}
	if err := pool.SpMM(dx, sparse.Sum, a, values, dy); err != nil || !p.refresh {
		return err
	}
	s.exact, s.exacts = s.exact+time.Since(start), s.exacts+1
	return s.score(pool, dx, dy)
}

// ofBatch is product for the matrix of one batch. No choice outlives it, so the time of choosing is part of the time of
// a product. Every tenth step is exact, to measure by.
func (p *approximation) ofBatch(s *site, pool *sparse.Pool, dx, dy unified.Tensor) (err error) {
	start := time.Now()
	if p.refresh {
		if err := pool.SpMM(dx, sparse.Sum, s.matrix, s.values, dy); err != nil {
			return err
		}
		s.exact, s.exacts = s.exact+time.Since(start), s.exacts+1
	}
	if err := s.rate(dy); err != nil {
		return err
	}
	end, left := 0, int64(p.budget*float64(s.matrix.Edges()))
	order := s.order()
	for ; end < len(order); end++ {
		if left -= s.matrix.Transpose().Degree(int64(order[end])); left < 0 {
			break
		}
	}
	s.keep(order[:end])
	err = s.cut()
	if s.Kept = nil; err != nil { // of this batch alone
		return err
	}
	if p.refresh {
		return s.compare(pool, dx, dy)
	}
	err = pool.SpMM(dx, sparse.Sum, s.thin, s.left, dy)
	s.sampled, s.sampleds = s.sampled+time.Since(start), s.sampleds+1
	return err
}

// score rates the rows of dy, and measures what those of the last choice would have given.
func (s *site) score(pool *sparse.Pool, dx, dy unified.Tensor) error {
	if err := s.rate(dy); err != nil || s.thin == nil {
		return err
	}
	return s.compare(pool, dx, dy)
}

// rate scores each row of dy by its norm times that of its column.
func (s *site) rate(dy unified.Tensor) (err error) {
	if s.norms == nil || s.of != s.matrix {
		if s.norms, err = s.matrix.ColumnNorms(s.values); err != nil {
			return err
		}
		s.scores, s.of = make([]float64, len(s.norms)), s.matrix
	}
	grad, _ := unified.View[float32](dy)
	for i := range s.scores {
		sum := 0.0
		for _, v := range grad[i*s.width : (i+1)*s.width] {
			sum += float64(v) * float64(v)
		}
		s.scores[i] = math.Sqrt(sum) * s.norms[i]
	}
	return nil
}

// compare adds to the error what the rows that are kept would give in place of dx.
func (s *site) compare(pool *sparse.Pool, dx, dy unified.Tensor) error {
	exact, _ := unified.View[float32](dx)
	got := make([]float32, len(exact))
	if err := pool.SpMM(tensor(got, int(dx.Len()), s.width), sparse.Sum, s.thin, s.left, dy); err != nil {
		return err
	}
	for i, v := range exact {
		d := float64(v) - float64(got[i])
		s.lost, s.whole = s.lost+float64(d*d), s.whole+float64(v)*float64(v)
	}
	return nil
}

// order returns the rows by their scores, the highest first.
func (s *site) order() []int32 {
	order := make([]int32, len(s.scores))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, j int32) int {
		return cmp.Or(cmp.Compare(s.scores[j], s.scores[i]), cmp.Compare(i, j))
	})
	return order
}

// keep chooses rows.
func (s *site) keep(rows []int32) {
	s.Kept = make([]byte, (len(s.scores)+7)/8)
	for _, i := range rows {
		s.Kept[i/8] |= 1 << (i % 8)
	}
}

// allocate chooses the rows of every site: again and again the one loses a share of its rows that loses least of its
// scores, until the budget suffices.
func (p *approximation) allocate() {
	total, all := 0.0, 0.0
	orders, ends := make([][]int32, len(p.sites)), make([]int, len(p.sites))
	for n, s := range p.sites {
		orders[n], ends[n] = s.order(), len(s.scores)
		total += float64(s.matrix.Edges()) * float64(s.width)
	}
	all = total
	for total > p.budget*all {
		best, loss := -1, math.Inf(1)
		for n, s := range p.sites {
			if ends[n] == 0 {
				continue
			}
			if l := s.share(orders[n], s.next(ends[n]), ends[n]); l < loss || best < 0 {
				best, loss = n, l
			}
		}
		if best < 0 {
			break
		}
		s := p.sites[best]
		for _, i := range orders[best][s.next(ends[best]):ends[best]] {
			total -= float64(s.matrix.Transpose().Degree(int64(i))) * float64(s.width)
		}
		ends[best] = s.next(ends[best])
	}
	for n, s := range p.sites {
		s.keep(orders[n][:ends[n]])
	}
}

// next returns how many rows are left after a step.
func (s *site) next(end int) int {
	return max(end-max(int(approximateStep*float64(len(s.scores))), 1), 0)
}

// share returns which part of all scores some rows have.
func (s *site) share(order []int32, from, to int) float64 {
	sum, all := 0.0, 0.0
	for _, i := range order[from:to] {
		sum += s.scores[i]
	}
	for _, v := range s.scores {
		all += v
	}
	return sum / max(all, math.SmallestNonzeroFloat64)
}

// cut makes the matrix of what is kept.
func (s *site) cut() (err error) {
	keep := make([]bool, s.matrix.Cols())
	for i := range keep {
		keep[i] = i/8 < len(s.Kept) && s.Kept[i/8]>>(i%8)&1 == 1
	}
	s.thin, s.left, err = s.matrix.Thin(keep, s.values)
	return err
}

// report says what it came to; spent is the time of training, in so many steps.
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
