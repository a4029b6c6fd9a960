package csc

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
)

// leaf is a range of keys that is sorted by itself: all keys with the same prefix.
type leaf struct {
	count int64
	start int64 // position of its first edge in the structure
	bits  int   // by which its keys differ; 0: all are equal, and in order already
	top   int   // destination >> shift
}

// split cuts an oversized leaf by the next bits of the key.
type split struct {
	base  int // of its children in builder.entries
	shift int
	mask  uint64
}

// builder is a structure being built.
type builder struct {
	opt   Options
	lay   layout
	edges int64
	// entries[destination >> shift] leads to a leaf, or as its complement to a split, whose children follow further on.
	entries []int32
	splits  []split
	leaves  []leaf
	frees   []func()
}

func (b *builder) close() {
	for _, f := range b.frees {
		f()
	}
	b.frees = nil
}

// plan goes over the source to count, as often as it takes to have leaves that are small enough.
func plan(ctx context.Context, edges Edges, opt Options) (*builder, error) {
	opt = opt.withDefaults()
	if err := opt.validate(); err != nil {
		return nil, err
	}
	b := &builder{opt: opt}
	fine := newLayout(opt, 1<<60)
	counts, err := countTops(ctx, b, edges, fine)
	if err != nil {
		return nil, err
	}
	b.lay = newLayout(opt, b.edges)
	b.entries, b.leaves = make([]int32, b.lay.tops), make([]leaf, b.lay.tops)
	for i := range b.entries {
		b.entries[i] = int32(i)
		b.leaves[i] = leaf{bits: b.lay.keyBits(), top: i}
	}
	for i, n := range counts {
		b.leaves[i>>(b.lay.shift-fine.shift)].count += n
	}
	if err := splitLeaves(ctx, b, edges, leafLimit(opt, b.edges)); err != nil {
		return nil, err
	}
	b.orderLeaves()
	return b, nil
}

// walk calls work for the pieces of every chunk, at most one per worker, concurrently; first is the position in the
// source of the piece's first edge.
func walk(ctx context.Context, b *builder, edges Edges, work func(w int, c Chunk, first int64) error) (int64, error) {
	seen := int64(0)
	err := edges(func(c Chunk) error {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		n := len(c.Src)
		if !c.even() {
			return fmt.Errorf("csc: a chunk of %d sources, %d destinations, %d types", n, len(c.Dst), len(c.Types))
		}
		workers := min(b.opt.Workers, n/4096+1)
		if err := Parallel(workers, func(w int) error {
			lo, hi := n*w/workers, n*(w+1)/workers
			return work(w, c.piece(lo, hi), seen+int64(lo))
		}); err != nil {
			return err
		}
		seen += int64(n)
		return nil
	})
	return seen, err
}

// even reports whether the slices have equal lengths.
func (c Chunk) even() bool {
	return len(c.Dst) == len(c.Src) && (c.Types == nil || len(c.Types) == len(c.Src))
}

func (c Chunk) piece(lo, hi int) Chunk {
	p := Chunk{Src: c.Src[lo:hi], Dst: c.Dst[lo:hi]}
	if c.Types != nil {
		p.Types = c.Types[lo:hi]
	}
	return p
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

// countTops is the first walk: it checks every edge and counts them by range of destinations.
func countTops(ctx context.Context, b *builder, edges Edges, lay layout) ([]int64, error) {
	counts := tables(b.opt.Workers, lay.tops)
	var err error
	b.edges, err = walk(ctx, b, edges, func(w int, c Chunk, first int64) error {
		n, cnt, shift := uint64(b.opt.Nodes), counts[w], lay.shift
		for i, d := range c.Dst {
			if uint64(d) >= n || uint64(c.Src[i]) >= n {
				return rangeError(c, i, first, b.opt)
			}
			cnt[uint64(d)>>shift]++
		}
		for i, t := range c.Types {
			if int(t) >= b.opt.Types {
				return rangeError(c, i, first, b.opt)
			}
		}
		return nil
	})
	for _, t := range counts[1:] {
		for i, n := range t {
			counts[0][i] += n
		}
	}
	return counts[0], err
}

func rangeError(c Chunk, i int, first int64, opt Options) error {
	e := &RangeError{Edge: first + int64(i), What: "source", Value: c.Src[i], Limit: opt.Nodes}
	if uint64(c.Src[i]) < uint64(opt.Nodes) {
		e.What, e.Value = "destination", c.Dst[i]
		if uint64(c.Dst[i]) < uint64(opt.Nodes) {
			e.What, e.Value, e.Limit = "type", int64(c.Types[i]), int64(opt.Types)
		}
	}
	return e
}

func tables(workers, n int) [][]int64 {
	t := make([][]int64, workers)
	for w := range t {
		t[w] = make([]int64, n)
	}
	return t
}

// splitLeaves splits every leaf of more than room edges by further bits of the key, until there is none or no bit is
// left.
func splitLeaves(ctx context.Context, b *builder, edges Edges, room int64) error {
	for {
		var over []int // entries of oversized leaves
		for i, e := range b.entries {
			if e >= 0 && b.leaves[e].count > room && b.leaves[e].bits > 0 {
				over = append(over, i)
			}
		}
		if len(over) == 0 {
			return nil
		}
		firstNew := len(b.leaves)
		for _, i := range over {
			b.split(i, splitBits(len(over), b.edges))
		}
		counts := tables(b.opt.Workers, len(b.leaves)-firstNew)
		if _, err := walk(ctx, b, edges, func(w int, c Chunk, _ int64) error {
			return countSplits(b, c, counts[w], int32(firstNew))
		}); err != nil {
			return err
		}
		for i := range counts[0] {
			for w := range counts {
				b.leaves[firstNew+i].count += counts[w][i]
			}
		}
	}
}

// split makes the leaf of an entry the parent of new ones.
func (b *builder) split(entry, nbits int) {
	old := b.leaves[b.entries[entry]]
	nbits = min(nbits, old.bits)
	s := split{base: len(b.entries), shift: old.bits - nbits, mask: 1<<nbits - 1}
	b.entries[entry] = int32(^len(b.splits))
	b.splits = append(b.splits, s)
	for range 1 << nbits {
		b.entries = append(b.entries, int32(len(b.leaves)))
		b.leaves = append(b.leaves, leaf{bits: s.shift, top: old.top})
	}
}

func countSplits(b *builder, c Chunk, counts []int64, firstNew int32) error {
	n := uint64(b.opt.Nodes)
	for i := range c.Src {
		src, dst := uint64(c.Src[i]), uint64(c.Dst[i])
		if src >= n || dst >= n {
			return ErrChanged
		}
		e := b.entries[dst>>b.lay.shift]
		if e >= 0 {
			continue
		}
		if e = b.descend(e, b.lay.key(src, dst, typeAt(c, i))); e >= firstNew {
			counts[e-firstNew]++
		}
	}
	return nil
}

func typeAt(c Chunk, i int) uint64 {
	if c.Types == nil {
		return 0
	}
	return uint64(c.Types[i])
}

// descend follows a key from a split to its leaf.
func (b *builder) descend(e int32, key uint64) int32 {
	for e < 0 {
		s := &b.splits[^e]
		e = b.entries[s.base+int(key>>s.shift&s.mask)]
	}
	return e
}

// orderLeaves numbers the leaves in the order of their keys and lays them out.
func (b *builder) orderLeaves() {
	ordered := make([]leaf, 0, len(b.leaves))
	var visit func(lo, hi int)
	visit = func(lo, hi int) {
		for i := lo; i < hi; i++ {
			if e := b.entries[i]; e < 0 {
				s := b.splits[^e]
				visit(s.base, s.base+int(s.mask)+1)
			} else {
				b.entries[i] = int32(len(ordered))
				ordered = append(ordered, b.leaves[e])
			}
		}
	}
	visit(0, b.lay.tops)
	start := int64(0)
	for i := range ordered {
		ordered[i].start = start
		start += ordered[i].count
	}
	b.leaves = ordered
}

// largestSort returns the most edges of a leaf that has to be sorted.
func (b *builder) largestSort() int64 {
	n := int64(0)
	for i := range b.leaves {
		if b.leaves[i].bits > 0 {
			n = max(n, b.leaves[i].count)
		}
	}
	return n
}
