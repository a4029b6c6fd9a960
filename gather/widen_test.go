package gather

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// narrowColumn makes a column of random elements, and scales of its rows where it is of int8.
func narrowColumn(t testing.TB, r *rand.Rand, dtype unified.DType, rows, width int) (column, scales unified.Tensor) {
	t.Helper()
	b := unified.FromSlice(make([]uint64, (rows*width*int(dtype.Size())+7)/8)).Bytes()[:rows*width*int(dtype.Size())]
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	column = expect.Must(unified.New(dtype, b, int64(rows), int64(width)))(t)
	if dtype == unified.Int8 {
		v := make([]float32, rows)
		for i := range v {
			v[i] = r.Float32()
		}
		scales = unified.FromSlice(v)
	}
	return column, scales
}

// TestRowsAreWidenedAsTheSpecificationSays compares kernels with plain Go, for rows of any width and place.
func TestRowsAreWidenedAsTheSpecificationSays(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	for _, dtype := range []unified.DType{unified.Float16, unified.BFloat16, unified.Int8} {
		for _, width := range []int{1, 3, 7, 8, 9, 16, 31, 100, 128} {
			column, scales := narrowColumn(t, r, dtype, 200, width)
			s, err := NewStore(column)
			if err == nil {
				s, err = s.Widened(scales)
			}
			expect.OK(t, err)
			ids := make([]int32, 77)
			for i := range ids {
				ids[i] = r.Int32N(200)
			}
			var dst unified.Buffer
			got := expect.Must(s.Gather(&dst, unified.FromSlice(ids), 1))(t)
			v, err := unified.View[float32](got)
			expect.Ensure(t, err == nil && got.Dim(0) == 77 && got.Dim(1) == int64(width), "%v, %v", got, err)
			want := make([]float32, width)
			for i, id := range ids {
				scale := float32(1)
				if scales.Valid() {
					all, _ := unified.View[float32](scales)
					scale = all[id]
				}
				row := column.Bytes()[int64(id)*s.RowBytes():][:s.RowBytes()]
				widenPlain(dtype, want, row, scale)
				expect.Ensure(t, slices.EqualFunc(v[i*width:(i+1)*width], want, same), "%v of %d: row %d is %v, not %v",
					dtype, width, id, v[i*width:(i+1)*width], want)
			}
		}
	}
}

// same reports whether numbers are equal, NaN to NaN.
func same(a, b float32) bool { return a == b || math.IsNaN(float64(a)) && math.IsNaN(float64(b)) }

func TestWhatCannotBeWidenedIsRefused(t *testing.T) {
	scales := unified.FromSlice(make([]float32, 3))
	wide := expect.Must(unified.New(unified.Float16, nil, 0, maxRow/4))(t) // float32 rows are twice as wide
	for _, c := range []struct{ column, scales unified.Tensor }{
		{unified.FromSlice(make([]float32, 4)), unified.Tensor{}},
		{unified.FromSlice(make([]int8, 4)), unified.Tensor{}},
		{unified.FromSlice(make([]int8, 4)), scales},
		{unified.FromSlice(make([]unified.Half, 3)), scales},
		{wide, unified.Tensor{}},
	} {
		s := expect.Must(NewStore(c.column))(t)
		w, err := s.Widened(c.scales)
		expect.That(t, errors.Is(err, unified.ErrShape), "%v: %v, %v", c.column, w, err)
	}
}
