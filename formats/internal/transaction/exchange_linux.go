package transaction

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Exchange gives two files or directories each other's name in one step; errors.ErrUnsupported where the kernel, its
// filter of system calls or the file system refuses that.
func Exchange(a, b string) error {
	err := unix.EINTR
	for err == unix.EINTR {
		err, _ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE).(unix.Errno)
	}
	switch err {
	case 0:
		return nil
	case unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP, unix.EPERM, unix.EXDEV: // the last of an overlay's lower layer
		return errors.ErrUnsupported
	}
	return &os.LinkError{Op: "exchange", Old: a, New: b, Err: err}
}

// isMountPoint reports whether a file system begins at dir: such a directory cannot be renamed.
func isMountPoint(dir string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, dir, 0, 0, &st)
	return err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}
