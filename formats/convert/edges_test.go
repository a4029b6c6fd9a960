package convert

import (
	"slices"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// Edges of datasets, by type, as tests compare them.

func sortPairs(p [][2]int64) {
	slices.SortFunc(p, func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) })
}

// edgesByName returns source and target of the edges of each type, sorted.
func edgesByName(t *testing.T, ds *formats.Dataset) map[string][][2]int64 {
	t.Helper()
	g := ds.Graph()
	s, got := g.Schema(), map[string][][2]int64{}
	source := expect.Must(unified.Integers(g.Indices()))(t)
	types := func(int64) int64 { return 0 }
	if g.Types().Valid() {
		b := g.Types().Bytes()
		types = func(i int64) int64 { return int64(b[i]) }
	}
	for n := range s.Nodes {
		for v := range s.Nodes[n].Count {
			at := g.Offset(n) + v
			for e := g.Indptr()[at]; e < g.Indptr()[at+1]; e++ {
				typ := s.Edges[types(e)]
				got[typ.String()] = append(got[typ.String()], [2]int64{source(e) - g.Offset(typ.Src), v})
			}
		}
	}
	for _, p := range got {
		sortPairs(p)
	}
	return got
}
