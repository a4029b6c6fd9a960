//go:build !linux

package direct

import (
	"errors"
	"os"
)

// Set is refused.
func Set(*os.File, bool) error { return errors.ErrUnsupported }

// Open is refused.
func Open(*os.File) (*os.File, error) { return nil, errors.ErrUnsupported }

// Refused reports nothing.
func Refused(error) bool { return false }

// Cached knows nothing.
func Cached(*os.File, int64) float64 { return 1 }

func toDisk(*os.File, bound, bool) {}
