//go:build !linux && !darwin

package formats

import "errors"

func exchange(string, string) error { return errors.ErrUnsupported }

func isMountPoint(string) bool { return false } // renaming one fails
