package edgesort

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/khop-gnn/khop/internal/csc"
	"github.com/khop-gnn/khop/unified"
)

// leaf is a part that is sorted at once.
type leaf struct {
	l       *level
	part    int
	slot    []byte // its memory; returned when it has been written
	keys    []uint64
	rows    []byte
	numbers []uint32 // of the records in rows, in order; nil without columns
	stats   Stats
	done    chan error
}

// emit sorts the level's parts and hands them to e in order.
func (l *level) emit(ctx context.Context, e *emitter) error {
	mem, err := l.end(ctx)
	if err != nil {
		return err
	}
	p := newPipeline(ctx, l, e, mem)
	for part := range l.parts {
		if err := p.next(part); err != nil {
			p.stop()
			return err
		}
	}
	err = p.drain()
	p.stop()
	return err
}

// pipeline has workers sort leaves, and hands them on in order.
type pipeline struct {
	ctx   context.Context
	l     *level
	e     *emitter
	mem   []byte
	free  [][]byte // slots
	size  int64    // of a slot
	work  chan *leaf
	queue []*leaf // handed to workers, in order
	wg    sync.WaitGroup
}

func newPipeline(ctx context.Context, l *level, e *emitter, mem []byte) *pipeline {
	p := &pipeline{ctx: ctx, l: l, e: e, mem: mem}
	sorters := l.s.opt.Workers
	if len(l.runs) > 0 {
		sorters *= 2 // some wait for the disk
	}
	slots := 2 * sorters
	p.size = int64(len(mem)/slots) &^ 63
	for i := range slots {
		lo, hi := int64(i)*p.size, int64(i+1)*p.size
		p.free = append(p.free, mem[lo:hi:hi])
	}
	p.work = make(chan *leaf, slots)
	for range sorters {
		p.wg.Add(1)
		go func() {
			defer p.wg.Done()
			for f := range p.work {
				f.done <- f.sort()
			}
		}()
	}
	return p
}

// stop ends the workers.
func (p *pipeline) stop() {
	close(p.work)
	p.wg.Wait()
}

// next has the next part sorted.
func (p *pipeline) next(part int) error {
	n := p.l.counts[part]
	if n == 0 {
		return nil
	}
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	need := n * p.l.s.leafBytes()
	if need > p.size || n > math.MaxUint32 {
		if err := p.drain(); err != nil {
			return err
		}
		if need > int64(len(p.mem)) || n > math.MaxUint32 {
			return p.again(part)
		}
		f := &leaf{l: p.l, part: part, slot: p.mem}
		if err := f.sort(); err != nil {
			return err
		}
		return p.e.leaf(f)
	}
	if len(p.free) == 0 {
		if err := p.pop(); err != nil {
			return err
		}
	}
	last := len(p.free) - 1
	f := &leaf{l: p.l, part: part, slot: p.free[last], done: make(chan error, 1)}
	p.free = p.free[:last]
	p.queue = append(p.queue, f)
	p.work <- f
	return nil
}

// pop waits for the first of the queue and writes it.
func (p *pipeline) pop() error {
	f := p.queue[0]
	p.queue = p.queue[1:]
	if err := <-f.done; err != nil {
		return err
	}
	p.free = append(p.free, f.slot)
	return p.e.leaf(f)
}

func (p *pipeline) drain() error {
	for len(p.queue) > 0 {
		if err := p.pop(); err != nil {
			return err
		}
	}
	return nil
}

// again parts a part that is too large by its next bits.
func (p *pipeline) again(part int) error {
	l := p.l
	if l.shift <= l.s.groupBits() || len(l.runs) == 0 {
		return l.tooLarge(l.counts[part])
	}
	sub := l.s.newLevel(l.prefix|uint64(part)<<l.shift, l.shift, l.counts[part])
	for i := range l.runs {
		r := &l.runs[i]
		for lo, hi := int64(r.starts[part]), int64(r.starts[part+1]); lo < hi; {
			if sub.room() == 0 {
				if err := sub.flush(p.ctx); err != nil {
					return err
				}
				continue
			}
			n := min(hi-lo, sub.room())
			keys := sub.keys[sub.have : sub.have+n]
			stored := unified.FromSlice(keys).Bytes()[n*(keyBytes-l.width):]
			if err := l.load(r, lo, n, stored, sub.rows[sub.have*l.s.record:]); err != nil {
				return err
			}
			l.widen(keys, stored, part)
			sub.grow([]segment{{sub.have, n}}, n)
			lo += n
		}
	}
	return sub.emit(p.ctx, p.e)
}

// sort reads a leaf's records from the runs, and sorts them.
func (f *leaf) sort() error {
	l, s := f.l, f.l.s
	n := l.counts[f.part]
	at := int64(0)
	cut := func(n int64) []byte { // what needs the alignment of a word comes first
		b := f.slot[at : at+n : at+n]
		at += n
		return b
	}
	keys, scratch := cut(n*keyBytes), cut(n*keyBytes)
	var t timed
	if s.opt.ByTime >= 0 {
		t.times, t.keys = words(cut(n*keyBytes)), words(cut(n*keyBytes))
	}
	var tmpNumbers []uint32
	if s.record > 0 {
		f.numbers, tmpNumbers = narrow(cut(4*n)), narrow(cut(4*n))
	}
	if s.opt.ByTime >= 0 {
		t.place = narrow(cut(4 * n))
	}
	f.rows = cut(n * s.record)
	if err := l.loadPart(f.part, scratch, f.rows); err != nil {
		return err
	}
	for i := range f.numbers {
		f.numbers[i] = uint32(i)
	}
	tmp, numbers := words(scratch), f.numbers
	if f.keys = words(keys); l.width == 4 { // sorted as they are stored, which moves half the bytes
		var sorted []uint32
		sorted, f.numbers = inOrder(narrow(scratch[:4*n]), narrow(scratch[4*n:]), numbers, tmpNumbers, l.shift)
		l.widen(f.keys, unified.FromSlice(sorted).Bytes(), f.part)
	} else {
		l.widen(f.keys, scratch, f.part)
		f.keys, f.numbers = inOrder(f.keys, tmp, numbers, tmpNumbers, l.shift)
		if &f.keys[0] == &tmp[0] {
			tmp = words(keys)
		}
	}
	if s.record > 0 && &f.numbers[0] == &tmpNumbers[0] {
		tmpNumbers = numbers
	}
	f.merge()
	if s.opt.ByTime >= 0 {
		f.byTime(tmp[:len(f.keys)], tmpNumbers[:len(f.keys)], t)
	}
	return nil
}

// inOrder is csc.Sorted, but leaves keys that ascend as they are: those of a source whose edges have a dataset's order,
// such as what khop exports. Others cost it a look at a few.
func inOrder[K csc.Key, N csc.Number](keys, tmp []K, numbers, tmpNumbers []N, bits int) ([]K, []N) {
	if slices.IsSorted(keys) {
		return keys, numbers
	}
	return csc.Sorted(keys, tmp, numbers, tmpNumbers, bits)
}

// timed is the memory that ordering by time takes besides.
type timed struct {
	times, keys []uint64
	place       []uint32 // of each edge in keys
}

// byTime orders what is ordered by (destination, type, source) by (destination, type, time, source).
func (f *leaf) byTime(tmp []uint64, tmpNumbers []uint32, t timed) {
	s, n := f.l.s, len(f.keys)
	c := s.opt.ByTime
	times, keys, place := t.times[:n], t.keys[:n], t.place[:n]
	copy(keys, f.keys)
	for i, n := range f.numbers {
		place[i] = uint32(i)
		times[i] = ordered(f.rows[int64(n)*s.record+s.places[c]:], s.opt.Columns[c].DType)
	}
	csc.SortKeys(times, tmp, place, tmpNumbers, 64)
	for i, p := range place {
		f.keys[i] = keys[p] >> (s.dirBits + s.idBits)
	}
	csc.SortKeys(f.keys, tmp, place, tmpNumbers, f.l.shift-s.dirBits-s.idBits)
	copy(tmpNumbers, f.numbers)
	for i, p := range place {
		f.keys[i], f.numbers[i] = keys[p], tmpNumbers[p]
	}
}

// ordered returns a number whose order among others is that of an element.
func ordered(b []byte, t unified.DType) uint64 {
	switch t.Kind() {
	case unified.Signed:
		return uint64(t.Integer(b)) ^ 1<<63
	case unified.Unsigned:
		return uint64(t.Integer(b))
	}
	return orderedFloat(t.Float(b))
}

func orderedFloat(x float64) uint64 {
	b := math.Float64bits(x + 0) // -0 is 0
	if b>>63 == 1 {
		return ^b
	}
	return b | 1<<63
}
