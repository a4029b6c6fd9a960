package csc

import (
	"context"
	"fmt"
)

// Number is how an edge's number is carried: 32 bits where all fit.
type Number interface{ uint32 | uint64 }

// placer puts the edges of one pass where their leaf lies. Positions are counted from the pass's first edge.
type placer[T ID, N Number] struct {
	b       *builder
	pass    pass
	keys    []uint64
	numbers []N       // nil: not asked for
	fill    []int64   // per leaf of the pass: where its next edge goes
	cursor  [][]int64 // [worker][leaf]: the same within a chunk, so that ties keep the order of the source
}

// place goes over the source once and partitions the pass's keys, and numbers if there are any, by leaf.
func place[T ID, N Number](ctx context.Context, b *builder, edges Edges[T], p pass, keys []uint64, numbers []N,
	cursor [][]int64) error {
	pl := &placer[T, N]{b: b, pass: p, keys: keys, numbers: numbers, fill: make([]int64, p.last-p.first),
		cursor: cursor}
	for i := range pl.fill {
		pl.fill[i] = b.leaves[p.first+i].start - p.firstEdge
	}
	n, err := pl.walk(ctx, edges)
	if err != nil {
		return err
	}
	for i, at := range pl.fill {
		if lf := b.leaves[p.first+i]; at != lf.start-p.firstEdge+lf.count {
			return fmt.Errorf("%w: %d at first, %d now", ErrChanged, b.edges, n)
		}
	}
	return nil
}

// walk handles each chunk in two steps, each on all workers: count per leaf, then, with a cursor per worker and leaf,
// place.
func (pl *placer[T, N]) walk(ctx context.Context, edges Edges[T]) (int64, error) {
	b, seen := pl.b, int64(0)
	err := edges(func(c Chunk[T]) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := len(c.Src)
		if len(c.Dst) != n || c.Types != nil && len(c.Types) != n || c.Numbers != nil && len(c.Numbers) != n {
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
		b.opt.Progress("place", seen, b.edges)
		return nil
	})
	return seen, err
}

func (pl *placer[T, N]) count(w int, c Chunk[T]) error {
	b, cnt := pl.b, pl.cursor[w][:len(pl.fill)]
	clear(cnt)
	n, sources, shift, first := uint64(b.opt.Nodes), uint64(b.opt.Sources), b.lay.shift, int32(pl.pass.first)
	for i, d := range c.Dst {
		src, dst := uint64(c.Src[i]), uint64(d)
		if src >= sources || dst >= n {
			return ErrChanged
		}
		e := b.entries[dst>>shift]
		if e < 0 {
			e = b.descend(e, b.lay.key(src, dst, typeAt(c, i)))
		}
		if at := uint(e - first); at < uint(len(cnt)) {
			cnt[at]++
		}
	}
	for _, t := range c.Types {
		if int(t) >= b.opt.Types {
			return ErrChanged
		}
	}
	for _, e := range c.Numbers {
		if e < 0 || e > b.largest {
			return ErrChanged
		}
	}
	return nil
}

// advance turns the workers' counts into their cursors, worker after worker, and moves fill past the chunk.
func (pl *placer[T, N]) advance(workers int) error {
	for i, at := range pl.fill {
		for w := range workers {
			n := pl.cursor[w][i]
			pl.cursor[w][i] = at
			at += n
		}
		lf := &pl.b.leaves[pl.pass.first+i]
		if at > lf.start-pl.pass.firstEdge+lf.count {
			return ErrChanged
		}
		pl.fill[i] = at
	}
	return nil
}

func (pl *placer[T, N]) put(w int, c Chunk[T], first int64) {
	if c.Types == nil && pl.numbers == nil {
		pl.putPlain(w, c)
		return
	}
	b, cur := pl.b, pl.cursor[w][:len(pl.fill)]
	for i, d := range c.Dst {
		key := b.lay.key(uint64(c.Src[i]), uint64(d), typeAt(c, i))
		at := uint(b.descend(b.entries[uint64(d)>>b.lay.shift], key) - int32(pl.pass.first))
		if at >= uint(len(cur)) {
			continue
		}
		pos := cur[at]
		cur[at] = pos + 1
		pl.keys[pos] = key
		if pl.numbers == nil {
			continue
		}
		if c.Numbers != nil {
			pl.numbers[pos] = N(c.Numbers[i])
		} else {
			pl.numbers[pos] = N(first + int64(i))
		}
	}
}

// putPlain is put for the commonest case: one edge type, no numbers.
func (pl *placer[T, N]) putPlain(w int, c Chunk[T]) {
	b, cur, keys := pl.b, pl.cursor[w][:len(pl.fill)], pl.keys
	shift, idBits, first := b.lay.shift, b.lay.idBits+b.lay.typeBits, int32(pl.pass.first)
	src := c.Src[:len(c.Dst)]
	for i, d := range c.Dst {
		key := uint64(d)<<idBits | uint64(src[i])
		e := b.entries[uint64(d)>>shift]
		if e < 0 {
			e = b.descend(e, key)
		}
		if at := uint(e - first); at < uint(len(cur)) {
			pos := cur[at]
			cur[at] = pos + 1
			keys[pos] = key
		}
	}
}
