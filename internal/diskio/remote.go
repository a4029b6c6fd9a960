package diskio

import (
	"context"
	"sync"

	"github.com/khop-gnn/khop/gather/disk"
)

// FetchRows brings rows of the column numbered i, one after another. When ctx ends it returns, and writes nothing more.
type FetchRows func(ctx context.Context, i int, rows []int64, to []byte) error

// What is under way between here and another machine: a message costs a millisecond, not the tenth of one that a disk
// takes, so that each has thousands of rows.
const (
	remoteLanes   = 8
	remoteMessage = StagingBytes / remoteLanes
)

// OpenRemote returns a Reader of columns that another machine has, which errors call name. Their bytes are not read.
func OpenRemote(fetch FetchRows, name string, columns []Mapped, opt ReaderOptions) (*Reader, []Layout, error) {
	opt.Depth, opt.Shape, opt.remote = remoteLanes, disk.Shape{Page: 1, Sector: 1, Most: remoteMessage}, fetch
	var files []*File
	var layouts []Layout
	for _, c := range columns {
		size := int64(len(c.Bytes))
		files = append(files, &File{path: name, size: size, page: 1, sector: 1})
		shape := opt.Shape
		shape.Most = max(1, shape.Most/c.RowBytes) * c.RowBytes // so that requests are of whole rows
		layouts = append(layouts, Layout{RowBytes: c.RowBytes, Rows: size / c.RowBytes, Shape: shape})
		opt.Shape.Most = max(opt.Shape.Most, shape.Most)
	}
	r, err := newReader(files, opt)
	if err != nil {
		return nil, nil, err
	}
	r.probe = r.describe()
	return r, layouts, nil
}

// lanes is the engine of rows from another machine: each lane asks for what a transfer wants, as far as its memory has
// room, and waits.
type lanes struct {
	fetch  FetchRows
	ctx    context.Context // ends with the reader
	cancel context.CancelFunc
}

func newLanes(fetch FetchRows) *lanes {
	e := &lanes{fetch: fetch}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

func (e *lanes) close() error { return nil }

func (e *lanes) run(r *Reader) {
	var all sync.WaitGroup
	for i := range r.opt.Depth {
		all.Go(func() {
			var some []request
			var rows []int64
			for {
				first, ok := r.wait()
				if !ok {
					return
				}
				some = r.rest(append(some[:0], first), r.opt.Shape.Most)
				rows = e.ask(r, some, rows[:0], r.buffer(i))
			}
		})
	}
	all.Wait()
}

// ask carries out requests of one transfer. It returns the list of rows, for its memory.
func (e *lanes) ask(r *Reader, some []request, rows []int64, to []byte) []int64 {
	size := some[0].of.layout.RowBytes
	for i := range some {
		for at := range some[i].extent.bytes / size {
			rows = append(rows, some[i].extent.offset/size+at)
		}
	}
	err := e.fetch(e.ctx, some[0].of.file.index, rows, to[:int64(len(rows))*size])
	for i := range some {
		q := &some[i]
		n := q.extent.bytes
		q.buf, to = to[:n], to[n:]
		if err != nil {
			n = 0
		}
		r.complete(q, int(n), err)
	}
	return rows
}

// rest adds to a request the next ones of its transfer, as long as all have at most room bytes together.
func (r *Reader) rest(some []request, room int64) []request {
	t := some[0].of
	room -= some[0].extent.bytes
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) > 0 && r.queue[0] == t && t.plan.extents[t.next].bytes <= room {
		e := &t.plan.extents[t.next]
		room -= e.bytes
		some = append(some, request{of: t, extent: e})
		r.waiting.Add(1)
		if t.next++; t.next == len(t.plan.extents) {
			r.queue[0] = nil
			r.queue = r.queue[1:]
		}
	}
	return some
}
