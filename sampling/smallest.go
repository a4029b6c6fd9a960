package sampling

import (
	"cmp"
	"slices"

	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/unified"
)

// smallest keeps the edges with the k smallest keys of those that were added, in the order of their positions. Of equal
// keys the earlier edges count as smaller, or, with last, the later ones. Edges come in ascending order.
type smallest[K float64 | int64] struct {
	last  bool
	keys  []K
	at    []int64 // positions, ascending
	n     int     // candidates, of which the k smallest count
	k     int
	bound bool // only keys up to limit can count
	limit K

	keyMem, atMem, tmpMem unified.Buffer
	tmp                   []K
}

// room is how many candidates are kept before all but k are dropped.
func (s *smallest[K]) room() int { return 2*s.k + 64 }

// smallestBytes is the memory of a smallest for up to k of n edges.
func smallestBytes(k, n int64) int64 {
	return sat.Mul(24, min(sat.Add(sat.Mul(2, k), 64), sat.Add(n, 64)))
}

// begin makes room for the k smallest of n edges.
func (s *smallest[K]) begin(k int, n int64) error {
	s.k, s.n, s.bound = k, 0, false
	need := min(int64(s.room()), n+64)
	return cmp.Or(grow(&s.keys, &s.keyMem, need, 0), grow(&s.at, &s.atMem, need, 0), grow(&s.tmp, &s.tmpMem, need, 0))
}

func (s *smallest[K]) buffers() []*unified.Buffer {
	return []*unified.Buffer{&s.keyMem, &s.atMem, &s.tmpMem}
}

// add adds an edge, unless its key is over the limit.
func (s *smallest[K]) add(key K, at int64) {
	if s.bound && key > s.limit {
		return
	}
	if s.n == s.room() {
		s.drop()
	}
	s.keys[s.n], s.at[s.n] = key, at
	s.n++
}

// end returns the positions of the k smallest, or of all where there are fewer.
func (s *smallest[K]) end() []int64 {
	if s.n > s.k {
		s.drop()
	}
	return s.at[:s.n]
}

// drop drops all candidates but the k smallest, the greatest of which is the limit from then on. Fewer than k stay as
// they are.
func (s *smallest[K]) drop() {
	if s.n < s.k {
		return
	}
	tmp := s.tmp[:s.n]
	copy(tmp, s.keys[:s.n])
	nth(tmp, s.k-1)
	limit := tmp[s.k-1]
	equal := s.k // of the edges whose key is the limit, how many stay
	for _, x := range tmp[:s.k] {
		if x < limit {
			equal--
		}
	}
	skip := 0
	if s.last {
		for _, x := range s.keys[:s.n] {
			if x == limit {
				skip++
			}
		}
		skip -= equal
	}
	n := 0
	for i, x := range s.keys[:s.n] {
		if x > limit {
			continue
		}
		if x == limit {
			if skip > 0 {
				skip--
				continue
			}
			if equal == 0 {
				continue
			}
			equal--
		}
		s.keys[n], s.at[n] = x, s.at[i]
		n++
	}
	s.n, s.bound, s.limit = n, true, limit
}

// nth brings the element that belongs at i there, those that are smaller before it.
func nth[K float64 | int64](x []K, i int) {
	for len(x) > 16 {
		lo, hi := x[0], x[len(x)-1]
		pivot := x[len(x)/2] // the median of three
		if lo > hi {
			lo, hi = hi, lo
		}
		pivot = min(max(pivot, lo), hi)
		a, b := 0, len(x)-1
		for a <= b {
			for x[a] < pivot {
				a++
			}
			for x[b] > pivot {
				b--
			}
			if a <= b {
				x[a], x[b] = x[b], x[a]
				a++
				b--
			}
		}
		switch {
		case i <= b:
			x = x[:b+1]
		case i >= a:
			x, i = x[a:], i-a
		default:
			return
		}
	}
	slices.Sort(x)
}
