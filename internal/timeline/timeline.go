// Package timeline records what goroutines did when, and writes it as a Chrome trace, which Perfetto opens.
//
// A File has Lanes, one for each goroutine, which records spans that nest, arrows and counters in memory of its own:
// the last ones stay. Nothing is written before Close. A nil Lane records nothing, and costs a comparison.
//
// Times are microseconds since baseTimeNanoseconds of the file, a time of day, as in torch's profiler.
package timeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/khop-gnn/khop/internal/wholefile"
)

// Most is how many events a lane keeps.
var Most = 1 << 15

// mark begins every file, so that it can be told from others.
const mark = `{"schema":"khop trace 1"`

// File is a trace that is being recorded.
type File struct {
	out  wholefile.Output
	path string
	to   io.WriteCloser // opened by Open; nil for a file that Close replaces

	mu    sync.Mutex
	users int
	lanes []*Lane
	ids   uint64
}

// open are the files of this process that are being recorded, so that loaders share one.
var open = struct {
	sync.Mutex
	files map[string]*File
}{files: map[string]*File{}}

// Open returns the file of a path, which all who opened it share; nil for an empty path. It refuses what Close could
// not write: a file that is not a trace of khop's. It waits for the reader of a pipe, until ctx ends.
func Open(ctx context.Context, path string) (*File, error) {
	if path == "" {
		return nil, nil
	}
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

// Close writes the file, when all who opened it have called it and no lane is in use.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
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
		err = errors.Join(f.write(f.to), f.to.Close())
	} else {
		err = f.out.Write(context.Background(), f.write)
	}
	if err != nil {
		return fmt.Errorf("the trace: %w", err)
	}
	return nil
}

// Lane returns a new lane; nil of no file.
func (f *File) Lane(name string) *Lane {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &Lane{file: f, name: name, number: len(f.lanes), epoch: time.Now()}
	l.unix = l.epoch.UnixNano()
	f.lanes = append(f.lanes, l)
	return l
}

// Arrows returns n numbers for arrows that nobody else has, from the returned one on.
func (f *File) Arrows(n uint64) uint64 {
	if f == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	first := f.ids
	f.ids += n
	return first
}

// Lane is a row of the picture: what one goroutine at a time did. All methods may be called on nil.
type Lane struct {
	file   *File
	name   string
	number int
	epoch  time.Time // of times of this lane, with the monotonic clock
	unix   int64     // the same, nanoseconds
	events []event   // the last ones, once there are Most of them: a ring
	next   int       // of it

	told  sync.Mutex // of what is reported afterwards
	apart bool       // its spans were reported afterwards, and do not nest
}

type kind uint8

const (
	span    kind = iota
	made         // the beginning of an arrow
	used         // its end
	counter      // a value from now on
	change       // by how much a counter differs from now on
)

// event is a span of a name, with a number, or an arrow, or a value.
type event struct {
	name   string
	start  int64 // nanoseconds, unix
	length int64
	value  int64
	kind   kind
}

// Beside returns a new lane of the same file, which is for something that the goroutine drives, such as a stream.
func (l *Lane) Beside(name string) *Lane {
	if l == nil {
		return nil
	}
	return l.file.Lane(l.name + ": " + name)
}

// Now returns the time of day, in nanoseconds; 0 of nil.
func (l *Lane) Now() int64 {
	if l == nil {
		return 0
	}
	return l.now()
}

func (l *Lane) now() int64 { return l.unix + int64(time.Since(l.epoch)) }

func (l *Lane) add(e event) {
	if len(l.events) < Most {
		l.events = append(l.events, e)
		return
	}
	l.events[l.next] = e
	l.next = (l.next + 1) % len(l.events)
}

// Span is something that has begun.
type Span struct {
	lane *Lane
	e    event
}

// Begin begins a span with a number, which says which batch or hop it is about; -1 for none.
func (l *Lane) Begin(name string, number int64) Span {
	if l == nil {
		return Span{}
	}
	return Span{l, event{name: name, value: number, start: l.now()}}
}

// End ends a span, within the one that began before it on the lane.
func (s Span) End() {
	if s.lane == nil {
		return
	}
	s.e.length = s.lane.now() - s.e.start
	s.lane.add(s.e)
}

// Ended records a span of a length that ends now.
func (l *Lane) Ended(name string, length time.Duration) {
	if l != nil && length > 0 {
		l.add(event{name: name, value: -1, start: l.now() - int64(length), length: int64(length)})
	}
}

// Made begins an arrow at the span that is under way.
func (l *Lane) Made(arrow uint64) {
	if l != nil {
		l.add(event{kind: made, value: int64(arrow), start: l.now()})
	}
}

// Used ends an arrow at the span that is under way.
func (l *Lane) Used(arrow uint64) {
	if l != nil {
		l.add(event{kind: used, value: int64(arrow), start: l.now()})
	}
}

// Count says what a counter is from now on.
func (l *Lane) Count(name string, value int64) {
	if l != nil {
		l.add(event{kind: counter, name: name, value: value, start: l.now()})
	}
}

// Change says that a counter of all lanes was higher by n for a time, as Now tells it. Any goroutine may call it, if
// nothing but Change and Was is called on the lane.
func (l *Lane) Change(name string, n, begin, end int64) {
	if l == nil {
		return
	}
	l.told.Lock()
	defer l.told.Unlock()
	l.add(event{kind: change, name: name, value: n, start: begin})
	l.add(event{kind: change, name: name, value: -n, start: max(begin, end)})
}

// Was records afterwards a span with a number. Any goroutine may call it, if nothing but Change and Was is called on
// the lane. Spans that overlap, because two clocks are not one, are cut.
func (l *Lane) Was(name string, number, begin, end int64) {
	if l == nil {
		return
	}
	l.told.Lock()
	defer l.told.Unlock()
	l.apart = true
	l.add(event{name: name, value: number, start: begin, length: max(0, end-begin)})
}

type key struct{}

// With returns a context that has the lane; ctx itself for nil.
func With(ctx context.Context, l *Lane) context.Context {
	if l == nil {
		return ctx
	}
	return context.WithValue(ctx, key{}, l)
}

// Of returns the lane of a context; nil for none.
func Of(ctx context.Context) *Lane {
	l, _ := ctx.Value(key{}).(*Lane)
	return l
}

// process is a variable for tests only.
var process = os.Getpid
