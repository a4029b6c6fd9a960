package gnn

import (
	"fmt"
	"unsafe"

	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/internal/vector"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// variable is a matrix of float32 that a tape computes with. Grad has the same shape, or is nil where no gradient is
// wanted. Backward adds to it.
type variable struct {
	Rows, Cols int
	Data, Grad []float32

	unset bool      // Grad was not written yet, and counts as zeros
	whole *variable // of which this is a part, or nil
}

// newVariable returns a matrix over data, rows x cols of it, which it keeps. With a gradient, it is one to train.
func newVariable(rows, cols int, data []float32) *variable {
	return &variable{Rows: rows, Cols: cols, Data: data[:rows*cols]}
}

func (v *variable) tensor() unified.Tensor { return tensor(v.Data, v.Rows, v.Cols) }

// gradient returns the gradient so far.
func (v *variable) gradient() []float32 {
	at := v
	if v.whole != nil {
		at = v.whole
	}
	if at.unset {
		at.unset = false
		clear(at.Grad)
	}
	return v.Grad
}

func (v *variable) grad() unified.Tensor { return tensor(v.gradient(), v.Rows, v.Cols) }

// tensor views a matrix. Data is as long as the shape says.
func tensor(data []float32, rows, cols int) unified.Tensor {
	t, _ := unified.New(unified.Float32, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), 4*len(data)),
		int64(rows), int64(cols))
	return t
}

// autodiff records operations on values. The first error sticks: later operations return values of the right shape, and
// Backward and Err return it. A tape is for one goroutine.
type autodiff struct {
	// Training says whether Dropout drops. Draws are keyed by Seed and Step.
	Training   bool
	Seed, Step uint64

	pool  *sparse.Pool
	steps []func() error // gradients, in the order of the operations
	draws uint64         // dropouts in this step
	err   error

	aggregates  int            // that have a gradient, in this step
	approximate *approximation // of their gradients, or nil
	arena
}

// newAutodiff returns a tape that computes on a pool.
func newAutodiff(pool *sparse.Pool) *autodiff {
	return &autodiff{pool: pool, arena: arena{memory: &budget{}}}
}

// Reset forgets what was computed. All values but parameters and inputs are invalid from then on.
func (t *autodiff) Reset() {
	clear(t.steps) // what they hold is garbage from now on
	t.steps, t.draws, t.aggregates, t.err = t.steps[:0], 0, 0, nil
	t.reset()
}

// Err returns the first error.
func (t *autodiff) Err() error { return t.err }

// room returns memory for n floats, until Reset. Its contents are undefined.
func (t *autodiff) room(n int) []float32 { return t.take(n) }

// bits returns memory for a bit an element.
func (t *autodiff) bits(n int) []byte {
	bytes := vector.Bits(n)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(t.room((bytes+3)/4)))), bytes)
}

// made returns a new value to be written, with a gradient if one is wanted of any of the operands.
func (t *autodiff) made(rows, cols int, of ...*variable) *variable {
	v := &variable{Rows: rows, Cols: cols, Data: t.room(rows * cols)}
	for _, o := range of {
		if o.Grad != nil {
			v.Grad, v.unset = t.room(rows*cols), true
			break
		}
	}
	return v
}

// flow adds to the gradient of v, if it has one, what f writes.
func (t *autodiff) flow(v *variable, f func(to []float32) error) error {
	if v.Grad == nil {
		return nil
	}
	if v.unset {
		v.unset = false
		return f(v.Grad)
	}
	to, room := v.gradient(), t.room(len(v.Grad))
	if err := f(room); err != nil {
		return err
	}
	return t.spans(len(to), func(lo, hi int) { vector.Add(to[lo:hi], room[lo:hi], 1) })
}

// span is the number of elements that one goroutine computes at a time: they stay in its cache.
const span = 8192

// spans calls f for parts of n elements, on all goroutines of the pool. A part begins with a group of bits.
func (t *autodiff) spans(n int, f func(lo, hi int)) error {
	return t.pool.Split(int64(n), span, func(lo, hi int64) { f(int(lo), int(hi)) })
}

// rowSpan returns how many rows one goroutine computes at a time. It depends on nothing else, so that sums over them do
// not, and their elements are groups of bits.
func rowSpan(cols int) int { return max(span/max(cols, 1)/vector.Group, 1) * vector.Group }

// rowSpans calls f for parts of rows, on all goroutines of the pool.
func (t *autodiff) rowSpans(rows, cols int, f func(lo, hi int)) error {
	return t.pool.Split(int64(rows), int64(rowSpan(cols)), func(lo, hi int64) { f(int(lo), int(hi)) })
}

// do computes now, and remembers how the gradient flows back. what names the operation.
func (t *autodiff) do(what string, forward, backward func() error) {
	if t.err != nil {
		return
	}
	if err := forward(); err != nil {
		t.err = fmt.Errorf("%s: %w", what, err)
		return
	}
	t.steps = append(t.steps, backward)
}

// Backward adds the gradients of what was computed since Reset, whose last value's gradient the caller has set, or
// CrossEntropy.
func (t *autodiff) Backward() error {
	for i := len(t.steps) - 1; i >= 0 && t.err == nil; i-- {
		t.err = t.steps[i]()
	}
	return t.err
}

// chance returns the stream of draws of the next dropout.
func (t *autodiff) chance() uint64 {
	t.draws++
	return rng.Mix64(rng.Mix64(rng.Mix64(t.Seed)+t.Step) + t.draws)
}
