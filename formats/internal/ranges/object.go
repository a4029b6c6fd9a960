package ranges

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/khop-gnn/khop/formats/internal/address"
)

// Object is an object of a store, of one version. It is safe for concurrent use.
type Object struct {
	c  *Client
	at address.Location

	mu       sync.Mutex
	size     int64
	etag     string // strong
	modified string
	pinned   address.Location // of the hub: with the revision that answered
}

// Object returns the object at an address, which nobody is asked for yet. size is -1 where it is not known.
func (c *Client) Object(at address.Location, size int64) *Object {
	return &Object{c: c, at: at, size: size, pinned: at}
}

// Expect pins the version of the object that listing its folder has told, where that is an ETag.
func (o *Object) Expect(version string) *Object {
	if strings.HasPrefix(version, `"`) && o.at.Scheme != "hf" {
		o.etag = version
	}
	return o
}

// At returns the object's address.
func (o *Object) At() address.Location { return o.at }

// Size returns the bytes that it has; -1 where nobody has said it yet.
func (o *Object) Size() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.size
}

// Version tells contents apart; "" where the store does not say it, or has not been asked.
func (o *Object) Version() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.etag != "" {
		return o.etag
	}
	return o.modified
}

// Stat asks for size and version.
func (o *Object) Stat(ctx context.Context) error {
	_, err := o.begin(ctx, make([]byte, 1))
	return err
}

// ReadAll returns all bytes, of which there must be at most so many.
func (o *Object) ReadAll(ctx context.Context, most int64) ([]byte, error) {
	first := make([]byte, min(most, 256<<10))
	n, err := o.begin(ctx, first)
	if err != nil {
		return nil, err
	}
	size := o.Size()
	if size > most {
		return nil, fmt.Errorf("%s: it has %d bytes, %d are the most", o.at, size, most)
	}
	all := append(make([]byte, 0, size), first[:n]...)[:size]
	return all, o.ReadAt(ctx, all[n:], int64(n))
}

// begin reads the first bytes of an object whose size is not known.
func (o *Object) begin(ctx context.Context, p []byte) (n int, err error) {
	err = o.c.keepTrying(ctx, "read", o.at, func() error {
		n = 0
		_, err := o.once(ctx, 0, int64(len(p)), true, into(p, &n))
		return err
	}, func() int { return 0 })
	return n, err
}

// ReadAt fills p from an offset, or returns an error.
func (o *Object) ReadAt(ctx context.Context, p []byte, off int64) error {
	if len(p) == 0 {
		return nil
	}
	got := 0
	return o.c.keepTrying(ctx, "read", o.at, func() error {
		_, err := o.once(ctx, off+int64(got), int64(len(p)-got), false, into(p, &got))
		return err
	}, func() int { return got })
}

// into returns what reads an answer into memory, and counts it.
func into(p []byte, got *int) func(io.Reader, int64) (int64, error) {
	return func(body io.Reader, n int64) (int64, error) {
		k, err := io.ReadFull(body, p[*got:int64(*got)+n])
		*got += k
		return int64(k), err
	}
}

// Fetch reads n bytes from an offset and hands them on as they come, in pieces, by several goroutines at a time. An
// error of take ends it.
func (o *Object) Fetch(ctx context.Context, off, n int64, take func(p []byte, at int64) error) error {
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(InFlight)
	for at := off; at < off+n && inner.Err() == nil; at += RangeBytes {
		g.Go(func() error {
			return o.hand(inner, at, min(RangeBytes, off+n-at), take)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// hand reads n bytes from an offset, and hands them on in pieces.
func (o *Object) hand(ctx context.Context, off, n int64, take func(p []byte, at int64) error) error {
	got, failed := int64(0), error(nil)
	err := o.c.keepTrying(ctx, "read", o.at, func() error {
		_, err := o.once(ctx, off+got, n-got, false, func(body io.Reader, n int64) (k int64, err error) {
			b := pieces.Get().(*[]byte)
			defer pieces.Put(b)
			for k < n && err == nil && failed == nil {
				var m int
				m, err = io.ReadFull(body, (*b)[:min(pieceBytes, n-k)])
				failed = take((*b)[:m], off+got)
				got, k = got+int64(m), k+int64(m)
			}
			return k, err
		})
		if failed != nil {
			return nil
		}
		return err
	}, func() int { return int(got) })
	return cmp.Or(failed, err)
}

// once asks for a range, and has what comes of it read. short says that the object may end before the range does.
func (o *Object) once(ctx context.Context, off, n int64, short bool,
	read func(body io.Reader, n int64) (int64, error)) (got int64, err error) {
	leave, err := o.c.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	at, header := o.conditions()
	header.Set("Range", fmt.Sprintf("bytes=%d-%d", off, off+n-1))
	header.Set("Accept-Encoding", "identity")
	resp, err := o.c.send(ctx, request{method: http.MethodGet, at: at, header: header})
	if short && off == 0 && errors.Is(err, errBeyond) { // an empty object has no first byte
		header.Del("Range")
		resp, err = o.c.send(ctx, request{method: http.MethodGet, at: at, header: header})
	}
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	want, err := o.accept(resp, off, n, short)
	if err != nil {
		return 0, err
	}
	w := newWatched(resp.Body, o.c.Stall, end)
	defer w.timer.Stop()
	if got, err = read(w, want); got < want {
		return got, w.explain(ctx, err, got, want)
	}
	return got, nil
}

// conditions returns where to ask, and for which version.
func (o *Object) conditions() (address.Location, http.Header) {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := http.Header{}
	switch {
	case o.pinned != o.at: // a revision never changes
	case o.etag != "":
		h.Set("If-Match", o.etag)
	case o.modified != "":
		h.Set("If-Unmodified-Since", o.modified)
	}
	return o.pinned, h
}

// accept looks whether an answer is the range that was asked for, of the version that was, and pins that.
func (o *Object) accept(r *http.Response, off, n int64, short bool) (want int64, err error) {
	first, total := int64(0), r.ContentLength
	if r.StatusCode == http.StatusPartialContent {
		if first, total, err = contentRange(r.Header.Get("Content-Range")); err != nil {
			return 0, err
		}
	}
	switch {
	case r.StatusCode != http.StatusPartialContent && (off > 0 || !short && total != n):
		return 0, fmt.Errorf("%w: it answers a range of bytes with the whole object: it must know ranges", ErrStore)
	case first != off:
		return 0, &transient{err: fmt.Errorf("%w: it answers from byte %d on, not from %d", ErrStore, first, off)}
	case total < 0:
		return 0, fmt.Errorf("%w: it does not say how long the object is", ErrStore)
	}
	if err := o.pin(r, total); err != nil {
		return 0, err
	}
	if off+n > total && !short {
		return 0, fmt.Errorf("%w: it has %d bytes, of which %d to %d were asked for", ErrChanged, total, off, off+n)
	}
	return min(n, total-off), nil
}

// pin compares an answer with the version that is read, or makes it that.
func (o *Object) pin(r *http.Response, size int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	etag, modified := r.Header.Get("ETag"), r.Header.Get("Last-Modified")
	if strings.HasPrefix(etag, "W/") {
		etag = ""
	}
	switch {
	case o.size >= 0 && size != o.size:
		return fmt.Errorf("%w: it has %d bytes, %d were expected", ErrChanged, size, o.size)
	case o.etag != "" && etag != o.etag:
		return &transient{err: fmt.Errorf("%w: its ETag is another one", ErrChanged)} // perhaps of one server alone
	case o.etag == "" && o.modified != "" && modified != o.modified:
		return &transient{err: fmt.Errorf("%w: it is of another time", ErrChanged)}
	}
	o.size, o.etag, o.modified = size, etag, modified
	if o.at.Scheme == "hf" {
		o.pinned = pinRevision(o.at, r)
	}
	return nil
}

// contentRange reads "bytes 0-9/100".
func contentRange(text string) (first, total int64, err error) {
	span, size, _ := strings.Cut(strings.TrimPrefix(text, "bytes "), "/")
	from, _, _ := strings.Cut(span, "-")
	first, err1 := strconv.ParseInt(from, 10, 64)
	total, err2 := strconv.ParseInt(size, 10, 64)
	if errors.Join(err1, err2) != nil || first < 0 || total < first {
		return 0, 0, fmt.Errorf("%w: it answers with the range %.60q", ErrStore, text)
	}
	return first, total, nil
}
