package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// buildWiden writes the conversions of gathered rows to float32, and of that to 16 bits, of 8 elements at a time.
func buildWiden(g *gen) {
	g.convert(conversion{name: "widenF16", bytes: 2, to: 4,
		doc: []string{"widenF16 writes n elements of float16 as float32. n is a multiple of 8, and above 0."},
		eight: func(src, v reg.Register) {
			g.VCVTPH2PS(at(src, 0), v)
		}})
	g.convert(conversion{name: "widenBF16", bytes: 2, to: 4,
		doc: []string{"widenBF16 is widenF16 for the upper halves of float32."},
		eight: func(src, v reg.Register) {
			g.VPMOVZXWD(at(src, 0), v)
			g.VPSLLD(Imm(16), v, v)
		}})
	var scale reg.VecVirtual
	g.convert(conversion{name: "widenInt8", bytes: 1, to: 4, more: ", scale float32",
		doc: []string{"widenInt8 is widenF16 for int8, times scale."},
		begin: func() {
			scale = g.YMM()
			g.VBROADCASTSS(g.memory("scale"), scale)
		},
		eight: func(src, v reg.Register) {
			g.VPMOVSXBD(at(src, 0), v)
			g.VCVTDQ2PS(v, v)
			g.VMULPS(scale, v, v)
		}})
	buildWidenInt4(g)
	buildHalve(g)
}

// conversion is a function that converts elements, eight at a time.
type conversion struct {
	name      string
	doc       []string
	bytes, to int    // of an element, before and after
	more      string // parameters, which begin loads
	begin     func()
	eight     func(src, v reg.Register)
	store     func(v reg.Register, dst Mem) // nil: a whole vector
}

// convert writes a conversion.
func (g *gen) convert(c conversion) {
	signature := "(dst *float32, src unsafe.Pointer, n int" + c.more + ")"
	if c.to == 2 {
		signature = "(dst unsafe.Pointer, src *float32, n int)"
	}
	g.function(c.name, signature, c.doc...)
	dst, src, n := g.arg("dst", g.GP64()), g.arg("src", g.GP64()), g.arg("n", g.GP64())
	v := g.YMM()
	if c.begin != nil {
		c.begin()
	}
	g.Label("eight")
	c.eight(src, v)
	if c.store != nil {
		c.store(v, at(dst, 0))
	} else {
		g.VMOVUPS(v, at(dst, 0))
	}
	g.next(dst, src, n, 8*c.to, 8*c.bytes)
	g.JNE(LabelRef("eight"))
	g.leave()
}

// next moves by eight elements, and compares the number of remaining ones with zero.
func (g *gen) next(dst, src, n reg.Register, to, from int) {
	g.ADDQ(Imm(uint64(from)), src)
	g.ADDQ(Imm(uint64(to)), dst)
	g.SUBQ(Imm(8), n)
}

// buildWidenInt4 writes the kernel of rows of the code int4 (internal/narrow).
func buildWidenInt4(g *gen) {
	shifts := g.table("shifts", 4, func(i uint64) uint64 { return (24-8*i)<<32 | (28 - 8*i) })
	g.function("widenInt4", "(dst *float32, src unsafe.Pointer, n int, scales unsafe.Pointer)",
		"widenInt4 is widenF16 for numbers of four bits, the first of two in the lower ones; 32 of them are times the",
		"next of the scales, which are upper halves of float32.")
	dst, src, n := g.arg("dst", g.GP64()), g.arg("src", g.GP64()), g.arg("n", g.GP64())
	scales, word := g.arg("scales", g.GP64()), g.GP32()
	v, factor, shift := g.YMM(), g.YMM(), g.YMM()
	g.VMOVDQU(shifts, shift)
	g.Label("group")
	g.MOVWLZX(at(scales, 0), word)
	g.ADDQ(Imm(2), scales)
	g.SHLL(Imm(16), word)
	g.VMOVD(word, factor.AsX())
	g.VBROADCASTSS(factor.AsX(), factor)
	for i := range 4 {
		g.VPBROADCASTD(at(src, 0), v)
		g.Comment("each lane has its four bits at the top, and then their sign all the way up")
		g.VPSLLVD(shift, v, v)
		g.VPSRAD(Imm(28), v, v)
		g.VCVTDQ2PS(v, v)
		g.VMULPS(factor, v, v)
		g.VMOVUPS(v, at(dst, 0))
		g.next(dst, src, n, 32, 4)
		if i < 3 {
			g.JEQ(LabelRef("done"))
		}
	}
	g.JNE(LabelRef("group"))
	g.Label("done")
	g.leave()
}

// buildHalve writes the conversions to floats of 16 bits, which round as unified.HalfOf and BHalfOf do.
func buildHalve(g *gen) {
	odd, t, nan := g.YMM(), g.YMM(), g.YMM()
	half, one, quiet := g.table("halves", 4, twice(0x7FFF)), g.table("ones", 4, twice(1)),
		g.table("quiet", 4, twice(0x400000))
	sign, plain := g.table("sign", 4, twice(0x80000000)), g.table("plain", 4, twice(0x7FC00000))
	g.convert(conversion{name: "halveF16", bytes: 4, to: 2,
		doc: []string{"halveF16 writes n elements of float32 as float16, rounded. n is a multiple of 8, and above 0."},
		eight: func(src, v reg.Register) {
			g.VMOVUPS(at(src, 0), v)
			g.Comment("what is not a number has no bits of its own")
			g.VCMPPS(Imm(3), v, v, nan)
			g.VPAND(sign, v, t)
			g.VPOR(plain, t, t)
			g.VBLENDVPS(nan, t, v, v)
		},
		store: func(v reg.Register, dst Mem) { g.VCVTPS2PH(Imm(0), v, dst) }})
	g.convert(conversion{name: "halveBF16", bytes: 4, to: 2,
		doc: []string{"halveBF16 is halveF16 for the upper halves of float32."},
		eight: func(src, v reg.Register) {
			g.VMOVUPS(at(src, 0), v)
			g.VCMPPS(Imm(3), v, v, nan) // unordered
			g.VPOR(quiet, v, t)
			g.VPSRLD(Imm(16), v, odd)
			g.VPAND(one, odd, odd)
			g.VPADDD(half, odd, odd)
			g.VPADDD(odd, v, v)
			g.VBLENDVPS(nan, t, v, v)
			g.VPSRLD(Imm(16), v, v)
			g.VEXTRACTI128(Imm(1), v, t.AsX())
			g.VPACKUSDW(t.AsX(), v.(reg.VecVirtual).AsX(), v.(reg.VecVirtual).AsX())
		},
		store: func(v reg.Register, dst Mem) { g.VMOVUPS(v.(reg.VecVirtual).AsX(), dst) }})
}

// twice returns words that have a number of 32 bits in both halves.
func twice(x uint64) func(uint64) uint64 { return func(uint64) uint64 { return x<<32 | x } }
