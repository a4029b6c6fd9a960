package graph

import (
	"errors"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

func twoTypes() Schema {
	return Schema{
		Nodes: []NodeType{{Name: "paper", Count: 2}, {Name: "author", Count: 1}},
		Edges: []EdgeType{
			{Source: "paper", Relation: "cites", Target: "paper", Count: 1},
			{Source: "author", Relation: "writes", Target: "paper", Count: 2},
		},
	}
}

func TestSchemaThatContradictsItselfIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Schema){
		"no nodes":       func(s *Schema) { s.Nodes = nil },
		"no edges":       func(s *Schema) { s.Edges = nil },
		"twice":          func(s *Schema) { s.Nodes[1].Name = "paper" },
		"negative":       func(s *Schema) { s.Nodes[1].Count = -1 },
		"edges negative": func(s *Schema) { s.Edges[1].Count = -1 },
		"no such source": func(s *Schema) { s.Edges[0].Source = "venue" },
		"edge twice":     func(s *Schema) { s.Edges[1] = s.Edges[0] },
		"empty name":     func(s *Schema) { s.Nodes[0].Name = "" },
		"types alike":    func(s *Schema) { s.Nodes[0].Name, s.Nodes[1].Name = "ñ", "n\u0303" },
		"colon":          func(s *Schema) { s.Edges[0].Relation = "a:b" },
		"zero byte":      func(s *Schema) { s.Edges[0].Relation = "a\x00b" },
		"column twice": func(s *Schema) {
			s.EdgeColumns = []Column{{Name: "w", DType: unified.Int8}, {Name: "w", DType: unified.Int8}}
		},
		"column untyped": func(s *Schema) { s.Nodes[0].Columns = []Column{{Name: "w"}} },
		"width 0": func(s *Schema) {
			s.Nodes[0].Columns = []Column{{Name: "w", DType: unified.Int8, Shape: []int64{0}}}
		},
		"width overflows": func(s *Schema) {
			s.Nodes[0].Columns = []Column{{Name: "w", DType: unified.Int8, Shape: []int64{1 << 40, 1 << 40}}}
		},
	} {
		s := twoTypes()
		spoil(&s)
		expect.Is(t, s.Init(), ErrSchema, name)
	}
}

func TestTypeKeysFollowNamesAndOneTypeHasNone(t *testing.T) {
	a, b := twoTypes(), twoTypes()
	b.Edges[0], b.Edges[1] = b.Edges[1], b.Edges[0]
	expect.OK(t, errors.Join(a.Init(), b.Init()))
	expect.That(t, a.Edges[0].Key != 0 && a.Edges[0].Key == b.Edges[1].Key && a.Edges[1].Key == b.Edges[0].Key,
		"keys depend on the order of the types")
	plain := Schema{Nodes: []NodeType{{Name: "x"}}, Edges: []EdgeType{{Source: "x", Relation: "y", Target: "x"}}}
	if err := plain.Init(); err != nil || plain.Edges[0].Key != 0 || plain.Nodes[0].Key != 0 {
		t.Errorf("one type: %v, keys %d and %d", err, plain.Edges[0].Key, plain.Nodes[0].Key)
	}
}

func TestEdgeTypesAreFoundByRelationOrInFull(t *testing.T) {
	s := twoTypes()
	s.Edges = append(s.Edges, EdgeType{Source: "author", Relation: "cites", Target: "author"})
	expect.OK(t, s.Init())
	for name, want := range map[string]int{"writes": 1, "paper:cites:paper": 0, "author:cites:author": 2} {
		e, err := s.EdgeType(name)
		expect.That(t, e == want && err == nil, "%q: %d, %v", name, e, err)
	}
	if _, err := s.EdgeType("cites"); err == nil || !strings.Contains(err.Error(), "source:relation:target") {
		t.Errorf("an ambiguous relation: %v", err)
	}
	if _, err := s.EdgeType("likes"); err == nil || !strings.Contains(err.Error(), "author:writes:paper") {
		t.Errorf("an unknown relation does not say what there is: %v", err)
	}
}

func TestArraysThatDoNotFitAreRefused(t *testing.T) {
	sound := func() Arrays {
		return Arrays{Schema: twoTypes(), Indptr: unified.FromSlice([]int64{0, 2, 3, 3}),
			Indices: unified.FromSlice([]int32{1, 2, 2}), Types: unified.FromSlice([]uint8{0, 1, 1})}
	}
	expect.Must(FromArrays(sound()))(t)
	for name, spoil := range map[string]func(*Arrays){
		"indptr short":   func(a *Arrays) { a.Indptr = unified.FromSlice([]int64{0, 2, 3}) },
		"indptr type":    func(a *Arrays) { a.Indptr = unified.FromSlice([]int32{0, 2, 3, 3}) },
		"indptr begins":  func(a *Arrays) { a.Indptr = unified.FromSlice([]int64{1, 2, 3, 3}) },
		"indptr ends":    func(a *Arrays) { a.Indptr = unified.FromSlice([]int64{0, 2, 3, 4}) },
		"indices type":   func(a *Arrays) { a.Indices = unified.FromSlice([]int64{1, 2, 2}) },
		"indices short":  func(a *Arrays) { a.Indices = unified.FromSlice([]int32{1, 2}) },
		"no types":       func(a *Arrays) { a.Types = unified.Tensor{} },
		"types wide":     func(a *Arrays) { a.Types = unified.FromSlice([]uint16{0, 1, 1}) },
		"edge ids short": func(a *Arrays) { a.EdgeIDs = unified.FromSlice([]int64{0}) },
		"column missing": func(a *Arrays) { a.Schema.Nodes[0].Columns = []Column{{Name: "x", DType: unified.Int8}} },
		"edge column":    func(a *Arrays) { a.Schema.EdgeColumns = []Column{{Name: "x", DType: unified.Int8}} },
		"types unneeded": func(a *Arrays) {
			a.Schema.Edges = []EdgeType{{Source: "paper", Relation: "cites", Target: "paper", Count: 3}}
		},
	} {
		a := sound()
		spoil(&a)
		expect.Is(t, expect.Err(FromArrays(a)), ErrSchema, name)
	}
}

func TestSeedsAreNumberedThroughTheirSets(t *testing.T) {
	s := Seeds{Sets: []SeedSet{{Type: 1, IDs: unified.FromSlice([]int64{7, 5})}, {Type: 0, Count: 3},
		{Type: 1, IDs: unified.FromSlice([]int32{4})}}}
	want := [][2]int64{{1, 7}, {1, 5}, {0, 0}, {0, 1}, {0, 2}, {1, 4}}
	expect.Ensure(t, s.Len() == int64(len(want)), "%d seeds", s.Len())
	for i, w := range want {
		nt, id := s.At(int64(i))
		expect.That(t, int64(nt) == w[0] && id == w[1], "seed %d is node %d of type %d, want %v", i, id, nt, w)
	}
}

func TestSeedsOutOfRangeAreFound(t *testing.T) {
	s := twoTypes()
	expect.OK(t, s.Init())
	for name, seeds := range map[string]Seeds{
		"too great":  NodeIDs([]int64{0, 2}),
		"negative":   NodeIDs([]int32{-1}),
		"no type":    {Sets: []SeedSet{{Type: 2}}},
		"type -1":    {Sets: []SeedSet{{Type: -1}}},
		"float":      {Sets: []SeedSet{{IDs: unified.FromSlice([]float32{0})}}},
		"more nodes": {Sets: []SeedSet{{Count: 3}}},
	} {
		expect.Is(t, seeds.Check(&s), ErrSeed, name)
	}
	for name, seeds := range map[string]Seeds{"repeats": NodeIDs([]int64{1, 1, 0}), "all": AllNodes(&s, 0),
		"none": {}} {
		expect.Is(t, seeds.Check(&s), nil, name)
	}
}

// Roles are those of names: a dataset on disk says nothing else of them.
func TestColumnsHaveTheRoleOfTheirName(t *testing.T) {
	for name, want := range map[string]Role{"feature": Feature, "label": Label, "time": Time, "weight": Weight,
		"": NoRole, "Feature": NoRole, "features": NoRole, "feature_scale": NoRole} {
		c := Column{Name: name}
		if c.Role() != want || want != NoRole && want.String() != name {
			t.Errorf("column %q has the role %q", name, c.Role())
		}
	}
	expect.That(t, ScaleOf("feature") == "feature_scale", "%v", ScaleOf("feature"))
}
