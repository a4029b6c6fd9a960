// Package disk has what loading from a disk tells its callers: what a probe of the disk found (Probe), what was read
// (Counts, PageCounts), which rows a cache holds (Policy), and where reading failed (ReadError). Package loader reads
// the columns and says how.
package disk

import (
	"errors"
	"fmt"
	"io"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/internal/enum"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/pinned"
)

// Counts is what plans came to.
type Counts struct {
	Batches  int64 `json:"batches"`
	Rows     int64 `json:"rows"`     // asked for, each once a batch
	Misses   int64 `json:"misses"`   // of them, not in the cache
	Packed   int64 `json:"packed"`   // of these, packed
	Along    int64 `json:"along"`    // rows read for later batches, because they were on pages of others
	Requests int64 `json:"requests"` // to the disk
	Bytes    int64 `json:"bytes"`    // read from it
	Useful   int64 `json:"useful"`   // of these, bytes of rows that were read for a batch
	Writes   int64 `json:"writes"`   // requests that write packed rows
	Written  int64 `json:"written"`  // bytes of them
}

// fields are all of them.
func (c *Counts) fields() []*int64 {
	return []*int64{&c.Batches, &c.Rows, &c.Misses, &c.Packed, &c.Along, &c.Requests, &c.Bytes, &c.Useful, &c.Writes,
		&c.Written}
}

// Add adds what other plans came to.
func (c *Counts) Add(d Counts) {
	for i, n := range d.fields() {
		*c.fields()[i] += *n
	}
}

// Times returns n times c.
func (c Counts) Times(n int64) Counts {
	for _, f := range c.fields() {
		*f *= n
	}
	return c
}

// Less returns what c came to beyond d.
func (c *Counts) Less(d *Counts) Counts {
	less := d.Times(-1)
	less.Add(*c)
	return less
}

// PageCounts is what was asked of Pages.
type PageCounts struct {
	Wanted   int64 `json:"wanted"`   // asks for a page
	Read     int64 `json:"read"`     // pages that were read, from the disk or the system's cache
	Requests int64 `json:"requests"` // that read them
	Bytes    int64 `json:"bytes"`    // that these read
}

// Less returns what was asked for since.
func (c PageCounts) Less(before *PageCounts) PageCounts {
	return PageCounts{c.Wanted - before.Wanted, c.Read - before.Read, c.Requests - before.Requests,
		c.Bytes - before.Bytes}
}

// Half returns half of it.
func (c PageCounts) Half() PageCounts {
	return PageCounts{c.Wanted / 2, c.Read / 2, c.Requests / 2, c.Bytes / 2}
}

// PackState says how rows are packed.
type PackState struct {
	Bytes   int64  `json:"bytes"`             // of the temporary file, at most
	Chunk   int64  `json:"chunk_bytes"`       // of a request to it
	Refused string `json:"refused,omitempty"` // why no rows are packed any more; empty if they are
}

// ReadError is a pinned.ErrFault: a place of a file that could not be read.
type ReadError struct {
	Path   string
	Offset int64
	Cause  error // of the system; io.ErrUnexpectedEOF where the file is cut short
}

// Error returns "path: byte n: what is wrong".
func (e *ReadError) Error() string {
	what := "the disk could not read it: " + fmt.Sprint(e.Cause)
	if errors.Is(e.Cause, io.ErrUnexpectedEOF) {
		what = "the file was cut short"
	}
	return fmt.Sprintf("%s: byte %s: %s", paths.Text(e.Path), humanize.Comma(e.Offset), what)
}

// Unwrap returns pinned.ErrFault and the cause.
func (e *ReadError) Unwrap() []error { return []error{pinned.ErrFault, e.Cause} }

// Policy says which rows a cache holds.
type Policy uint8

const (
	// Static holds the rows that the batches before were asked for most.
	Static Policy = iota
	// LRU holds the rows that were asked for last.
	LRU
	// Sieve is that of Y. Zhang et al., "SIEVE is simpler than LRU", NSDI 2024, which GraphBolt caches by.
	Sieve
	// Ahead is a Planner's.
	Ahead
	// Optimum is a Planner's that knows all batches to come, and reads nothing along: the fewest rows that can be read.
	Optimum
	// Packed is Ahead with rows packed that the cache has no room for.
	Packed
)

var policies = []string{"static", "lru", "sieve", "look-ahead", "optimum", "packed"}

// Policies returns all of them but Packed.
func Policies() []Policy { return []Policy{Static, LRU, Sieve, Ahead, Optimum} }

// String returns the policy's name.
func (p Policy) String() string { return enum.Name(policies, p) }

// MarshalText returns the name.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// Shape is that of the requests to a disk.
type Shape struct {
	Page int64 `json:"page"` // what lies between multiples of it costs as much as any part of it
	Gap  int64 `json:"gap"`  // bytes that are read along rather than begin another request
	Most int64 `json:"most"` // the most bytes of one; a multiple of Page
	// Sector is what they begin and end at multiples of: a part of Page where the system allows it.
	Sector int64 `json:"sector"`
}

// Probe is what a disk gives, as tried with a file.
type Probe struct {
	Engine string `json:"engine"` // "io_uring", "threads", or "remote" for rows of another machine
	// Refused is why it is not io_uring, and Buffered why it is not read past the page cache; empty if it is.
	Refused  string `json:"refused,omitempty"`
	Buffered string `json:"buffered,omitempty"`
	Depth    int    `json:"depth"`
	Shape
	// Small is requests of one Page a second, Large bytes a second in requests of Most bytes. 0: not tried.
	Small float64 `json:"small_per_second"`
	Large float64 `json:"large_bytes_per_second"`
}

// Seconds returns about how long the disk takes for a number of requests, which have that many bytes together.
func (p *Probe) Seconds(requests, bytes int64) float64 {
	each, perByte := p.cost()
	return float64(requests)*each + float64(bytes)*perByte
}

// cost returns what the disk takes for a request, in seconds, and for each of its bytes.
func (p *Probe) cost() (each, perByte float64) {
	if p.Small <= 0 || p.Large <= 0 || p.Most <= p.Page {
		return 10e-6, 1e-9
	}
	small, large := 1/p.Small, float64(p.Most)/p.Large
	perByte = max(0, large-small) / float64(p.Most-p.Page)
	return max(small-float64(p.Page)*perByte, 0), perByte
}
