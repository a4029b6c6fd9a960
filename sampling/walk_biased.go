package sampling

import "github.com/khop-gnn/khop/internal/rng"

// mostTries is how often a step of node2vec tries before it looks at every in-edge.
const mostTries = 64

// biased picks an in-edge for each walk, given the node that it comes from: for all walks the first try, then for those
// that failed the second, and so on.
func (w *walkWorker[V]) biased(s int) error {
	live := 0
	for i := range w.n {
		lo, hi, err := w.column(w.at[i])
		if err != nil {
			return err
		}
		if lo < hi {
			w.keep(live, i)
			w.waiting[live] = int32(live)
			live++
		}
	}
	w.n = live
	waiting := w.waiting[:live]
	for try := range uint64(mostTries) {
		w.candidates(waiting, try<<32|uint64(s))
		failed := 0
		for _, i := range waiting {
			ok, err := w.accepts(int(i), try<<32|uint64(s))
			if err != nil {
				return err
			}
			if !ok {
				waiting[failed] = i
				failed++
			}
		}
		if waiting = waiting[:failed]; failed == 0 {
			return nil
		}
	}
	for _, i := range waiting {
		if err := w.enumerate(int(i), mostTries<<32|uint64(s)); err != nil {
			return err
		}
	}
	return nil
}

// candidates draws an in-edge for each walk that waits, and asks for their sources.
func (w *walkWorker[V]) candidates(waiting []int32, draw uint64) {
	var some [walkBlock]int64
	for b := 0; b < len(waiting); b += walkBlock {
		n := 0
		for _, i := range waiting[b:min(b+walkBlock, len(waiting))] {
			lo, hi := w.indptr[w.at[i]], w.indptr[w.at[i]+1]
			some[n] = lo + int64(rng.Bounded(rng.Draw(w.draws[i], draw), uint64(hi-lo)))
			w.pos[i] = some[n]
			n++
		}
		prefetchPositions(w.indices, some[:n])
	}
}

// accepts decides on a walk's candidate. It may put an edge from the node before in its place: what that node has above
// the greatest weight of the others is an area of its own, so that a small p costs no tries.
func (w *walkWorker[V]) accepts(i int, draw uint64) (bool, error) {
	most, least := max(1, 1/w.q), min(1, 1/w.p, 1/w.q)
	from, to := w.indptr[w.at[i]], w.indptr[w.at[i]+1]
	u := rng.Float64(rng.Draw(rng.Stream(w.accept[w.walkOf(i)], w.own[i]), draw))
	area, extra := float64(float64(to-from)*most), 0.0
	if 1/w.p > most {
		_, n := w.edgeFrom(from, to, w.prev[i], 0)
		extra = float64(float64(n) * float64(1/w.p-most))
		if y := float64(u * float64(area+extra)); y >= area {
			k := int64(float64(n) * float64(float64(y-area)/extra))
			w.pos[i], _ = w.edgeFrom(from, to, w.prev[i], min(k, n-1))
			return true, nil
		}
	}
	y := float64(u*float64(area+extra)) / float64(to-from)
	if y < least {
		return true, nil
	}
	weight, err := w.weight(w.pos[i], w.prev[i])
	return y < weight, err
}

// weight returns that of an edge, for a walk that comes from prev.
func (w *walkWorker[V]) weight(pos int64, prev V) (float64, error) {
	x := w.indices[pos]
	if x == prev {
		return 1 / w.p, nil
	}
	from, to, err := w.column(prev)
	if err != nil {
		return 0, err
	}
	if _, n := w.edgeFrom(from, to, x, 0); n > 0 {
		return 1, nil
	}
	return 1 / w.q, nil
}

// enumerate chooses among all in-edges of a walk's node by their weights, summed in order.
func (w *walkWorker[V]) enumerate(i int, draw uint64) error {
	from, to := w.indptr[w.at[i]], w.indptr[w.at[i]+1]
	u := rng.Float64(rng.Draw(rng.Stream(w.accept[w.walkOf(i)], w.own[i]), draw))
	target, sum := -1.0, 0.0
	for range 2 { // the sum first, then the edge that passes its part
		sum = 0
		for pos := from; pos < to; pos++ {
			x, err := w.weight(pos, w.prev[i])
			if err != nil {
				return err
			}
			if sum += x; target >= 0 && sum > target {
				w.pos[i] = pos
				return nil
			}
		}
		target = float64(u * sum)
	}
	w.pos[i] = to - 1
	return nil
}

// edgeFrom returns the position of edge k, from 0, of those from x among the in-edges from .. to-1 of a node, -1 where
// there are not as many, and how many there are. In-edges are ordered by type and source.
func (w *walkWorker[V]) edgeFrom(from, to int64, x V, k int64) (pos, n int64) {
	pos = -1
	for from < to {
		end := to
		if len(w.schema.Edges) > 1 {
			end = w.types.firstAtLeast(from, to, w.types.at(from)+1)
		}
		run := w.indices[from:end]
		first := firstFrom(run, x)
		for j := first; j < int64(len(run)) && run[j] == x; j++ {
			if n == k {
				pos = from + j
			}
			n++
		}
		from = end
	}
	return pos, n
}

// firstFrom returns the first place in an ascending list that is not less than x.
func firstFrom[V nodeID](list []V, x V) int64 {
	base, n := 0, len(list)
	for n > 1 {
		half := n / 2
		if list[base+half-1] < x {
			base += half
		}
		n -= half
	}
	if n == 1 && list[base] < x {
		base++
	}
	return int64(base)
}
