package sampling

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// The first weight that is invalid is named, whatever valid ones come before: as large or as small as there are.
func TestTheFirstInvalidWeightIsNamed(t *testing.T) {
	valid := []float64{0, math.Copysign(0, -1), math.SmallestNonzeroFloat64, 1, math.MaxFloat64}
	v := &edgeValues{weightName: "w"}
	for _, bad := range []float64{-math.SmallestNonzeroFloat64, -1, math.Inf(1), math.Inf(-1), math.NaN()} {
		for at := range len(valid) + 1 {
			c := &edgeChunk{from: 100, n: int64(len(valid) + 1)}
			copy(c.weights[:], valid[:at])
			c.weights[at] = bad
			copy(c.weights[at+1:], valid[at:])
			want := fmt.Sprintf("edge %d: its weight in column %q is %v; weights must be finite and not negative",
				100+at, "w", bad)
			err := v.badWeight(c)
			expect.That(t, err != nil && strings.HasSuffix(err.Error(), want), "%v, want %s", err, want)
			c.n = int64(at) // those before it
			expect.Is(t, v.badWeight(c), nil, "valid weights")
		}
	}
	for _, w := range valid {
		if w == 0 { // that -0 is valid is found out one by one
			continue
		}
		_, ok := loadWeights(make([]float64, 1), []float64{w})
		expect.That(t, ok, "%v is refused", w)
	}
}

// Galloping finds what looking at one after another finds.
func TestGallopingFindsTheFirstOfAType(t *testing.T) {
	var types []uint8
	for e, n := range []int{3, 0, 1, 40, 7, 0, 129, 2} {
		for range n {
			types = append(types, uint8(e))
		}
	}
	n := int64(len(types))
	for lo := range n {
		for hi := lo; hi <= n; hi++ {
			for e := range 10 {
				want := lo
				for want < hi && int(types[want]) < e {
					want++
				}
				got := gallop(types, lo, hi, e)
				expect.Ensure(t, got == want, "type %d in %d .. %d begins at %d, not %d", e, lo, hi, got, want)
			}
		}
	}
}
