package pinned

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"golang.org/x/sys/unix"
)

func TestMemoryPrefersANode(t *testing.T) {
	r := expect.Must(Allocate(1<<20, Options{}))(t)
	defer r.Close()
	if err := preferNode(r.Bytes(), 0); err != nil {
		t.Skipf("a kernel without NUMA: %v", err)
	}
	maps, err := os.ReadFile("/proc/self/numa_maps")
	if err != nil {
		t.Skip(err)
	}
	want := fmt.Sprintf("%x prefer", addressOf(r.Bytes()))
	expect.That(t, strings.Contains(string(maps), want), "no %q in:\n%s", want, maps)
	for _, bad := range []int{-1, 1024, 1 << 30} {
		err := preferNode(r.Bytes(), bad)
		expect.That(t, err == unix.EINVAL, "node %d: %v", bad, err)
	}
}

func TestPopulateBringsFilesToHugePages(t *testing.T) {
	const size = 4 * HugePage
	path := filepath.Join(t.TempDir(), "f")
	f := expect.Must(os.Create(path))(t)
	defer f.Close()
	_ = expect.Must(f.Write(bytes.Repeat([]byte{7}, size)))(t)
	// What the system makes of such a file by itself is not ours to promise.
	forget := func() {
		expect.OK(t, f.Sync())
		expect.OK(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
	}
	forget()
	plain := expect.Must(unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED))(t)
	expect.OK(t, unix.Madvise(plain, unix.MADV_HUGEPAGE))
	sum := 0
	for i := 0; i < size; i += os.Getpagesize() {
		sum += int(plain[i])
	}
	expect.That(t, sum == 7*size/os.Getpagesize(), "the file is %d", sum)
	able := bytesOnHugePages(t, plain)
	expect.OK(t, unix.Munmap(plain))
	if able < size/2 {
		t.Skipf("this file system has %d of %d bytes on huge pages", able, size)
	}
	forget()
	r := expect.Must(Map(f))(t)
	defer r.Close()
	expect.OK(t, Populate(r.Bytes()))
	got := bytesOnHugePages(t, r.Bytes())
	expect.That(t, got >= size/2, "%d of %d bytes are on huge pages", got, size)
}

// bytesOnHugePages returns how many bytes of the mapping that begins with b are on huge pages.
func bytesOnHugePages(t *testing.T, b []byte) (n int) {
	t.Helper()
	text := string(expect.Must(os.ReadFile("/proc/self/smaps"))(t))
	_, text, _ = strings.Cut(text, fmt.Sprintf("%x-", addressOf(b)))
	_, text, _ = strings.Cut(text, "FilePmdMapped:")
	_ = expect.Must(fmt.Sscan(text, &n))(t)
	return n << 10
}
