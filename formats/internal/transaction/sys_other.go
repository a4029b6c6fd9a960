//go:build !linux && !darwin && !windows

package transaction

import (
	"errors"
	"os"
)

const (
	OpenNonblock      = 0
	closeBeforeRemove = false
)

func lockFile(*os.File) error { return nil }

// FreeSpace returns the bytes that this user can still write to the file system of a directory.
func FreeSpace(string) (int64, error) { return 0, errors.ErrUnsupported }

func isNoSpace(error) bool { return false }

func syncDir(*os.Root, string) error { return nil }
