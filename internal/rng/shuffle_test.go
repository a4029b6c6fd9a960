//go:build !race

package rng

import (
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// feistelBySpec evaluates the network with any number of round keys, worded as the specification words it.
func feistelBySpec(keys []uint64, w uint, x uint64) uint64 {
	l, r := x>>w, x&(1<<w-1)
	for _, k := range keys {
		f := Mix64(k+r*Golden) >> (64 - w)
		l, r = r, l^f
	}
	return l<<w | r
}

// halfBits is the smallest w with 2^(2w) >= n.
func halfBits(n uint64) uint {
	w := uint(0)
	for 2*w < 64 && uint64(1)<<(2*w) < n {
		w++
	}
	return w
}

// checkBijection looks at every position: its item must be in range and that of no other position.
func checkBijection(t *testing.T, p *Permutation, s uint64) {
	t.Helper()
	seen := make([]bool, p.Len())
	for i := range p.Len() {
		x := p.At(i)
		if x >= p.Len() || seen[x] {
			t.Fatalf("s %#x, n %d: At(%d) = %d is out of range, or another position's", s, p.Len(), i, x)
		}
		seen[x] = true
	}
}

func TestPermutationIsABijection(t *testing.T) {
	const seed = 5
	lengths := []uint64{0, 1, 2, 3, 4, 5, 15, 16, 17, 255, 256, 257, 1 << 14, 1<<16 - 1, 1 << 16, 1<<16 + 1, 1<<18 - 1,
		1 << 18, 1<<18 + 1}
	for i := range uint64(6) { // on both sides of the limit between the methods
		lengths = append(lengths, 1<<16-1000+Bounded(Draw(seed, i), 2000))
	}
	for i, n := range lengths {
		s := Draw(^uint64(seed), uint64(i))
		p := NewPermutation(s, n)
		expect.Ensure(t, p.Len() == n, "Len() = %d, want %d", p.Len(), n)
		checkBijection(t, p, s)
	}
}

// The network serves long lists only; its arithmetic is checked exhaustively on short ones, where every shape of cycle
// walking occurs.
func TestFeistelIsABijectionAtEveryLength(t *testing.T) {
	const seed = 6
	for n := uint64(2); n <= 300; n++ {
		s := Draw(seed, n)
		p := Permutation{n: n}
		p.feistel(s)
		checkBijection(t, &p, s)
	}
}

func TestLongPermutationsFollowTheSpecification(t *testing.T) {
	const seed = 7
	lengths := []uint64{1<<16 + 1, 70001, 1<<63 - 1, 1 << 63}
	for w := range 23 { // around every power of 4 above the limit
		n := uint64(1) << (18 + 2*w)
		lengths = append(lengths, n-1, n, n+1)
	}
	for i := range uint64(60) {
		lengths = append(lengths, max(1<<16+1, Draw(seed, i)>>(1+i%47)))
	}
	for c, n := range lengths {
		s := Draw(^uint64(seed), uint64(c))
		p := NewPermutation(s, n)
		keys := make([]uint64, 8)
		for r := range keys {
			keys[r] = Draw(s, uint64(r))
		}
		w := halfBits(n)
		for j := range uint64(40) {
			i := Bounded(Draw(s+1, j), n)
			switch j {
			case 0:
				i = 0
			case 1:
				i = n - 1
			}
			x := feistelBySpec(keys, w, i)
			for x >= n {
				x = feistelBySpec(keys, w, x)
			}
			got := p.At(i)
			expect.Ensure(t, got == x, "s %#x, n %d: At(%d) = %d, want %d", s, n, i, got, x)
		}
	}
}

func TestPositionsOutOfRangeStayOutOfRange(t *testing.T) {
	var zero Permutation
	for _, p := range []*Permutation{&zero, NewPermutation(1, 0), NewPermutation(1, 1), NewPermutation(1, 1000),
		NewPermutation(1, 1<<16), NewPermutation(1, 1<<16+1), NewPermutation(1, 1<<63)} {
		for _, beyond := range []uint64{0, 1, 1 << 20, 1<<63 - 1} {
			i := p.Len() + beyond
			if x := p.At(i); x != i {
				t.Errorf("n %d: At(%d) = %d", p.Len(), i, x)
			}
		}
	}
}

func FuzzPermutation(f *testing.F) {
	f.Add(uint64(1), uint64(1), uint64(0))
	f.Add(uint64(2), uint64(1<<16), uint64(65535))
	f.Add(uint64(3), uint64(1<<16+1), uint64(65536))
	f.Add(uint64(4), uint64(1<<63), uint64(1)<<63-1)
	f.Fuzz(func(t *testing.T, s, n, i uint64) {
		p := NewPermutation(s, n)
		if i >= n {
			x := p.At(i)
			expect.That(t, x == i, "s %#x, n %d: At(%d) = %d", s, n, i, x)
			return
		}
		if x := p.At(i); x >= n || n > 1 && x == p.At((i+1)%n) {
			t.Errorf("s %#x, n %d: At(%d) = %d is out of range, or the next position's too", s, n, i, x)
		}
	})
}
