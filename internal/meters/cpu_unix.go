//go:build unix

package meters

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuSeconds returns the processor time of the process so far.
func cpuSeconds() (float64, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return (time.Duration(u.Utime.Nano()) + time.Duration(u.Stime.Nano())).Seconds(), nil
}
