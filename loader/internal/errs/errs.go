// Package errs has the errors of package loader that its parts return.
package errs

import "errors"

// Those of package loader by these names.
var (
	ErrOptions = errors.New("invalid loader options")
	ErrDevice  = errors.New("no such device")
	ErrMemory  = errors.New("not enough memory allowed")
	ErrSampler = errors.New("the sampler failed")
)
