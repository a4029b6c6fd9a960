package main

import (
	"fmt"
	"math"
	"strconv"

	"github.com/dustin/go-humanize"
)

// byteSize is a size on the command line: 4GB, 1.5GiB, 500MB or a number of bytes.
type byteSize int64

// UnmarshalText reads a size.
func (b *byteSize) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(string(text))
	if err != nil || n > math.MaxInt64 {
		return fmt.Errorf("%q is not a size such as 4GB, 1.5GiB or 500MB", text)
	}
	*b = byteSize(n)
	return nil
}

// positive is a number from 1 to 2^31 - 1.
type positive int

// UnmarshalText reads the number.
func (p *positive) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a number from 1 to %d", text, math.MaxInt32)
	}
	*p = positive(n)
	return nil
}
