package sampling

import (
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// forest gives local ids where the trees of a batch's items are kept apart. Array t of the sample has the tree of each
// node of type t.
type forest[V nodeID] struct {
	table   hashMap[int64]   // by tree * nodes + fused id
	nodes   int64            // of the graph
	keys    []list[int64]    // [node type]: the table's key of each node in the list
	buffers []unified.Buffer // behind keys
	some    [chunkPicks]int64

	// of the stage at hand
	indptr   []int32
	at, pick int // the destination that the next pick belongs to
}

// treeArrays are the arrays of a sample whose trees are kept apart.
func treeArrays(s *graph.Schema, lists []int64) []ArrayBound {
	arrays := make([]ArrayBound, len(s.Nodes))
	for t := range arrays {
		arrays[t] = ArrayBound{graph.Column{Name: "tree/" + s.Nodes[t].Name, DType: unified.Int32}, lists[t]}
	}
	return arrays
}

// forestBytes is what a forest of so many nodes takes.
func forestBytes(nodes int64) int64 { return satAdd(satMul(16, hashSlots(nodes)), satMul(8, nodes)) }

func newForest[V nodeID](env Env, batchNodes int64) (*forest[V], error) {
	g := env.Graph
	n := g.NumNodes()
	if items := int64(max(env.BatchSize, 1)); n > (1<<62)/items {
		return nil, fmt.Errorf("%w: %d trees over %d nodes: take smaller batches", ErrOptions, items, n)
	}
	types := len(g.Schema().Nodes)
	f := &forest[V]{nodes: n, keys: make([]list[int64], types), buffers: make([]unified.Buffer, types)}
	f.table.buf.Options, f.table.most = env.Scratch, hashSlots(batchNodes)
	for t := range f.buffers {
		f.buffers[t].Options = env.Scratch
	}
	return f, nil
}

func (f *forest[V]) close() error {
	err := f.table.close()
	for t := range f.buffers {
		f.keys[t].ids = nil
		err = errors.Join(err, f.buffers[t].Close())
	}
	return err
}

func (f *forest[V]) begin() error {
	for t := range f.keys {
		f.keys[t].n = 0
	}
	return f.table.begin()
}

// room makes room for n more nodes in list l of type t, whose own ids have it.
func (f *forest[V]) room(l *list[V], t, n int, out *graph.Sample) (err error) {
	if k := &f.keys[t]; l.n+n > len(k.ids) {
		if k.ids, err = unified.Grow[int64](&f.buffers[t], int64(l.n+n), int64(l.n)); err != nil {
			return err
		}
	}
	if l.n+n > len(l.trees) {
		if l.trees, err = unified.Grow[int32](out.ArrayBuffer(t), int64(l.n+n), int64(l.n)); err != nil {
			return err
		}
	}
	return f.table.grow(n, f.keys)
}

// seed gives local ids to fused ids of type t, the roots of trees item, item+1, ..
func (f *forest[V]) seed(ids []V, item int, local []int32, l *list[V], t int) {
	for i, v := range ids {
		f.some[i] = int64(item+i)*f.nodes + int64(v)
	}
	f.place(f.some[:len(ids)], local, l, t)
}

// expand begins a stage, the block of which has this indptr.
func (f *forest[V]) expand(st *stage[V], indptr []int32) {
	f.indptr, f.at, f.pick = indptr, st.lo, st.have
}

// relabel gives local ids to the next picks of the stage: each is in the tree of its destination.
func (f *forest[V]) relabel(ids []V, local []int32, st *stage[V]) {
	for i, v := range ids {
		for int(f.indptr[f.at+1]) <= f.pick {
			f.at++
		}
		f.some[i] = int64(st.dst.trees[f.at])*f.nodes + int64(v)
		f.pick++
	}
	f.place(f.some[:len(ids)], local, st.src, st.srcType)
}

func (f *forest[V]) place(keys []int64, local []int32, l *list[V], t int) {
	k := &f.keys[t]
	f.table.prefetch(keys)
	f.table.relabel(keys, local, k)
	for i := l.n; i < k.n; i++ {
		l.ids[i], l.trees[i] = V(k.ids[i]%f.nodes)-l.offset, int32(k.ids[i]/f.nodes)
	}
	l.n = k.n
}
