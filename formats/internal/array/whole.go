package array

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"slices"

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

// EachInts hands the elements of an array of integers on in the order of the file, a block at a time; at is the number
// of a block's first element. The block is valid until take returns. Errors are those of NewReader and of take, and
// io.ErrUnexpectedEOF where elements are missing. An element that int64 cannot hold is an error with its row. Floats
// are taken if each is an integer.
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

// ReadInts is AllInts of what follows a header. It returns the errors of NewReader too.
func ReadInts(r io.Reader, h Header, l *pinned.Ledger) ([]int64, error) {
	x, err := NewReader(r, h)
	if err != nil {
		return nil, err
	}
	return x.AllInts(l)
}

// AllInts reads the integers that are left, row-major. l counts 8 bytes each before any is read, which stay counted:
// pinned.ErrLimit.
func (r *Reader) AllInts(l *pinned.Ledger) (all []int64, err error) {
	need := sat.Mul(8, r.Left())
	if err := l.Take(pinned.Sources, need); err != nil {
		return nil, fmt.Errorf("%v in 8 bytes an element: %w", &r.Header, err)
	}
	rows, give, err := r.rows(context.Background(), l)
	defer give()
	room := r.elements
	if l.Left() == math.MaxInt64 { // nothing says that there is so much: more is taken as it arrives
		room = min(room, 1<<13)
	}
	all = make([]int64, 0, room)
	for err == nil && rows.Left() > 0 {
		var part []int64
		part, err = rows.Ints(blockBytes / max(r.Width, 1))
		all = append(all, part...)
	}
	if err != nil {
		l.Give(pinned.Sources, need)
		return nil, err
	}
	return all, nil
}

// rows returns a reader of the remaining elements, row-major: a column-major array is read as a whole, which l counts
// until give.
func (r *Reader) rows(ctx context.Context, l *pinned.Ledger) (rows *Reader, give func(), err error) {
	if !r.Fortran || len(r.Shape) < 2 {
		return r, func() {}, nil
	}
	need := sat.Mul(2, r.Bytes())
	if err := l.Take(pinned.Sources, need); err != nil {
		return nil, func() {}, fmt.Errorf("%v: %w", &r.Header, err)
	}
	var columns bytes.Buffer
	if err = r.each(ctx, &columns); err == nil {
		a := Array{DType: r.DType, Shape: r.Shape, Fortran: true, Data: columns.Bytes()}
		rows, err = a.Reader(false)
	}
	return rows, func() { l.Give(pinned.Sources, need) }, err
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
		s = append(s, string(appendText(nil, e)))
	}
	return s, nil
}

// Stream copies the elements that follow a header to w, as Reader.Stream does. It returns the errors of NewReader too.
func Stream(ctx context.Context, w io.Writer, r io.Reader, h Header, l *pinned.Ledger) error {
	x, err := NewReader(r, h)
	if err != nil {
		return err
	}
	return x.Stream(ctx, w, l)
}

// Stream copies the elements that are left to w, row-major and little-endian, in constant memory; a column-major array
// is read as a whole first, which l counts meanwhile: pinned.ErrLimit. It returns the errors of w too, and
// context.Cause(ctx).
func (r *Reader) Stream(ctx context.Context, w io.Writer, l *pinned.Ledger) error {
	rows, give, err := r.rows(ctx, l)
	defer give()
	if err != nil {
		return err
	}
	return rows.each(ctx, w)
}

// each copies the elements that are left as they come.
func (r *Reader) each(ctx context.Context, w io.Writer) error {
	for r.Left() > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b, err := r.Next(blockBytes / max(r.Width, 1))
		if err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
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

// RowWidth returns the elements of a row.
func (h *Header) RowWidth() int64 {
	width := int64(1)
	for _, d := range h.Shape[min(1, len(h.Shape)):] {
		width *= d
	}
	return width
}

// row returns the row of an element.
func (h *Header) row(i int64) int64 {
	if h.Fortran && len(h.Shape) > 0 {
		return i % max(h.Shape[0], 1)
	}
	return i / max(h.RowWidth(), 1)
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
