package rng

import (
	"math"
	"math/big"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestBoundedIsTheHighHalfOfTheProduct(t *testing.T) {
	const seed = 1
	limits := []uint64{1, 2, 3, 7, 1 << 16, 1<<32 - 1, 1 << 32, 1<<32 + 1, 1 << 63, math.MaxUint64}
	for i := range uint64(2000) {
		d := Draw(seed, i)
		switch i {
		case 0:
			d = 0
		case 1:
			d = math.MaxUint64
		}
		for _, n := range append(limits, Draw(^uint64(seed), i)|1) {
			product := new(big.Int).Mul(new(big.Int).SetUint64(d), new(big.Int).SetUint64(n))
			want := product.Rsh(product, 64).Uint64()
			got := Bounded(d, n)
			expect.Ensure(t, got == want && got < n, "seed %d: Bounded(%#x, %#x) = %#x, want %#x", seed, d, n, got,
				want)
			if narrow := (d>>32*n + (d&math.MaxUint32*n)>>32) >> 32; n < 1<<32 && narrow != want {
				t.Fatalf("seed %d: two narrow products give %#x for %#x, %#x, want %#x", seed, narrow, d, n, want)
			}
		}
	}
}

func TestFloatsAreExactAndBelowOne(t *testing.T) {
	for _, c := range []struct {
		d      uint64
		double float64
		single float32
	}{
		{0, 0, 0},
		{1<<11 - 1, 0, 0},
		{1 << 11, 0x1p-53, 0},
		{1 << 40, 0x1p-24, 0x1p-24},
		{1 << 63, 0.5, 0.5},
		{math.MaxUint64, 1 - 0x1p-53, 1 - 0x1p-24},
		{0xC000000000000000, 0.75, 0.75},
	} {
		got := Float64(c.d)
		expect.That(t, got == c.double, "Float64(%#x) = %v, want %v", c.d, got, c.double)
		if got := Float32(c.d); got != c.single {
			t.Errorf("Float32(%#x) = %v, want %v", c.d, got, c.single)
		}
	}
}
