package gather

import (
	"errors"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"github.com/khop-gnn/khop/internal/prefetch"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// rowID is the type of an id, a row number of the table.
type rowID interface{ int32 | int64 }

// A variant is a way to copy rows; all give the same bytes. The processor decides which are available.
type variant uint8

const (
	plain      variant = iota // copy, row by row: the specification
	prefetched                // the same with rows prefetched ahead
	avx2                      // vectors of 32 bytes
	avx512                    // vectors of 64 bytes
)

func (v variant) String() string { return [...]string{"plain", "prefetched", "avx2", "avx512"}[v] }

// best is the variant in use.
var best = variants()[0]

// Kernel names the code that copies rows of 64 bytes and more on this processor: "avx512", "avx2", "prefetched"
// (by Go's own copy, rows prefetched ahead) or "plain". All copy the same bytes.
func Kernel() string { return best.String() }

// How rows are copied was chosen by measurement on Zen 4, Zen 5 and a Xeon (docs/results/feed.md;
// BenchmarkCopyRows). Nothing is measured at run time.
//
//   - Prefetching decides, and by two levels: a core of Zen 4 has twice as many misses on their way to its second-level
//     cache (T1) as to the first (T0), so rows are asked for there first, all lines, up to 2 KiB. Rows of 400 B are
//     copied 1.5 times as fast as with T0 alone, of 200 B three times. How far ahead matters little, so it is given in
//     bytes, with bounds for the narrowest and the widest rows.
//   - What then waits for the second level is asked for again into the first, shortly before it is copied: four lines
//     and the last of rows above 256 B, the last of others. More or none is slower, as much as a fifth.
//   - Loads must stay within the row: a masked load whose dead lanes reach into the next line waits for that line, a
//     fifth of all time at 400 B. So the end of a row is copied by a vector that overlaps what is copied already.
//   - Non-temporal stores gain a quarter where dst is larger than the caches, if no line is written in two parts: then
//     dst is not read first. With seven slots of 8 MB they gain a tenth, with 1 MB they lose half.
const (
	narrowRow   = 64       // rows below are copied in Go: a few moves each
	giantRow    = 64 << 10 // rows above are left to copy(), which no kernel beats
	chunkBytes  = 256 << 10
	chunkRows   = 1024 // rows to copy between two points where the goroutine may be preempted
	streamBytes = 6 << 20
	cacheLine   = 64
)

// aheadRows returns how many rows ahead to prefetch.
func aheadRows(rowBytes int) int { return min(max(9600/rowBytes, 16), 64) }

// aheadLines returns how many of a row's lines to prefetch besides the last.
func aheadLines(rowBytes int) int {
	if rowBytes < cacheLine && cacheLine%rowBytes != 0 {
		return 1 // unless a row is in one line
	}
	lines := rowBytes / cacheLine // and one more where rows begin within a line
	if rowBytes%cacheLine == 0 {
		return min(lines-1, 32)
	}
	return min(lines+1, 32)
}

// nearLines returns how many of a row's lines to prefetch a second time, besides the last.
func nearLines(rowBytes int) int {
	if rowBytes > 256 {
		return 4
	}
	return 0
}

// copyRows copies row ids[i] of src to row i of dst, for each i. A row is rowBytes long, 1 at least.
//
// Every id must be a row of src (rangeOK32); dst must hold len(ids) rows and not overlap src. Only those rows are read
// and written. Neither needs to be aligned, though a dst at a multiple of 64 is best. A fault in src, a mapped file
// that was cut short, is an ordinary Go panic (debug.SetPanicOnFault), after which dst is undefined.
func copyRows[I rowID](v variant, dst, src []byte, ids []I, rowBytes int) {
	if len(ids) == 0 {
		return
	}
	dst = dst[:len(ids)*rowBytes]
	table := unsafe.Pointer(unsafe.SliceData(src))
	switch {
	case v == plain || rowBytes > giantRow:
		copyPlain(dst, src, ids, rowBytes)
	case rowBytes < narrowRow:
		copyNarrow(dst, table, ids, rowBytes)
	case v == prefetched:
		copyPrefetched(dst, src, ids, rowBytes)
	case len(dst) >= streamBytes && uintptr(unsafe.Pointer(&dst[0]))%cacheLine == 0:
		streamRows(v, dst, table, ids, rowBytes)
	default:
		copyVectors(v, dst, table, ids, rowBytes)
	}
}

// copyPlain is the specification, and the only variant without assembly.
func copyPlain[I rowID](dst, src []byte, ids []I, rowBytes int) {
	for i, id := range ids {
		copy(dst[i*rowBytes:(i+1)*rowBytes], src[int(id)*rowBytes:])
	}
}

// prefetchRows prefetches the first lines of the rows that ids name, and the last of each.
func prefetchRows[I rowID](table unsafe.Pointer, ids []I, rowBytes, lines int) {
	if unsafe.Sizeof(I(0)) == 4 {
		prefetch.Rows32(table, *(*[]int32)(unsafe.Pointer(&ids)), rowBytes, lines)
	} else {
		prefetch.Rows64(table, *(*[]int64)(unsafe.Pointer(&ids)), rowBytes, lines)
	}
}

// copyPrefetched is copyPlain with the rows of the next block prefetched before a block is copied.
func copyPrefetched[I rowID](dst, src []byte, ids []I, rowBytes int) {
	block, lines := aheadRows(rowBytes), aheadLines(rowBytes)
	table := unsafe.Pointer(unsafe.SliceData(src))
	for b := 0; b < len(ids); b += block {
		e := min(b+block, len(ids))
		prefetchRows(table, ids[e:min(e+block, len(ids))], rowBytes, lines)
		copyPlain(dst[b*rowBytes:], src, ids[b:e], rowBytes)
	}
}

// rowsPerCall returns how many rows to hand to assembly at once: it cannot be preempted. It is a multiple of 64, so
// that every call finds dst aligned as the first did.
func rowsPerCall(rowBytes int) int {
	return min(max(chunkBytes/rowBytes, cacheLine)&^(cacheLine-1), chunkRows)
}

func copyVectors[I rowID](v variant, dst []byte, table unsafe.Pointer, ids []I, rowBytes int) {
	step, ahead, lines, near := rowsPerCall(rowBytes), aheadRows(rowBytes), aheadLines(rowBytes), nearLines(rowBytes)
	prefetchRows(table, ids[:min(ahead, len(ids))], rowBytes, lines)
	for b := 0; b < len(ids); b += step {
		n := min(step, len(ids)-b)
		copyCall(v, unsafe.Pointer(&dst[b*rowBytes]), table, &ids[b], n, len(ids)-b, rowBytes, ahead, lines, near)
	}
}

// streamRows is copyVectors with non-temporal stores. dst is aligned to a line.
func streamRows[I rowID](v variant, dst []byte, table unsafe.Pointer, ids []I, rowBytes int) {
	step, ahead, lines, near := rowsPerCall(rowBytes), aheadRows(rowBytes), aheadLines(rowBytes), nearLines(rowBytes)
	prefetchRows(table, ids[:min(ahead, len(ids))], rowBytes, lines)
	var room [4 * cacheLine]byte // a line that is aligned, with a line's room before and after
	at := cacheLine + int(-uintptr(unsafe.Pointer(&room))%cacheLine)
	line := unsafe.Pointer(&room[at])
	for b := 0; b < len(ids); b += step {
		n := min(step, len(ids)-b)
		left := streamCall(v, unsafe.Pointer(&dst[b*rowBytes]), table, &ids[b], n, len(ids)-b, rowBytes, ahead, lines,
			near, line)
		end := (b + n) * rowBytes
		copy(dst[end-left:end], room[at:])
	}
}

// rangeOK32 reports whether every id is at least 0 and below n.
func rangeOK32(ids []int32, n int64) bool {
	n = min(n, 1<<31) // every id that is not negative is below
	in := ^uint64(0)
	for _, id := range ids {
		in &= uint64(uint32(id)) - uint64(n) // the sign bit stays set as long as the ids are below n
	}
	return int64(in) < 0 || len(ids) == 0
}

// rangeOK64 reports whether every id is at least 0 and below n.
func rangeOK64(ids []int64, n int64) bool {
	in := ^uint64(0)
	for _, id := range ids {
		in &= (uint64(id) - uint64(n)) &^ uint64(id) // a negative id clears the sign bit as well
	}
	return int64(in) < 0 || len(ids) == 0
}

// leastPart is how many bytes of rows make a goroutine worth its start.
const leastPart = 64 << 10

// copyParts is copyRows by several goroutines, this one among them: to wake another takes as long as to copy many rows.
func (s *Store) copyParts(dst []byte, ids unified.Tensor, parts int64) error {
	m, row := ids.Len(), s.OutBytes()
	part := func(i int64) error {
		lo, hi := i*m/parts, (i+1)*m/parts
		list, err := ids.Rows(lo, hi)
		if err != nil {
			return err
		}
		return pinned.Guard(func() error { return s.copyRows(dst[lo*row:hi*row], list) })
	}
	var group errgroup.Group
	for i := range parts - 1 {
		group.Go(func() error { return part(i) })
	}
	mine := part(parts - 1)
	if err := errors.Join(group.Wait(), mine); err != nil {
		if first := s.copyRows(dst, ids); first != nil { // it names the first of all ids
			return first
		}
		return err
	}
	return nil
}
