package synthetic

import (
	"math/bits"

	"github.com/khop-gnn/khop/internal/rng"
)

// The number of half-updates of a shuffle. With six, where neighbouring positions go is uniform for n from about 100
// on; with twelve for every n (measured by chi-square over pairs, 400,000 keys).
const (
	passesLong  = 6
	passesShort = 12
	shortest    = 4096 // the least n that takes passesLong
)

// shuffle is a keyed bijection of 0 .. n-1 that takes no memory, whatever n. rng.Permutation is frozen and makes tables
// of short orders; here every class of a graph has a shuffle of its own, and each edge costs several evaluations. Order
// in a generated graph is no security matter, so fewer rounds do.
//
// Method: an alternating Feistel network on a pair (high, low) with high < rows and low < 2^width, the smallest such
// rectangle with n cells or more, and cycle walking: J. Black and P. Rogaway, "Ciphers with arbitrary finite domains",
// CT-RSA 2002. A second evaluation is rare.
type shuffle struct {
	n, rows uint64
	width   uint
	passes  int
	keys    [passesShort]uint64
}

func newShuffle(state, n uint64) shuffle {
	s := shuffle{n: n, width: uint(bits.Len64(n)) / 2, passes: passesLong}
	if n < shortest {
		s.passes = passesShort
	}
	s.rows = (n + 1<<s.width - 1) >> s.width
	for i := range s.keys {
		s.keys[i] = rng.Draw(state, uint64(i))
	}
	return s
}

// at returns the item at position i. For i >= n, where there is none, it returns i.
func (s *shuffle) at(i uint64) uint64 {
	if i >= s.n {
		return i
	}
	width := s.width & 63
	for {
		high, low := i>>width, i&(1<<width-1)
		for k := 0; k+1 < s.passes; k += 2 {
			high += s.highUpdate(k, low)
			if high >= s.rows {
				high -= s.rows
			}
			low ^= s.lowUpdate(k+1, high)
		}
		if i = high<<width | low; i < s.n {
			return i
		}
	}
}

// inverse returns the position of item x: inverse(at(i)) = i. For x >= n it returns x.
func (s *shuffle) inverse(x uint64) uint64 {
	if x >= s.n {
		return x
	}
	width := s.width & 63
	for {
		high, low := x>>width, x&(1<<width-1)
		for k := s.passes - 2; k >= 0; k -= 2 {
			low ^= s.lowUpdate(k+1, high)
			d := s.highUpdate(k, low)
			if high < d {
				high += s.rows
			}
			high -= d
		}
		if x = high<<width | low; x < s.n {
			return x
		}
	}
}

func (s *shuffle) highUpdate(k int, low uint64) uint64 {
	return rng.Bounded(rng.Mix64(s.keys[k]+low*rng.Golden), s.rows)
}

func (s *shuffle) lowUpdate(k int, high uint64) uint64 {
	return rng.Mix64(s.keys[k]+high*rng.Golden) >> (64 - s.width)
}
