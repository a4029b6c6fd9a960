package sparse

import (
	"fmt"
	"unsafe"

	"github.com/khop-gnn/khop/internal/vector"
	"github.com/khop-gnn/khop/unified"
)

// denseTask multiplies dense matrices: y = x w, or y = x^T w in sums over blocks of rows.
type denseTask struct {
	run              denseRun
	variant          variant
	y                []float32
	rows, inner, out int64 // of y; of the sums; the width of y
	transposed       bool  // x is transposed
	w                []float32
	x                []float32

	// Of a transposed product: the blocks whose sums are added one after the other, how often there are so many, and
	// the sums of each of those beside y.
	blocks, strips int64
	sums           []float32
	room           [][]float32 // [worker]: a block's sums
}

// denseRun is what a kernel reads: columns of w and y, up to a tile. Its layout is known to tools/asm.
type denseRun struct {
	x, w, y          unsafe.Pointer
	rowStep, step    int // bytes of x from a row to the next, and from an inner element to the next
	wStride, yStride int // bytes of a row
	inner, rows      int
	vectors          int
	mask             uint64 // lanes of the last vector
}

const (
	denseRows      = 120 // of y, in one part: whole tiles
	transposedRows = 48  // the same of a transposed product
	block          = 512 // rows of x whose sums are added to y at a time
	stripRows      = 16 * block
	maxStrips      = 32
)

// MatMul writes the product of dense matrices, y = x w: rows of x are multiplied with w.
//
// Shapes: y float32 [n, m], written; x float32 [n, k]; w float32 [k, m]. ErrShape names what does not fit.
// Result: each element is summed in the order of k, products rounded before they are added.
func (p *Pool) MatMul(y, x, w unified.Tensor) error {
	if err := checkDense(y, x, w, x.Len(), x.Width()); err != nil {
		return err
	}
	t := denseTask{variant: variants()[0], rows: x.Len(), inner: x.Width(), out: w.Width()}
	return p.dense(t, y, x, w)
}

// MatMulTransposed writes y = x^T w, the gradient of MatMul with respect to w.
//
// Shapes: y float32 [k, m], written; x float32 [n, k]; w float32 [n, m]. ErrShape names what does not fit.
// Result: each block of 512 rows is summed in order. The blocks form up to 32 equal strips of 16 blocks or more. The
// sums of a strip's blocks are added in order, and then those of the strips.
func (p *Pool) MatMulTransposed(y, x, w unified.Tensor) error {
	if err := checkDense(y, x, w, x.Width(), x.Len()); err != nil {
		return err
	}
	t := denseTask{variant: variants()[0], rows: x.Width(), inner: x.Len(), out: w.Width(), transposed: true}
	return p.dense(t, y, x, w)
}

func checkDense(y, x, w unified.Tensor, rows, inner int64) error {
	switch {
	case !dense(y) || !dense(x) || !dense(w) || y.Len() != rows || w.Len() != inner || y.Width() != w.Width():
		return fmt.Errorf("%w: a dense product of %v and %v cannot be %v", ErrShape, x, w, y)
	case overlap(y, x) || overlap(y, w):
		return fmt.Errorf("%w: the product shares memory with a factor", ErrShape)
	}
	return nil
}

func (p *Pool) dense(t denseTask, y, x, w unified.Tensor) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	if t.rows == 0 || t.out == 0 {
		return nil
	}
	t.y, t.x, t.w = floats(y), floats(x), floats(w)
	if t.inner == 0 {
		clear(t.y)
		return nil
	}
	d := &p.product
	t.sums, t.room = d.sums, d.room
	*d = t
	defer func() { d.x, d.y, d.w, d.run = nil, nil, nil, denseRun{} }()
	if !d.transposed {
		d.run.rowStep, d.run.step = int(4*d.inner), 4
		return p.run(d, (d.rows+denseRows-1)/denseRows)
	}
	d.run.rowStep, d.run.step = 4, int(4*d.rows)
	d.strip(p.workers)
	if err := p.run(d, d.strips*d.groups()); err != nil {
		return err
	}
	for s := int64(1); s < d.strips; s++ {
		vector.Add(d.y, d.sums[(s-1)*d.rows*d.out:s*d.rows*d.out], 1)
	}
	return nil
}

// strip cuts the blocks of a transposed product into strips, and sees that there is room for their sums.
func (t *denseTask) strip(workers int) {
	rows := max((t.inner+maxStrips-1)/maxStrips, stripRows)
	t.blocks = (rows + block - 1) / block
	t.strips = (t.inner + t.blocks*block - 1) / (t.blocks * block)
	if n := (t.strips - 1) * t.rows * t.out; int64(len(t.sums)) < n {
		t.sums = make([]float32, n)
	}
	if t.room == nil {
		t.room = make([][]float32, workers)
	}
	for w := range t.room {
		if n := transposedRows * t.out; int64(len(t.room[w])) < n {
			t.room[w] = make([]float32, n)
		}
	}
}

// groups returns in how many parts the rows of a transposed product's y are cut.
func (t *denseTask) groups() int64 { return (t.rows + transposedRows - 1) / transposedRows }

func (t *denseTask) do(worker int, part, _ int64) {
	if !t.transposed {
		lo, hi := part*denseRows, min((part+1)*denseRows, t.rows)
		t.multiply(t.y[lo*t.out:hi*t.out], t.x[lo*t.inner:], t.w, t.inner)
		return
	}
	strip, group := part/t.groups(), part%t.groups()
	lo, hi := group*transposedRows, min((group+1)*transposedRows, t.rows)
	to := t.y
	if strip > 0 {
		to = t.sums[(strip-1)*t.rows*t.out:]
	}
	to = to[lo*t.out : hi*t.out]
	first, last := strip*t.blocks*block, min((strip+1)*t.blocks*block, t.inner)
	for from := first; from < last; from += block {
		x, w, length := t.x[from*t.rows+lo:], t.w[from*t.out:], min(block, last-from)
		if from == first {
			t.multiply(to, x, w, length)
			continue
		}
		sums := t.room[worker][:len(to)]
		t.multiply(sums, x, w, length)
		vector.Add(to, sums, 1)
	}
}

// multiply makes the rows of y: sums of the first rows of w times elements of x.
func (t *denseTask) multiply(y, x, w []float32, inner int64) {
	rows := int64(len(y)) / t.out
	if t.variant == plain {
		t.plain(y, x, w, rows, inner)
		return
	}
	lanes := int64(t.variant.bytes() / 4)
	run := t.run
	run.x, run.inner, run.rows, run.wStride, run.yStride = unsafe.Pointer(&x[0]), int(inner), int(rows), int(4*t.out),
		int(4*t.out)
	for column := int64(0); column < t.out; column += int64(run.vectors) * lanes {
		left := t.out - column
		run.vectors = int(min((left+lanes-1)/lanes, int64(t.variant.denseTile())))
		run.mask = maskOf(t.variant, int(min(left-int64(run.vectors-1)*lanes, lanes)))
		run.w, run.y = unsafe.Pointer(&w[column]), unsafe.Pointer(&y[column])
		run.multiply(t.variant)
	}
}

// plain is the specification of the kernels.
func (t *denseTask) plain(y, x, w []float32, rows, inner int64) {
	clear(y)
	for i := range rows {
		row := y[i*t.out:][:t.out]
		for e := range inner {
			v := x[(i*int64(t.run.rowStep)+e*int64(t.run.step))/4]
			for k, x := range w[e*t.out:][:t.out] {
				row[k] += float32(v * x)
			}
		}
	}
}
