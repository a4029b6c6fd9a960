package ranges

import (
	"cmp"
	"context"
	"io"
	"math"

	"github.com/khop-gnn/khop/internal/heap"
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

// spansAhead is how many spans are under way: fewer where memory is limited, of which they take an eighth at most.
const spansAhead = 4

// ahead is spans of which some are under way before they are asked for.
type ahead struct {
	o    *Object
	ctx  context.Context
	end  context.CancelFunc
	left []Span
	ways []chan arrived // those under way
	free [][]byte       // memory of spans that were returned
	last []byte         // of the span that was returned
	most int64          // bytes under way
	now  int64
}

// arrived is what came of a span.
type arrived struct {
	buf []byte
	err error
}

// Ahead returns spans of the object, of which four are read at a time. The caller closes them.
func (o *Object) Ahead(ctx context.Context, list []Span) Spans {
	a := &ahead{o: o, left: list, most: cmp.Or(heap.Limit()/8, math.MaxInt64)}
	a.ctx, a.end = context.WithCancel(ctx)
	return a
}

// Next implements Spans.
func (a *ahead) Next() ([]byte, error) {
	if a.last != nil {
		a.free, a.last = append(a.free, a.last), nil
	}
	for len(a.left) > 0 && (len(a.ways) == 0 || len(a.ways) < spansAhead && a.now+a.left[0].Bytes <= a.most) {
		way, span := make(chan arrived, 1), a.left[0]
		a.ways, a.left, a.now = append(a.ways, way), a.left[1:], a.now+span.Bytes
		buf := a.room(span.Bytes)
		go func() { way <- arrived{buf, a.o.ReadAt(a.ctx, buf, span.At)} }()
	}
	if len(a.ways) == 0 {
		return nil, io.EOF
	}
	got := <-a.ways[0]
	a.ways, a.last, a.now = a.ways[1:], got.buf, a.now-int64(len(got.buf))
	return got.buf, got.err
}

// room returns memory for a span.
func (a *ahead) room(n int64) []byte {
	if last := len(a.free) - 1; last >= 0 && int64(cap(a.free[last])) >= n {
		b := a.free[last][:n]
		a.free = a.free[:last]
		return b
	}
	a.free = nil // all are shorter, or most
	return make([]byte, n)
}

// Close implements Spans.
func (a *ahead) Close() {
	a.end()
	for _, way := range a.ways {
		<-way
	}
	a.ways, a.left, a.free, a.last = nil, nil, nil, nil
}
