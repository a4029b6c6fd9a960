package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// variates is a function of LABOR in the making: eight sources at a time, one a lane of 64 bits.
type variates struct {
	hasher
	golden, key reg.VecVirtual
}

// buildLabor writes the vector kernels of LABOR.
func buildLabor(g *gen) {
	iota := g.table("iota8", 8, func(i uint64) uint64 { return i })
	(&variates{hasher: hasher{gen: g}}).look(iota)
	(&variates{hasher: hasher{gen: g}}).lookTurn(iota)
	g.countUpTo()
	g.keepUpTo()
	g.leastOf()
}

// words loads the constants that every function needs.
func (s *variates) words() {
	s.word = s.GP64()
	s.golden = s.broadcast(U64(multiplier))
	s.constants()
}

// parameter returns a vector that has a parameter in every lane.
func (s *variates) parameter(name string) reg.VecVirtual {
	v := s.ZMM()
	s.VPBROADCASTQ(s.arg(name, s.word), v)
	return v
}

// draw is z = rng.Draw(rng.Stream(key, id), 0), where z is id * rng.Golden.
func (s *variates) draw(key, z reg.VecVirtual) {
	s.VPADDQ(key, z, z)
	s.mix(z)
	s.VPADDQ(s.golden, z, z)
	s.mix(z)
}

func (s *variates) look(iota Mem) {
	s.function("look8", "(ids *int32, n int, key, limit, first uint64, us, at *uint64) (seen int)",
		"look8 draws the variates of n sources. It writes those up to limit to us, and first plus their numbers to at,",
		"which have room for n and 7 more, and returns how many they are.")
	s.words()
	key := s.parameter("key")
	s.loop(iota, func(z reg.VecVirtual) { s.draw(key, z) })
}

func (s *variates) lookTurn(iota Mem) {
	s.function("lookTurn8",
		"(ids *int32, n int, key, next, phases, turn, limit, first uint64, us, at *uint64) (seen int)",
		"lookTurn8 is look8 where sources with a phase from turn on have the key next in place of key.")
	s.words()
	key, next, phases, turn := s.parameter("key"), s.parameter("next"), s.parameter("phases"), s.parameter("turn")
	s.loop(iota, func(z reg.VecVirtual) {
		phase, mine, ahead := s.ZMM(), s.ZMM(), s.K()
		s.VMOVDQA64(z, phase)
		s.draw(phases, phase)
		s.VPCMPUQ(Imm(5), turn, phase, ahead) // not less
		s.VMOVDQA64(key, mine)
		s.VMOVDQA64(next, ahead, mine)
		s.draw(mine, z)
	})
}

// loop goes over the sources; draw makes the variates of eight, given their ids times rng.Golden.
func (s *variates) loop(iota Mem, draw func(z reg.VecVirtual)) {
	limit := s.parameter("limit")
	number, eight := s.parameter("first"), s.broadcast(8)
	s.VPADDQ(iota, number, number)
	ids, n := s.arg("ids", s.GP64()), s.arg("n", reg.RCX)
	us, places := s.arg("us", s.GP64()), s.arg("at", s.GP64())
	seen, lanes, count, upTo, lane := s.GP64(), s.K(), s.GP64(), s.K(), s.GP64()
	s.XORQ(seen, seen)
	s.MOVL(U32(0xFF), lane.As32())
	s.KMOVW(lane.As32(), lanes)
	s.Label("next")
	s.SUBQ(Imm(8), n)
	s.JGE(LabelRef("eight"))
	s.Comment("the last of them: n + 8 lanes")
	s.ADDQ(Imm(8), n)
	s.JZ(LabelRef("done"))
	s.lowest(lane.As32())
	s.KMOVW(lane.As32(), lanes)
	s.XORQ(n, n)
	s.Label("eight")
	z, t := s.ZMM(), s.ZMM()
	half := s.YMM()
	s.VMOVDQU32_Z(at(ids, 0), lanes, half)
	s.VPMOVSXDQ(half, z)
	s.VPMULLQ(s.golden, z, z)
	draw(z)
	s.VPCMPUQ(Imm(2), limit, z, lanes, upTo)
	s.VPCOMPRESSQ_Z(z, upTo, t)
	s.VMOVDQU64(t, at2(us, seen, 8, 0))
	s.VPCOMPRESSQ_Z(number, upTo, t)
	s.VMOVDQU64(t, at2(places, seen, 8, 0))
	s.KMOVW(upTo, count.As32())
	s.POPCNTL(count.As32(), count.As32())
	s.ADDQ(count, seen)
	s.VPADDQ(eight, number, number)
	s.ADDQ(Imm(32), ids)
	s.TESTQ(n, n)
	s.JNZ(LabelRef("next"))
	s.Label("done")
	s.VZEROUPPER()
	s.Store(seen, s.Return("seen"))
	s.RET()
}

// countUpTo has no branch that depends on what is found.
func (g *gen) countUpTo() {
	g.function("countUpTo8", "(us *uint64, n int, limit uint64) (count int)",
		"countUpTo8 returns how many of n numbers, 1 or more, are up to limit. It reads up to 7 more.")
	us, n, word, limit := g.arg("us", g.GP64()), g.arg("n", reg.RCX), g.GP64(), g.ZMM()
	g.VPBROADCASTQ(g.arg("limit", word), limit)
	count, bits, lanes := g.GP64(), g.GP64(), g.K()
	g.XORQ(count, count)
	g.Label("next")
	g.VPCMPUQ(Imm(5), at(us, 0), limit, lanes) // limit not less
	g.KMOVW(lanes, bits.As32())
	g.ADDQ(Imm(64), us)
	g.SUBQ(Imm(8), n)
	g.JLE(LabelRef("last"))
	g.POPCNTL(bits.As32(), bits.As32())
	g.ADDQ(bits, count)
	g.JMP(LabelRef("next"))
	g.Label("last")
	g.Comment("8 + n lanes count")
	g.NEGQ(n)
	mask := g.GP64()
	g.MOVL(U32(0xFF), mask.As32())
	g.SHRL(reg.CL, mask.As32())
	g.ANDL(mask.As32(), bits.As32())
	g.POPCNTL(bits.As32(), bits.As32())
	g.ADDQ(bits, count)
	g.VZEROUPPER()
	g.Store(count, g.Return("count"))
	g.RET()
}

// keepUpTo goes over a list in place: what it writes lies at or before what it reads next.
func (g *gen) keepUpTo() {
	g.function("keepUpTo8", "(us, at *uint64, n int, limit uint64)",
		"keepUpTo8 keeps those of n numbers, 1 or more, that are up to limit, and what stands beside them. Both lists",
		"have room for 7 more.")
	us, places, n, word := g.arg("us", g.GP64()), g.arg("at", g.GP64()), g.arg("n", g.GP64()), g.GP64()
	limit, z, t, lanes, count, to := g.ZMM(), g.ZMM(), g.ZMM(), g.K(), g.GP64(), g.GP64()
	g.VPBROADCASTQ(g.arg("limit", word), limit)
	from := g.GP64()
	g.XORQ(to, to)
	g.XORQ(from, from)
	g.Label("next")
	g.VMOVDQU64(at2(us, from, 8, 0), z)
	g.VMOVDQU64(at2(places, from, 8, 0), t)
	g.VPCMPUQ(Imm(2), limit, z, lanes)
	g.KMOVW(lanes, count.As32())
	g.POPCNTL(count.As32(), count.As32())
	g.VPCOMPRESSQ_Z(z, lanes, z)
	g.VPCOMPRESSQ_Z(t, lanes, t)
	g.VMOVDQU64(z, at2(us, to, 8, 0))
	g.VMOVDQU64(t, at2(places, to, 8, 0))
	g.ADDQ(count, to)
	g.ADDQ(Imm(8), from)
	g.CMPQ(from, n)
	g.JLT(LabelRef("next"))
	g.leave()
}

// mostVectors is how many vectors of numbers leastOf8 holds in registers.
const mostVectors = 4

// leastOf counts, for each number, how many are less: one comparison a vector and number, and no branch that depends on
// what is found but for the loop's end.
func (g *gen) leastOf() {
	g.function("leastOf8", "(us, at *uint64, n, k int) (found int)",
		"leastOf8 keeps what stands beside the k least of n numbers, 1 to 32, in their order. It returns how many",
		"numbers have fewer than k below them: where these are not k, since some are equal, it changes nothing.",
		"Both lists have room for 7 more.")
	us, places, n, k := g.arg("us", g.GP64()), g.arg("at", g.GP64()), g.arg("n", reg.RCX), g.arg("k", g.GP64())
	word, found, j, end, one, top := g.GP64(), g.GP64(), g.GP64(), g.GP64(), g.ZMM(), g.ZMM()
	g.MOVQ(U64(1), word)
	g.VPBROADCASTQ(word, one)
	g.VPBROADCASTQ(k, top)
	g.MOVQ(us, j)
	g.LEAQ(at2(us, n, 8, 0), end)
	for v := 1; v < mostVectors; v++ {
		g.CMPQ(n, Imm(uint64(8*v)))
		g.JLE(LabelRef(fmt.Sprintf("vectors%d", v)))
	}
	for v := mostVectors; v > 0; v-- {
		g.leastOfVectors(v, us, places, n, k, word, found, j, end, one, top)
	}
	g.Label("done")
	g.VZEROUPPER()
	g.Store(found, g.Return("found"))
	g.RET()
}

// leastOfVectors is leastOf8 for up to 8 v numbers.
func (g *gen) leastOfVectors(v int, us, places, n, k reg.Register, word, found, j, end reg.GPVirtual,
	one, top reg.VecVirtual) {
	name := fmt.Sprintf("vectors%d", v)
	g.Label(name)
	var numbers, below [mostVectors]reg.VecVirtual
	var lanes [mostVectors]reg.OpmaskVirtual
	var counts [mostVectors]reg.GPVirtual
	for i := range v {
		numbers[i], below[i], lanes[i], counts[i] = g.ZMM(), g.ZMM(), g.K(), g.GP64()
		g.VMOVDQU64(at(us, 64*i), numbers[i])
		g.VPXORQ(below[i], below[i], below[i])
	}
	g.Label(name + "next")
	each := g.ZMM()
	g.VPBROADCASTQ(at(j, 0), each)
	for i := range v {
		g.VPCMPUQ(Imm(1), numbers[i], each, lanes[i]) // less
		g.VPADDQ(one, below[i], lanes[i], below[i])
	}
	g.ADDQ(Imm(8), j)
	g.CMPQ(j, end)
	g.JLT(LabelRef(name + "next"))
	g.Comment("the last vector has n numbers less those before")
	g.SUBQ(Imm(uint64(8*(v-1))), n)
	bits, last := word.As32(), g.K()
	g.lowest(bits)
	g.KMOVW(bits, last)
	g.XORQ(found, found)
	for i := range v {
		if i == v-1 {
			g.VPCMPUQ(Imm(1), top, below[i], last, lanes[i])
		} else {
			g.VPCMPUQ(Imm(1), top, below[i], lanes[i])
		}
		g.KMOVW(lanes[i], counts[i].As32())
		g.POPCNTL(counts[i].As32(), counts[i].As32())
		g.ADDQ(counts[i], found)
	}
	g.CMPQ(found, k)
	g.JNE(LabelRef("done"))
	g.XORQ(j, j)
	for i := range v {
		g.VMOVDQU64(at(places, 64*i), each)
		g.VPCOMPRESSQ_Z(each, lanes[i], each)
		g.VMOVDQU64(each, at2(places, j, 8, 0))
		g.ADDQ(counts[i], j)
	}
	if v > 1 {
		g.JMP(LabelRef("done"))
	}
}
