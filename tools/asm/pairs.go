package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// pairs is pairs32 in the making: a line lies in one vector, its numbers in the halves of another.
type pairs struct {
	*gen
	zero, nine                reg.VecVirtual // of bytes
	ten, hundred, tenThousand Mem            // what pairs of digits, of pairs and of fours are multiplied by
}

// buildPairs writes the parser of lines of two numbers.
func buildPairs(g *gen) {
	p := &pairs{gen: g}
	both := func(word uint64) func(uint64) uint64 { return func(uint64) uint64 { return word } }
	p.ten = g.table("tens1", 2, both(0x010A010A010A010A))
	p.hundred = g.table("tens2", 2, both(0x0001006400010064))
	p.tenThousand = g.table("tens4", 2, both(0x0001271000012710))
	g.function("pairs32", "(b *byte, n int, delim byte, src, dst *int64, rows int) (bytes, lines int, most uint64)",
		"pairs32 parses lines at b of two numbers of up to 8 digits, up to the first that is of another form, or of",
		"which less than 32 bytes are left of n, or up to this number. It returns how many bytes and lines that were,",
		"and their greatest number. n is 32 at least.")
	p.zero, p.nine = g.YMM(), g.YMM()
	word := g.GP64()
	g.MOVQ(U64(0x3030303030303030), word)
	for _, c := range []struct {
		v reg.VecVirtual
		b uint64
	}{{p.zero, '0'}, {p.nine, 9}} {
		t := g.GP32()
		g.MOVL(U32(c.b), t)
		g.VMOVD(t, c.v.AsX())
		g.VPBROADCASTB(c.v.AsX(), c.v)
	}
	at0, last, delim := g.arg("b", g.GP64()), g.arg("n", g.GP64()), g.arg("delim", g.GP8())
	src, dst, rows := g.arg("src", g.GP64()), g.arg("dst", g.GP64()), g.arg("rows", g.GP64())
	most, n := g.XMM(), g.GP64()
	g.VPXOR(most, most, most)
	g.LEAQ(at2(at0, last, 1, -32), last)
	g.XORQ(n, n)
	g.Label("line")
	g.CMPQ(at0, last)
	g.JHI(LabelRef("end"))
	g.CMPQ(n, rows)
	g.JGE(LabelRef("end"))
	x, y, next := p.find(at0, delim)
	v := p.numbers(at0, x, y, word)
	g.VPMAXUD(v, most, most)
	g.VPMOVZXDQ(v, v)
	g.VMOVQ(v, at2(src, n, 8, 0))
	g.VPEXTRQ(Imm(1), v, at2(dst, n, 8, 0))
	g.LEAQ(at2(at0, next, 1, 1), at0)
	g.INCQ(n)
	g.JMP(LabelRef("line"))
	g.Label("end")
	p.finish(at0, n, most)
}

// find returns how many digits the numbers of a line have, less 1, and where the line ends.
func (p *pairs) find(at0 reg.Register, delim reg.Register) (x, y, next reg.GPVirtual) {
	others, v, digits := p.GP32(), p.YMM(), p.YMM()
	x, y, next = p.GP64(), p.GP64(), p.GP64()
	p.VMOVDQU(at(at0, 0), v)
	p.VPSUBB(p.zero, v, v)
	p.VPMINUB(p.nine, v, digits)
	p.VPCMPEQB(v, digits, digits)
	p.VPMOVMSKB(digits, others)
	p.NOTL(others)
	p.TZCNTL(others, x.As32())
	p.BLSRL(others, others)
	p.TZCNTL(others, next.As32())
	p.Comment("an end that is not there is byte 32, which is of no such line")
	both := p.GP32()
	p.MOVL(next.As32(), y.As32())
	p.SUBL(x.As32(), y.As32())
	p.SUBL(Imm(2), y.As32())
	p.LEAL(at(x, -1), both)
	p.ORL(y.As32(), both)
	p.CMPL(both, Imm(8))
	p.JCC(LabelRef("end"))
	p.CMPB(delim, at2(at0, x, 1, 0))
	p.JNE(LabelRef("end"))
	p.CMPB(at2(at0, next, 1, 0), Imm('\n'))
	p.JNE(LabelRef("end"))
	return x, y, next
}

// numbers returns the numbers of a line in the lowest two lanes of 32 bits.
func (p *pairs) numbers(at0 reg.Register, x, y reg.GPVirtual, zeros reg.Register) reg.VecVirtual {
	first, second := p.GP64(), p.GP64()
	p.MOVQ(at(at0, 0), first)
	p.MOVQ(at2(at0, x, 1, 1), second)
	p.DECQ(x)
	for _, c := range []struct{ t, digits reg.GPVirtual }{{first, x}, {second, y}} {
		shift, fine := p.GP64(), p.name("fine")
		p.XORQ(zeros, c.t)
		p.Comment("a number of several digits does not begin with 0")
		p.TESTB(c.t.As8(), c.t.As8())
		p.JNE(LabelRef(fine))
		p.TESTL(c.digits.As32(), c.digits.As32())
		p.JNE(LabelRef("end"))
		p.Label(fine)
		p.Comment("the last digit becomes the highest byte")
		p.MOVQ(c.digits, shift)
		p.SHLQ(Imm(3), shift)
		p.XORQ(Imm(56), shift)
		p.SHLXQ(shift, c.t, c.t)
	}
	v := p.XMM()
	p.VMOVQ(first, v)
	p.VPINSRQ(Imm(1), second, v, v)
	p.VPMADDUBSW(p.ten, v, v)
	p.VPMADDWD(p.hundred, v, v)
	p.VPACKUSDW(v, v, v)
	p.VPMADDWD(p.tenThousand, v, v)
	return v
}

// finish returns.
func (p *pairs) finish(at0, n reg.Register, most reg.VecVirtual) {
	other, from := p.XMM(), p.GP64()
	p.arg("b", from)
	p.SUBQ(from, at0)
	p.VPSRLQ(Imm(32), most, other)
	p.VPMAXUD(other, most, most)
	greatest := p.GP32()
	p.VMOVD(most, greatest)
	p.Store(at0, p.ReturnIndex(0))
	p.Store(n, p.ReturnIndex(1))
	p.Store(greatest.As64(), p.ReturnIndex(2))
	p.leave()
}
