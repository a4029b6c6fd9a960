package csc

import (
	"context"
	"sync/atomic"
)

// buffers is the memory of the passes.
type buffers[N Number] struct {
	keys       []uint64
	numbers    []N
	indptr     []int64
	indices    []byte
	types      []byte
	scratch    [][]uint64 // [worker]
	scratchNum [][]N
	cursor     [][]int64
}

// run makes the passes.
func run[T ID](ctx context.Context, b *builder, edges Edges[T], emit func(Part) error) error {
	if b.lay.payload(b.largest) == 8 {
		return runPasses[T, uint64](ctx, b, edges, emit)
	}
	return runPasses[T, uint32](ctx, b, edges, emit)
}

func runPasses[T ID, N Number](ctx context.Context, b *builder, edges Edges[T], emit func(Part) error) error {
	var buf buffers[N]
	if err := allocate(b, &buf); err != nil {
		return err
	}
	for i := range b.passes {
		p := b.passes[i]
		keys, numbers := buf.keys[:p.edges], buf.numbers
		if numbers != nil {
			numbers = numbers[:p.edges]
		}
		if err := place(ctx, b, edges, p, keys, numbers, buf.cursor); err != nil {
			return err
		}
		part, err := finish(ctx, b, p, &buf, i == len(b.passes)-1)
		if err != nil {
			return err
		}
		if err := emit(part); err != nil {
			return err
		}
	}
	return nil
}

func allocate[N Number](b *builder, buf *buffers[N]) error {
	var most pass
	leaves := 0
	for _, p := range b.passes {
		most.edges, most.nodesMost = max(most.edges, p.edges), max(most.nodesMost, p.nodesMost)
		leaves = max(leaves, p.last-p.first)
	}
	var err error
	take := func(n int64) []byte {
		if err != nil || n == 0 {
			return nil
		}
		mem, free, e := b.opt.Alloc(n)
		if e != nil {
			err = e
			return nil
		}
		b.frees = append(b.frees, free)
		return mem
	}
	result := take
	if b.keep {
		result = heap
	}
	pay := b.lay.payload(b.largest)
	buf.keys = view[uint64](take(8 * most.edges))
	buf.indptr = view[int64](result(8 * (most.nodesMost + 1)))
	buf.indices = result(most.edges * b.lay.idBytes)
	buf.types = result(most.edges * b.lay.typByte)
	buf.cursor = tables(b.opt.Workers, leaves)
	sortMost := b.largestSort()
	for range b.opt.Workers {
		buf.scratch = append(buf.scratch, view[uint64](take(8*sortMost)))
		var num []N
		if pay > 0 {
			num = view[N](take(pay * sortMost))
		}
		buf.scratchNum = append(buf.scratchNum, num)
	}
	if pay > 0 {
		buf.numbers = view[N](take(pay * most.edges))
		if buf.numbers == nil {
			buf.numbers = []N{}
		}
	}
	return err
}

// job is all leaves of one top in one pass: what a worker finishes at a time.
type job struct{ first, last int }

func (b *builder) jobs(p pass) []job {
	var js []job
	for i := p.first; i < p.last; i++ {
		if i == p.first || b.leaves[i].top != b.leaves[i-1].top {
			js = append(js, job{first: i})
		}
		js[len(js)-1].last = i + 1
	}
	return js
}

// finish sorts the leaves of a pass and turns keys into positions.
func finish[N Number](ctx context.Context, b *builder, p pass, buf *buffers[N], lastPass bool) (Part, error) {
	jobs := b.jobs(p)
	p.firstNode = b.emitted
	var next atomic.Int64
	var last int64 // node whose indptr is set last
	err := Parallel(min(b.opt.Workers, len(jobs)), func(w int) error {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(jobs) {
				return nil
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			node := finishJob(b, p, jobs[i], buf, w)
			if i == len(jobs)-1 {
				last = node
			}
		}
	})
	if err != nil {
		return Part{}, err
	}
	b.emitted = last + 1
	part := Part{FirstNode: p.firstNode, FirstEdge: p.firstEdge, Edges: p.edges}
	n := b.emitted - p.firstNode
	if lastPass {
		buf.indptr[n] = b.edges
		n++
	}
	part.Indptr = buf.indptr[:n]
	part.Indices = buf.indices[:p.edges*b.lay.idBytes]
	part.Types = buf.types[:p.edges*b.lay.typByte]
	switch numbers := any(buf.numbers).(type) {
	case []uint32:
		if numbers != nil {
			part.Perm.Narrow = numbers[:p.edges]
		}
	case []uint64:
		part.Perm.Wide = numbers[:p.edges]
	}
	b.opt.Progress("sort", p.firstEdge+p.edges, b.edges)
	return part, nil
}

// finishJob sorts the leaves of a job and writes their indptr, indices and types. It returns the last node whose indptr
// is written: that of the top if the job ends it, else of the last edge.
func finishJob[N Number](b *builder, p pass, j job, buf *buffers[N], w int) int64 {
	for i := j.first; i < j.last; i++ {
		lf := &b.leaves[i]
		lo := lf.start - p.firstEdge
		hi := lo + lf.count
		if lf.bits == 0 || lf.count < 2 {
			continue
		}
		if buf.numbers == nil {
			SortKeys[N](buf.keys[lo:hi], buf.scratch[w], nil, nil, lf.bits)
		} else {
			SortKeys(buf.keys[lo:hi], buf.scratch[w], buf.numbers[lo:hi], buf.scratchNum[w], lf.bits)
		}
	}
	top := b.leaves[j.first].top
	base := int64(top) << b.lay.shift
	node := base - 1
	if j.first == p.first {
		node = max(node, p.firstNode-1) // a pass may begin within a top
	}
	lo, end := b.leaves[j.first].start, b.leaves[j.last-1].start+b.leaves[j.last-1].count
	keys := buf.keys[lo-p.firstEdge : end-p.firstEdge]
	node = b.writeIndptr(keys, lo, base, node, buf.indptr, p.firstNode)
	if j.last == len(b.leaves) || b.leaves[j.last].top != top {
		for stop := min(b.lay.nodes, base+1<<b.lay.shift) - 1; node < stop; {
			node++
			buf.indptr[node-p.firstNode] = end
		}
	}
	b.writeElements(keys, lo-p.firstEdge, buf.indices, buf.types)
	return node
}

// writeIndptr sets, for each node after the given one up to that of the last key, where its edges begin.
func (b *builder) writeIndptr(keys []uint64, first, base, node int64, indptr []int64, firstNode int64) int64 {
	shift, mask := b.lay.idBits+b.lay.typeBits, uint64(1)<<b.lay.shift-1
	for i, k := range keys {
		for d := base + int64(k>>shift&mask); node < d; {
			node++
			indptr[node-firstNode] = first + int64(i)
		}
	}
	return node
}

func (b *builder) writeElements(keys []uint64, at int64, indices, types []byte) {
	mask := uint64(1)<<b.lay.idBits - 1
	if b.lay.idBytes == 4 {
		out := view[int32](indices)[at : at+int64(len(keys))]
		for i, k := range keys {
			out[i] = int32(k & mask)
		}
	} else {
		out := view[int64](indices)[at : at+int64(len(keys))]
		for i, k := range keys {
			out[i] = int64(k & mask)
		}
	}
	typeMask := uint64(1)<<b.lay.typeBits - 1
	switch b.lay.typByte {
	case 1:
		out := types[at : at+int64(len(keys))]
		for i, k := range keys {
			out[i] = uint8(k >> b.lay.idBits & typeMask)
		}
	case 2:
		out := view[uint16](types)[at : at+int64(len(keys))]
		for i, k := range keys {
			out[i] = uint16(k >> b.lay.idBits & typeMask)
		}
	}
}
