//go:build unix

package machine

import (
	"time"

	"golang.org/x/sys/unix"
)

// used returns the processor time that the process has taken, and how many pages it has waited for while they were
// read from a file.
func used() (took time.Duration, faults uint64, err error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), uint64(max(u.Majflt, 0)), nil
}
