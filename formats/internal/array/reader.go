package array

import (
	"fmt"
	"io"
	"slices"
	"unsafe"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Reader hands on the elements of an array of numbers in the order of the file, some at a time, in constant memory.
type Reader struct {
	Header
	r     io.Reader
	mem   []byte        // of all elements, if they are mapped
	at    int64         // elements that were handed on
	asked int64         // bytes of mem that the system was asked for
	few   bool          // it is not asked
	from  source.Blocks // of the elements, if it has them
	first int64         // the place of the first element in it
	buf   []byte
	ints  []int64
	reals []float64
}

// NewReader returns a reader of the elements that r yields behind the header. ErrObject, ErrType for what holds no
// numbers.
func NewReader(r io.Reader, h Header) (*Reader, error) {
	return &Reader{Header: h, r: r}, h.numbers()
}

// NewMapped returns a reader of elements that lie in memory, which is kept.
func NewMapped(elements []byte, h Header) (*Reader, error) {
	if err := h.numbers(); err != nil {
		return nil, err
	}
	if int64(len(elements)) < h.Bytes() {
		return nil, fmt.Errorf("%v: %d of %d bytes: %w", &h, len(elements), h.Bytes(), io.ErrUnexpectedEOF)
	}
	return &Reader{Header: h, mem: elements[:h.Bytes()]}, nil
}

// NewBlocks returns a reader of elements that begin at a place of a file. It is read from the first call on.
func NewBlocks(b source.Blocks, at int64, h Header) (*Reader, error) {
	return &Reader{Header: h, from: b, first: at}, h.numbers()
}

// Few says that little is read, here and there: the system is not asked for what lies behind it.
func (r *Reader) Few() { r.few = true }

// Left returns how many elements have not been handed on.
func (r *Reader) Left() int64 { return r.elements - r.at }

// How many bytes of a mapped array the system is asked for before they are needed, and how many at least at a time. By
// itself it reads a few pages ahead of a mapping, which leaves disk and processor waiting for each other.
const (
	aheadBytes = 32 << 20
	aheadStep  = 8 << 20
)

// readAhead asks the system for what comes next.
func (r *Reader) readAhead() {
	r.asked = max(r.asked, r.at*r.Width)
	end := min(r.at*r.Width+aheadBytes, int64(len(r.mem)))
	if end-r.asked >= aheadStep || end == int64(len(r.mem)) {
		pinned.ReadAhead(r.mem[min(r.asked, end):end])
		r.asked = end
	}
}

// Skip leaves n elements out, of which there are as many.
func (r *Reader) Skip(n int64) error {
	if r.mem == nil && r.from == nil {
		if k, err := io.CopyN(io.Discard, r.r, n*r.Width); err != nil {
			return r.short(k, err)
		}
	}
	r.at += n
	return nil
}

func (r *Reader) short(have int64, err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%v: %d of %d bytes: %w", &r.Header, r.at*r.Width+have, r.Header.Bytes(), err)
}

// Next returns the next n elements, or as many as are left, little-endian: nothing at the end. They are valid until
// the next call.
func (r *Reader) Next(n int64) ([]byte, error) {
	n = min(n, r.Left())
	if r.mem != nil && !r.few {
		r.readAhead()
	}
	var there []byte // all of them, or as many as lie together
	if r.mem != nil {
		there = r.mem[r.at*r.Width : (r.at+n)*r.Width]
	} else if r.from != nil && n > 0 {
		b, err := r.from.From(r.first + r.at*r.Width)
		if err != nil {
			return nil, r.short(0, err)
		}
		there = b[:min(int64(len(b)), n*r.Width)]
	}
	if int64(len(there)) == n*r.Width && !r.bigEndian {
		err := r.checkBools(there, r.at)
		r.at += n
		return there, err
	}
	if int64(cap(r.buf)) < n*r.Width {
		r.buf = unified.FromSlice(make([]uint64, (n*r.Width+7)/8)).Bytes()
	}
	b := r.buf[:n*r.Width]
	if err := r.fill(b, there); err != nil {
		return nil, err
	}
	if r.bigEndian {
		swap(b, r.Width, r.Kind)
	}
	err := r.checkBools(b, r.at)
	r.at += n
	return b, err
}

// fill reads the next elements, of which the first bytes are there.
func (r *Reader) fill(b, there []byte) error {
	have := copy(b, there)
	if r.mem == nil && r.from == nil {
		k, err := io.ReadFull(r.r, b)
		if err != nil {
			return r.short(int64(k), err)
		}
		return nil
	}
	for have < len(b) {
		more, err := r.from.From(r.first + r.at*r.Width + int64(have))
		if err != nil {
			return r.short(int64(have), err)
		}
		have += copy(b[have:], more)
	}
	return nil
}

// Ints is Next as integers; floats are taken if every one is an integer.
func (r *Reader) Ints(n int64) ([]int64, error) {
	at := r.at
	t, err := r.next(n)
	if err != nil {
		return nil, err
	}
	if r.DType == unified.Int64 {
		return unified.View[int64](t)
	}
	r.ints, err = appendInts(&r.Header, slices.Grow(r.ints[:0], int(t.Len())), t, at)
	return r.ints, err
}

// Floats is Next as numbers of any kind.
func (r *Reader) Floats(n int64) ([]float64, error) {
	at := r.at
	t, err := r.next(n)
	if err != nil {
		return nil, err
	}
	r.reals, err = appendFloats(&r.Header, slices.Grow(r.reals[:0], int(t.Len())), t, at)
	return r.reals, err
}

// next is Next as a tensor.
func (r *Reader) next(n int64) (unified.Tensor, error) {
	b, err := r.Next(n)
	if err != nil {
		return unified.Tensor{}, err
	}
	if len(b) > 0 && uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 != 0 { // of a mapped file
		if cap(r.buf) < len(b) {
			r.buf = unified.FromSlice(make([]uint64, (len(b)+7)/8)).Bytes()
		}
		b = append(r.buf[:0], b...)
	}
	return unified.New(r.DType, b, int64(len(b))/r.Width)
}
