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
}

// site is an aggregation. Its backward product multiplies the transposed matrix with the gradient of the result.
type site struct {
	matrix *sparse.Matrix
	values unified.Tensor
	width  int
	norms  []float64 // of the columns
	scores []float64 // of the columns, in the last step that chose

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
	return &approximation{budget: opt.BackwardBudget, last: uint64(approximateUntil * float64(opt.Epochs))}
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
	if p == nil || !p.refresh {
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

// score rates each row of dy by its norm times that of its column, and measures what the rows of the last choice would
// have given.
func (s *site) score(pool *sparse.Pool, dx, dy unified.Tensor) (err error) {
	if s.norms == nil {
		if s.norms, err = s.matrix.ColumnNorms(s.values); err != nil {
			return err
		}
		s.scores = make([]float64, len(s.norms))
	}
	grad, _ := unified.View[float32](dy)
	for i := range s.scores {
		sum := 0.0
		for _, v := range grad[i*s.width : (i+1)*s.width] {
			sum += float64(v) * float64(v)
		}
		s.scores[i] = math.Sqrt(sum) * s.norms[i]
	}
	if s.thin == nil {
		return nil
	}
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

// allocate chooses the rows of every site: again and again the one loses a share of its rows that loses least of its
// scores, until the budget suffices.
func (p *approximation) allocate() {
	total, all := 0.0, 0.0
	orders, ends := make([][]int32, len(p.sites)), make([]int, len(p.sites))
	for n, s := range p.sites {
		order := make([]int32, len(s.scores))
		for i := range order {
			order[i] = int32(i)
		}
		slices.SortFunc(order, func(i, j int32) int {
			return cmp.Or(cmp.Compare(s.scores[j], s.scores[i]), cmp.Compare(i, j))
		})
		orders[n], ends[n] = order, len(order)
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
		s.Kept = make([]byte, (len(s.scores)+7)/8)
		for _, i := range orders[n][:ends[n]] {
			s.Kept[i/8] |= 1 << (i % 8)
		}
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
