package gather

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/gather/internal/columns"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// plainly returns row i of a column as float32, as the specification says.
func plainly(s *Store, scales unified.Tensor, i int) []float32 {
	row, to := s.column.Bytes()[int64(i)*s.rowBytes:][:s.rowBytes], make([]float32, s.wide.width)
	if s.wide.code != nil {
		s.wide.code.Decode(to, row, s.wide.width, 0)
		return to
	}
	scale := float32(1)
	if scales.Valid() {
		all, _ := unified.View[float32](scales)
		scale = all[i]
	}
	widenPlain(s.column.DType(), to, row, scale)
	return to
}

// TestRowsAreWidenedAsTheSpecificationSays compares kernels with plain Go, for rows of any width and place, bit by bit
// but for the bits of float32 values that are not numbers.
func TestRowsAreWidenedAsTheSpecificationSays(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	for _, kind := range columns.Kinds {
		for _, width := range []int{1, 3, 7, 8, 9, 16, 31, 32, 33, 100, 128, 300, 520} {
			column, code, scales := columns.Narrow(t, r, kind, 200, width)
			ids := make([]int32, 77)
			for i := range ids {
				ids[i] = r.Int32N(200)
			}
			for _, to := range []unified.DType{unified.Float32, unified.Float16, unified.BFloat16} {
				s, err := NewStore(column)
				if err == nil {
					s, err = s.Widened(to, code, scales)
				}
				expect.OK(t, err)
				var dst unified.Buffer
				got := expect.Must(s.Gather(&dst, unified.FromSlice(ids), 1))(t)
				expect.Ensure(t, got.DType() == to && got.Dim(0) == 77 && got.Dim(1) == int64(width), "%v", got)
				for i, id := range ids {
					checkWidened(t, got, i, plainly(s, scales, int(id)), kind)
				}
			}
		}
	}
}

func checkWidened(t *testing.T, got unified.Tensor, i int, want []float32, kind string) {
	t.Helper()
	row := got.Bytes()[int64(i)*got.RowBytes():][:got.RowBytes()]
	if to := got.DType(); to != unified.Float32 {
		bits := make([]byte, len(row))
		to.PutFloats(bits, want)
		expect.Ensure(t, bytes.Equal(row, bits), "%s as %v, %d wide: %x, not %x, for %v", kind, to, len(want),
			row, bits,
			want)
		return
	}
	have := make([]float32, len(want))
	unified.Float32.Floats(have, row)
	expect.Ensure(t, slices.EqualFunc(have, want, same), "%s, %d wide: %v, not %v", kind, len(want), have, want)
}

// same reports whether numbers are equal, NaN to NaN.
func same(a, b float32) bool { return a == b || math.IsNaN(float64(a)) && math.IsNaN(float64(b)) }

func TestWhatCannotBeWidenedIsRefused(t *testing.T) {
	scales := unified.FromSlice(make([]float32, 3))
	int4 := expect.Must(graph.Column{DType: unified.Float32, Shape: []int64{100}}.Coded("int4"))(t).Code
	none := &graph.Code{Name: "int3", Shape: []int64{2}}
	bytes58, bytes57 := matrix(t, 3, 58), matrix(t, 3, 57)
	wide := expect.Must(unified.New(unified.Float16, nil, 0, MaxRowBytes/4))(t) // float32 rows are twice as wide
	for _, c := range []struct {
		column, scales unified.Tensor
		code           *graph.Code
		to             unified.DType
	}{
		{column: unified.FromSlice(make([]float32, 4))},
		{column: unified.FromSlice(make([]int8, 4))},
		{column: unified.FromSlice(make([]int8, 4)), scales: scales},
		{column: unified.FromSlice(make([]unified.Half, 3)), scales: scales},
		{column: unified.FromSlice(make([]unified.Half, 3)), to: unified.Float64},
		{column: bytes58}, {column: bytes57, code: int4}, {column: bytes58, code: int4, scales: scales},
		{column: bytes58, code: none}, {column: unified.FromSlice(make([]uint8, 100)), code: int4},
		{column: wide},
	} {
		s := expect.Must(NewStore(c.column))(t)
		w, err := s.Widened(cmp.Or(c.to, unified.Float32), c.code, c.scales)
		expect.That(t, errors.Is(err, unified.ErrShape), "%v: %v, %v", c.column, w, err)
	}
	s := expect.Must(NewStore(bytes58))(t)
	expect.OK(t, expect.Err(s.Widened(unified.Float32, int4, unified.Tensor{})))
}

func matrix(t *testing.T, rows, width int64) unified.Tensor {
	return expect.Must(unified.New(unified.Uint8, make([]byte, rows*width), rows, width))(t)
}
