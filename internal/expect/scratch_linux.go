package expect

import (
	"os"

	"golang.org/x/sys/unix"
)

// ScratchInMemory puts the temporary files of a package's tests into memory, where the system has a folder there with a
// gigabyte of room and nobody has named another: tests write many small datasets, and wait for each file of them to be
// on the disk.
func ScratchInMemory() {
	const folder = "/dev/shm"
	var st unix.Statfs_t
	if os.Getenv("TMPDIR") != "" || unix.Statfs(folder, &st) != nil || int64(st.Bavail)*st.Bsize < 1<<30 ||
		unix.Access(folder, unix.W_OK) != nil {
		return
	}
	_ = os.Setenv("TMPDIR", folder)
}
