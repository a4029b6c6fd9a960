package npy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Array is an array in memory: row-major, in the machine's byte order. It belongs to the caller.
type Array struct {
	Header
	data []byte
}

// ReadElements reads a whole array, of which the header was read before. Where l has no limit it allocates as bytes
// arrive: never more than about twice what r yields. Else l counts h.Bytes() for the array before any is read, and as
// much again while it turns columns into rows; h.Bytes() stay counted.
//
// Errors: ErrObject, ErrType for kinds without a meaning here, io.ErrUnexpectedEOF where elements are missing,
// pinned.ErrLimit.
func ReadElements(r io.Reader, h Header, l *pinned.Ledger) (a *Array, err error) {
	if err := h.readable(); err != nil {
		return nil, err
	}
	need := h.Bytes()
	if h.Fortran {
		need = sat.Mul(2, need)
	}
	if err := l.Take(pinned.Sources, need); err != nil {
		return nil, fmt.Errorf("%v: %w", &h, err)
	}
	defer func() {
		if err == nil {
			need -= h.Bytes()
		}
		l.Give(pinned.Sources, need)
	}()
	data, err := readBytes(r, h.Bytes(), l.Left() < math.MaxInt64)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", &h, err)
	}
	a = &Array{Header: h, data: data}
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

// ReadInts reads a whole array of integers, in row-major order, and converts it as it arrives. l counts 8 bytes an
// element before any is read, and as many again while columns are turned into rows; what it returns stays counted.
//
// Errors: those of ReadElements and Array.Ints.
func ReadInts(r io.Reader, h Header, l *pinned.Ledger) ([]int64, error) {
	return readAs(r, h, l, appendInts)
}

// ReadFloats is ReadInts for numbers of any kind.
func ReadFloats(r io.Reader, h Header, l *pinned.Ledger) ([]float64, error) {
	return readAs(r, h, l, appendFloats)
}

// readAs reads numbers as elements of another type, of 8 bytes. add appends a block, which begins at element number at.
func readAs[E int64 | float64](r io.Reader, h Header, l *pinned.Ledger,
	add func(h *Header, to []E, block unified.Tensor, at int64) ([]E, error)) (v []E, err error) {
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
	v = make([]E, 0, room)
	err = h.blocks(r, func(b []byte, at int64) error {
		block, err := unified.New(h.DType, b, int64(len(b))/h.Width)
		if err == nil {
			v, err = add(&h, v, block, at)
		}
		return err
	})
	if err == nil && columns {
		a := &Array{Header: h, data: unified.FromSlice(v).Bytes()}
		a.Width = 8
		a.transpose()
		var t unified.Tensor
		if t, err = unified.New(unified.Of[E](), a.data, h.elements); err == nil {
			v, err = unified.View[E](t)
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
	if err := h.numbers(); err != nil {
		return err
	}
	var v []int64
	return h.blocks(r, func(b []byte, at int64) error {
		block, err := unified.New(h.DType, b, int64(len(b))/h.Width)
		if err != nil {
			return err
		}
		if v, err = appendInts(&h, v[:0], block, at); err != nil {
			return err
		}
		return take(v, at)
	})
}

// Ints returns the elements as integers, in row-major order. ErrType for what is not an integer type; floats are taken
// if every one is an integer. An element that int64 cannot hold is an error with its row.
func (a *Array) Ints() ([]int64, error) {
	if err := a.numbers(); err != nil {
		return nil, err
	}
	t, err := unified.New(a.DType, a.data, a.elements)
	if err != nil {
		return nil, err
	}
	return appendInts(&a.Header, make([]int64, 0, a.elements), t, 0)
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
// array is read as a whole first, which l counts meanwhile. It returns the errors of ReadElements, of w, and
// context.Cause(ctx). The elements are numbers: ErrType for others.
func Stream(ctx context.Context, w io.Writer, r io.Reader, h Header, l *pinned.Ledger) error {
	if err := h.numbers(); err != nil {
		return err
	}
	if h.Fortran && len(h.Shape) > 1 {
		a, err := ReadElements(r, h, l)
		if err != nil {
			return err
		}
		defer l.Give(pinned.Sources, h.Bytes())
		_, err = w.Write(a.data)
		return err
	}
	return h.blocks(r, func(b []byte, _ int64) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		_, err := w.Write(b)
		return err
	})
}

// blocks reads the elements in order and hands them on a block at a time, in the machine's byte order. at is the number
// of a block's first element. Blocks lie at multiples of 8 in memory that is used again. Elements are numbers.
func (h *Header) blocks(r io.Reader, take func(b []byte, at int64) error) error {
	const size = 1 << 18 // a multiple of the width of every number
	buf := unified.FromSlice(make([]uint64, (min(size, h.Bytes())+7)/8)).Bytes()
	for have := int64(0); have < h.Bytes(); {
		b := buf[:min(h.Bytes()-have, int64(len(buf)))]
		if n, err := io.ReadFull(r, b); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("%v: %d of %d bytes: %w", h, have+int64(n), h.Bytes(), err)
		}
		if h.bigEndian {
			swap(b, h.Width, h.Kind)
		}
		at := have / h.Width
		if err := h.checkBools(b, at); err != nil {
			return err
		}
		if err := take(b, at); err != nil {
			return err
		}
		have += int64(len(b))
	}
	return nil
}
