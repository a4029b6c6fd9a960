//go:build !unix

package machine

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

// ProcessorTime is an error that wraps errors.ErrUnsupported on this system.
func ProcessorTime() (time.Duration, error) {
	return 0, fmt.Errorf("processor time: %w on %s", errors.ErrUnsupported, runtime.GOOS)
}

func pageFaults() uint64 { return 0 }
