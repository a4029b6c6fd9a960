package source

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
)

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

// maxSparse is how many times more nodes than edges a source may ask for without giving anything for each of them,
// beyond the first freeNodes.
const (
	maxSparse = 32
	freeNodes = 1 << 20
)

// TooSparse reports whether there are more nodes than this number of edges makes believable, where the source has no
// byte for each node.
func TooSparse(nodes, edges int64) bool { return (nodes-freeNodes)/maxSparse > edges }
