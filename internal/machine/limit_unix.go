//go:build unix

package machine

import "golang.org/x/sys/unix"

// lockLimit returns RLIMIT_MEMLOCK.
func lockLimit() int64 {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r); err != nil {
		return 0
	}
	if r.Cur >= 1<<63-1 { // RLIM_INFINITY is all ones or the greatest signed number, by system
		return Unlimited
	}
	return int64(r.Cur)
}
