package array

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// readBytes reads all elements as they lie in the file, but in the machine's byte order. Where l has no limit, it
// allocates as bytes arrive.
func readBytes(r io.Reader, h *Header, l *pinned.Ledger) (b []byte, err error) {
	if l.Left() < math.MaxInt64 {
		b = make([]byte, h.Bytes())
		var n int
		n, err = io.ReadFull(r, b)
		b = b[:n]
	} else {
		b, err = io.ReadAll(io.LimitReader(r, h.Bytes()))
	}
	if int64(len(b)) < h.Bytes() && (err == nil || err == io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %d of %d bytes: %w", h, len(b), h.Bytes(), err)
	}
	if h.bigEndian {
		swap(b, h.Width, h.Kind)
	}
	return b, h.checkBools(b, 0)
}

// blockBytes is how much of an array is read at a time: a multiple of the width of every number.
const blockBytes = 1 << 18

// ReadInts reads a whole array of integers, in row-major order, and converts it as it arrives. l counts 8 bytes an
// element before any is read, and as many again while columns are turned into rows; what it returns stays counted.
//
// Errors: ErrObject, ErrType for what holds no integers, io.ErrUnexpectedEOF where elements are missing,
// pinned.ErrLimit. An element that int64 cannot hold is an error with its row; floats are taken if each is an integer.
func ReadInts(r io.Reader, h Header, l *pinned.Ledger) (v []int64, err error) {
	if err := h.numbers(); err != nil {
		return nil, err
	}
	keep, columns := sat.Mul(8, h.elements), h.Fortran && len(h.Shape) > 1
	need := keep
	if columns {
		need = sat.Mul(2, keep)
	}
	if err := l.Take(pinned.Sources, need); err != nil {
		return nil, fmt.Errorf("%v in 8 bytes an element: %w", &h, err)
	}
	defer func() {
		if err == nil {
			need -= keep
		}
		l.Give(pinned.Sources, need)
	}()
	room := h.elements
	if l.Left() == math.MaxInt64 { // nothing says that there is so much: more is taken as it arrives
		room = min(room, 1<<13)
	}
	v = make([]int64, 0, room)
	err = EachInts(r, h, func(block []int64, _ int64) error {
		v = append(v, block...)
		return nil
	})
	if err == nil && columns {
		var rows *Reader
		a := Array{DType: unified.Int64, Shape: h.Shape, Fortran: true, Data: unified.FromSlice(v).Bytes()}
		if rows, err = a.Reader(false); err == nil {
			v, err = rows.Ints(h.elements)
		}
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// EachInts hands the elements of an array of integers on in the order of the file, a block at a time; at is the number
// of a block's first element. The block is valid until take returns. Errors are those of ReadInts and of take.
func EachInts(r io.Reader, h Header, take func(block []int64, at int64) error) error {
	x, err := NewReader(r, h)
	for err == nil && x.Left() > 0 {
		at := x.at
		var block []int64
		if block, err = x.Ints(blockBytes / h.Width); err == nil {
			err = take(block, at)
		}
	}
	return err
}

// AllInts reads the integers that are left. l counts 8 bytes each, which stay counted.
func (r *Reader) AllInts(l *pinned.Ledger) ([]int64, error) {
	all := []int64{}
	for r.Left() > 0 {
		part, err := r.Ints(blockBytes)
		if err != nil {
			return nil, err
		}
		if all, err = source.Grow(l, all, len(part)); err != nil {
			return nil, err
		}
		all = append(all, part...)
	}
	return all, nil
}

// ReadStrings reads a whole array of text or bytes as strings, without their padding: ErrType for others. Invalid
// characters become U+FFFD. l counts h.Bytes() meanwhile.
func ReadStrings(r io.Reader, h Header, l *pinned.Ledger) ([]string, error) {
	if err := h.readable(); err != nil {
		return nil, err
	}
	if err := l.Take(pinned.Sources, h.Bytes()); err != nil {
		return nil, fmt.Errorf("%v: %w", &h, err)
	}
	defer l.Give(pinned.Sources, h.Bytes())
	data, err := readBytes(r, &h, l)
	switch {
	case err != nil:
		return nil, err
	case h.Kind != Text && h.Kind != Bytes:
		return nil, fmt.Errorf("%w %q: strings are wanted", ErrType, h.Descr)
	case h.Width == 0 && h.elements > 1<<20:
		return nil, fmt.Errorf("%w: %d strings of no width", ErrFormat, h.elements)
	}
	s := make([]string, 0, min(h.elements, int64(len(data))+1))
	for i := range h.elements {
		e := data[i*h.Width : (i+1)*h.Width]
		if h.Kind == Bytes {
			s = append(s, string(bytes.ToValidUTF8(bytes.TrimRight(e, "\x00"), []byte("\uFFFD"))))
			continue
		}
		var text []byte
		for ; len(e) >= 4; e = e[4:] {
			c := uint32(e[0]) | uint32(e[1])<<8 | uint32(e[2])<<16 | uint32(e[3])<<24
			text = utf8.AppendRune(text, rune(min(c, utf8.MaxRune+1)))
		}
		s = append(s, string(bytes.TrimRight(text, "\x00")))
	}
	return s, nil
}

// Stream copies the elements that follow a header to w, row-major and little-endian, in constant memory; a column-major
// array is read as a whole first, which l counts meanwhile. It returns the errors of ReadInts, of w, and
// context.Cause(ctx). The elements are numbers: ErrType for others.
func Stream(ctx context.Context, w io.Writer, r io.Reader, h Header, l *pinned.Ledger) error {
	x, err := NewReader(r, h)
	n := blockBytes / max(h.Width, 1)
	if err == nil && h.Fortran && len(h.Shape) > 1 {
		need := sat.Mul(2, h.Bytes())
		if err := l.Take(pinned.Sources, need); err != nil {
			return fmt.Errorf("%v: %w", &h, err)
		}
		defer l.Give(pinned.Sources, need)
		n = h.elements
		a := Array{DType: h.DType, Shape: h.Shape, Fortran: true}
		if a.Data, err = readBytes(r, &h, l); err == nil {
			x, err = a.Reader(false)
		}
	}
	for err == nil && x.Left() > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var b []byte
		if b, err = x.Next(n); err == nil {
			_, err = w.Write(b)
		}
	}
	return err
}

// checkBools checks a run of elements, of which the first is element number at, if they are bools.
func (h *Header) checkBools(b []byte, at int64) error {
	if h.Kind != Bool {
		return nil
	}
	if i := slices.IndexFunc(b, func(x byte) bool { return x > 1 }); i >= 0 {
		return fmt.Errorf("%w: element %d of a bool array is %d", ErrFormat, at+int64(i), b[i])
	}
	return nil
}

func (h *Header) readable() error {
	switch h.Kind {
	case Object:
		return ErrObject
	case Foreign:
		return fmt.Errorf("%w %q", ErrType, h.Descr)
	}
	return nil
}

// numbers refuses what holds no numbers.
func (h *Header) numbers() error {
	if err := h.readable(); err != nil {
		return err
	}
	if h.DType == unified.Invalid {
		return fmt.Errorf("%w %q: numbers are wanted", ErrType, h.Descr)
	}
	return nil
}

// swap reverses the bytes of each element; of text, of each character.
func swap(b []byte, width int64, kind Kind) {
	if kind == Text {
		width = 4
	}
	if kind == Bytes || width < 2 {
		return
	}
	for ; int64(len(b)) >= width; b = b[width:] {
		slices.Reverse(b[:width])
	}
}

// appendInts appends elements of any number type, of which the first is element number at.
func appendInts(h *Header, to []int64, t unified.Tensor, at int64) ([]int64, error) {
	switch t.DType() {
	case unified.Int8:
		return widen[int8](to, t), nil
	case unified.Uint8:
		return widen[uint8](to, t), nil
	case unified.Int16:
		return widen[int16](to, t), nil
	case unified.Uint16:
		return widen[uint16](to, t), nil
	case unified.Int32:
		return widen[int32](to, t), nil
	case unified.Uint32:
		return widen[uint32](to, t), nil
	case unified.Int64:
		return widen[int64](to, t), nil
	case unified.Uint64:
		from := len(to)
		to = widen[uint64](to, t)
		if i := slices.IndexFunc(to[from:], func(x int64) bool { return x < 0 }); i >= 0 {
			return nil, fmt.Errorf("row %d: %d is too large", h.row(at+int64(i)), uint64(to[from+i]))
		}
		return to, nil
	case unified.Float32:
		return integral[float32](h, to, t, at)
	case unified.Float64:
		return integral[float64](h, to, t, at)
	}
	return nil, fmt.Errorf("%w %q: integers are wanted", ErrType, h.Descr)
}

// appendFloats appends elements of any number type.
func appendFloats(h *Header, to []float64, t unified.Tensor, at int64) ([]float64, error) {
	switch t.DType() {
	case unified.Float32:
		v, _ := unified.View[float32](t)
		for _, x := range v {
			to = append(to, float64(x))
		}
		return to, nil
	case unified.Float64:
		v, _ := unified.View[float64](t)
		return append(to, v...), nil
	}
	ints, err := appendInts(h, nil, t, at)
	for _, x := range ints {
		to = append(to, float64(x))
	}
	return to, err
}

// row returns the row of an element.
func (h *Header) row(i int64) int64 {
	width := int64(1)
	for _, d := range h.Shape[min(1, len(h.Shape)):] {
		width *= d
	}
	if h.Fortran && len(h.Shape) > 0 {
		return i % max(h.Shape[0], 1)
	}
	return i / max(width, 1)
}

func widen[T int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64](to []int64, t unified.Tensor) []int64 {
	v, _ := unified.View[T](t)
	for _, x := range v {
		to = append(to, int64(x))
	}
	return to
}

func integral[T float32 | float64](h *Header, to []int64, t unified.Tensor, at int64) ([]int64, error) {
	v, err := unified.View[T](t)
	for i, x := range v {
		if math.Trunc(float64(x)) != float64(x) || math.Abs(float64(x)) >= 1<<63 {
			return nil, fmt.Errorf("%w: row %d: %v is not an integer", ErrType, h.row(at+int64(i)), x)
		}
		to = append(to, int64(x))
	}
	return to, err
}
