//go:build !linux && !darwin

package transaction

import "errors"

// Exchange gives two files or directories each other's name in one step; here errors.ErrUnsupported.
func Exchange(string, string) error { return errors.ErrUnsupported }

func isMountPoint(string) bool { return false } // renaming one fails
