package wire

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/pinned"
)

// fixedSize are the seals without which no consumer maps a segment: with them no read of it can fault.
const fixedSize = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// newHostMemory makes a sealed memfd and maps it for writing.
func newHostMemory(n int64, a Access) (*Memory, error) {
	fd, err := unix.MemfdCreate("khop-feed", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // Linux before 6.3
		fd, err = unix.MemfdCreate("khop-feed", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	m := &Memory{FD: fd, access: a}
	if err := m.prepare(n); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// newOwnMemory takes memory of this process, of which a fork has a copy.
func newOwnMemory(n int64) (*Memory, error) {
	m := &Memory{FD: -1, access: Within}
	return m, m.mapAt(-1, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
}

func (m *Memory) prepare(n int64) error {
	if err := unix.Ftruncate(m.FD, n); err != nil {
		return fmt.Errorf("ftruncate: %w", err)
	}
	if err := m.mapAt(m.FD, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return err
	}
	seals := fixedSize
	if m.access == ReadOnly { // from now on: our own mapping stays writable
		seals |= unix.F_SEAL_FUTURE_WRITE
	}
	if _, err := unix.FcntlInt(uintptr(m.FD), unix.F_ADD_SEALS, seals); err != nil {
		return fmt.Errorf("seal a memfd: %w", err)
	}
	return nil
}

// mapAt maps n bytes, of a file or of none, at an address that suits huge pages.
func (m *Memory) mapAt(fd int, n int64, protection, flags int) error {
	if n <= 0 || n > math.MaxInt-pinned.HugePage {
		return fmt.Errorf("map %d bytes: %w", n, unix.ENOMEM)
	}
	raw, err := unix.Mmap(-1, 0, int(n)+pinned.HugePage, unix.PROT_NONE,
		unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("reserve %d bytes: %w", n, err)
	}
	m.release = func() error { return unix.Munmap(raw) }
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(raw))) & (pinned.HugePage - 1))
	m.Data = raw[skip : skip+int(n) : skip+int(n)]
	_, err = unix.MmapPtr(fd, 0, unsafe.Pointer(unsafe.SliceData(m.Data)), uintptr(n), protection,
		flags|unix.MAP_FIXED)
	if err != nil {
		return errors.Join(fmt.Errorf("map %d bytes: %w", n, err), m.Close())
	}
	_ = unix.Madvise(m.Data, unix.MADV_HUGEPAGE) // where the kernel has them for such memory
	return nil
}

// Own puts a copy of bytes begin to end in their place, which nobody else writes to. What shares their pages is cut off
// from the others, too.
func (m *Memory) Own(begin, end int) error {
	page := unix.Getpagesize()
	begin = begin / page * page
	n := uintptr((end - begin + page - 1) / page * page)
	copied, err := unix.MmapPtr(-1, 0, nil, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return fmt.Errorf("own %d bytes: %w", n, err)
	}
	from := m.Data[begin:min(begin+int(n), len(m.Data))]
	copy(unsafe.Slice((*byte)(copied), n), from)
	_, err = unix.MremapPtr(copied, n, unsafe.Pointer(&from[0]), n, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED)
	if err != nil {
		return errors.Join(fmt.Errorf("own %d bytes: %w", n, err), unix.MunmapPtr(copied, n))
	}
	return nil
}

// openHostMemory checks and maps a memfd. It closes fd.
func openHostMemory(s Segment, fd int) (*Memory, error) {
	defer unix.Close(fd)
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || seals&fixedSize != fixedSize {
		return nil, fmt.Errorf("%w: SEGMENT %d is not sealed memory (seals %#x)", ErrMessage, s.Index, seals)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || uint64(st.Size) != s.Size {
		return nil, fmt.Errorf("%w: SEGMENT %d has %d bytes, not %d", ErrMessage, s.Index, st.Size, s.Size)
	}
	protection := unix.PROT_READ
	if s.Is&SegmentReadOnly == 0 {
		protection |= unix.PROT_WRITE
	}
	m := &Memory{FD: -1}
	if err := m.mapAt(fd, int64(s.Size), protection, unix.MAP_SHARED); err != nil {
		return nil, err
	}
	return m, nil
}
