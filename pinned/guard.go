package pinned

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/internal/paths"
)

// ErrFault is the error of reading mapped memory that is no longer there.
var ErrFault = errors.New("a mapped file could not be read: it was cut short, or its device failed")

// Fault is an ErrFault with the place.
type Fault struct {
	Path   string // of the file, as it was when it was mapped; "" where no region is mapped there
	Offset int64  // of the byte in the file that could not be read
	addr   uintptr
}

// Error returns "path: byte n: what is wrong".
func (f *Fault) Error() string {
	if f.Path == "" {
		return fmt.Sprintf("%v (address %#x)", ErrFault, f.addr)
	}
	return fmt.Sprintf("%s: byte %s: %v", paths.Text(f.Path), humanize.Comma(f.Offset), ErrFault)
}

// Unwrap returns ErrFault.
func (f *Fault) Unwrap() error { return ErrFault }

// Guard calls f and returns its error. A memory fault within f (reading a mapped file beyond its end) becomes a
// *Fault; other panics pass. Goroutines that f starts are not guarded.
func Guard(f func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		switch p := recover().(type) {
		case nil:
		case interface {
			runtime.Error
			Addr() uintptr
		}: // the runtime's type for faults at an address outside the Go heap
			err = faultAt(p.Addr())
		default:
			panic(p)
		}
	}()
	return f()
}

// touchAll reads a byte of each page: it brings the pages into memory, or finds the one that faults.
func touchAll(b []byte) error {
	return Guard(func() error {
		sum := uint32(0)
		for i := 0; i < len(b); i += 4096 {
			sum += uint32(b[i])
		}
		touched.Store(sum)
		return nil
	})
}

var touched atomic.Uint32 // so that the reads are not left out

// fileMappings are the files that are mapped, so that a fault can name its file.
var fileMappings ranges

// faultAt returns the error of reading an address.
func faultAt(addr uintptr) *Fault {
	begin, path, ok := fileMappings.around(addr, addr+1)
	if !ok {
		return &Fault{addr: addr}
	}
	return &Fault{Path: path, Offset: int64(addr - begin), addr: addr}
}

// ranges are ranges of addresses, each of which may have a name. The zero value has none.
type ranges struct {
	mu sync.Mutex
	at map[uintptr]named // by first byte
}

type named struct {
	end  uintptr
	name string
}

// add adds the range of b's capacity.
func (r *ranges) add(b []byte, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil {
		r.at = map[uintptr]named{}
	}
	lo := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	r.at[lo] = named{lo + uintptr(cap(b)), name}
}

func (r *ranges) remove(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.at, uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// around returns the range that holds the bytes from lo to hi.
func (r *ranges) around(lo, hi uintptr) (begin uintptr, name string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for begin, f := range r.at {
		if begin <= lo && hi <= f.end {
			return begin, f.name, true
		}
	}
	return 0, "", false
}
