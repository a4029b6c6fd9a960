package unified

import (
	"errors"
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/pinned"
)

// Address returns the address of the first element for kernels; 0 where no device can reach it (placement Host), and
// without elements. It is valid as long as the tensor is.
func (t Tensor) Address() device.Address {
	if t.placement == pinned.Host || len(t.data) == 0 {
		return 0
	}
	return device.Address(uintptr(unsafe.Pointer(unsafe.SliceData(t.data))))
}

// OnHost returns a tensor that the host may read: a copy of a tensor in device memory, which release frees, or any
// other tensor itself. Work that writes to the tensor must have ended before. Errors: those of the device and of
// memory.
func (t Tensor) OnHost() (host Tensor, release func() error, err error) {
	if t.placement != pinned.Device || len(t.data) == 0 {
		if t.placement == pinned.Device {
			t.placement, t.data = pinned.Host, nil
		}
		return t, func() error { return nil }, nil
	}
	home, err := device.OpenAt(t.Address())
	if err != nil {
		return Tensor{}, nil, err
	}
	defer home.Close()
	r, err := pinned.Allocate(int64(len(t.data)), pinned.Options{Purpose: pinned.Columns})
	if err != nil {
		return Tensor{}, nil, err
	}
	if err := download(home, r.Bytes(), t.Address()); err != nil {
		return Tensor{}, nil, errors.Join(err, r.Close())
	}
	t.placement, t.data = pinned.Host, r.Bytes()[:len(t.data):len(t.data)]
	return t, r.Close, nil
}

func download(dev *device.Device, dst []byte, src device.Address) error {
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	err = s.CopyToHost(dst, src)
	return errors.Join(err, s.Synchronize(), s.Close())
}
