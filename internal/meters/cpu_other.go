//go:build !unix

package meters

import (
	"errors"
	"fmt"
	"runtime"
)

func cpuSeconds() (float64, error) {
	return 0, fmt.Errorf("processor time: %w on %s", errors.ErrUnsupported, runtime.GOOS)
}
