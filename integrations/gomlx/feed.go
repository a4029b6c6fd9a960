package gomlx

import (
	"context"
	"io"
	"iter"

	"github.com/gomlx/gomlx/pkg/core/tensors"

	"github.com/khop-gnn/khop/loader"
)

// item is a batch as tensors, or what came in its place.
type item struct {
	inputs, labels []*tensors.Tensor
	state          loader.State
	err            error
}

// free finalizes tensors that nobody was given.
func (i *item) free() {
	for _, list := range [][]*tensors.Tensor{i.inputs, i.labels} {
		for _, t := range list {
			t.FinalizeLocal()
		}
	}
}

// feed is a goroutine that runs through an epoch and holds one converted batch ready. Its Dataset owns it.
type feed struct {
	ctx    context.Context
	cancel context.CancelFunc
	items  chan item // closed when the goroutine has ended
}

func startFeed(ctx context.Context, cancel context.CancelFunc, batches iter.Seq2[*loader.Batch, error],
	c *converter) *feed {
	f := &feed{ctx: ctx, cancel: cancel, items: make(chan item)}
	go func() {
		defer close(f.items)
		for b, err := range batches {
			it := item{err: err}
			if err == nil {
				it = c.convert(b)
			}
			select {
			case f.items <- it:
			case <-ctx.Done():
				it.free()
				return
			}
			if it.err != nil {
				return
			}
		}
	}()
	return f
}

// receive waits for the next batch.
func (f *feed) receive() item {
	it, ok := <-f.items
	switch {
	case ok:
		return it
	case f.ctx.Err() != nil:
		return item{err: context.Cause(f.ctx)}
	}
	return item{err: io.EOF}
}

// stop ends the goroutine, waits for it, and frees what it held ready.
func (f *feed) stop() {
	f.cancel()
	for it := range f.items {
		it.free()
	}
}
