package csc

import (
	"cmp"
	"math/bits"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A key holds, from the top: destination, type, source. Its top bits choose a range of destinations, which is not
// stored: a key that needs more than 64 bits loses only those.
//
// layout says how many bits each part has and how the destinations are cut into ranges.
type layout struct {
	idBits, typeBits   int // of a source, of a type
	idBytes, typeBytes int64
	shift              int // destination >> shift is its range
	ranges             int
}

const (
	maxRanges     = 4096    // streams that a core writes side by side while its translation cache still holds them
	maxRangesEver = 1 << 16 // where nodes are so many that a key would not fit 64 bits otherwise
	rangeEdges    = 1 << 14 // aimed at: few ranges are so uneven that their sort leaves the cache
	rangeNodes    = 1 << 18 // at most, while maxRanges allows: one worker writes their indptr
)

func newLayout(opt Options, types int, edges int64) layout {
	l := layout{idBits: bitsFor(opt.Nodes), typeBits: bitsFor(int64(types)), idBytes: IDBytes(opt.Nodes),
		typeBytes: TypeBytes(types)}
	if opt.idBits > 0 {
		l.idBits, l.idBytes = opt.idBits, 8
	}
	want := min(max(edges/rangeEdges, opt.Nodes/rangeNodes, 1), maxRanges)
	l.shift = min(bitsFor((opt.Nodes+want-1)/want), max(64-l.idBits-l.typeBits, 0))
	l.ranges = int(max((opt.Nodes+1<<l.shift-1)>>l.shift, 1))
	return l
}

// bitsFor returns how many bits tell n values apart.
func bitsFor(n int64) int { return bits.Len64(uint64(max(n, 1) - 1)) }

func (l *layout) fits() bool { return l.idBits+l.typeBits <= 64 && l.ranges <= maxRangesEver }

// builder is a structure being built.
type builder struct {
	edges []Edges // by type
	opt   Options
	lay   layout
	total int64
	frees []func()
}

func (b *builder) close() {
	for _, f := range b.frees {
		f()
	}
	b.frees = nil
}

// keep returns memory that close frees.
func (b *builder) keep(n int64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	mem, free, err := b.opt.Alloc(n)
	if err == nil {
		b.frees = append(b.frees, free)
	}
	return mem, err
}

// build fills in all of s but the numbers of the edges, which it returns if they are asked for.
func build[N Number](b *builder, s *Structure) (numbers []N, err error) {
	mem, err := b.keep(8 * b.total)
	if err != nil {
		return nil, err
	}
	keys := view[uint64](mem)
	if b.opt.Permutation {
		if mem, err = b.keep(b.total * int64(unsafe.Sizeof(*new(N)))); err != nil {
			return nil, err
		}
		numbers = view[N](mem)
	}
	*s = Structure{Indptr: make([]int64, b.opt.Nodes+1), Edges: b.total, Indices: heap(b.total * b.lay.idBytes),
		Types: heap(b.total * b.lay.typeBytes)}
	starts, err := place(b, keys, numbers)
	if err == nil {
		err = sortRanges(b, keys, numbers, starts, s)
	}
	s.Indptr[b.opt.Nodes] = b.total
	return numbers, err
}

// pieces calls do with the edges of a worker's share, type by type; first is the number of the first of them.
func (b *builder) pieces(w, workers int, do func(typ int, e Edges, first int64)) {
	lo, hi := b.total/int64(workers)*int64(w), b.total/int64(workers)*int64(w+1)
	if w == workers-1 {
		hi = b.total
	}
	at := int64(0) // the number of the type's first edge
	for typ, e := range b.edges {
		n := int64(len(e.Src))
		if from, to := max(lo-at, 0), min(hi-at, n); from < to {
			do(typ, Edges{Src: e.Src[from:to], Dst: e.Dst[from:to], From: e.From, To: e.To}, at+from)
		}
		at += n
	}
}

// place partitions keys, and numbers if there are any, by range, and returns where each range begins; last the number
// of edges. All workers count the edges of their share by range, and then put them behind those of the workers before
// them, so that ties keep their order.
func place[N Number](b *builder, keys []uint64, numbers []N) (starts []int64, err error) {
	workers := int(min(int64(b.opt.Workers), b.total/4096+1))
	cursors := make([][]int64, workers)
	err = Parallel(workers, func(w int) error {
		count := make([]int64, b.lay.ranges)
		b.pieces(w, workers, func(_ int, e Edges, _ int64) {
			for _, d := range e.Dst {
				count[uint64(d+e.To)>>b.lay.shift]++
			}
		})
		cursors[w] = count
		return nil
	})
	at := int64(0)
	for i := range b.lay.ranges {
		starts = append(starts, at)
		for _, c := range cursors {
			c[i], at = at, at+c[i]
		}
	}
	if err != nil {
		return nil, err
	}
	return append(starts, at), Parallel(workers, func(w int) error {
		b.pieces(w, workers, func(typ int, e Edges, first int64) {
			put(b, typ, e, first, keys, numbers, cursors[w])
		})
		return nil
	})
}

// put puts edges of a type where the cursors of their ranges are.
func put[N Number](b *builder, typ int, e Edges, first int64, keys []uint64, numbers []N, cursors []int64) {
	shift, idBits, dstBits := b.lay.shift, b.lay.idBits, b.lay.idBits+b.lay.typeBits
	src, low := e.Src[:len(e.Dst)], uint64(typ)<<idBits
	for i, d := range e.Dst {
		dst := uint64(d + e.To)
		pos := cursors[dst>>shift]
		cursors[dst>>shift] = pos + 1
		keys[pos] = dst<<dstBits | low | uint64(src[i]+e.From)
		if numbers != nil {
			numbers[pos] = N(first + int64(i))
		}
	}
}

// sortRanges sorts the ranges, the largest first, and turns keys into positions. A worker's first range is its largest,
// so that all of them together need no more room than there are edges.
func sortRanges[N Number](b *builder, keys []uint64, numbers []N, starts []int64, s *Structure) error {
	order := make([]int, b.lay.ranges)
	for i := range order {
		order[i] = i
	}
	size := func(i int) int64 { return starts[i+1] - starts[i] }
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(size(j), size(i)) })
	var next atomic.Int64
	return Parallel(min(b.opt.Workers, len(order)), func(int) error {
		var tmp []uint64
		var tmpNumbers []N
		for {
			k := int(next.Add(1)) - 1
			if k >= len(order) {
				return nil
			}
			i := order[k]
			if n := size(i); n > 0 && tmp == nil {
				room, free, err := scratch[N](b, n)
				if err != nil {
					return err
				}
				defer free()
				tmp, tmpNumbers = view[uint64](room[:8*n]), view[N](room[8*n:])
			}
			lo, hi := starts[i], starts[i+1]
			if numbers == nil {
				SortKeys[uint64, N](keys[lo:hi], tmp, nil, nil, b.lay.shift+b.lay.typeBits+b.lay.idBits)
			} else {
				SortKeys(keys[lo:hi], tmp, numbers[lo:hi], tmpNumbers, b.lay.shift+b.lay.typeBits+b.lay.idBits)
			}
			b.writeIndptr(keys[lo:hi], lo, i, s.Indptr)
			b.writeElements(keys[lo:hi], lo, s.Indices, s.Types)
		}
	})
}

// scratch returns room for n keys, and behind them their numbers, if they are asked for.
func scratch[N Number](b *builder, n int64) ([]byte, func(), error) {
	width := int64(8)
	if b.opt.Permutation {
		width += int64(unsafe.Sizeof(*new(N)))
	}
	return b.opt.Alloc(width * n)
}

// writeIndptr sets where the edges of each node of a range begin: keys are all of the range's, from position first on.
func (b *builder) writeIndptr(keys []uint64, first int64, index int, indptr []int64) {
	shift, mask := b.lay.idBits+b.lay.typeBits, uint64(1)<<b.lay.shift-1
	base := int64(index) << b.lay.shift
	node := base
	for i, k := range keys {
		for d := base + int64(k>>shift&mask); node <= d; node++ {
			indptr[node] = first + int64(i)
		}
	}
	for stop := min(b.opt.Nodes, base+1<<b.lay.shift); node < stop; node++ {
		indptr[node] = first + int64(len(keys))
	}
}

// writeElements writes the sources and types of keys from position at on.
func (b *builder) writeElements(keys []uint64, at int64, indices, types []byte) {
	idBits, end := b.lay.idBits, at+int64(len(keys))
	if b.lay.idBytes == 4 {
		unpack(view[int32](indices)[at:end], keys, 0, idBits)
	} else {
		unpack(view[int64](indices)[at:end], keys, 0, idBits)
	}
	switch b.lay.typeBytes {
	case 1:
		unpack(types[at:end], keys, idBits, b.lay.typeBits)
	case 2:
		unpack(view[uint16](types)[at:end], keys, idBits, b.lay.typeBits)
	}
}

// unpack writes some bits of each key, from bit from on.
func unpack[E uint8 | uint16 | int32 | int64](to []E, keys []uint64, from, nbits int) {
	mask := uint64(1)<<nbits - 1
	to = to[:len(keys)]
	for i, k := range keys {
		to[i] = E(k >> from & mask)
	}
}

// Parallel calls f(0) .. f(n-1) concurrently and returns the error of the lowest number that failed, when all have
// ended. A memory fault in one of them panics here, so that a caller who is guarded against faults need not care which
// goroutine reads a mapped file.
func Parallel(n int, f func(w int) error) error {
	if n == 1 {
		return f(0)
	}
	errs, faults := make([]error, n), make([]any, n)
	var wg sync.WaitGroup
	for w := 1; w < n; w++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer func() { faults[w] = faultOf(recover()) }()
			debug.SetPanicOnFault(true)
			errs[w] = f(w)
		}()
	}
	func() {
		defer wg.Wait()
		errs[0] = f(0)
	}()
	for _, p := range faults {
		if p != nil {
			panic(p)
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// faultOf returns a panic that is a memory fault, and passes others on.
func faultOf(p any) any {
	if _, fault := p.(interface {
		runtime.Error
		Addr() uintptr
	}); p != nil && !fault {
		panic(p)
	}
	return p
}
