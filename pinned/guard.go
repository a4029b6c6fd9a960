package pinned

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
)

// ErrFault is the error of reading mapped memory that is no longer there.
var ErrFault = errors.New("a mapped file could not be read: it was cut short, or its device failed")

// Guard calls f and returns its error. A memory fault within f (reading a mapped file beyond its end) becomes ErrFault;
// other panics pass. Goroutines that f starts are not guarded.
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
			err = fmt.Errorf("%w (address %#x)", ErrFault, p.Addr())
		default:
			panic(p)
		}
	}()
	return f()
}
