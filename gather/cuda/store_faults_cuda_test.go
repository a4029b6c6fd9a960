//go:build cuda

package cuda

import (
	"context"
	"errors"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

const codeOutOfMemory, codeLaunchFailed = 2, 719

// TestStoreThatCannotBeMadeLeavesNothing lets each call of the driver fail in turn.
func TestStoreThatCannotBeMadeLeavesNothing(t *testing.T) {
	r := newRig(t)
	column := r.tensor(pinned.Pinned, unified.Float32, r.host(make([]byte, 4000), 0), 100, 10)
	before := cudatest.NowLive(t)
	for _, call := range []string{"cuModuleLoadDataEx", "cuModuleGetFunction",
		"cuStreamCreateWithPriority", "cuMemAlloc", "cuMemHostAlloc", "cuMemsetD32Async", "cuStreamSynchronize"} {
		cudatest.Fail(t, call, 1, codeOutOfMemory)
		s, err := NewStore(r.dev, column, column.Address())
		if !errors.Is(err, device.ErrOutOfMemory) {
			t.Errorf("%s fails: %v", call, err)
			if err == nil {
				r.check(s.Close())
			}
		}
		now := cudatest.NowLive(t)
		expect.That(t, now == before, "%s fails: %+v is alive, before it was %+v", call, now, before)
	}
}

// TestCacheThatFailsLeavesNothing does the same while a cache is filled.
func TestCacheThatFailsLeavesNothing(t *testing.T) {
	r := newRig(t)
	s := r.store(unified.Float32, r.host(make([]byte, 4000), 0), 100, 10)
	hot := []int64{1, 5, 50}
	r.check(s.Cache(context.Background(), hot, pinned.Options{})) // loads what is loaded once
	r.check(s.cache.close())
	before := cudatest.NowLive(t)
	for call, nth := range map[string]int{"cuMemAlloc": 2, "cuMemHostAlloc": 1, "cuMemsetD32Async": 1,
		"cuLaunchKernel": 2} {
		for n := 1; n <= nth; n++ {
			cudatest.Fail(t, call, n, codeOutOfMemory)
			err := s.Cache(context.Background(), hot, pinned.Options{})
			expect.That(t, errors.Is(err, device.ErrOutOfMemory) && s.Cached() == 0,
				"%s fails the %d. time: %v, %d rows cached", call, n, err, s.Cached())
			if now := cudatest.NowLive(t); now != before {
				t.Errorf("%s fails the %d. time: %+v is alive, before it was %+v", call, n, now, before)
			}
		}
	}
}

// TestDeviceLostWhileGathering: every call says so, and closing returns.
func TestDeviceLostWhileGathering(t *testing.T) {
	dev := must(device.Open(0))(t)
	stream := must(dev.NewStream())(t)
	r := &rig{t: t, dev: dev, stream: stream}
	src := must(pinned.Allocate(4000, pinned.Options{Device: dev, Place: pinned.Pinned}))(t)
	column := must(unified.NewPlaced(pinned.Pinned, unified.Float32, src.Bytes(), 100, 10))(t)
	s := must(NewStore(dev, column, column.Address()))(t)
	var buf unified.Buffer
	buf.Options = pinned.Options{Device: dev}
	idMemory := must(pinned.Allocate(8, pinned.Options{Device: dev, Place: pinned.Pinned}))(t)
	ids := r.tensor(pinned.Pinned, unified.Int32, idMemory.Bytes(), 2)
	cudatest.Fail(t, "kernel:gather_rows", 1, codeLaunchFailed)
	_, err := s.Enqueue(stream, &buf, ids)
	r.check(err)
	expect.Is(t, stream.Synchronize(), device.ErrDeviceLost, "the batch")
	expect.Is(t, expect.Err(s.Enqueue(stream, &buf, ids)), device.ErrDeviceLost, "the next one")
	expect.Is(t, expect.Err(s.Traffic()), device.ErrDeviceLost, "its counts")
	expect.Is(t,
		errors.Join(s.Close(), s.Close(), buf.Close(), idMemory.Close(), src.Close(), stream.Close(), dev.Close()), nil,
		"closing")
	cudatest.Findings() // the loss, which was meant
}
