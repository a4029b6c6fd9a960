package array

import (
	"errors"
	"fmt"
	"strings"

	"github.com/khop-gnn/khop/unified"
)

// ErrFormat is returned for bytes that are no .npy array.
var ErrFormat = errors.New("not a .npy array")

// ErrObject is returned for the elements of an array of Python objects.
var ErrObject = errors.New("an array of Python objects, which is never executed")

// ErrType is returned for elements of a type that khop has no use for, or that the caller cannot take.
var ErrType = errors.New("unsupported element type")

// Kind says what an array's elements are.
type Kind uint8

// The kinds of elements. Numbers have a dtype, which for Bool is uint8.
const (
	Number  Kind = iota
	Bool         // a byte that is 0 or 1
	Text         // Unicode strings of fixed width, padded by zeros
	Bytes        // byte strings of fixed width, padded by zeros
	Object       // pickled
	Foreign      // complex numbers, records
)

// Header describes an array.
type Header struct {
	Descr   string // NumPy's name of the element type, such as "<f4"
	Kind    Kind
	DType   unified.DType // Invalid unless Number or Bool
	Width   int64         // bytes of an element; 0 for Object
	Shape   []int64       // nil for a scalar
	Fortran bool          // column-major
	Unit    string        // of dates and durations, as graph.Column has it, and "d" for days

	bigEndian bool
	elements  int64
}

// Elements returns the number of elements.
func (h *Header) Elements() int64 { return h.elements }

// Bytes returns what the elements take in the file.
func (h *Header) Bytes() int64 { return h.elements * h.Width }

// String describes the array: "<f4 (3, 4)".
func (h *Header) String() string {
	return h.Descr + " (" + strings.Trim(strings.ReplaceAll(fmt.Sprint(h.Shape), " ", ", "), "[]") + ")"
}

// New describes an array of numbers, row-major unless fortran; bools are of type unified.Uint8. ErrFormat where
// the shape holds more than can be counted.
func New(d unified.DType, shape []int64, bools, fortran bool) (Header, error) {
	h := Header{Descr: d.String(), DType: d, Width: d.Size(), Shape: shape, Fortran: fortran, elements: 1}
	if bools {
		h.Descr, h.Kind = "bool", Bool
	}
	for _, n := range shape {
		if n < 0 || n > 0 && h.elements > (1<<60)/n/max(h.Width, 1) {
			return h, fmt.Errorf("%w: the shape %v", ErrFormat, shape)
		}
		h.elements *= n
	}
	return h, nil
}
