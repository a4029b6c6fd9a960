package sparse

import (
	"fmt"
	"unsafe"

	"github.com/khop-gnn/khop/unified"
)

// denseTask multiplies dense matrices: y = x w, or y = x^T w. It runs on the kernels of the sparse product: a row of x
// is a row of values, whose columns are all rows of w.
type denseTask struct {
	y, x, w          unified.Tensor
	rows, inner, out int64 // of y; of the sums; the width of y
	turned           bool  // x is transposed
	plan             plan
	passes           []pass
	columns          []int32 // 0, 1, 2, ..
	step             int64
	room             [][]float32 // [worker]: a row of y and a row of values
}

const (
	turnedRows = 16  // of y, in one part
	block      = 512 // rows of x whose sums are added to y at a time
)

// MatMul writes the product of dense matrices, y = x w: rows of x are multiplied with w.
//
// Shapes: y float32 [n, m], written; x float32 [n, k]; w float32 [k, m]. ErrShape names what does not fit.
// Result: each element is summed in the order of k, products rounded before they are added.
func (p *Pool) MatMul(y, x, w unified.Tensor) error {
	if err := checkDense(y, x, w, x.Len(), x.Width()); err != nil {
		return err
	}
	return p.dense(denseTask{y: y, x: x, w: w, rows: x.Len(), inner: x.Width(), out: w.Width()}, 64)
}

// MatMulTurned writes y = x^T w, the gradient of MatMul with respect to w.
//
// Shapes: y float32 [k, m], written; x float32 [n, k]; w float32 [n, m]. ErrShape names what does not fit.
// Result: sums over blocks of 512 rows, each in order, are added in order.
func (p *Pool) MatMulTurned(y, x, w unified.Tensor) error {
	if err := checkDense(y, x, w, x.Width(), x.Len()); err != nil {
		return err
	}
	t := denseTask{y: y, x: x, w: w, rows: x.Width(), inner: x.Len(), out: w.Width(), turned: true}
	return p.dense(t, turnedRows)
}

func checkDense(y, x, w unified.Tensor, rows, inner int64) error {
	switch {
	case !dense(y) || !dense(x) || !dense(w) || y.Len() != rows || w.Len() != inner || y.Width() != w.Width():
		return fmt.Errorf("%w: a dense product of %v and %v cannot be %v", ErrShape, x, w, y)
	case inner > 1<<31-1:
		return fmt.Errorf("%w: sums of %d products", ErrShape, inner)
	case overlap(y, x) || overlap(y, w):
		return fmt.Errorf("%w: the product shares memory with a factor", ErrShape)
	}
	return nil
}

func (p *Pool) dense(t denseTask, step int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	if t.rows == 0 || t.out == 0 {
		return nil
	}
	if t.inner == 0 {
		clear(floats(t.y))
		return nil
	}
	d := &p.product
	t.passes, t.columns, t.room, t.step = d.passes[:0], d.columns, d.room, step
	values := t.inner // of a row
	if t.turned {
		values = min(values, block)
	}
	for n := int64(len(t.columns)); n < values; n++ {
		t.columns = append(t.columns, int32(n))
	}
	if t.room == nil {
		t.room = make([][]float32, p.workers)
	}
	t.plan = plan{variant: variants()[0], tile: 8, ahead: 4}
	if t.plan.variant != plain {
		t.passes = appendPasses(t.passes, t.plan, t.out, 0)
	}
	*d = t
	err := p.run(d, (t.rows+step-1)/step)
	d.y, d.x, d.w = unified.Tensor{}, unified.Tensor{}, unified.Tensor{}
	return err
}

func (t *denseTask) do(worker int, part, _ int64) {
	lo, hi := part*t.step, min((part+1)*t.step, t.rows)
	x, y, w := floats(t.x), floats(t.y), floats(t.w)
	if !t.turned {
		t.sums(y[lo*t.out:hi*t.out], x[lo*t.inner:hi*t.inner], w, t.inner)
		return
	}
	n := turnedRows * (block + t.out)
	if int64(len(t.room[worker])) < n {
		t.room[worker] = make([]float32, n)
	}
	room := t.room[worker][:n]
	for from := int64(0); from < t.inner; from += block {
		length := min(block, t.inner-from)
		values, sums := room[:(hi-lo)*length], room[turnedRows*block:][:(hi-lo)*t.out]
		for r := range length {
			for i, v := range x[(from+r)*t.rows+lo : (from+r)*t.rows+hi] {
				values[int64(i)*length+r] = v
			}
		}
		to := y[lo*t.out : hi*t.out]
		if from == 0 {
			t.sums(to, values, w, length)
			continue
		}
		t.sums(sums, values, w[from*t.out:], length)
		for i, v := range sums {
			to[i] += v
		}
	}
}

// sums makes rows of y: sums of the first rows of w, as many as each has values.
func (t *denseTask) sums(y, values, w []float32, length int64) {
	if t.plan.variant == plain {
		t.plain(y, values, w, length)
		return
	}
	indptr := [2]int32{0, int32(length)}
	run := &spmmRun{indptr: unsafe.Pointer(&indptr), indices: unsafe.Pointer(&t.columns[0]),
		last: unsafe.Pointer(&t.columns[length-1]), xStride: int(4 * t.out), yStride: int(4 * t.out),
		ahead: 4 * t.plan.ahead, index: 4, shift: 2, step: floatBytes}
	if t.out < int64(t.plan.variant.bytes()/4) {
		run.mask = maskOf(t.plan.variant, int(t.out))
	}
	for _, s := range t.passes {
		run.vectors, run.tail, run.x = s.vectors, int(4*s.tail), unsafe.Pointer(&w[s.column])
		for i := range int64(len(y)) / t.out {
			run.y = uintptr(unsafe.Pointer(&y[i*t.out+s.column]))
			run.weights = unsafe.Pointer(&values[i*length])
			run.sum(t.plan.variant, false, 0, 1)
		}
	}
}

func (t *denseTask) plain(y, values, w []float32, length int64) {
	clear(y)
	for i := range int64(len(y)) / t.out {
		row := y[i*t.out:][:t.out]
		for e := range length {
			v := values[i*length+e]
			for k, x := range w[e*t.out:][:t.out] {
				row[k] += float32(v * x)
			}
		}
	}
}
