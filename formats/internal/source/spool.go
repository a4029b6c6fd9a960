package source

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/direct"
	"github.com/khop-gnn/khop/internal/underway"
	"github.com/khop-gnn/khop/pinned"
)

// Spool is bytes that are appended and then read at will: in memory while they are few, else in a temporary file. The
// zero value is ready. It has one owner at a time. The owner calls Close.
type Spool struct {
	// Budget: a quarter of the memory that it has left is for the bytes in memory, and spoolMemory at most.
	Budget *Budget

	mem    []byte
	buffer []byte // of the file; nil: all bytes are in mem
	file   *os.File
	path   string // of a file that still has a name
	size   int64
	onDisk int64
	region *pinned.Region
}

// spoolMemory is how much a Spool keeps in memory.
const spoolMemory = 32 << 20

// fileBuffer is how much is gathered before it goes to the file.
const fileBuffer = 1 << 20

// Write appends p. A full disk is formats.ErrSpace.
func (s *Spool) Write(p []byte) (int, error) {
	if s.file == nil && !s.fits(len(p)) || s.file != nil && len(s.mem)+len(p) > fileBuffer {
		if err := s.toFile(); err != nil {
			return 0, err
		}
	}
	if s.file != nil && len(p) >= fileBuffer {
		n, err := s.append(p)
		s.size += int64(n)
		return n, err
	}
	s.mem = append(s.mem, p...)
	s.size += int64(len(p))
	return len(p), nil
}

// Expect says that there will be about n bytes: room for them in memory is made at once, if they may lie there.
func (s *Spool) Expect(n int64) {
	if more := n - int64(len(s.mem)); s.file == nil && more > 0 && n <= spoolMemory {
		s.fits(int(more))
	}
}

// fits makes room in memory for n more bytes, if they may lie there.
func (s *Spool) fits(n int) (ok bool) {
	if len(s.mem)+n <= cap(s.mem) {
		return true
	}
	n = max(n, 64) // where few bytes lie is not aligned
	room := max(len(s.mem)+n, 2*cap(s.mem))
	if len(s.mem)+n > spoolMemory || int64(room) > s.Budget.Ledger().Left()/4 {
		return false
	}
	var err error
	s.mem, err = Grow(s.Budget.Ledger(), s.mem, n)
	return err == nil
}

// toFile moves what is in memory to the file, and makes the file first.
func (s *Spool) toFile() error {
	if s.file == nil {
		var err error
		if s.file, s.path, err = TempFile(s.Budget); err != nil {
			return err
		}
	}
	_, err := s.append(s.mem)
	if s.buffer == nil {
		s.Budget.Ledger().Give(pinned.Sources, int64(cap(s.mem)))
		s.buffer = make([]byte, 0, fileBuffer)
	}
	s.mem = s.buffer
	return err
}

// append writes to the file.
func (s *Spool) append(p []byte) (int, error) {
	if err := s.Budget.TakeDisk(int64(len(p))); err != nil {
		return 0, err
	}
	n, err := direct.WriteAt(s.file, p, s.onDisk)
	s.onDisk += int64(len(p))
	s.Budget.Moved(int64(n), 0)
	return n, NoSpace(s.Budget, s.size, err)
}

// NoSpace explains a full disk by temporary files of size bytes.
func NoSpace(b *Budget, size int64, err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return Error(b.dir(), "", -1, "make room, or choose a target on another disk",
			fmt.Errorf("%w: temporary files of the source have taken %d bytes so far: %w", formats.ErrSpace, size, err))
	}
	return err
}

// Len returns the number of bytes.
func (s *Spool) Len() int64 { return s.size }

// Bytes ends the writing and returns all bytes, valid until Close. Nobody may write to them.
func (s *Spool) Bytes() ([]byte, error) {
	if s.file == nil {
		return s.mem, nil
	}
	if s.region == nil {
		if err := s.toFile(); err != nil {
			return nil, err
		}
		r, err := pinned.Map(s.file)
		if err != nil {
			return nil, err
		}
		s.region = r
	}
	return s.region.Bytes(), nil
}

// Close frees memory and file.
func (s *Spool) Close() error {
	var errs []error
	if s.region != nil {
		errs = append(errs, s.region.Close())
	}
	if s.file != nil {
		errs = append(errs, s.file.Close())
	}
	if s.path != "" {
		errs = append(errs, os.Remove(s.path))
	}
	if s.buffer == nil {
		s.Budget.Ledger().Give(pinned.Sources, int64(cap(s.mem)))
	}
	s.Budget.GiveDisk(s.onDisk)
	*s = Spool{Budget: s.Budget}
	return errors.Join(errs...)
}

// TempFile makes a temporary file. Its path is empty where it has no name: then it is gone when the process ends,
// however that is.
func TempFile(b *Budget) (*os.File, string, error) {
	if f := createHidden(b.dir()); f != nil {
		return f, "", nil
	}
	f, err := os.CreateTemp(b.dir(), ".khop-edges-*.tmp")
	if err != nil {
		return nil, "", fmt.Errorf("make a temporary file beside the target: %w", err)
	}
	if runtime.GOOS == "linux" && os.Remove(f.Name()) == nil {
		return f, "", nil
	}
	underway.Leaves(underway.File, f.Name()) // which is nothing once it is gone
	return f, f.Name(), nil
}

// Append appends v to a list, with the room that Grow makes.
func Append[E any](l *pinned.Ledger, list *[]E, v ...E) error {
	grown, err := Grow(l, *list, len(v))
	if err == nil {
		*list = append(grown, v...)
	}
	return err
}
