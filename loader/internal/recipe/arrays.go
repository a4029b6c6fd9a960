package recipe

import (
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/unified"
)

// listArrays lists what every batch has, of a schema, a sampler's bound and the columns that are asked for.
func (r *Recipe) listArrays() {
	a, s := arrayLister{r: r, at: map[arrayKey]int{}}, r.Graph.Schema()
	a.add("num_nodes", layout.Array{Kind: layout.NumNodes, DType: unified.Int64, Row: []int64{int64(len(s.Nodes))},
		Most: int64(r.Bound.Layers) + 1})
	for t := range s.Nodes {
		n, nodes, seeds := &s.Nodes[t], r.mostNodes(t), r.MostSeeds(t)
		inputs := seeds
		if r.Seeds.ByEdge != nil {
			inputs = 0
		}
		a.add("nodes/"+n.Name, layout.Array{Kind: layout.Nodes, Type: t, DType: s.IDType(), Most: nodes})
		a.add("seeds/"+n.Name, layout.Array{Kind: layout.Seeds, Type: t, DType: unified.Int32, Most: seeds})
		a.add("input/"+n.Name, layout.Array{Kind: layout.Inputs, Type: t, DType: unified.Int64, Most: inputs})
		a.add("item/"+n.Name, layout.Array{Kind: layout.Items, Type: t, DType: unified.Int64, Most: inputs})
		for _, c := range r.Seeds.Columns(t) {
			a.add("task/"+n.Name+"/"+c.Name, layout.Array{Kind: layout.ItemColumn, Type: t, Column: c.Name,
				DType: c.DType, Row: c.Shape, Most: inputs})
		}
		a.columns("node/"+n.Name, r.NodeColumns, n.Columns, layout.Array{Kind: layout.NodeColumn, Type: t, Most: nodes})
		a.columns("seed/"+n.Name, r.SeedColumns, n.Columns,
			layout.Array{Kind: layout.SeedColumn, Type: t, Most: min(nodes, seeds)})
	}
	a.links(s)
	for layer := range r.Bound.Layers {
		for e := range s.Edges {
			a.block(s, layer, e)
		}
	}
	for i := range r.Bound.Arrays {
		own := &r.Bound.Arrays[i]
		a.add("sample/"+own.Name, layout.Array{Kind: layout.Own, Type: i, DType: own.DType, Row: own.Shape,
			Most: max(own.Rows, 0)})
	}
	r.Arrays, r.arrayAt = a.list, a.at
}

// arrayKey tells the arrays of a batch apart.
type arrayKey struct {
	kind     layout.Kind
	layer, t int
	column   string
}

// arrayLister makes a list of arrays.
type arrayLister struct {
	r    *Recipe
	list []layout.Array
	at   map[arrayKey]int
}

func (a *arrayLister) add(name string, array layout.Array) {
	array.Name, array.Base = name, len(a.list)
	key := arrayKey{array.Kind, array.Layer, array.Type, array.Column}
	a.at[key] = len(a.list)
	if key.layer = 0; array.Layer > 0 {
		array.Base = a.at[key]
	}
	a.list = append(a.list, array)
}

// columns adds those of the columns that are there.
func (a *arrayLister) columns(prefix string, names []string, there []graph.Column, array layout.Array) {
	for _, name := range names {
		if c := slices.IndexFunc(there, func(c graph.Column) bool { return c.Name == name }); c >= 0 {
			as := a.r.Delivered(there, there[c])
			array.Column, array.DType, array.Row = name, as.DType, as.Shape
			a.add(prefix+"/"+name, array)
		}
	}
}

// links adds the arrays of seeds that are edges, for the edge types that have some.
func (a *arrayLister) links(s *graph.Schema) {
	most := a.r.MostLinks()
	for e, n := range a.r.Seeds.ByEdge {
		if n == 0 {
			continue
		}
		name := "link/" + s.Edges[e].String()
		a.add(name+"/counts", layout.Array{Kind: layout.LinkCounts, Type: e, DType: unified.Int64, Most: 3})
		a.add(name+"/label", layout.Array{Kind: layout.LinkLabels, Type: e, DType: unified.Int64, Most: most})
		a.add(name+"/group", layout.Array{Kind: layout.LinkGroup, Type: e, DType: unified.Int32, Most: most})
		if a.r.Seeds.Timed {
			a.add(name+"/time", layout.Array{Kind: layout.LinkTimes, Type: e, DType: unified.Int64, Most: most})
		}
		if a.r.Seeds.From != nil {
			a.add(name+"/from", layout.Array{Kind: layout.LinkTimes, Type: e, Column: "from", DType: unified.Int64,
				Most: most})
		}
		a.add(name+"/item", layout.Array{Kind: layout.LinkItems, Type: e, DType: unified.Int64,
			Most: min(int64(a.r.BatchSize), n)})
	}
}

func (a *arrayLister) block(s *graph.Schema, layer, e int) {
	r, edges, name := a.r, a.r.mostEdges(layer, e), fmt.Sprintf("%d/%s", layer, s.Edges[e].String())
	part := func(kind layout.Kind, dtype unified.DType, most int64) layout.Array {
		return layout.Array{Kind: kind, Layer: layer, Type: e, DType: dtype, Most: most}
	}
	a.add("block/"+name+"/indptr", part(layout.Indptr, unified.Int32, r.mostNodes(s.Edges[e].Dst)+1))
	a.add("block/"+name+"/indices", part(layout.Indices, unified.Int32, edges))
	if r.EdgePos {
		a.add("block/"+name+"/edge_pos", part(layout.EdgePos, s.PosType(), edges))
	}
	a.columns("edge/"+name, r.EdgeColumns, s.EdgeColumns, part(layout.EdgeColumn, unified.Invalid, edges))
}

// Find returns the number of the array of a column; -1 where the batch has none.
func (r *Recipe) Find(kind layout.Kind, layer, t int, column string) int {
	if i, ok := r.arrayAt[arrayKey{kind, layer, t, column}]; ok {
		return i
	}
	return -1
}

// KeyOf returns the key of an array's column.
func KeyOf(a *layout.Array) ColumnKey {
	if a.Kind == layout.EdgeColumn {
		return ColumnKey{Name: a.Column, NodeType: -1}
	}
	return ColumnKey{Name: a.Column, NodeType: a.Type}
}

// ArraysOf returns the arrays of a batch that are rows of a column.
func (r *Recipe) ArraysOf(c ColumnKey) (list []*layout.Array) {
	for i := range r.Arrays {
		if a := &r.Arrays[i]; a.IsColumn() && KeyOf(a) == c {
			list = append(list, a)
		}
	}
	return list
}

// ColumnKey tells columns apart.
type ColumnKey struct {
	Name     string
	NodeType int // -1 for a column of the edges
}

// Delivered returns one of the columns as batches have its rows: as it is stored, or widened.
func (r *Recipe) Delivered(there []graph.Column, c graph.Column) graph.Column {
	to, err := unified.ParseDType(r.Widen.For(c.Name))
	if err != nil || to == c.DType || !isNarrow(there, c) {
		return c
	}
	c = c.Numbers()
	c.DType = to
	return c
}

// isNarrow reports whether one of the columns can be widened.
func isNarrow(there []graph.Column, c graph.Column) bool {
	if c.DType != unified.Int8 {
		return c.DType.IsHalf() || c.Code != nil
	}
	return slices.ContainsFunc(there, func(s graph.Column) bool {
		return s.Name == graph.ScaleOf(c.Name) && s.DType == unified.Float32 && len(s.Shape) == 0
	})
}
