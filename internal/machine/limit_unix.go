//go:build unix

package machine

import "golang.org/x/sys/unix"

// lockLimit returns RLIMIT_MEMLOCK.
func lockLimit() int64 { return limit(unix.RLIMIT_MEMLOCK) }

// OpenFiles returns how many files this process may have open; 0 where nothing says so.
func OpenFiles() int64 { return limit(unix.RLIMIT_NOFILE) }

func limit(which int) int64 {
	var r unix.Rlimit
	if err := unix.Getrlimit(which, &r); err != nil {
		return 0
	}
	if r.Cur >= 1<<63-1 { // RLIM_INFINITY is all ones or the greatest signed number, by system
		return Unlimited
	}
	return int64(r.Cur)
}
