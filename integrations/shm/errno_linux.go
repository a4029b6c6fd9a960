package shm

import "golang.org/x/sys/unix"

const (
	errBrokenPipe = unix.EPIPE
	errReset      = unix.ECONNRESET
)
