package embed

import (
	"fmt"
	"math"
	"math/bits"
)

// set is some of the nodes of a type.
type set []uint64

func newSet(n int64) set { return make(set, (n+63)/64) }

func (s set) add(i int64) { s[i/64] |= 1 << (i % 64) }

func (s set) has(i int64) bool { return s[i/64]>>(i%64)&1 != 0 }

// addAll adds the members of another set.
func (s set) addAll(of set) {
	for i, w := range of {
		s[i] |= w
	}
}

func (s set) count() (n int64) {
	for _, w := range s {
		n += int64(bits.OnesCount64(w))
	}
	return n
}

// list returns the members, ascending.
func (s set) list() []int32 { return appendMembers(make([]int32, 0, s.count()), s) }

// appendMembers appends the members of a set, ascending.
func appendMembers[T int32 | uint32](to []T, s set) []T {
	for i, w := range s {
		for ; w != 0; w &= w - 1 {
			to = append(to, T(64*i+bits.TrailingZeros64(w)))
		}
	}
	return to
}

// rankedSet is a set whose members are numbered in their order.
type rankedSet struct {
	set
	before []uint32 // [word of set] how many members are in the words before; [words]: all
}

// rankedRoom returns memory for a set of n, with what was there before.
func (r *run) rankedRoom(name string, n int64) (s rankedSet, err error) {
	if s.set, err = room[uint64](r, name+", set", (n+63)/64); err != nil {
		return s, err
	}
	s.before, err = room[uint32](r, name+", ranks", (n+63)/64+1)
	return s, err
}

// number numbers the members, when all of them are there.
func (s *rankedSet) number() {
	count := uint32(0)
	for i, w := range s.set {
		s.before[i] = count
		count += uint32(bits.OnesCount64(w))
	}
	s.before[len(s.set)] = count
}

// members returns how many were numbered.
func (s *rankedSet) members() int64 { return int64(s.before[len(s.set)]) }

// rank returns the number of a member.
func (s *rankedSet) rank(i int64) int64 {
	return int64(s.before[i/64]) + int64(bits.OnesCount64(s.set[i/64]&(1<<(i%64)-1)))
}

// chooseNodes finds out which nodes each step makes: all, or those that later steps need for the nodes that were asked
// for.
func (r *run) chooseNodes() error {
	schema := r.p.Graph.Schema()
	r.of = make([]nodes, len(r.p.Steps))
	if r.p.Of == nil {
		for k, s := range r.p.Steps {
			r.of[k] = nodes{count: schema.Nodes[s.Type].Count}
		}
		return nil
	}
	need := map[*Table]set{}
	for k := len(r.p.Steps) - 1; k >= 0; k-- {
		s := r.p.Steps[k]
		n := schema.Nodes[s.Type].Count
		if n > math.MaxInt32 {
			return fmt.Errorf("embed: a list of nodes of %q, of which there are %d; there may be %d",
				schema.Nodes[s.Type].Name, n, math.MaxInt32)
		}
		chosen, last := newSet(n), true
		for _, t := range s.To {
			if need[t] != nil {
				chosen.addAll(need[t])
				last = false
			}
		}
		if last {
			for _, v := range r.p.Of[s.Type] {
				chosen.add(int64(v))
			}
		}
		r.of[k] = nodes{list: chosen.list()}
		r.of[k].count = int64(len(r.of[k].list))
		r.needs(s, r.of[k], need)
	}
	return nil
}

// needs adds what a step reads for some nodes.
func (r *run) needs(s *Step, of nodes, need map[*Table]set) {
	add := func(t *Table) set {
		if need[t] == nil {
			need[t] = newSet(t.Rows)
		}
		return need[t]
	}
	themselves := func(t *Table) {
		to := add(t)
		for _, v := range of.list {
			to.add(int64(v))
		}
	}
	for _, t := range s.ownTables() {
		themselves(t)
	}
	for i := range s.Sums {
		rel := &s.Sums[i]
		offset := r.topology.g.Offset(r.topology.g.Schema().Edges[rel.Edges].Src)
		for _, t := range rel.tables() {
			if rel.Loops {
				themselves(t)
			}
			to := add(t)
			for _, v := range of.list {
				lo, hi := r.topology.between(rel.Edges, int64(v))
				for ; lo < hi; lo++ {
					to.add(r.topology.source(lo, offset))
				}
			}
		}
	}
}
