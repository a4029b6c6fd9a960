package sampling

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// descriptionOf returns what a sampler that can work on such graphs says of itself.
func descriptionOf(t testing.TB, s Sampler, schema *graph.Schema) Description {
	t.Helper()
	return expect.Must(s.Describe(schema, 1))(t)
}

// validate returns why a sampler cannot work on such graphs.
func validate(s Sampler, schema *graph.Schema) error { return expect.Err(s.Describe(schema, 1)) }

// boundOf returns what a sample can take at most.
func boundOf(s Sampler, schema *graph.Schema, batchSize int) Bound {
	d, _ := s.Describe(schema, batchSize)
	return d.Bound
}

// edgeColumnsOf returns the columns that a sampler reads.
func edgeColumnsOf(s Sampler, g *graph.Graph) ([]unified.Tensor, error) {
	d, _ := s.Describe(g.Schema(), 1)
	return EdgeColumns(g, d.EdgeColumns)
}

// weighs is a sampler around another one that changes which columns are read.
type weighs struct{ Sampler }

func (w weighs) Describe(s *graph.Schema, batchSize int) (Description, error) {
	d, err := w.Sampler.Describe(s, batchSize)
	d.EdgeColumns = []string{"mine"}
	return d, err
}

func TestASamplerAroundAnotherHasWhatItDoesNotChange(t *testing.T) {
	schema := &graph.Schema{Nodes: []graph.NodeType{{Name: "node", Count: 5}}}
	d := descriptionOf(t, weighs{Neighbor{Fanouts: []int{2}, Weight: "w"}}, schema)
	expect.Same(t, d.EdgeColumns, []string{"mine"})
	expect.That(t, d.Excludes && *d.Frontier == NewNodes && d.Items == nil && d.Bound.Layers == 1, "%+v", d)
	d = descriptionOf(t, weighs{Cluster{PerBatch: 3}}, schema)
	expect.That(t, d.Items.PerBatch == 3 && !d.Excludes && d.Frontier == nil, "%+v", d)
}

var statedSamplers = []struct {
	name    string
	sampler Sampler
}{
	{"weighted", Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes, Weight: "w"}},
	{"weighted, replaced", Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes, Weight: "w", Replace: true}},
	{"masked share", Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes, Mask: "m", Share: 0.5}},
	{"temporal", Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes, Time: Temporal{Edge: "t", Recent: true}}},
	{"together", Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes, Together: true}},
	{"induced", Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes, Induced: true}},
	{"labor", Labor{Fanouts: []int{3, 2}, Frontier: AllNodes}},
	{"labor, poisson", Labor{Fanouts: []int{3, 2}, Frontier: AllNodes, Poisson: true}},
	{"hgt", HGT{Nodes: []int{30, 20}}},
	{"fastgcn", FastGCN{Nodes: []int{30, 20}}},
	{"ladies", Ladies{Nodes: []int{30, 20}}},
	{"shadow", Shadow{Fanouts: []int{3, 2}}},
	{"induced nodes", Induced{}},
	{"saint nodes", Saint{Kind: SaintNodes, Budget: 40}},
	{"saint edges", Saint{Kind: SaintEdges, Budget: 40}},
	{"saint walks", Saint{Kind: SaintWalks, Budget: 40, Length: 3}},
	{"walk", Walk{Length: 4, PerSeed: 2, Edges: true}},
	{"node2vec", Node2Vec{Length: 4, P: 0.5, Q: 2}},
	{"pinsage", PinSage{Neighbors: 5, Length: 3}},
	{"pinsage, two hops", PinSage{Neighbors: 5, Length: 3, Hops: 2, Walks: 20}},
	{"ppr", PPR{Neighbors: 5}},
	{"ppr, coarse", PPR{Neighbors: 5, Alpha: 0.5, Epsilon: 0.05}},
	{"sequence", Sequence{Of: Neighbor{Fanouts: []int{3, 2}}, Length: 4}},
	{"sequence of ppr", Sequence{Of: PPR{Epsilon: 0.05}, Length: 5, SeedFirst: true}},
	{"full", Full{}},
	{"clusters", Cluster{PerBatch: 2}},
}

// The memory that a sampler states is what loaders plan by and refuse by, so it changes only on purpose. (A worker that
// takes more than was stated fails: the loader's tests see to that.)
func TestStatedMemoryOfSamplers(t *testing.T) {
	large := &graph.Schema{Nodes: []graph.NodeType{{Name: "n", Count: 1_000_000}},
		Edges: []graph.EdgeType{{Source: "n", Relation: "e", Target: "n", Count: 20_000_000}}}
	small := &graph.Schema{Nodes: []graph.NodeType{{Name: "n", Count: 50}},
		Edges: []graph.EdgeType{{Source: "n", Relation: "e", Target: "n", Count: 60}}}
	two := &graph.Schema{Nodes: []graph.NodeType{{Name: "user", Count: 2_000}, {Name: "item", Count: 300}},
		Edges: []graph.EdgeType{{Source: "item", Relation: "rated", Target: "user", Count: 9_000},
			{Source: "user", Relation: "rates", Target: "item", Count: 40_000}}}
	for _, s := range []*graph.Schema{large, small, two} {
		expect.OK(t, s.Init())
	}
	var got bytes.Buffer
	for _, c := range statedSamplers {
		for _, s := range []*graph.Schema{large, small, two} {
			if validate(c.sampler, s) == nil || s != two {
				fmt.Fprintf(&got, "%s, %d nodes: %s\n", c.name, s.NumNodes(), stated(c.sampler, s))
			}
		}
	}
	expect.Golden(t, "testdata/stated.txt", got.String())
}

func stated(sampler Sampler, s *graph.Schema) string {
	b := boundOf(sampler, s, 10)
	rows := int64(0)
	for _, a := range b.Arrays {
		rows += a.Rows
	}
	return fmt.Sprintf("%d layers, %d nodes %v, %d edges %v, %d rows, scratch %d, shared %d",
		b.Layers, b.Nodes, b.Lists, b.Edges, b.Blocks, rows, b.Scratch, b.Shared)
}

// changed calls f for each field of a struct, and of those within it, when it has another value. It is set back then.
func changed(t *testing.T, v reflect.Value, name string, f func(name string)) {
	for i := range v.NumField() {
		field, name := v.Field(i), name+"."+v.Type().Field(i).Name
		old := reflect.New(field.Type()).Elem()
		old.Set(field)
		switch field.Kind() {
		case reflect.Struct:
			changed(t, field, name, f)
			continue
		case reflect.Bool:
			field.SetBool(!field.Bool())
		case reflect.Int, reflect.Int64:
			field.SetInt(field.Int() + 1)
		case reflect.Uint8:
			field.SetUint(max(field.Uint(), 2) - 1)
		case reflect.Float64:
			field.SetFloat(field.Float() + 0.25)
		case reflect.String:
			field.SetString(field.String() + "x")
		case reflect.Slice:
			more := reflect.New(field.Type().Elem()).Elem()
			switch more.Kind() {
			case reflect.String:
				more.SetString("x")
			case reflect.Int64:
				more.SetInt(5)
			}
			field.Set(reflect.Append(reflect.AppendSlice(reflect.MakeSlice(field.Type(), 0, 9), field), more))
		case reflect.Map:
			list := reflect.MakeSlice(field.Type().Elem(), 2, 2)
			field.Set(reflect.MakeMap(field.Type()))
			field.SetMapIndex(reflect.ValueOf("x"), list)
		case reflect.Pointer:
			if field.Type().Elem().Kind() != reflect.Int64 {
				continue // a partition, which has a name of its own
			}
			at := int64(3)
			field.Set(reflect.ValueOf(&at))
		case reflect.Interface:
			field.Set(reflect.ValueOf(PinSage{Neighbors: 3}))
		default:
			t.Fatalf("%s is a %v", name, field.Kind())
		}
		f(name)
		field.Set(old)
	}
}

// A state stands for a sampler by its fingerprint, so every option is in it.
func TestEveryOptionOfASamplerIsInItsFingerprint(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range []interface{ Fingerprint() string }{
		Neighbor{Fanouts: []int{3, 2}, Time: Temporal{Edge: "t"}}, Neighbor{Fanouts: []int{3},
			Time: Temporal{Node: "t"}},
		Labor{Fanouts: []int{3}, BatchDependency: 2}, HGT{Nodes: []int{3}}, FastGCN{Nodes: []int{3}},
		Ladies{Nodes: []int{3}}, Shadow{Fanouts: []int{3}}, Cluster{PerBatch: 2}, Full{Work: 1},
		Saint{Kind: SaintWalks, Budget: 4, Length: 3, Steps: 2, Coverage: 5}, Walk{Length: 4, PerSeed: 2},
		Node2Vec{Length: 4, PerSeed: 2, P: 0.5, Q: 2}, PinSage{Neighbors: 5, Hops: 2, Walks: 3, Length: 3},
		PPR{Neighbors: 5, Alpha: 0.5, Epsilon: 0.25}, Negatives{Ratio: 1, Strict: true, Tries: 3},
		Sequence{Of: Neighbor{Fanouts: []int{3}}, Length: 4},
	} {
		v := reflect.New(reflect.TypeOf(s)).Elem()
		v.Set(reflect.ValueOf(s))
		own := s.Fingerprint()
		if seen[own] {
			t.Errorf("%q is the fingerprint of two", own)
		}
		seen[own] = true
		changed(t, v, fmt.Sprintf("%T", s), func(name string) {
			text := v.Interface().(interface{ Fingerprint() string }).Fingerprint()
			if seen[text] {
				t.Errorf("%s is not in the fingerprint: %q", name, text)
			}
			seen[text] = true
		})
	}
}
