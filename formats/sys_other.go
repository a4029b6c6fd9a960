//go:build !linux && !darwin && !windows

package formats

import (
	"errors"
	"os"
)

const (
	openNonblock      = 0
	closeBeforeRemove = false
)

func lockFile(*os.File) error { return nil }

func freeSpace(string) (int64, error) { return 0, errors.ErrUnsupported }

func isNoSpace(error) bool { return false }

func syncDir(*os.Root, string) error { return nil }
