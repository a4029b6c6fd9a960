package pinned

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// fileSystem returns "tmpfs" or "hugetlbfs" if the file, named as in /proc/self/maps, lies there, else nothing.
func fileSystem(path string) string {
	switch { // of no file system that a path leads to
	case strings.HasPrefix(path, "/memfd:"), strings.HasPrefix(path, "/dev/zero"), strings.HasPrefix(path, "/SYSV"):
		return "tmpfs"
	case strings.HasPrefix(path, "/anon_hugepage"):
		return "hugetlbfs"
	}
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return ""
	}
	switch uint32(s.Type) {
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.HUGETLBFS_MAGIC:
		return "hugetlbfs"
	}
	return ""
}

// mapWritable maps again what m describes, shared, for reading and writing. Nothing writes there: it is how pages of
// tmpfs and hugetlbfs can be pinned.
func mapWritable(m memory) ([]byte, error) {
	f, err := os.OpenFile(m.path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("it cannot be mapped for writing: %w", err)
	}
	defer f.Close()
	var now unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &now); err != nil {
		return nil, err
	}
	if (fileID{unix.Major(uint64(now.Dev)), unix.Minor(uint64(now.Dev)), now.Ino}) != m.file {
		return nil, fmt.Errorf("%s is another file now than the one that is mapped", m.path)
	}
	return unix.Mmap(int(f.Fd()), m.offset, int(m.hi-m.lo), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}
