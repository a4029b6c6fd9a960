package csc

import (
	"context"
	"fmt"
	"slices"
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

// pass is one walk over the source that places the edges of some leaves.
type pass struct {
	first, last          int // leaves first .. last-1
	firstEdge, edges     int64
	firstNode, nodesMost int64 // a bound of the nodes whose indptr it yields
}

// builder is a structure being built.
type builder struct {
	opt     Options
	lay     layout
	edges   int64
	largest int64 // edge number
	// entries[destination >> shift] leads to a leaf, or as its complement to a split, whose children follow further on.
	entries []int32
	splits  []split
	leaves  []leaf
	passes  []pass
	keep    bool  // the results are the caller's
	emitted int64 // nodes whose indptr has been yielded
	frees   []func()
}

func (b *builder) close() {
	for _, f := range b.frees {
		f()
	}
	b.frees = nil
}

// plan goes over the source to count, as often as it takes to have leaves that are small enough, and lays out the
// passes.
func plan[T ID](ctx context.Context, edges Edges[T], opt Options) (*builder, error) {
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
	room := b.lay.leafLimit(opt, b.edges, opt.MemoryLimit)
	if err := splitLeaves(ctx, b, edges, room); err != nil {
		return nil, err
	}
	b.orderLeaves()
	return b, b.layPasses(room)
}

// walk calls work for the pieces of every chunk, at most one per worker, concurrently; first is the position in the
// source of the piece's first edge.
func walk[T ID](ctx context.Context, b *builder, edges Edges[T], stage string,
	work func(w int, c Chunk[T], first int64) error) (int64, error) {
	seen := int64(0)
	err := edges(func(c Chunk[T]) error {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		n := len(c.Src)
		if len(c.Dst) != n || c.Types != nil && len(c.Types) != n || c.Numbers != nil && len(c.Numbers) != n {
			return fmt.Errorf("csc: a chunk of %d sources, %d destinations, %d types, %d numbers", n, len(c.Dst),
				len(c.Types), len(c.Numbers))
		}
		workers := min(b.opt.Workers, n/4096+1)
		if err := Parallel(workers, func(w int) error {
			lo, hi := n*w/workers, n*(w+1)/workers
			return work(w, c.piece(lo, hi), seen+int64(lo))
		}); err != nil {
			return err
		}
		seen += int64(n)
		b.opt.Progress(stage, seen, max(b.edges, seen))
		return nil
	})
	return seen, err
}

func (c Chunk[T]) piece(lo, hi int) Chunk[T] {
	p := Chunk[T]{Src: c.Src[lo:hi], Dst: c.Dst[lo:hi]}
	if c.Types != nil {
		p.Types = c.Types[lo:hi]
	}
	if c.Numbers != nil {
		p.Numbers = c.Numbers[lo:hi]
	}
	return p
}

// Parallel calls f(0) .. f(n-1) concurrently and returns the error of the lowest number that failed.
func Parallel(n int, f func(w int) error) error {
	if n == 1 {
		return f(0)
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for w := 1; w < n; w++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[w] = f(w)
		}()
	}
	errs[0] = f(0)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// countTops is the first walk: it checks every edge and counts them by range of destinations.
func countTops[T ID](ctx context.Context, b *builder, edges Edges[T], lay layout) ([]int64, error) {
	counts := tables(b.opt.Workers, lay.tops)
	largest := make([]int64, b.opt.Workers)
	var err error
	b.edges, err = walk(ctx, b, edges, "count", func(w int, c Chunk[T], first int64) error {
		n, sources, cnt, shift := uint64(b.opt.Nodes), uint64(b.opt.Sources), counts[w], lay.shift
		for i, d := range c.Dst {
			if uint64(d) >= n || uint64(c.Src[i]) >= sources {
				return rangeError(c, i, first, b.opt)
			}
			cnt[uint64(d)>>shift]++
		}
		for i, t := range c.Types {
			if int(t) >= b.opt.Types {
				return rangeError(c, i, first, b.opt)
			}
		}
		for i, e := range c.Numbers {
			if e < 0 {
				return fmt.Errorf("csc: edge %d has the negative number %d", first+int64(i), e)
			}
			largest[w] = max(largest[w], e)
		}
		return nil
	})
	b.largest = max(b.edges, slices.Max(largest))
	for _, t := range counts[1:] {
		for i, n := range t {
			counts[0][i] += n
		}
	}
	return counts[0], err
}

func rangeError[T ID](c Chunk[T], i int, first int64, opt Options) error {
	e := &RangeError{Edge: first + int64(i), What: "source", Value: int64(c.Src[i]), Limit: opt.Sources}
	if uint64(c.Src[i]) < uint64(opt.Sources) {
		e.What, e.Value, e.Limit = "destination", int64(c.Dst[i]), opt.Nodes
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
func splitLeaves[T ID](ctx context.Context, b *builder, edges Edges[T], room int64) error {
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
		if _, err := walk(ctx, b, edges, "split", func(w int, c Chunk[T], _ int64) error {
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

func countSplits[T ID](b *builder, c Chunk[T], counts []int64, firstNew int32) error {
	n, sources := uint64(b.opt.Nodes), uint64(b.opt.Sources)
	for i := range c.Src {
		src, dst := uint64(c.Src[i]), uint64(c.Dst[i])
		if src >= sources || dst >= n {
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

func typeAt[T ID](c Chunk[T], i int) uint64 {
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

// layPasses groups the leaves, in order, into passes that the memory limit has room for.
func (b *builder) layPasses(room int64) error {
	budget := int64(1<<63 - 1)
	if b.opt.MemoryLimit > 0 {
		scratch := int64(b.opt.Workers) * min(room, b.largestSort()) * (8 + b.lay.payload(b.largest))
		budget = b.opt.MemoryLimit - b.lay.tableBytes(b.opt, b.edges, room) - scratch
	}
	per := b.lay.edgeBytes(b.largest)
	p, cost := pass{}, int64(0)
	for i := range b.leaves {
		lf := &b.leaves[i]
		nodes := min(b.lay.nodes, int64(lf.top+1)<<b.lay.shift) - int64(lf.top)<<b.lay.shift
		add := lf.count * per
		if i == p.first || b.leaves[i-1].top != lf.top {
			add += 8 * (nodes + 1)
		}
		if cost+add > budget && i > p.first {
			b.passes = append(b.passes, p)
			p, cost = pass{first: i, firstEdge: lf.start}, 0
			add = lf.count*per + 8*(nodes+1)
		}
		if add > budget {
			return fmt.Errorf("%w: %d bytes; one range of destinations from node %d on takes %d bytes more than that",
				ErrMemory, b.opt.MemoryLimit, int64(lf.top)<<b.lay.shift, add-budget)
		}
		if i == p.first || b.leaves[i-1].top != lf.top {
			p.nodesMost += nodes
		}
		p.last, p.edges, cost = i+1, p.edges+lf.count, cost+add
	}
	b.passes = append(b.passes, p)
	if len(b.passes) > maxPasses {
		return fmt.Errorf("%w: %d bytes would take %d walks over the edges", ErrMemory, b.opt.MemoryLimit,
			len(b.passes))
	}
	return nil
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
