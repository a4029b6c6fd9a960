// Package guard has libraries that parse hostile tables take their memory from the ledger, and makes errors of their
// panics.
package guard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/pinned"
)

// ErrFormat is returned for bytes that are not a table of the kind that they begin as.
var ErrFormat = errors.New("not a table, or a damaged one")

// ErrUnread is returned for what is written in a way that is not read.
var ErrUnread = errors.New("written in a way that is not read")

// Allocator gives the memory that a library asks for, out of a ledger. A library that asks for too much panics, which
// Call makes an error of.
type Allocator struct {
	memory.GoAllocator
	ledger *pinned.Ledger
	most   int64 // at a time
	held   int64
	Err    error // why memory was refused
}

// refused is the panic of an allocator.
type refused struct{ err error }

// Allocate returns bytes at a multiple of 64, of which the capacity is the length.
func (a *Allocator) Allocate(n int) []byte {
	if n < 0 || int64(n) > a.most-a.held {
		a.Err = fmt.Errorf("%w: it asks for %d bytes, which a file of its size does not hold", ErrFormat, n)
		panic(refused{a.Err})
	}
	if a.Err = a.ledger.Take(pinned.Sources, int64(n)); a.Err != nil {
		panic(refused{a.Err})
	}
	a.held += int64(n)
	return a.GoAllocator.Allocate(n)
}

// Reallocate returns bytes that begin with those of b.
func (a *Allocator) Reallocate(n int, b []byte) []byte {
	if n == cap(b) {
		return b[:n]
	}
	c := a.Allocate(n)
	copy(c, b)
	a.Free(b)
	return c
}

// Free gives back what Allocate returned.
func (a *Allocator) Free(b []byte) {
	n := min(int64(cap(b)), a.held)
	a.held -= n
	a.ledger.Give(pinned.Sources, n)
}

// Close gives back what the library has kept.
func (a *Allocator) Close() {
	a.ledger.Give(pinned.Sources, a.held)
	a.held = 0
}

// NewAllocator returns one for a file of size bytes.
func NewAllocator(b *source.Budget, size int64) *Allocator {
	return &Allocator{ledger: b.Ledger(), most: max(64<<20, min(size, 1<<40)*256)}
}

// errParts is the error of a table that is damaged where nobody looks.
var errParts = fmt.Errorf("%w: its parts do not fit together", ErrFormat)

// Damaged is the error of a library that reads a table. Some of a panic within it have the panic's text.
func Damaged(err error) error {
	if strings.Contains(err.Error(), "runtime error") {
		return errParts
	}
	return fmt.Errorf("%w: %w", ErrFormat, err)
}

// Call calls f, and makes an error of a panic: the libraries panic where a table is damaged.
func Call(f func() error) (err error) {
	defer func() {
		switch x := recover().(type) {
		case nil:
		case refused:
			err = x.err
		case runtime.Error: // whose text is of programs, not of files
			err = errParts
		default:
			err = fmt.Errorf("%w: %.200s", ErrFormat, fmt.Sprint(x))
		}
	}()
	return f()
}

// LengthAt returns the length that stands at a place; -1 where nothing does.
func LengthAt(raw *source.Raw, at int64) int64 {
	var b [4]byte
	if n, _ := raw.ReadAt(b[:], at); n < len(b) {
		return -1
	}
	return int64(binary.LittleEndian.Uint32(b[:]))
}
