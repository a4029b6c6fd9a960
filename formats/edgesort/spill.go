package edgesort

import (
	"errors"
	"os"
	"syscall"
	"unsafe"

	"github.com/khop-gnn/khop/formats/source"
	"github.com/khop-gnn/khop/internal/csc"
)

// spill is the temporary file.
type spill struct {
	budget *source.Budget
	file   *os.File
	path   string
	size   int64
}

// reserve makes the file longer by n bytes and returns where they begin.
func (s *spill) reserve(n int64) (int64, error) {
	if s.file == nil {
		var err error
		if s.file, s.path, err = source.TempFile(s.budget); err != nil {
			return 0, err
		}
	}
	if err := s.budget.TakeDisk(n); err != nil {
		return 0, err
	}
	at := s.size
	s.size += n
	return at, nil
}

// write writes bytes at a place.
func (s *spill) write(b []byte, at int64) error {
	n, err := s.file.WriteAt(b, at)
	s.budget.Moved(int64(n), 0)
	if errors.Is(err, syscall.ENOSPC) {
		return source.NoSpace(s.budget, s.size, err)
	}
	return err
}

// read reads bytes from a place.
func (s *spill) read(b []byte, at int64) error {
	if len(b) == 0 {
		return nil
	}
	n, err := s.file.ReadAt(b, at)
	s.budget.Moved(0, int64(n))
	return err
}

// ahead asks the system to read bytes that are needed soon.
func (s *spill) ahead(at, n int64) {
	if n > 0 {
		readAhead(s.file, at, n)
	}
}

// Close removes the file.
func (s *spill) Close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if s.path != "" {
		err = errors.Join(err, os.Remove(s.path))
	}
	s.budget.GiveDisk(s.size)
	s.file, s.size = nil, 0
	return err
}

// bytesOf returns keys as the bytes that they are.
func bytesOf[K csc.Key](keys []K) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(keys))), int(unsafe.Sizeof(K(0)))*len(keys))
}
