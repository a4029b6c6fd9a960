// Package tracefile writes what package timeline records as a Chrome trace, which Perfetto opens.
//
// Nothing is written before Close. Times are microseconds since baseTimeNanoseconds of the file, a time of day, as in
// torch's profiler.
package tracefile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/khop-gnn/khop/internal/timeline"
	"github.com/khop-gnn/khop/internal/wholefile"
)

// mark begins every file, so that it can be told from others.
const mark = `{"schema":"khop trace 1"`

// File is a trace that is being recorded.
type File struct {
	timeline.Recorder
	out   wholefile.Output
	path  string
	to    io.WriteCloser // opened by Open; nil for a file that Close replaces
	users int
}

// open are the files of this process that are being recorded, so that loaders share one.
var open = struct {
	sync.Mutex
	files map[string]*File
}{files: map[string]*File{}}

// Open returns the file of a path, which all who opened it share. It refuses what Close could not write: a file that is
// not a trace of khop's. It waits for the reader of a pipe, until ctx ends.
func Open(ctx context.Context, path string) (*File, error) {
	if path != "-" {
		full, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		path = full
	}
	open.Lock()
	defer open.Unlock()
	f := open.files[path]
	if f == nil {
		f = &File{out: Output(path, false, ""), path: path}
		var err error
		if f.to, err = f.out.Stream(ctx); err != nil {
			return nil, fmt.Errorf("the trace: %w", err)
		}
		open.files[path] = f
	}
	f.users++
	return f, nil
}

// Output is the file that a trace is written to: it replaces a trace that khop has written, and other files with force.
// Where there is another file, remedy says what to do.
func Output(path string, force bool, remedy string, read ...string) wholefile.Output {
	return wholefile.Output{Path: path, Mode: 0o644, Ours: wholefile.Begins(mark), Force: force, Else: remedy,
		From: read}
}

// Record returns where lanes are recorded: timeline.Trace.
func (f *File) Record() *timeline.Recorder { return &f.Recorder }

// Close writes the file, when all who opened it have called it and no lane is in use.
func (f *File) Close() error {
	open.Lock()
	f.users--
	last := f.users == 0
	if last {
		delete(open.files, f.path)
	}
	open.Unlock()
	if !last {
		return nil
	}
	var err error
	if f.to != nil {
		err = errors.Join(write(f.to, f.Recorded()), f.to.Close())
	} else {
		err = f.out.Write(context.Background(), func(to io.Writer) error { return write(to, f.Recorded()) })
	}
	if err != nil {
		return fmt.Errorf("the trace: %w", err)
	}
	return nil
}

// process is a variable for tests only.
var process = os.Getpid
