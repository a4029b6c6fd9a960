// Package disk has the types in which loading from a disk reports its results: the speed of a disk (Probe), counts of
// reads (Counts, PageCounts), which rows a cache holds (Policy), and where reading failed (ReadError). Package loader
// reads the columns and describes how.
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

// Counts are the totals of plans.
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

// Add adds the totals of other plans.
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

// Less returns c minus d.
func (c *Counts) Less(d *Counts) Counts {
	less := d.Times(-1)
	less.Add(*c)
	return less
}

// PageCounts counts the requests of Pages.
type PageCounts struct {
	Wanted   int64 `json:"wanted"`   // asks for a page
	Read     int64 `json:"read"`     // pages that were read, from the disk or the system's cache
	Requests int64 `json:"requests"` // that read them
	Bytes    int64 `json:"bytes"`    // that these read
}

// Less returns the counts since before.
func (c PageCounts) Less(before *PageCounts) PageCounts {
	return PageCounts{c.Wanted - before.Wanted, c.Read - before.Read, c.Requests - before.Requests,
		c.Bytes - before.Bytes}
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
	// Static holds the rows that earlier batches needed most.
	Static Policy = iota
	// LRU holds the rows that were needed last.
	LRU
	// Sieve is the policy of Y. Zhang et al., "SIEVE is simpler than LRU", NSDI 2024, which GraphBolt uses.
	Sieve
	// Ahead is the policy of a Planner.
	Ahead
	// Optimum is the policy of a Planner that knows all future batches, and reads no rows for later ones: the fewest
	// rows possible.
	Optimum
	// Packed is Ahead with rows packed that the cache has no room for.
	Packed
)

var policies = []string{"static", "lru", "sieve", "look-ahead", "optimum", "packed"}

// Policies returns all policies but Packed.
func Policies() []Policy { return []Policy{Static, LRU, Sieve, Ahead, Optimum} }

// String returns the policy's name.
func (p Policy) String() string { return enum.Name(policies, p) }

// MarshalText returns the name.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// Shape is the shape of requests to a disk.
type Shape struct {
	Page int64 `json:"page"` // reading a part of a page costs as much as reading the page
	Gap  int64 `json:"gap"`  // gaps of up to this number of bytes are read rather than begin another request
	Most int64 `json:"most"` // the most bytes of a request; a multiple of Page
	// Requests begin and end at multiples of Sector, a part of Page if the system allows it.
	Sector int64 `json:"sector"`
}

// Probe is the measured speed of a disk, by trial with a file.
type Probe struct {
	Engine string `json:"engine"` // "io_uring", "threads", or "remote" for rows of another machine
	// Refused is why the engine is not io_uring, and Buffered why reads go through the page cache; empty if they do
	// not.
	Refused  string `json:"refused,omitempty"`
	Buffered string `json:"buffered,omitempty"`
	Depth    int    `json:"depth"`
	Shape
	// Small is the number of requests of one Page in a second, Large the bytes in a second by requests of Most bytes.
	// 0: not tried.
	Small float64 `json:"small_per_second"`
	Large float64 `json:"large_bytes_per_second"`
}

// Seconds returns about how long the disk takes for a number of requests, with this number of bytes in all.
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
