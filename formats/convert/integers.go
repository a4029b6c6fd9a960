package convert

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/unified"
)

// Integers is an array of whole numbers in memory, row-major.
type Integers struct {
	Shape  []int64
	Values []int64
	Bools  bool // they are 0 and 1, and were bools in the file
}

// ReadIntegers reads an .npy array of integers of any width, or of bools. It reads f from its beginning, whatever its
// offset, which does not move; f is a regular file, and nothing is allocated that the file has no bytes for. Errors say
// what is wrong, but not with which file.
func ReadIntegers(f *os.File) (*Integers, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: no regular file", array.ErrFormat)
	}
	r := bufio.NewReaderSize(io.NewSectionReader(f, 0, st.Size()), 1<<16)
	h, err := array.ReadHeader(r)
	if err != nil {
		return nil, err
	}
	if h.DType == unified.Invalid || h.DType.IsFloat() {
		return nil, fmt.Errorf("%w %q: whole numbers are wanted", array.ErrType, h.Descr)
	}
	if h.Bytes() > st.Size() {
		return nil, fmt.Errorf("%v in a file of %d bytes: %w", &h, st.Size(), io.ErrUnexpectedEOF)
	}
	values, err := array.ReadInts(r, h, nil)
	return &Integers{h.Shape, values, h.Kind == array.Bool}, err
}
