package transaction

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Exchange gives two files or directories each other's name in one step; errors.ErrUnsupported where the file system
// cannot.
func Exchange(a, b string) error {
	switch err := unix.RenamexNp(a, b, unix.RENAME_SWAP); err {
	case nil:
		return nil
	case unix.EINVAL, unix.ENOTSUP:
		return errors.ErrUnsupported
	default:
		return &os.LinkError{Op: "exchange", Old: a, New: b, Err: err}
	}
}

func isMountPoint(string) bool { return false } // renaming one fails
