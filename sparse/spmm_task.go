package sparse

import (
	"math/bits"
	"unsafe"

	"github.com/khop-gnn/khop/unified"
)

// spmmRun is what a kernel reads: a tile of columns of x and y. Its layout is known to tools/asm.
type spmmRun struct {
	x                unsafe.Pointer // column 0 of the tile in row 0
	y                uintptr        // the same of y; row 0 itself may lie nowhere
	weights          unsafe.Pointer // of edge 0, or nil
	scale            unsafe.Pointer // float32 of row 0, or nil
	indptr           unsafe.Pointer
	indices          unsafe.Pointer
	limit            uintptr // the address of the first index that has none so far ahead
	xStride, yStride int     // bytes of a row
	ahead            int     // bytes of the indices from an edge to the one whose row is prefetched
	tail             int     // bytes of x from column 0 of the tile to its last vector
	wide             uint64  // 1: indptr is int64
	mask             uint64  // which lanes a tile narrower than a vector has: bits, or the address of words
	extra            int     // bytes from column 0 of the tile to its last; 0 where rows of x are whole lines
	index            int     // bytes of an index, of which the lower 4 count
	vectors          int     // of the tile; 0: less than one
	step             int     // bytes from the weight of an edge to the next; 0: no weights, or the same for all
	brain            uint64  // 1: x is of unified.Brain, where it has 16 bits
	shift            uint64  // the logarithm of index
}

// strategy is how an SpMM is computed. No strategy changes the result.
type strategy struct {
	variant variant
	tile    int   // most vectors of a tile
	ahead   int   // edges between the one in hand and the one whose row is prefetched
	part    int64 // rows and edges of a part
	group   int64 // rows and edges whose tiles follow each other, so that a row of x is in reach for all of them
	stream  bool  // y passes the caches
}

// spmmTask is the SpMM in hand.
type spmmTask struct {
	a        *Matrix
	width    int64
	heads    int64
	dtype    unified.DType // of x
	y        unsafe.Pointer
	run      spmmRun
	strategy strategy
	aligned  bool // rows of x begin with a cache line
	stream   bool // y passes the caches
	passes   []pass
	own      []ownRun // [worker]
}

// pass is a tile of columns.
type pass struct {
	vectors int
	column  int64
	tail    int64 // columns from column to the last vector
	head    int64
}

func (t *spmmTask) init(workers int) {
	t.own = make([]ownRun, workers)
	for i := range t.own {
		t.own[i].init()
	}
}

func (t *spmmTask) set(y unified.Tensor, r Reduce, a *Matrix, values, x unified.Tensor) {
	t.a, t.width, t.y = a, x.Width(), address(y)
	t.dtype = x.DType()
	t.run = spmmRun{x: address(x), xStride: int(t.size() * t.width), yStride: int(4 * t.width), index: a.indexBytes(),
		shift: uint64(bits.TrailingZeros(uint(a.indexBytes())))}
	t.heads = 1
	if t.halves() {
		t.run.weights = unsafe.Pointer(&one)
	}
	if t.dtype.Kind() == unified.Brain {
		t.run.brain = 1
	}
	if values.Valid() {
		t.run.weights, t.heads, t.run.step = address(values), headsOf(values), floatBytes
	}
	if r == Mean {
		t.run.scale = unsafe.Pointer(&a.inverseDegrees()[0])
	}
}

// one is the weight of edges without values.
var one float32 = 1

// size returns the bytes of an element of x.
func (t *spmmTask) size() int64 { return int64(t.dtype.Size()) }

// halves reports whether x has 16 bits.
func (t *spmmTask) halves() bool { return t.dtype != unified.Float32 }

// fit changes a strategy to one that these operands allow: kernels read the lower half of an index, and those for 16
// bits take one to eight whole vectors.
func (t *spmmTask) fit() {
	width := t.width / t.heads
	if t.halves() {
		t.strategy.tile = min(t.strategy.tile, maxHalf)
		if t.strategy.variant == avx512 && width < int64(avx512.bytes()/4) {
			t.strategy.variant = avx2
		}
	}
	if t.a.cols > 1<<32 || t.halves() && width < int64(avx2.bytes()/4) {
		t.strategy.variant = plain
	}
}

// prepare cuts the columns into tiles and returns the number of parts.
func (t *spmmTask) prepare(workers int) int64 {
	t.fit()
	t.passes = t.passes[:0]
	t.run.ahead = t.strategy.ahead * t.a.indexBytes()
	indptr, wide, first, last := t.a.pointers()
	t.run.indptr, t.run.wide, t.run.indices = indptr, wide, first
	t.run.limit = uintptr(last) + uintptr(t.run.index-t.run.ahead)
	t.aligned = t.run.xStride%cacheLine == 0 && uintptr(t.run.x)%cacheLine == 0
	t.stream = t.strategy.stream && t.strategy.variant != plain && t.run.yStride <= streamRoom
	if t.strategy.variant != plain {
		t.tile()
	}
	work := t.a.edges + t.a.rows
	if work*t.width < smallWork {
		return 1
	}
	return max((work+t.strategy.part-1)/t.strategy.part, min(int64(workers), t.a.rows))
}

// tile makes the passes of every head.
func (t *spmmTask) tile() {
	v, width := t.strategy.variant, t.width/t.heads
	if lanes := int64(v.bytes() / 4); width < lanes {
		t.run.mask = maskOf(v, int(width))
	}
	for h := range t.heads {
		t.passes = appendPasses(t.passes, t.strategy, width, h)
	}
}

// appendPasses appends tiles of equal width, up to a vector, that cover a head. The last vector of all ends with the
// last column and may overlap the one before: both have the same sums.
func appendPasses(passes []pass, p strategy, width, head int64) []pass {
	lanes, first := int64(p.variant.bytes()/4), head*width
	if width < lanes {
		return append(passes, pass{0, first, width - lanes, head})
	}
	vectors := (width + lanes - 1) / lanes
	tiles := (vectors + int64(p.tile) - 1) / int64(p.tile)
	for i := range tiles {
		from, to := vectors*i/tiles, vectors*(i+1)/tiles
		column, n := from*lanes, to-from
		end := min(to*lanes, width) - lanes // of the last vector
		if n == 1 {
			column = end
		}
		passes = append(passes, pass{int(n), first + column, end - column, head})
	}
	return passes
}

// do computes the rows of a part: those that begin in an equal share of rows and edges together.
func (t *spmmTask) do(worker int, part, parts int64) {
	lo, hi := t.a.rowAt(part, parts), t.a.rowAt(part+1, parts)
	if lo == hi {
		return
	}
	if t.strategy.variant == plain {
		t.plain(&t.own[worker], lo, hi)
		return
	}
	own := &t.own[worker]
	own.spmmRun = t.run
	if t.stream {
		own.begin(t.y, int(lo)*t.run.yStride)
	}
	for group := hi; lo < hi; lo = group {
		if len(t.passes) > 1 || t.stream {
			group = t.a.rowAfter(lo, hi, t.strategy.group)
		}
		if !t.stream {
			t.tiles(own, uintptr(t.y), lo, group)
			continue
		}
		group = min(group, lo+int64(streamRoom/t.run.yStride))
		t.tiles(own, own.next()-uintptr(lo)*uintptr(t.run.yStride), lo, group)
		own.flush(t.strategy.variant, int(group-lo)*t.run.yStride)
	}
	if t.stream {
		own.end()
	}
}

// tiles computes all tiles of some rows. y is where row 0 would be.
func (t *spmmTask) tiles(own *ownRun, y uintptr, lo, hi int64) {
	for _, s := range t.passes {
		if t.run.step > 0 {
			own.weights = unsafe.Add(t.run.weights, s.head*4*t.a.edges)
		}
		own.x, own.y = unsafe.Add(t.run.x, t.size()*s.column), y+uintptr(4*s.column)
		own.vectors, own.tail, own.extra = s.vectors, int(t.size()*s.tail), 0
		if !t.aligned {
			own.extra = own.tail + t.strategy.variant.bytes()/4*int(t.size()) - 1
		}
		own.sum(t.strategy.variant, t.halves(), int(lo), int(hi))
	}
}

// rowAt returns the first row of a part: the first before which there is that part of all rows and edges.
func (a *Matrix) rowAt(part, parts int64) int64 {
	if part >= parts {
		return a.rows
	}
	before := part*((a.rows+a.edges)/parts) + part*((a.rows+a.edges)%parts)/parts
	lo, hi := int64(0), a.rows
	for lo < hi {
		if mid := (lo + hi) / 2; mid+a.start(mid) < before {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// rowAfter returns a row that is about work rows and edges further: at least one row, at most hi.
func (a *Matrix) rowAfter(lo, hi, work int64) int64 {
	row, end := lo+1, lo+a.start(lo)+work
	for row < hi && row+a.start(row) < end {
		row++
	}
	return row
}
