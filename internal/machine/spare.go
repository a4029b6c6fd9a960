package machine

import (
	"runtime"
	"sync"
)

// spare is threads that Go runs beside those that compute.
var spare struct {
	mu             sync.Mutex
	users          int
	before, raised int // GOMAXPROCS
}

// Spare lets Go run half as many threads again until release is called, and one more, so that a goroutine that comes
// back from the system runs at once. Without, it waits until one of those that compute has had its turn of 10 ms. It
// counts neither as Threads nor as Workers.
func Spare() (release func()) {
	spare.mu.Lock()
	defer spare.mu.Unlock()
	if spare.users++; spare.users == 1 {
		spare.before = runtime.GOMAXPROCS(0)
		spare.raised = spare.before + spare.before/2 + 1
		runtime.GOMAXPROCS(spare.raised)
	}
	return sync.OnceFunc(func() {
		spare.mu.Lock()
		defer spare.mu.Unlock()
		if spare.users--; spare.users == 0 && runtime.GOMAXPROCS(0) == spare.raised { // else somebody chose another
			runtime.GOMAXPROCS(spare.before)
		}
	})
}

// threads returns how many threads of Go compute at a time.
func threads() int {
	spare.mu.Lock()
	defer spare.mu.Unlock()
	if n := runtime.GOMAXPROCS(0); spare.users == 0 || n != spare.raised {
		return n
	}
	return spare.before
}
