package diskio

import (
	"slices"
	"unsafe"

	"github.com/khop-gnn/khop/gather/disk"
)

// Layout says where the rows of a column lie in a file, and how the file is read best.
type Layout struct {
	Offset   int64 `json:"offset"` // of row 0
	RowBytes int64 `json:"row_bytes"`
	Rows     int64 `json:"rows"`
	disk.Shape
	// Where group is not 0, that many rows lie together, and the next such group begins groupBytes further on.
	group, groupBytes int64
}

// Move is a row that is copied: from a slot of the cache or a row of the batch, to a row of the batch or a slot.
type Move struct{ From, To uint32 }

// Read is a row of the column that is read to a row of the batch.
type Read struct{ Row, To uint32 }

// Spill is a row that is packed for a later batch: from a row of the batch, or from a slot just before it is kept for
// another row.
type Spill struct {
	From, To uint32 // To is its place in the pack
	at       int32  // of Keeps; -1: From is a row of the batch
}

// Plan says where the rows of a batch come from, and which of them the cache keeps. Rows of the batch are numbered as
// they were asked for, and from Rows on as in Along.
type Plan struct {
	Rows  int
	Asked []uint32 // [row of the batch] the row of the column
	Hits  []Move   // from slots
	Reads []Read   // from disk, ascending
	Same  []Move   // from rows that are there by then, to those that repeat them
	Along []Read   // from disk, for later batches: on pages of Reads
	Keeps []Move   // rows to slots, in this order, when all others are there
	// Packed are rows that come from the places of a pack, as Reads do from those of the column; Spills go there.
	Packed []Read
	Spills []Spill
	disk.Counts

	extents []extent
	chunks  []uint32 // of the pack, which have rows of this batch alone
}

// extent is one request.
type extent struct {
	offset, bytes   int64
	first, end      int // of Reads; a row may lie in several extents
	along, alongEnd int // of Along
}

func (p *Plan) reset(rows int) {
	*p = Plan{Rows: rows, Asked: slices.Grow(p.Asked[:0], rows)[:rows], Hits: p.Hits[:0], Reads: p.Reads[:0],
		Same: p.Same[:0], Along: p.Along[:0], Keeps: p.Keeps[:0], Packed: p.Packed[:0],
		Spills: p.Spills[:0], extents: p.extents[:0], chunks: p.chunks[:0]}
}

func (p *Plan) counts(l *Layout) {
	p.Counts = disk.Counts{Batches: 1, Rows: int64(p.Rows - len(p.Same)), Misses: int64(len(p.Reads) + len(p.Packed)),
		Packed: int64(len(p.Packed)), Along: int64(len(p.Along)), Requests: int64(len(p.extents))}
	for i := range p.extents {
		p.Bytes += p.extents[i].bytes
	}
	p.Useful = (int64(len(p.Reads)) + p.Counts.Along) * l.RowBytes
}

// place returns where in the file a row lies.
func (l *Layout) place(row uint32) (begin, end int64) {
	if l.group == 0 {
		begin = l.Offset + int64(row)*l.RowBytes
	} else {
		begin = l.Offset + int64(row)/l.group*l.groupBytes + int64(row)%l.group*l.RowBytes
	}
	return begin, begin + l.RowBytes
}

func floor(n, unit int64) int64 { return n / unit * unit }
func ceil(n, unit int64) int64  { return (n + unit - 1) / unit * unit }

// merge makes requests of the rows that a plan reads.
func (l *Layout) merge(p *Plan) {
	for i := 0; i < len(p.Reads); {
		first := i
		begin, end := l.place(p.Reads[i].Row)
		begin, end = floor(begin, l.Page), ceil(end, l.Page)
		for i++; i < len(p.Reads); i++ {
			from, to := l.place(p.Reads[i].Row)
			if floor(from, l.Page)-end > l.Gap || ceil(to, l.Page)-begin > l.Most {
				break
			}
			end = max(end, ceil(to, l.Page))
		}
		for ; begin < end; begin += l.Most {
			p.extents = append(p.extents, extent{offset: begin, bytes: min(l.Most, end-begin), first: first, end: i})
		}
	}
}

// trim takes from the ends of requests what no row needs.
func (l *Layout) trim(p *Plan) {
	for i := range p.extents {
		e := &p.extents[i]
		begin, _ := l.place(p.Reads[e.first].Row)
		_, end := l.place(p.Reads[e.end-1].Row)
		if e.alongEnd > e.along {
			first, _ := l.place(p.Along[e.along].Row)
			_, last := l.place(p.Along[e.alongEnd-1].Row)
			begin, end = min(begin, first), max(end, last)
		}
		begin, end = max(e.offset, floor(begin, l.Sector)), min(e.offset+e.bytes, ceil(end, l.Sector))
		e.offset, e.bytes = begin, end-begin
	}
}

// rowsWithin returns which rows lie in a request as a whole.
func (l *Layout) rowsWithin(e *extent) (lo, hi int64) {
	lo = max(0, e.offset-l.Offset+l.RowBytes-1) / l.RowBytes
	hi = max(0, e.offset+e.bytes-l.Offset) / l.RowBytes
	return lo, min(hi, l.Rows)
}

// needed returns how many bytes of a request are of rows that it is for.
func (l *Layout) needed(p *Plan, e *extent) int64 {
	_, end := l.place(p.Reads[e.end-1].Row)
	if e.alongEnd > e.along {
		_, last := l.place(p.Along[e.alongEnd-1].Row)
		end = max(end, last)
	}
	return min(e.bytes, end-e.offset)
}

// memory returns what the plan takes.
func (p *Plan) memory() int64 {
	pairs := cap(p.Hits) + cap(p.Reads) + cap(p.Same) + cap(p.Along) + cap(p.Keeps) + cap(p.Packed)
	return int64(pairs)*8 + int64(cap(p.Asked)+cap(p.chunks))*4 + int64(cap(p.Spills))*int64(unsafe.Sizeof(Spill{})) +
		int64(cap(p.extents))*int64(unsafe.Sizeof(extent{}))
}
