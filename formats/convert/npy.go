package convert

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// npy is a .npy file that becomes an array of the dataset.
type npy struct {
	path   string
	header array.Header
}

// check refuses what holds no numbers, or fewer bytes than the header says.
func (n *npy) check(f *source.File) error {
	switch h := &n.header; {
	case h.DType == unified.Invalid:
		return fmt.Errorf("%w %q: numbers are wanted", array.ErrType, h.Descr)
	case f.Compression == "" && h.Bytes() > f.Size:
		return fmt.Errorf("%v: elements take %d bytes, but the file has %d: it is cut short", h, h.Bytes(), f.Size)
	}
	return nil
}

// read opens the file again and has do read its elements. What decompressing keeps is counted in l.
func (n *npy) read(l *pinned.Ledger, remedy string, do func(f *source.File) error) error {
	f, err := source.Open(n.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Count(l); err != nil {
		return err
	}
	h, err := array.ReadHeader(f)
	if err == nil && h.String() != n.header.String() {
		err = errors.New("the file has changed")
	}
	if err == nil {
		err = do(f)
	}
	if err != nil {
		return source.Error(n.path, "", -1, remedy, err)
	}
	return nil
}

// writer returns a function that copies the elements.
func (n *npy) writer(l *pinned.Ledger) func(context.Context, io.Writer) error {
	return func(ctx context.Context, w io.Writer) error {
		return n.read(l, "", func(f *source.File) error { return array.Stream(ctx, w, f, n.header, l) })
	}
}

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
