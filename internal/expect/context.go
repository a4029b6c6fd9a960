package expect

import (
	"context"
	"sync/atomic"
)

// Ending is a context that ends when it has been asked so often, by Err, whether it has.
type Ending struct {
	context.Context
	left atomic.Int64
}

// EndsAfter returns a context within ctx that does not end before it was asked looks times.
func EndsAfter(ctx context.Context, looks int64) *Ending {
	e := &Ending{Context: ctx}
	e.left.Store(looks)
	return e
}

// Err implements context.Context.
func (e *Ending) Err() error {
	if e.left.Add(-1) < 0 {
		return context.Canceled
	}
	return e.Context.Err()
}

// Left returns how many looks are left; it is negative after the end.
func (e *Ending) Left() int64 { return e.left.Load() }
