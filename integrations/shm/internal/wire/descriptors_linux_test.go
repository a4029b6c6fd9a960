package wire

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

// A message brings one descriptor or none; whatever else comes is a bad message, of which nothing is left open.
func TestAMessageBringsOneDescriptorOrNone(t *testing.T) {
	pair := expect.Must(unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0))(t)
	defer unix.Close(pair[1])
	a := expect.Must(OwnSocket(pair[0]))(t)
	defer a.Close()
	before := expect.OpenFiles(t)
	for _, c := range []struct {
		name  string
		text  int // bytes
		count int // descriptors
		taken bool
	}{{"none", 8, 0, true}, {"one", 8, 1, true}, {"two", 8, 2, false}, {"more than there is room for", 8, 100, false},
		{"nothing", 0, 0, false}, {"as many bytes as may be", 64, 1, true},
		{"a byte more", 65, 1, false}, {"a byte more, and none", 65, 0, false}} {
		var rights []byte
		if c.count > 0 {
			rights = unix.UnixRights(make([]int, c.count)...)
		}
		expect.OK(t, unix.Sendmsg(pair[1], make([]byte, c.text), rights, nil, 0))
		n, fd, err := a.Receive(t.Context(), inTime(), make([]byte, 64))
		switch {
		case c.taken && (err != nil || n != c.text || (fd >= 0) != (c.count == 1)):
			t.Errorf("%s: %d bytes, descriptor %d, %v", c.name, n, fd, err)
		case !c.taken && (!errors.Is(err, ErrMessage) || n != 0 || fd != -1):
			t.Errorf("%s: %d bytes, descriptor %d, %v, want a bad message", c.name, n, fd, err)
		}
		CloseDescriptor(fd)
		if after := expect.OpenFiles(t); after > before+2 { // of Go's poller
			t.Errorf("%s: %d descriptors are open, %d before", c.name, after, before)
		}
	}
}

// A descriptor sent with a message is the same open file at the other end, and nothing where nothing was given.
func TestADescriptorIsSentWithItsMessage(t *testing.T) {
	a, b := socketPair(t)
	file := openFile(t)
	defer CloseDescriptor(file)
	var sent, came unix.Stat_t
	expect.OK(t, unix.Fstat(file, &sent), a.Send(make([]byte, 8), file, patience))
	expect.OK(t, a.Send(make([]byte, 8), -1, patience))
	_, fd, err := b.Receive(t.Context(), inTime(), make([]byte, 64))
	expect.OK(t, err)
	defer CloseDescriptor(fd)
	expect.OK(t, unix.Fstat(fd, &came))
	expect.That(t, came.Ino == sent.Ino && came.Rdev == sent.Rdev, "another file came")
	_, fd, err = b.Receive(t.Context(), inTime(), make([]byte, 64))
	expect.That(t, err == nil && fd == -1, "descriptor %d, %v", fd, err)
}

// Where there is no message there is no descriptor: 0 is one.
func TestAnErrorBringsNoDescriptor(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(a, b *Socket) error
		want    error
	}{
		"in time":  {func(_, _ *Socket) error { return nil }, os.ErrDeadlineExceeded},
		"gone":     {func(_, b *Socket) error { return b.Close() }, io.EOF},
		"closed":   {func(a, _ *Socket) error { return a.Close() }, net.ErrClosed},
		"no reads": {func(a, _ *Socket) error { a.CloseRead(); return nil }, io.EOF},
	} {
		a, b := socketPair(t)
		expect.OK(t, c.prepare(a, b))
		n, fd, err := a.Receive(t.Context(), time.Now().Add(time.Millisecond), make([]byte, 64))
		expect.That(t, n == 0 && fd == -1 && errors.Is(err, c.want), "%s: %d bytes, descriptor %d, %v", name, n, fd,
			err)
	}
	a, _ := socketPair(t)
	if uid, pid, err := a.Peer(); err != nil || uid != uint32(os.Geteuid()) || pid != os.Getpid() || a.Ended() {
		t.Errorf("user %d, process %d, %v", uid, pid, err)
	}
	expect.OK(t, a.Close())
	_, _, err := a.Peer()
	expect.That(t, errors.Is(err, net.ErrClosed) && a.Ended(), "after Close: %v", err)
}

// What was sent comes to who waits, even if the other end left a message unread and is gone before it looks.
func TestTheLastWordComesToWhoWaits(t *testing.T) {
	for range 30 {
		a, b := socketPair(t)
		expect.OK(t, a.Send([]byte("unread"), -1, time.Second))
		got := make(chan string)
		go func() {
			room := make([]byte, 64)
			n, _, err := a.Receive(t.Context(), inTime(), room)
			if err != nil {
				t.Error(err)
			}
			got <- string(room[:n])
		}()
		soon(t, time.Millisecond, func() { _, _ = b.Send([]byte("last"), -1, time.Second), b.Close() })
		text := <-got
		expect.Ensure(t, text == "last", "%q", text)
	}
}

// What a server writes its consumers read; what they write it reads, unless they may only read.
func TestMemoryIsShared(t *testing.T) {
	for access, is := range map[Access]uint32{ReadWrite: 0, ReadOnly: SegmentReadOnly} {
		m := expect.Must(NewMemory(pinned.HugePage, access, pinned.Options{}))(t)
		note := m.Note(3)
		expect.That(t, note.Index == 3 && note.Size == pinned.HugePage && note.Is == is && note.Memory == OnHost, "%+v",
			note)
		copied := func() int {
			return expect.Must(unix.FcntlInt(uintptr(m.FD), unix.F_DUPFD_CLOEXEC, 0))(t)
		}
		copy(m.Data[pinned.HugePage-4:], "last")
		theirs := expect.Must(OpenMemory(note, copied(), nil))(t)
		expect.That(t, bytes.Equal(m.Data, theirs.Data), "the consumer reads something else")
		if access == ReadWrite {
			theirs.Data[0] = 'x'
			expect.That(t, m.Data[0] == 'x', "the server reads something else")
		}
		if err := theirs.Close(); err != nil || theirs.Data != nil {
			t.Error(err)
		}
		if note.Is = 0; access == ReadOnly {
			if w, err := OpenMemory(note, copied(), nil); err == nil {
				t.Error("mapped for writing")
				w.Close()
			}
		}
		expect.OK(t, errors.Join(m.Close(), m.Close()))
	}
}

func TestMemoryThatThereIsNotIsRefused(t *testing.T) {
	for _, n := range []int64{0, -1} {
		if m, err := NewMemory(n, ReadWrite, pinned.Options{}); err == nil {
			t.Errorf("%d bytes were taken", n)
			m.Close()
		}
	}
	if err := new(Memory).mapAt(-1, 0, 0, unix.MAP_SHARED); !errors.Is(err, unix.ENOMEM) {
		t.Error(err)
	}
	for _, c := range []struct {
		memory uint32
		fd     int
	}{{OnHost, -1}, {OnDevice, -1}, {OnDevice, openFile(t)}} {
		m, err := OpenMemory(Segment{Memory: c.memory, Size: 4096}, c.fd, nil)
		expect.That(t, m == nil && errors.Is(err, ErrMessage), "memory %d with descriptor %d: %v", c.memory, c.fd, err)
		if _, err := unix.FcntlInt(uintptr(c.fd), unix.F_GETFD, 0); c.fd >= 0 && err == nil {
			t.Error("the descriptor was left open")
		}
	}
}

func openFile(t *testing.T) int {
	t.Helper()
	return expect.Must(unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0))(t)
}

// socketIn returns where a socket may be made, in a folder that does not exist yet.
func socketIn(t *testing.T) (dir, path string) {
	t.Helper()
	top, err := os.MkdirTemp("/tmp", "khop") // paths of sockets have at most 107 bytes
	expect.OK(t, err)
	t.Cleanup(func() { os.RemoveAll(top) })
	dir = filepath.Join(top, "feed")
	return dir, filepath.Join(dir, "socket")
}

func TestWhoListensCanBeDialled(t *testing.T) {
	dir, path := socketIn(t)
	nobody := func(when string, is error, text string) {
		t.Helper()
		if s, err := Dial(t.Context(), path); s != nil || !errors.Is(err, shm.ErrNoServer) || !errors.Is(err, is) ||
			!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", when, err)
		}
	}
	nobody("before", fs.ErrNotExist, "")
	l, _ := expect.Must2(Listen(path))(t)
	st, err := os.Stat(dir)
	socket, e := os.Stat(path)
	if err := errors.Join(err, e); err != nil || st.Mode().Perm() != 0o700 || socket.Mode().Perm() != 0o600 {
		t.Errorf("modes %v and %v, %v", st.Mode(), socket.Mode(), err)
	}
	if _, _, err := Listen(path); !errors.Is(err, shm.ErrRunning) || !strings.Contains(err.Error(), path) {
		t.Errorf("beside a server: %v", err)
	}
	a := expect.Must(Dial(t.Context(), path))(t)
	_ = a.Close()
	l.SetUnlinkOnClose(false) // as if it was killed
	_ = l.Close()
	nobody("a stale socket", unix.ECONNREFUSED, "has ended")
	again, _, err := Listen(path)
	expect.Ensure(t, err == nil, "in place of a stale socket: %v", err)
	_ = again.Close()
}

// Listening where it may not, or where somebody listens, leaves no descriptor behind, and no lock on the directory.
func TestListeningInVainLeavesNothingOpen(t *testing.T) {
	dir, path := socketIn(t)
	l, _ := expect.Must2(Listen(path))(t)
	defer l.Close()
	before := expect.OpenFiles(t)
	_, _, err := Listen(path)
	expect.That(t, errors.Is(err, shm.ErrRunning), "beside a server: %v", err)
	if _, _, err := Listen(filepath.Join(dir, strings.Repeat("x", 100))); err == nil {
		t.Error("the path is too long")
	}
	other, _ := expect.Must2(Listen(filepath.Join(dir, "other")))(t)
	_ = other.Close()
	after := expect.OpenFiles(t)
	expect.That(t, after == before, "%d descriptors are open, there were %d", after, before)
}

func TestWhoListensLeavesWhatWasThere(t *testing.T) {
	dir, path := socketIn(t)
	l, remove := expect.Must2(Listen(path))(t)
	_ = l.Close()
	again, keep := expect.Must2(Listen(path))(t)
	_ = again.Close()
	expect.OK(t, keep())
	_, err := os.Stat(dir)
	expect.That(t, err == nil, "a directory that was there is removed: %v", err)
	if err := errors.Join(os.WriteFile(path, nil, 0o600), remove()); err != nil { // not while it has something
		t.Error(err)
	}
	if _, _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("over a file: %v", err)
	}
	expect.OK(t, errors.Join(os.Remove(path), os.Chmod(dir, 0o750)))
	if _, _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "0700") {
		t.Errorf("in a directory for a group: %v", err)
	}
	expect.OK(t, remove())
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory is still there")
	}
	long := dir + strings.Repeat("x", 100)
	if _, _, err := Listen(filepath.Join(long, "socket")); err == nil || !strings.Contains(err.Error(), "107 bytes") {
		t.Errorf("a long path: %v", err)
	}
	if _, err := os.Stat(long); err == nil {
		t.Error("a directory is left where listening failed")
	}
}
