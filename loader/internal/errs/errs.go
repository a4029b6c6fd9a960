// Package errs has the errors of package loader that its parts return.
package errs

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/khop-gnn/khop/pinned"
)

// Those of package loader by these names.
var (
	ErrOptions = errors.New("invalid loader options")
	ErrDevice  = errors.New("no such device")
	ErrMemory  = errors.New("not enough memory allowed")
	ErrSampler = errors.New("the sampler failed")
)

// Short is an error of memory that knows how many bytes would do.
type Short struct {
	error
	Bytes int64
}

// NeedsBytes says of ErrMemory how many bytes would do.
func NeedsBytes(err error, bytes int64) error { return &Short{err, bytes} }

// Needed returns the bytes that would do.
func (s *Short) Needed() int64 { return s.Bytes }

// Unwrap returns the error.
func (s *Short) Unwrap() error { return s.error }

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
