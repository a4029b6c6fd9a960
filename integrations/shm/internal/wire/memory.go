package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/pinned"
)

// Memory is a segment of a ring: a memfd, mapped, or memory of a device. Within a process it is anonymous memory, or
// memory of a device that nobody else opens, and consumers share it. Who has it closes it, as often as it was kept.
type Memory struct {
	Data   []byte         // on a device: its address and length
	FD     int            // of the memfd, at the server; else -1
	Device *device.Device // that it lies on; nil for the host

	access  Access
	handle  device.IPCHandle
	release func() error
	others  atomic.Int32 // who keep it beside its first owner
}

// Access says what consumers may do with a segment.
type Access uint8

// The kinds of access.
const (
	ReadWrite Access = iota
	ReadOnly
	Within // the process that makes it: consumers there read and write it where it is
)

// Placement says where the memory lies.
func (m *Memory) Placement() pinned.Placement {
	if m.Device != nil {
		return pinned.Device
	}
	return pinned.Host
}

// Note returns the SEGMENT that hands the memory over as segment number i, together with FD.
func (m *Memory) Note(i int) Segment {
	s := Segment{Index: uint32(i), Size: uint64(len(m.Data)), Handle: m.handle}
	if m.Device != nil {
		s.Memory, s.Device = OnDevice, uint32(m.Device.Ordinal())
	}
	switch m.access {
	case ReadOnly:
		s.Is = SegmentReadOnly
	case Within:
		s.Is = SegmentWithin
		binary.LittleEndian.PutUint64(s.Handle[:], uint64(uintptr(unsafe.Pointer(unsafe.SliceData(m.Data)))))
	}
	return s
}

// NewMemory takes n bytes, a multiple of pinned.HugePage, that other processes can open: of opt.Device, as one
// allocation that the ledger of opt counts, or else of the host, whose pages are taken when they are first written.
// With the access Within no other process can.
func NewMemory(n int64, a Access, opt pinned.Options) (*Memory, error) {
	if opt.Device == nil && a == Within {
		return newOwnMemory(n)
	}
	if opt.Device == nil {
		return newHostMemory(n, a)
	}
	r, err := pinned.Allocate(n, opt)
	if err != nil {
		return nil, err
	}
	if a == Within {
		return &Memory{Data: r.Bytes(), FD: -1, Device: opt.Device, access: a, release: r.Close}, nil
	}
	h, err := opt.Device.ExportMemory(r.Address())
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return &Memory{Data: r.Bytes(), FD: -1, Device: opt.Device, handle: h, release: r.Close}, nil
}

// OpenMemory checks and maps what a server has sent: a message with a descriptor, which it closes, or with -1. d is the
// device on which the consumer takes batches; nil for none.
func OpenMemory(s Segment, fd int, d *device.Device) (*Memory, error) {
	if (fd >= 0) != (s.Memory == OnHost) {
		CloseDescriptor(fd)
		return nil, fmt.Errorf("%w: SEGMENT %d in memory %d, with or without a descriptor", ErrMessage, s.Index,
			s.Memory)
	}
	if s.Memory == OnHost {
		return openHostMemory(s, fd)
	}
	if d == nil {
		return nil, fmt.Errorf("%w: SEGMENT %d is on a device, which was not asked for", ErrMessage, s.Index)
	}
	m, err := d.ImportMemory(s.Handle)
	if err != nil {
		return nil, fmt.Errorf("segment %d, on cuda:%d of the server: %w", s.Index, s.Device, err)
	}
	at := m.Address()
	info, err := d.Pointer(at)
	if err == nil && info.Size > 0 && uint64(info.Start)+uint64(info.Size) < uint64(at)+s.Size {
		err = fmt.Errorf("%w: SEGMENT %d has %d bytes, not %d", ErrMessage, s.Index, info.Size, s.Size)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	p := uintptr(at)
	data := unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), s.Size) // an address of the device, not of Go
	return &Memory{Data: data, FD: -1, Device: d, release: m.Close}, nil
}

// Keep gives the memory another owner, who closes it too. Only an owner may call it.
func (m *Memory) Keep() { m.others.Add(1) }

// Close gives the memory back, when its last owner does. Other processes keep their mappings.
func (m *Memory) Close() error {
	if m.others.Add(-1) >= 0 {
		return nil
	}
	release := m.release
	CloseDescriptor(m.FD)
	m.Data, m.FD, m.release = nil, -1, nil
	if release == nil {
		return nil
	}
	return release()
}
