package shm

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

// newSegment makes a sealed memfd of n bytes, a multiple of HugePage, and maps it for writing. Its pages are taken when
// they are first written.
func newSegment(n int64, a access) (*segment, error) {
	fd, err := unix.MemfdCreate("khop-feed", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // Linux before 6.3
		fd, err = unix.MemfdCreate("khop-feed", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	s := &segment{fd: fd}
	if err := s.prepare(n, a); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *segment) prepare(n int64, a access) (err error) {
	if err := unix.Ftruncate(s.fd, n); err != nil {
		return fmt.Errorf("ftruncate: %w", err)
	}
	if s.raw, s.data, err = mapShared(s.fd, n, readWrite); err != nil {
		return err
	}
	seals := fixedSize
	if a == readOnly { // from now on: our own mapping stays writable
		seals |= unix.F_SEAL_FUTURE_WRITE
	}
	if _, err := unix.FcntlInt(uintptr(s.fd), unix.F_ADD_SEALS, seals); err != nil {
		return fmt.Errorf("seal a memfd: %w", err)
	}
	return nil
}

// mapShared maps a file of n bytes at an address that suits huge pages. raw is what to unmap.
func mapShared(fd int, n int64, a access) (raw, data []byte, err error) {
	if n <= 0 || n > math.MaxInt-pinned.HugePage {
		return nil, nil, fmt.Errorf("map %d bytes: %w", n, unix.ENOMEM)
	}
	raw, err = unix.Mmap(-1, 0, int(n)+pinned.HugePage, unix.PROT_NONE,
		unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, nil, fmt.Errorf("reserve %d bytes: %w", n, err)
	}
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(raw))) & (pinned.HugePage - 1))
	data = raw[skip : skip+int(n) : skip+int(n)]
	protection := unix.PROT_READ
	if a == readWrite {
		protection |= unix.PROT_WRITE
	}
	_, err = unix.MmapPtr(fd, 0, unsafe.Pointer(unsafe.SliceData(data)), uintptr(n), protection,
		unix.MAP_SHARED|unix.MAP_FIXED)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("map %d bytes: %w", n, err), unix.Munmap(raw))
	}
	_ = unix.Madvise(data, unix.MADV_HUGEPAGE) // where the kernel has them for shared memory
	return raw, data, nil
}

// openSegment checks and maps what a server has sent. It closes fd.
func openSegment(fd int, note segmentNote) (*segment, error) {
	defer unix.Close(fd)
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || seals&fixedSize != fixedSize {
		return nil, fmt.Errorf("%w: SEGMENT %d is no sealed memory (seals %#x)", errMessage, note.index, seals)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || uint64(st.Size) != note.size {
		return nil, fmt.Errorf("%w: SEGMENT %d has %d bytes, not %d", errMessage, note.index, st.Size, note.size)
	}
	a := readWrite
	if note.flag&segmentReadOnly != 0 {
		a = readOnly
	}
	s := &segment{fd: -1}
	s.raw, s.data, err = mapShared(fd, int64(note.size), a)
	return s, err
}

func (s *segment) close() error {
	var errs []error
	if s.device != nil {
		errs = append(errs, s.device.free())
	}
	if s.raw != nil {
		errs = append(errs, unix.Munmap(s.raw))
	}
	if s.fd >= 0 {
		errs = append(errs, unix.Close(s.fd))
	}
	s.raw, s.data, s.fd, s.device = nil, nil, -1, nil
	return errors.Join(errs...)
}
