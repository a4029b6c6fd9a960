package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// exp makes e^x of float32: half of a vector each, 4 or 8, to add or not to add to, and to be float32 again.
func (e *elementwise) exp(x reg.VecVirtual, minusOne bool) reg.VecVirtual {
	limit := e.vector()
	e.VMOVUPS(e.low, limit)
	e.VMAXPS(x, limit, limit) // NaN, the second operand, passes
	upper, result := e.narrow(), e.vector()
	if e.bytes == 64 {
		e.VEXTRACTF64X4(Imm(1), limit, upper)
		lower, upper := e.half(limit.AsY(), minusOne), e.half(upper, minusOne)
		e.VINSERTF64X4(Imm(1), upper, lower.AsZ(), result)
		return result
	}
	e.VEXTRACTF128(Imm(1), limit, upper)
	lower, upper := e.half(limit.AsX(), minusOne), e.half(upper, minusOne)
	e.VINSERTF128(Imm(1), upper, lower.AsY(), result)
	return result
}

// narrow returns a register of half a vector.
func (e *elementwise) narrow() reg.VecVirtual {
	if e.bytes == 64 {
		return e.YMM()
	}
	return e.XMM()
}

// half is exp for as many numbers as a vector has words of 64 bits.
func (e *elementwise) half(x reg.Register, minusOne bool) reg.VecVirtual {
	wide, k, p := e.vector(), e.vector(), e.vector()
	e.VCVTPS2PD(x, wide)
	e.VMULPD(e.log2e, wide, k)
	if e.bytes == 64 {
		e.VRNDSCALEPD(Imm(0), k, k)
	} else {
		e.VROUNDPD(Imm(0), k, k)
	}
	e.VMULPD(e.ln2, k, p)
	e.VSUBPD(p, wide, wide)
	e.VMULPD(e.coefficients[0], wide, p)
	for i, c := range e.coefficients[1:] {
		if i > 0 {
			e.VMULPD(wide, p, p)
		}
		e.VADDPD(c, p, p)
	}
	power, whole, narrow := e.vector(), e.narrow(), e.narrow()
	if e.bytes == 64 {
		e.VCVTPD2DQ(k, whole)
	} else {
		e.VCVTPD2DQY(k, whole)
	}
	e.VPMOVSXDQ(whole, power)
	e.VPADDQ(e.bias, power, power)
	e.VPSLLQ(Imm(52), power, power)
	e.VMULPD(power, p, p)
	if minusOne {
		e.VSUBPD(e.one, p, p)
	}
	if e.bytes == 64 {
		e.VCVTPD2PS(p, narrow)
	} else {
		e.VCVTPD2PSY(p, narrow)
	}
	return narrow
}

func (e *elementwise) softmax() {
	e.begin("softmax", "(to, from *float32, n int) (greatest, sum float32)",
		"writes the softmax of n numbers, 1 or more, and returns the greatest and what it divided by.")
	to, from, n := e.pointer("to"), e.pointer("from"), e.arg("n", reg.RCX)
	greatest := e.vector()
	e.VMOVUPS(e.least, greatest)
	p := e.GP64()
	e.MOVQ(from, p)
	e.loop(n, func(rest bool) {
		v := e.load(at(p, 0), rest)
		switch {
		case rest && e.bytes == 64:
			e.VMAXPS(v, greatest, e.mask, greatest)
		case rest:
			e.VMAXPS(v, greatest, v)
			e.VBLENDVPS(e.mask, v, greatest, greatest)
		default:
			e.VMAXPS(v, greatest, greatest)
		}
	}, e.floats(p))
	e.broadcastGreatest(greatest)
	e.Store(greatest.AsX(), e.Return("greatest"))
	q := e.GP64()
	e.MOVQ(from, p)
	e.MOVQ(to, q)
	e.arg("n", reg.RCX)
	e.loop(n, func(rest bool) {
		v := e.load(at(p, 0), rest)
		e.VSUBPS(greatest, v, v)
		e.store(e.exp(v, false), at(q, 0), rest)
	}, e.floats(p, q))
	e.Comment("the sum, in order")
	sum, all := e.XMM(), e.vector()
	e.VXORPS(sum, sum, sum)
	e.MOVQ(to, p)
	e.arg("n", reg.RCX)
	e.Label("sum")
	e.VADDSS(at(p, 0), sum, sum)
	e.ADDQ(Imm(4), p)
	e.DECQ(n)
	e.JNZ(LabelRef("sum"))
	e.Store(sum, e.Return("sum"))
	e.VBROADCASTSS(sum, all)
	e.arg("n", reg.RCX)
	e.loop(n, func(rest bool) {
		v := e.load(at(to, 0), rest)
		e.VDIVPS(all, v, v)
		e.store(v, at(to, 0), rest)
	}, e.floats(to))
	e.leave()
}

// broadcastGreatest sets all lanes to the greatest.
func (e *elementwise) broadcastGreatest(v reg.VecVirtual) {
	high, x := e.XMM(), v.AsX()
	if e.bytes == 64 {
		half := e.YMM()
		e.VEXTRACTF64X4(Imm(1), v, half)
		e.VMAXPS(half, v.AsY(), v.AsY())
	}
	e.VEXTRACTF128(Imm(1), v.AsY(), high)
	e.VMAXPS(high, x, x)
	e.VMOVHLPS(x, x, high)
	e.VMAXPS(high, x, x)
	e.VMOVSHDUP(x, high)
	e.VMAXPS(high, x, x)
	e.VBROADCASTSS(x, v)
}

// The layout of extremeRun in package vector.
const (
	extremeY = 8 * iota
	extremeArg
	extremeX
	extremeIndices
	extremeWeights
	extremeStep   // bytes from a weight to the next
	extremeIndex  // bytes of an index: 4 or 8, of which the lower 4 count
	extremeStride // bytes of a row of x
	extremeEdges  // 1 or more
	extremeFirst  // the number of the first edge
	extremeColumns
)

// extreme is a kernel of extremes in the making: up to a vector of columns stay in registers.
type extreme struct {
	*elementwise
	run, index, left, weights, x, row reg.Register
	have, arg, edge, one, factor      reg.VecVirtual
}

// extreme goes over the edges of a row for up to a vector of columns. The predicate says when a number replaces
// another.
func (e *elementwise) extreme(name string, predicate uint64) {
	e.begin(name, "(run unsafe.Pointer)",
		"writes the extremes of up to a vector of columns over the edges of a row, 1 or more.")
	x := &extreme{elementwise: e, have: e.vector(), arg: e.vector(), edge: e.vector(), one: e.vector(),
		factor: e.vector()}
	x.enter()
	v := x.read()
	e.VMOVUPS(v, x.have)
	ready := e.name("ready")
	e.DECQ(x.left)
	e.JZ(LabelRef(ready))
	e.Label("edge")
	e.VPADDD(x.one, x.edge, x.edge)
	x.take(x.read(), predicate)
	e.DECQ(x.left)
	e.JNZ(LabelRef("edge"))
	e.Label(ready)
	e.MOVQ(at(x.run, extremeY), x.row)
	e.store(x.have, at(x.row, 0), true)
	e.MOVQ(at(x.run, extremeArg), x.row)
	e.store(x.arg, at(x.row, 0), true)
	e.leave()
}

func (e *extreme) enter() {
	e.run = e.pointer("run")
	e.MOVQ(at(e.run, extremeColumns), reg.RCX)
	if e.bytes == 64 {
		all, bits := e.name("all"), e.GP64()
		e.MOVL(U32(0xFFFF), bits.As32())
		e.CMPQ(reg.RCX, Imm(16))
		e.JGE(LabelRef(all))
		e.lowest(bits.As32())
		e.Label(all)
		mask := e.K()
		e.KMOVW(bits.As32(), mask)
		e.mask = mask
	} else {
		e.rest() // of 8 it is all of them
	}
	e.index, e.left, e.weights, e.x, e.row = e.GP64(), e.GP64(), e.GP64(), e.GP64(), e.GP64()
	e.MOVQ(at(e.run, extremeIndices), e.index)
	e.MOVQ(at(e.run, extremeEdges), e.left)
	e.MOVQ(at(e.run, extremeWeights), e.weights)
	e.MOVQ(at(e.run, extremeX), e.x)
	number := e.XMM()
	e.VMOVD(at(e.run, extremeFirst), number)
	e.VPBROADCASTD(number, e.edge)
	e.VPBROADCASTD(number, e.arg)
	e.MOVL(U32(1), e.row.(reg.GPVirtual).As32())
	e.VMOVD(e.row.(reg.GPVirtual).As32(), number)
	e.VPBROADCASTD(number, e.one)
}

// read loads the columns at the other end of the edge in hand, times its weight, and moves on to the next edge.
func (e *extreme) read() reg.VecVirtual {
	e.MOVL(at(e.index, 0), e.row.(reg.GPVirtual).As32())
	e.IMULQ(at(e.run, extremeStride), e.row)
	v := e.load(at2(e.x, e.row, 1, 0), true)
	e.VBROADCASTSS(at(e.weights, 0), e.factor)
	e.VMULPS(e.factor, v, v)
	e.ADDQ(at(e.run, extremeIndex), e.index)
	e.ADDQ(at(e.run, extremeStep), e.weights)
	return v
}

// take replaces what there is, unless it is NaN, where the predicate says so.
func (e *extreme) take(v reg.VecVirtual, predicate uint64) {
	if e.bytes == 64 {
		better, number := e.K(), e.K()
		e.VCMPPS(Imm(predicate), e.have, v, number)
		e.VCMPPS(Imm(7), e.have, e.have, number, better)
		e.VMOVAPS(v, better, e.have)
		e.VMOVDQA32(e.edge, better, e.arg)
		return
	}
	better, number := e.YMM(), e.YMM()
	e.VCMPPS(Imm(7), e.have, e.have, number)
	e.VCMPPS(Imm(predicate), e.have, v, better)
	e.VANDPS(number, better, better)
	e.VBLENDVPS(better, v, e.have, e.have)
	e.VBLENDVPS(better, e.edge, e.arg, e.arg)
}
