package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// copier is a row copy in the making.
type copier struct {
	simd
	idSize                 int // bytes
	dst, src, ids, n, size reg.Register
	ahead, last, lines     reg.Register // next id to prefetch, last id that exists, lines of a row besides the last
	row, rest              reg.Register // what is copied, bytes that are left of it
	v                      [4]reg.VecVirtual
	scratch, waiting       reg.Register // of streams: a line, and the bytes in it
}

// buildCopy writes the row copies of gather. Loads stay within the row: a masked load that reaches past its end still
// waits for the line behind it, which nobody prefetched. That alone cost 20 %.
func buildCopy(g *gen) {
	for _, stream := range []bool{false, true} {
		for _, of := range []simd{{g, "AVX2", 32}, {g, "AVX512", 64}} {
			for _, idSize := range []int{4, 8} {
				c := &copier{simd: of, idSize: idSize}
				c.build(stream)
			}
		}
	}
}

func (c *copier) build(stream bool) {
	name := fmt.Sprintf("%sx%d", c.isa, 8*c.idSize)
	args := fmt.Sprintf("dst, src unsafe.Pointer, ids *int%d, n, avail, rowBytes, ahead, lines, near int", 8*c.idSize)
	if stream {
		c.function("stream"+name, "("+args+",\n\tscratch unsafe.Pointer) (left int)",
			fmt.Sprintf("stream%s is copy%s with non-temporal stores, which save reading dst before it is", name, name),
			"overwritten but must fill whole vectors: dst is aligned to one. The last bytes of the last row, left of",
			"them, stay in scratch.")
	} else {
		c.function("copy"+name, "("+args+")",
			fmt.Sprintf("copy%s copies n rows, 1 or more, of %d bytes and more, and prefetches those that", name,
				c.bytes), "lie ahead ids further, of which avail exist.")
	}
	c.enter()
	if stream {
		c.scratch, c.waiting = c.arg("scratch", c.GP64()), c.GP64()
		c.XORL(c.waiting.(reg.GPVirtual).As32(), c.waiting.(reg.GPVirtual).As32())
	}
	c.Label("row")
	c.prefetchAhead()
	c.loadID(c.idSize, at(c.ids, 0), c.row)
	c.ADDQ(Imm(uint64(c.idSize)), c.ids)
	c.IMULQ(c.size, c.row)
	c.ADDQ(c.src, c.row)
	c.MOVQ(c.size, c.rest)
	if stream {
		c.stream()
	} else {
		c.copy()
	}
	c.VZEROUPPER()
	if stream {
		c.Store(c.waiting, c.Return("left"))
	}
	c.RET()
}

// enter loads the arguments.
func (c *copier) enter() {
	c.dst, c.src, c.ids = c.arg("dst", c.GP64()), c.arg("src", c.GP64()), c.arg("ids", c.GP64())
	c.n, c.last = c.arg("n", c.GP64()), c.arg("avail", c.GP64())
	c.size, c.ahead, c.lines = c.arg("rowBytes", c.GP64()), c.arg("ahead", c.GP64()), c.arg("lines", c.GP64())
	c.LEAQ(at2(c.ids, c.last, uint8(c.idSize), -c.idSize), c.last)
	c.LEAQ(at2(c.ids, c.ahead, uint8(c.idSize), 0), c.ahead)
	c.row, c.rest = c.GP64(), c.GP64()
	for i := range c.v {
		c.v[i] = c.vector()
	}
}

// nearRows is how many rows before it is copied a row is asked for the second time.
const nearRows = 8

// prefetchAhead prefetches the row that ahead points to into the second-level cache, which has more misses in flight
// than the first, and a row that comes soon from there into the first.
func (c *copier) prefetchAhead() {
	count := c.GP64()
	c.MOVQ(c.lines, count)
	c.prefetchAt(c.ahead, count, c.PREFETCHT1)
	c.ADDQ(Imm(uint64(c.idSize)), c.ahead)
	near := c.GP64()
	c.LEAQ(at(c.ids, nearRows*c.idSize), near)
	c.prefetchAt(near, c.arg("near", c.GP64()), c.PREFETCHT0)
}

// prefetchAt prefetches the row whose id lies at id, or that of the last one when there are no more.
func (c *copier) prefetchAt(id, count reg.Register, prefetch func(Op)) {
	row, last := c.GP64(), c.GP64()
	c.CMPQ(id, c.last)
	c.CMOVQHI(c.last, id)
	c.loadID(c.idSize, at(id, 0), row)
	c.IMULQ(c.size, row)
	c.ADDQ(c.src, row)
	c.LEAQ(at2(row, c.size, 1, -1), last)
	c.prefetchRow(row, last, count, prefetch)
}

// loop moves as many vectors a turn as still fit, and leaves rest at what is missing for another turn.
func (c *copier) loop(vectors int, done string, store func(v, to Op)) {
	again, bytes := c.name("vectors"), vectors*c.bytes
	c.JLT(LabelRef(done))
	c.Label(again)
	for i, v := range c.v[:vectors] {
		c.move(at(c.row, i*c.bytes), v)
	}
	for i, v := range c.v[:vectors] {
		store(v, at(c.dst, i*c.bytes))
	}
	c.ADDQ(U32(bytes), c.row)
	c.ADDQ(U32(bytes), c.dst)
	c.SUBQ(U32(bytes), c.rest)
	c.JGE(LabelRef(again))
}

// vectors moves the whole vectors of a row, and leaves rest at the bytes that are left of it. Before, rest is at what
// four vectors leave.
func (c *copier) vectors(store func(v, to Op)) {
	c.loop(4, "rest", store)
	c.Label("rest")
	c.ADDQ(U32(3*c.bytes), c.rest)
	c.loop(1, "tail", store)
	c.Label("tail")
	c.ADDQ(Imm(uint64(c.bytes)), c.rest)
}

// copy copies with ordinary stores; the last vector of a row may overlap the one before.
func (c *copier) copy() {
	V := c.bytes
	c.SUBQ(U32(4*V), c.rest)
	c.vectors(c.move)
	c.JZ(LabelRef("next"))
	c.move(at2(c.row, c.rest, 1, -V), c.v[0])
	c.move(c.v[0], at2(c.dst, c.rest, 1, -V))
	c.ADDQ(c.rest, c.dst)
	c.Label("next")
	c.DECQ(c.n)
	c.JNZ(LabelRef("row"))
}

// stream copies with non-temporal stores. The rest of a row, less than a vector, waits in the scratch line until
// the start of the next row fills it up. The line has a vector's room before and after.
func (c *copier) stream() {
	V := c.bytes
	c.move(at(c.row, 0), c.v[0])
	c.move(c.v[0], at2(c.scratch, c.waiting, 1, 0))
	c.move(at(c.scratch, 0), c.v[0])
	c.VMOVNTDQ(c.v[0], at(c.dst, 0))
	c.ADDQ(Imm(uint64(V)), c.dst)
	c.SUBQ(c.waiting, c.row)
	c.ADDQ(Imm(uint64(V)), c.row)
	c.LEAQ(at2(c.rest, c.waiting, 1, -5*V), c.rest)
	c.TESTQ(c.rest, c.rest)
	c.vectors(c.pass)
	c.MOVQ(c.rest, c.waiting)
	c.move(at2(c.row, c.rest, 1, -V), c.v[0])
	c.move(c.v[0], at2(c.scratch, c.rest, 1, -V))
	c.DECQ(c.n)
	c.JNZ(LabelRef("row"))
	c.SFENCE()
}

// pass is a non-temporal store.
func (c *copier) pass(v, to Op) { c.VMOVNTDQ(v, to) }
