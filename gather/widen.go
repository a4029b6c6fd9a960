package gather

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/narrow"
	"github.com/khop-gnn/khop/unified"
)

// widening says how rows are delivered as other numbers than they are stored.
type widening struct {
	to      unified.DType
	from    unified.DType // of what is stored; Uint8 for a code
	code    *narrow.Code
	vectors func(to []float32, row []byte, width, at int) int // of the code; nil for none
	width   int                                               // numbers of a row
	rank    int
	scales  []float32 // of the rows of int8
}

// codeVectors are kernels of codes: each reads the first numbers of some of a row, and returns how many.
var codeVectors = map[string]func(to []float32, row []byte, width, at int) int{"int4": int4Vectors}

// Widened returns a store that delivers the rows of s as float32, float16 or bfloat16. The rows of s are floats of 16
// bits; or int8, and the numbers of row i are multiplied by scales[i], float32 [n]; or bytes in a code. Pass no scales
// and a nil code for the other kinds. The result shares the column with s. unified.ErrShape for other types, scales and
// codes.
//
// The column takes a half to a seventh of the memory. A gather takes about as long as one of a column that is stored
// widened (BenchmarkWiden).
func (s *Store) Widened(to unified.DType, code *graph.Code, scales unified.Tensor) (*Store, error) {
	c := s.column
	w := &widening{to: to, from: c.DType(), width: int(c.Width()), rank: c.Rank()}
	ok := !scales.Valid()
	wide := *s
	switch {
	case code != nil:
		ok = ok && w.from == unified.Uint8 && c.Rank() == 2 && w.decode(code, c.Width())
		for i, d := range code.Shape {
			if i+1 < len(wide.shape) {
				wide.shape[i+1] = d
			}
		}
	case w.from == unified.Int8:
		v, err := unified.View[float32](scales)
		w.scales, ok = v, err == nil && scales.Rank() == 1 && scales.Len() == c.Len()
	default:
		ok = ok && w.from.IsHalf()
	}
	if !ok || !to.IsHalf() && to != unified.Float32 || w.width >= MaxRowBytes/4 {
		return nil, fmt.Errorf("%w: %v with scales %v cannot be widened to %v", unified.ErrShape, c, scales, to)
	}
	wide.wide = w
	return &wide, nil
}

// decode notes how rows of this number of bytes are decoded; not ok where the code's rows are longer.
func (w *widening) decode(code *graph.Code, bytes int64) bool {
	w.code, w.vectors = narrow.Of(code.Name), codeVectors[code.Name]
	n := int64(1)
	for _, d := range code.Shape {
		if d <= 0 || n > MaxRowBytes/d {
			return false
		}
		n *= d
	}
	w.width, w.rank = int(n), len(code.Shape)+1
	return w.code != nil && w.rank <= unified.MaxRank && w.code.RowBytes(n) <= bytes
}

// Wide reports whether the store is Widened, and how its rows are stored: the name of their code, empty for plain
// numbers, and how many numbers a row has.
func (s *Store) Wide() (code string, width int64, is bool) {
	if s.wide == nil {
		return "", 0, false
	}
	if s.wide.code != nil {
		code = s.wide.code.Name
	}
	return code, int64(s.wide.width), true
}

// DType returns the type of the rows that Gather delivers.
func (s *Store) DType() unified.DType {
	if s.wide != nil {
		return s.wide.to
	}
	return s.column.DType()
}

// OutBytes returns the bytes of a row that Gather delivers.
func (s *Store) OutBytes() int64 {
	if s.wide != nil {
		return s.wide.to.Size() * int64(s.wide.width)
	}
	return s.rowBytes
}

// rank returns the rank of what Gather delivers.
func (s *Store) rank() int {
	if s.wide != nil {
		return s.wide.rank
	}
	return s.column.Rank()
}

// widenRows writes row ids[i] of the column to row i of dst, as other numbers. Rows are prefetched ahead.
func widenRows[I rowID](s *Store, dst []byte, ids []I) {
	src, rowBytes, out, w := s.column.Bytes(), int(s.rowBytes), int(s.OutBytes()), s.wide
	block, lines := aheadRows(rowBytes), aheadLines(rowBytes)
	table := unsafe.Pointer(unsafe.SliceData(src))
	fetch := func(ids []I) {
		prefetchRows(table, ids, rowBytes, lines)
		if w.scales != nil {
			prefetchRows(unsafe.Pointer(unsafe.SliceData(w.scales)), ids, 4, 0)
		}
	}
	fetch(ids[:min(block, len(ids))])
	room := pieces.Get().(*[widenPiece]float32)
	defer pieces.Put(room)
	for i, id := range ids {
		if next := i + block; next < len(ids) {
			fetch(ids[next : next+1])
		}
		scale := float32(1)
		if w.scales != nil {
			scale = w.scales[id]
		}
		w.row(dst[i*out:(i+1)*out], src[int(id)*rowBytes:(int(id)+1)*rowBytes], scale, room)
	}
}

// WidenInPlace widens stored rows of the column, such as rows read from a disk. They are one after another at the end
// of room, which has the larger of RowBytes and OutBytes for each. Afterwards they are at its beginning, as Gather
// delivers them. Row i is rows[i] of the column. The store must be Widened.
func (s *Store) WidenInPlace(room []byte, rows []uint32) {
	w, size, out := s.wide, int(s.rowBytes), int(s.OutBytes())
	stored := room[len(rows)*max(out-size, 0):]
	piece := pieces.Get().(*[widenPiece]float32)
	defer pieces.Put(piece)
	hold := make([]byte, size) // what is written of the last rows overlaps them
	for i, row := range rows {
		copy(hold, stored[i*size:(i+1)*size])
		scale := float32(1)
		if w.scales != nil {
			scale = w.scales[row]
		}
		w.row(room[i*out:(i+1)*out], hold, scale, piece)
	}
}

// widenPiece is how many numbers are widened at once on their way to 16 bits: whole groups of every code.
const widenPiece = 256

// pieces are room for numbers on their way.
var pieces = sync.Pool{New: func() any { return new([widenPiece]float32) }}

// row writes a row.
func (w *widening) row(to, row []byte, scale float32, room *[widenPiece]float32) {
	if w.to == unified.Float32 {
		w.floats(unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(to))), w.width), row, 0, scale)
		return
	}
	for at := 0; at < w.width; at += widenPiece {
		piece := room[:min(widenPiece, w.width-at)]
		w.floats(piece, row, at, scale)
		halve(w.to, to[2*at:], piece)
	}
}

// floats writes numbers at, at+1, ... of a row as float32.
func (w *widening) floats(to []float32, row []byte, at int, scale float32) {
	if w.code != nil {
		done := 0
		if w.vectors != nil {
			done = w.vectors(to, row, w.width, at)
		}
		w.code.Decode(to[done:], row, w.width, at+done)
		return
	}
	row = row[int64(at)*w.from.Size():]
	done := 0
	if n := len(to) &^ 7; n > 0 && widenVectors {
		p := unsafe.Pointer(unsafe.SliceData(row))
		switch w.from.Kind() {
		case unified.IEEE:
			widenF16(&to[0], p, n)
		case unified.Brain:
			widenBF16(&to[0], p, n)
		default:
			widenInt8(&to[0], p, n, scale)
		}
		done = n
	}
	widenPlain(w.from, to[done:], row[int64(done)*w.from.Size():], scale)
}

// widenPlain is the specification, and the only variant without assembly.
func widenPlain(t unified.DType, to []float32, row []byte, scale float32) {
	t.Floats(to, row)
	if t == unified.Int8 {
		for i := range to {
			to[i] *= scale
		}
	}
}

// int4Vectors reads what whole eights there are; at begins a group.
func int4Vectors(to []float32, row []byte, width, at int) int {
	n := len(to) &^ 7
	if n == 0 || !widenVectors {
		return 0
	}
	scales := narrow.ScaleBytes(width)
	bits := row[scales+at/2:]
	widenInt4(&to[0], unsafe.Pointer(&bits[0]), n, unsafe.Pointer(&row[at/16]))
	return n
}

// halve writes numbers as floats of 16 bits.
func halve(t unified.DType, to []byte, from []float32) {
	done := 0
	if n := len(from) &^ 7; n > 0 && widenVectors {
		if t == unified.Float16 {
			halveF16(unsafe.Pointer(&to[0]), &from[0], n)
		} else {
			halveBF16(unsafe.Pointer(&to[0]), &from[0], n)
		}
		done = n
	}
	t.PutFloats(to[2*done:], from[done:])
}
