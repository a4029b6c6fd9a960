package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// subset is subset8 or subset16 in the making. z is the draws, one a lane of 32 bits.
type subset struct {
	hasher
	lanes int
	z     reg.VecVirtual
}

// hasher makes random numbers, one a lane of 64 bits.
type hasher struct {
	*gen
	mixers [2]reg.VecVirtual
	word   reg.GPVirtual // work
}

// constants loads those of mix.
func (s *hasher) constants() {
	s.mixers = [2]reg.VecVirtual{s.broadcast(0xBF58476D1CE4E5B9), s.broadcast(0x94D049BB133111EB)}
}

// broadcast returns a vector that has a word in every lane.
func (s *hasher) broadcast(word U64) reg.VecVirtual {
	v := s.ZMM()
	s.MOVQ(word, s.word)
	s.VPBROADCASTQ(s.word, v)
	return v
}

// mix is z = rng.Mix64(z).
func (s *hasher) mix(z reg.VecVirtual) {
	t := s.ZMM()
	for i, shift := range []uint64{30, 27, 31} {
		s.VPSRLQ(Imm(shift), z, t)
		s.VPXORQ(t, z, z)
		if i < len(s.mixers) {
			s.VPMULLQ(s.mixers[i], z, z)
		}
	}
}

// table writes a constant of 64-bit words.
func (g *gen) table(name string, n int, word func(i uint64) uint64) Mem {
	m := g.StaticGlobal(name)
	g.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range n {
		g.AppendDatum(U64(word(uint64(i))))
	}
	return m
}

// buildSubset writes the vector kernel of sampling.
func buildSubset(g *gen) {
	goldens := g.table("goldens", 16, func(i uint64) uint64 { return (i + 1) * multiplier })
	counts := g.table("counts", 16, func(i uint64) uint64 { return i + 1 })
	lanes := g.table("lanes", 8, func(i uint64) uint64 { return (2*i+1)<<32 | 2*i })
	for _, n := range []int{8, 16} {
		buildSubsetOf(&subset{hasher: hasher{gen: g}, lanes: n}, goldens, counts, lanes)
	}
}

func buildSubsetOf(g *subset, goldens, counts, lanes Mem) {
	name, s := fmt.Sprintf("subset%d", g.lanes), g
	g.function(name, "(pos *int64, k int, stream uint64, start int64, n uint64)",
		fmt.Sprintf("%s is subset for 1 <= k <= %d picks and k < n < 2^32: all draws at once, one a lane, then a", name,
			g.lanes), "bitonic sort.")
	s.word = g.GP64()
	k := g.arg("k", reg.RCX)
	stream, rest := g.arg("stream", g.GP64()), g.arg("n", g.GP64())
	one, used := g.GP32(), g.K()
	g.lowest(one)
	g.KMOVW(one, used)
	g.Comment("rest is n - k: draw j, in lane j, is a number of 0 .. n-k+j")
	g.SUBQ(k, rest)
	s.draw(stream, rest, goldens, counts)
	s.replace(rest, used, lanes)
	s.sort(used)
	s.deliver(used)
	g.leave()
}

// draw makes the 16 draws, 8 in each of two vectors, and joins them as 32-bit lanes.
func (s *subset) draw(stream, rest reg.Register, goldens, counts Mem) {
	all, z := s.ZMM(), []reg.VecVirtual{s.ZMM(), s.ZMM()}[:s.lanes/8]
	s.VPBROADCASTQ(stream, all)
	for i := range z {
		s.VPADDQ(goldens.Offset(64*i), all, z[i])
	}
	s.constants()
	for i := range z {
		s.mix(z[i])
	}
	s.VPBROADCASTQ(rest, all)
	for i := range z {
		n := s.ZMM()
		s.VPADDQ(counts.Offset(64*i), all, n)
		s.bound(z[i], n)
	}
	low, high := s.YMM(), s.YMM()
	s.VPMOVQD(z[0], low)
	if s.z = low; s.lanes == 8 {
		return
	}
	s.z = s.ZMM()
	s.VPMOVQD(z[1], high)
	s.VINSERTI64X4(Imm(1), high, low.AsZ(), s.z)
}

// bound is z = z * n >> 64, for n below 2^32.
func (s *subset) bound(z, n reg.VecVirtual) {
	t := s.ZMM()
	s.VPSRLQ(Imm(32), z, t)
	s.VPMULUDQ(n, t, t)
	s.VPMULUDQ(n, z, z)
	s.VPSRLQ(Imm(32), z, z)
	s.VPADDQ(t, z, z)
	s.VPSRLQ(Imm(32), z, z)
}

// replace makes Floyd's set of the draws. Draw j is in the set already if an earlier draw equals it (it is in the set,
// at the latest by then), or if it is n-k+m of a draw m < j that was replaced by that.
func (s *subset) replace(rest reg.Register, used reg.OpmaskVirtual, lanes Mem) {
	replaced, more := s.GP32(), s.GP32()
	first, clash, m, lane, ones := s.vector(), s.vector(), s.vector(), s.vector(), s.vector()
	again, candidates := s.K(), s.K()
	s.VPCONFLICTD(s.z, clash)
	s.VPTESTMD(clash, clash, used, again)
	s.KMOVW(again, replaced)
	s.TESTL(replaced, replaced)
	s.JZ(LabelRef("sort"))
	s.VPBROADCASTD(rest.(reg.GPVirtual).As32(), first)
	s.VPSUBD(first, s.z, m)
	s.VMOVDQU32(lanes, lane)
	s.Comment("m of each lane, or a great number")
	s.VPCMPUD(Imm(1), lane, m, used, candidates)
	s.KMOVW(candidates, more)
	s.TESTL(more, more)
	s.JZ(LabelRef("replace"))
	s.VPTERNLOGD(Imm(0xFF), ones, ones, ones)
	s.VPSRLD(Imm(31), ones, ones)
	s.Label("again")
	bits := s.vector()
	s.VPBROADCASTD(replaced, bits)
	s.VPSRLVD(m, bits, bits)
	s.VPTESTMD(ones, bits, candidates, again)
	s.KMOVW(again, more)
	s.ORL(replaced, more)
	s.CMPL(more, replaced)
	s.JE(LabelRef("replace"))
	s.MOVL(more, replaced)
	s.JMP(LabelRef("again"))
	s.Label("replace")
	s.KMOVW(replaced, again)
	s.VPADDD(lane, first, again, s.z)
}

// sort is a bitonic sort of all lanes; those out of use go last.
func (s *subset) sort(used reg.OpmaskVirtual) {
	s.Label("sort")
	unused, ones := s.K(), s.vector()
	s.VPTERNLOGD(Imm(0xFF), ones, ones, ones)
	s.KNOTW(used, unused)
	s.VMOVDQA32(ones, unused, s.z)
	if s.lanes == 8 {
		for _, step := range []sortStep{{1, 0x66}, {2, 0x3C}, {1, 0x5A}, {4, 0xF0}, {2, 0xCC}, {1, 0xAA}} {
			s.step8(step)
		}
		return
	}
	for _, step := range []sortStep{{1, 0x6666}, {2, 0x3C3C}, {1, 0x5A5A}, {4, 0x0FF0}, {2, 0x33CC}, {1, 0x55AA},
		{8, 0xFF00}, {4, 0xF0F0}, {2, 0xCCCC}, {1, 0xAAAA}} {
		s.step16(step)
	}
}

// sortStep compares each lane with the one at a distance; the lanes in greater keep the greater of the two.
type sortStep struct {
	distance int
	greater  uint32
}

func (s *subset) step8(step sortStep) {
	partner, least := s.partner(step.distance), s.vector()
	s.VPMINUD(partner, s.z, least)
	s.VPMAXUD(partner, s.z, s.z)
	s.VPBLENDD(Imm(uint64(step.greater)), s.z, least, s.z)
}

func (s *subset) step16(step sortStep) {
	partner, least, mask, bits := s.partner(step.distance), s.vector(), s.K(), s.GP32()
	s.MOVL(U32(step.greater), bits)
	s.KMOVW(bits, mask)
	s.VPMINUD(partner, s.z, least)
	s.VPMAXUD(partner, s.z, mask, least)
	s.z = least
}

// partner returns the lanes of z, each at the place of the one at a distance.
func (s *subset) partner(distance int) reg.VecVirtual {
	p := s.vector()
	switch {
	case distance == 1:
		s.VPSHUFD(Imm(0xB1), s.z, p)
	case distance == 2:
		s.VPSHUFD(Imm(0x4E), s.z, p)
	case s.lanes == 8:
		s.VPERMQ(Imm(0x4E), s.z, p)
	case distance == 4:
		s.VSHUFI64X2(Imm(0xB1), s.z, s.z, p)
	default:
		s.VSHUFI64X2(Imm(0x4E), s.z, s.z, p)
	}
	return p
}

// vector returns a register of as many 32-bit lanes.
func (s *subset) vector() reg.VecVirtual {
	if s.lanes == 8 {
		return s.YMM()
	}
	return s.ZMM()
}

// deliver writes start plus each pick to pos.
func (s *subset) deliver(used reg.OpmaskVirtual) {
	pos, start := s.arg("pos", s.GP64()), s.arg("start", s.GP64())
	low, high, all, half, second := s.ZMM(), s.ZMM(), s.ZMM(), s.YMM(), s.K()
	s.VPMOVZXDQ(s.z.AsY(), low)
	s.VPBROADCASTQ(start, all)
	s.VPADDQ(all, low, low)
	s.VMOVDQU64(low, used, at(pos, 0))
	if s.lanes == 8 {
		return
	}
	s.VEXTRACTI64X4(Imm(1), s.z, half)
	s.VPMOVZXDQ(half, high)
	s.VPADDQ(all, high, high)
	s.KSHIFTRW(Imm(8), used, second)
	s.VMOVDQU64(high, second, at(pos, 64))
}
