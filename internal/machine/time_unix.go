//go:build unix

package machine

import (
	"time"

	"golang.org/x/sys/unix"
)

// ProcessorTime returns the processor time that the process has taken.
func ProcessorTime() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// pageFaults returns how many pages the process has waited for while they were read.
func pageFaults() uint64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return uint64(max(u.Majflt, 0))
}
