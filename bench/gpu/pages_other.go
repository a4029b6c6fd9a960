//go:build !linux

package gpu

import (
	"errors"
	"fmt"
	"runtime"
)

func takePages(int64, string) ([]byte, func() error, error) {
	return nil, nil, fmt.Errorf("pages of a size: %w on %s", errors.ErrUnsupported, runtime.GOOS)
}
