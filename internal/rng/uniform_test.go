//go:build !race

package rng

import (
	"slices"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

type sampler func(dst []uint64, s, n, k uint64) []uint64

type shuffler func(dst []uint64, s, n uint64) []uint64

// A streamer makes a stream's state from all that it depends on.
type streamer func(seed uint64, epoch, instance uint32, batch, typeKey uint64, p Purpose, hop uint8,
	index uint64) uint64

func stateOf(seed uint64, epoch, instance uint32, batch, typeKey uint64, p Purpose, hop uint8, index uint64) uint64 {
	return Stream(StageKey(BatchKey(seed, epoch, instance, batch), typeKey, p, hop), index)
}

func permute(dst []uint64, s, n uint64) []uint64 {
	p := NewPermutation(s, n)
	for i := range n {
		dst = append(dst, p.At(i))
	}
	return dst
}

// overNodes draws one subset a node id, as a hop does.
func overNodes(f sampler, seed, n, k uint64) func(i uint64) []uint64 {
	stage := StageKey(BatchKey(seed, 0, 0, 0), 0, Pick, 0)
	var dst []uint64
	return func(i uint64) []uint64 {
		dst = f(dst[:0], Stream(stage, i), n, k)
		return dst
	}
}

// overEpochs draws one order an epoch, as a loader does.
func overEpochs(f shuffler, seed, n uint64) func(i uint64) []uint64 {
	var dst []uint64
	return func(i uint64) []uint64 {
		dst = f(dst[:0], Stream(StageKey(BatchKey(seed, uint32(i), 0, 0), 0, Shuffle, 0), 0), n)
		return dst
	}
}

// bin maps an item of 0 .. n-1 to one of b equal ranges, for n below 2^56 and b of at most 256.
func bin(x, n, b uint64) uint64 { return x * b / n }

// The tests of the sampled sets. Each says, in its second column, the bias that it must find; see verdict.resolution.
func subsetTests(f sampler, seed uint64) []uniformity {
	return []uniformity{
		{"all 3-subsets of 7", 0.012, func() verdict { return subsetCells(7, 3, 1_000_000, overNodes(f, seed, 7, 3)) }},
		{"all 4-subsets of 8", 0.017, func() verdict { return subsetCells(8, 4, 600_000, overNodes(f, seed, 8, 4)) }},
		{"all 2-subsets of 65", 0.040, func() verdict {
			return subsetCells(65, 2, 400_000, overNodes(f, seed, 65, 2))
		}},
		{"pairs within 10-subsets of 64", 0.015, func() verdict {
			return pairCells(64, 10, 100_000, overNodes(f, seed, 64, 10))
		}},
		{"pairs within 15-subsets of 100", 0.017, func() verdict {
			return pairCells(100, 15, 60_000, overNodes(f, seed, 100, 15))
		}},
	}
}

func shuffleTests(f shuffler, seed uint64) []uniformity {
	return []uniformity{
		{"all orders of 5", 0.026, func() verdict { return orderCells(5, 300_000, overEpochs(f, seed, 5)) }},
		{"items at positions, of 20", 0.013, func() verdict {
			return positionCells(20, 100_000, overEpochs(f, seed, 20))
		}},
	}
}

// longTests are for orders too long to list: at(s, n, i) is the item at position i.
func longTests(at func(s, n, i uint64) uint64, seed uint64) []uniformity {
	const b = 16
	tests := []uniformity{}
	for _, c := range []struct {
		what    string
		n, i, j uint64
	}{
		{"first items of 70001", 70001, 0, 1},
		{"items of 70001 that differ in the left half", 70001, 5, 5 + 1<<9},
		{"first and last item of 2^40", 1 << 40, 0, 1<<40 - 1},
		{"items of 2^40 that differ in the left half", 1 << 40, 3, 3 + 1<<20},
	} {
		tests = append(tests, uniformity{c.what, 0.065, func() verdict {
			return jointCells(b, 60_000, func(e uint64) (x, y uint64) {
				s := Stream(StageKey(BatchKey(seed, uint32(e), 0, 0), 0, Shuffle, 0), 0)
				return bin(at(s, c.n, c.i), c.n, b), bin(at(s, c.n, c.j), c.n, b)
			})
		}})
	}
	return tests
}

// streamTests look at subsets of two streams whose keys differ in one input only; stream makes the state from all of
// them.
func streamTests(stream streamer, seed uint64) []uniformity {
	const k, b = 3, 10 // 3 of 5
	typeKey, _ := EdgeTypeKey("user", "rates", "item")
	tests := []uniformity{}
	for _, c := range []struct {
		what  string
		other func(i uint64) uint64
	}{
		{"next index", func(i uint64) uint64 { return stream(seed, 0, 0, 0, 0, Pick, 0, i+1) }},
		{"index 2^32 further", func(i uint64) uint64 { return stream(seed, 0, 0, 0, 0, Pick, 0, i+1<<32) }},
		{"next seed", func(i uint64) uint64 { return stream(seed+1, 0, 0, 0, 0, Pick, 0, i) }},
		{"next epoch", func(i uint64) uint64 { return stream(seed, 1, 0, 0, 0, Pick, 0, i) }},
		{"next instance", func(i uint64) uint64 { return stream(seed, 0, 1, 0, 0, Pick, 0, i) }},
		{"next batch", func(i uint64) uint64 { return stream(seed, 0, 0, 1, 0, Pick, 0, i) }},
		{"other type", func(i uint64) uint64 { return stream(seed, 0, 0, 0, typeKey, Pick, 0, i) }},
		{"other purpose", func(i uint64) uint64 { return stream(seed, 0, 0, 0, 0, Walk, 0, i) }},
		{"next hop", func(i uint64) uint64 { return stream(seed, 0, 0, 0, 0, Pick, 1, i) }},
	} {
		var dst []uint64
		rank := func(s uint64) uint64 {
			dst = Floyd(dst[:0], s, 5, k)
			return subsetRank(dst)
		}
		tests = append(tests, uniformity{c.what, 0.056, func() verdict {
			return jointCells(b, 60_000, func(i uint64) (x, y uint64) {
				return rank(stream(seed, 0, 0, 0, 0, Pick, 0, i)), rank(c.other(i))
			})
		}})
	}
	return tests
}

// A uniformity is one test: what it looks at, the bias that it must be able to find, and the test itself.
type uniformity struct {
	what  string
	finds float64
	run   func() verdict
}

func demandUniform(t *testing.T, seed uint64, tests []uniformity) {
	t.Helper()
	for _, u := range tests {
		v := u.run()
		r := v.resolution()
		expect.That(t, r <= u.finds, "%s: the test finds a bias of %.4f only, want %.4f", u.what, r, u.finds)
		expect.That(t, !v.rejects(), "seed %d: %s: %v", seed, u.what, v)
		t.Logf("seed %d: %s: %v", seed, u.what, v)
	}
}

// demandRejection fails unless one of the tests rejects.
func demandRejection(t *testing.T, seed uint64, tests []uniformity) {
	t.Helper()
	for _, u := range tests {
		if v := u.run(); v.rejects() {
			t.Logf("seed %d: rejected by %s: %v", seed, u.what, v)
			return
		}
	}
	t.Errorf("seed %d: none of %d tests rejects it", seed, len(tests))
}

func TestFloydSubsetsAreUniform(t *testing.T) { demandUniform(t, 11, subsetTests(Floyd, 11)) }
func TestShufflesAreUniform(t *testing.T)     { demandUniform(t, 12, shuffleTests(permute, 12)) }
func TestStreamsAreIndependent(t *testing.T)  { demandUniform(t, 14, streamTests(stateOf, 14)) }
func TestLongShufflesAreUniform(t *testing.T) {
	at := func(s, n, i uint64) uint64 { return NewPermutation(s, n).At(i) }
	demandUniform(t, 13, longTests(at, 13))
}

// floydWith is Floyd's method with any way to choose t from 0 .. i.
func floydWith(pick func(s, j, i uint64) uint64) sampler {
	return func(dst []uint64, s, n, k uint64) []uint64 {
		for j := range k {
			i := n - k + j
			t := pick(s, j, i)
			if slices.Contains(dst, t) {
				t = i
			}
			dst = append(dst, t)
		}
		slices.Sort(dst)
		return dst
	}
}

// swapsWith is the Fisher-Yates shuffle with any way to choose j from 0 .. i.
func swapsWith(pick func(d, i, n uint64) uint64) shuffler {
	return func(dst []uint64, s, n uint64) []uint64 {
		for i := range n {
			dst = append(dst, i)
		}
		for i := n - 1; i >= 1; i-- {
			j := pick(Draw(s, n-1-i), i, n)
			dst[i], dst[j] = dst[j], dst[i]
		}
		return dst
	}
}

// networkWith is the long shuffle with another number of rounds, or another way back into range than cycle walking.
func networkWith(rounds int, fold bool) func(s, n, i uint64) uint64 {
	return func(s, n, i uint64) uint64 {
		var keys [8]uint64
		for r := range keys {
			keys[r] = Draw(s, uint64(r))
		}
		w := halfBits(n)
		x := feistelBySpec(keys[:rounds], w, i)
		for x >= n {
			if fold {
				x %= n
			} else {
				x = feistelBySpec(keys[:rounds], w, x)
			}
		}
		return x
	}
}

// The tests above are worth what they find: each mistake planted here must be rejected by at least one test of its
// family, and the same constructions without the mistake by none.
func TestUniformityTestsFindPlantedMistakes(t *testing.T) {
	const seed = 15
	fair := func(s, j, i uint64) uint64 { return Bounded(Draw(s, j), i+1) }
	for _, c := range []struct {
		what   string
		reject bool
		tests  []uniformity
	}{
		{"Floyd", false, subsetTests(floydWith(fair), seed)},
		{"Floyd with a bound one short", true, subsetTests(floydWith(
			func(s, j, i uint64) uint64 { return Bounded(Draw(s, j), i) }), seed)},
		{"Floyd with the remainder of 8 bits", true, subsetTests(floydWith(
			func(s, j, i uint64) uint64 { return Draw(s, j) >> 56 % (i + 1) }), seed)},
		{"Floyd with one draw for all picks", true, subsetTests(floydWith(
			func(s, j, i uint64) uint64 { return fair(s, 0, i) }), seed)},
		{"Floyd with draws that overlap by 48 bits", true, subsetTests(floydWith(
			func(s, j, i uint64) uint64 { return Bounded(Draw(s, 0)<<(16*j), i+1) }), seed)},
		{"the first k", true, subsetTests(func(dst []uint64, s, n, k uint64) []uint64 { return Floyd(dst, s, k, k) },
			seed)},

		{"Fisher-Yates", false, shuffleTests(swapsWith(func(d, i, n uint64) uint64 { return Bounded(d, i+1) }), seed)},
		{"Fisher-Yates with a bound one short (Sattolo)", true, shuffleTests(swapsWith(
			func(d, i, n uint64) uint64 { return Bounded(d, i) }), seed)},
		{"Fisher-Yates with exchanges over all items", true, shuffleTests(swapsWith(
			func(d, i, n uint64) uint64 { return Bounded(d, n) }), seed)},
		{"Fisher-Yates with the remainder of 8 bits", true, shuffleTests(swapsWith(
			func(d, i, n uint64) uint64 { return d >> 56 % (i + 1) }), seed)},

		{"a network of 8 rounds", false, longTests(networkWith(8, false), seed)},
		{"a network of 2 rounds", true, longTests(networkWith(2, false), seed)},
		{"a network folded instead of walked", true, longTests(networkWith(8, true), seed)},
	} {
		t.Run(c.what, func(t *testing.T) {
			if c.reject {
				demandRejection(t, seed, c.tests)
			} else {
				demandUniform(t, seed, c.tests)
			}
		})
	}
}

// A key that forgets an input gives two stages the same streams: the test of just that input must see it.
func TestStreamTestsFindForgottenInputs(t *testing.T) {
	const seed = 16
	for what, broken := range map[string]streamer{
		"next seed": func(_ uint64, e, n uint32, b, t uint64, p Purpose, h uint8, i uint64) uint64 {
			return stateOf(0, e, n, b, t, p, h, i)
		},
		"next epoch": func(s uint64, _, n uint32, b, t uint64, p Purpose, h uint8, i uint64) uint64 {
			return stateOf(s, 0, n, b, t, p, h, i)
		},
		"next instance": func(s uint64, e, _ uint32, b, t uint64, p Purpose, h uint8, i uint64) uint64 {
			return stateOf(s, e, 0, b, t, p, h, i)
		},
		"next batch": func(s uint64, e, n uint32, _, t uint64, p Purpose, h uint8, i uint64) uint64 {
			return stateOf(s, e, n, 0, t, p, h, i)
		},
		"other type": func(s uint64, e, n uint32, b, _ uint64, p Purpose, h uint8, i uint64) uint64 {
			return stateOf(s, e, n, b, 0, p, h, i)
		},
		"other purpose": func(s uint64, e, n uint32, b, t uint64, _ Purpose, h uint8, i uint64) uint64 {
			return stateOf(s, e, n, b, t, 0, h, i)
		},
		"next hop": func(s uint64, e, n uint32, b, t uint64, p Purpose, _ uint8, i uint64) uint64 {
			return stateOf(s, e, n, b, t, p, 0, i)
		},
		"index 2^32 further": func(s uint64, e, n uint32, b, t uint64, p Purpose, h uint8, i uint64) uint64 {
			return stateOf(s, e, n, b, t, p, h, i&(1<<32-1))
		},
		// Without the mixing of the state, draw i+1 of a stream is draw i of the next.
		"next index": func(s uint64, e, n uint32, b, t uint64, p Purpose, h uint8, i uint64) uint64 {
			return StageKey(BatchKey(s, e, n, b), t, p, h) + i*Golden
		},
	} {
		tests := slices.DeleteFunc(streamTests(broken, seed), func(u uniformity) bool { return u.what != what })
		t.Run("forgotten: "+what, func(t *testing.T) { demandRejection(t, seed, tests) })
	}
}
