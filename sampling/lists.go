package sampling

import (
	"cmp"
	"fmt"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/unified"
)

// This file is for samplers that reach nodes otherwise than by picks of a hop: they append nodes to the lists of an
// assembly, and write blocks and arrays of their own.

// boundNodes is the Bound of a sample of at most that many nodes and one layer without edges.
func boundNodes(s *graph.Schema, nodes int64) Bound {
	b := Bound{Layers: 1, Blocks: [][]int64{make([]int64, len(s.Edges))}}
	for t := range s.Nodes {
		b.Nodes = sat.Add(b.Nodes, min(nodes, s.Nodes[t].Count))
	}
	b.Nodes = min(b.Nodes, nodes)
	if s.IDType() == unified.Int32 {
		b.Scratch = scratchBytes[int32](s, b)
	} else {
		b.Scratch = scratchBytes[int64](s, b)
	}
	return b
}

// beginLists makes the seeds the first nodes of their lists.
func (a *assembly[V]) beginLists(req *Request, out *graph.Sample) error {
	if err := cmp.Or(a.begin(req, out), a.checkArrays(out)); err != nil {
		return err
	}
	return a.leaveOut(req, nil)
}

// finishLists ends a sample of one layer, whose blocks have no edges yet.
func (a *assembly[V]) finishLists(req *Request, out *graph.Sample) error {
	out.ViewOf[0] = 0
	if err := a.closeBlocks(0, 0, -1, 0, out); err != nil {
		return err
	}
	return a.finish(req, out)
}

// closeBlocks ends a hop, of whose blocks one, or -1, has edges and the others none.
func (a *assembly[V]) closeBlocks(hop, layer, one, edges int, out *graph.Sample) error {
	for t := range a.lists {
		out.NumNodes[hop+1][t] = int64(a.lists[t].n)
	}
	for e := range a.edges {
		b, et := &out.Blocks[layer][e], &a.schema.Edges[e]
		b.NumDst, b.NumSrc = out.NumNodes[hop][et.Dst], out.NumNodes[hop+1][et.Src]
		a.made[layer][e] = edgeState{numDst: int(b.NumDst)}
		if e == one {
			a.made[layer][e].numEdges = edges
			continue
		}
		indptr, err := unified.Grow[int32](&out.Buffers.Indptr[layer][e], b.NumDst+1, 0)
		if err != nil {
			return err
		}
		clear(indptr[:b.NumDst+1])
	}
	return nil
}

// place writes the local ids of fused ids, in order, and appends those that are new to the lists. A negative id stands
// for no node and becomes -1.
func (a *assembly[V]) place(ids []V, local []int32, out *graph.Sample) error {
	if len(a.lists) > 1 {
		return a.placeTyped(ids, local, out)
	}
	some, found := &a.chunks[0], &a.found
	for len(ids) > 0 {
		n := min(len(ids), chunkPicks)
		k := 0
		for _, v := range ids[:n] {
			some.nbr[k] = v
			if v >= 0 {
				k++
			}
		}
		if err := a.room(0, k, out); err != nil {
			return err
		}
		if k == n {
			a.placeChunk(some.nbr[:n], local, &a.lists[0])
		} else {
			a.placeChunk(some.nbr[:k], found[:], &a.lists[0])
			k = 0
			for i, v := range ids[:n] {
				if local[i] = -1; v >= 0 {
					local[i] = found[k]
					k++
				}
			}
		}
		ids, local = ids[n:], local[n:]
	}
	return nil
}

// placeChunk gives local ids to nodes of one type, for which there is room. It asks for entries of the table ahead.
func (a *assembly[V]) placeChunk(ids []V, local []int32, l *list[V]) {
	const block = 32
	a.local.prefetch(ids[:min(2*block, len(ids))])
	for lo := 0; lo < len(ids); lo += block {
		a.local.prefetch(ids[min(lo+2*block, len(ids)):min(lo+3*block, len(ids))])
		a.local.relabel(ids[lo:min(lo+block, len(ids))], local[lo:], l)
	}
}

func (a *assembly[V]) placeTyped(ids []V, local []int32, out *graph.Sample) error {
	for lo := 0; lo < len(ids); {
		if ids[lo] < 0 {
			local[lo] = -1
			lo++
			continue
		}
		t := a.typeOf(ids[lo])
		l := &a.lists[t]
		hi := lo + 1
		for hi < len(ids) && hi-lo < chunkPicks && uint64(ids[hi]-l.offset) < uint64(l.count) {
			hi++
		}
		if err := a.room(t, hi-lo, out); err != nil {
			return err
		}
		a.local.relabel(ids[lo:hi], local[lo:], l)
		lo = hi
	}
	return nil
}

// typeOf returns the node type of a fused id.
func (a *assembly[V]) typeOf(v V) int {
	t := 0
	for uint64(v-a.lists[t].offset) >= uint64(a.lists[t].count) {
		t++
	}
	return t
}

// column returns the positions of the in-edges of a fused id.
func (a *assembly[V]) column(v V) (from, to int64, err error) {
	from, to = a.indptr[v], a.indptr[v+1]
	if uint64(from) > uint64(to) || uint64(to) > uint64(len(a.indices)) {
		return 0, 0, errColumn(int64(v), from, to, len(a.indices))
	}
	return from, to, nil
}

func errColumn(v, from, to int64, numEdges int) error {
	return fmt.Errorf("%w: node %d: its edges are %d to %d of %d", ErrGraph, v, from, to, numEdges)
}

// errNode refuses an edge whose source is not a node of the graph.
func (a *assembly[V]) errNode(pos int64, v V) error {
	return fmt.Errorf("%w: edge %d: source %d is not one of the %d nodes", ErrGraph, pos, v, len(a.indptr)-1)
}
