package graph

import (
	"fmt"
	"strings"

	"github.com/khop-gnn/khop/unified"
)

// Arrays are the parts of a Graph. The graph keeps all tensors without copying them; they must stay valid and unchanged
// while it is in use.
type Arrays struct {
	Schema      Schema
	ID          [16]byte                    // identifies the contents: equal ids mean equal graphs
	Indptr      unified.Tensor              // int64 [nodes+1]
	Indices     unified.Tensor              // Schema.IDType [edges]: source, fused id
	Types       unified.Tensor              // uint8 or uint16 [edges], only with more than one edge type
	EdgeIDs     unified.Tensor              // int64 [edges], or none: an edge's id is then its position
	NodeColumns []map[string]unified.Tensor // [node type] by name, [count, ...]; nil where there are none
	EdgeColumns map[string]unified.Tensor   // by name, [edges, ...]
	Splits      []Split
}

// Split is a named set of seeds, such as "train" of split 0.
type Split struct {
	Name  string
	Index int
	Seeds Seeds
}

// Task returns the name of the task whose table the split is, as in "TASK:train"; "" for other splits. Its nodes may
// repeat, and have times and labels.
func (s *Split) Task() string {
	if task, _, ok := strings.Cut(s.Name, ":"); ok {
		return task
	}
	return ""
}

// Graph is a graph in memory or in mapped files, with its columns and splits. It is read-only, safe for concurrent use,
// and does not own its memory.
type Graph struct {
	a       Arrays
	indptr  []int64
	offsets []int64
}

// FromArrays checks that the parts fit each other and returns the graph. It checks dtypes, shapes and the two ends of
// Indptr, not the elements; formats.Check checks those of a file.
func FromArrays(a Arrays) (*Graph, error) {
	if err := a.Schema.Init(); err != nil {
		return nil, err
	}
	g := &Graph{a: a, offsets: make([]int64, len(a.Schema.Nodes)+1)}
	for i := range a.Schema.Nodes {
		g.offsets[i+1] = g.offsets[i] + a.Schema.Nodes[i].Count
	}
	n, m := a.Schema.NumNodes(), a.Schema.NumEdges()
	if err := checkTensor("indptr", a.Indptr, unified.Int64, n+1); err != nil {
		return nil, err
	}
	g.indptr, _ = unified.View[int64](a.Indptr)
	if g.indptr[0] != 0 || g.indptr[n] != m {
		return nil, fmt.Errorf("%w: indptr runs from %d to %d, not from 0 to %d edges", ErrSchema, g.indptr[0],
			g.indptr[n], m)
	}
	if err := checkTensor("indices", a.Indices, a.Schema.IDType(), m); err != nil {
		return nil, err
	}
	if err := g.checkEdges(m); err != nil {
		return nil, err
	}
	return g, g.checkColumns(m)
}

func (g *Graph) checkEdges(m int64) error {
	if k := len(g.a.Schema.Edges); k > 1 {
		want := unified.Uint8
		if k > 256 {
			want = unified.Uint16
		}
		if err := checkTensor("edge types", g.a.Types, want, m); err != nil {
			return err
		}
	} else if g.a.Types.Valid() {
		return fmt.Errorf("%w: edge types are stored, but there is one type only", ErrSchema)
	}
	if g.a.EdgeIDs.Valid() {
		return checkTensor("edge ids", g.a.EdgeIDs, unified.Int64, m)
	}
	return nil
}

func (g *Graph) checkColumns(m int64) error {
	for t := range g.a.Schema.Nodes {
		nt := &g.a.Schema.Nodes[t]
		for _, c := range nt.Columns {
			col, _ := g.NodeColumn(t, c.Name)
			if err := checkColumn(nt.Name+"/"+c.Name, col, c, nt.Count); err != nil {
				return err
			}
		}
	}
	for _, c := range g.a.Schema.EdgeColumns {
		if err := checkColumn("edge column "+c.Name, g.a.EdgeColumns[c.Name], c, m); err != nil {
			return err
		}
	}
	return nil
}

func checkTensor(name string, t unified.Tensor, want unified.DType, n int64) error {
	if t.DType() != want || t.Rank() != 1 || t.Len() != n {
		return fmt.Errorf("%w: %s is %v, not %v[%d]", ErrSchema, name, t, want, n)
	}
	return nil
}

func checkColumn(name string, t unified.Tensor, c Column, n int64) error {
	ok := t.DType() == c.DType && t.Rank() == 1+len(c.Shape) && t.Len() == n
	for i := 0; ok && i < len(c.Shape); i++ {
		ok = t.Dim(i+1) == c.Shape[i]
	}
	if !ok {
		return fmt.Errorf("%w: %s is %v, not %d rows of %v%v", ErrSchema, name, t, n, c.DType, c.Shape)
	}
	return nil
}

// Schema returns what the graph has. It must not be changed.
func (g *Graph) Schema() *Schema { return &g.a.Schema }

// ID identifies the contents: equal ids mean equal graphs.
func (g *Graph) ID() [16]byte { return g.a.ID }

// Graph returns g, so that a graph is itself a loader's source.
func (g *Graph) Graph() *Graph { return g }

// NumNodes returns the nodes of all types.
func (g *Graph) NumNodes() int64 { return g.offsets[len(g.offsets)-1] }

// NumEdges returns the edges of all types.
func (g *Graph) NumEdges() int64 { return g.a.Indices.Len() }

// Offset returns the fused id of the first node of type t; Offset(number of types) is NumNodes.
func (g *Graph) Offset(t int) int64 { return g.offsets[t] }

// Indptr returns, per fused id, where its in-edges begin: int64 [NumNodes+1].
func (g *Graph) Indptr() []int64 { return g.indptr }

// Indices returns the source of each edge: int32 or int64 (Schema.IDType) [NumEdges], fused ids.
func (g *Graph) Indices() unified.Tensor { return g.a.Indices }

// Types returns the type of each edge, uint8 or uint16 [NumEdges]; the zero Tensor if there is one type.
func (g *Graph) Types() unified.Tensor { return g.a.Types }

// EdgeIDs returns the user's number of each edge, int64 [NumEdges]; the zero Tensor if an edge's number is its
// position.
func (g *Graph) EdgeIDs() unified.Tensor { return g.a.EdgeIDs }

// NodeColumn returns a column of node type t, [count, ...].
func (g *Graph) NodeColumn(t int, name string) (unified.Tensor, bool) {
	if t >= len(g.a.NodeColumns) {
		return unified.Tensor{}, false
	}
	c, ok := g.a.NodeColumns[t][name]
	return c, ok
}

// EdgeColumn returns a column of all edges, [NumEdges, ...], in the order of positions.
func (g *Graph) EdgeColumn(name string) (unified.Tensor, bool) {
	c, ok := g.a.EdgeColumns[name]
	return c, ok
}

// Splits returns all splits. It must not be changed.
func (g *Graph) Splits() []Split { return g.a.Splits }

// sourcesOf follows the name of a table of links: it then stands for their sources alone.
const sourcesOf = ":source"

// Split returns the seeds of a split: a name such as "train" and the split's index, 0 where there is one. If "TASK:val"
// is a table of links, "TASK:val:source" are the sources of the links: nodes, with the times of the rows. ErrNoSplit,
// with a list of all splits, if there is no such split.
func (g *Graph) Split(name string, index int) (Seeds, error) {
	table, sources := strings.CutSuffix(name, sourcesOf)
	for _, s := range g.a.Splits {
		switch {
		case s.Index != index:
		case s.Name == name:
			return s.Seeds, nil
		case s.Name == table && sources && s.Task() != "" && len(s.Seeds.Edges) == 1:
			e := &s.Seeds.Edges[0]
			return Seeds{Sets: []SeedSet{{Type: g.a.Schema.Edges[e.Type].Src, IDs: e.Sources, Times: e.Times,
				From: e.From}}}, nil
		case s.Name == table && sources && s.Task() != "":
			return s.Seeds, nil
		}
	}
	return Seeds{}, fmt.Errorf("%w: %q (split %d); there are: %s", ErrNoSplit, name, index, g.splitNames())
}

func (g *Graph) splitNames() string {
	if len(g.a.Splits) == 0 {
		return "none"
	}
	names := ""
	for i, s := range g.a.Splits {
		if i > 0 {
			names += ", "
		}
		if i == 12 {
			return names + "..."
		}
		names += fmt.Sprintf("%s (split %d)", s.Name, s.Index)
	}
	return names
}
