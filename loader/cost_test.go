//go:build !race

package loader_test

import (
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/growth"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// alternating is n seeds of two types in turn, as one set, or as a set for each seed.
func alternating(n int, sets bool) (s graph.Seeds) {
	var ids []int64
	var types []int32
	for i := range n {
		t, id := i%2, int64(i%40)
		ids, types = append(ids, id), append(types, int32(t))
		if sets {
			s.Sets = append(s.Sets, graph.SeedSet{Type: t, IDs: unified.FromSlice([]int64{id})})
		}
	}
	if !sets {
		s = graph.NodeIDs(ids)
		s.Sets[0].Types = types
	}
	return s
}

func TestSeedsOfSeveralTypesCostTheSameInAnyOrder(t *testing.T) {
	g := graphs.Typed(t, 60, 40)
	for _, sets := range []bool{false, true} {
		growth.Linear(t, 3000, func(n int) {
			l := open(t, g, loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{1}}, BatchSize: 64, Workers: 1,
				Seeds: loader.GivenSeeds(alternating(n, sets)), Shuffle: true})
			for range each(t, l.Range(background, 0, 0, 4)) {
			}
			expect.OK(t, l.Close())
		})
	}
}

func TestSeedsAreTheSameAsOneSetAndAsMany(t *testing.T) {
	g := graphs.Typed(t, 60, 40)
	for _, shuffle := range []bool{false, true} {
		run := func(sets bool) []string {
			l := open(t, g, loader.Options{Sampler: neighbor, BatchSize: 30, Shuffle: shuffle,
				Seeds: loader.GivenSeeds(alternating(100, sets))})
			return append(digests(t, l.Epoch(background, 3)), l.State(0, 0).Seeds)
		}
		one, many := run(false), run(true)
		expect.That(t, slices.Equal(one, many), "shuffle %t: as one set %v, as many %v", shuffle, one, many)
	}
}
