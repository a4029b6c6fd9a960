// Package wholefile reads and writes files that people name. Who reads a file that it writes finds the old one or the
// new one, whole. It never waits for the other end of a pipe that it reads, and replaces no file that is not khop's.
package wholefile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/khop-gnn/khop/internal/direct"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/underway"
)

// ErrKind is returned for a name that stands for something else than a file that can be used: a folder, a device, a
// pipe, a socket.
var ErrKind = errors.New("not a regular file")

// ErrLong is returned for an input that does not end where it must.
var ErrLong = errors.New("too long")

// Open opens a regular file to read it. It never waits. It returns ErrKind for anything else, and what the system says.
func Open(name string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // else a pipe waits for who writes to it
	if err != nil {
		return nil, nil, err
	}
	st, err := f.Stat()
	if err == nil {
		err = regular(name, st)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, st, nil
}

// Read returns what a regular file holds, which ends where its size says, and has no more than most bytes. Errors are
// those of Open, and ErrLong.
func Read(name string, most int64) ([]byte, error) {
	f, st, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st.Size() > most {
		return nil, tooLong(name, most)
	}
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err == nil && int64(len(text)) < st.Size() {
		err = &fs.PathError{Op: "read", Path: name, Err: EndsEarly(int64(len(text)), st.Size())}
	}
	return text, err
}

// Input returns what a person has named for a command to read once, no more than most bytes: a regular file, a pipe
// that somebody writes to, a device, or "-", which is standard input. A pipe without a writer is empty. It waits until
// ctx ends. Errors: ErrKind for a folder, ErrLong, context.Cause(ctx), what the system says.
func Input(ctx context.Context, name string, most int64) ([]byte, error) {
	from := os.Stdin
	if name != "-" {
		f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		defer f.Close() // a read that waits ends
		from = f
	}
	if st, err := from.Stat(); err == nil && st.IsDir() {
		return nil, regular(name, st)
	}
	var text []byte
	defer underway.Waits("the end of " + paths.Text(name))()
	read := make(chan error, 1)
	go func() { // of standard input it ends with the process, for others may read on there
		b, err := io.ReadAll(io.LimitReader(from, most+1))
		text = b
		read <- err
	}()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case err := <-read:
		if err == nil && int64(len(text)) > most {
			err = tooLong(name, most)
		}
		return text, err
	}
}

func tooLong(name string, most int64) error {
	return &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("%w: it has more than %d bytes", ErrLong, most)}
}

// EndsEarly says of a file that it ends at a byte before the size that it states: io.ErrUnexpectedEOF.
func EndsEarly(at, size int64) error {
	return fmt.Errorf("%w: it ends at byte %d of %d", io.ErrUnexpectedEOF, at, size)
}

// regular refuses what is not a regular file.
func regular(name string, st fs.FileInfo) error {
	if st.Mode().IsRegular() {
		return nil
	}
	return &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("%w: it is %s", ErrKind, KindOf(st.Mode()))}
}

// KindOf names what is no regular file.
func KindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a folder"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// Replace makes the file of that name what write writes, with these permissions. It writes beside the file, syncs, and
// moves the new one into place; the name outlives the machine's end too. On an error the old file, or none, is there. A
// process that is killed may leave a file ".NAME.*.new": see Clear. It takes the name as it is: Output looks what is
// there.
func Replace(name string, mode fs.FileMode, write func(io.Writer) error) (err error) {
	before, after := besideNames(name)
	f, err := os.CreateTemp(filepath.Dir(name), before+"*"+after)
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		return &fs.PathError{Op: "write", Path: name, Err: at.Err}
	}
	if err != nil {
		return err
	}
	defer underway.Leaves(underway.File, f.Name())()
	defer func() {
		if err != nil {
			_ = f.Close() // it may be closed already
			_ = os.Remove(f.Name())
			err = named(err, f.Name(), name)
		}
	}()
	for _, step := range []func() error{func() error { return write(direct.NewWriter(f)) },
		func() error { return f.Chmod(mode) }, func() error { return syncFile(f) }, f.Close} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(name))
}

// New makes a file that is not there yet, and syncs it. Its name outlives the machine's end after SyncFolder.
func New(name string, mode fs.FileMode, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, syncFile(f), f.Close())
}

// named returns an error of the file beside another as one of that other, which the user knows.
func named(err error, beside, name string) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) && at.Path == beside {
		at.Path = name
	}
	if at := (*os.LinkError)(nil); errors.As(err, &at) && at.Old == beside {
		return &fs.PathError{Op: "replace", Path: name, Err: at.Err}
	}
	return err
}

// mostOfName is how many bytes of a file's name are in that of the one beside it, which must not be too long, too.
const mostOfName = 200

// besideNames returns what surrounds the number in the name of a file that Replace writes beside another.
func besideNames(name string) (before, after string) {
	base := filepath.Base(name)
	end := min(len(base), mostOfName)
	for end > 0 && end < len(base) && !utf8.RuneStart(base[end]) {
		end--
	}
	return "." + base[:end] + ".", ".new"
}

// Clear removes what processes that were killed while they replaced a file have left beside it, as far as it may. No
// other process may be replacing the file now.
func Clear(name string) {
	before, after := besideNames(name)
	list, _ := os.ReadDir(filepath.Dir(name))
	for _, e := range list {
		middle, ok := strings.CutPrefix(e.Name(), before)
		number, ends := strings.CutSuffix(middle, after)
		if _, err := strconv.ParseUint(number, 10, 64); ok && ends && err == nil {
			_ = os.Remove(filepath.Join(filepath.Dir(name), e.Name()))
		}
	}
}

// SyncFolder makes the names in a folder durable, where the system can and this user may read it.
func SyncFolder(name string) error {
	if runtime.GOOS == "windows" {
		return nil // the system has no such call
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	err = syncFile(f)
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) { // of a network's folders
		err = nil
	}
	return errors.Join(err, f.Close())
}

// syncFile makes a file's contents, or a folder's names, outlive the machine's end. A variable for tests only.
var syncFile = (*os.File).Sync
