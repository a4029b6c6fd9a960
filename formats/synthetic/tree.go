package synthetic

import (
	"math"
	"math/bits"

	"github.com/khop-gnn/khop/internal/rng"
)

// tree splits a number of edges among ids 0 .. n-1 by repeated halving: an id whose bits from the highest of `levels`
// are x1 x2 .. has probability proportional to the product over levels of zero (bit 0) or 1-zero (bit 1), given that it
// is below n. The count of any id, or of any run of them, is found alone: each split is drawn from a stream of its own.
type tree struct {
	n, edges uint64
	levels   uint
	key      uint64
	zero     uint64     // probability of bit 0 as a fraction of 2^64
	edge     [64]uint64 // by the height of a subtree that n cuts through: probability of bit 0 there
}

// newTree returns the tree of edges among n >= 1 ids; zero is the probability of a 0 bit, at least 1/2 and below 1.
func newTree(key, n, edges uint64, zero float64) tree {
	t := tree{n: n, edges: edges, key: key, levels: uint(bits.Len64(n - 1)), zero: uint64(zero * 0x1p64)}
	for h := uint(1); h <= t.levels; h++ {
		half := uint64(1) << (h - 1)
		if rest := n & (1<<h - 1); rest > half {
			right := float64((1 - zero) * mass(h-1, rest-half, zero))
			t.edge[h] = uint64(min(zero/(zero+right)*0x1p64, 0x1p64-0x1p11))
		}
	}
	return t
}

// mass returns the probability that the lowest h bits of an id are a number below m <= 2^h.
func mass(h uint, m uint64, zero float64) float64 {
	p, sum := 1.0, 0.0
	for ; h > 0 && m < 1<<h; h-- {
		if half := uint64(1) << (h - 1); m > half {
			sum += float64(p * zero)
			p, m = float64(p*(1-zero)), m-half
		} else {
			p = float64(p * zero)
		}
		if m == 0 {
			return sum
		}
	}
	return sum + p
}

// counts sets out[i] to the edges of id first+i, for first+len(out) <= n.
func (t *tree) counts(first uint64, out []uint64) {
	t.descend(t.levels, 0, t.edges, first, out)
}

func (t *tree) descend(height uint, low, edges, first uint64, out []uint64) {
	if height == 0 {
		out[low-first] = edges
		return
	}
	mid, end := low+1<<(height-1), first+uint64(len(out))
	left := t.split(height, low, edges)
	if first < mid {
		t.descend(height-1, low, left, first, out[:min(uint64(len(out)), mid-first)])
	}
	if end > mid {
		from := max(first, mid)
		t.descend(height-1, mid, edges-left, from, out[from-first:])
	}
}

// count returns the edges of one id.
func (t *tree) count(id uint64) uint64 {
	edges := t.edges
	for h := t.levels; h > 0 && edges > 0; h-- {
		left := t.split(h, id>>h<<h, edges)
		if id>>(h-1)&1 == 0 {
			edges = left
		} else {
			edges -= left
		}
	}
	return edges
}

// split returns how many of the edges in the subtree of 2^height ids from low go to its lower half.
func (t *tree) split(height uint, low, edges uint64) uint64 {
	p := t.zero
	switch half := uint64(1) << (height - 1); {
	case low+half >= t.n:
		return edges
	case low+2*half > t.n:
		p = t.edge[height]
	}
	return binomial(rng.Stream(t.key, 1<<(t.levels-height)|low>>height), edges, p)
}

// exactTrials is the most trials that binomial counts one by one.
const exactTrials = 1024

// binomial returns the successes among n trials of probability p/2^64, from the stream with state s.
//
// Up to exactTrials the trials are made: 64 at a time, bit by bit of p, until all are decided, which takes about eight
// draws. Above, where the standard deviation is a dozen or more, it is the rounded normal approximation, with a sum of
// twelve uniforms in place of the normal variate (its tails end at six standard deviations).
func binomial(s, n, p uint64) uint64 {
	if n > exactTrials {
		return binomialNormal(s, n, p)
	}
	successes, draw := 0, uint64(0)
	for ; n > 0; n -= min(n, 64) {
		open, hit := ^uint64(0), uint64(0)
		if n < 64 {
			open = 1<<n - 1
		}
		// Lane by lane, a uniform number is compared with p from the highest bit; the first bit that differs decides.
		for bit := uint64(1) << 63; open != 0 && bit != 0; bit >>= 1 {
			d := rng.Draw(s, draw)
			draw++
			if p&bit != 0 {
				hit |= open &^ d
				open &= d
			} else {
				open &^= d
			}
		}
		successes += bits.OnesCount64(hit)
	}
	return uint64(successes)
}

func binomialNormal(s, n, p uint64) uint64 {
	sum := uint64(0)
	for i := range uint64(6) {
		d := rng.Draw(s, i)
		sum += d>>32 + d&(1<<32-1)
	}
	z := float64(float64(sum)*0x1p-32) - 6
	q := float64(float64(p) * 0x1p-64)
	mean := float64(float64(n) * q)
	x := mean + float64(z*math.Sqrt(float64(mean*(1-q)))) + 0.5
	if x < 0 {
		return 0
	}
	return min(uint64(x), n)
}
