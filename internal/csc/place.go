package csc

import (
	"context"
	"fmt"
)

// Number is how an edge's number is carried: 32 bits where all fit.
type Number interface{ uint32 | uint64 }

// placer puts the edges where their leaf lies.
type placer[N Number] struct {
	b       *builder
	keys    []uint64
	numbers []N       // nil: not asked for
	fill    []int64   // per leaf: where its next edge goes
	cursor  [][]int64 // [worker][leaf]: the same within a chunk, so that ties keep the order of the source
}

// place goes over the source once and partitions the keys, and numbers if there are any, by leaf.
func place[N Number](ctx context.Context, b *builder, edges Edges, keys []uint64, numbers []N) error {
	pl := &placer[N]{b: b, keys: keys, numbers: numbers, fill: make([]int64, len(b.leaves)),
		cursor: tables(b.opt.Workers, len(b.leaves))}
	for i := range pl.fill {
		pl.fill[i] = b.leaves[i].start
	}
	n, err := pl.walk(ctx, edges)
	if err != nil {
		return err
	}
	for i, at := range pl.fill {
		if lf := b.leaves[i]; at != lf.start+lf.count {
			return fmt.Errorf("%w: %d at first, %d now", ErrChanged, b.edges, n)
		}
	}
	return nil
}

// walk handles each chunk in two steps, each on all workers: count per leaf, then, with a cursor per worker and leaf,
// place.
func (pl *placer[N]) walk(ctx context.Context, edges Edges) (int64, error) {
	b, seen := pl.b, int64(0)
	err := edges(func(c Chunk) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := len(c.Src)
		if !c.even() {
			return ErrChanged
		}
		workers := min(b.opt.Workers, n/4096+1)
		if err := Parallel(workers, func(w int) error {
			return pl.count(w, c.piece(n*w/workers, n*(w+1)/workers))
		}); err != nil {
			return err
		}
		if err := pl.advance(workers); err != nil {
			return err
		}
		if err := Parallel(workers, func(w int) error {
			lo := n * w / workers
			pl.put(w, c.piece(lo, n*(w+1)/workers), seen+int64(lo))
			return nil
		}); err != nil {
			return err
		}
		seen += int64(n)
		return nil
	})
	return seen, err
}

func (pl *placer[N]) count(w int, c Chunk) error {
	b, cnt := pl.b, pl.cursor[w]
	clear(cnt)
	n, shift := uint64(b.opt.Nodes), b.lay.shift
	for i, d := range c.Dst {
		src, dst := uint64(c.Src[i]), uint64(d)
		if src >= n || dst >= n {
			return ErrChanged
		}
		e := b.entries[dst>>shift]
		if e < 0 {
			e = b.descend(e, b.lay.key(src, dst, typeAt(c, i)))
		}
		cnt[e]++
	}
	for _, t := range c.Types {
		if int(t) >= b.opt.Types {
			return ErrChanged
		}
	}
	return nil
}

// advance turns the workers' counts into their cursors, worker after worker, and moves fill past the chunk.
func (pl *placer[N]) advance(workers int) error {
	for i, at := range pl.fill {
		for w := range workers {
			n := pl.cursor[w][i]
			pl.cursor[w][i] = at
			at += n
		}
		lf := &pl.b.leaves[i]
		if at > lf.start+lf.count {
			return ErrChanged
		}
		pl.fill[i] = at
	}
	return nil
}

func (pl *placer[N]) put(w int, c Chunk, first int64) {
	if c.Types == nil && pl.numbers == nil {
		pl.putPlain(w, c)
		return
	}
	b, cur := pl.b, pl.cursor[w]
	for i, d := range c.Dst {
		key := b.lay.key(uint64(c.Src[i]), uint64(d), typeAt(c, i))
		e := b.descend(b.entries[uint64(d)>>b.lay.shift], key)
		pos := cur[e]
		cur[e] = pos + 1
		pl.keys[pos] = key
		if pl.numbers != nil {
			pl.numbers[pos] = N(first + int64(i))
		}
	}
}

// putPlain is put for the commonest case: one edge type, no numbers.
func (pl *placer[N]) putPlain(w int, c Chunk) {
	b, cur, keys := pl.b, pl.cursor[w], pl.keys
	shift, idBits := b.lay.shift, b.lay.idBits+b.lay.typeBits
	src := c.Src[:len(c.Dst)]
	for i, d := range c.Dst {
		key := uint64(d)<<idBits | uint64(src[i])
		e := b.entries[uint64(d)>>shift]
		if e < 0 {
			e = b.descend(e, key)
		}
		pos := cur[e]
		cur[e] = pos + 1
		keys[pos] = key
	}
}
