package graph

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/unified"
)

// ErrNoSplit is returned for a split that the graph does not have.
var ErrNoSplit = errors.New("no such split")

// ErrSeed is returned for a seed that the graph does not have.
var ErrSeed = errors.New("seed out of range")

// SeedSet is an ordered list of nodes, repeats allowed. All are of one type, or each has a type of its own.
type SeedSet struct {
	Type int // index in Schema.Nodes
	// Types, if not nil, are the types of the nodes one by one, as many as IDs, in place of Type: types in any order
	// then cost what one type costs. They are kept. A split on disk has no such set.
	Types []int32
	// IDs are own ids of the type, int32 or int64 [n]. The zero tensor means all nodes 0 .. Count-1.
	IDs unified.Tensor
	// Times, if not nil, are the times of the nodes, as many as IDs: a temporal sampler samples for each node as of its
	// own time. Either all sets of a list of seeds have times or none. They are kept. On disk the tables of tasks have
	// them.
	Times []int64
	// From, if not nil, are the first times of the nodes beside Times, as many; math.MinInt64 for none. Nothing earlier
	// is followed in a node's tree. Either all sets have first times or none. They are kept. On disk as Times.
	From []int64
	// Labels, if valid, are the labels to predict, one row a node, in the order of IDs. dtype and shape of a row are
	// free, but the same in all sets of a list of seeds. They are kept.
	Labels unified.Tensor
	// Count is the number of seeds; it is taken from IDs where those are given.
	Count int64
}

// Len returns the number of seeds.
func (s SeedSet) Len() int64 {
	if s.IDs.Valid() {
		return s.IDs.Len()
	}
	return s.Count
}

// Seeds are the seeds of an epoch, of one or several types: nodes or edges, not both. Items are numbered through the
// sets in order.
type Seeds struct {
	Sets  []SeedSet
	Edges []EdgeSet
}

// NodeIDs returns seeds of the only node type, or of type 0: own ids, in this order. The slice is kept.
func NodeIDs[T int32 | int64](ids []T) Seeds {
	return Seeds{Sets: []SeedSet{{IDs: unified.FromSlice(ids)}}}
}

// AllNodes returns all nodes of the given type as seeds, without storing them.
func AllNodes(s *Schema, nodeType int) Seeds {
	return Seeds{Sets: []SeedSet{{Type: nodeType, Count: s.Nodes[nodeType].Count}}}
}

// Len returns the number of items.
func (s Seeds) Len() int64 {
	n := int64(0)
	for k := range s.Edges {
		n += s.Edges[k].Len()
	}
	for _, set := range s.Sets {
		n += set.Len()
	}
	return n
}

// At returns item i of seeds that are nodes, 0 <= i < Len: the node's type and own id.
func (s Seeds) At(i int64) (nodeType int, id int64) {
	for k := range s.Sets {
		set := &s.Sets[k]
		n := set.Len()
		if i >= n {
			i -= n
			continue
		}
		if nodeType = set.Type; set.Types != nil {
			nodeType = int(set.Types[i])
		}
		if !set.IDs.Valid() {
			return nodeType, i
		}
		return nodeType, idAt(set.IDs, i)
	}
	return -1, -1
}

func idAt(t unified.Tensor, i int64) int64 { return t.DType().Integer(t.Bytes()[i*t.RowBytes():]) }

// Check reads every seed and returns ErrSeed for the first that is not a node of its type, or an edge between others.
func (s Seeds) Check(schema *Schema) error {
	if len(s.Sets) > 0 && len(s.Edges) > 0 {
		return fmt.Errorf("%w: %d sets of nodes and %d of edges: seeds are nodes or edges, not both", ErrSeed,
			len(s.Sets), len(s.Edges))
	}
	for k := range s.Edges {
		e := &s.Edges[k]
		if err := cmp.Or(e.check(schema, k), checkFrom(k, e.Times, e.From, s.Edges[0].From)); err != nil {
			return err
		}
		if first := s.Edges[0].Negated(); e.Negated() != first {
			return fmt.Errorf("%w: edge set %d: %d negatives an edge, the first has %d", ErrSeed, k, e.Negated(), first)
		}
	}
	timed, first := 0, unified.Tensor{}
	for k := range s.Sets {
		set := &s.Sets[k]
		if err := cmp.Or(set.check(schema, k), checkFrom(k, set.Times, set.From, s.Sets[0].From)); err != nil {
			return err
		}
		if set.Times != nil {
			timed++
		}
		if l := set.Labels; k == 0 {
			first = l
		} else if l.Valid() != first.Valid() || l.Valid() && (l.DType() != first.DType() ||
			!slices.Equal(l.Shape()[1:], first.Shape()[1:])) {
			return fmt.Errorf("%w: labels of seed set %d are %v, and those of the first %v", ErrSeed, k, l, first)
		}
	}
	if timed > 0 && timed < len(s.Sets) {
		return fmt.Errorf("%w: %d of %d sets have times: all must have them, or none", ErrSeed, timed, len(s.Sets))
	}
	return nil
}

// checkFrom refuses first times in the set of number k that are not one beside each time, or not there in all sets.
func checkFrom(k int, times, from, first []int64) error {
	if (from == nil) == (first == nil) && (from == nil || len(from) == len(times)) {
		return nil
	}
	return fmt.Errorf("%w: seed set %d: %d first times beside %d times: as many in all sets, or none", ErrSeed, k,
		len(from), len(times))
}

// check checks the set of number k.
func (s *SeedSet) check(schema *Schema, k int) error {
	if s.Types != nil && int64(len(s.Types)) != s.IDs.Len() {
		return fmt.Errorf("%w: seed set %d: %d types of %d nodes", ErrSeed, k, len(s.Types), s.IDs.Len())
	}
	if s.Times != nil && int64(len(s.Times)) != s.IDs.Len() {
		return fmt.Errorf("%w: seed set %d: %d times of %d nodes", ErrSeed, k, len(s.Times), s.IDs.Len())
	}
	if s.Labels.Valid() && (s.Labels.Rank() == 0 || s.Labels.Len() != s.Len()) {
		return fmt.Errorf("%w: seed set %d: labels are %v, of %d nodes", ErrSeed, k, s.Labels, s.Len())
	}
	if s.Type < 0 || s.Type >= len(schema.Nodes) {
		return fmt.Errorf("%w: seed set %d: node type %d of %d", ErrSeed, k, s.Type, len(schema.Nodes))
	}
	nt := &schema.Nodes[s.Type]
	if !s.IDs.Valid() {
		if s.Count < 0 || s.Count > nt.Count {
			return fmt.Errorf("%w: the first %d nodes of type %q, which has %d", ErrSeed, s.Count, nt.Name, nt.Count)
		}
		return nil
	}
	if t := s.IDs.DType(); t != unified.Int32 && t != unified.Int64 {
		return fmt.Errorf("%w: seeds are %v, not int32 or int64", ErrSeed, s.IDs)
	}
	at, err := unified.Integers(s.IDs)
	if err != nil {
		return err
	}
	for i := range s.IDs.Len() {
		nodeType := s.Type
		if s.Types != nil {
			if nodeType = int(s.Types[i]); nodeType < 0 || nodeType >= len(schema.Nodes) {
				return fmt.Errorf("%w: seed %d: node type %d of %d", ErrSeed, i, nodeType, len(schema.Nodes))
			}
		}
		if v := at(i); v < 0 || v >= schema.Nodes[nodeType].Count {
			return schema.SeedError(nodeType, int(i), v)
		}
	}
	return nil
}

// SeedError returns the ErrSeed for seed number i of a node type, whose id is not a node's.
func (s *Schema) SeedError(nodeType, i int, id int64) error {
	nt := &s.Nodes[nodeType]
	if nt.Count == 0 {
		return fmt.Errorf("%w: seed %d is node %d of type %q, which has no nodes", ErrSeed, i, id, nt.Name)
	}
	return fmt.Errorf("%w: seed %d (the first is 0) is node %d; nodes of type %q are 0 to %d", ErrSeed, i, id, nt.Name,
		nt.Count-1)
}
