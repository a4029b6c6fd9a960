//go:build unix

package wholefile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

const mine, new = "mine: old", "mine: new"

// place is something that a name may stand for, in a folder of its own.
type place struct {
	name  string
	make  func(t *testing.T, path string)
	kept  bool   // it stays what it is, also with Force
	err   error  // without Force; nil: it is written
	force error  // with Force
	at    string // a file below the folder that is written, if not path
}

func text(s string) func(*testing.T, string) {
	return func(t *testing.T, path string) { expect.OK(t, os.WriteFile(path, []byte(s), 0o600)) }
}

func link(to string, make func(*testing.T, string)) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		if make != nil {
			make(t, filepath.Join(filepath.Dir(path), to))
		}
		expect.OK(t, os.Symlink(to, path))
	}
}

func fifo(t *testing.T, path string) { expect.OK(t, syscall.Mkfifo(path, 0o600)) }

var placesToWrite = []place{
	{name: "nothing"},
	{name: "an own file", make: text(mine)},
	{name: "an empty file", make: text("")},
	{name: "a foreign file", make: text("notes"), err: fs.ErrExist},
	{name: "a read-only file", make: func(t *testing.T, path string) {
		text(mine)(t, path)
		expect.OK(t, os.Chmod(path, 0o400))
	}, err: fs.ErrPermission},
	{name: "a link to an own file", make: link("other", text(mine)), at: "other"},
	{name: "a link to a foreign file", make: link("other", text("notes")), err: fs.ErrExist, at: "other"},
	{name: "a dangling link", make: link("other", nil), at: "other"},
	{name: "a link to itself", make: link("out", nil), err: syscall.ELOOP, force: syscall.ELOOP},
	{name: "a folder", make: func(t *testing.T, path string) { expect.OK(t, os.Mkdir(path, 0o700)) },
		err: ErrKind, force: ErrKind},
	{name: "a link to a folder", make: link("other", func(t *testing.T, path string) {
		expect.OK(t, os.Mkdir(path, 0o700))
	}), err: ErrKind, force: ErrKind},
	{name: "a pipe", make: fifo, kept: true},
	{name: "a link to a pipe", make: link("other", fifo), kept: true},
}

// TestOutputsReplaceOnlyWhatIsTheirs writes to all that a name may stand for, with Force and without.
func TestOutputsReplaceOnlyWhatIsTheirs(t *testing.T) {
	for _, p := range placesToWrite {
		for _, force := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, force %t", p.name, force), func(t *testing.T) { p.try(t, force) })
		}
	}
}

func (p place) try(t *testing.T, force bool) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	if p.make != nil {
		p.make(t, path)
	}
	before, _ := os.Lstat(path)
	written := filepath.Join(dir, "out")
	if p.at != "" {
		written = filepath.Join(dir, p.at)
	}
	old, _ := readIfRegular(written)
	o := Output{Path: path, Mode: 0o600, Ours: Begins("mine"), Force: force}
	want := p.err
	if force {
		want = p.force
	}
	got := ""
	read := func() { got, _ = readIfRegular(written) }
	if p.kept {
		r := expect.Must(os.OpenFile(path, os.O_RDWR, 0))(t)
		defer r.Close()
		read = func() {
			b := make([]byte, len(new))
			_, err := io.ReadFull(r, b)
			expect.OK(t, err)
			got = string(b)
		}
	}
	expect.That(t, errors.Is(o.Check(), want), "Check: %v; want %v", o.Check(), want)
	err := o.Write(t.Context(), func(w io.Writer) error { _, err := io.WriteString(w, new); return err })
	expect.That(t, errors.Is(err, want), "Write: %v; want %v", err, want)
	if read(); want == nil {
		old = new
	}
	expect.That(t, got == old, "it holds %q, want %q", got, old)
	after, _ := os.Lstat(path)
	expect.That(t, before == nil || after.Mode().Type() == before.Mode().Type(), "%v became %v", before, after)
	names, _ := filepath.Glob(filepath.Join(dir, ".*"))
	expect.That(t, len(names) == 0, "%q stayed", names)
	o.Kept = true
	expect.That(t, !p.kept || errors.Is(o.Check(), ErrKind), "a pipe for what is read again: %v", o.Check())
}

func readIfRegular(name string) (string, error) {
	st, err := os.Stat(name)
	if err != nil || !st.Mode().IsRegular() {
		return "", err
	}
	b, err := os.ReadFile(name)
	return string(b), err
}

// TestAPipeWithoutReaderIsGivenUp ends the wait for a reader.
func TestAPipeWithoutReaderIsGivenUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	fifo(t, path)
	ctx, stop := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	stop(enough)
	for range 100 { // whether the wait has begun or not
		err := Output{Path: path}.Write(ctx, func(io.Writer) error { return errors.New("it was opened") })
		expect.Is(t, err, enough, "a pipe that nobody reads")
	}
	_, _, err := Open(path)
	expect.Is(t, err, ErrKind, "reading a pipe that nobody writes to")
}

// A reader that has stalled is waited for until the context ends.
func TestAPipeWhoseReaderStallsIsGivenUp(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	fifo(t, pipe)
	r := expect.Must(os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0))(t)
	defer r.Close()
	ctx, end := context.WithCancel(t.Context())
	err := Output{Path: pipe}.Write(ctx, func(w io.Writer) (err error) {
		for n := 0; err == nil; n++ {
			if n == 1<<15 { // half of the pipe's room is taken, and the rest may be
				end()
			}
			_, err = w.Write([]byte("x"))
		}
		return err
	})
	expect.That(t, errors.Is(err, context.Canceled) && errors.Is(err, os.ErrDeadlineExceeded), "%v", err)
}

// TestASocketTakesTheOutput connects to it.
func TestASocketTakesTheOutput(t *testing.T) {
	dir := expect.Must(os.MkdirTemp("", "khop"))(t) // a short name
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	l := expect.Must(net.Listen("unix", path))(t)
	defer l.Close()
	got := make(chan string)
	go func() {
		c, err := l.Accept()
		if err == nil {
			b, _ := io.ReadAll(c)
			got <- string(b)
		}
	}()
	expect.OK(t, Output{Path: path}.Write(t.Context(), func(w io.Writer) error {
		_, err := io.WriteString(w, new)
		return err
	}))
	expect.Same(t, <-got, new, "what came out of the socket")
}

// TestDescriptorsAreWrittenTo writes through /dev/fd, behind which a file that somebody else opened stays.
func TestDescriptorsAreWrittenTo(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("no /proc/self/fd on this system")
	}
	path := filepath.Join(t.TempDir(), "log")
	f := expect.Must(os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600))(t)
	expect.OK(t, expect.Err(f.WriteString("before, ")))
	fd := expect.Must(syscall.Dup(int(f.Fd())))(t)
	expect.OK(t, Output{Path: fmt.Sprintf("/dev/fd/%d", fd)}.Write(t.Context(), func(w io.Writer) error {
		_, err := io.WriteString(w, "between, ")
		return err
	}))
	expect.OK(t, expect.Err(f.WriteString("after")), f.Close())
	expect.Same(t, string(expect.Must(os.ReadFile(path))(t)), "before, between, after", "the file")
}

// TestAnInputIsReadToItsEndOrGivenUp whatever its name stands for.
func TestAnInputIsReadToItsEndOrGivenUp(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	text("four")(t, in("file"))
	fifo(t, in("pipe"))
	for name, want := range map[string]error{in("file"): nil, in("pipe"): nil, dir: ErrKind, in("none"): fs.ErrNotExist,
		"/dev/zero": ErrLong} {
		got, err := Input(t.Context(), name, 4)
		expect.That(t, errors.Is(err, want), "%s: %q, %v; want %v", name, got, err, want)
		expect.That(t, name != in("file") || string(got) == "four", "%s holds %q", name, got)
	}
	_, err := Input(t.Context(), in("file"), 3)
	expect.Is(t, err, ErrLong, "a byte more than may be")
	_, err = Read(in("file"), 3)
	expect.Is(t, err, ErrLong, "a file that is a byte longer than may be")
	got, err := Read(in("file"), 4)
	expect.That(t, err == nil && string(got) == "four", "a file of four bytes: %q, %v", got, err)
	w := expect.Must(os.OpenFile(in("pipe"), os.O_RDWR, 0))(t)
	defer w.Close()
	enough := errors.New("enough")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(enough)
	_, err = Input(ctx, in("pipe"), 4)
	expect.Is(t, err, enough, "a pipe whose writer says nothing")
}
