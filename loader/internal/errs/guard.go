package errs

import (
	"fmt"
	"runtime/debug"

	"github.com/khop-gnn/khop/pinned"
)

// Guarded calls f, which may be anybody's: its panics become ErrSampler, faults in mapped files pinned.ErrFault.
func Guarded(f func() error) (err error) {
	defer Recovered(&err)
	return pinned.Guard(f)
}

// Recovered, deferred, makes an error of a panic: samplers may be anybody's.
func Recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: panic: %v\n%s", ErrSampler, p, debug.Stack())
	}
}
