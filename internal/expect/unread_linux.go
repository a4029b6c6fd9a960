package expect

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Unread returns a slice of n bytes that a test may pass on, but that must not be read.
func Unread(t testing.TB, n int64) []byte {
	t.Helper()
	b := Must(unix.Mmap(-1, 0, int(n), unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE))(t)
	t.Cleanup(func() { _ = unix.Munmap(b) })
	return b
}
