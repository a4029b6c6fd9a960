package synthetic

import (
	"math/bits"

	"github.com/khop-gnn/khop/internal/rng"
)

// passes is the number of half-updates of a shuffle.
const passes = 6

// shuffle is a keyed bijection of 0 .. n-1 that takes no memory, whatever n. It differs from rng.Permutation, whose order is
// frozen and whose short orders are tables: here every class of a graph has a shuffle of its own, and each edge costs several
// evaluations. Order in a generated graph is no security matter, so fewer rounds do.
//
// Method: an alternating Feistel network on a pair (high, low) with high < rows and low < 2^width, the smallest such rectangle with
// n cells or more, and cycle walking: J. Black and P. Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002. The rectangle
// has fewer than 2^width cells too many, so that a second evaluation is rare.
type shuffle struct {
	n, rows uint64
	width   uint
	keys    [passes]uint64
}

func newShuffle(state, n uint64) shuffle {
	s := shuffle{n: n, width: uint(bits.Len64(n)) / 2}
	s.rows = (n + 1<<s.width - 1) >> s.width
	for i := range s.keys {
		s.keys[i] = rng.Draw(state, uint64(i))
	}
	return s
}

// at returns the item at position i < n.
func (s *shuffle) at(i uint64) uint64 {
	width := s.width & 63
	for {
		high, low := i>>width, i&(1<<width-1)
		for k := 0; k < passes; k += 2 {
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

// inverse returns the position of item x < n: inverse(at(i)) = i.
func (s *shuffle) inverse(x uint64) uint64 {
	width := s.width & 63
	for {
		high, low := x>>width, x&(1<<width-1)
		for k := passes - 2; k >= 0; k -= 2 {
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
