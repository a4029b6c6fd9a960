package sampling

import (
	"fmt"
	"unsafe"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// chunkPicks is how many picks go through the steps together: enough to hide a miss behind the others, few enough for
// positions and sources to stay in the first-level cache.
//
// Nothing is gained by choosing it at run time: on a Xeon of 2023 chunks of 256 to 2,048, blocks of 16 to 64 in stream
// and prefetches to T0 in place of T1 change the time of a batch by less than 5 %, the spread. Chunks of 4,096 lose
// 6 %, NTA hints 39 % (sources) and 57 % (local ids). On Zen 4 T0 takes 1.45 times as long (internal/prefetch).
const chunkPicks = 512

// chunk is the picks between two steps: edge positions and the sources there, of which n are in use, and the keys of
// these where trees are kept apart.
type chunk[V nodeID] struct {
	pos, keys []int64
	nbr       []V
	n         int
}

func newChunk[V nodeID]() chunk[V] {
	return chunk[V]{pos: make([]int64, chunkPicks), keys: make([]int64, chunkPicks), nbr: make([]V, chunkPicks)}
}

// stream sends the picks of a stage through the steps: the picks themselves, the sources that lie at them, and the
// local ids of those. Each step asks for the memory that the next one reads. While the local ids of one chunk are
// looked up, the sources of the next are read, whose entries the table is asked for, and the picks of the one after
// were made, whose sources were asked for. The first two alternate in small blocks: a whole chunk of prefetches at once
// is more than the processor keeps track of, and what it drops is then waited for (half of a batch's time went there).
func (a *assembly[V]) stream(st *stage[V], p picker[V], out *graph.Sample, local []int32, pos *posSink) error {
	const block = 32
	cur, next, after := &a.chunks[0], &a.chunks[1], &a.chunks[2]
	p.fill(cur)
	if err := a.read(st, cur, 0, cur.n); err != nil {
		return err
	}
	p.fill(next)
	for cur.n > 0 {
		p.fill(after)
		if a.raw != nil {
			a.raw[st.edgeType] = append(a.raw[st.edgeType], cur.nbr[:cur.n]...)
		} else if err := a.room(st.srcType, cur.n, out); err != nil {
			return err
		}
		for lo := 0; lo < max(cur.n, next.n); lo += block {
			if err := a.read(st, next, lo, lo+block); err != nil {
				return err
			}
			if lo >= cur.n || a.raw != nil {
				continue
			}
			if hi := min(lo+block, cur.n); a.forest == nil {
				a.local.relabel(cur.nbr[lo:hi], local[lo:], st.src)
			} else {
				a.forest.place(cur.keys[lo:hi], local[lo:], st.src, st.srcType)
			}
		}
		pos.put(cur.pos[:cur.n])
		local = local[cur.n:]
		cur, next, after = next, after, cur
	}
	return nil
}

// read is load, and where trees are kept apart names the sources, too.
func (a *assembly[V]) read(st *stage[V], c *chunk[V], lo, hi int) error {
	if err := a.load(st, c, lo, hi); err != nil || a.forest == nil || a.raw != nil {
		return err
	}
	lo, hi = min(lo, c.n), min(hi, c.n)
	return a.forest.name(c.nbr[lo:hi], c.pos[lo:hi], c.keys[lo:hi], st)
}

// load reads the sources at picks lo .. hi-1, as far as there are such, and asks for their entries in the relabel
// table.
func (a *assembly[V]) load(st *stage[V], c *chunk[V], lo, hi int) error {
	lo, hi = min(lo, c.n), min(hi, c.n)
	indices, nbr, off, count := a.indices, c.nbr[lo:hi], st.src.offset, uint64(st.src.count)
	if d := a.direct; haveRelabel32 && unsafe.Sizeof(off) == 4 && d != nil && lo < hi &&
		loadSources32(&c.pos[lo], hi-lo, (*int32)(unsafe.Pointer(&indices[0])), len(indices),
			(*int32)(unsafe.Pointer(&nbr[0])), uint32(off), uint32(count), &d.tab[0]) != 0 {
		return nil
	}
	bad := uint64(0)
	for i, p := range c.pos[lo:hi] {
		v := indices[p]
		nbr[i] = v
		if uint64(v-off) >= count {
			bad++
		}
	}
	if bad != 0 {
		return a.badSource(st, c, lo, hi)
	}
	if a.forest == nil {
		a.local.prefetch(nbr)
	}
	return nil
}

func (a *assembly[V]) badSource(st *stage[V], c *chunk[V], lo, hi int) error {
	for i, v := range c.nbr[lo:hi] {
		if uint64(v-st.src.offset) >= uint64(st.src.count) {
			return errSource(a.schema, st.srcType, c.pos[lo+i], int64(v))
		}
	}
	return nil
}

func errSource(s *graph.Schema, srcType int, pos, source int64) error {
	return fmt.Errorf("%w: edge %d: source %d is not one of the %d nodes of type %q", ErrGraph, pos, source,
		s.Nodes[srcType].Count, s.Nodes[srcType].Name)
}

// maxBlockEdges is what int32 offsets can number, and what relabelers leave room for.
const maxBlockEdges = 1<<30 - 1<<20

func errTooManyEdges(n int64) error {
	return fmt.Errorf("%w: a block of %d edges, at most %d are possible: take smaller batches or fan-outs", ErrOptions,
		n, maxBlockEdges)
}

// viewBlock views the buffers behind a block of that many edges as its tensors; pos is the dtype of positions, Invalid
// without. NumDst and ViewOf must be set.
func viewBlock(out *graph.Sample, layer, e int, edges int64, pos unified.DType) (err error) {
	b, from := &out.Blocks[layer][e], out.ViewOf[layer]
	if b.Indptr, err = out.Buffers.Indptr[from][e].Tensor(unified.Int32, b.NumDst+1); err != nil {
		return err
	}
	b.EdgePos = unified.Tensor{}
	b.Indices, err = out.Buffers.Indices[from][e].Tensor(unified.Int32, edges)
	if err != nil || pos == unified.Invalid {
		return err
	}
	b.EdgePos, err = out.Buffers.EdgePos[from][e].Tensor(pos, edges)
	return err
}

// posSink writes edge positions if they are wanted.
type posSink struct {
	wanted bool
	pos32  []int32
	pos64  []int64
}

func (s *posSink) open(b *unified.Buffer, t unified.DType, have int, total int64) (err error) {
	if !s.wanted {
		return nil
	}
	if t == unified.Int32 {
		s.pos32, err = unified.Grow[int32](b, total, int64(have))
		s.pos32 = s.pos32[min(have, len(s.pos32)):]
		return err
	}
	s.pos64, err = unified.Grow[int64](b, total, int64(have))
	s.pos64 = s.pos64[min(have, len(s.pos64)):]
	return err
}

// has reports whether there is room for more.
func (s *posSink) has(more int) bool { return !s.wanted || more <= len(s.pos32)+len(s.pos64) }

func (s *posSink) put(pos []int64) {
	switch {
	case !s.wanted:
	case s.pos32 != nil:
		for i, p := range pos {
			s.pos32[i] = int32(p)
		}
		s.pos32 = s.pos32[len(pos):]
	default:
		copy(s.pos64, pos)
		s.pos64 = s.pos64[len(pos):]
	}
}
