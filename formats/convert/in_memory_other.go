//go:build !linux

package convert

import (
	"errors"
	"os"
)

// fileInMemory makes a file in memory: not here.
func fileInMemory(string) (kept, written *os.File, err error) { return nil, nil, errors.ErrUnsupported }
