package source

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/direct"
	"github.com/khop-gnn/khop/internal/machine"
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

// Budget is what a conversion may take: every reader and the builder draw from one. The zero value, and nil, have no
// limit. It is safe for concurrent use.
type Budget struct {
	Memory *pinned.Ledger // nil: no limit
	Dir    string         // where temporary files are made; "": the system's folder
	// Disk bounds what temporary files take together, in bytes; 0: no limit.
	Disk int64

	mu             sync.Mutex
	disk, diskPeak int64
	written, read  atomic.Int64
}

// Ledger returns the ledger of memory; nil: no limit.
func (b *Budget) Ledger() *pinned.Ledger {
	if b == nil {
		return nil
	}
	return b.Memory
}

func (b *Budget) dir() string {
	if b == nil {
		return ""
	}
	return b.Dir
}

// TakeDisk counts n more bytes of temporary files, before they are written. formats.ErrSpace says what is needed.
func (b *Budget) TakeDisk(n int64) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.room(n); err != nil {
		return err
	}
	b.disk += n
	b.diskPeak = max(b.diskPeak, b.disk)
	return nil
}

// RoomOnDisk is TakeDisk, but counts nothing.
func (b *Budget) RoomOnDisk(n int64) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.room(n)
}

func (b *Budget) room(n int64) error {
	if b.Disk > 0 && n > b.Disk-b.disk {
		return Error(b.Dir, "", -1, "make room there, allow more memory, or choose a target on another disk",
			fmt.Errorf("%w: %s more are needed for temporary files, and of the %s that they may take %s are left",
				formats.ErrSpace, machine.Bytes(n), machine.Bytes(b.Disk), machine.Bytes(b.Disk-b.disk)))
	}
	return nil
}

// GiveDisk counts n bytes less.
func (b *Budget) GiveDisk(n int64) {
	if b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.disk -= n
	}
}

// DiskPeak returns the most that temporary files have taken at a time.
func (b *Budget) DiskPeak() int64 {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.diskPeak
}

// Moved counts bytes written to and read from temporary files.
func (b *Budget) Moved(written, read int64) {
	if b != nil {
		b.written.Add(written)
		b.read.Add(read)
	}
}

// Traffic returns the bytes that Moved has counted.
func (b *Budget) Traffic() (written, read int64) {
	if b == nil {
		return 0, 0
	}
	return b.written.Load(), b.read.Load()
}

// Grow makes room for more elements behind those of s, as slices.Grow does, and counts them in l first: while they move
// they are there twice. pinned.ErrLimit says what is needed.
func Grow[E any](l *pinned.Ledger, s []E, more int) ([]E, error) {
	if len(s)+more <= cap(s) {
		return s, nil
	}
	room, size := max(len(s)+more, 2*cap(s)), int64(unsafe.Sizeof(*new(E)))
	if err := l.Take(pinned.Sources, size*int64(room)); err != nil {
		return s, err
	}
	defer l.Give(pinned.Sources, size*int64(cap(s)))
	return append(make([]E, 0, room), s...), nil
}

// Append appends v to a list, with the room that Grow makes.
func Append[E any](l *pinned.Ledger, list *[]E, v ...E) error {
	grown, err := Grow(l, *list, len(v))
	if err == nil {
		*list = append(grown, v...)
	}
	return err
}

// maxSparse is how many times more nodes than edges a source may ask for without giving anything for each of them,
// beyond the first freeNodes.
const (
	maxSparse = 32
	freeNodes = 1 << 20
)

// TooSparse reports whether there are more nodes than this number of edges makes believable, where the source has no
// byte for each node.
func TooSparse(nodes, edges int64) bool { return (nodes-freeNodes)/maxSparse > edges }
