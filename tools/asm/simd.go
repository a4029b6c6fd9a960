package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// simd is a function over vectors in the making, for one of two instruction sets.
type simd struct {
	*gen
	isa   string
	bytes int // of a vector
}

// eachISA calls f with both instruction sets.
func eachISA(g *gen, f func(simd)) {
	f(simd{g, "AVX512", 64})
	f(simd{g, "AVX2", 32})
}

func (s simd) vector() reg.VecVirtual {
	if s.bytes == 32 {
		return s.YMM()
	}
	return s.ZMM()
}

// load reads a vector of float32, or the lanes of a mask and zeros. A mask is a mask register, or with AVX2 a vector of
// words; nil is all.
func (s simd) load(m Mem, v reg.VecVirtual, mask Op) {
	if mask != nil && s.bytes == 64 {
		s.VMOVUPS_Z(m, mask, v)
	} else {
		s.store(m, v, mask)
	}
}

// store moves a vector to or from memory, or the lanes of a mask; those that it does not move AVX2 sets to 0.
func (s simd) store(from, to, mask Op) {
	switch {
	case mask == nil:
		s.VMOVUPS(from, to)
	case s.bytes == 64:
		s.VMOVUPS(from, mask, to)
	default:
		s.VMASKMOVPS(from, mask, to)
	}
}

// move loads or stores a vector at any address.
func (s simd) move(from, to Op) {
	if s.bytes == 32 {
		s.VMOVDQU(from, to)
	} else {
		s.VMOVDQU64(from, to)
	}
}

// lanesOf loads a mask register from memory.
func (s simd) lanesOf(m Mem) reg.OpmaskVirtual {
	bits, mask := s.GP32(), s.K()
	s.MOVL(m, bits)
	s.KMOVW(bits, mask)
	return mask
}

// general sets registers.
func (g *gen) general(registers ...*reg.Register) {
	for _, r := range registers {
		*r = g.GP64()
	}
}

// edgeOf loads indptr[row+next] of a graph: the address is in the field indptr of run, and the field wide is 0 where
// its numbers have 32 bits. work is lost.
func (g *gen) edgeOf(run reg.Register, indptr, wide int, row reg.Register, next int, to, work reg.Register) {
	narrow, done := g.name("narrow"), g.name("loaded")
	g.MOVQ(at(run, indptr), work)
	g.CMPQ(at(run, wide), Imm(0))
	g.JE(LabelRef(narrow))
	g.MOVQ(at2(work, row, 8, 8*next), to)
	g.JMP(LabelRef(done))
	g.Label(narrow)
	g.MOVLQSX(at2(work, row, 4, 4*next), to)
	g.Label(done)
}
