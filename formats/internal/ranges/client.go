package ranges

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/khop-gnn/khop/formats/internal/address"
	"github.com/khop-gnn/khop/internal/patience"
	"github.com/khop-gnn/khop/internal/underway"
)

// How objects are read, unless a Client says otherwise.
const (
	RangeBytes = 8 << 20 // of one request
	InFlight   = 8       // requests at a time

	attempts  = 6
	mostPause = 20 * time.Second
	head      = 60 * time.Second // for the answer to begin
)

// pieceBytes is how much of a request's answer is in memory before it is handed on.
const pieceBytes = 256 << 10

var pieces = sync.Pool{New: func() any { b := make([]byte, pieceBytes); return &b }}

// What went wrong, for errors.Is; beside these fs.ErrNotExist and fs.ErrPermission.
var (
	ErrChanged = errors.New("the object has changed since it was opened")
	ErrStalled = errors.New("no byte has come")
	ErrStore   = errors.New("the store has failed")
)

// Client asks stores. It is safe for concurrent use. New makes one; tests set its fields before the first request.
type Client struct {
	HTTP     *http.Client
	Attempts int           // of a request that brings nothing
	Pause    time.Duration // before the second attempt; it doubles
	Stall    time.Duration // for which an answer may bring no byte

	flight chan struct{} // one for each request under way
	s3     *s3
	hub    hub
}

// transport is shared, so that connections are.
var transport = sync.OnceValue(func() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost, t.ReadBufferSize, t.ResponseHeaderTimeout = InFlight, 32<<10, head
	t.DisableCompression = true
	t.ForceAttemptHTTP2 = false // one connection a range: HTTP/2 would put all on one
	t.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	return t
})

// New returns a client that takes settings and credentials from the environment.
func New() *Client {
	return &Client{HTTP: &http.Client{Transport: transport(), CheckRedirect: follow}, Attempts: attempts,
		Pause: patience.FirstPause, Stall: patience.Stall,
		flight: make(chan struct{}, InFlight), s3: newS3(), hub: newHub()}
}

// follow lets a redirect go on without what tells who asks, once it has led to another host: Go drops some headers of
// its own accord, and knows none of S3's. A host that was left gets nothing back.
func follow(r *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return errors.New("stopped after 10 redirects")
	}
	for _, before := range via {
		if before.URL.Host != r.URL.Host || before.URL.Scheme != r.URL.Scheme {
			maps.DeleteFunc(r.Header, func(name string, _ []string) bool {
				return name == "Authorization" || name == "Cookie" || strings.HasPrefix(name, "X-Amz-")
			})
		}
	}
	return nil
}

// request is what is asked of a store.
type request struct {
	method string
	at     address.Location
	query  url.Values
	header http.Header
	body   *io.SectionReader // nil: none
}

// attach has a request send the body from where it lies, and returns its checksum.
func (q *request) attach(r *http.Request) (sum string, err error) {
	h, n := sha256.New(), int64(0)
	if q.body != nil {
		again := func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(q.body, 0, n)), nil }
		if n, err = io.Copy(h, io.NewSectionReader(q.body, 0, q.body.Size())); err == nil && n < q.body.Size() {
			err = io.ErrUnexpectedEOF
		}
		if n > 0 {
			r.ContentLength, r.GetBody = n, again
			r.Body, _ = again()
		}
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// send asks once, and returns an answer of a status below 300.
func (c *Client) send(ctx context.Context, q request) (*http.Response, error) {
	var sign func(*http.Request) error
	var address *url.URL
	var err error
	switch q.at.Scheme {
	case "s3", "gs":
		address, sign, err = c.s3.address(q.at)
	case "hf":
		address, sign, err = c.hub.address(q.at)
	default:
		address = &url.URL{Scheme: q.at.Scheme, Host: q.at.Host, Path: "/" + q.at.Path}
	}
	if err != nil {
		return nil, err
	}
	address.RawQuery = q.query.Encode()
	r, err := http.NewRequestWithContext(ctx, q.method, address.String(), nil)
	if err != nil {
		return nil, err
	}
	sum, err := q.attach(r)
	if err != nil {
		return nil, err
	}
	for k, v := range q.header {
		r.Header[k] = v
	}
	r.Header.Set("User-Agent", "khop")
	if q.at.Scheme == "s3" || q.at.Scheme == "gs" {
		r.Header.Set("X-Amz-Content-Sha256", sum)
	}
	if sign != nil {
		if err := sign(r); err != nil {
			return nil, err
		}
	}
	resp, err := c.HTTP.Do(r)
	if at := (*url.Error)(nil); errors.As(err, &at) { // its URL may be one that a store has signed
		err = at.Err
	}
	if err != nil {
		return nil, &transient{err: err}
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	if q.at.Scheme == "s3" && c.s3.elsewhere(q.at.Host, resp) {
		return nil, &transient{err: statusOf(resp)}
	}
	return nil, statusOf(resp)
}

// errBeyond is of a range behind the end: the object has fewer bytes than it had.
var errBeyond = fmt.Errorf("%w", ErrChanged)

// transient is an error that may not come again.
type transient struct {
	err   error
	pause time.Duration // that the store asks for
}

func (t *transient) Error() string { return t.err.Error() }
func (t *transient) Unwrap() error { return t.err }

// statusOf says what a store's refusal means.
func statusOf(r *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(r.Body, 4096))
	code := ""
	if _, rest, ok := strings.Cut(string(text), "<Code>"); ok {
		code, _, _ = strings.Cut(rest, "<")
	}
	if len(code) > 64 || strings.ContainsFunc(code, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9')
	}) {
		code = ""
	}
	said := strings.TrimSpace(fmt.Sprintf("%d %s %s", r.StatusCode, http.StatusText(r.StatusCode), code))
	switch s := r.StatusCode; {
	case s == http.StatusNotFound || s == http.StatusGone:
		return fmt.Errorf("%w (%s)", fs.ErrNotExist, said)
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		return fmt.Errorf("%w (%s): see that credentials are where the provider's own programs look for them",
			fs.ErrPermission, said)
	case s == http.StatusPreconditionFailed:
		return fmt.Errorf("%w (%s)", ErrChanged, said)
	case s == http.StatusRequestedRangeNotSatisfiable:
		return fmt.Errorf("%w (%s)", errBeyond, said)
	case s == http.StatusRequestTimeout || s == http.StatusTooManyRequests || s >= 500 && s != 501 && s != 505 ||
		code == "RequestTimeout" || code == "SlowDown" || code == "ConditionalRequestConflict":
		seconds, _ := strconv.Atoi(r.Header.Get("Retry-After"))
		return &transient{fmt.Errorf("%w: it answers %s", ErrStore, said), time.Duration(max(seconds, 0)) * time.Second}
	}
	return fmt.Errorf("%w: it answers %s", ErrStore, said)
}

// keepTrying calls once until it succeeds, fails for good, or has failed so often that brought was the same.
func (c *Client) keepTrying(ctx context.Context, what string, at address.Location, once func() error,
	brought func() int) error {
	defer underway.Waits(at.String())()
	for failures, before := 0, 0; ; {
		err := once()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		again := (*transient)(nil)
		if now := brought(); now > before {
			failures, before = 0, now
		}
		if failures++; !errors.As(err, &again) || failures >= c.Attempts {
			if failures > 1 {
				err = fmt.Errorf("%w (%d attempts)", err, failures)
			}
			return &fs.PathError{Op: what, Path: at.String(), Err: err}
		}
		if err := pause(ctx, c.pauseBefore(failures, again)); err != nil {
			return err
		}
	}
}

// pauseBefore returns how long to wait after a number of failures: twice as long each time, and not in step with
// others.
func (c *Client) pauseBefore(failures int, why *transient) time.Duration {
	d := c.Pause << (failures - 1)
	d += time.Duration(rand.Int64N(int64(d/2) + 1))
	return min(max(d, why.pause), max(mostPause, c.Pause))
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// enter waits for a place among the requests under way.
func (c *Client) enter(ctx context.Context) (leave func(), err error) {
	select {
	case c.flight <- struct{}{}:
		return func() { <-c.flight }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// watched reads an answer, and ends the request where no byte comes for a while.
type watched struct {
	body  io.Reader
	stall time.Duration
	timer *time.Timer
	end   context.CancelCauseFunc
	why   error // that reading has failed for
	got   int64
}

func newWatched(body io.Reader, d time.Duration, end context.CancelCauseFunc) *watched {
	return &watched{body: body, stall: d, timer: time.AfterFunc(d, func() { end(ErrStalled) }), end: end}
}

// Read reads.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.body.Read(p)
	if w.got += int64(n); n > 0 {
		w.timer.Reset(w.stall)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		w.why = err
	}
	return n, err
}

// explain returns why reading has ended early, as an error that may not come again.
func (w *watched) explain(ctx context.Context, err error, got, want int64) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrStalled) {
		return &transient{err: fmt.Errorf("%w for %v", ErrStalled, w.stall)}
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return &transient{err: fmt.Errorf("%w: the answer ends after %d of %d bytes", err, got, want)}
}
