package diskio

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
)

// ReaderOptions are a Reader's. The zero value of every field is its default.
type ReaderOptions struct {
	// Depth is how many requests are under way at a time. Default: what a probe finds, 64 without.
	Depth int
	// Engine is "io_uring" or "threads"; default: the first of them that the system allows.
	Engine string
	// Shape is that of requests. Default: what a probe finds.
	Shape disk.Shape
	// Memory says how memory is taken and counted: Depth times Shape.Most bytes.
	Memory pinned.Options
	// Intercept, in tests, sees what each request came to, and returns what it is to have come to. It may wait.
	Intercept func(path string, offset int64, b []byte, n int, err error) (int, error)

	remote FetchRows // takes the place of files: see OpenRemote
}

// Reader reads files, many places at a time. It is safe for concurrent use. Close it after all of its Batches.
type Reader struct {
	opt     ReaderOptions
	limit   int64 // requests that are under way at a time; at most opt.Depth
	files   []*File
	probe   disk.Probe
	staging *pinned.Region
	engine  engine
	refused string // why it is not io_uring
	spare   func() // gives back threads of Go

	mu     sync.Mutex
	work   sync.Cond
	queue  []*transfer // that have requests which are not under way
	closed bool
	broken error         // why the engine has stopped before
	ended  chan struct{} // when the engine has stopped

	waiting atomic.Int64 // requests under way
}

// engine carries out requests, in goroutines of its own that end when the reader is closed.
type engine interface {
	// run carries out requests until the reader is closed and none is under way.
	run(r *Reader)
	// close frees what the engine took, after run.
	close() error
}

// transfer is the requests of a batch, and where what they read goes.
type transfer struct {
	file    *File
	layout  *Layout
	plan    *Plan
	rowAt   func(row uint32) []byte // the memory of a row of the batch, or of Along
	next    int                     // request to begin; Reader.mu guards it
	left    atomic.Int64            // requests that have not ended
	done    chan struct{}           // closed when left is 0, or there is an error
	mu      sync.RWMutex            // guards the following, and what rowAt returns
	ended   bool                    // nothing may be written any more
	err     error
	settled bool // done is closed
}

// finish ends the transfer; later requests are dropped.
func (t *transfer) finish(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.ended, t.err = true, err
	}
	if !t.settled {
		t.settled = true
		close(t.done)
	}
}

// request is one read that is under way.
type request struct {
	of     *transfer
	extent *extent
	buf    []byte
	got    int // bytes that are there
}

// need returns how many bytes the request is for.
func (q *request) need() int { return int(q.of.layout.needed(q.of.plan, q.extent)) }

// newReader returns a reader of files, which it closes. See Open.
func newReader(files []*File, opt ReaderOptions) (*Reader, error) {
	r := &Reader{opt: opt, files: files, ended: make(chan struct{})}
	r.work.L = &r.mu
	for i, f := range files {
		f.index = i
	}
	setDefault(&r.opt.Depth, mostDepth)
	r.limit = int64(r.opt.Depth)
	setDefault(&r.opt.Shape.Page, pageOf(files))
	setDefault(&r.opt.Shape.Most, max(1<<16, r.opt.Shape.Page))
	setDefault(&r.opt.Shape.Sector, sectorOfAll(files))
	var err error
	r.staging, err = pinned.Allocate(int64(r.opt.Depth)*r.opt.Shape.Most, r.opt.Memory)
	if err != nil {
		return nil, errors.Join(err, closeFiles(files))
	}
	if opt.remote != nil {
		r.engine, r.limit = newLanes(opt.remote), math.MaxInt64
	} else if r.opt.Engine != "threads" {
		if r.engine, err = newRing(r); err != nil {
			r.refused = err.Error()
		}
	}
	if r.engine == nil {
		if r.opt.Engine == "io_uring" {
			return nil, errors.Join(err, closeFiles(files), r.staging.Close())
		}
		r.engine = &threads{}
	}
	r.spare = machine.Spare() // a disk has nothing to do while the engine waits for its turn
	go func() {
		defer close(r.ended)
		defer r.spare()
		r.engine.run(r)
	}()
	return r, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func pageOf(files []*File) int64 {
	page := int64(diskPage)
	for _, f := range files {
		page = max(page, f.page)
	}
	return page
}

func sectorOfAll(files []*File) (sector int64) {
	for _, f := range files {
		sector = max(sector, f.sector)
	}
	return sector
}

func closeFiles(files []*File) (err error) {
	for _, f := range files {
		err = errors.Join(err, f.close())
	}
	return err
}

// buffer returns the memory of the request numbered i.
func (r *Reader) buffer(i int) []byte {
	most := r.opt.Shape.Most
	return r.staging.Bytes()[int64(i)*most : int64(i+1)*most]
}

// start begins a transfer.
func (r *Reader) start(t *transfer) {
	t.left.Store(int64(len(t.plan.extents)))
	if len(t.plan.extents) == 0 {
		t.finish(nil)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		t.finish(ErrClosed)
		return
	}
	if r.broken != nil {
		t.finish(r.broken)
		return
	}
	r.queue = append(r.queue, t)
	r.work.Broadcast()
}

// pop returns the next request, if there is one. r.mu is held.
func (r *Reader) pop() (q request, ok bool) {
	for len(r.queue) > 0 && r.waiting.Load() < r.limit {
		t := r.queue[0]
		t.mu.RLock()
		ended := t.ended
		t.mu.RUnlock()
		if !ended { // some of its requests are left, so the plan is as it was
			q = request{of: t, extent: &t.plan.extents[t.next]}
			r.waiting.Add(1)
			t.next++
		}
		if ended || t.next == len(t.plan.extents) {
			r.queue[0] = nil
			r.queue = r.queue[1:]
		}
		if !ended {
			return q, true
		}
	}
	return request{}, false
}

// wait returns the next request, when there is one; false when the reader is closed.
func (r *Reader) wait() (q request, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if r.closed {
			return request{}, false
		}
		if q, ok := r.pop(); ok {
			return q, true
		}
		r.work.Wait()
	}
}

// complete takes what a request came to. It reports whether the rest must be read, too.
func (r *Reader) complete(q *request, n int, err error) (again bool) {
	file, at := q.of.file, q.extent.offset+int64(q.got)
	if r.opt.Intercept != nil {
		n, err = r.opt.Intercept(file.path, at, q.buf[q.got:q.extent.bytes], n, err)
	}
	if n > 0 {
		q.got += n
	}
	switch {
	case q.got >= q.need():
		err = nil
		q.deliver()
	case err == nil && n > 0 && (!file.direct || q.got%int(file.sector) == 0):
		return true
	case file.file == nil: // the error says what failed
	case err == nil || errors.Is(err, io.EOF):
		err = &disk.ReadError{Path: file.path, Offset: q.extent.offset + int64(q.got), Cause: io.ErrUnexpectedEOF}
	default:
		err = &disk.ReadError{Path: file.path, Offset: at, Cause: err}
	}
	r.waiting.Add(-1)
	if left := q.of.left.Add(-1); left == 0 || err != nil {
		q.of.finish(err)
	}
	return false
}

// deliver copies the rows of a request to where they belong.
func (q *request) deliver() {
	t := q.of
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.ended {
		return
	}
	for _, rows := range [2][]Read{t.plan.Reads[q.extent.first:q.extent.end],
		t.plan.Along[q.extent.along:q.extent.alongEnd]} {
		for _, row := range rows {
			begin, end := t.layout.place(row.Row)
			from, to := max(begin, q.extent.offset), min(end, q.extent.offset+q.extent.bytes)
			if from < to {
				copy(t.rowAt(row.To)[from-begin:], q.buf[from-q.extent.offset:to-q.extent.offset])
			}
		}
	}
}

// ErrClosed is the error of a batch whose Reader is closed.
var ErrClosed = errors.New("the reader of the disk is closed")

// StagingBytes is the memory of a Reader with default options.
const StagingBytes = mostDepth << 16

// mostDepth is how many requests are under way at a time, unless the probe finds that fewer do.
const mostDepth = 128

// closing is how long Close waits for a disk that does not answer.
const closing = 2 * time.Second

// Close ends all transfers. It waits for requests that are under way, but not long: where the disk does not answer,
// their memory is given back when it does.
func (r *Reader) Close() error {
	r.mu.Lock()
	again := r.closed
	r.closed = true
	for _, t := range r.queue {
		t.finish(ErrClosed)
	}
	r.queue = nil
	r.work.Broadcast()
	r.mu.Unlock()
	if e, ok := r.engine.(*lanes); ok {
		e.cancel()
	}
	if again {
		return nil
	}
	return freeAfter(r.ended, func() error {
		return errors.Join(r.engine.close(), closeFiles(r.files), r.staging.Close())
	})
}

// freeAfter frees what is used until a goroutine ends. It waits for that, but not long: else memory is given back when
// the disk answers.
func freeAfter(ended <-chan struct{}, free func() error) error {
	late := time.NewTimer(closing)
	defer late.Stop()
	select {
	case <-ended:
		return free()
	case <-late.C:
		go func() {
			<-ended
			_ = free()
		}()
		return nil
	}
}

// threads is the engine of systems without io_uring: as many threads as requests, each waiting for its own.
type threads struct{}

func (*threads) close() error { return nil }

func (*threads) run(r *Reader) {
	var all sync.WaitGroup
	for i := range r.opt.Depth {
		all.Add(1)
		go func() {
			defer all.Done()
			for {
				q, ok := r.wait()
				if !ok {
					return
				}
				q.buf = r.buffer(i)
				for more := true; more; {
					n, err := q.of.file.file.ReadAt(q.buf[q.got:q.extent.bytes], q.extent.offset+int64(q.got))
					if n > 0 && errors.Is(err, io.EOF) {
						err = nil
					}
					more = r.complete(&q, n, err)
				}
			}
		}()
	}
	all.Wait()
}

// wait waits until the transfer is done or the context ends; afterwards nothing is written.
func (t *transfer) wait(ctx context.Context) error {
	select {
	case <-t.done:
	case <-ctx.Done():
		t.finish(context.Cause(ctx))
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.err
}

// Fetch reads rows, ascending, of the column numbered i of those that the reader was opened with, one after another to
// memory of the caller. When the context ends nothing is written any more.
func (r *Reader) Fetch(ctx context.Context, i int, layout Layout, rows []int64, to []byte) error {
	plan := &Plan{Rows: len(rows)}
	for k, row := range rows {
		plan.Reads = append(plan.Reads, Read{uint32(row), uint32(k)})
	}
	layout.merge(plan)
	layout.trim(plan)
	t := &transfer{file: r.files[i], layout: &layout, plan: plan, done: make(chan struct{}),
		rowAt: func(k uint32) []byte { return to[int64(k)*layout.RowBytes : int64(k+1)*layout.RowBytes] }}
	r.start(t)
	return t.wait(ctx)
}
