package sampling

import (
	"context"

	"github.com/khop-gnn/khop/graph"
)

// neighborWorker runs Neighbor. A hop of an edge type goes in steps over all its destinations, so that independent
// cache misses overlap: first where each destination's edges lie, then, in chunks of picks, the picks themselves, the
// sources that lie at them, and the local ids of those. Each step asks for the memory that the next one reads.
type neighborWorker[V nodeID] struct {
	assembly[V]
	plan    plan
	replace bool
	chunks  [3]chunk[V]
	set     subsetter
	expand  func(*stage[V]) error // w.expandStage, made once: a method value allocates

	// of the sample at hand
	rand Rand
	out  *graph.Sample
}

func openNeighbor[V nodeID](opt Neighbor, env Env, indices []V) (Worker, error) {
	s := env.Graph.Schema()
	p, err := newPlan(s, opt.Fanouts, opt.PerType)
	if err != nil {
		return nil, err
	}
	a, err := newAssembly(env, indices, opt.Frontier, opt.Bound(s, env.BatchSize))
	if err != nil {
		return nil, err
	}
	w := &neighborWorker[V]{assembly: a, plan: p, replace: opt.Replace,
		chunks: [3]chunk[V]{newChunk[V](), newChunk[V](), newChunk[V]()}}
	w.expand = w.expandStage
	return w, nil
}

// Close implements Worker.
func (w *neighborWorker[V]) Close() error { return w.close() }

// Sample implements Worker.
func (w *neighborWorker[V]) Sample(ctx context.Context, req *Request, out *graph.Sample) error {
	w.rand, w.out = req.Rand, out
	if err := w.begin(req, out); err != nil {
		return err
	}
	for h := range w.plan {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := w.hop(h, out, w.expand); err != nil {
			return err
		}
	}
	return w.finish(out)
}

// expandStage picks for one hop of one edge type.
func (w *neighborWorker[V]) expandStage(st *stage[V]) error {
	fanout := w.plan[st.hop][st.edgeType]
	if fanout == 0 {
		return w.skip(st)
	}
	if err := w.ranges(st); err != nil {
		return err
	}
	picks, err := w.count(st, int64(fanout))
	if err != nil {
		return err
	}
	local, pos, err := w.open(st, picks, w.out)
	if err != nil {
		return err
	}
	key := w.rand.Stage(w.schema.Edges[st.edgeType].Key, PurposePick, uint8(st.hop)).key
	p := picker[V]{stage: st, fanout: int64(fanout), replace: w.replace, key: key, start: w.start, degree: w.degree,
		indices: w.indices,
		set:     &w.set, i: st.lo}
	return w.stream(&p, local, &pos)
}

// skip gives the destinations of a stage no edges.
func (w *neighborWorker[V]) skip(st *stage[V]) error {
	indptr, err := w.openIndptr(st, w.out)
	if err != nil {
		return err
	}
	for i := st.lo; i < st.hi; i++ {
		indptr[i+1] = indptr[st.lo]
	}
	_, _, err = w.open(st, 0, w.out)
	return err
}

// count writes the block's indptr and returns the picks of the stage, of up to k for each destination.
func (w *neighborWorker[V]) count(st *stage[V], k int64) (int, error) {
	indptr, err := w.openIndptr(st, w.out)
	if err != nil {
		return 0, err
	}
	have := int64(w.edges[st.edgeType].numEdges)
	n := have
	degree, ends := w.degree[:st.hi], indptr[1:st.hi+1]
	for i := st.lo; i < st.hi; i++ {
		switch d := degree[i]; {
		case k < 0:
			n += d
		case w.replace && d > 0:
			n += k
		default:
			n += min(d, k)
		}
		ends[i] = int32(n)
	}
	if n > maxBlockEdges {
		return 0, errTooManyEdges(n)
	}
	return int(n - have), nil
}

// stream sends the picks through the steps. While the local ids of one chunk are looked up, the sources of the next are
// read, whose entries the table is asked for, and the picks of the one after were made, whose sources were asked for.
// The first two alternate in small blocks: a whole chunk of prefetches at once is more than the processor keeps track
// of, and what it drops is then waited for (half of a batch's time went there).
func (w *neighborWorker[V]) stream(p *picker[V], local []int32, pos *posSink) error {
	const block = 32
	cur, next, after := &w.chunks[0], &w.chunks[1], &w.chunks[2]
	p.fill(cur)
	if err := w.load(p.stage, cur, 0, cur.n); err != nil {
		return err
	}
	p.fill(next)
	for cur.n > 0 {
		p.fill(after)
		if err := w.room(p.srcType, cur.n, w.out); err != nil {
			return err
		}
		for lo := 0; lo < max(cur.n, next.n); lo += block {
			if err := w.load(p.stage, next, lo, lo+block); err != nil {
				return err
			}
			if lo < cur.n {
				w.local.relabel(cur.nbr[lo:min(lo+block, cur.n)], local[lo:], p.src)
			}
		}
		pos.put(cur.pos[:cur.n])
		local = local[cur.n:]
		cur, next, after = next, after, cur
	}
	return nil
}
