package graph

import (
	"fmt"

	"github.com/khop-gnn/khop/unified"
)

// EdgeSet is an ordered list of edges as seeds, repeats allowed. All are of one type, or each has a type of its own.
// They need not be edges of the graph.
type EdgeSet struct {
	Type int // index in Schema.Edges
	// Types, if not nil, are the types of the edges one by one, as many as Sources, in place of Type; for listed edges
	// only.
	Types []int32
	// Sources and Targets are own ids, int32 or int64 [n], as many. Without both, the set is the graph's Count edges of
	// the type, in the order of their positions, or with Every those of all types.
	Sources, Targets unified.Tensor
	Every            bool
	// Count is the number of edges; it is taken from Sources where those are given.
	Count int64
	// Offsets [n + 1], if not nil, are where the targets of each source begin and end, for listed edges. A source has
	// one target or more, and each batch draws one of them. They are kept.
	Offsets []int64
	// Labels, Times and From, first times as in SeedSet, belong to the edges, one each in their order; nil for none.
	Labels, Times, From []int64
	// Negatives [n, k], if valid, are own ids of other targets of each edge, int32 or int64; -1 for none. Batches have
	// them as negatives. They are for listed edges, as many an edge in all sets of a list, and are kept.
	Negatives unified.Tensor
}

// Negated returns how many negatives of its own each edge has.
func (s *EdgeSet) Negated() int64 {
	if !s.Negatives.Valid() {
		return 0
	}
	return s.Negatives.Shape()[1]
}

// EdgePairs returns seeds that are edges of the only edge type, or of type 0: the own ids of both ends. The slices are
// kept.
func EdgePairs[T int32 | int64](sources, targets []T) Seeds {
	return Seeds{Edges: []EdgeSet{{Sources: unified.FromSlice(sources), Targets: unified.FromSlice(targets)}}}
}

// AllEdges returns all edges of the given edge type as seeds, without storing them; those of all types for -1.
func AllEdges(s *Schema, edgeType int) Seeds {
	if edgeType < 0 {
		return Seeds{Edges: []EdgeSet{{Every: true, Count: s.NumEdges()}}}
	}
	return Seeds{Edges: []EdgeSet{{Type: edgeType, Count: s.Edges[edgeType].Count}}}
}

// ofGraph reports whether the set is edges of the graph itself, not a list.
func (s *EdgeSet) ofGraph() bool { return !s.Sources.Valid() && !s.Targets.Valid() }

// Len returns the number of edges.
func (s *EdgeSet) Len() int64 {
	if s.ofGraph() {
		return s.Count
	}
	return s.Sources.Len()
}

// check checks the set of number k.
func (s *EdgeSet) check(schema *Schema, k int) error {
	if s.Type < 0 || s.Type >= len(schema.Edges) {
		return fmt.Errorf("%w: edge set %d: edge type %d of %d", ErrSeed, k, s.Type, len(schema.Edges))
	}
	n := s.Len()
	if s.Offsets != nil {
		if err := s.checkOffsets(k); err != nil {
			return err
		}
	} else if !s.ofGraph() && s.Targets.Len() != n {
		return fmt.Errorf("%w: edge set %d: %d sources, but %d targets", ErrSeed, k, n, s.Targets.Len())
	}
	for _, o := range []struct {
		what string
		have int
		some bool
	}{{"labels", len(s.Labels), s.Labels != nil}, {"times", len(s.Times), s.Times != nil},
		{"types", len(s.Types), s.Types != nil}} {
		if o.some && int64(o.have) != n {
			return fmt.Errorf("%w: edge set %d: %d %s for %d edges", ErrSeed, k, o.have, o.what, n)
		}
	}
	if (s.Types != nil || s.Negatives.Valid()) && (s.ofGraph() || s.Offsets != nil) || !s.ofGraph() && s.Every {
		return fmt.Errorf("%w: edge set %d: Types and Negatives are for edges that are listed, with a target each, "+
			"Every is for those of the graph", ErrSeed, k)
	}
	if s.ofGraph() {
		all := AllEdges(schema, s.Type)
		if s.Every {
			all = AllEdges(schema, -1)
		}
		if have := all.Len(); n != have {
			return fmt.Errorf("%w: edge set %d: %d edges of a graph that has %d", ErrSeed, k, n, have)
		}
		return nil
	}
	for i, t := range s.Types {
		if t < 0 || int(t) >= len(schema.Edges) {
			return fmt.Errorf("%w: edge %d: edge type %d of %d", ErrSeed, i, t, len(schema.Edges))
		}
	}
	if err := s.checkEnds("source", s.Sources, 1, schema, func(e *EdgeType) int { return e.Src }); err != nil {
		return err
	}
	err := s.checkEnds("target", s.Targets, 1, schema, func(e *EdgeType) int { return e.Dst })
	if n := s.Negatives; err == nil && n.Valid() {
		if n.Rank() != 2 || n.Len() != s.Len() {
			return fmt.Errorf("%w: edge set %d: negatives are %v, not [%d, k]", ErrSeed, k, n, s.Len())
		}
		if n, err = unified.New(n.DType(), n.Bytes(), n.Len()*s.Negated()); err == nil {
			err = s.checkEnds("negative", n, s.Negated(), schema, func(e *EdgeType) int { return e.Dst })
		}
	}
	return err
}

// checkOffsets checks that each source has a target.
func (s *EdgeSet) checkOffsets(k int) error {
	n := s.Len()
	if s.ofGraph() || int64(len(s.Offsets)) != n+1 || s.Offsets[0] != 0 || s.Offsets[n] != s.Targets.Len() {
		return fmt.Errorf("%w: edge set %d: %d offsets of %d sources, which %d targets do not fit", ErrSeed, k,
			len(s.Offsets), n, s.Targets.Len())
	}
	for i := range n {
		if s.Offsets[i] >= s.Offsets[i+1] {
			return fmt.Errorf("%w: edge set %d: edge %d (the first is 0) has %d targets; it must have one at least",
				ErrSeed, k, i, s.Offsets[i+1]-s.Offsets[i])
		}
	}
	return nil
}

// checkEnds checks ends of edges, or other ends, as many of each; these may be -1.
func (s *EdgeSet) checkEnds(end string, ids unified.Tensor, each int64, schema *Schema,
	nodeType func(*EdgeType) int) error {
	if d := ids.DType(); d != unified.Int32 && d != unified.Int64 || ids.Rank() != 1 {
		return fmt.Errorf("%w: %ss of edges are %v, not a list of int32 or int64", ErrSeed, end, ids)
	}
	e := &schema.Edges[s.Type]
	for k := range ids.Len() {
		i := k / each
		if s.Types != nil && s.Offsets == nil {
			e = &schema.Edges[s.Types[i]]
		}
		nt := &schema.Nodes[nodeType(e)]
		if id := idAt(ids, k); (id < 0 || id >= nt.Count) && (id != -1 || end != "negative") {
			return fmt.Errorf("%w: edge %d (the first is 0) has %s %d; there are %d nodes of type %q", ErrSeed, i, end,
				id, nt.Count, nt.Name)
		}
	}
	return nil
}
