package wire

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// Each call about a file that listening makes may fail: then there is an error, and neither a socket nor a directory
// that it made is left.
func TestListeningThatFailsAnywhereLeavesNothing(t *testing.T) {
	for number := -1; ; number++ {
		dir, path := socketIn(t)
		var l *net.UnixListener
		var remove func() error
		var err error
		opened := expect.OpenFiles(t)
		calls := expect.FailingCall(t, filepath.Dir(dir), number, unix.EIO, func() { l, remove, err = Listen(path) })
		if err == nil {
			expect.Is(t, errors.Join(l.Close(), remove()), nil, "call %d", number)
		} else if !errors.Is(err, unix.EIO) {
			t.Errorf("call %d of %v: %v", number, calls, err)
		}
		if number >= 0 && number < len(calls) && err == nil && calls[number].Name != "newfstatat" {
			t.Errorf("call %d, %v, fails, and nobody says so", number, calls[number])
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("call %d of %v: the directory is left", number, calls)
		}
		if n := expect.OpenFiles(t); n > opened+2 { // of Go's poller
			t.Errorf("call %d: %d descriptors stay open", number, n-opened)
		}
		if number >= len(calls) {
			return
		}
	}
}

// A socket of another kind is nobody's leftover: it is named, and stays.
func TestASocketOfAnotherKindIsLeftAlone(t *testing.T) {
	dir, path := socketIn(t)
	expect.OK(t, os.Mkdir(dir, 0o700))
	other := expect.Must(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	defer other.Close()
	_, _, err := Listen(path)
	expect.That(t, err != nil && strings.HasPrefix(err.Error(), path+": cannot tell whether a server listens: "), "%v",
		err)
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the socket is gone: %v", err)
	}
}

// The errors of an array's form come in their order, and dimensions are valid up to 2^62.
func TestWhatIsSaidOfAnArraysForm(t *testing.T) {
	memory := &Memory{Data: make([]byte, 4096)}
	parse := func(change func(e []byte)) error {
		d := NewDescriptor([]Form{{"array", unified.Int8, 2, 3}})
		PutPlace(d, 1, 2, 3, 0)
		PutArray(d, 0, 7, 0, []int64{0, 1})
		change(entryAt(d, 0))
		_, err := ParseDescriptor(d, func(uint32) *Memory { return memory }, nil)
		return err
	}
	for want, change := range map[string]func(e []byte){
		"":                                    func([]byte) {},
		`array "array": dtype 99 of rank 2`:   func(e []byte) { e[12] = 99 },
		`array "array": dtype 1 of rank 7`:    func(e []byte) { e[13] = 7 },
		`array "array": dimension 1 is 1<<62`: func(e []byte) { le.PutUint64(e[40:], 1<<62+1) },
	} {
		err := parse(change)
		if text := strings.ReplaceAll(errorText(err), "4611686018427387905", "1<<62"); !strings.HasSuffix(text, want) ||
			(err == nil) != (want == "") {
			t.Errorf("%v, not %q", err, want)
		}
	}
	if err := parse(func(e []byte) { le.PutUint64(e[40:], 1<<62) }); err != nil { // of no rows
		t.Errorf("rows of 2^62 bytes: %v", err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// These numbers are the feed's: another program has them too (docs/feed.md).
func TestNumbersOfMessagesAreVersionOnes(t *testing.T) {
	got := []int{SegmentReadOnly, SegmentWithin, OnHost, OnDevice, BeginAt, BeginGoOn, BeginState, IsBroadcast,
		IsDurable, IsOnDevice, EndComplete, EndStopped, AskStatistics, AskState, ByeDone, ByeInterrupted, ByeAllEpochs,
		MaxMessage, MaxSegments, MaxSlots, MaxReturned, MaxText, MaxArrays, MaxName, Alignment}
	want := []int{1, 2, 0, 1, 0, 1, 2, 1, 2, 4, 0, 1, 1, 2, 0, 1, 2, 65536, 4096, 65536, 1024, 4096, 1 << 20, 4096, 128}
	expect.That(t, slices.Equal(got, want), "%d, not %d", got, want)
}
