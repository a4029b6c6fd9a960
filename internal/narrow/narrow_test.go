package narrow

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestNumbersStayWithinTheBound: for every code, rows of any width, numbers of any size, read as a whole and in parts.
func TestNumbersStayWithinTheBound(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 32))
	for _, c := range codes {
		for _, width := range []int{1, 2, 7, 31, 32, 33, 100, 128, 257} {
			for range 50 {
				row := make([]float32, width)
				for i := range row {
					row[i] = float32(r.NormFloat64() * math.Pow(10, float64(r.IntN(20)-10)))
				}
				stored := make([]byte, c.RowBytes(int64(width)))
				expect.OK(t, c.Encode(stored, row))
				got := make([]float32, width)
				c.Decode(got, stored, width, 0)
				checkBound(t, c, row, got)
				at := r.IntN(width)
				part := make([]float32, width-at)
				c.Decode(part, stored, width, at)
				expect.That(t, slices.Equal(part, got[at:]), "%s: from %d of %d: %v", c.Name, at, width, part)
			}
		}
	}
}

func checkBound(t *testing.T, c *Code, row, got []float32) {
	t.Helper()
	for from := 0; from < len(row); from += c.Group {
		to := min(from+c.Group, len(row))
		most := max(slices.Max(row[from:to]), -slices.Min(row[from:to]))
		for i := from; i < to; i++ {
			off := math.Abs(float64(got[i]) - float64(row[i]))
			expect.Ensure(t, off <= c.Bound*float64(most), "%s: number %d of %d: %g for %g, beside %g",
				c.Name, i, len(row),
				got[i], row[i], most)
		}
	}
}

// TestWholeSeventhsAreKept: rows of zeros, of ones and of small numbers that all codes hold.
func TestWholeSeventhsAreKept(t *testing.T) {
	for _, row := range [][]float32{{0, 0, 0}, {1, 0, 1, 1}, {7, -7, 3, 1, 0}, {math.MaxFloat32 / 1e3}} {
		stored, got := make([]byte, int4Bytes(int64(len(row)))), make([]float32, len(row))
		expect.OK(t, encodeInt4(stored, row))
		decodeInt4(got, stored, len(row), 0)
		for i, x := range row {
			expect.That(t, math.Abs(float64(got[i]-x)) <= math.Abs(float64(x))/128, "%v became %v", row, got)
		}
	}
}

// TestWhatCannotBeStoredIsRefused: also what would come back as an infinity.
func TestWhatCannotBeStoredIsRefused(t *testing.T) {
	for _, c := range codes {
		for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat32} {
			err := c.Encode(make([]byte, c.RowBytes(40)), append(make([]float32, 39), float32(x)))
			expect.That(t, err != nil, "%s took %g", c.Name, x)
		}
	}
}
