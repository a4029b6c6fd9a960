package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// elementwise is a function over slices of float32 in the making: vectors of 16 or 8 elements, and then the rest of
// them under a mask.
type elementwise struct {
	simd
	tables
	mask Op // of the rest
}

// tables are constants in memory; each word fills a vector of 8.
type tables struct {
	head         Mem // 8 words of ones, then 8 of zeros: 32 bits each
	powers       Mem // 1, 2, 4, .. 128: 32 bits each
	iota, lanes  Mem // 1 .. 8 times the golden ratio; the step of 8
	mixers       [2]Mem
	log2e, ln2   Mem
	coefficients []Mem // of e^x, the highest first
	bias, one    Mem
	low, least   Mem // float32: -104 and -Inf
	ones         Mem // float32
}

func (g *gen) tables() tables {
	fill := func(name string, word uint64) Mem { return g.table(name, 8, func(uint64) uint64 { return word }) }
	double := func(name string, v float64) Mem { return fill(name, math.Float64bits(v)) }
	single := func(name string, v float32) Mem {
		b := uint64(math.Float32bits(v))
		return fill(name, b<<32|b)
	}
	t := tables{
		head: g.table("head", 8, func(i uint64) uint64 {
			if i < 4 {
				return math.MaxUint64
			}
			return 0
		}),
		powers: g.table("powers", 4, func(i uint64) uint64 { return 1<<(2*i+1)<<32 | 1<<(2*i) }),
		iota:   g.table("iota", 8, func(i uint64) uint64 { return (i + 1) * multiplier }),
		lanes:  fill("step", 8*multiplier&math.MaxUint64),
		mixers: [2]Mem{fill("mixer0", 0xBF58476D1CE4E5B9), fill("mixer1", 0x94D049BB133111EB)},
		log2e:  double("log2e", math.Log2E), ln2: double("ln2", math.Ln2), bias: fill("bias", 1023),
		one: double("one", 1), low: single("low", -104), least: single("least", float32(math.Inf(-1))),
		ones: single("ones", 1),
	}
	for i, d := range []float64{362880, 40320, 5040, 720, 120, 24, 6, 2, 1, 1} {
		t.coefficients = append(t.coefficients, double("c"+string(rune('0'+9-i)), 1/d))
	}
	return t
}

// buildVector writes the kernels of package vector for both instruction sets.
func buildVector(g *gen) {
	t := g.tables()
	eachISA(g, func(of simd) {
		e := &elementwise{simd: of, tables: t}
		e.keep()
		e.scale()
		e.add()
		e.relu()
		e.slope()
		e.elu()
		e.eluSlope()
		e.leaky()
		e.softmax()
		e.extreme("extremeMax", 6) // not less or equal: greater, or NaN
		e.extreme("extremeMin", 9) // not greater or equal
	})
}

// begin starts a function whose name has the instruction set.
func (e *elementwise) begin(name, signature string, doc ...string) {
	doc[0] = name + e.isa + " " + doc[0]
	e.function(name+e.isa, signature, doc...)
}

func (e *elementwise) pointer(name string) reg.Register { return e.arg(name, e.GP64()) }

// factor returns a vector that has a parameter in every lane.
func (e *elementwise) factor(name string) reg.VecVirtual {
	v := e.vector()
	e.VBROADCASTSS(e.memory(name), v)
	return v
}

// rest makes the mask of the first n lanes, 1 or more but not all.
func (e *elementwise) rest() {
	if e.bytes == 64 {
		bits := e.GP64()
		e.lowest(bits.As32())
		mask := e.K()
		e.KMOVW(bits.As32(), mask)
		e.mask = mask
		return
	}
	from := e.GP64()
	e.LEAQ(e.head, from)
	e.NEGQ(reg.RCX)
	e.mask = e.YMM()
	e.VMOVDQU(at2(from, reg.RCX, 4, 32), e.mask)
}

// of returns the mask of the rest, or nil.
func (e *elementwise) of(rest bool) Op {
	if rest {
		return e.mask
	}
	return nil
}

// load reads a vector, or the rest and zeros.
func (e *elementwise) load(m Mem, rest bool) reg.VecVirtual {
	v := e.vector()
	e.simd.load(m, v, e.of(rest))
	return v
}

func (e *elementwise) store(v reg.VecVirtual, m Mem, rest bool) { e.simd.store(v, m, e.of(rest)) }

// loop runs body for each vector and for the rest. n is in CX; pointers move on by as many bytes as a vector has
// elements of theirs.
func (e *elementwise) loop(n reg.Register, body func(rest bool), move ...func()) {
	next, last, done := e.name("next"), e.name("last"), e.name("done")
	e.Label(next)
	e.SUBQ(Imm(uint64(e.bytes/4)), n)
	e.JL(LabelRef(last))
	body(false)
	for _, m := range move {
		m()
	}
	e.JMP(LabelRef(next))
	e.Label(last)
	e.ADDQ(Imm(uint64(e.bytes/4)), n)
	e.JZ(LabelRef(done))
	e.rest()
	body(true)
	e.Label(done)
}

// floats moves pointers to float32 on.
func (e *elementwise) floats(pointers ...reg.Register) func() {
	return func() {
		for _, p := range pointers {
			e.ADDQ(Imm(uint64(e.bytes)), p)
		}
	}
}

// times is z *= m for words of 64 bits.
func (e *elementwise) times(z reg.VecVirtual, m Mem) {
	if e.bytes == 64 {
		e.VPMULLQ(m, z, z)
		return
	}
	factor, high, cross := e.YMM(), e.YMM(), e.YMM()
	e.VMOVDQU(m, factor)
	e.VPSRLQ(Imm(32), z, high)
	e.VPMULUDQ(factor, high, high)
	e.VPSRLQ(Imm(32), factor, cross)
	e.VPMULUDQ(cross, z, cross)
	e.VPADDQ(cross, high, high)
	e.VPSLLQ(Imm(32), high, high)
	e.VPMULUDQ(factor, z, z)
	e.VPADDQ(high, z, z)
}

// keep draws for 8 elements at a time: z has the states of the next ones.
func (e *elementwise) keep() {
	e.begin("keep", "(bits *byte, stream, limit uint64, groups int)",
		"draws for 16 elements a group, 1 or more: a bit is set where the upper 24 bits of its draw are at least",
		"limit, which is above 0. stream is the state before draw 0.")
	bits, groups, word := e.pointer("bits"), e.pointer("groups"), e.GP64()
	limit := e.vector()
	e.arg("limit", word)
	at := e.XMM()
	if e.bytes == 32 {
		e.DECQ(word)
	}
	e.MOVQ(word, at)
	e.VPBROADCASTQ(at, limit)
	e.arg("stream", word)
	e.MOVQ(word, at)
	states := make([]reg.VecVirtual, 64/e.bytes) // of 8 draws together
	for i := range states {
		states[i] = e.vector()
		e.VPBROADCASTQ(at, states[i])
		e.VPADDQ(e.iota.Offset(i*e.bytes), states[i], states[i])
	}
	step := e.vector()
	e.move(e.tables.lanes, step)
	e.Label("next")
	for half := range 2 {
		found := e.GP64()
		for i, s := range states {
			e.eight(s, limit, found, i)
			e.VPADDQ(step, s, s)
		}
		e.MOVB(found.As8(), Mem{Base: bits, Disp: half})
	}
	e.ADDQ(Imm(2), bits)
	e.DECQ(groups)
	e.JNZ(LabelRef("next"))
	e.leave()
}

// eight draws from the states s, and sets found, or its bits from 4*i on, where a draw is not below the limit.
func (e *elementwise) eight(s, limit reg.VecVirtual, found reg.GPVirtual, i int) {
	z, t := e.vector(), e.vector()
	if e.bytes == 64 {
		e.VMOVDQA64(s, z)
	} else {
		e.VMOVDQA(s, z)
	}
	for i, shift := range []uint64{30, 27, 31} {
		e.VPSRLQ(Imm(shift), z, t)
		if e.bytes == 64 {
			e.VPXORQ(t, z, z)
		} else {
			e.VPXOR(t, z, z)
		}
		if i < len(e.mixers) {
			e.times(z, e.mixers[i])
		}
	}
	e.VPSRLQ(Imm(40), z, z)
	if e.bytes == 64 {
		k := e.K()
		e.VPCMPUQ(Imm(5), limit, z, k) // not less
		e.KMOVW(k, found.As32())
		return
	}
	e.VPCMPGTQ(limit, z, z) // greater than the limit less 1
	if i == 0 {
		e.VMOVMSKPD(z, found.As32())
		return
	}
	upper := e.GP64()
	e.VMOVMSKPD(z, upper.As32())
	e.SHLL(Imm(4), upper.As32())
	e.ORL(upper.As32(), found.As32())
}

func (e *elementwise) scale() {
	e.begin("scale", "(y, x *float32, bits *byte, n int, factor float32)",
		"writes n elements of x times factor to y where their bits are set, and 0 elsewhere. It reads the bits of",
		"whole groups of 16.")
	y, x, bits, n := e.pointer("y"), e.pointer("x"), e.pointer("bits"), e.arg("n", reg.RCX)
	factor := e.factor("factor")
	powers := e.YMM()
	if e.bytes == 32 {
		e.VMOVDQU(e.powers, powers)
	}
	e.loop(n, func(rest bool) {
		v := e.load(at(x, 0), rest)
		if e.bytes == 64 {
			k := e.K()
			e.KMOVW(at(bits, 0), k)
			e.VMULPS_Z(factor, v, k, v)
		} else {
			kept := e.YMM()
			e.VPBROADCASTB(at(bits, 0), kept)
			e.VPAND(powers, kept, kept)
			e.VPCMPEQD(powers, kept, kept)
			e.VMULPS(factor, v, v)
			e.VANDPS(kept, v, v)
		}
		e.store(v, at(y, 0), rest)
	}, e.floats(y, x), func() { e.ADDQ(Imm(uint64(e.bytes/32)), bits) })
	e.leave()
}

func (e *elementwise) add() {
	e.begin("add", "(y, x *float32, n int, factor float32)", "adds n elements of x, times factor, to y.")
	y, x, n, factor := e.pointer("y"), e.pointer("x"), e.arg("n", reg.RCX), e.factor("factor")
	e.loop(n, func(rest bool) {
		v, sum := e.load(at(x, 0), rest), e.load(at(y, 0), rest)
		e.VMULPS(factor, v, v)
		e.VADDPS(v, sum, sum)
		e.store(sum, at(y, 0), rest)
	}, e.floats(y, x))
	e.leave()
}

// keepWhere sets lanes of v to 0 where "a predicate 0" does not hold.
func (e *elementwise) keepWhere(predicate uint64, a, v reg.VecVirtual) {
	if lanes := e.where(predicate, a); e.bytes == 64 {
		e.VMOVAPS_Z(v, lanes, v)
	} else {
		e.VANDPS(lanes, v, v)
	}
}

// where returns the lanes in which "a predicate 0" holds: in a mask register, or as a vector.
func (e *elementwise) where(predicate uint64, a reg.VecVirtual) Op {
	zero := e.vector()
	if e.bytes == 64 {
		k := e.K()
		e.VPXORQ(zero, zero, zero)
		e.VCMPPS(Imm(predicate), zero, a, k)
		return k
	}
	e.VXORPS(zero, zero, zero)
	e.VCMPPS(Imm(predicate), zero, a, zero)
	return zero
}

const (
	greater        = 0x1E // false for NaN
	notLessOrEqual = 0x16 // true for NaN
)

// activation makes a function that replaces n elements of x by what of gives for them.
func (e *elementwise) activation(name, doc string, of func(v reg.VecVirtual) reg.VecVirtual) {
	e.begin(name, "(x *float32, n int)", doc)
	x, n := e.pointer("x"), e.arg("n", reg.RCX)
	e.loop(n, func(rest bool) { e.store(of(e.load(at(x, 0), rest)), at(x, 0), rest) }, e.floats(x))
	e.leave()
}

// gradient makes a function that replaces n elements of d by what of gives for them, those of y and the factor.
func (e *elementwise) gradient(name, doc string, of func(d, y, factor reg.VecVirtual) reg.VecVirtual) {
	e.begin(name, "(d, y *float32, n int, factor float32)", doc)
	d, y, n, factor := e.pointer("d"), e.pointer("y"), e.arg("n", reg.RCX), e.factor("factor")
	e.loop(n, func(rest bool) {
		v, u := e.load(at(d, 0), rest), e.load(at(y, 0), rest)
		e.store(of(v, u, factor), at(d, 0), rest)
	}, e.floats(d, y))
	e.leave()
}

func (e *elementwise) relu() {
	e.activation("relu", "sets those of n elements to 0 that are not positive. NaN stays.",
		func(v reg.VecVirtual) reg.VecVirtual {
			e.keepWhere(notLessOrEqual, v, v)
			return v
		})
}

func (e *elementwise) slope() {
	e.gradient("slope", "multiplies n elements of d by factor, and sets to 0 those whose y is not positive.",
		func(d, y, factor reg.VecVirtual) reg.VecVirtual {
			e.VMULPS(factor, d, d)
			e.keepWhere(greater, y, d)
			return d
		})
}

func (e *elementwise) elu() {
	e.activation("elu", "sets those of n elements to e^x - 1 that are not positive.",
		func(v reg.VecVirtual) reg.VecVirtual {
			low := e.exp(v, true)
			e.choose(v, v, low)
			return low
		})
}

// choose sets lanes of to to those of v where a is positive.
func (e *elementwise) choose(a, v, to reg.VecVirtual) {
	if lanes := e.where(greater, a); e.bytes == 64 {
		e.VMOVAPS(v, lanes, to)
	} else {
		e.VBLENDVPS(lanes, v, to, to)
	}
}

func (e *elementwise) eluSlope() {
	e.gradient("eluSlope", "multiplies those of n elements of d whose y is not positive by y times factor, and 1.",
		func(d, y, factor reg.VecVirtual) reg.VecVirtual {
			slope := e.vector()
			e.VMULPS(factor, y, slope)
			e.VADDPS(e.ones, slope, slope)
			e.VMULPS(slope, d, slope)
			e.choose(y, d, slope)
			return slope
		})
}

func (e *elementwise) leaky() {
	e.gradient("leaky", "multiplies those of n elements of d by factor whose y is not positive.",
		func(d, y, factor reg.VecVirtual) reg.VecVirtual {
			slope := e.vector()
			e.VMULPS(factor, d, slope)
			e.choose(y, d, slope)
			return slope
		})
}
