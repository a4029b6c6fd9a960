package gather

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// chunk is how much is copied between two looks at the context: some milliseconds from memory, little enough for a
// progress bar from a slow disk.
const chunk = 16 << 20

// ResidentOptions say how Resident copies. The zero value takes uncounted memory and all cores.
type ResidentOptions struct {
	Memory   pinned.Options          // how the memory is taken and counted
	Workers  int                     // goroutines that copy; 0 means GOMAXPROCS
	Progress func(done, total int64) // called now and then, by one goroutine at a time, with bytes; nil for none
}

// Resident copies a tensor in host memory (a mapped file) into anonymous memory, on huge pages where it is large enough
// to profit. The copy has the same dtype, shape and contents. The caller closes the region, after which the copy must
// not be used; the original is not needed any more.
//
// Cancelling returns context.Cause and leaves no memory. A file that was cut short is pinned.ErrFault.
func Resident(ctx context.Context, t unified.Tensor, opt ResidentOptions) (unified.Tensor, *pinned.Region, error) {
	src := t.Bytes()
	region, err := pinned.Allocate(int64(len(src)), opt.Memory)
	if err != nil {
		return unified.Tensor{}, nil, err
	}
	if err := copyParallel(ctx, region.Bytes(), src, opt); err != nil {
		return unified.Tensor{}, nil, closeAfter(region, err)
	}
	c, err := unified.New(t.DType(), region.Bytes(), t.Shape()...)
	if err != nil {
		return unified.Tensor{}, nil, closeAfter(region, err)
	}
	return c, region, nil
}

func closeAfter(r *pinned.Region, err error) error {
	_ = r.Close()
	return err
}

// copyParallel copies by chunks, which goroutines take in turn so that they read the file nearly in order.
func copyParallel(ctx context.Context, dst, src []byte, opt ResidentOptions) error {
	total := int64(len(src))
	workers := opt.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	workers = min(workers, int((total+chunk-1)/chunk))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg   sync.WaitGroup
		next atomic.Int64
		mu   sync.Mutex
		done int64
	)
	step := func() error {
		for {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			lo := next.Add(chunk) - chunk
			if lo >= total {
				return nil
			}
			n := int64(copy(dst[lo:min(lo+chunk, total)], src[lo:]))
			mu.Lock()
			done += n
			if opt.Progress != nil {
				opt.Progress(done, total)
			}
			mu.Unlock()
		}
	}
	for range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := pinned.Guard(step); err != nil {
				cancel(err) // the first cause stays
			}
		}()
	}
	wg.Wait()
	return context.Cause(ctx)
}
