package gnn

import (
	"fmt"
	"unsafe"

	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// Value is a matrix of float32 that a tape computes with. Grad has the same shape, or is nil where no gradient is
// wanted.
type Value struct {
	Rows, Cols int
	Data, Grad []float32
}

// NewValue returns a matrix over data, rows x cols of it, which it keeps. With a gradient, it is one to train.
func NewValue(rows, cols int, data []float32) *Value {
	return &Value{Rows: rows, Cols: cols, Data: data[:rows*cols]}
}

func (v *Value) tensor() unified.Tensor { return tensor(v.Data, v.Rows, v.Cols) }

func (v *Value) grad() unified.Tensor { return tensor(v.Grad, v.Rows, v.Cols) }

// tensor views a matrix. Data is as long as the shape says.
func tensor(data []float32, rows, cols int) unified.Tensor {
	t, _ := unified.New(unified.Float32, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), 4*len(data)),
		int64(rows), int64(cols))
	return t
}

// Tape records operations on values. The first error sticks: later operations return values of the right shape, and
// Backward and Err return it. A tape is for one goroutine.
type Tape struct {
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

// NewTape returns a tape that computes on a pool.
func NewTape(pool *sparse.Pool) *Tape {
	return &Tape{pool: pool, arena: arena{memory: &budget{}}}
}

// Reset forgets what was computed. All values but parameters and inputs are invalid from then on.
func (t *Tape) Reset() {
	t.steps, t.draws, t.aggregates, t.err = t.steps[:0], 0, 0, nil
	t.reset()
}

// Err returns the first error.
func (t *Tape) Err() error { return t.err }

// room returns n zeros, until Reset.
func (t *Tape) room(n int) []float32 { return t.take(n) }

// made returns a new value, with a gradient if one is wanted of any of the operands.
func (t *Tape) made(rows, cols int, of ...*Value) *Value {
	v := &Value{Rows: rows, Cols: cols, Data: t.room(rows * cols)}
	for _, o := range of {
		if o.Grad != nil {
			v.Grad = t.room(rows * cols)
			break
		}
	}
	return v
}

// do computes now, and remembers how the gradient flows back. what names the operation.
func (t *Tape) do(what string, forward, backward func() error) {
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
func (t *Tape) Backward() error {
	for i := len(t.steps) - 1; i >= 0 && t.err == nil; i-- {
		t.err = t.steps[i]()
	}
	return t.err
}

// chance returns the stream of draws of the next dropout.
func (t *Tape) chance() uint64 {
	t.draws++
	return rng.Mix64(rng.Mix64(rng.Mix64(t.Seed)+t.Step) + t.draws)
}

func add(to, from []float32) {
	for i, v := range from {
		to[i] += v
	}
}
