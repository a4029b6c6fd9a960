package main

import (
	. "github.com/mmcloughlin/avo/operand"
)

// buildWiden writes the conversions of gathered rows to float32, of 8 elements at a time.
func buildWiden(g *gen) {
	for _, w := range []struct {
		name, doc string
		bytes     int // of an element
		scaled    bool
	}{
		{"widenF16", "widenF16 writes n elements of float16 as float32. n is a multiple of 8, and above 0.", 2, false},
		{"widenBF16", "widenBF16 is widenF16 for the upper halves of float32.", 2, false},
		{"widenInt8", "widenInt8 is widenF16 for int8, times scale.", 1, true},
	} {
		signature := "(dst *float32, src unsafe.Pointer, n int)"
		if w.scaled {
			signature = "(dst *float32, src unsafe.Pointer, n int, scale float32)"
		}
		g.function(w.name, signature, w.doc)
		dst, src, n := g.arg("dst", g.GP64()), g.arg("src", g.GP64()), g.arg("n", g.GP64())
		v, factor := g.YMM(), g.YMM()
		if w.scaled {
			s, err := g.Param("scale").Resolve()
			if err != nil {
				panic(err)
			}
			g.VBROADCASTSS(s.Addr, factor)
		}
		g.Label("eight")
		switch w.name {
		case "widenF16":
			g.VCVTPH2PS(at(src, 0), v)
		case "widenBF16":
			g.VPMOVZXWD(at(src, 0), v)
			g.VPSLLD(Imm(16), v, v)
		default:
			g.VPMOVSXBD(at(src, 0), v)
			g.VCVTDQ2PS(v, v)
			g.VMULPS(factor, v, v)
		}
		g.VMOVUPS(v, at(dst, 0))
		g.ADDQ(Imm(uint64(8*w.bytes)), src)
		g.ADDQ(Imm(32), dst)
		g.SUBQ(Imm(8), n)
		g.JNE(LabelRef("eight"))
		g.VZEROUPPER()
		g.RET()
	}
}
