package tables

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"

	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// ErrFormat is returned for bytes that are not a table of the kind that they begin as.
var ErrFormat = errors.New("not a table, or a damaged one")

// field describes a column of a table.
type field struct {
	name    string
	text    bool
	dtype   unified.DType // of numbers
	list    bool
	width   int64  // elements of a row; 1 unless it is a list
	boolean bool   // the numbers are 0 and 1
	bad     string // why it cannot be stored; "": it can
	// unit is that of times, "d" for days; text that has one is dates, which are read as microseconds.
	unit string
	odd  oddCell // of text
	// doubt says that a column of a CSV is text for the sake of some cells; nil: it does not.
	doubt *doubt
	// exponents says that a dataset calls whole numbers of floats as "1e+06".
	exponents bool
	// wide is, of decimals of more digits than float64 tells apart, what they are multiplied by to be whole; 0: they
	// are others. hex says that bytes are spelt as hexadecimal numbers.
	wide float64
	hex  bool
	// gaps says that whole numbers of a CSV are missing: where they are stored as numbers, they are float64.
	gaps bool
	// bytes says of text that the file does not call it so: it may be anything. spell writes bytes as text; nil: they
	// are some.
	bytes bool
	spell func(to, value []byte) []byte
	// decimal reads a value as a number, of a decimal of Parquet; nil: not a decimal.
	decimal func(value []byte) float64
	// ragged says that lists are read as they are, of any length (vector.offsets), in place of being all as long.
	ragged bool
}

// spellUUID appends 16 bytes as UUIDs are written.
func spellUUID(to, value []byte) []byte {
	at := 0
	for _, end := range []int{4, 6, 8, 10} {
		to, at = append(hex.AppendEncode(to, value[at:end]), '-'), end
	}
	return hex.AppendEncode(to, value[at:])
}

// ofBytes makes the field one of bytes of fixed length, which are spelt as hexadecimal numbers.
func (f *field) ofBytes(uuid bool) {
	if f.text, f.spell, f.hex = true, hex.AppendEncode, true; uuid {
		f.spell, f.hex = spellUUID, false
	}
}

// oddCell is the first cell of a text that is no whole number, where all others but a tenth are.
type oddCell struct {
	cell string // "": there is none
	line int64
}

// doubt is what keeps a column of a CSV from being one of numbers or dates: this number of cells of so many.
type doubt struct {
	cells, of int64
	first     oddCell
}

// packed returns the type that the numbers of the field are laid side by side as.
func (f *field) packed() unified.DType {
	if f.gaps {
		return unified.Float64
	}
	return f.dtype
}

// packedData returns the numbers of a vector as that type.
func (f *field) packedData(v *vector) []byte {
	if !f.gaps {
		return v.data
	}
	data := source.Convert(nil, f.dtype, unified.Float64, v.data)
	for i, there := range v.valid {
		if !there {
			unified.Float64.Put(data[8*i:8*i+8], math.NaN())
		}
	}
	return data
}

// times reports whether the rows are times, where the column is stored under a name.
func (f *field) times(name string) bool {
	return f.unit != "" || graph.RoleOf(name) == graph.Time && !f.list
}

// stored returns the type that the numbers of the field are stored as, alone under a name, and the unit of times.
func (f *field) stored(name string) (unified.DType, string) {
	switch {
	case f.times(name) && f.text:
		return unified.Int64, "us"
	case f.times(name) && !f.dtype.IsFloat():
		return unified.Int64, f.unit
	}
	return f.dtype, f.unit
}

func (f *field) rowBytes() int64 { return f.dtype.Size() * f.width }

func (f *field) String() string {
	switch {
	case f.bad != "":
		return f.bad
	case f.text:
		return "text"
	case f.list:
		return fmt.Sprintf("lists of %d %v", f.width, f.dtype)
	}
	return f.dtype.String()
}

// vector is some consecutive rows of a column.
type vector struct {
	data  []byte   // of numbers: little-endian, a row behind the other
	texts [][]byte // of text
	valid []bool   // whether there is a value; nil: in every row
	// offsets are where the elements of each row begin in data or texts, and the end of the last; nil unless the lists
	// are ragged.
	offsets []int64
}

// textLists is why lists of text are not stored, unless they are read as ragged ones.
const textLists = "lists of text"

// elements returns what is in the rows of ragged lists, a row each, and their field.
func (v *vector) elements(f *field) (*vector, *field) {
	one := *f
	one.list, one.ragged, one.width = false, false, 1
	return &vector{data: v.data, texts: v.texts}, &one
}

func (v *vector) null(i int) bool { return v.valid != nil && !v.valid[i] }

// batch is some consecutive rows of a table. It is valid until the next.
type batch struct {
	rows    int
	columns []vector // those that were asked for
	path    string   // of the file
	row     int64    // of the first row in the file: from 0, or from 1 for lines of a text
	lines   []int64  // of texts: the line of each row
}

// at returns what messages call a row.
func (b *batch) at(i int) int64 {
	if b.lines != nil {
		return b.lines[i]
	}
	return b.row + int64(i)
}

// The bounds of a batch, and of a row.
const (
	batchRows  = 1 << 14
	batchBytes = 4 << 20
	maxWidth   = 1 << 24
	maxFields  = 1 << 14
)

// rowsOf returns how many rows a batch has, by the bytes of a row.
func rowsOf(rowBytes int64) int64 { return max(1, min(batchRows, batchBytes/max(rowBytes, 1))) }

// ints appends numbers as int64. NaN, which stands for a missing one, becomes -1, and so does what int64 cannot hold.
func ints(f *field, data []byte, to []int64) ([]int64, error) {
	size := f.dtype.Size()
	if f.dtype == unified.Int64 {
		for ; len(data) >= 8; data = data[8:] {
			to = append(to, int64(binary.LittleEndian.Uint64(data)))
		}
		return to, nil
	}
	if f.dtype == unified.Float32 || f.dtype == unified.Float64 {
		for i := 0; int64(len(data)) >= size; i, data = i+1, data[size:] {
			y := f.dtype.Float(data)
			switch {
			case math.IsNaN(y):
				to = append(to, -1)
			case y != math.Trunc(y) || math.Abs(y) >= 1<<62:
				return nil, &rowError{i, fmt.Errorf("%v is not a whole number", y)}
			default:
				to = append(to, int64(y))
			}
		}
		return to, nil
	}
	if f.dtype == unified.Float16 {
		return nil, errors.New("float16, where whole numbers are wanted")
	}
	for ; int64(len(data)) >= size; data = data[size:] {
		to = append(to, max(-1, f.dtype.Integer(data)))
	}
	return to, nil
}

// rowError is an error at a row of a batch.
type rowError struct {
	row int
	err error
}

func (e *rowError) Error() string { return e.err.Error() }
func (e *rowError) Unwrap() error { return e.err }

// allocator gives the memory that a library asks for, out of a ledger. A library that asks for too much panics, which
// guard makes an error of.
type allocator struct {
	memory.GoAllocator
	ledger *pinned.Ledger
	most   int64 // at a time
	held   int64
	err    error // why memory was refused
}

// refused is the panic of an allocator.
type refused struct{ err error }

// Allocate returns bytes at a multiple of 64, of which the capacity is the length.
func (a *allocator) Allocate(n int) []byte {
	if n < 0 || int64(n) > a.most-a.held {
		a.err = fmt.Errorf("%w: it asks for %d bytes, which a file of its size does not hold", ErrFormat, n)
		panic(refused{a.err})
	}
	if a.err = a.ledger.Take(pinned.Sources, int64(n)); a.err != nil {
		panic(refused{a.err})
	}
	a.held += int64(n)
	return a.GoAllocator.Allocate(n)
}

// Reallocate returns bytes that begin with those of b.
func (a *allocator) Reallocate(n int, b []byte) []byte {
	if n == cap(b) {
		return b[:n]
	}
	c := a.Allocate(n)
	copy(c, b)
	a.Free(b)
	return c
}

// Free gives back what Allocate returned.
func (a *allocator) Free(b []byte) {
	n := min(int64(cap(b)), a.held)
	a.held -= n
	a.ledger.Give(pinned.Sources, n)
}

// close gives back what the library has kept.
func (a *allocator) close() {
	a.ledger.Give(pinned.Sources, a.held)
	a.held = 0
}

// newAllocator returns one for a file of size bytes.
func newAllocator(b *source.Budget, size int64) *allocator {
	return &allocator{ledger: b.Ledger(), most: max(64<<20, min(size, 1<<40)*256)}
}

// errParts is the error of a table that is damaged where nobody looks.
var errParts = fmt.Errorf("%w: its parts do not fit together", ErrFormat)

// damaged is the error of a library that reads a table. Some of a panic within it have the panic's text.
func damaged(err error) error {
	if strings.Contains(err.Error(), "runtime error") {
		return errParts
	}
	return fmt.Errorf("%w: %w", ErrFormat, err)
}

// guard calls f, and makes an error of a panic: the libraries panic where a table is damaged.
func guard(f func() error) (err error) {
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

// columnError is an error within a column, at a row.
type columnError struct {
	column string
	row    int64
	err    error
}

func (e *columnError) Error() string { return fmt.Sprintf("%s: row %d: %v", e.column, e.row, e.err) }
func (e *columnError) Unwrap() error { return e.err }
