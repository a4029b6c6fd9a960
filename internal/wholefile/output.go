package wholefile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/underway"
)

// Output is a file that a person has named for a command to write. Links are followed to their end, which may be a file
// that is not there yet. A regular file is replaced if the command's kind of file is there, and any other one only with
// Force. Devices, pipes, sockets and "-", which is standard output, are written to: they are never replaced.
type Output struct {
	Path  string
	Mode  fs.FileMode            // of a file that is replaced or new
	Ours  func(head []byte) bool // whether a file that begins so is of the command's kind; nil: none is
	Force bool                   // replace any regular file
	Else  string                 // what to do where a file is not replaced; default: remove it, or name another
	Kept  bool                   // it is read again later, so that nothing but a regular file will do
	From  []string               // the inputs of the command: see Apart
}

// end is what the name of an output stands for.
type end struct {
	path string      // without links
	st   fs.FileInfo // nil where nothing is there
	fd   int         // a descriptor of this process; -1 for a path
}

// stream reports whether the output is written to as it is.
func (e end) stream() bool { return e.fd >= 0 || e.st != nil && !e.st.Mode().IsRegular() }

// Check says, before long work begins, why Write would refuse. Errors: ErrKind; ErrInput; fs.ErrExist for a file that
// is not replaced; fs.ErrPermission for one that nobody may write; what the system says.
func (o Output) Check() error {
	_, err := o.find()
	return err
}

// Write has write make the contents. On an error a regular file is as it was. It waits for a reader of a pipe until ctx
// ends. Errors are those of Check, of write, and context.Cause(ctx).
func (o Output) Write(ctx context.Context, write func(io.Writer) error) error {
	e, err := o.find()
	if err != nil {
		return err
	}
	if !e.stream() {
		err := Replace(e.path, o.Mode, write)
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EFBIG) {
			err = fmt.Errorf("%w: make room there, or name a file on another disk", err)
		}
		return err
	}
	w, err := e.open(ctx)
	if err != nil {
		return err
	}
	s := stream{w, e.path}
	defer s.until(ctx)()
	if err = errors.Join(write(s), w.Close()); err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return err
}

// Stream opens what Write would write to as it is, where that is so, and waits for the reader of a pipe until ctx ends;
// nil for a file that Write would replace. Errors are those of Write.
func (o Output) Stream(ctx context.Context) (io.WriteCloser, error) {
	e, err := o.find()
	if err != nil || !e.stream() {
		return nil, err
	}
	w, err := e.open(ctx)
	if err != nil {
		return nil, err
	}
	return stream{w, e.path}, nil
}

// stream is an output that is written to as it is.
type stream struct {
	io.WriteCloser
	path string
}

// Write implements io.Writer.
func (s stream) Write(p []byte) (int, error) {
	defer underway.Waits("the reader of " + paths.Text(s.path))()
	return s.WriteCloser.Write(p)
}

// until lets no write wait after ctx has ended, where the system can do that, until stop is called.
func (s stream) until(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		if f, ok := s.WriteCloser.(interface{ SetWriteDeadline(time.Time) error }); ok {
			_ = f.SetWriteDeadline(time.Unix(1, 0))
		}
	})
}

// Target returns the path that Write would replace, without links, and whether Write would write to a stream instead.
// Errors are those of Check.
func (o Output) Target() (path string, stream bool, err error) {
	e, err := o.find()
	return e.path, e.stream(), err
}

// Follow returns the path that a name's links lead to, and what is there; nil where nothing is.
func Follow(name string) (string, fs.FileInfo, error) {
	e, err := resolve(name)
	return e.path, e.st, err
}

// find follows links, and refuses what Write must not touch.
func (o Output) find() (end, error) {
	e, err := resolve(o.Path)
	if err == nil {
		err = e.apart(o.Path, o.From)
	}
	if err != nil {
		return e, err
	}
	no := func(err error) (end, error) { return e, &fs.PathError{Op: "write", Path: o.Path, Err: err} }
	if !e.stream() {
		if err := OutsideDatasets(e.path); err != nil {
			return no(err)
		}
	}
	switch {
	case e.st == nil && e.fd < 0:
		return e, nil
	case e.st != nil && e.st.IsDir():
		return no(fmt.Errorf("%w: it is a folder: name a file in it", ErrKind))
	case e.stream() && o.Kept:
		return no(fmt.Errorf("%w: khop reads it again later: name a file", ErrKind))
	case e.stream() || o.Force:
		return e, nil
	case e.st.Mode().Perm()&0o222 == 0:
		return no(fmt.Errorf("%w: nobody may write it: %s", fs.ErrPermission, o.remedy()))
	}
	if o.Ours == nil {
		return no(fmt.Errorf("%w: %s", fs.ErrExist, o.remedy()))
	}
	ours, err := o.ours(e)
	if err == nil && !ours {
		return no(fmt.Errorf("%w, and is not of the kind that is written: %s", fs.ErrExist, o.remedy()))
	}
	return e, err
}

func (o Output) remedy() string { return cmp.Or(o.Else, "remove it, or name another") }

// ours reports whether a regular file is one to replace. An empty file has nothing to lose.
func (o Output) ours(e end) (bool, error) {
	f, _, err := Open(e.path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 512))
	return err == nil && (len(head) == 0 || o.Ours(head)), err
}

// mostLinks is how many links may lead to an output, as many as Linux follows.
const mostLinks = 40

// resolve follows the links of a name.
func resolve(name string) (end, error) {
	if name == "-" {
		return end{path: name, fd: 1}, nil
	}
	for range mostLinks {
		dir, err := filepath.EvalSymlinks(filepath.Dir(name))
		if err != nil {
			return end{}, err
		}
		name = filepath.Join(dir, filepath.Base(name))
		// Links below /proc/self/fd lead to no path where a descriptor is a pipe, and a file behind one is the shell's.
		if fd, err := strconv.Atoi(filepath.Base(name)); err == nil && dir == fmt.Sprintf("/proc/%d/fd", os.Getpid()) {
			return end{path: name, fd: fd}, nil
		}
		st, err := os.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return end{path: name, fd: -1}, nil
		case err != nil:
			return end{}, err
		case st.Mode()&fs.ModeSymlink == 0:
			return end{name, st, -1}, nil
		}
		to, err := os.Readlink(name)
		if err != nil {
			return end{}, err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(dir, to)
		}
		name = to
	}
	return end{}, &fs.PathError{Op: "write", Path: name, Err: syscall.ELOOP}
}

// open opens a stream to write to it.
func (e end) open(ctx context.Context) (io.WriteCloser, error) {
	switch {
	case e.fd >= 0:
		return inherited(e.fd)
	case e.st.Mode()&fs.ModeSocket != 0:
		return (&net.Dialer{}).DialContext(ctx, "unix", e.path)
	case e.st.Mode()&fs.ModeNamedPipe == 0:
		return os.OpenFile(e.path, os.O_WRONLY, 0)
	}
	w, err := os.OpenFile(e.path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if !errors.Is(err, syscall.ENXIO) {
		return w, err
	}
	return awaitReader(ctx, e.path)
}

// awaitReader opens a pipe that nobody reads yet.
func awaitReader(ctx context.Context, name string) (io.WriteCloser, error) {
	defer underway.Waits("a reader of the pipe " + paths.Text(name))()
	opened, ended := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() { // a reader of our own ends the wait
		defer close(ended)
		if r, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil {
			<-opened
			_ = r.Close()
		}
	})
	w, err := os.OpenFile(name, os.O_WRONLY, 0)
	close(opened)
	if stop() {
		return w, err
	}
	<-ended
	if err == nil {
		err = w.Close()
	}
	return nil, errors.Join(context.Cause(ctx), err)
}

// inherited returns a descriptor that this process was started with. Standard output and its like stay open.
func inherited(fd int) (io.WriteCloser, error) {
	if fd <= 2 {
		return unclosed{[]*os.File{os.Stdin, os.Stdout, os.Stderr}[fd]}, nil
	}
	f := os.NewFile(uintptr(fd), "/dev/fd/"+strconv.Itoa(fd))
	if _, err := f.Stat(); err != nil {
		return nil, err
	}
	return f, nil
}

// unclosed is a file that others use, too.
type unclosed struct{ io.Writer }

// Close implements io.Closer.
func (unclosed) Close() error { return nil }

// Begins returns an Ours that knows files by how they begin, also those that were cut short.
func Begins(text string) func(head []byte) bool {
	return func(head []byte) bool { return strings.HasPrefix(string(head), text[:min(len(head), len(text))]) }
}
