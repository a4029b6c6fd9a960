package shm

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Batches on a device: a server makes them in segments of device memory, which consumers open by their CUDA IPC
// handles. Descriptors stay on the host.

// deviceMemory is what a segment on a device has besides its bytes, which have the device's address and length.
type deviceMemory struct {
	on     *device.Device
	handle device.IPCHandle // of a server's
	free   func() error
}

// isOn reports whether a segment is of a device; nil is the host.
func (s *segment) isOn(d *device.Device) bool {
	if s.device == nil {
		return d == nil
	}
	return s.device.on == d
}

// describe completes SEGMENT for device memory; it leaves it as it is for nil.
func (m *deviceMemory) describe(note *segmentNote) {
	if m != nil {
		note.memory, note.device, note.handle = deviceSegment, uint32(m.on.Ordinal()), m.handle
	}
}

// newDeviceSegment takes n bytes of device memory that other processes can open. It is one allocation of the driver:
// what is opened is always a whole one.
func newDeviceSegment(d *device.Device, n int64) (*segment, error) {
	r, err := pinned.Allocate(n, pinned.Options{Device: d})
	if err != nil {
		return nil, err
	}
	h, err := d.ExportMemory(r.Address())
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return &segment{data: r.Bytes(), fd: -1, device: &deviceMemory{d, h, r.Close}}, nil
}

// deviceArena is the part of an arena that lies on a device, as a pinned.Provider.
type deviceArena struct {
	*arena
	on *device.Device
}

// Take implements pinned.Provider for device memory.
func (a deviceArena) Take(n int64) ([]byte, error) { return a.take(n, a.on) }

// --- the server ---

// openDevice lets the loader make batches in the ring's device memory, where it makes them on a device. Where there is
// no such device the loader says so; where a driver shares no memory all consumers get copies on the host.
func (r *rank) openDevice(opt *loader.Options) error {
	n, err := loader.ParseDevice(opt.Device)
	if err != nil || n < 0 || n >= device.Count() {
		return err
	}
	d, err := device.Open(n)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", loader.ErrDevice, opt.Device, err)
	}
	opt.RowMemory = nil
	memory := deviceArena{r.arena, d}
	first, err := memory.Take(1)
	if err != nil {
		r.server.opt.Logger.Warn("consumers get copies on the host", "device", opt.Device, "error", err)
		return d.Close()
	}
	r.device, opt.RowMemory = d, memory
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
func (r *rank) places() []unified.Placement {
	if r.device == nil || r.server.opt.Readers > 0 {
		return []unified.Placement{unified.Host}
	}
	return []unified.Placement{unified.Host, unified.Device}
}

// placeFor returns where a consumer gets its batches.
func (r *rank) placeFor(h hello) unified.Placement {
	if h.takes&takesDevice == 0 || len(r.places()) == 1 {
		return unified.Host
	}
	return unified.Device
}

// teardownTimeout is how long a process may take to end that has died with batches on a device.
const teardownTimeout = 5 * time.Second

// awaitKernels waits until a consumer that went without a word has ended: until then its kernels may still write to
// slots that it held on a device.
func (p *peer) awaitKernels(ctx context.Context, ended <-chan struct{}) {
	if p.way.place != unified.Device || p.watched == 0 {
		return
	}
	select {
	case <-ended:
	case <-ctx.Done():
	case <-time.After(teardownTimeout):
	}
}

// --- the consumer ---

// openDevice opens the device that the options name.
func (c *Consumer) openDevice() error {
	if c.opt.Device == "" {
		return nil
	}
	n, err := loader.ParseDevice(c.opt.Device)
	if err != nil || n < 0 {
		return fmt.Errorf("%w: Device %q: must be cuda or cuda:<number>", ErrOptions, c.opt.Device)
	}
	c.device, err = device.Open(n)
	return err
}

func (c *Consumer) closeDevice() {
	if c.device != nil {
		_ = c.device.Close() // what it gave out was closed before
	}
}

// importSegment opens device memory of the server.
func (c *Consumer) importSegment(m segmentNote) (*segment, error) {
	if c.device == nil {
		return nil, fmt.Errorf("%w: SEGMENT %d is on a device, which was not asked for", errMessage, m.index)
	}
	at, err := c.device.ImportMemory(m.handle)
	if err != nil {
		return nil, fmt.Errorf("segment %d, on cuda:%d of the server: %w", m.index, m.device, err)
	}
	end := func() error { return c.device.CloseMemory(at) }
	info, err := c.device.Pointer(at)
	if err == nil && info.Size > 0 && uint64(info.Start)+uint64(info.Size) < uint64(at)+m.size {
		err = fmt.Errorf("%w: SEGMENT %d has %d bytes, not %d", errMessage, m.index, info.Size, m.size)
	}
	if err != nil {
		return nil, errors.Join(err, end())
	}
	p := uintptr(at)
	data := unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), m.size) // an address of the device, not of Go
	return &segment{data: data, fd: -1, device: &deviceMemory{on: c.device, free: end}}, nil
}

// onDevice reports whether a segment is there and on a device.
func (c *Consumer) onDevice(segment uint32) bool {
	return uint64(segment) < uint64(len(c.segments)) && c.segments[segment].device != nil
}

// placeArrays says of the arrays of a descriptor which of them lie on the device.
func (c *Consumer) placeArrays(d []byte, arrays []Array) (err error) {
	for i := range arrays {
		t := &arrays[i].Tensor
		if c.device == nil || len(t.Bytes()) == 0 || !c.onDevice(le.Uint32(d[descriptorHead+entrySize*i+8:])) {
			continue
		}
		if *t, err = unified.NewPlaced(unified.Device, t.DType(), t.Bytes(), t.Shape()...); err != nil {
			return err
		}
	}
	return nil
}
