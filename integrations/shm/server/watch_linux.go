package server

import (
	"os"

	"golang.org/x/sys/unix"
)

func watchProcess(pid int, gone func()) (stop func()) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return func() {}
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := raw.Read(func(fd uintptr) bool {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			return err == nil && n > 0
		})
		if err == nil {
			gone()
		}
	}()
	return func() {
		_ = f.Close()
		<-done
	}
}
