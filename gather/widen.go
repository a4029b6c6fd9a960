package gather

import (
	"fmt"
	"unsafe"

	"github.com/khop-gnn/khop/unified"
)

// Widened returns a store that delivers the rows of s, which are floats of 16 bits or int8, as float32. The numbers of
// row i of an int8 column are multiplied by scales[i]: float32 [n]; other columns have no scales. The result shares the
// column with s. unified.ErrShape for other types and scales.
//
// The column takes a half or a quarter of the memory; a gather takes about as long as one of float32 (BenchmarkWiden).
func (s *Store) Widened(scales unified.Tensor) (*Store, error) {
	w := *s
	if d := w.column.DType(); d.IsHalf() {
		w.wide = !scales.Valid()
	} else if d == unified.Int8 {
		v, err := unified.View[float32](scales)
		w.scales, w.wide = v, err == nil && scales.Rank() == 1 && scales.Len() == w.column.Len()
	}
	if !w.wide || w.column.Width() >= maxRow/4 {
		return nil, fmt.Errorf("%w: %v with scales %v cannot be widened to float32", unified.ErrShape, w.column, scales)
	}
	return &w, nil
}

// DType returns the type of the rows that Gather delivers.
func (s *Store) DType() unified.DType {
	if s.wide {
		return unified.Float32
	}
	return s.column.DType()
}

// OutBytes returns the bytes of a row that Gather delivers.
func (s *Store) OutBytes() int64 {
	if s.wide {
		return 4 * s.column.Width()
	}
	return s.rowBytes
}

// widenRows writes row ids[i] of the column to row i of dst, as float32. Rows are prefetched ahead.
func widenRows[I rowID](s *Store, dst []byte, ids []I) {
	src, width, rowBytes := s.column.Bytes(), int(s.column.Width()), int(s.rowBytes)
	out := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(dst))), len(ids)*width)
	block, lines := aheadRows(rowBytes), aheadLines(rowBytes)
	table := unsafe.Pointer(unsafe.SliceData(src))
	fetch := func(ids []I) {
		prefetchRows(table, ids, rowBytes, lines)
		if s.scales != nil {
			prefetchRows(unsafe.Pointer(unsafe.SliceData(s.scales)), ids, 4, 0)
		}
	}
	fetch(ids[:min(block, len(ids))])
	for i, id := range ids {
		if next := i + block; next < len(ids) {
			fetch(ids[next : next+1])
		}
		scale := float32(1)
		if s.scales != nil {
			scale = s.scales[id]
		}
		row := src[int(id)*rowBytes : (int(id)+1)*rowBytes]
		widenRow(s.column.DType(), out[i*width:(i+1)*width], row, scale)
	}
}

// widenRow writes a row as float32.
func widenRow(t unified.DType, to []float32, row []byte, scale float32) {
	done := 0
	if n := len(to) &^ 7; n > 0 && widenVectors {
		p := unsafe.Pointer(unsafe.SliceData(row))
		switch t.Kind() {
		case unified.IEEE:
			widenF16(&to[0], p, n)
		case unified.Brain:
			widenBF16(&to[0], p, n)
		default:
			widenInt8(&to[0], p, n, scale)
		}
		done = n
	}
	widenPlain(t, to[done:], row[int64(done)*t.Size():], scale)
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
