package inspect

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// SharedNodes counts the nodes of a type that two splits of an index have in common.
type SharedNodes struct {
	Type   string    `json:"type"`
	Index  int       `json:"index"`
	Splits [2]string `json:"splits"`
	Nodes  int64     `json:"nodes"`
	First  int64     `json:"first"` // of them
}

// String describes them in a sentence.
func (s SharedNodes) String() string {
	what := "nodes"
	if s.Nodes == 1 {
		what = "node"
	}
	return fmt.Sprintf("the splits %q and %q (index %d) share %d %s of type %q, such as node %d", s.Splits[0],
		s.Splits[1], s.Index, s.Nodes, what, s.Type, s.First)
}

// Shared counts the nodes that splits of one index share, by type and index, in the order of the splits. It takes a bit
// for each node of a type and each split of an index. It ignores ids that are not nodes; graph.Seeds.Check finds them.
func Shared(s *graph.Schema, splits []graph.Split) (all []SharedNodes) {
	splits = slices.DeleteFunc(slices.Clone(splits), func(s graph.Split) bool { return s.Task() != "" }) // other times
	slices.SortStableFunc(splits, func(a, b graph.Split) int { return cmp.Compare(a.Index, b.Index) })
	for t := range s.Nodes {
		sets, first := make([][]uint64, len(splits)), 0
		for i := range splits {
			if splits[first].Index != splits[i].Index {
				clear(sets[first:i])
				first = i
			}
			sets[i] = nodesOf(&splits[i], t, s.Nodes[t].Count)
			for k := first; k < i; k++ {
				if sets[i] == nil || sets[k] == nil {
					continue
				}
				found := SharedNodes{Type: s.Nodes[t].Name, Index: splits[i].Index,
					Splits: [2]string{splits[k].Name, splits[i].Name}}
				if found.count(sets[k], sets[i]); found.Nodes > 0 {
					all = append(all, found)
				}
			}
		}
	}
	return all
}

// count counts the bits that two sets share.
func (s *SharedNodes) count(a, b []uint64) {
	for i, w := range a {
		if w &= b[i]; w == 0 {
			continue
		}
		if s.Nodes == 0 {
			s.First = int64(64*i + bits.TrailingZeros64(w))
		}
		s.Nodes += int64(bits.OnesCount64(w))
	}
}

// nodesOf returns a bit for each node of a type, set for those of a split; nil where it has none of the type.
func nodesOf(split *graph.Split, t int, count int64) (set []uint64) {
	for k := range split.Seeds.Sets {
		of := &split.Seeds.Sets[k]
		if of.Type != t && of.Types == nil || of.Len() == 0 {
			continue
		}
		at := func(i int64) int64 { return i }
		if of.IDs.Valid() {
			var err error
			if at, err = unified.Integers(of.IDs); err != nil {
				continue
			}
		}
		if set == nil {
			set = make([]uint64, count/64+1)
		}
		for i := range of.Len() {
			if of.Types != nil && int(of.Types[i]) != t {
				continue
			}
			if v := at(i); v >= 0 && v < count {
				set[v/64] |= 1 << (v % 64)
			}
		}
	}
	return set
}
