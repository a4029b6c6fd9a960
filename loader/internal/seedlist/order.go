package seedlist

import (
	"cmp"
	"slices"
	"sort"

	"github.com/khop-gnn/khop/internal/rng"
)

// Spans are seeds in the order of their times, cut into batches that lie within a span of time each.
type Spans struct {
	items  []int64 // in the order of their times
	groups []int64 // where spans begin in items, and the end of the last
	starts []int64 // where batches begin
	size   int64   // of a batch, at most
}

// SpansOf cuts seeds, which have times: a batch has at most size of them, whose times are of one multiple of width, or
// for width 0 of any. With whole batches that have fewer are left out.
func (l *List) SpansOf(width, size int64, whole bool) *Spans {
	s := &Spans{items: make([]int64, l.Count), size: size}
	times := make([]int64, 0, l.Count)
	l.eachTime(func(at int64) { times = append(times, at) })
	for i := range s.items {
		s.items[i] = int64(i)
	}
	slices.SortStableFunc(s.items, func(a, b int64) int { return cmp.Compare(times[a], times[b]) })
	span := func(i int) int64 {
		if width == 0 {
			return 0
		}
		at := times[s.items[i]]
		if at%width < 0 {
			return at/width - 1
		}
		return at / width
	}
	for i := range s.items {
		if i == 0 || span(i) != span(i-1) {
			s.groups = append(s.groups, int64(i))
		}
	}
	s.groups = append(s.groups, l.Count)
	for g := range len(s.groups) - 1 {
		for lo := s.groups[g]; lo < s.groups[g+1]; lo += size {
			if !whole || lo+size <= s.groups[g+1] {
				s.starts = append(s.starts, lo)
			}
		}
	}
	return s
}

// bytes returns what the spans take.
func (s *Spans) bytes() int64 {
	if s == nil {
		return 0
	}
	return 8 * int64(len(s.items)+len(s.groups)+len(s.starts))
}

// group returns which span a place in the order of times is in.
func (s *Spans) group(i int64) int {
	return sort.Search(len(s.groups), func(k int) bool { return s.groups[k] > i }) - 1
}

// eachTime calls take for the times of all items, in order.
func (l *List) eachTime(take func(at int64)) {
	for k := range l.sets {
		for _, at := range l.sets[k].times {
			take(at)
		}
	}
	for k := range l.links {
		r := &l.links[k]
		n := r.end - r.begin
		if r.where == nil || r.where.only < 0 {
			for i := range n {
				take(r.times.at(i, i))
			}
			continue
		}
		for pos, i := int64(0), int64(0); i < n && pos < r.where.graph.NumEdges(); pos++ {
			if r.where.typeOf(pos) == r.where.only {
				take(r.times.at(i, pos))
				i++
			}
		}
	}
}

// Order is that of an epoch: which items a batch has.
type Order struct {
	size, count int64
	shuffle     *rng.Permutation // of items, or of batches where they lie within spans; nil: as they come
	spans       *Spans
	stage       uint64 // of what shuffles items within a span
}

// InOrder is that of seeds as they come: batches of so many.
func (l *List) InOrder(size int64) Order { return Order{size: size, count: l.Count, spans: l.Spans} }

// Shuffled is that of an epoch whose items are shuffled. Of items in spans batches are, and within a span items.
func (l *List) Shuffled(size int64, seed uint64, epoch, instance uint32) Order {
	o, n := l.InOrder(size), l.Count
	o.stage = rng.StageKey(rng.BatchKey(seed, epoch, instance, 0), l.key, rng.Shuffle, 0)
	if o.spans != nil {
		n = int64(len(o.spans.starts))
	}
	o.shuffle = rng.NewPermutation(rng.Stream(o.stage, 0), uint64(n))
	return o
}

// Batches returns how many an epoch has; whole leaves out one that has fewer seeds.
func (l *List) Batches(size int64, whole bool) uint64 {
	if l.Spans != nil {
		return uint64(len(l.Spans.starts))
	}
	n := uint64(l.Count / size)
	if l.Count%size != 0 && !whole {
		n++
	}
	return n
}

// Batch returns the items of a batch.
func (o *Order) Batch(number uint64) Items {
	if o.spans == nil {
		lo := int64(number) * o.size
		return Items{Len: min(o.size, o.count-lo), lo: lo, shuffle: o.shuffle}
	}
	if o.shuffle != nil {
		number = o.shuffle.At(number)
	}
	lo := o.spans.starts[number]
	g := o.spans.group(lo)
	first, end := o.spans.groups[g], o.spans.groups[g+1]
	b := Items{Len: min(o.size, end-lo), lo: lo - first, of: o.spans.items[first:end]}
	if o.shuffle != nil {
		b.shuffle = rng.NewPermutation(rng.Stream(o.stage, uint64(g)+1), uint64(end-first))
	}
	return b
}

// Items are those of a batch.
type Items struct {
	Len     int64
	lo      int64            // the first, in their order
	shuffle *rng.Permutation // nil: as they come
	of      []int64          // by their places; nil: a place is an item
}

// At returns item i of the batch, 0 <= i < Len.
func (b *Items) At(i int64) int64 {
	if i += b.lo; b.shuffle != nil {
		i = int64(b.shuffle.At(uint64(i)))
	}
	if b.of != nil {
		i = b.of[i]
	}
	return i
}
