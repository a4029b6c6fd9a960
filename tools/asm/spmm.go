package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The layout of spmmRun in package sparse.
const (
	runX       = 8 * iota // address of column 0 of the tile in row 0 of x
	runY                  // the same in y
	runWeights            // of edge 0
	runScale              // of row 0, or nil
	runIndptr             // of row 0
	runIndices            // of edge 0
	runLast               // of the last edge
	runXStride            // bytes of a row
	runYStride
	runAhead // bytes of the indices between an edge and the one to prefetch for
	runTail  // bytes from the tile's column 0 to its last vector
	runWide  // not 0: indptr is int64
	runMask  // lanes of a tile that is narrower than a vector
	runExtra // bytes from the tile's column 0 to the last of a row, where rows are not aligned to lines
)

// spmm is one kernel in the making: rows lo to hi of a tile of columns.
type spmm struct {
	*gen
	bytes    int // of a vector
	vectors  int // of the tile; 0 is one that is masked
	idSize   int
	weighted bool

	run, row, hi                            reg.Register
	x, xStride, y, tail, extra              reg.Register
	index, end, ahead, last, weight, source reg.Register
	sums                                    []reg.VecVirtual
	product, factor, lanes                  reg.VecVirtual
	mask                                    reg.OpmaskVirtual
}

// Vectors that the widest tile has: its sums stay in registers, beside a factor, a product and a mask.
const (
	maxAVX512 = 16
	maxAVX2   = 12
)

// buildSpMM returns what writes the kernels of sparse, with tables of them: [vectors of the tile], 0 for the masked
// one.
func buildSpMM(isa string, bytes, tiles int) func(*gen) {
	return func(g *gen) {
		var tables strings.Builder
		for _, idSize := range []int{4, 8} {
			for _, weighted := range []bool{false, true} {
				kind := fmt.Sprintf("spmm%sx%d%s", isa, 8*idSize, map[bool]string{true: "Weighted"}[weighted])
				fmt.Fprintf(&tables, "\nvar %s = [...]spmmKernel{\n", kind)
				for v := range tiles + 1 {
					s := &spmm{gen: g, bytes: bytes, vectors: v, idSize: idSize, weighted: weighted}
					name := fmt.Sprintf("%sTile%d", kind, v)
					s.build(name, isa)
					fmt.Fprintf(&tables, "\t%s,\n", name)
				}
				tables.WriteString("}\n")
			}
		}
		g.streamLines(isa, bytes)
		g.stubs.WriteString(tables.String())
	}
}

func (s *spmm) build(name, isa string) {
	what := fmt.Sprintf("%d vectors of %s", s.vectors, isa)
	if s.vectors == 0 {
		what = "less than a vector of " + isa
	}
	s.function(name, "(run unsafe.Pointer, lo, hi int)",
		fmt.Sprintf("%s sums rows lo to hi, 1 or more, of a tile of %s.", name, what))
	s.enter()
	s.Label("row")
	s.rowEnd()
	for _, v := range s.sums {
		s.VXORPS(v, v, v)
	}
	s.CMPQ(s.index, s.end)
	s.JGE(LabelRef("summed"))
	s.Label("edge")
	s.prefetchAhead()
	s.loadID(s.idSize, at(s.index, 0), s.source)
	s.IMULQ(s.xStride, s.source)
	s.ADDQ(s.x, s.source)
	s.add()
	s.ADDQ(Imm(uint64(s.idSize)), s.index)
	if s.weighted {
		s.ADDQ(Imm(4), s.weight)
	}
	s.CMPQ(s.index, s.end)
	s.JLT(LabelRef("edge"))
	s.Label("summed")
	s.scale()
	s.store()
	s.ADDQ(at(s.run, runYStride), s.y)
	s.INCQ(s.row)
	s.CMPQ(s.row, s.hi)
	s.JLT(LabelRef("row"))
	s.VZEROUPPER()
	s.RET()
}

// offset is where vector i of the tile lies; the last one overlaps the one before where columns do not fill it.
func (s *spmm) at(base reg.Register, i int) Mem {
	if i == max(s.vectors, 1)-1 && i > 0 {
		return at2(base, s.tail, 1, 0)
	}
	return at(base, i*s.bytes)
}

func (s *spmm) enter() {
	gp := func() reg.Register { return s.GP64() }
	s.run, s.row, s.hi = s.arg("run", gp()), s.arg("lo", gp()), s.arg("hi", gp())
	load := func(field int) reg.Register { r := gp(); s.MOVQ(at(s.run, field), r); return r }
	s.x, s.xStride, s.last, s.y, s.tail = load(runX), load(runXStride), load(runLast), load(runY), load(runTail)
	s.extra = load(runExtra)
	s.index, s.end, s.ahead, s.source = gp(), gp(), gp(), gp()
	for range max(s.vectors, 1) {
		s.sums = append(s.sums, s.vector())
	}
	s.product = s.vector()
	if s.weighted {
		s.factor = s.vector()
	}
	if s.vectors == 0 && s.bytes == 64 {
		lanes := s.GP32()
		s.MOVL(at(s.run, runMask), lanes)
		s.mask = s.K()
		s.KMOVW(lanes, s.mask)
	} else if s.vectors == 0 {
		lanes := s.GP64()
		s.MOVQ(at(s.run, runMask), lanes)
		s.lanes = s.YMM()
		s.VMOVDQU(at(lanes, 0), s.lanes)
	}
	stride := gp()
	s.MOVQ(at(s.run, runYStride), stride)
	s.IMULQ(s.row, stride)
	s.ADDQ(stride, s.y)
	s.loadPtr(0, s.index)
	if s.weighted {
		s.weight = gp()
		s.MOVQ(at(s.run, runWeights), s.weight)
		s.LEAQ(at2(s.weight, s.index, 4, 0), s.weight)
	}
	s.toIndex(s.index)
	s.MOVQ(s.index, s.ahead)
	s.ADDQ(at(s.run, runAhead), s.ahead)
}

func (s *spmm) vector() reg.VecVirtual {
	if s.bytes == 32 {
		return s.YMM()
	}
	return s.ZMM()
}

// loadPtr loads indptr[row+next].
func (s *spmm) loadPtr(next int, to reg.Register) {
	narrow, done, base := s.name("narrow"), s.name("loaded"), s.source
	s.MOVQ(at(s.run, runIndptr), base)
	s.CMPQ(at(s.run, runWide), Imm(0))
	s.JE(LabelRef(narrow))
	s.MOVQ(at2(base, s.row, 8, 8*next), to)
	s.JMP(LabelRef(done))
	s.Label(narrow)
	s.MOVLQSX(at2(base, s.row, 4, 4*next), to)
	s.Label(done)
}

// toIndex makes the address of an edge's index of its number.
func (s *spmm) toIndex(r reg.Register) {
	s.MOVQ(at(s.run, runIndices), s.source)
	s.LEAQ(at2(s.source, r, uint8(s.idSize), 0), r)
}

func (s *spmm) rowEnd() {
	s.loadPtr(1, s.end)
	s.toIndex(s.end)
}

// prefetchAhead prefetches the tile's lines of the row that ahead points to, or the last one when there are no more.
func (s *spmm) prefetchAhead() {
	s.CMPQ(s.ahead, s.last)
	s.CMOVQHI(s.last, s.ahead)
	s.loadID(s.idSize, at(s.ahead, 0), s.source)
	s.ADDQ(Imm(uint64(s.idSize)), s.ahead)
	s.IMULQ(s.xStride, s.source)
	s.ADDQ(s.x, s.source)
	for offset := 0; offset < s.vectors*s.bytes || offset == 0; offset += 64 {
		s.PREFETCHT0(at(s.source, offset))
	}
	aligned := s.name("aligned")
	s.TESTQ(s.extra, s.extra)
	s.JZ(LabelRef(aligned))
	s.PREFETCHT0(at2(s.source, s.extra, 1, 0))
	s.Label(aligned)
}

// add adds the row at source to the sums. Products round before they are added: no contraction, on any processor.
func (s *spmm) add() {
	if s.weighted {
		s.VBROADCASTSS(at(s.weight, 0), s.factor)
	}
	for i, sum := range s.sums {
		m := s.at(s.source, i)
		switch {
		case s.vectors == 0 && s.bytes == 64:
			s.VMOVUPS_Z(m, s.mask, s.product)
		case s.vectors == 0:
			s.VMASKMOVPS(m, s.lanes, s.product)
		case s.weighted:
			s.VMULPS(m, s.factor, s.product)
			s.VADDPS(s.product, sum, sum)
			continue
		default:
			s.VADDPS(m, sum, sum)
			continue
		}
		if s.weighted {
			s.VMULPS(s.product, s.factor, s.product)
		}
		s.VADDPS(s.product, sum, sum)
	}
}

// scale multiplies the sums by the row's scale, if there is one.
func (s *spmm) scale() {
	base := s.source
	s.MOVQ(at(s.run, runScale), base)
	s.TESTQ(base, base)
	s.JZ(LabelRef("store"))
	s.VBROADCASTSS(at2(base, s.row, 4, 0), s.product)
	for _, sum := range s.sums {
		s.VMULPS(s.product, sum, sum)
	}
}

func (s *spmm) store() {
	s.Label("store")
	switch {
	case s.vectors == 0 && s.bytes == 64:
		s.VMOVUPS(s.sums[0], s.mask, at(s.y, 0))
		return
	case s.vectors == 0:
		s.VMASKMOVPS(s.sums[0], s.lanes, at(s.y, 0))
		return
	}
	for i, sum := range s.sums {
		s.VMOVUPS(sum, s.at(s.y, i))
	}
}

// streamLines writes the copy of whole lines that passes the caches.
func (g *gen) streamLines(isa string, bytes int) {
	g.function("streamLines"+isa, "(dst, src unsafe.Pointer, n int)",
		"streamLines"+isa+" copies n bytes, a multiple of 64 and not 0, past the caches. dst begins with a line.")
	dst, src, n := g.arg("dst", g.GP64()), g.arg("src", g.GP64()), g.arg("n", g.GP64())
	g.Label("line")
	for offset := 0; offset < 64; offset += bytes {
		if bytes == 32 {
			v := g.YMM()
			g.VMOVDQU(at(src, offset), v)
			g.VMOVNTDQ(v, at(dst, offset))
		} else {
			v := g.ZMM()
			g.VMOVDQU64(at(src, offset), v)
			g.VMOVNTDQ(v, at(dst, offset))
		}
	}
	g.ADDQ(Imm(64), dst)
	g.ADDQ(Imm(64), src)
	g.SUBQ(Imm(64), n)
	g.JNZ(LabelRef("line"))
	g.SFENCE()
	g.VZEROUPPER()
	g.RET()
}
