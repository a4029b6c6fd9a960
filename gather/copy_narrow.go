package gather

import "unsafe"

// narrowBlock is how many narrow rows are prefetched at once.
const narrowBlock = 64

// copyNarrow copies rows of less than narrowRow bytes. A row is moved by two or four moves that may overlap within it,
// so that one loop serves all widths of a class, and no byte beside the row is read: a wider read would wait for the
// line behind.
func copyNarrow[I rowID](dst []byte, table unsafe.Pointer, ids []I, rowBytes int) {
	lines := aheadLines(rowBytes)
	for b := 0; b < len(ids); b += narrowBlock {
		e := min(b+narrowBlock, len(ids))
		prefetchRows(table, ids[e:min(e+narrowBlock, len(ids))], rowBytes, lines)
		d := unsafe.Pointer(&dst[b*rowBytes])
		switch {
		case rowBytes >= 32:
			copyBlock32(d, table, ids[b:e], rowBytes)
		case rowBytes >= 16:
			copyBlock[[16]byte](d, table, ids[b:e], rowBytes)
		case rowBytes > 8:
			copyBlock[[8]byte](d, table, ids[b:e], rowBytes)
		case rowBytes == 8:
			copyElements[[8]byte](d, table, ids[b:e])
		case rowBytes > 4:
			copyBlock[[4]byte](d, table, ids[b:e], rowBytes)
		case rowBytes == 4:
			copyElements[[4]byte](d, table, ids[b:e])
		case rowBytes == 3:
			copyBlock[[2]byte](d, table, ids[b:e], rowBytes)
		case rowBytes == 2:
			copyElements[[2]byte](d, table, ids[b:e])
		default:
			copyElements[[1]byte](d, table, ids[b:e])
		}
	}
}

// A piece is what one move copies. Arrays need no alignment.
type piece interface {
	[1]byte | [2]byte | [4]byte | [8]byte | [16]byte
}

// copyElements copies rows that are one piece.
func copyElements[P piece, I rowID](d, table unsafe.Pointer, ids []I) {
	out := unsafe.Slice((*P)(d), len(ids))
	var p P
	for i, id := range ids {
		out[i] = *(*P)(unsafe.Add(table, uintptr(id)*unsafe.Sizeof(p)))
	}
}

// copyBlock copies rows of one to two pieces.
func copyBlock[P piece, I rowID](d, table unsafe.Pointer, ids []I, rowBytes int) {
	var p P
	last := rowBytes - int(unsafe.Sizeof(p))
	for i, id := range ids {
		s, t := unsafe.Add(table, int(id)*rowBytes), unsafe.Add(d, i*rowBytes)
		*(*P)(t) = *(*P)(s)
		*(*P)(unsafe.Add(t, last)) = *(*P)(unsafe.Add(s, last))
	}
}

// copyBlock32 copies rows of 32 to 64 bytes.
func copyBlock32[I rowID](d, table unsafe.Pointer, ids []I, rowBytes int) {
	last := rowBytes - 16
	for i, id := range ids {
		s, t := unsafe.Add(table, int(id)*rowBytes), unsafe.Add(d, i*rowBytes)
		*(*[16]byte)(t) = *(*[16]byte)(s)
		*(*[16]byte)(unsafe.Add(t, 16)) = *(*[16]byte)(unsafe.Add(s, 16))
		*(*[16]byte)(unsafe.Add(t, last-16)) = *(*[16]byte)(unsafe.Add(s, last-16))
		*(*[16]byte)(unsafe.Add(t, last)) = *(*[16]byte)(unsafe.Add(s, last))
	}
}
