package rng

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestLogIsWithinAUnitOfTheLastPlace(t *testing.T) {
	const seed = 5
	r := rand.New(rand.NewPCG(seed, 0))
	check := func(x float64) {
		want, got := math.Log(x), Log(x)
		expect.Ensure(t, math.Abs(got-want) <= 1.5*math.Abs(math.Nextafter(want, math.Inf(1))-want),
			"seed %d: the logarithm of %x is %x, want %x", seed, x, got, want)
	}
	for _, x := range []float64{0x1p-54, 0x1p-53, 0.25, math.Sqrt2 / 2, math.Nextafter(math.Sqrt2/2, 0), 0.5,
		1 - 0x1p-53, 1, math.Sqrt2, 2, 1e300, 0x1p-1022} {
		check(x)
	}
	for range 100_000 {
		check(Unit(r.Uint64()))
		check(math.Exp(1400*r.Float64() - 700))
	}
}

// Other programs rely on the bits. These were computed by a program in Python with the same operations.
func TestLogHasKnownBits(t *testing.T) {
	for x, want := range knownLogs {
		if got := Log(x); math.Float64bits(got) != want {
			t.Errorf("the logarithm of %x is %#x, want %#x", x, math.Float64bits(got), want)
		}
	}
}

func TestUnitIsNeverZero(t *testing.T) {
	for d, want := range map[uint64]float64{0: 0x1p-54, 1<<11 - 1: 0x1p-54, 1 << 11: 0x3p-54, math.MaxUint64: 1} {
		got := Unit(d)
		expect.That(t, got == want, "%#x becomes %x, want %x", d, got, want)
	}
}

var knownLogs = map[float64]uint64{
	0x1.0000000000000p-54:  0xc042b708872320e2,
	0x1.0000000000000p-1:   0xbfe62e42fefa39ef,
	0x1.6a09e667f3bccp-1:   0xbfd62e42fefa39f1,
	0x1.fffffffffffffp-1:   0xbca0000000000000,
	0x1.0000000000000p+0:   0x0,
	0x1.8000000000000p+1:   0x3ff193ea7aad030a,
	0x1.56e1fc2f8f359p-997: 0xc085963447f87fb5,
	0x1.132d8f91b7584p-3:   0xc0000ebf5c13cd21,
	0x1.b1e2d5b3584f8p-1:   0xbfc530803971ee75,
	0x1.870d778409f13p-1:   0xbfd13f33ac51dcd7,
	0x1.0530d08f17f5cp-2:   0xbff5dc0aa2f3331a,
	0x1.fb5355e16737ap-2:   0xbfe67965911c2630,
	0x1.cc4762bc72882p-2:   0xbfe996a52a139b1e,
}
