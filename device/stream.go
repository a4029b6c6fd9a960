package device

import (
	"sync/atomic"
	"unsafe"
)

// Stream is a queue of work on a device. Work on one stream runs in order, work on different streams in any order that
// their events allow. No stream waits for the legacy default stream. The zero value is not usable.
type Stream struct {
	device   *primary
	h        atomic.Uintptr
	borrowed bool // not ours to destroy
}

// NewStream makes a stream of the lowest priority, the driver's default. Close it.
func (d *Device) NewStream() (*Stream, error) {
	s := &Stream{device: d.primary}
	return made(d, s, &s.h, "make a stream", drv.newStream)
}

// do runs a call on the stream.
func (s *Stream) do(op string, call func(stream handle) result) error {
	h := s.h.Load()
	if h == 0 {
		return closedError("stream")
	}
	return s.device.do(op, func() result { return call(handle(h)) })
}

// CopyToDevice copies src to dst. It returns at once if src is page-locked (HostAlloc, Register), which must then stay
// unchanged until the stream has passed the copy. For memory of the Go heap the call may wait for the stream.
func (s *Stream) CopyToDevice(dst Address, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	return s.do("copy to the device", func(h handle) result { return drv.copyToDevice(h, dst, src) })
}

// Copies is a list of copies of page-locked memory to a device, which CopyAll queues together. The zero value is an
// empty list. It is not safe for concurrent use.
type Copies struct {
	to, from, sizes []uint64
	bytes           int64
}

// Add adds a copy of src to dst. src must be page-locked, and stay unchanged until the stream has passed the copy.
// Copies of one list must not overlap.
func (c *Copies) Add(dst Address, src []byte) {
	if len(src) == 0 {
		return
	}
	c.to, c.sizes = append(c.to, uint64(dst)), append(c.sizes, uint64(len(src)))
	c.from = append(c.from, uint64(uintptr(unsafe.Pointer(&src[0]))))
	c.bytes += int64(len(src))
}

// Bytes is how many bytes the list copies.
func (c *Copies) Bytes() int64 { return c.bytes }

// clear empties the list, and keeps its memory for the next copies.
func (c *Copies) clear() { *c = Copies{to: c.to[:0], from: c.from[:0], sizes: c.sizes[:0]} }

// CopyAll queues the copies of a list, in any order, and empties it: by one call if the driver has cuMemcpyBatchAsync
// (CUDA 12.8), else by one call for each.
func (s *Stream) CopyAll(c *Copies) error {
	defer c.clear()
	if len(c.to) == 0 {
		return nil
	}
	return s.do("copy to the device", func(h handle) result { return drv.copyAll(h, c) })
}

// CopyToHost copies len(dst) bytes at src to dst. dst must not be read before the stream has passed the copy.
func (s *Stream) CopyToHost(dst []byte, src Address) error {
	if len(dst) == 0 {
		return nil
	}
	return s.do("copy to the host", func(h handle) result { return drv.copyToHost(h, dst, src) })
}

// Copy copies n bytes from src to dst, addresses of this device or of one that it reaches. They must not overlap.
func (s *Stream) Copy(dst, src Address, n int64) error {
	if n == 0 {
		return nil
	}
	return s.do("copy on the device", func(h handle) result { return drv.copyOnDevice(h, dst, src, n) })
}

// Fill32 writes v to the n words of 32 bits at dst, which must be aligned to 4 bytes.
func (s *Stream) Fill32(dst Address, v uint32, n int64) error {
	if n == 0 {
		return nil
	}
	return s.do("fill device memory", func(h handle) result { return drv.fill32(h, dst, v, n) })
}

// Record marks the present end of the stream with e. An event may be recorded any number of times.
func (s *Stream) Record(e *Event) error {
	return e.use(func(event handle) error {
		return s.do("record an event", func(h handle) result { return drv.record(event, h) })
	})
}

// Wait makes later work on the stream wait for the place that e marks now. The host does not wait. An event that was
// never recorded causes no wait.
func (s *Stream) Wait(e *Event) error {
	return e.use(func(event handle) error {
		return s.do("let a stream wait for an event", func(h handle) result { return drv.wait(h, event) })
	})
}

// Synchronize waits until the stream is empty, and returns the error of the work that ran on it, if any.
func (s *Stream) Synchronize() error {
	return s.do("synchronize a stream", drv.syncStream)
}

// Query reports whether the stream is empty, without waiting.
func (s *Stream) Query() (bool, error) {
	return s.device.ready(s.do, "query a stream", drv.queryStream)
}

// Handle returns the stream's CUstream as a number, for other libraries that accept a stream; 0 after Close.
func (s *Stream) Handle() uintptr { return s.h.Load() }

// Close frees the stream. Work that is queued on it still runs. A second Close, or a Close of a nil Stream, does
// nothing.
func (s *Stream) Close() error {
	if s == nil {
		return nil
	}
	h := s.h.Swap(0)
	if h == 0 || s.borrowed {
		return nil
	}
	return s.device.dispose("close a stream", func() result { return drv.closeStream(handle(h)) })
}

// legacyStream is CU_STREAM_LEGACY: the handle of the default stream where 0 cannot stand for it.
const legacyStream = 1

// BorrowStream returns the stream of another program's handle, a CUstream of this device as a number; 0 is the legacy
// default stream. It stays the other program's: Close does not destroy it.
func (d *Device) BorrowStream(handle uintptr) *Stream {
	s := &Stream{device: d.primary, borrowed: true}
	if handle == 0 {
		handle = legacyStream
	}
	s.h.Store(handle)
	return s
}
