package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const multiplier = 0x9E3779B97F4A7C15 // prefetch.Multiplier

// element is a prefetch of one element for each of many ids.
type element struct {
	name, doc string
	idSize    int
	logSize   int // of an element
	hash      bool
}

var elements = []element{
	{"Index4", "prefetches base[ids[i]] for each i: elements of 4 bytes, positions of 64 bits.", 8, 2, false},
	{"Index8", "prefetches base[ids[i]] for each i: elements of 8 bytes, positions of 64 bits.", 8, 3, false},
	{"Node32x4", "prefetches base[ids[i]] for each i: elements of 4 bytes, such as a direct map from node to local id.",
		4, 2, false},
	{"Node32x8", "prefetches base[ids[i]] for each i: elements of 8 bytes, such as indptr.", 4, 3, false},
	{"Hash32x8", fmt.Sprintf(hashDoc, 8), 4, 3, true},
	{"Hash64x16", fmt.Sprintf(hashDoc, 16), 8, 4, true},
}

const hashDoc = "prefetches slot (uint64(ids[i]) * Multiplier) >> shift of a table of %d-byte slots, for each i. " +
	"shift\n// is below 64."

// signature returns the Go type of the function.
func (e element) signature() string {
	shift := ""
	if e.hash {
		shift = ", shift uint8"
	}
	return fmt.Sprintf("(base unsafe.Pointer, ids []int%d%s)", 8*e.idSize, shift)
}

// buildPrefetch writes internal/prefetch.
func buildPrefetch(g *gen) {
	for _, e := range elements {
		g.element(e)
	}
	g.rows(4)
	g.rows(8)
	g.prefetchRange()
}

// loadID loads a sign-extended id.
func (g *gen) loadID(size int, from Mem, to reg.Register) {
	if size == 4 {
		g.MOVLQSX(from, to)
	} else {
		g.MOVQ(from, to)
	}
}

// element loads ids, forms the addresses of their elements and prefetches them: four ids a turn, then the rest one by
// one.
func (g *gen) element(e element) {
	g.function(e.name, e.signature(), e.name+" "+e.doc)
	base, ids, n := g.arg("base", g.GP64()), g.arg("ids_base", g.GP64()), g.arg("ids_len", g.GP64())
	factor := g.GP64()
	if e.hash {
		g.arg("shift", reg.RCX)
		g.MOVQ(U64(multiplier), factor)
	}
	r := []reg.Register{g.GP64(), g.GP64(), g.GP64(), g.GP64()}
	step := func(r []reg.Register) {
		each := func(f func(reg.Register)) {
			for _, x := range r {
				f(x)
			}
		}
		for i, x := range r {
			g.loadID(e.idSize, at(ids, i*e.idSize), x)
		}
		if e.hash {
			each(func(x reg.Register) { g.IMULQ(factor, x) })
			each(func(x reg.Register) { g.SHRQ(reg.CL, x) })
		}
		scale := uint8(1 << e.logSize)
		if scale > 8 {
			each(func(x reg.Register) { g.SHLQ(Imm(uint64(e.logSize)), x) })
			scale = 1
		}
		each(func(x reg.Register) { g.PREFETCHT1(at2(base, x, scale, 0)) })
		g.ADDQ(Imm(uint64(len(r)*e.idSize)), ids)
	}
	g.SUBQ(Imm(4), n)
	g.JLT(LabelRef("tail"))
	g.Label("four")
	step(r)
	g.SUBQ(Imm(4), n)
	g.JGE(LabelRef("four"))
	g.Label("tail")
	g.ADDQ(Imm(4), n)
	g.JLE(LabelRef("done"))
	g.Label("one")
	step(r[:1])
	g.DECQ(n)
	g.JNZ(LabelRef("one"))
	g.Label("done")
	g.RET()
}

// prefetchRow prefetches count lines from row on and the last one, whose address is in last. row and count are lost.
func (g *gen) prefetchRow(row, last, count reg.Register, prefetch func(Op)) {
	line, end := g.name("line"), g.name("last")
	g.TESTQ(count, count)
	g.JZ(LabelRef(end))
	g.Label(line)
	prefetch(at(row, 0))
	g.ADDQ(Imm(64), row)
	g.DECQ(count)
	g.JNZ(LabelRef(line))
	g.Label(end)
	prefetch(at(last, 0))
}

func rowsSignature(idSize int) string {
	return fmt.Sprintf("(base unsafe.Pointer, ids []int%d, rowBytes, lines int)", 8*idSize)
}

func (g *gen) rows(idSize int) {
	name := fmt.Sprintf("Rows%d", 8*idSize)
	g.function(name, rowsSignature(idSize), name+" prefetches the first lines of each row ids[i] of a table, and its",
		"last line. A row has rowBytes bytes, one or more. A line may be asked for twice: finding that out costs more.")
	base, ids, n := g.arg("base", g.GP64()), g.arg("ids_base", g.GP64()), g.arg("ids_len", g.GP64())
	size, lines := g.arg("rowBytes", g.GP64()), g.arg("lines", g.GP64())
	row, last, count := g.GP64(), g.GP64(), g.GP64()
	g.TESTQ(n, n)
	g.JLE(LabelRef("done"))
	g.Label("next")
	g.loadID(idSize, at(ids, 0), row)
	g.ADDQ(Imm(uint64(idSize)), ids)
	g.IMULQ(size, row)
	g.ADDQ(base, row)
	g.LEAQ(at2(row, size, 1, -1), last)
	g.MOVQ(lines, count)
	g.prefetchRow(row, last, count, g.PREFETCHT1)
	g.DECQ(n)
	g.JNZ(LabelRef("next"))
	g.Label("done")
	g.RET()
}

func (g *gen) prefetchRange() {
	g.function("Range", "(p unsafe.Pointer, n int)",
		"Range prefetches every line of 64 bytes that the n bytes at p touch; none for n <= 0. Nothing is read.")
	p, n := g.arg("p", g.GP64()), g.arg("n", g.GP64())
	g.TESTQ(n, n)
	g.JLE(LabelRef("done"))
	g.LEAQ(at2(p, n, 1, -1), n)
	g.Comment("n is the last byte from here on")
	g.ANDQ(I8(-64), p)
	g.Label("line")
	g.PREFETCHT1(at(p, 0))
	g.ADDQ(Imm(64), p)
	g.CMPQ(p, n)
	g.JLS(LabelRef("line"))
	g.Label("done")
	g.RET()
}
