package ranges

import (
	"context"
	"io"
)

// Span is some bytes of an object.
type Span struct{ At, Bytes int64 }

// Spans hands on spans of an object, in their order.
type Spans interface {
	// Next returns the bytes of the next span, which are valid until the next call; io.EOF behind the last.
	Next() ([]byte, error)
	// Close ends what is under way.
	Close()
}

// Cut divides an object of this number of bytes into spans of RangeBytes.
func Cut(size int64) (list []Span) {
	for at := int64(0); at < size; at += RangeBytes {
		list = append(list, Span{at, min(RangeBytes, size-at)})
	}
	return list
}

// spansAhead is how many spans are under way.
const spansAhead = 4

// ahead is spans of which some are under way before they are asked for.
type ahead struct {
	o    *Object
	ctx  context.Context
	end  context.CancelFunc
	left []Span
	ways []chan arrived // those under way
	last *[]byte        // of the span that was returned
}

// arrived is what came of a span.
type arrived struct {
	buf *[]byte
	n   int64
	err error
}

// Ahead returns spans of the object, of which four are read at a time. The caller closes them.
func (o *Object) Ahead(ctx context.Context, list []Span) Spans {
	a := &ahead{o: o, left: list}
	a.ctx, a.end = context.WithCancel(ctx)
	return a
}

// Next implements Spans.
func (a *ahead) Next() ([]byte, error) {
	a.giveBack()
	for len(a.left) > 0 && len(a.ways) < spansAhead {
		way, span := make(chan arrived, 1), a.left[0]
		a.ways, a.left = append(a.ways, way), a.left[1:]
		go func() {
			buf := a.o.c.buffers.Get().(*[]byte)
			if span.Bytes > int64(len(*buf)) {
				more := make([]byte, span.Bytes)
				buf = &more
			}
			way <- arrived{buf, span.Bytes, a.o.ReadAt(a.ctx, (*buf)[:span.Bytes], span.At)}
		}()
	}
	if len(a.ways) == 0 {
		return nil, io.EOF
	}
	got := <-a.ways[0]
	a.ways, a.last = a.ways[1:], got.buf
	return (*got.buf)[:got.n], got.err
}

func (a *ahead) giveBack() {
	if a.last != nil {
		a.o.c.buffers.Put(a.last)
		a.last = nil
	}
}

// Close implements Spans.
func (a *ahead) Close() {
	a.end()
	a.giveBack()
	for _, way := range a.ways {
		a.o.c.buffers.Put((<-way).buf)
	}
	a.ways, a.left = nil, nil
}
