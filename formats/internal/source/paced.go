package source

import (
	"context"
	"fmt"
	"io"
)

// MaxRecord is the most bytes that a record of a text may have: a line, a row, a value.
const MaxRecord = 1 << 20

// Paced reads from r, and fails where more than MaxRecord bytes are read without Next in between: parsers of other
// packages keep a record in memory, however long it is.
type Paced struct {
	ctx  context.Context // ends the reading
	r    io.Reader
	left int64
}

// NewPaced returns a reader of r, at its first record. Once ctx is done reading fails with context.Cause(ctx).
func NewPaced(ctx context.Context, r io.Reader) *Paced { return &Paced{ctx, r, MaxRecord} }

// Next says that a record has been read.
func (p *Paced) Next() { p.left = MaxRecord }

// Read implements io.Reader.
func (p *Paced) Read(b []byte) (int, error) {
	if p.ctx.Err() != nil {
		return 0, context.Cause(p.ctx)
	}
	if p.left <= 0 {
		return 0, fmt.Errorf("a record is longer than %d bytes", MaxRecord)
	}
	n, err := p.r.Read(b[:min(int64(len(b)), p.left)])
	p.left -= int64(n)
	return n, err
}

// Counting counts the bytes that are read of R.
type Counting struct {
	R io.Reader
	N int64
}

// Read reads.
func (c *Counting) Read(p []byte) (int, error) {
	n, err := c.R.Read(p)
	c.N += int64(n)
	return n, err
}
