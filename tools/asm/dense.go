package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The layout of denseRun in package sparse.
const (
	denseX       = 8 * iota // of row 0, inner element 0
	denseW                  // row 0 of the columns in hand
	denseY                  // the same
	denseRowStep            // bytes of x from a row to the next
	denseStep               // bytes of x from an inner element to the next
	denseWStride            // bytes of a row
	denseYStride
	denseInner   // 1 or more
	denseRows    // 1 or more
	denseVectors // 1 to the widest tile
	denseMask    // lanes of the last vector: bits, or the address of words
)

// dense is a kernel of dense products in the making: sums of a tile of rows and vectors stay in registers.
type dense struct {
	simd
	run, x, y, w, k, rows, s, s3, s5, step, t reg.Register
	other                                     reg.Register // x from the seventh row of a tile on
	mask                                      reg.OpmaskVirtual
}

// denseTiles returns the rows of a tile by its vectors.
func denseTiles(bytes int) []int {
	if bytes == 64 {
		return []int{12, 6, 6, 5}
	}
	return []int{6, 6}
}

func buildDense(g *gen) {
	eachISA(g, func(of simd) {
		d := &dense{simd: of}
		d.function("dense"+of.isa, "(run unsafe.Pointer)",
			"dense"+of.isa+" multiplies rows of x with up to as many columns of w as a tile has.")
		d.build()
	})
}

func (d *dense) build() {
	d.general(&d.run, &d.x, &d.y, &d.w, &d.k, &d.rows, &d.s, &d.s3, &d.s5, &d.step, &d.t, &d.other)
	d.arg("run", d.run)
	d.MOVQ(at(d.run, denseX), d.x)
	d.MOVQ(at(d.run, denseY), d.y)
	d.MOVQ(at(d.run, denseRowStep), d.s)
	d.MOVQ(at(d.run, denseStep), d.step)
	d.MOVQ(at(d.run, denseRows), d.rows)
	d.LEAQ(at2(d.s, d.s, 2, 0), d.s3)
	d.LEAQ(at2(d.s, d.s, 4, 0), d.s5)
	if d.bytes == 64 {
		d.mask = d.lanesOf(at(d.run, denseMask))
	}
	tiles := denseTiles(d.bytes)
	labels := make([]string, len(tiles))
	for i := range tiles {
		labels[i] = d.name("vectors")
		d.CMPQ(at(d.run, denseVectors), Imm(uint64(i+1)))
		d.JE(LabelRef(labels[i]))
	}
	d.RET()
	for i, rows := range tiles {
		d.Label(labels[i])
		d.loop(i+1, rows)
	}
}

// loop goes over tiles of rows, and then over single rows.
func (d *dense) loop(vectors, rows int) {
	next, single, done := d.name("tile"), d.name("single"), d.name("done")
	d.Label(next)
	d.CMPQ(d.rows, Imm(uint64(rows)))
	d.JL(LabelRef(single))
	d.tile(vectors, rows)
	d.JMP(LabelRef(next))
	d.Label(single)
	d.TESTQ(d.rows, d.rows)
	d.JZ(LabelRef(done))
	d.tile(vectors, 1)
	d.JMP(LabelRef(single))
	d.Label(done)
	d.leave()
}

// row is the inner element in hand of a row of the tile.
func (d *dense) row(r int) Mem {
	base := d.x
	if r >= 6 {
		base, r = d.other, r-6
	}
	switch r {
	case 0:
		return at(base, 0)
	case 3:
		return at2(base, d.s3, 1, 0)
	case 5:
		return at2(base, d.s5, 1, 0)
	}
	return at2(base, d.s, uint8(r), 0)
}

// tile computes rows times vectors of y, and moves x and y on to the rows behind.
func (d *dense) tile(vectors, rows int) {
	sums := make([][]reg.VecVirtual, rows)
	for r := range sums {
		for range vectors {
			v := d.vector()
			if d.bytes == 64 {
				d.VPXORQ(v, v, v)
			} else {
				d.VXORPS(v, v, v)
			}
			sums[r] = append(sums[r], v)
		}
	}
	start := d.GP64()
	d.MOVQ(d.x, start)
	d.MOVQ(at(d.run, denseW), d.w)
	d.MOVQ(at(d.run, denseInner), d.k)
	if rows > 6 {
		d.LEAQ(at2(d.x, d.s3, 2, 0), d.other)
	}
	inner := d.name("inner")
	d.Label(inner)
	columns := make([]reg.VecVirtual, vectors)
	for v := range columns {
		columns[v] = d.vector()
		d.load(at(d.w, v*d.bytes), columns[v], d.lanes(v == vectors-1))
	}
	factor, scratch := d.vector(), d.vector()
	for r := range rows {
		d.VBROADCASTSS(d.row(r), factor)
		for v := range vectors {
			product := factor
			if v < vectors-1 {
				product = scratch
			}
			d.VMULPS(columns[v], factor, product)
			d.VADDPS(product, sums[r][v], sums[r][v])
		}
	}
	d.ADDQ(at(d.run, denseWStride), d.w)
	d.ADDQ(d.step, d.x)
	if rows > 6 {
		d.ADDQ(d.step, d.other)
	}
	d.DECQ(d.k)
	d.JNZ(LabelRef(inner))
	for r := range rows {
		for v := range vectors {
			d.store(sums[r][v], at(d.y, v*d.bytes), d.lanes(v == vectors-1))
		}
		d.ADDQ(at(d.run, denseYStride), d.y)
	}
	d.IMUL3Q(Imm(uint64(rows)), d.s, d.t)
	d.LEAQ(at2(start, d.t, 1, 0), d.x)
	d.SUBQ(Imm(uint64(rows)), d.rows)
}

// lanes returns the mask of the last vector, for which with AVX2 no register is left.
func (d *dense) lanes(last bool) Op {
	switch {
	case !last:
		return nil
	case d.bytes == 64:
		return d.mask
	}
	mask := d.YMM()
	d.MOVQ(at(d.run, denseMask), d.t)
	d.VMOVDQU(at(d.t, 0), mask)
	return mask
}
