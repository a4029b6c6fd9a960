package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The layout of sddmmRun in package sparse.
const (
	dotU       = 8 * iota // of the head in row 0
	dotV                  // the same
	dotOut                // of edge 0
	dotIndptr             // of row 0
	dotIndices            // of edge 0
	dotLast               // of the last edge
	dotUStride            // bytes of a row
	dotVStride
	dotAhead  // bytes of the indices between an edge and the one to prefetch for
	dotWide   // not 0: indptr is int64
	dotBlocks // bytes of whole blocks of 16 columns
	dotMask   // the columns left: bits, or the address of 16 words
	dotIndex  // bytes of an index: 4 or 8, of which the lower 4 count
)

// sddmm is a kernel of dot products in the making. 16 partial sums take every 16th product each.
type sddmm struct {
	simd
	run, row, hi, u, v, out, index, end, ahead, from, at, pf reg.Register
	sums                                                     []reg.VecVirtual // 16 lanes together
	product                                                  reg.VecVirtual
	lanes                                                    []Op // masks of the columns left, one a sum
}

func buildSDDMM(isa string, bytes int) func(*gen) {
	return func(g *gen) {
		s := &sddmm{simd: simd{g, isa, bytes}}
		s.function("dot"+isa, "(run unsafe.Pointer, lo, hi int)",
			"dot"+isa+" multiplies the rows of u and v at the ends of the edges of rows lo to hi, 1 or more.")
		s.build()
	}
}

func (s *sddmm) build() {
	s.enter()
	s.Label("row")
	s.edgeOf(s.run, dotIndptr, dotWide, s.row, 1, s.end, s.at)
	s.toIndex(s.end)
	s.CMPQ(s.index, s.end)
	s.JGE(LabelRef("done"))
	s.Label("edge")
	s.CMPQ(s.ahead, at(s.run, dotLast))
	s.JLS(LabelRef("within"))
	s.MOVQ(at(s.run, dotLast), s.ahead)
	s.Label("within")
	s.vRow(s.ahead, s.pf)
	s.ADDQ(at(s.run, dotIndex), s.ahead)
	s.vRow(s.index, s.from)
	s.dot()
	s.ADDQ(at(s.run, dotIndex), s.index)
	s.ADDQ(Imm(4), s.out)
	s.CMPQ(s.index, s.end)
	s.JLT(LabelRef("edge"))
	s.Label("done")
	s.ADDQ(at(s.run, dotUStride), s.u)
	s.INCQ(s.row)
	s.CMPQ(s.row, s.hi)
	s.JLT(LabelRef("row"))
	s.leave()
}

func (s *sddmm) enter() {
	s.general(&s.run, &s.row, &s.hi, &s.u, &s.v, &s.out, &s.index, &s.end, &s.ahead, &s.from, &s.at, &s.pf)
	s.arg("run", s.run)
	s.arg("lo", s.row)
	s.arg("hi", s.hi)
	for range 64 / s.bytes {
		s.sums = append(s.sums, s.vector())
	}
	s.product = s.vector()
	if s.bytes == 64 {
		s.lanes = []Op{s.lanesOf(at(s.run, dotMask))}
	} else {
		s.MOVQ(at(s.run, dotMask), s.at)
		s.lanes = []Op{s.YMM(), s.YMM()}
		s.VMOVDQU(at(s.at, 0), s.lanes[0])
		s.VMOVDQU(at(s.at, 32), s.lanes[1])
	}
	s.MOVQ(at(s.run, dotUStride), s.u)
	s.IMULQ(s.row, s.u)
	s.ADDQ(at(s.run, dotU), s.u)
	s.MOVQ(at(s.run, dotV), s.v)
	s.edgeOf(s.run, dotIndptr, dotWide, s.row, 0, s.index, s.at)
	s.MOVQ(at(s.run, dotOut), s.out)
	s.LEAQ(at2(s.out, s.index, 4, 0), s.out)
	s.toIndex(s.index)
	s.MOVQ(s.index, s.ahead)
	s.ADDQ(at(s.run, dotAhead), s.ahead)
}

// toIndex makes the address of an edge's index of its number.
func (s *sddmm) toIndex(r reg.Register) {
	s.IMULQ(at(s.run, dotIndex), r)
	s.ADDQ(at(s.run, dotIndices), r)
}

// vRow makes the address of the row of v that an index names.
func (s *sddmm) vRow(index, to reg.Register) {
	s.MOVL(at(index, 0), to.(reg.GPVirtual).As32())
	s.IMULQ(at(s.run, dotVStride), to)
	s.ADDQ(s.v, to)
}

// dot writes the product of the rows at u and from, and prefetches that at pf.
func (s *sddmm) dot() {
	for _, sum := range s.sums {
		s.VXORPS(sum, sum, sum)
	}
	s.XORQ(s.at, s.at)
	s.JMP(LabelRef("test"))
	s.Label("block")
	s.PREFETCHT0(at2(s.pf, s.at, 1, 0))
	for i, sum := range s.sums {
		s.VMOVUPS(at2(s.u, s.at, 1, i*s.bytes), s.product)
		s.VMULPS(at2(s.from, s.at, 1, i*s.bytes), s.product, s.product)
		s.VADDPS(s.product, sum, sum)
	}
	s.ADDQ(Imm(64), s.at)
	s.Label("test")
	s.CMPQ(s.at, at(s.run, dotBlocks))
	s.JLT(LabelRef("block"))
	s.rest()
	s.PREFETCHT0(at2(s.pf, s.at, 1, 0))
	low, high := s.XMM(), s.XMM()
	sum := s.YMM()
	if s.bytes == 64 {
		half := s.YMM()
		s.VEXTRACTF64X4(Imm(1), s.sums[0], half)
		s.VADDPS(half, s.sums[0].AsY(), sum)
	} else {
		s.VADDPS(s.sums[1], s.sums[0], sum)
	}
	s.VEXTRACTF128(Imm(1), sum, high)
	s.VADDPS(high, sum.AsX(), low)
	s.VMOVHLPS(low, low, high)
	s.VADDPS(high, low, low)
	s.VMOVSHDUP(low, high)
	s.VADDSS(high, low, low)
	s.VMOVSS(low, at(s.out, 0))
}

// rest adds the columns behind the last whole block. Lanes without a column add nothing.
func (s *sddmm) rest() {
	other := s.vector()
	for i, sum := range s.sums {
		s.load(at2(s.u, s.at, 1, i*s.bytes), s.product, s.lanes[i])
		s.load(at2(s.from, s.at, 1, i*s.bytes), other, s.lanes[i])
		s.VMULPS(other, s.product, s.product)
		s.VADDPS(s.product, sum, sum)
	}
}
