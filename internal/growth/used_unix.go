//go:build unix

package growth

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// used returns the processor time that the process has taken.
func used(t testing.TB) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
