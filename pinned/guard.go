package pinned

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
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
			err = fileMappings.fault(p.Addr())
		default:
			panic(p)
		}
	}()
	return f()
}

// touchAll reads a byte of each page, to find the one that faults.
func touchAll(b []byte) error {
	return Guard(func() error {
		sum := byte(0)
		for i := 0; i < len(b); i += 4096 {
			sum |= b[i]
		}
		runtime.KeepAlive(sum)
		return nil
	})
}

// fileMappings are the files that are mapped, so that a fault can name its file.
var fileMappings = mappedFiles{at: map[uintptr]mappedFile{}}

type mappedFiles struct {
	sync.Mutex
	at map[uintptr]mappedFile // by first byte
}

type mappedFile struct {
	bytes uintptr
	path  string
}

func (m *mappedFiles) add(b []byte, path string) {
	m.Lock()
	defer m.Unlock()
	m.at[uintptr(unsafe.Pointer(unsafe.SliceData(b)))] = mappedFile{uintptr(len(b)), path}
}

func (m *mappedFiles) remove(b []byte) {
	m.Lock()
	defer m.Unlock()
	delete(m.at, uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// fault returns the error of reading an address.
func (m *mappedFiles) fault(addr uintptr) *Fault {
	m.Lock()
	defer m.Unlock()
	for begin, f := range m.at {
		if addr >= begin && addr-begin < f.bytes {
			return &Fault{Path: f.path, Offset: int64(addr - begin), addr: addr}
		}
	}
	return &Fault{addr: addr}
}
