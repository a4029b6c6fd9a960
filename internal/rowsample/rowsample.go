// Package rowsample computes gradients of sums over edges of some of the rows: those are drawn, and scaled such that
// the gradient is right in the mean, whatever the rows are.
//
// Source: Liu, Chen, Zhou, Lin, Zhao, Ma and Hu, "RSC: Accelerate Graph Neural Networks Training via Randomized Sparse
// Computations", ICML 2023, for scores and budget. Its authors keep the rows with the highest scores, and cut them from
// the layer that loses least. On dense graphs that missed most of the gradient (0.94 of its norm for GCN, at a tenth of
// the work), and some trainings lost a class. So rows are drawn here, which misses 0.2: by priorities, of Duffield,
// Lund and Thorup, "Priority sampling for estimation of arbitrary subset sums", JACM 54(6), 2007, over the rows of all
// sites together.
package rowsample

import (
	"cmp"
	"math"
	"slices"

	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// Site is a sum or mean over edges whose backward product, the matrix's transpose by the gradient of the result, may
// leave rows of both out.
type Site struct {
	Matrix *sparse.Matrix
	Values unified.Tensor // of its edges, of one head, or none
	Mean   bool
	Width  int // of the gradient

	Weights []float64 // of the rows, by Weigh: they are drawn in proportion to them
	Scale   []float32 // of the rows, by Draw: 0 leaves one out; nil before they were chosen

	Thin *sparse.Matrix // by Cut: the transpose of what is kept
	Left unified.Tensor // and the values of its edges

	norms []float64      // of the rows' values
	of    *sparse.Matrix // whose they are
}

// Weigh weighs each row by the norm of its values times that of its gradient, which is the norm of what it gives to the
// product, by the root of its edges.
func (s *Site) Weigh(pool *sparse.Pool, dy unified.Tensor) (err error) {
	if s.norms == nil || s.of != s.Matrix {
		if s.norms, err = s.Matrix.RowNorms(s.Values); err != nil {
			return err
		}
		s.Weights, s.of = make([]float64, len(s.norms)), s.Matrix
	}
	s.Width = int(dy.Width())
	grad, err := unified.View[float32](dy)
	if err != nil {
		return err
	}
	return pool.Split(int64(len(s.Weights)), int64(max(1<<14/max(s.Width, 1), 1)), func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			sum := 0.0
			for _, v := range grad[i*int64(s.Width) : (i+1)*int64(s.Width)] {
				sum += float64(v) * float64(v)
			}
			edges := max(float64(s.Matrix.Degree(i)), 1)
			w := s.norms[i] * math.Sqrt(sum/edges)
			if s.Mean {
				w /= edges
			}
			if w != w { // what is not a number stays in the gradient
				w = math.Inf(1)
			}
			s.Weights[i] = w
		}
	})
}

// Work returns what an exact product costs: a row costs its edges times the columns.
func (s *Site) Work() float64 { return float64(s.Matrix.Edges()) * float64(s.Width) }

func (s *Site) cost(row int32) float64 {
	return float64(s.Matrix.Degree(int64(row))) * float64(s.Width)
}

// Draw sets the scales of sites, whose rows were weighed: rows that cost at most so much together are kept, of any
// site. A row's priority is its weight by a draw from 0 to 1, and those with the highest are kept. A row whose weight
// is below the first priority that is not kept is scaled up to it, so that what is kept has the whole gradient for its
// mean. Weights are such that the sum of the variances, each relative to the gradient of its site, is least for what
// the rows cost. A row that costs more than a quarter of most by itself is kept without a draw, beyond most: it would
// fit so seldom, or never, that its scale would be all noise.
func Draw(stream uint64, most float64, sites ...*Site) {
	var rows []candidate
	for n, s := range sites {
		s.Scale = make([]float32, len(s.Weights))
		for i, w := range s.Weights {
			if w > 0 && s.cost(int32(i)) > most/4 {
				s.Scale[i] = 1
				continue
			}
			draw := rng.Unit(rng.Draw(rng.Mix64(stream+uint64(n)), uint64(i)))
			rows = append(rows, candidate{s, int32(i), w / draw})
		}
	}
	slices.SortFunc(rows, func(a, b candidate) int { return cmp.Compare(b.priority, a.priority) })
	end := 0
	for ; end < len(rows); end++ {
		if most -= rows[end].cost(rows[end].row); most < 0 {
			break
		}
	}
	least := 0.0
	if end < len(rows) {
		least = rows[end].priority
	}
	for _, r := range rows[:end] {
		r.Scale[r.row] = 1
		if w := r.Weights[r.row]; w < least {
			r.Scale[r.row] = float32(least / w)
		}
	}
}

// candidate is a row of a site.
type candidate struct {
	*Site
	row      int32
	priority float64
}

// Cut makes the matrix of what is kept.
func (s *Site) Cut() (err error) {
	scale := s.Scale
	if s.Mean {
		scale = make([]float32, len(s.Scale))
		for i, v := range s.Scale {
			if v != 0 {
				scale[i] = v * (1 / float32(max(s.Matrix.Degree(int64(i)), 1)))
			}
		}
	}
	s.Thin, s.Left, err = s.Matrix.ThinTranspose(scale, s.Values)
	return err
}

// Multiply writes the product of what is kept, for the mean of which draws are.
func (s *Site) Multiply(pool *sparse.Pool, dx, dy unified.Tensor) error {
	return pool.SpMM(dx, sparse.Sum, s.Thin, s.Left, dy)
}

// Choose draws rows of this site alone, for a share of its work.
func (s *Site) Choose(pool *sparse.Pool, stream uint64, share float64, dy unified.Tensor) error {
	if err := s.Weigh(pool, dy); err != nil {
		return err
	}
	Draw(stream, share*s.Work(), s)
	return s.Cut()
}
