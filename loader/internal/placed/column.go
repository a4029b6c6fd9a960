// Package placed has the columns of a source as loaders read them: how rows are stored and delivered, which tier brings
// them, and what of them is verified.
package placed

import (
	"slices"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/gather/cuda"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/internal/recipe"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Column is a column of the source, once, in however many arrays its rows are delivered.
type Column struct {
	recipe.ColumnKey
	Store    *gather.Store
	Given    bool           // it is not read here: a tier from outside has it, or a Remote
	Remote   bool           // a Remote has it
	Partly   bool           // some of it is not there before it was verified
	Tier     *Tier          // that brings its rows, once that is chosen
	Number   int            // among the tier's
	typeName string         // of its nodes
	as       graph.Column   // as rows are delivered
	code     *graph.Code    // of what is stored
	scales   unified.Tensor // of a column that is widened with them
	Verified *VerifiedRows  // nil: no row has to be verified before it is read
	Hot      *cuda.HotRows  // of a column on disk: rows that a device keeps; nil for none
}

// Find looks the column up, and its scales if it is to be widened with some.
func (c *Column) Find(r *recipe.Recipe) error {
	look, there := r.Graph.EdgeColumn, r.Graph.Schema().EdgeColumns
	if c.NodeType >= 0 {
		look = func(name string) (unified.Tensor, bool) { return r.Graph.NodeColumn(c.NodeType, name) }
		of := &r.Graph.Schema().Nodes[c.NodeType]
		there, c.typeName = of.Columns, of.Name
	}
	tensor, _ := look(c.Name)
	scales := unified.Tensor{}
	if i := slices.IndexFunc(there, func(of graph.Column) bool { return of.Name == c.Name }); i >= 0 {
		c.as, c.code = r.Delivered(there, there[i]), there[i].Code
	}
	if tensor.DType() == unified.Int8 && c.as.DType != unified.Int8 {
		scales, _ = look(graph.ScaleOf(c.Name))
	}
	return c.setData(tensor, scales)
}

// Tensors returns what is read of a column.
func (c *Column) Tensors() []unified.Tensor {
	if c.scales.Valid() {
		return []unified.Tensor{c.Store.Column(), c.scales}
	}
	return []unified.Tensor{c.Store.Column()}
}

// ReadFrom makes what copy returns of them what is read of the column.
func (c *Column) ReadFrom(copy func(unified.Tensor) unified.Tensor) error {
	return c.setData(copy(c.Store.Column()), copy(c.scales))
}

// setData makes the column, or a copy of it, and its scales what is read of it.
func (c *Column) setData(data, scales unified.Tensor) (err error) {
	c.scales = scales
	c.Store, err = gather.NewStore(data)
	if err == nil && c.as.DType != unified.Invalid && c.as.DType != data.DType() {
		c.Store, err = c.Store.Widened(c.as.DType, c.code, scales)
	}
	return err
}

// CopyBytes is what a copy of the column takes.
func (c *Column) CopyBytes() (n int64) {
	for _, t := range c.Tensors() {
		n += pinned.Options{}.Size(int64(len(t.Bytes())))
	}
	return n
}

// placeBytes is the bytes of a column that are in a trace or not as a whole, so that neighbours stay neighbours.
const placeBytes = 64 << 10

// Together returns how many rows are next to one another in a trace.
func (c *Column) Together() uint32 { return uint32(max(placeBytes/c.Store.RowBytes(), 1)) }

// Tier is a tier of a placed source, with the columns that it has.
type Tier struct {
	tier.Tier
	Columns []*Column
	InPlace bool // rows are read where the source has them
}

// Take makes columns all that the tier has.
func (t *Tier) Take(columns []*Column) {
	t.Columns = columns
	for i, c := range columns {
		c.Tier, c.Number = t, i
	}
}

// Divide returns the columns with and without a property.
func Divide(columns []*Column, is func(*Column) bool) (with, without []*Column) {
	for _, c := range columns {
		if is(c) {
			with = append(with, c)
		} else {
			without = append(without, c)
		}
	}
	return with, without
}

// Describe says what tiers are to know of columns, for loaders of a recipe.
func Describe(r *recipe.Recipe, columns []*Column) []tier.Column {
	list := make([]tier.Column, len(columns))
	for i, c := range columns {
		list[i] = tier.Column{Name: c.Name, NodeType: c.NodeType, Type: c.typeName, Data: c.Store.Column()}
		for _, a := range r.ArraysOf(c.ColumnKey) {
			list[i].Most = sat.Add(list[i].Most, a.Most)
		}
	}
	return list
}
