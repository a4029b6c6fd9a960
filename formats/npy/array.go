package npy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/khop-gnn/khop/formats/source"
	"github.com/khop-gnn/khop/unified"
)

// Array is an array in memory: row-major, in the machine's byte order. It belongs to the caller.
type Array struct {
	Header
	data []byte
}

// ReadElements reads a whole array, of which the header was read before. Without a budget it allocates as bytes arrive:
// never more than about twice what r yields. With one it charges h.Bytes() for the array, and as much again while it
// turns columns into rows.
//
// Errors: ErrObject, ErrType for kinds without a meaning here, io.ErrUnexpectedEOF where elements are missing,
// source.ErrMemory.
func ReadElements(r io.Reader, h Header, b *source.Budget) (*Array, error) {
	if err := h.readable(); err != nil {
		return nil, err
	}
	need := h.Bytes()
	if h.Fortran {
		need *= 2
	}
	if err := b.Take(need); err != nil {
		return nil, fmt.Errorf("%v: %w", &h, err)
	}
	defer b.Give(need - h.Bytes())
	data, err := readBytes(r, h.Bytes(), b != nil)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", &h, err)
	}
	a := &Array{Header: h, data: data}
	a.bigEndian = false
	if h.bigEndian {
		swap(a.data, h.Width, h.Kind)
	}
	if h.Fortran {
		a.transpose()
	}
	return a, h.checkBools(a.data, 0)
}

// checkBools checks a run of elements, of which the first is element number at, if they are bools.
func (h *Header) checkBools(b []byte, at int64) error {
	if i := slices.IndexFunc(b, func(x byte) bool { return x > 1 }); h.Kind == Bool && i >= 0 {
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

// readBytes reads n bytes into memory aligned to 8, and grows it only as they arrive, unless n is known to fit.
func readBytes(r io.Reader, n int64, fits bool) ([]byte, error) {
	grow := func(old []byte, size int64) []byte {
		words := make([]uint64, (size+7)/8)
		b := unified.FromSlice(words).Bytes()[:size]
		copy(b, old)
		return b
	}
	first := n
	if !fits {
		first = min(n, 1<<16)
	}
	b := grow(nil, first)
	for have := int64(0); ; {
		got, err := io.ReadFull(r, b[have:])
		have += int64(got)
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("%d of %d bytes: %w", have, n, err)
		}
		if have == n {
			return b, nil
		}
		b = grow(b, min(n, 2*have))
	}
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

// transpose turns column-major into row-major order.
func (a *Array) transpose() {
	a.Fortran = false
	if len(a.Shape) < 2 || a.elements == 0 || a.Width == 0 {
		return
	}
	out := unified.FromSlice(make([]uint64, (len(a.data)+7)/8)).Bytes()[:len(a.data)]
	at := make([]int64, len(a.Shape)) // index of the element read next, in column-major order
	step := make([]int64, len(a.Shape))
	s := int64(1)
	for i := len(step) - 1; i >= 0; i-- {
		step[i] = s
		s *= a.Shape[i]
	}
	to := int64(0)
	for from := int64(0); from < int64(len(a.data)); from += a.Width {
		copy(out[to*a.Width:(to+1)*a.Width], a.data[from:])
		for i := range at {
			at[i]++
			to += step[i]
			if at[i] < a.Shape[i] {
				break
			}
			to -= at[i] * step[i]
			at[i] = 0
		}
	}
	a.data = out
}

// Tensor returns the array as a tensor over the same memory; a scalar has shape [1]. ErrType unless it holds numbers.
func (a *Array) Tensor() (unified.Tensor, error) {
	if a.DType == unified.Invalid {
		return unified.Tensor{}, fmt.Errorf("%w %q: numbers are wanted", ErrType, a.Descr)
	}
	shape := a.Shape
	if len(shape) == 0 {
		shape = []int64{1}
	}
	return unified.New(a.DType, a.data, shape...)
}

// ReadInts is ReadElements and Ints. What it returns stays charged, with 8 bytes an element.
func ReadInts(r io.Reader, h Header, b *source.Budget) ([]int64, error) {
	a, err := ReadElements(r, h, b)
	if err != nil {
		return nil, err
	}
	if a.DType != unified.Int64 {
		if err := b.Take(8 * a.elements); err != nil {
			return nil, fmt.Errorf("%v as int64: %w", &h, err)
		}
		defer b.Give(h.Bytes())
	}
	return a.Ints()
}

// Ints returns the elements as integers, in row-major order. ErrType for what is not an integer type; floats are taken
// if every one is an integer. An element that int64 cannot hold is an error with its row. int64 elements are the
// array's own memory.
func (a *Array) Ints() ([]int64, error) {
	t, err := unified.New(max(a.DType, 1), a.data, a.elements)
	if err != nil || a.DType == unified.Invalid {
		return nil, fmt.Errorf("%w %q: integers are wanted", ErrType, a.Descr)
	}
	switch a.DType {
	case unified.Int8:
		return widen[int8](t), nil
	case unified.Uint8:
		return widen[uint8](t), nil
	case unified.Int16:
		return widen[int16](t), nil
	case unified.Uint16:
		return widen[uint16](t), nil
	case unified.Int32:
		return widen[int32](t), nil
	case unified.Uint32:
		return widen[uint32](t), nil
	case unified.Int64:
		return unified.View[int64](t)
	case unified.Uint64:
		v := widen[uint64](t)
		if i := slices.IndexFunc(v, func(x int64) bool { return x < 0 }); i >= 0 {
			return nil, fmt.Errorf("row %d: %d is too large", a.row(i), uint64(v[i]))
		}
		return v, nil
	case unified.Float32:
		return integral[float32](a, t)
	case unified.Float64:
		return integral[float64](a, t)
	}
	return nil, fmt.Errorf("%w %q: integers are wanted", ErrType, a.Descr)
}

// row returns the row of an element.
func (a *Array) row(i int) int64 {
	width := int64(1)
	for _, d := range a.Shape[min(1, len(a.Shape)):] {
		width *= d
	}
	return int64(i) / max(width, 1)
}

func widen[T int8 | uint8 | int16 | uint16 | int32 | uint32 | uint64](t unified.Tensor) []int64 {
	v, _ := unified.View[T](t)
	w := make([]int64, len(v))
	for i, x := range v {
		w[i] = int64(x)
	}
	return w
}

func integral[T float32 | float64](a *Array, t unified.Tensor) ([]int64, error) {
	v, err := unified.View[T](t)
	w := make([]int64, len(v))
	for i, x := range v {
		if math.Trunc(float64(x)) != float64(x) || math.Abs(float64(x)) >= 1<<63 {
			return nil, fmt.Errorf("%w: row %d: %v is no integer", ErrType, a.row(i), x)
		}
		w[i] = int64(x)
	}
	return w, err
}

// Strings returns the elements as strings, without their padding. ErrType unless they are text or bytes; invalid
// characters become U+FFFD.
func (a *Array) Strings() ([]string, error) {
	if a.Kind != Text && a.Kind != Bytes {
		return nil, fmt.Errorf("%w %q: strings are wanted", ErrType, a.Descr)
	}
	if a.Width == 0 && a.elements > 1<<20 {
		return nil, fmt.Errorf("%w: %d strings of no width", ErrFormat, a.elements)
	}
	s := make([]string, 0, min(a.elements, int64(len(a.data))+1))
	for i := range a.elements {
		e := a.data[i*a.Width : (i+1)*a.Width]
		if a.Kind == Bytes {
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
// array is read as a whole first, which b is charged for meanwhile. It returns the errors of ReadElements, of w, and
// context.Cause(ctx).
func Stream(ctx context.Context, w io.Writer, r io.Reader, h Header, b *source.Budget) error {
	if err := h.readable(); err != nil {
		return err
	}
	if h.Fortran && len(h.Shape) > 1 {
		a, err := ReadElements(r, h, b)
		if err != nil {
			return err
		}
		defer b.Give(h.Bytes())
		_, err = w.Write(a.data)
		return err
	}
	step := (int64(1) << 20) / max(h.Width, 1) * max(h.Width, 1)
	buf := make([]byte, min(max(step, h.Width), max(h.Bytes(), 1)))
	for left := h.Bytes(); left > 0; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b := buf[:min(left, int64(len(buf)))]
		if n, err := io.ReadFull(r, b); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("%v: %d of %d bytes: %w", &h, h.Bytes()-left+int64(n), h.Bytes(), err)
		}
		if h.bigEndian {
			swap(b, h.Width, h.Kind)
		}
		if err := h.checkBools(b, h.Bytes()-left); err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		left -= int64(len(b))
	}
	return nil
}
