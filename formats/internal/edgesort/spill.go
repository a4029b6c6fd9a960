package edgesort

import (
	"errors"
	"os"
	"syscall"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/direct"
)

// directMemory is the memory from which on a sorter's temporary file passes the page cache by. Tests change it.
var directMemory = 64 << 20

// spill is the temporary file. Where it is large, and the file system lets it, it passes the page cache by: each byte
// is read once, after more bytes than the cache should hold.
type spill struct {
	budget *source.Budget
	large  bool
	file   *os.File
	path   string
	size   int64
	direct bool
}

// reserve makes the file longer by n bytes, and what aligning them takes, and returns where they begin.
func (s *spill) reserve(n int64) (int64, error) {
	if s.file == nil {
		var err error
		if s.file, s.path, err = source.TempFile(s.budget); err != nil {
			return 0, err
		}
		s.direct = s.large && direct.Set(s.file, true) == nil
	}
	n = (n + direct.Align - 1) &^ (direct.Align - 1)
	if err := s.budget.TakeDisk(n); err != nil {
		return 0, err
	}
	at := s.size
	s.size += n
	return at, nil
}

// write writes bytes at a place. Both are aligned as package direct needs it, and b has memory up to the next border.
func (s *spill) write(b []byte, at int64) error {
	b = b[:(len(b)+direct.Align-1)&^(direct.Align-1)]
	write := direct.WriteAt
	if s.direct {
		write = (*os.File).WriteAt
	}
	n, err := write(s.file, b, at)
	if s.direct && n == 0 && direct.Refused(err) {
		s.direct = false
		if err = direct.Set(s.file, false); err == nil {
			n, err = s.file.WriteAt(b, at)
		}
	}
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
	read := s.file.ReadAt
	if s.direct {
		read = func(b []byte, at int64) (int, error) { return direct.ReadAt(s.file, b, at) }
	}
	n, err := read(b, at)
	s.budget.Moved(0, int64(n))
	return err
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
