package loader

import (
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// download brings tensors of a device to the host, one at a time. The zero value is ready; its first error stays.
type download struct {
	stream *device.Stream
	memory pinned.Buffer
	err    error
}

// tensor returns t's elements in host memory: t itself where it lies there, else a copy that is valid until the next
// call.
func (d *download) tensor(s *slot, t unified.Tensor) unified.Tensor {
	if t.Placement() != unified.Device || len(t.Bytes()) == 0 || d.err != nil {
		return t
	}
	host, err := d.copy(s.loader, t)
	d.err = err
	return host
}

// CopyTo copies a tensor of the batch to host memory, wherever it lies, and waits for it. One goroutine at a time may
// call it, or Digest.
func (b *Batch) CopyTo(to []byte, t unified.Tensor) error {
	if len(to) != len(t.Bytes()) {
		return fmt.Errorf("%w: %v into %d bytes", unified.ErrShape, t, len(to))
	}
	if t.Placement() != unified.Device || len(to) == 0 {
		copy(to, t.Bytes())
		return nil
	}
	if b.slot == nil {
		return fmt.Errorf("%w: the batch was released", ErrClosed)
	}
	if err := b.Sync(); err != nil {
		return err
	}
	host, err := b.slot.down.copy(b.loader, t)
	if err == nil {
		copy(to, host.Bytes())
	}
	return err
}

func (d *download) copy(l *Loader, t unified.Tensor) (host unified.Tensor, err error) {
	if d.stream == nil {
		d.memory.Options = pinned.Options{Ledger: &l.ledger, Purpose: pinned.Batches, Device: l.device.Device,
			Place: pinned.Pinned}
		if d.stream, err = l.device.NewStream(device.PriorityLow); err != nil {
			return host, err
		}
	}
	n := int64(len(t.Bytes()))
	if err := d.memory.Grow(n, 0); err != nil {
		return host, err
	}
	mem := d.memory.Bytes()[:n]
	if err := d.stream.CopyToHost(mem, t.Address()); err != nil {
		return host, err
	}
	if err := d.stream.Synchronize(); err != nil {
		return host, err
	}
	return unified.NewPlaced(unified.Pinned, t.DType(), mem, t.Shape()...)
}

func (d *download) close() error {
	if d.stream == nil {
		return nil
	}
	err := errors.Join(d.stream.Close(), d.memory.Close())
	d.stream = nil
	return err
}
