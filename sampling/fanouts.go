package sampling

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/sat"
)

// All is the fan-out that takes every in-edge.
const All = -1

// maxHops is how many hops the key of a draw can tell apart.
const maxHops = 256

// hopFanouts is the fan-out of each hop and edge type: [hop][edge type]. For HGT it is the number of nodes of each node
// type.
type hopFanouts [][]int

func newHopFanouts(s *graph.Schema, all []int, perType map[string][]int) (hopFanouts, error) {
	return hopFanoutsFor("fan-out", len(s.Edges), all, perType, s.EdgeTypes())
}

// hopFanoutsFor is newHopFanouts for any kind of type: find finds one by name, and what names the numbers in errors.
func hopFanoutsFor(what string, types int, all []int, perType map[string][]int,
	find func(string) (int, error)) (hopFanouts, error) {
	hops := len(all)
	for _, k := range perType {
		hops = max(hops, len(k))
	}
	if hops == 0 || hops > maxHops {
		return nil, fmt.Errorf("%w: %d hops; there must be a %s for each of 1 to %d", ErrOptions, hops, what, maxHops)
	}
	lists, err := listsFor(what, types, all, perType, find)
	if err != nil {
		return nil, err
	}
	p := make(hopFanouts, hops)
	for h := range p {
		p[h] = make([]int, types)
		for t, list := range lists {
			if h < len(list) { // a shorter list ends early: nothing of that type beyond
				p[h][t] = list[h]
			}
			if k := p[h][t]; k < All || int64(k) > math.MaxInt32 {
				return nil, fmt.Errorf("%w: %s %d of hop %d: must be -1 (all), 0 (none), or up to %d", ErrOptions, what,
					k, h, math.MaxInt32)
			}
		}
	}
	return p, nil
}

// listsFor returns the list of each type: of those that are named their own, else that of all.
func listsFor[T any](what string, types int, all []T, perType map[string][]T,
	find func(string) (int, error)) ([][]T, error) {
	lists, named := slices.Repeat([][]T{all}, types), make([]string, types)
	for _, name := range slices.Sorted(maps.Keys(perType)) {
		t, err := find(name)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrOptions, what, err)
		}
		if named[t] != "" {
			return nil, fmt.Errorf("%w: %s: %q and %q name the same type", ErrOptions, what, named[t], name)
		}
		lists[t], named[t] = perType[name], name
	}
	return lists, nil
}

// bound returns the most distinct nodes of each type that a batch can have, and the most edges of each [layer][edge
// type]. With NewNodes all edges lie in layer 0.
func (p hopFanouts) bound(s *graph.Schema, batchSize int, n Neighbor) (lists []int64, blocks [][]int64) {
	// With Chain a node is in a list once for each time that leads to it, so for each path at most.
	chain := n.Time.Chain
	most := func(count, whole int64) int64 {
		if chain {
			return count
		}
		return min(count, whole)
	}
	blocks = make([][]int64, len(p))
	for l := range blocks {
		blocks[l] = make([]int64, len(s.Edges))
	}
	lists = make([]int64, len(s.Nodes))  // nodes of each type reached so far
	fresh := make([]int64, len(s.Nodes)) // of these, the ones of the last hop
	for t := range lists {
		lists[t] = most(int64(batchSize), s.Nodes[t].Count)
		fresh[t] = lists[t]
	}
	for h, fanouts := range p {
		layer := len(p) - 1 - h
		if n.Frontier == NewNodes {
			layer = 0
		}
		reached := make([]int64, len(s.Nodes))
		for e, k := range fanouts {
			et := &s.Edges[e]
			dst := lists[et.Dst]
			if n.Frontier == NewNodes && !chain {
				dst = fresh[et.Dst]
			}
			picks := et.Count
			switch {
			case k >= 0:
				picks = sat.Mul(dst, int64(k))
			case chain:
				picks = sat.Mul(dst, et.Count)
			}
			if !n.Replace {
				picks = most(picks, et.Count)
			}
			blocks[layer][e] = sat.Add(blocks[layer][e], picks)
			if !n.Replace { // with NewNodes each node is expanded once
				blocks[layer][e] = most(blocks[layer][e], et.Count)
			}
			reached[et.Src] = sat.Add(reached[et.Src], picks)
		}
		if !chain {
			n.capTogether(s, fanouts, lists, fresh, reached)
		}
		for t := range lists {
			grown := most(sat.Add(lists[t], reached[t]), s.Nodes[t].Count)
			lists[t], fresh[t] = grown, grown-lists[t]
			if n.Frontier == NewNodes { // any of the new nodes may be the ones with edges
				fresh[t] = min(reached[t], s.Nodes[t].Count)
			}
		}
	}
	return lists, blocks
}
