package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// buildRelabel writes the steps of sampling that take a dozen instructions an edge.
func buildRelabel(g *gen) {
	g.loadSources()
	g.relabel()
}

// loadSources has no branch that depends on what is found, but for a position out of range, which ends it.
func (g *gen) loadSources() {
	g.function("loadSources32",
		"(pos *int64, n int, indices *int32, edges int, nbr *int32, offset, count uint32,\n"+
			"\ttab *uint32) (good uint32)",
		"loadSources32 reads nbr[i] = indices[pos[i]] for n picks, 1 or more, and prefetches tab[nbr[i]]. It returns 0",
		"if a position is not below edges, or an nbr[i] - offset not below count.")
	pos, n, nbr := g.arg("pos", g.GP64()), g.arg("n", g.GP64()), g.arg("nbr", g.GP64())
	indices, edges, tab := g.arg("indices", g.GP64()), g.arg("edges", g.GP64()), g.arg("tab", g.GP64())
	offset, count := g.arg("offset", g.GP32()), g.arg("count", g.GP32())
	v, in, good := g.GP64(), g.GP32(), g.GP32()
	g.MOVL(I32(-1), good)
	g.LEAQ(at2(pos, n, 8, 0), pos)
	g.LEAQ(at2(nbr, n, 4, 0), nbr)
	g.NEGQ(n)
	g.Label("next")
	g.MOVQ(at2(pos, n, 8, 0), v)
	g.CMPQ(v, edges)
	g.JCC(LabelRef("out"))
	g.MOVLQSX(at2(indices, v, 4, 0), v)
	g.MOVL(v.As32(), at2(nbr, n, 4, 0))
	g.PREFETCHT1(at2(tab, v, 4, 0))
	g.SUBL(offset, v.As32())
	g.Comment("the borrow of v - count is a mask of those below")
	g.CMPL(v.As32(), count)
	g.SBBL(in, in)
	g.ANDL(in, good)
	g.INCQ(n)
	g.JNZ(LabelRef("next"))
	g.Store(good, g.Return("good"))
	g.RET()
	g.Label("out")
	g.XORL(good, good)
	g.Store(good, g.Return("good"))
	g.RET()
}

// relabel has no branch that depends on what is found: which ids are new is random.
func (g *gen) relabel() {
	g.function("relabel32",
		"(ids *int32, n int, tab *uint32, nodes, local *int32, base, offset uint32, have int) (now int)",
		"relabel32 is directMap.relabel for n ids, 1 or more, all within tab: have is how many nodes there are, now",
		"how many there will be. nodes has room for one more.")
	ids, n, tab, nodes := g.arg("ids", g.GP64()), g.arg("n", g.GP64()), g.arg("tab", g.GP64()), g.arg("nodes", g.GP64())
	local, base, offset := g.arg("local", g.GP64()), g.arg("base", g.GP32()), g.arg("offset", g.GP32())
	have := g.arg("have", g.GP64())
	v, entry, fresh, own := g.GP64(), g.GP32(), g.GP32(), g.GP32()
	g.LEAQ(at2(ids, n, 4, 0), ids)
	g.LEAQ(at2(local, n, 4, 0), local)
	g.NEGQ(n)
	g.Label("next")
	g.MOVLQSX(at2(ids, n, 4, 0), v)
	g.MOVL(at2(tab, v, 4, 0), entry)
	g.MOVL(v.As32(), own)
	g.SUBL(offset, own)
	g.MOVL(own, at2(nodes, have, 4, 0))
	g.LEAL(at2(base.(reg.GPVirtual).As64(), have, 1, 0), fresh)
	g.CMPL(entry, base)
	g.CMOVLCS(fresh, entry)
	g.ADCQ(Imm(0), have)
	g.MOVL(entry, at2(tab, v, 4, 0))
	g.SUBL(base, entry)
	g.MOVL(entry, at2(local, n, 4, 0))
	g.INCQ(n)
	g.JNZ(LabelRef("next"))
	g.Store(have, g.Return("now"))
	g.RET()
}
