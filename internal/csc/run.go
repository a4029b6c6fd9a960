package csc

import (
	"context"
	"sync/atomic"
	"unsafe"
)

// buffers is the memory for sorting.
type buffers[N Number] struct {
	keys       []uint64
	numbers    []N        // nil: not asked for
	scratch    [][]uint64 // [worker]
	scratchNum [][]N
}

// run places the edges and sorts them.
func run[N Number](ctx context.Context, b *builder, edges Edges) (Structure, error) {
	buf, err := allocate[N](b)
	if err != nil {
		return Structure{}, err
	}
	s := Structure{Indptr: make([]int64, b.opt.Nodes+1), Edges: b.edges, Indices: heap(b.edges * b.lay.idBytes),
		Types: heap(b.edges * b.lay.typByte)}
	if err := place(ctx, b, edges, buf.keys, buf.numbers); err != nil {
		return Structure{}, err
	}
	if err := finish(ctx, b, buf, &s); err != nil {
		return Structure{}, err
	}
	s.Indptr[b.opt.Nodes] = b.edges
	switch numbers := any(buf.numbers).(type) {
	case []uint32:
		s.Perm.Narrow = numbers
	case []uint64:
		s.Perm.Wide = numbers
	}
	return s, nil
}

func allocate[N Number](b *builder) (*buffers[N], error) {
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
	var number N
	width := int64(unsafe.Sizeof(number))
	if !b.opt.Permutation {
		width = 0
	}
	buf := &buffers[N]{keys: view[uint64](take(8 * b.edges)), numbers: view[N](take(width * b.edges))}
	if b.opt.Permutation && buf.numbers == nil {
		buf.numbers = []N{}
	}
	most := b.largestSort()
	for range b.opt.Workers {
		buf.scratch = append(buf.scratch, view[uint64](take(8*most)))
		buf.scratchNum = append(buf.scratchNum, view[N](take(width*most)))
	}
	return buf, err
}

// job is all leaves of one top: what a worker finishes at a time.
type job struct{ first, last int }

func (b *builder) jobs() []job {
	var js []job
	for i := range b.leaves {
		if i == 0 || b.leaves[i].top != b.leaves[i-1].top {
			js = append(js, job{first: i})
		}
		js[len(js)-1].last = i + 1
	}
	return js
}

// finish sorts the leaves and turns keys into positions.
func finish[N Number](ctx context.Context, b *builder, buf *buffers[N], s *Structure) error {
	jobs := b.jobs()
	var next atomic.Int64
	return Parallel(min(b.opt.Workers, len(jobs)), func(w int) error {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(jobs) {
				return nil
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			finishJob(b, jobs[i], buf, s, w)
		}
	})
}

// finishJob sorts the leaves of a job and writes the indptr, indices and types of its top.
func finishJob[N Number](b *builder, j job, buf *buffers[N], s *Structure, w int) {
	for i := j.first; i < j.last; i++ {
		lf := &b.leaves[i]
		lo, hi := lf.start, lf.start+lf.count
		if lf.bits == 0 || lf.count < 2 {
			continue
		}
		if buf.numbers == nil {
			SortKeys[uint64, N](buf.keys[lo:hi], buf.scratch[w], nil, nil, lf.bits)
		} else {
			SortKeys(buf.keys[lo:hi], buf.scratch[w], buf.numbers[lo:hi], buf.scratchNum[w], lf.bits)
		}
	}
	lo, end := b.leaves[j.first].start, b.leaves[j.last-1].start+b.leaves[j.last-1].count
	b.writeIndptr(buf.keys[lo:end], lo, b.leaves[j.first].top, s.Indptr)
	b.writeElements(buf.keys[lo:end], lo, s.Indices, s.Types)
}

// writeIndptr sets where the edges of each node of a top begin: keys are all of the top's, from position first on.
func (b *builder) writeIndptr(keys []uint64, first int64, top int, indptr []int64) {
	shift, mask := b.lay.idBits+b.lay.typeBits, uint64(1)<<b.lay.shift-1
	base := int64(top) << b.lay.shift
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
