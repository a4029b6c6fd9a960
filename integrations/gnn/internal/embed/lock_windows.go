package embed

import (
	"os"

	"golang.org/x/sys/windows"
)

// lockWhole takes a file's exclusive lock, or fails at once. The system gives it back when the process ends.
func lockWhole(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{})
}
