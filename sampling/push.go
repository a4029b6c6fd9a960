package sampling

import (
	"cmp"
	"context"
	"math/bits"
	"unsafe"

	"github.com/khop-gnn/khop/unified"
)

// pushUnit is the mass of a root. Scores and residuals are integers.
const pushUnit = 1 << 52

// waits is added to the score of a node that is in the queue.
const waits = 1 << 63

// pusher computes approximate personalised PageRank by forward push.
type pusher[V nodeID] struct {
	a             *assembly[V]
	alpha, spread uint64
	pool[V]       // of nodes touched
	some          [chunkPicks]int32

	kept, left      unified.Buffer // behind score, residual
	score, residual []uint64       // by place in nodes; a score has waits, too
	queue           []int32        // places in nodes, from head on
	head            int
}

func newPusher[V nodeID](a *assembly[V], p visitRules) *pusher[V] {
	u := &pusher[V]{a: a, alpha: p.alpha, spread: p.spread}
	u.pool.init(1<<62, a.scratch)
	a.own(&u.kept, &u.left)
	return u
}

// scores appends the nodes of a list's type with a score above 0 to best.
func (u *pusher[V]) scores(ctx context.Context, root V, l *list[V], best *[]scored[V]) error {
	if err := u.pool.begin(); err != nil {
		return err
	}
	u.queue, u.head = u.queue[:0], 0
	if u.a.pages.Pages != nil {
		if err := u.a.bringNodes([]V{root}, 0); err != nil {
			return err
		}
	}
	if err := u.touch([]V{root}); err != nil {
		return err
	}
	u.residual[0] = pushUnit
	if err := u.enqueue(0); err != nil {
		return err
	}
	for spent := 1; u.head < len(u.queue); spent++ {
		if spent%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		at := u.queue[u.head]
		u.head++
		u.score[at] -= waits
		if u.head == len(u.queue) || u.head > 1<<16 {
			u.queue = append(u.queue[:0], u.queue[u.head:]...)
			u.head = 0
		}
		if err := u.spend(at); err != nil {
			return err
		}
	}
	for i, v := range u.nodes.ids[:u.nodes.n] {
		if u.score[i] > 0 && uint64(v-l.offset) < uint64(l.count) {
			*best = append(*best, scored[V]{v, u.score[i]})
		}
	}
	return nil
}

// touch finds the places of up to chunkPicks nodes, into some.
func (u *pusher[V]) touch(ids []V) (err error) {
	before := u.nodes.n
	if n, keep := int64(before+len(ids)+1), int64(before); int(n) > min(len(u.score), len(u.residual)) {
		if err := cmp.Or(grow(&u.score, &u.kept, n, keep), grow(&u.residual, &u.left, n, keep)); err != nil {
			return err
		}
	}
	if err := u.pool.add(ids, u.some[:]); err != nil {
		return err
	}
	clear(u.score[before:u.nodes.n])
	clear(u.residual[before:u.nodes.n])
	return nil
}

// enqueue puts a node that is not there into the queue, if it has enough to push.
func (u *pusher[V]) enqueue(at int32) error {
	from, to, err := u.a.column(u.nodes.ids[at])
	if err != nil {
		return err
	}
	if hi, least := bits.Mul64(u.spread, max(1, uint64(to-from))); hi == 0 && u.residual[at] >= least {
		u.score[at] += waits
		u.queue = append(u.queue, at)
		prefetchColumn(u.a.indices, from, min(to-from, chunkPicks))
	}
	return nil
}

// spend keeps part of a node's residual as its score, and spreads the rest over its in-edges.
func (u *pusher[V]) spend(at int32) error {
	from, to, err := u.a.column(u.nodes.ids[at])
	if err != nil {
		return err
	}
	r, n := u.residual[at], uint64(to-from)
	u.residual[at] = 0
	if n == 0 {
		u.score[at] += r
		return nil
	}
	hi, lo := bits.Mul64(r, u.alpha)
	keep := hi<<32 | lo>>32
	portion := (r - keep) / n
	u.score[at] += r - portion*n
	if portion == 0 {
		return nil
	}
	if u.a.pages.Pages != nil {
		if err := u.a.bringEdges(u.a.pages.indices, u.nodes.ids[at:at+1], 0); err != nil {
			return err
		}
	}
	for ; from < to; from += chunkPicks {
		column := u.a.indices[from:min(from+chunkPicks, to)]
		prefetchNodes8(unsafe.Pointer(&u.a.indptr[0]), column)
		for i, v := range column {
			if uint64(v) >= uint64(len(u.a.indptr)-1) {
				return u.a.errNode(from+int64(i), v)
			}
		}
		if err := u.touch(column); err != nil {
			return err
		}
		if u.a.pages.Pages != nil {
			if err := u.a.bringNodes(column, 0); err != nil {
				return err
			}
		}
		for _, at := range u.some[:len(column)] {
			u.residual[at] += portion
			if u.score[at] >= waits || u.residual[at] < u.spread {
				continue
			}
			if err := u.enqueue(at); err != nil {
				return err
			}
		}
	}
	return nil
}
