package formats

import (
	"encoding/binary"
	"math"
	"sync"

	"github.com/khop-gnn/khop/formats/internal/arrayfile"
)

// ColumnWriter takes the elements of one array, in order, as little-endian bytes, in pieces of any length, in constant
// memory. One goroutine at a time may use it; different column writers are independent.
type ColumnWriter struct {
	w  *Writer
	a  *written
	to *arrayfile.Writer
	up *ascent // of times of nodes
}

// Annotate sets further facts of the column for the manifest, before Close: the scale that a stored number is
// multiplied by, and the fill, which marks absent values. NaN means none.
func (c *ColumnWriter) Annotate(scale, fill float64) {
	c.a.info.Scale, c.a.info.Fill = optional(scale), optional(fill)
}

func optional(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// AtMost says that the announced number of rows is a bound: Close accepts fewer. Call it before the first Write.
func (c *ColumnWriter) AtMost() { c.to.AtMost() }

// Write takes the next bytes of the array; p is not kept. An error is final: later calls return it again.
func (c *ColumnWriter) Write(p []byte) (int, error) {
	if c.up != nil {
		_, _ = c.up.Write(p) // it cannot fail
	}
	return c.to.Write(p)
}

// Close completes the file and waits until it is on the disk. Missing bytes are an error. Later calls return
// the first result.
func (c *ColumnWriter) Close() error {
	c.a.info.Ascending = c.up != nil && !c.up.fell
	return c.w.end(c.a, c.to)
}

// ascent sees whether int64 elements, in pieces of any length, descend nowhere.
type ascent struct {
	arrayfile.WholeRows
	last int64
	fell bool
}

func newAscent() *ascent {
	u := &ascent{last: math.MinInt64}
	u.Row, u.Take = 8, func(rows []byte) error {
		for ; len(rows) > 0 && !u.fell; rows = rows[8:] {
			v := int64(binary.LittleEndian.Uint64(rows))
			u.fell, u.last = v < u.last, v
		}
		return nil
	}
	return u
}

// StringWriter takes a list of strings, in order, in constant memory. One goroutine at a time may use it.
type StringWriter struct {
	w  *Writer
	a  *written
	to *arrayfile.StringWriter
}

// Write takes the next string. It must be UTF-8. An error is final: later calls return it again.
func (s *StringWriter) Write(v string) error { return s.to.Write(v) }

// Close completes the file and waits until it is on the disk. Missing strings are an error. Later calls return
// the first result.
func (s *StringWriter) Close() error { return s.w.end(s.a, s.to) }

// end closes a file and notes what was written.
func (w *Writer) end(a *written, to interface {
	Close() (*arrayfile.Written, error)
}) error {
	done, err := to.Close()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a.part = Part{Path: a.part.Path, Rows: done.Rows, FileBytes: done.FileBytes, BodyOffset: done.BodyOffset,
		Bytes: done.Bytes, HeadXXH3: formatHash(done.Head), ChunkXXH3: newSums(done.Chunks)}
	a.closed = true
	return nil
}

// progressMeter counts bytes over all column writers.
type progressMeter struct {
	mu    sync.Mutex
	f     Progress
	stage string
	done  int64
	total int64
	told  int64
}

const progressStep = 16 << 20

func (p *progressMeter) add(n int64) {
	if p.f == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	if p.done-p.told >= progressStep {
		p.told = p.done
		p.f(p.stage, p.done, p.total)
	}
}

func (p *progressMeter) finish() {
	if p.f == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.f(p.stage, p.done, p.done)
}
