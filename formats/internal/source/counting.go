package source

import "io"

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
