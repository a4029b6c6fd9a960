package main

import (
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strconv"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
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

// forData returns what a limit of the process leaves beside what the program itself takes; 0 for none.
func (b byteSize) forData() (int64, error) {
	if b > 0 && b <= machine.Own {
		return 0, option.Errorf(nil, loader.Options{}, "MaxMemory",
			" is %s, and the program itself takes up to %s; allow at least %s: %w", machine.Bytes(int64(b)),
			machine.Bytes(machine.Own), machine.Bytes(5*machine.Own/4), pinned.ErrLimit)
	}
	return max(int64(b)-machine.Own, 0), nil
}

// limitHeap makes the Go runtime collect garbage before its memory exceeds what the limit on data leaves to it; where
// that is tight, also before garbage is a tenth of what is in use, because the runtime does not see what is taken
// outside its heap. What the user has set of the runtime (GOMEMLIMIT, GOGC) stays.
func limitHeap(data int64, tight bool) {
	if data > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(min(data, math.MaxInt64-machine.Own) + machine.Own)
	}
	if data > 0 && tight && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(10)
	}
}

// keepHeap returns a function that undoes what limitHeap sets.
func keepHeap() (undo func()) {
	limit, percent := debug.SetMemoryLimit(-1), debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	return func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	}
}
