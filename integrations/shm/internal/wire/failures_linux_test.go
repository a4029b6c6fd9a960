package wire

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Each step that fails says which, and gives back what the steps before it took.
func TestMemoryThatCannotBeMadeSaysWhyAndLeavesNothing(t *testing.T) {
	memfd := func(flags int) int {
		return expect.Must(unix.MemfdCreate("khop-test", unix.MFD_CLOEXEC|flags))(t)
	}
	reading := func() int {
		path := filepath.Join(t.TempDir(), "file")
		expect.OK(t, os.WriteFile(path, make([]byte, 4096), 0o600))
		return expect.Must(unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0))(t)
	}
	for name, c := range map[string]struct {
		fd   int
		n    int64
		text string
		is   error
	}{
		"cannot be sealed":  {memfd(0), pinned.HugePage, "seal a memfd: ", unix.EPERM},
		"cannot be written": {reading(), 4096, "ftruncate: ", unix.EINVAL},
		"no bytes":          {memfd(unix.MFD_ALLOW_SEALING), 0, "map 0 bytes: ", unix.ENOMEM},
		"too many bytes": {memfd(unix.MFD_ALLOW_SEALING), 1 << 60, "reserve 1152921504606846976 bytes: ",
			unix.ENOMEM},
	} {
		m := &Memory{FD: c.fd}
		err := m.prepare(c.n)
		expect.That(t, errors.Is(err, c.is) && err.Error() == c.text+c.is.Error(), "%s: %v", name, err)
		mapped := m.Data
		if err := m.Close(); err != nil || m.Data != nil || m.FD != -1 {
			t.Errorf("%s: %v, %+v is left", name, err, m)
		}
		if _, err := unix.FcntlInt(uintptr(c.fd), unix.F_GETFD, 0); err == nil {
			t.Errorf("%s: the descriptor was left open", name)
		}
		expect.That(t, len(mapped) <= 0 || unix.Madvise(mapped, unix.MADV_NORMAL) != nil,
			"%s: the memory was left mapped", name)
	}
	fd := reading() // may be mapped for reading only
	m := &Memory{FD: -1}
	err := m.mapAt(fd, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if !errors.Is(err, unix.EACCES) || !strings.HasPrefix(err.Error(), "map 4096 bytes: ") || m.Data != nil ||
		m.release != nil {
		t.Errorf("mapped for writing: %v, %+v", err, m)
	}
	expect.OK(t, unix.Close(fd))
}

// An error of a segment names that segment, with numbers.
func TestWhatIsWrongWithASegmentIsSaid(t *testing.T) {
	file := func(size int64, seals int) int {
		fd, err := unix.MemfdCreate("khop-test", unix.MFD_ALLOW_SEALING|unix.MFD_CLOEXEC)
		if err == nil {
			err = unix.Ftruncate(fd, size)
		}
		if err == nil {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
		}
		expect.OK(t, err)
		return fd
	}
	for want, c := range map[string]struct {
		note Segment
		fd   int
	}{
		"SEGMENT 3 is not sealed memory (seals 0x4)": {
			Segment{Index: 3, Size: 4096}, file(4096, unix.F_SEAL_GROW),
		},
		"SEGMENT 4 has 4096 bytes, not 8192": {
			Segment{Index: 4, Size: 8192}, file(4096, fixedSize),
		},
		"SEGMENT 5 in memory 0, with or without a descriptor": {
			Segment{Index: 5, Size: 8192}, -1,
		},
		"SEGMENT 6 in memory 1, with or without a descriptor": {
			Segment{Index: 6, Memory: 1, Size: 1}, openFile(t),
		},
		"SEGMENT 7 is on a device, which was not asked for": {
			Segment{Index: 7, Memory: 1, Size: 1}, -1,
		},
		"SEGMENT 8 has 4096 bytes, not 18446744073709551615": {
			Segment{Index: 8, Size: 1<<64 - 1}, file(4096, fixedSize),
		},
		"SEGMENT 9 is not sealed memory (seals -0x1)": {
			Segment{Index: 9, Size: 1}, openFile(t),
		},
	} {
		m, err := OpenMemory(c.note, c.fd, nil)
		expect.That(t, m == nil && errors.Is(err, ErrMessage) && err.Error() == "bad message: "+want, "%v, want %s",
			err, want)
	}
}

// cutAndStretched reports a message that is taken though bytes are missing or too many.
func cutAndStretched[M message](t *testing.T, k Kind, m M, tail string) {
	t.Helper()
	whole := Append(nil, k, m, []byte(tail))
	if _, rest, err := Parse[M](whole); err != nil || string(rest) != tail {
		t.Errorf("%v: %q, %v", k, rest, err)
	}
	for n := range len(whole) {
		_, _, err := Parse[M](whole[:n])
		expect.That(t, errors.Is(err, ErrMessage), "%v of %d bytes, cut to %d: %v", k, len(whole), n, err)
		expect.Is(t, expect.Err(KindOf(whole[:n])), ErrMessage, "the head of %v of %d bytes, cut to %d", k, len(whole),
			n)
	}
	_, _, err := Parse[M](append(bytes.Clone(whole), 0))
	expect.That(t, errors.Is(err, ErrMessage), "%v and a byte more: %v", k, err)
	if got, err := KindOf(whole); err != nil || got != k {
		t.Errorf("%v is taken for %v, %v", k, got, err)
	}
}

func TestMessagesThatAreCutOrStretchedAreRefused(t *testing.T) {
	index := uint32(unified.Int32)
	cutAndStretched(t, KindHello, Hello{Magic: Magic, Index: index}, "")
	cutAndStretched(t, KindWelcome, Welcome{Magic: Magic, WorldSize: 1, Hold: 1, Slots: 1, Index: index, JSON: 3},
		"abc")
	cutAndStretched(t, KindSegment, Segment{Size: 1}, "")
	cutAndStretched(t, KindBegin, Begin{Run: 1, Mode: BeginState, JSON: 3}, "abc")
	cutAndStretched(t, KindBegin, Begin{Run: 1, Mode: BeginGoOn}, "")
	cutAndStretched(t, KindBegun, Begun{Run: 1}, "")
	cutAndStretched(t, KindBatch, Batch{Run: 1, Size: 64}, "")
	cutAndStretched(t, KindNext, Next{Count: 2}, "12345678")
	cutAndStretched(t, KindEnd, End{Run: 1}, "")
	cutAndStretched(t, KindStop, Pair{}, "")
	cutAndStretched(t, KindAsk, Pair{First: 1, Second: 2}, "")
	cutAndStretched(t, KindBye, Pair{First: 2}, "")
	cutAndStretched(t, KindError, Text{Size: 3}, "abc")
	cutAndStretched(t, KindTell, Text{Size: 3}, "abc")
	_, _, err := Parse[Batch](Append(nil, KindBatch, Batch{Run: 7, Size: 63}, nil))
	if err == nil || !strings.Contains(err.Error(), "a BATCH of 64 bytes") || !strings.Contains(err.Error(), "Run:7") {
		t.Errorf("what is wrong with a message: %v", err)
	}
}

// Each number of a WELCOME and BEGIN is taken at its border, and not beyond it.
func TestNumbersAreTakenAtTheirBorders(t *testing.T) {
	welcome := Welcome{Magic: Magic, Rank: 1, WorldSize: 2, Hold: 1, Slots: 1, Index: uint32(unified.Int32)}
	with := func(change func(m *Welcome)) bool {
		m := welcome
		change(&m)
		return parses(t, KindWelcome, m, "")
	}
	for name, c := range map[string][2]bool{ // taken, and wanted
		"rank below the world size": {with(func(*Welcome) {}), true},
		"rank 0":                    {with(func(m *Welcome) { m.Rank = 0 }), true},
		"the world size":            {with(func(m *Welcome) { m.Rank = 2 }), false},
		"no hold":                   {with(func(m *Welcome) { m.Hold = 0 }), false},
		"more hold than slots":      {with(func(m *Welcome) { m.Hold = 2 }), false},
		"less hold than slots":      {with(func(m *Welcome) { m.Slots = 2 }), true},
		"no dtype":                  {with(func(m *Welcome) { m.Index = 0 }), false},
		"float32":                   {with(func(m *Welcome) { m.Index = uint32(unified.Float32) }), false},
		"int64":                     {with(func(m *Welcome) { m.Index = uint32(unified.Int64) }), true},
		"another magic":             {with(func(m *Welcome) { m.Magic[7]++ }), false},
		"run 1":                     {parses(t, KindBegin, Begin{Run: 1}, ""), true},
		"run 0":                     {parses(t, KindBegin, Begin{}, ""), false},
		"a descriptor of 64 bytes":  {parses(t, KindBatch, Batch{Size: 64}, ""), true},
		"aligned to 128 bytes":      {parses(t, KindBatch, Batch{Size: 64, Offset: 128}, ""), true},
		"aligned to 1 byte":         {parses(t, KindBatch, Batch{Size: 64, Offset: 129}, ""), false},
		"a segment of a byte":       {parses(t, KindSegment, Segment{Size: 1}, ""), true},
		"no index dtype":            {parses(t, KindHello, Hello{Magic: Magic}, ""), true},
	} {
		expect.That(t, c[0] == c[1], "%s: taken: %t", name, c[0])
	}
}

// What cannot be sent is the error of the call, and not that the other end is gone; a closed end is.
func TestWhatCannotBeSentIsSaid(t *testing.T) {
	a, b := socketPair(t)
	for _, fd := range []int{-1, 0} {
		err := a.Send(make([]byte, 64<<20), fd, time.Second)
		expect.That(t, errors.Is(err, unix.EMSGSIZE) && !IsBroken(err) && strings.HasPrefix(err.Error(), "sendmsg: "),
			"64 MiB: %v", err)
	}
	expect.OK(t, b.Close())
	err := a.Send([]byte("late"), -1, time.Second)
	expect.That(t, IsBroken(err) && errors.Is(err, unix.EPIPE), "to nobody: %v", err)
	expect.That(t, !IsBroken(nil) && !IsBroken(os.ErrDeadlineExceeded),
		"something else says that the other end is gone")
}

// Where nobody can listen or be reached, the error says why, names the path, and nothing is left.
func TestWhereNobodyCanListenTheErrorSaysWhy(t *testing.T) {
	dir, path := socketIn(t)
	before := expect.OpenFiles(t)
	_, _, err := Listen(filepath.Join(dir, "deeper", "socket"))
	expect.That(t, errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(err.Error(), "directory of the socket: "),
		"in a folder of a folder that is not there: %v", err)
	expect.OK(t, os.WriteFile(dir, nil, 0o600))
	want := dir + ": others may enter it: the socket's directory must be yours alone (mode 0700); name one that " +
		"does not exist yet, such as " + filepath.Join(dir, "khop", "socket")
	if _, _, err := Listen(path); err == nil || err.Error() != want {
		t.Errorf("in a file: %v", err)
	}
	if st, err := os.Stat(dir); err != nil || st.IsDir() {
		t.Errorf("the file is gone: %v", err)
	}
	if _, err := Dial(t.Context(), path); err == nil || errors.Is(err, shm.ErrNoServer) {
		t.Errorf("behind a file: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := Dial(ctx, path); s != nil || err == nil || errors.Is(err, shm.ErrNoServer) {
		t.Errorf("after the end of the context: %v", err)
	}
	if after := expect.OpenFiles(t); after > before+2 { // of Go's poller
		t.Errorf("%d descriptors are open, %d before", after, before)
	}
}

// The directory goes with who made it, unless somebody else has put something there or has removed it.
func TestWhoHasMadeTheDirectoryRemovesIt(t *testing.T) {
	dir, path := socketIn(t)
	l, remove := expect.Must2(Listen(path))(t)
	expect.OK(t, errors.Join(l.Close(), os.Remove(dir)))
	expect.Is(t, remove(), nil, "the directory is gone already")
}
