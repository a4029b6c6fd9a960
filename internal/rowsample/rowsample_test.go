package rowsample

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

func TestMain(m *testing.M) { expect.NoGoroutines(m) }

// TestDrawnRowsGiveTheGradientInTheMean: a row's scale is 1 in the mean, however seldom it is kept, within the budget.
func TestDrawnRowsGiveTheGradientInTheMean(t *testing.T) {
	const rows, draws = 30, 20000
	r, indptr, indices := rand.New(rand.NewPCG(4, 4)), []int64{0}, []int64{}
	s := &Site{Weights: make([]float64, rows), Width: 2}
	for i := range rows {
		for range 1 + r.IntN(6) {
			indices = append(indices, r.Int64N(rows))
		}
		indptr = append(indptr, int64(len(indices)))
		s.Weights[i] = r.ExpFloat64() + 0.1
	}
	s.Weights[3], s.Weights[7] = 0, 100
	s.Matrix = expect.Must(sparse.New(rows, unified.FromSlice(indptr), unified.FromSlice(indices)))(t)
	budget, sums, squares := int64(len(indices)/3), [rows]float64{}, [rows]float64{}
	for d := range draws {
		Draw(rng.Mix64(uint64(d)), float64(2*budget), s)
		edges := int64(0)
		for i, v := range s.Scale {
			sums[i], squares[i] = sums[i]+float64(v), squares[i]+float64(v)*float64(v)
			if v != 0 {
				edges += s.Matrix.Degree(int64(i))
			}
		}
		expect.Ensure(t, edges <= budget && s.Scale[3] == 0 && s.Scale[7] == 1,
			"%d edges of %d, no gradient scaled by %g, most of it by %g", edges, budget, s.Scale[3], s.Scale[7])
	}
	for i, sum := range sums {
		mean := sum / draws
		deviation := math.Sqrt((squares[i]/draws - mean*mean) / draws)
		expect.That(t, s.Weights[i] <= 0 || math.Abs(mean-1) <= 5*deviation+0.02,
			"row %d, of weight %.2f, has scale %.4f in the mean (%.4f)", i, s.Weights[i], mean, deviation)
	}
}

// TestARowThatCostsMoreThanTheBudgetIsKept: one row has nearly all edges, and the budget is a tenth of them.
func TestARowThatCostsMoreThanTheBudgetIsKept(t *testing.T) {
	indptr, indices := []int64{0}, make([]int64, 0, 140)
	for i := range int64(20) {
		indices = append(indices, make([]int64, 1+120*max(0, 1-i))...)
		indptr = append(indptr, int64(len(indices)))
	}
	s := &Site{Weights: make([]float64, 20), Width: 1}
	for i := range s.Weights {
		s.Weights[i] = 1
	}
	s.Matrix = expect.Must(sparse.New(1, unified.FromSlice(indptr), unified.FromSlice(indices)))(t)
	Draw(1, 0.1*s.Work(), s)
	kept := 0
	for _, v := range s.Scale {
		if v != 0 {
			kept++
		}
	}
	expect.That(t, s.Scale[0] == 1 && 10 < kept && kept < 20, "scales are %v", s.Scale)
}
