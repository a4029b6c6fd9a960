package sampling

import (
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
