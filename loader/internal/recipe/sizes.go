package recipe

import (
	"math"

	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/pinned"
)

const (
	// writeAhead is how many ids beyond the last a sampler may ask room for in a node list.
	writeAhead = 1024
	// mostBlockEdges is what a block's int32 offsets can number.
	mostBlockEdges = math.MaxInt32
)

// mostEnds returns the most seeds that a batch has; each end of an edge counts.
func (r *Recipe) mostEnds() int64 {
	if r.Seeds.OnRequest {
		return int64(r.BatchSize)
	}
	return max(1, 2*r.MostLinks(), min(int64(r.BatchSize), r.Seeds.Count))
}

// mostNodes returns the most nodes of type t in a batch.
func (r *Recipe) mostNodes(t int) int64 {
	most := r.Graph.Schema().Nodes[t].Count
	if t < len(r.Bound.Lists) {
		most = max(0, r.Bound.Lists[t])
	}
	return min(most, max(0, r.Bound.Nodes))
}

// MostSeeds returns the most seeds of type t in a batch.
func (r *Recipe) MostSeeds(t int) int64 {
	switch {
	case r.Seeds.OnRequest:
		return r.mostEnds()
	case r.Seeds.ByEdge == nil:
		return min(r.Seeds.ByType[t], r.mostEnds())
	}
	most := int64(0)
	for e, n := range r.Seeds.ByEdge {
		et, ends := &r.Graph.Schema().Edges[e], int64(0)
		if et.Src == t {
			ends++
		}
		if et.Dst == t {
			ends++
		}
		if n > 0 {
			most = max(most, ends)
		}
	}
	return most * r.MostLinks()
}

// mostEdges returns the most edges in a block.
func (r *Recipe) mostEdges(layer, edgeType int) int64 {
	n := r.Bound.Edges
	if b := r.Bound.Blocks; layer < len(b) && edgeType < len(b[layer]) {
		n = b[layer][edgeType]
	}
	return min(max(0, n), mostBlockEdges)
}

// MostBytes returns the most memory that an array takes in a slot.
func MostBytes(a *layout.Array) int64 {
	rows := a.Most
	if a.Kind == layout.Nodes {
		rows = sat.Add(rows, writeAhead)
	}
	return sat.Mul(rows, RowBytes(a))
}

// RowBytes returns the bytes of one row.
func RowBytes(a *layout.Array) int64 {
	row := a.DType.Size()
	for _, d := range a.Row {
		row = sat.Mul(row, d)
	}
	return row
}

// MostScratch returns the most memory of a worker. The sampler says what its tables hold; buffers that grow take up to
// a quarter more, and while one moves it is there twice.
func (r *Recipe) MostScratch() int64 {
	n := sat.Mul(max(0, r.Bound.Scratch), 7) / 4
	if n >= pinned.HugePage {
		n = sat.Add(n, 4*pinned.HugePage)
	}
	return sat.Add(n, 64<<10)
}

// HasMemory reports whether an array has memory outside the Go heap.
func HasMemory(a *layout.Array) bool { return !a.OnHost() || a.Kind == layout.Inputs }

// WithoutColumns returns the bytes of a slot that is only sampled into, at most.
func (r *Recipe) WithoutColumns() (n int64) {
	for i := range r.Arrays {
		if a := &r.Arrays[i]; HasMemory(a) && !a.IsColumn() {
			n = sat.Add(n, pinned.Options{}.Size(min(MostBytes(a), 1<<60)))
		}
	}
	return n
}

// SlotBound returns the most that the memory of one slot takes, and the most that one array of it does.
func (r *Recipe) SlotBound() (total, largest int64) {
	for i := range r.Arrays {
		if a := &r.Arrays[i]; HasMemory(a) {
			most := MostBytes(a)
			total = sat.Add(total, pinned.Options{}.Size(min(most, math.MaxInt64/4)))
			largest = max(largest, most)
		}
	}
	return sat.Add(total, r.LinkBytes()), largest
}

// LinkBytes returns what linkMemory takes in each slot; 0 where seeds are nodes.
func (s *Spec) LinkBytes() int64 {
	asked, all := s.AskedLinks(), s.MostLinks()
	return sat.Add(sat.Mul(40+8, asked), sat.Add(sat.Mul(8, s.LinkInts()), sat.Mul(4, all)))
}

// AskedLinks returns the most edges that a batch is asked for.
func (s *Spec) AskedLinks() int64 {
	if s.Seeds.ByEdge == nil {
		return 0
	}
	return min(int64(s.BatchSize), s.Seeds.Count)
}

// LinkInts returns how many numbers of 64 bits the lists have together.
func (s *Spec) LinkInts() int64 {
	n := sat.Add(sat.Mul(4+int64(min(len(s.Seeds.From), 1)), s.MostLinks()), s.AskedLinks())
	return sat.Add(n, sat.Mul(2*s.exclusions(), s.AskedLinks()))
}

// exclusions returns how many edges are left out at most because of one that was asked for.
func (s *Spec) exclusions() int64 {
	if !s.Exclude {
		return 0
	}
	most := 0
	for _, back := range s.Reverses {
		most = max(most, len(back))
	}
	return 1 + int64(most)
}

// MostLinks returns the most edges that are seeds or negatives in a batch; 0 where seeds are nodes.
func (s *Spec) MostLinks() int64 {
	if s.Seeds.ByEdge == nil {
		return 0
	}
	return s.LinksOf(s.AskedLinks())
}

// LinksOf returns how many edges that are seeds are with their negatives.
func (s *Spec) LinksOf(asked int64) int64 {
	return sat.Add(sat.Mul(asked, 1+s.Seeds.Given), s.Negatives.Of(asked))
}

// SeededTypes marks the edge types that have seeds.
func (s *Spec) SeededTypes() []bool {
	types := make([]bool, len(s.Seeds.ByEdge))
	for e, n := range s.Seeds.ByEdge {
		types[e] = n > 0
	}
	return types
}
