package unified

import (
	"context"
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/pinned"
)

// Moved is a tensor that To moved, with the memory that this took. Its views are valid until Close, which the owner
// calls after the last use, on a device too.
type Moved struct {
	Tensor
	release func() error
}

// Close gives back what To took, and leaves no tensor. Later calls do nothing.
func (m *Moved) Close() error {
	release := m.release
	m.Tensor, m.release = Tensor{}, nil
	if release == nil {
		return nil
	}
	return release()
}

// To returns a tensor with the same elements at another place. Where it lies there already, the result is the same view
// and costs nothing.
//
//   - To Processor.Unified of a device: To attaches the tensor (pinned.Attach). It registers mapped files and memory of
//     package pinned where they lie, if the machine allows it; they must then stay valid and unchanged until Close.
//     Otherwise, and from the Go heap, it copies the elements once.
//   - To Processor.Memory of a device: To copies the elements to device memory (pinned.Upload).
//   - To the host, the zero Target: To copies the elements to pageable memory.
//
// Work on a device that writes to the tensor must have ended before. The end of ctx ends To early. Errors: those of
// Attach and Upload; pinned.ErrPlacement for moving from one device to another.
func (t Tensor) To(ctx context.Context, to Target) (*Moved, error) {
	switch {
	case !t.Valid() || t.placement == to.place && t.placement != Device:
		return &Moved{Tensor: t}, nil
	case t.placement == Device:
		return t.fromDevice(to)
	case to.place == Host:
		r, err := pinned.Allocate(int64(len(t.data)), pinned.Options{Purpose: pinned.Columns})
		if err != nil {
			return nil, err
		}
		copy(r.Bytes(), t.data)
		return t.moved(Host, r.Bytes(), r.Close)
	case to.place == Pinned:
		a, err := pinned.Attach(ctx, to.dev, t.data, pinned.AttachOptions{Purpose: pinned.Columns})
		if err != nil {
			return nil, err
		}
		return t.moved(Pinned, a.Bytes(), a.Close)
	}
	return t.upload(ctx, to.dev)
}

// moved returns t with other memory, which holds the same elements.
func (t Tensor) moved(place Placement, data []byte, release func() error) (*Moved, error) {
	t.placement, t.data = place, data[:len(t.data):len(t.data)]
	return &Moved{t, release}, nil
}

func (t Tensor) upload(ctx context.Context, dev *device.Device) (*Moved, error) {
	s, err := dev.NewStream(device.PriorityLow)
	if err != nil {
		return nil, err
	}
	a, err := pinned.Upload(ctx, dev, s, t.data, pinned.AttachOptions{Purpose: pinned.Columns})
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, err
	}
	return t.moved(Device, a.Bytes(), a.Close)
}

// fromDevice copies a tensor in device memory to host memory, page-locked or not. To the device that holds it, it is a
// view.
func (t Tensor) fromDevice(to Target) (*Moved, error) {
	if len(t.data) == 0 {
		return t.moved(to.place, nil, nil)
	}
	home, err := device.OpenAt(t.Address())
	if err != nil {
		return nil, err
	}
	defer home.Close()
	if to.place == Device {
		if home.Ordinal() != to.dev.Ordinal() {
			return nil, fmt.Errorf("move %v from cuda:%d to cuda:%d: %w: move it to the host first", t, home.Ordinal(),
				to.dev.Ordinal(), pinned.ErrPlacement)
		}
		return &Moved{Tensor: t}, nil
	}
	r, err := pinned.Allocate(int64(len(t.data)), pinned.Options{Purpose: pinned.Columns, Device: to.dev,
		Place: to.place})
	if err != nil {
		return nil, err
	}
	if err := download(home, r.Bytes(), t.Address()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return t.moved(to.place, r.Bytes(), r.Close)
}

func download(dev *device.Device, dst []byte, src device.Address) error {
	s, err := dev.NewStream(device.PriorityLow)
	if err != nil {
		return err
	}
	err = s.CopyToHost(dst, src)
	return errors.Join(err, s.Synchronize(), s.Close())
}
