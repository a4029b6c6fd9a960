package diskio

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/khop-gnn/khop/internal/expect"
	"golang.org/x/sys/unix"
)

// A ring that the kernel takes back fails its batches, and those after them.
func TestABrokenRingFailsItsBatches(t *testing.T) {
	m, _ := columnFile(t, t.TempDir(), 100, 512)
	c := openColumn(t, m, ReaderOptions{Depth: 4}, ColumnOptions{PlannerOptions: PlannerOptions{Lookahead: 4}})
	e, ok := c.reader.engine.(*ring)
	if !ok {
		t.Skip("the system refuses io_uring")
	}
	expect.OK(t, fetch(background, c, m, [][]uint32{{1, 2, 3}}, 1))
	null := expect.Must(unix.Open("/dev/null", unix.O_RDONLY, 0))(t)
	expect.OK(t, errors.Join(unix.Dup2(null, e.fd), unix.Close(null)))
	for range 2 {
		err := fetch(background, c, m, [][]uint32{{50}}, 1)
		expect.That(t, errors.Is(err, unix.EOPNOTSUPP), "got %v", err)
		expect.OK(t, c.Stop())
	}
}

// A filter of system calls that lets a program make a ring, and not use it, is seen when the reader is made.
func TestARingThatMayNotBeEnteredGivesWayToThreads(t *testing.T) {
	if name, why := Engine(); name != "io_uring" {
		t.Skip(why)
	}
	m, _ := columnFile(t, t.TempDir(), 100, 512)
	var r *Reader
	var layouts []Layout
	name, refused, ended := "", "", make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with its filter
		err := forbid(unix.SYS_IO_URING_ENTER)
		if err == nil {
			name, refused = Engine()
			r, layouts, err = Open(background, []Mapped{m}, ReaderOptions{Depth: 4})
		}
		ended <- err
	}()
	mustOpen(t, <-ended)
	c := expect.Must(NewColumn(r, 0, layouts[0], ColumnOptions{}))(t)
	t.Cleanup(func() { expect.OK(t, errors.Join(c.Stop(), r.Close(), c.Close())) })
	if name != "threads" || !strings.Contains(refused, "operation not permitted") {
		t.Errorf("%s, %s", name, refused)
	}
	expect.OK(t, fetch(background, c, m, [][]uint32{{1, 2, 3}}, 1))
}

// forbid has a system call of this thread fail from now on.
func forbid(call uint32) error {
	code := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: call},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}

// fakeRing is a ring of four entries whose memory no kernel reads. Its requests are of 4 KiB each, from a file that is
// read past the page cache by sectors of 512 bytes.
func fakeRing(t *testing.T, fixed bool) (*ring, *Reader) {
	file := expect.Must(os.Create(filepath.Join(t.TempDir(), "file")))(t)
	t.Cleanup(func() { _ = file.Close() })
	word := func() *uint32 { return new(uint32) }
	e := &ring{entries: make([]byte, 4*unsafe.Sizeof(ringEntry{})), cq: make([]byte, 8+4*unsafe.Sizeof(ringResult{})),
		sqTail: word(), sqArray: &make([]uint32, 4)[0], sqMask: 3, cqHead: word(), cqTail: word(), cqMask: 3, cqes: 8}
	*e.sqTail, *e.cqHead, *e.cqTail = 7, 6, 6 // so that the rings' ends are passed
	e.fixed.files, e.fixed.buffers = fixed, fixed
	r := &Reader{}
	for i := range 4 {
		plan := &Plan{Reads: []Read{{Row: 0}}, extents: []extent{{offset: int64(i) << 20, bytes: 4096, end: 1}}}
		of := &transfer{file: &File{file: file, path: "file", index: 5, direct: true, sector: 512}, plan: plan,
			layout: &Layout{Offset: int64(i) << 20, RowBytes: 4096, Rows: 1}, done: make(chan struct{})}
		row := make([]byte, 4096)
		of.rowAt = func(uint32) []byte { return row }
		of.left.Store(1)
		e.requests = append(e.requests, request{of: of, extent: &plan.extents[0], buf: make([]byte, 4096)})
		r.waiting.Add(1)
	}
	return e, r
}

// result puts a result where the kernel would.
func (e *ring) result(buffer int, n int32) {
	at := e.cqes + uintptr(*e.cqTail&e.cqMask)*unsafe.Sizeof(ringResult{})
	*(*ringResult)(unsafe.Pointer(&e.cq[at])) = ringResult{user: uint64(buffer), result: n}
	*e.cqTail++
}

// Interrupted requests are sent again, partial ones are completed, and the others end.
func TestResultsOfARingEndItsRequestsOrAskAgain(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		e, r := fakeRing(t, fixed)
		e.requests[3].of.file.index = notRegistered
		of := []*transfer{e.requests[0].of, e.requests[1].of, e.requests[2].of, e.requests[3].of}
		bufs := [][]byte{e.requests[0].buf, e.requests[1].buf, e.requests[2].buf, e.requests[3].buf}
		e.result(2, -int32(unix.EIO))
		e.result(1, -int32([]unix.Errno{unix.EINTR, unix.EAGAIN}[*e.cqHead%2]))
		e.result(0, 4096)
		e.result(3, 512)
		if again := e.reap(r); again != 2 || *e.sqTail != 9 || *e.cqHead != *e.cqTail || r.waiting.Load() != 2 ||
			!slices.Equal(e.free, []int{2, 0}) {
			t.Fatalf("%d requests again, tail %d, head %d, %d under way, free %v", again, *e.sqTail, *e.cqHead,
				r.waiting.Load(), e.free)
		}
		for i, want := range []struct {
			ended bool
			err   error
		}{{true, nil}, {false, nil}, {true, unix.EIO}, {false, nil}} {
			expect.That(t, of[i].settled == want.ended && errors.Is(of[i].err, want.err), "transfer %d: %v, %v", i,
				of[i].settled, of[i].err)
			empty := reflect.DeepEqual(e.requests[i], request{})
			expect.That(t, empty == want.ended, "request %d is kept: %v", i, !empty)
		}
		for k, i := range []int{1, 3} { // in the order of the results
			got := (*ringEntry)(unsafe.Pointer(&e.entries[uintptr(7+k)&3*unsafe.Sizeof(ringEntry{})]))
			had := []int{0, 512}[k]
			want := ringEntry{opcode: ringRead, fd: int32(of[i].file.file.Fd()), offset: uint64(i)<<20 + uint64(had),
				addr: uint64(uintptr(unsafe.Pointer(&bufs[i][had]))), bytes: uint32(4096 - had), user: uint64(i)}
			if fixed {
				want.opcode, want.buffer = ringReadFixed, uint16(i)
			}
			if fixed && i != 3 {
				want.fd, want.flags = 5, ringFixedFile
			}
			at := unsafe.Slice(e.sqArray, 4)[(7+k)&3]
			if *got != want || at != uint32(7+k)&3 {
				t.Errorf("request %d is asked for by %+v in place %d, want %+v", i, *got, at, want)
			}
		}
	}
}

// A reader that is closed leaves neither a descriptor nor mapped memory behind, whatever reads for it.
func TestAReaderThatIsClosedLeavesNothing(t *testing.T) {
	m, _ := columnFile(t, t.TempDir(), 100, 512)
	held := func() (n [2]int) {
		for i, path := range []string{"/proc/self/fd", "/proc/self/map_files"} {
			list, err := os.ReadDir(path)
			if err != nil {
				t.Skip(err)
			}
			n[i] = len(list)
		}
		return n
	}
	for _, engine := range []string{"", "threads"} {
		var before [2]int
		for i := range 12 {
			if i == 2 { // what Go takes for itself is there
				before = held()
			}
			r, _, err := Open(background, []Mapped{m, m}, ReaderOptions{Engine: engine, Depth: 2})
			if err == nil {
				err = r.Close()
			}
			expect.OK(t, err)
		}
		if after := held(); after[0] > before[0]+2 || after[1] > before[1]+5 {
			t.Errorf("engine %q: descriptors and mappings: %d before, %d after", engine, before, after)
		}
	}
}

// A file is read past the page cache if that is requested, wherever it is.
func TestAFileIsReadPastThePageCacheWhereThatIsSaid(t *testing.T) {
	for _, folder := range folders(t) {
		m, _ := columnFile(t, folder, 100, 512)
		f, offset := expect.Must2(openFile(m.Bytes))(t)
		flags := expect.Must(unix.FcntlInt(f.file.Fd(), unix.F_GETFL, 0))(t)
		direct, why := f.Direct()
		if direct != (flags&unix.O_DIRECT != 0) || direct != (why == "") || offset != 72 || f.size != 72+100*512 {
			t.Errorf("%s: %v, %q, the flags are %#x; begins at %d of %d", folder, direct, why, flags, offset, f.size)
		}
		expect.That(t, f.sector <= f.page && (f.sector == diskSector || f.sector == f.page),
			"sectors of %d bytes, pages of %d", f.sector, f.page)
		expect.OK(t, f.close())
	}
}
