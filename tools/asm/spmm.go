package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The layout of spmmRun in package sparse.
const (
	runX       = 8 * iota // address of column 0 of the tile in row 0 of x
	runY                  // the same in y
	runWeights            // of edge 0, or nil
	runScale              // of row 0, or nil
	runIndptr             // of row 0
	runIndices            // of edge 0
	runLimit              // of the first edge whose row ahead there is none of
	runXStride            // bytes of a row
	runYStride
	runAhead   // bytes of the indices between an edge and the one to prefetch for
	runTail    // bytes from the tile's column 0 to its last vector, in x
	runWide    // not 0: indptr is int64
	runMask    // lanes of a tile that is narrower than a vector
	runExtra   // bytes from the tile's column 0 to the last of a row, where rows are not aligned to lines
	runIndex   // bytes of an index: 4 or 8, of which the lower 4 count
	runVectors // of the tile; 0: less than one
	runStep    // bytes from the weight of an edge to the next
	runBF      // not 0: halves are those of float32
	runShift   // the logarithm of runIndex
)

// spmm is the kernel of an instruction set in the making: rows lo to hi of a tile of columns. Each number of vectors
// has its loop over rows and edges, in which sums stay in registers.
type spmm struct {
	simd
	tiles  int // most vectors of a tile
	halves bool

	run, row                                reg.Register
	hi                                      Mem
	x, xStride, y, tail, extra              reg.Register
	index, end, stop, ahead, weight, source reg.Register
	step                                    reg.Register
	sums                                    []reg.VecVirtual
	product, factor                         reg.VecVirtual
	mask                                    Op // of a tile that is narrower than a vector
}

// Vectors that the widest tile has: its sums stay in registers, beside a factor, a product and a mask.
const (
	maxAVX512 = 16
	maxAVX2   = 12
	maxHalf   = 8
)

// buildSpMM returns what writes the kernels of sparse: one for rows of float32, one for rows of 16 bits.
func buildSpMM(isa string, bytes, tiles int) func(*gen) {
	return func(g *gen) {
		of := simd{g, isa, bytes}
		s := &spmm{simd: of, tiles: tiles}
		s.build("spmm"+isa, "float32 by "+isa)
		s = &spmm{simd: of, tiles: maxHalf, halves: true}
		s.build("spmmHalf"+isa, "16 bits, of a vector at least and with weights, by "+isa)
		of.streamLines()
	}
}

func (s *spmm) build(name, what string) {
	s.function(name, "(run unsafe.Pointer, lo, hi int)",
		fmt.Sprintf("%s sums rows lo to hi, 1 or more, of a tile of %s.", name, what))
	s.enter()
	s.choose(s.least(), s.tiles)
	for n := s.least(); n <= s.tiles; n++ {
		s.tile(n)
	}
	s.Label("done")
	s.leave()
}

// least is the least number of vectors of a tile, 0 for less than one.
func (s *spmm) least() int {
	if s.halves {
		return 1
	}
	return 0
}

// choose jumps to the code for the number of vectors, which is from lo to hi.
func (s *spmm) choose(lo, hi int) {
	if lo == hi {
		s.JMP(LabelRef(fmt.Sprintf("tile%d", lo)))
		return
	}
	mid := (lo + hi + 1) / 2
	upper := s.name("upper")
	s.CMPQ(at(s.run, runVectors), Imm(uint64(mid)))
	s.JGE(LabelRef(upper))
	s.choose(lo, mid-1)
	s.Label(upper)
	s.choose(mid, hi)
}

func (s *spmm) enter() {
	gp := func() reg.Register { return s.GP64() }
	s.run, s.row = s.arg("run", gp()), s.arg("lo", gp())
	s.hi = s.memory("hi")
	load := func(field int) reg.Register { r := gp(); s.MOVQ(at(s.run, field), r); return r }
	s.x, s.xStride, s.ahead, s.y, s.tail = load(runX), load(runXStride), load(runAhead), load(runY), load(runTail)
	s.extra, s.step, s.weight = load(runExtra), load(runIndex), load(runWeights)
	s.index, s.end, s.stop, s.source = gp(), gp(), gp(), gp()
	for range s.tiles {
		s.sums = append(s.sums, s.vector())
	}
	s.product, s.factor = s.vector(), s.vector()
	if s.bytes == 64 && !s.halves {
		mask := s.K()
		s.KMOVW(at(s.run, runMask), mask)
		s.mask = mask
	}
	s.MOVQ(at(s.run, runYStride), s.source)
	s.IMULQ(s.row, s.source)
	s.ADDQ(s.source, s.y)
	s.edgeOf(s.run, runIndptr, runWide, s.row, 0, s.index, s.source)
	s.MOVQ(at(s.run, runStep), s.source)
	s.IMULQ(s.index, s.source)
	s.ADDQ(s.source, s.weight)
	s.toIndex(s.index)
}

// toIndex makes the address of an edge's index of its number.
func (s *spmm) toIndex(r reg.Register) {
	s.MOVQ(at(s.run, runShift), s.source)
	s.SHLXQ(s.source, r, r)
	s.ADDQ(at(s.run, runIndices), r)
}

// tile sums rows of n vectors, 0 for less than one.
func (s *spmm) tile(n int) {
	label := func(name string) string { return fmt.Sprintf("%s%d", name, n) }
	sums := s.sums[:max(n, 1)]
	s.Label(label("tile"))
	if n == 0 && s.bytes == 32 {
		s.mask = s.YMM()
		s.MOVQ(at(s.run, runMask), s.source)
		s.VMOVDQU(at(s.source, 0), s.mask)
	}
	s.Label(label("row"))
	s.edgeOf(s.run, runIndptr, runWide, s.row, 1, s.end, s.source)
	s.toIndex(s.end)
	for _, v := range sums {
		s.VXORPS(v, v, v)
	}
	s.MOVQ(s.end, s.stop)
	s.CMPQ(s.stop, at(s.run, runLimit))
	s.CMOVQHI(at(s.run, runLimit), s.stop)
	if s.halves {
		s.edges(label("edge"), label("summed"), n, func() { s.addHalves(n, sums) })
	} else {
		s.TESTQ(s.weight, s.weight)
		s.JZ(LabelRef(label("bare")))
		s.edges(label("edge"), label("summed"), n, func() { s.add(n, sums, true) })
		s.Label(label("bare"))
		s.edges(label("bareEdge"), label("summed"), n, func() { s.add(n, sums, false) })
	}
	s.Label(label("summed"))
	s.MOVQ(at(s.run, runScale), s.source)
	s.TESTQ(s.source, s.source)
	s.JZ(LabelRef(label("scaled")))
	s.VBROADCASTSS(at2(s.source, s.row, 4, 0), s.product)
	for _, sum := range sums {
		s.VMULPS(s.product, sum, sum)
	}
	s.Label(label("scaled"))
	switch {
	case n == 0:
		s.store(sums[0], at(s.y, 0), s.mask)
	case s.halves:
		s.VMOVUPS(sums[n-1], at2(s.y, s.tail, 2, 0))
	default:
		s.VMOVUPS(sums[n-1], at2(s.y, s.tail, 1, 0))
	}
	for i := range n - 1 {
		s.VMOVUPS(sums[i], at(s.y, i*s.bytes))
	}
	s.ADDQ(at(s.run, runYStride), s.y)
	s.INCQ(s.row)
	s.CMPQ(s.row, s.hi)
	s.JLT(LabelRef(label("row")))
	s.JMP(LabelRef("done"))
}

// edges is the loop over the edges of a row, after which it goes on at summed. It stops at those that have no row ahead
// to prefetch: from there on, in all rows, each prefetches its own.
func (s *spmm) edges(label, summed string, n int, add func()) {
	own := s.name("own")
	s.CMPQ(s.index, s.stop)
	s.JLO(LabelRef(label))
	s.Label(own)
	s.CMPQ(s.index, s.end)
	s.JHS(LabelRef(summed))
	s.XORQ(s.ahead, s.ahead)
	s.MOVQ(s.end, s.stop)
	s.Label(label)
	s.prefetchAhead(n)
	s.MOVL(at(s.index, 0), s.source.(reg.GPVirtual).As32())
	s.ADDQ(s.step, s.index)
	s.IMULQ(s.xStride, s.source)
	s.ADDQ(s.x, s.source)
	add()
	s.CMPQ(s.index, s.stop)
	s.JLO(LabelRef(label))
	s.JMP(LabelRef(own))
}

// prefetchAhead prefetches the tile's lines of the row that the index so far ahead names.
func (s *spmm) prefetchAhead(n int) {
	s.MOVL(at2(s.index, s.ahead, 1, 0), s.source.(reg.GPVirtual).As32())
	s.IMULQ(s.xStride, s.source)
	bytes := n * s.bytes
	if s.halves {
		bytes /= 2
	}
	for offset := 0; offset < bytes || offset == 0; offset += 64 {
		s.PREFETCHT0(at2(s.x, s.source, 1, offset))
	}
	aligned := s.name("aligned")
	s.TESTQ(s.extra, s.extra)
	s.JZ(LabelRef(aligned))
	s.ADDQ(s.x, s.source)
	s.PREFETCHT0(at2(s.source, s.extra, 1, 0))
	s.Label(aligned)
}

// broadcast makes the factor of an edge.
func (s *spmm) broadcast() {
	s.VBROADCASTSS(at(s.weight, 0), s.factor)
	if s.halves {
		s.ADDQ(at(s.run, runStep), s.weight)
	} else {
		s.ADDQ(Imm(4), s.weight)
	}
}

// from is where vector i of n lies in a row of x; the last one overlaps the one before where columns do not fill it.
func (s *spmm) from(i, n int) Mem {
	if i == n-1 {
		return at2(s.source, s.tail, 1, 0)
	}
	if s.halves {
		return at(s.source, i*s.bytes/2)
	}
	return at(s.source, i*s.bytes)
}

// add adds the row at source to the sums, times the edge's weight if there are weights. Products round before they are
// added: no contraction, on any processor.
func (s *spmm) add(n int, sums []reg.VecVirtual, weighted bool) {
	if weighted {
		s.broadcast()
	}
	for i, sum := range sums {
		switch {
		case n == 0:
			s.load(at(s.source, 0), s.product, s.mask)
		case weighted:
			s.VMULPS(s.from(i, n), s.factor, s.product)
			s.VADDPS(s.product, sum, sum)
			continue
		default:
			s.VADDPS(s.from(i, n), sum, sum)
			continue
		}
		if weighted {
			s.VMULPS(s.product, s.factor, s.product)
		}
		s.VADDPS(s.product, sum, sum)
	}
}

// addHalves is add for rows of 16 bits, which always have weights.
func (s *spmm) addHalves(n int, sums []reg.VecVirtual) {
	brain, added := fmt.Sprintf("brain%d", n), fmt.Sprintf("added%d", n)
	s.broadcast()
	s.CMPQ(at(s.run, runBF), Imm(0))
	s.JNE(LabelRef(brain))
	for i, sum := range sums {
		s.VCVTPH2PS(s.from(i, n), s.product)
		s.VMULPS(s.product, s.factor, s.product)
		s.VADDPS(s.product, sum, sum)
	}
	s.JMP(LabelRef(added))
	s.Label(brain)
	for i, sum := range sums {
		s.VPMOVZXWD(s.from(i, n), s.product)
		s.VPSLLD(Imm(16), s.product, s.product)
		s.VMULPS(s.product, s.factor, s.product)
		s.VADDPS(s.product, sum, sum)
	}
	s.Label(added)
}

// streamLines writes the copy of whole lines that passes the caches.
func (s simd) streamLines() {
	s.function("streamLines"+s.isa, "(dst, src unsafe.Pointer, n int)",
		"streamLines"+s.isa+" copies n bytes, a multiple of 64 and not 0, past the caches. dst begins with a line.")
	dst, src, n := s.arg("dst", s.GP64()), s.arg("src", s.GP64()), s.arg("n", s.GP64())
	s.Label("line")
	for offset := 0; offset < 64; offset += s.bytes {
		v := s.vector()
		s.move(at(src, offset), v)
		s.VMOVNTDQ(v, at(dst, offset))
	}
	s.ADDQ(Imm(64), dst)
	s.ADDQ(Imm(64), src)
	s.SUBQ(Imm(64), n)
	s.JNZ(LabelRef("line"))
	s.SFENCE()
	s.leave()
}
