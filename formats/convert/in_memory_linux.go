package convert

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// fileInMemory makes a file in memory, which two descriptors have open.
func fileInMemory(name string) (kept, written *os.File, err error) {
	fd, err := unix.MemfdCreate("khop-graph", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, nil, os.NewSyscallError("memfd_create", err)
	}
	kept = os.NewFile(uintptr(fd), name)
	again, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, nil, errors.Join(os.NewSyscallError("fcntl", err), kept.Close())
	}
	return kept, os.NewFile(uintptr(again), name), nil
}
