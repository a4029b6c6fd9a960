package server

import (
	"context"
	"fmt"
	"time"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
)

// openDevice lets the loader make batches in the ring's device memory, where it makes them on a device. Where a driver
// shares no memory all consumers get copies on the host.
func (r *rank) openDevice(src *loader.Placed, opt *loader.Options) error {
	n, err := loader.ParseDevice(src.Device())
	if err != nil || n < 0 {
		return err
	}
	d, err := device.Open(n)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", loader.ErrDevice, src.Device(), err)
	}
	opt.Hooks.RowMemory, r.down = nil, true
	memory := deviceArena{r.arena, d}
	first, err := memory.Take(1)
	if err != nil {
		r.server.opt.Logger.Warn("consumers get copies on the host", "device", src.Device(), "error", err)
		return d.Close()
	}
	if !d.MPS() {
		r.server.opt.Logger.Warn(device.WithoutMPS, "device", src.Device())
	}
	r.device, opt.Hooks.RowMemory = d, memory
	return memory.Give(first)
}

func (r *rank) closeDevice() error {
	if r.device == nil {
		return nil
	}
	return r.device.Close()
}

// deviceBytes returns the ring's bytes on the device.
func (r *rank) deviceBytes() int64 {
	if r.device == nil {
		return 0
	}
	return r.arena.size(r.device)
}

// places returns where consumers can have batches. What several read lies on the host: CUDA shares no memory for
// reading only.
func (r *rank) places() []pinned.Placement {
	if r.device == nil || r.server.opt.Readers > 0 {
		return []pinned.Placement{pinned.Host}
	}
	return []pinned.Placement{pinned.Host, pinned.Device}
}

// placeFor returns where a consumer gets its batches.
func (r *rank) placeFor(h wire.Hello) pinned.Placement {
	if h.Takes&wire.TakesDevice == 0 || len(r.places()) == 1 {
		return pinned.Host
	}
	return pinned.Device
}

// teardownTimeout is how long a process may take to end that has died with batches on a device. A variable
// for tests only.
var teardownTimeout = 5 * time.Second

// awaitKernels waits until a consumer that went without a word has ended: until then its kernels may still write to
// slots that it held on a device.
func (p *peer) awaitKernels(ctx context.Context, ended <-chan struct{}) {
	if p.way.place != pinned.Device || p.watched == 0 {
		return
	}
	select {
	case <-ended:
	case <-ctx.Done():
	case <-time.After(teardownTimeout):
	}
}
