package gnn

import (
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// data is what training reads of a graph.
type data struct {
	whole             *sparse.Matrix
	features, classes int
	dense             []float32
	sparse            *sparseFeatures
	splits            [3]split
}

type split struct{ rows, labels []int64 }

// readByModels lists what a model reads of a graph: the edges, and of all types of nodes the features, with their
// scales.
func readByModels(g *graph.Graph) []unified.Tensor {
	all := []unified.Tensor{unified.FromSlice(g.Indptr()), g.Indices(), g.Types()}
	for t := range g.Schema().Nodes {
		for _, name := range []string{graph.Feature.String(), graph.ScaleOf(graph.Feature.String())} {
			if column, ok := g.NodeColumn(t, name); ok {
				all = append(all, column)
			}
		}
	}
	return all
}

// verify compares what training reads, which is all of it, with the checksums that the source has.
func verify(source loader.Source) error {
	by, ok := source.(loader.Verifier)
	if !ok {
		return nil
	}
	g := source.Graph()
	all := readByModels(g)
	if labels, ok := g.NodeRole(0, graph.Label); ok {
		all = append(all, labels)
	}
	for _, s := range g.Splits() {
		for _, set := range s.Seeds.Sets {
			all = append(all, set.IDs)
		}
	}
	for _, t := range all {
		if err := by.Verify(t.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// read reads a graph. What it keeps of its own, and what its matrix will, counts as memory.
func read(g *graph.Graph, opt Options, memory *budget) (*data, error) {
	if s := g.Schema(); len(s.Nodes) != 1 || len(s.Edges) != 1 {
		return nil, fmt.Errorf("%w: the graph has %d types of nodes and %d of edges; a model here takes one each",
			ErrOptions, len(s.Nodes), len(s.Edges))
	}
	column, ok := g.NodeRole(0, graph.Feature)
	if !ok {
		return nil, fmt.Errorf(`%w: nodes have no column %q, which a model reads; "khop add" gives them one`,
			ErrOptions, graph.Feature)
	}
	if err := memory.take(needs(g, column, opt), "graph and features"); err != nil {
		return nil, err
	}
	x, err := features(g, 0, 0, opt.RowNormalise)
	if err != nil {
		return nil, fmt.Errorf("%w: %s, and are %v", ErrOptions, readable, column)
	}
	column2, _ := g.NodeRole(0, graph.Label)
	labels, err := unified.View[int64](column2)
	if err != nil || column2.Width() != 1 {
		return nil, fmt.Errorf("%w: labels must be int64, one a node, and are %v", ErrOptions, column2)
	}
	d := &data{features: x.Width}
	if d.whole, err = sparse.Whole(g); err != nil {
		return nil, err
	}
	for i, name := range []string{"train", "val", "test"} {
		if err := d.split(g, i, name, labels); err != nil {
			return nil, err
		}
	}
	d.dense = x.Floats()
	if d.sparse, err = sparsely(d.dense, d.features); err != nil {
		return nil, err
	}
	return d, nil
}

// readable says which features there are models for.
const readable = "features must be float32, floats of 16 bits, int8 with a scale a row or int4"

// featureColumn returns the column of the features of a type of nodes, which has some.
func featureColumn(g *graph.Graph, nodes int) graph.Column {
	columns := g.Schema().Nodes[nodes].Columns
	return columns[slices.IndexFunc(columns, func(c graph.Column) bool { return c.Role() == graph.Feature })]
}

// scales returns what the rows of features of int8 of a type of nodes are multiplied by.
func scales(g *graph.Graph, nodes int, column unified.Tensor) ([]float32, error) {
	t, _ := g.NodeColumn(nodes, graph.ScaleOf(graph.Feature.String()))
	list, err := unified.View[float32](t)
	if err != nil || t.Len() != column.Len() || t.Width() != 1 {
		return nil, fmt.Errorf("%w: scales are %v", ErrOptions, t)
	}
	return list, nil
}

// matrixBytes is what a matrix keeps for an edge or a row: a copy with loops, its transpose, norms and positions.
const matrixBytes = 36

// blockBytes is the same of the block of a batch, whose transpose is the loader's: norms and positions.
const blockBytes = 16

// needs returns the bytes that read takes, up to a tenth of the features for a sparse copy.
func needs(g *graph.Graph, features unified.Tensor, opt Options) int64 {
	copies := features.Len() * featureColumn(g, 0).Numbers().Width() * unified.Float32.Size()
	bytes := matrixBytes*(g.Indices().Len()+g.NumNodes()) + copies/5
	if features.DType() != unified.Float32 {
		bytes += copies
	}
	if opt.RowNormalise {
		bytes += copies
	}
	return bytes
}

func (d *data) split(g *graph.Graph, i int, name string, labels []int64) error {
	seeds, err := g.Split(name, 0)
	if err != nil {
		return fmt.Errorf(`%w: training reads the splits train, val and test, which "khop add --split" writes: %w`,
			ErrOptions, err)
	}
	if len(seeds.Edges) > 0 {
		return fmt.Errorf("%w: split %s has edges, not nodes", ErrOptions, name)
	}
	if err := seeds.Check(g.Schema()); err != nil {
		return fmt.Errorf("split %s: %w", name, err)
	}
	s := &d.splits[i]
	for k := range seeds.Len() {
		_, v := seeds.At(k)
		if labels[v] < 0 || labels[v] > maxClasses {
			return fmt.Errorf("%w: split %s: node %d has label %d", ErrOptions, name, v, labels[v])
		}
		s.rows, s.labels = append(s.rows, v), append(s.labels, labels[v])
		d.classes = max(d.classes, int(labels[v])+1)
	}
	return nil
}

// maxClasses bounds what a wrong label takes of memory.
const maxClasses = 1 << 20

// sparsely returns the features as a sparse matrix where less than a tenth of them is not 0.
func sparsely(x []float32, width int) (*sparseFeatures, error) {
	n := 0
	for _, v := range x {
		if v != 0 {
			n++
		}
	}
	if 10*n >= len(x) {
		return nil, nil
	}
	s := &sparseFeatures{Values: make([]float32, 0, n)}
	indptr, indices := []int64{0}, make([]int32, 0, n)
	for i, v := range x {
		if v != 0 {
			s.Values, indices = append(s.Values, v), append(indices, int32(i%width))
		}
		if i%width == width-1 {
			indptr = append(indptr, int64(len(indices)))
		}
	}
	var err error
	s.Matrix, err = sparse.New(int64(width), unified.FromSlice(indptr), unified.FromSlice(indices))
	return s, err
}

func (d *data) kind() string {
	if d.sparse != nil {
		return "sparse"
	}
	return "dense"
}

func (d *data) input() modelInput {
	return modelInput{Dense: newVariable(int(d.whole.Rows()), d.features, d.dense), Sparse: d.sparse}
}
