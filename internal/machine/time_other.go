//go:build !unix

package machine

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

func used() (took time.Duration, faults uint64, err error) {
	return 0, 0, fmt.Errorf("processor time: %w on %s", errors.ErrUnsupported, runtime.GOOS)
}
