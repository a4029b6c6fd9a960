package sampling

import (
	"fmt"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/unified"
)

// forest gives local ids if a node can be in a list several times: once for each group, which is a tree and the time as
// of which nodes are looked at. Without times tree g is group g.
type forest[V nodeID] struct {
	groups       groups           // where there are times
	trees, times int              // the first of the sample's arrays that have them, -1 for none
	table        hashMap[int64]   // by group * nodes + fused id
	nodes        int64            // of the graph
	keys         []list[int64]    // [node type]: the table's key of each node in the list
	buffers      []unified.Buffer // behind keys
	some         [chunkPicks]int64

	// of the stage at hand
	indptr   []int32
	at, pick int // the destination that the next pick belongs to
	of       treeKeys
}

// treeKeys are the keys of the nodes of a group: first .. first+nodes-1. Nodes of a group follow one another, and to
// divide takes longer than all else that is done for one.
type treeKeys struct{ group, first int64 }

// goTo goes to the group of a key.
func (k *treeKeys) goTo(key, nodes int64) {
	if uint64(key-k.first) >= uint64(nodes) {
		k.group = key / nodes
		k.first = k.group * nodes
	}
}

// listArrays are arrays of a sample with a number for each node of a list: its tree, or the time as of which it is
// looked at.
func listArrays(s *graph.Schema, kind string, number unified.DType, lists []int64) []ArrayBound {
	arrays := make([]ArrayBound, len(s.Nodes))
	for t := range arrays {
		arrays[t] = ArrayBound{graph.Column{Name: kind + s.Nodes[t].Name, DType: number}, lists[t]}
	}
	return arrays
}

// forestBytes is the memory of a forest of n nodes.
func forestBytes(nodes int64) int64 {
	return sat.Add(sat.Mul(16, hashSlots(nodes)), sat.Mul(8, nodes))
}

func newForest[V nodeID](env Env, batchNodes int64, memory *scratch) (*forest[V], error) {
	g := env.Graph
	n := g.NumNodes()
	if items := int64(max(env.BatchSize, 1)); n > (1<<62)/items {
		return nil, fmt.Errorf("%w: %d trees over %d nodes: take smaller batches", ErrOptions, items, n)
	}
	types := len(g.Schema().Nodes)
	f := &forest[V]{nodes: n, times: -1, keys: make([]list[int64], types), buffers: make([]unified.Buffer, types)}
	f.table.most = hashSlots(batchNodes)
	memory.own(&f.table.buf)
	for t := range f.buffers {
		memory.own(&f.buffers[t])
	}
	return f, nil
}

func (f *forest[V]) begin(s *graph.Schema, req *Request) error {
	for t := range f.keys {
		f.keys[t].n = 0
	}
	if f.times >= 0 {
		if err := f.groups.begin(s, req, f.trees >= 0); err != nil {
			return err
		}
	}
	return f.table.begin()
}

// room makes room for n more nodes in list l of type t, whose own ids have it.
func (f *forest[V]) room(l *list[V], t, n int, out *graph.Sample) (err error) {
	err = need(&f.keys[t].ids, &f.buffers[t], l.n+n, l.n)
	if err == nil && f.trees >= 0 {
		err = need(&l.trees, &out.Buffers.Arrays[f.trees+t], l.n+n, l.n)
	}
	if err == nil && f.times >= 0 {
		err = need(&l.times, &out.Buffers.Arrays[f.times+t], l.n+n, l.n)
	}
	if err != nil {
		return err
	}
	return f.table.grow(n, f.keys)
}

// seed gives local ids to fused ids of type t, the roots of trees item, item+1, ..
func (f *forest[V]) seed(ids []V, item int, local []int32, l *list[V], t int) (err error) {
	for i, v := range ids {
		group := int64(item + i)
		if f.times >= 0 {
			if group, err = f.groups.of(group*bit(f.trees >= 0), f.groups.times[item+i]); err != nil {
				return err
			}
		}
		f.some[i] = group*f.nodes + int64(v)
	}
	f.table.prefetch(f.some[:len(ids)])
	f.place(f.some[:len(ids)], local, l, t)
	return nil
}

// expand begins a stage, the block of which has this indptr.
func (f *forest[V]) expand(st *stage[V], indptr []int32) {
	f.indptr, f.at, f.pick = indptr, st.lo-1, st.have
	f.next(st)
}

// next goes on to the destination of the next pick.
func (f *forest[V]) next(st *stage[V]) {
	for f.at++; int(f.indptr[f.at+1]) <= f.pick; {
		f.at++
	}
	f.of.goTo(f.keys[st.dstType].ids[f.at], f.nodes)
}

// name sets keys to those of the next picks of the stage, which lie at pos, and asks for their entries in the table:
// each is in the tree of its destination, and looked at as of the same time, or of the time of the step where that
// bounds what comes next.
func (f *forest[V]) name(ids []V, pos, keys []int64, st *stage[V]) error {
	for i, v := range ids {
		if int(f.indptr[f.at+1]) <= f.pick {
			f.next(st)
		}
		first := f.of.first
		if f.groups.step != nil {
			from := f.groups.cells[f.of.group]
			group, err := f.groups.of(from.tree, f.groups.step(pos[i], int64(v-st.src.offset), st.srcType, from.time))
			if err != nil {
				return err
			}
			first = group * f.nodes
		}
		keys[i] = first + int64(v)
		f.pick++
	}
	f.table.prefetch(keys[:len(ids)])
	return nil
}

// place gives local ids to nodes of a list of type t.
func (f *forest[V]) place(keys []int64, local []int32, l *list[V], t int) {
	k := &f.keys[t]
	f.table.relabel(keys, local, k)
	var of treeKeys
	for i := l.n; i < k.n; i++ {
		of.goTo(k.ids[i], f.nodes)
		group := of.group
		l.ids[i] = V(k.ids[i]-of.first) - l.offset
		if f.times >= 0 {
			l.times[i] = f.groups.cells[group].time
			group = int64(f.groups.cells[group].tree)
		}
		if f.trees >= 0 {
			l.trees[i] = int32(group)
		}
	}
	l.n = k.n
}

// view views the arrays of a list of type t.
func (f *forest[V]) view(t int, n int64, out *graph.Sample) (err error) {
	if f.trees >= 0 {
		if out.Arrays[f.trees+t].Rows, err = out.Buffers.Arrays[f.trees+t].Tensor(unified.Int32, n); err != nil {
			return err
		}
	}
	if f.times >= 0 {
		out.Arrays[f.times+t].Rows, err = out.Buffers.Arrays[f.times+t].Tensor(unified.Int64, n)
	}
	return err
}
