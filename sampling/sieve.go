package sampling

import "github.com/khop-gnn/khop/internal/prefetch"

// sieve has a bit for a hash of each key of a set: most keys that are not in it have none.
type sieve [1024]uint64

func (s *sieve) add(key uint64) {
	h := key * prefetch.Multiplier >> 48
	s[h/64] |= 1 << (h % 64)
}

// has returns 1 for a key that may be in the set, 0 for one that is not.
func (s *sieve) has(key uint64) uint64 {
	h := key * prefetch.Multiplier >> 48
	return s[h/64] >> (h % 64) & 1
}
