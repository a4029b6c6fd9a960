package gather

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"unsafe"

	"github.com/khop-gnn/khop/internal/expect"
	"golang.org/x/sys/unix"
)

// fenced returns n bytes between two pages that may not be touched: at the end of the mapping, or at its start.
func fenced(t testing.TB, n int, atEnd bool) []byte {
	page := unix.Getpagesize()
	inner := (n + page - 1) / page * page
	m := expect.Must(unix.Mmap(-1, 0, inner+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE))(t)
	t.Cleanup(func() { _ = unix.Munmap(m) })
	expect.OK(t, unix.Mprotect(m[:page], unix.PROT_NONE))
	expect.OK(t, unix.Mprotect(m[page+inner:], unix.PROT_NONE))
	if atEnd {
		return m[page+inner-n : page+inner : page+inner]
	}
	return m[page : page+n : page+n]
}

// TestNothingBesideTheRowsIsTouched puts table, dst and ids against pages that may not be read: a byte too far is a
// fault.
func TestNothingBesideTheRowsIsTouched(t *testing.T) {
	for _, w := range rowWidths {
		const rows = 3
		for _, atEnd := range []bool{true, false} {
			src := fenced(t, rows*w, atEnd)
			for i := range src {
				src[i] = byte(i * 7 / 3)
			}
			for n := range 5 {
				dst := fenced(t, n*w, atEnd)
				want := make([]byte, n*w)
				ids64 := unsafe.Slice((*int64)(pointer(fenced(t, 8*n, atEnd))), n)
				ids32 := unsafe.Slice((*int32)(pointer(fenced(t, 4*n, atEnd))), n)
				for i := range ids64 {
					ids64[i] = int64((rows - 1 + i) % rows) // the last row comes first
					ids32[i] = int32(ids64[i])
				}
				copyPlain(want, src, ids64, w)
				for _, way := range ways() {
					if w < way.least || w > way.most {
						continue
					}
					clear(dst)
					way.rows(dst, src, ids32, ids64, w)
					expect.Ensure(t, string(dst) == string(want), "%s: %d rows of %d bytes differ", way.name, n, w)
				}
			}
		}
	}
}

// TestFileCutShortIsAPanicThatIsRecovered: a fault inside the assembly unwinds like any other, and copying works again
// after.
func TestFileCutShortIsAPanicThatIsRecovered(t *testing.T) {
	page := unix.Getpagesize()
	for _, w := range []int{1, 4, 8, 12, 40, 64, 100, 400, 1024, 4096} {
		for _, way := range ways() {
			if w < way.least || w > way.most {
				continue
			}
			t.Run(fmt.Sprintf("%s/bytes=%d", way.name, w), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "table")
				size := 16 * page
				expect.OK(t, os.WriteFile(path, make([]byte, size), 0o600))
				f := expect.Must(os.OpenFile(path, os.O_RDWR, 0))(t)
				defer f.Close()
				src := expect.Must(unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED))(t)
				defer unix.Munmap(src)
				ids64 := make([]int64, 100)
				for i := range ids64 {
					ids64[i] = int64(i * (size / w) / 100)
				}
				ids32, dst := narrowed(ids64), make([]byte, 100*w)
				for round := range 3 {
					expect.OK(t, f.Truncate(int64(size)))
					fault := recovered(func() { way.rows(dst, src, ids32, ids64, w) })
					expect.Ensure(t, fault == nil, "round %d: the file is whole, but: %v", round, fault)
					expect.OK(t, f.Truncate(int64(size/2)))
					if fault := recovered(func() { way.rows(dst, src, ids32, ids64, w) }); fault == nil {
						t.Fatalf("round %d: half the file is gone, and nobody noticed", round)
					} else if a, ok := fault.(interface{ Addr() uintptr }); ok &&
						a.Addr()-uintptr(pointer(src)) >= uintptr(size) {
						t.Fatalf("round %d: the fault is at %#x, which is not in the table", round, a.Addr())
					}
				}
			})
		}
	}
}

// recovered runs f and returns what it panicked with.
func recovered(f func()) (fault any) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { fault = recover() }()
	f()
	return nil
}
