package formats

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

func TestScrubRunsAtTheLowestPriority(t *testing.T) {
	done := make(chan int)
	go func() {
		runtime.LockOSThread()
		lowerPriority()
		nice, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		if err != nil {
			t.Error(err)
		}
		disk, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, 1, 0, 0)
		if errno == 0 && disk>>13 != 3 { // the class of those that wait for all others
			t.Errorf("its class on disks is %d", disk>>13)
		}
		done <- 20 - nice // as the system call returns it
	}()
	nice := <-done
	expect.That(t, nice == 19, "nice value %d", nice)
}

// resident returns which pages of a file are in the page cache.
func resident(t *testing.T, path string) []byte {
	t.Helper()
	r := expect.Must(pinned.MapFile(path))(t)
	defer r.Close()
	there := make([]byte, (r.Len()+4095)/4096)
	b := r.Bytes()
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		uintptr(unsafe.Pointer(&there[0])))
	expect.Ensure(t, errno == 0, "%v", errno)
	return there
}

func TestScrubLeavesThePageCacheAsItWas(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x.khop") // on a disk, if the machine's temporary files are
	expect.OK(t, WriteGraph(context.Background(), dir, newGraph(t, randomArrays(t, 5, 100_000, 8)), WriterOptions{}))
	path := filepath.Join(dir, "graph/indices.arrow")
	f := expect.Must(os.Open(path))(t)
	defer f.Close()
	expect.OK(t, f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED),
		unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM))
	if _, err := f.ReadAt(make([]byte, 64<<10), 1<<20); err != nil { // somebody's pages
		t.Fatal(err)
	}
	before := resident(t, path)
	r, err := Check(context.Background(), dir, CheckOptions{Scrub: true, Rate: 1 << 40})
	expect.Ensure(t, err == nil && r.OK(), "%+v, %v", r, err)
	came, went := 0, 0
	for i, now := range resident(t, path) {
		came += int(now &^ before[i] & 1)
		went += int(before[i] &^ now & 1)
	}
	if came > 64 || went > 0 { // head and footer are mapped, with what the system reads around them
		t.Errorf("of %d pages %d came into the page cache and %d went", len(before), came, went)
	}
}

// TestADatasetOfALowerLayerIsReplaced: the kernel renames no directory of an overlay's lower layer (EXDEV).
func TestADatasetOfALowerLayerIsReplaced(t *testing.T) {
	dir := write(t, typedArrays(t), WriterOptions{})
	root := scratchDir(t)
	at := func(name string) string { return filepath.Join(root, name) }
	for _, name := range []string{"upper", "work", "merged"} {
		expect.OK(t, os.Mkdir(at(name), 0o700))
	}
	options := "lowerdir=" + filepath.Dir(dir) + ",upperdir=" + at("upper") + ",workdir=" + at("work")
	if err := unix.Mount("overlay", at("merged"), "overlay", 0, options); err != nil {
		t.Skip("this user or this system mounts no overlay: ", err)
	}
	t.Cleanup(func() { expect.OK(t, unix.Unmount(at("merged"), unix.MNT_DETACH)) })
	before := expect.Files(t, filepath.Dir(dir))
	seen := filepath.Join(at("merged"), filepath.Base(dir))
	if err := os.Rename(seen, seen+".other"); err == nil {
		t.Skip("this system renames directories of a lower layer")
	}
	g := newGraph(t, plainArrays(t))
	for range 2 { // the second time it is of the upper layer
		expect.OK(t, WriteGraph(context.Background(), seen, g, WriterOptions{Force: true}))
		requireEqualGraphs(t, g, open(t, seen).Graph())
		requireEqualNames(t, at("merged"), filepath.Dir(write(t, plainArrays(t), WriterOptions{})))
	}
	requireEqualFiles(t, before, expect.Files(t, filepath.Dir(dir)))
}
