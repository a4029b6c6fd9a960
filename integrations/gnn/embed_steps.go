package gnn

import (
	"fmt"
	"strings"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/gnn/internal/embed"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// embedSteps makes the steps of layers.
type embedSteps struct {
	schema *graph.Schema
	dtype  unified.DType // of tables between layers
	all    []*embed.Step
}

// steps returns the steps of layers over features, by type of nodes, for rows of nodes of one type: the last step makes
// them, a table "0-rows". dtype is that of tables between.
func steps(g *graph.Graph, layers []*rowsLayer, x []*embed.Table, of int, dtype unified.DType) []*embed.Step {
	s := &embedSteps{schema: g.Schema(), dtype: dtype}
	need, in := needed(s.schema, layers, of), make([][]*embed.Table, len(x))
	for i, l := range layers {
		l.makes = need[i+1]
	}
	for t := range x {
		if need[0][t] {
			in[t] = s.first(t, layers[0], x[t])
		}
	}
	for i, l := range layers {
		made := make([][]*embed.Table, len(x))
		for t := range x {
			if need[i+1][t] {
				made[t] = s.layer(t, i, l, layers[i+1:], in)
			}
		}
		in = made
	}
	return s.all
}

// needed says of which types of nodes each layer reads inputs for rows of nodes of one type, and last, which it makes.
func needed(schema *graph.Schema, layers []*rowsLayer, of int) [][]bool {
	need := make([][]bool, len(layers)+1)
	need[len(layers)] = make([]bool, len(schema.Nodes))
	need[len(layers)][of] = true
	for i := len(layers) - 1; i >= 0; i-- {
		need[i] = make([]bool, len(schema.Nodes))
		if !layers[i].attends {
			copy(need[i], need[i+1])
		}
		for e := range schema.Edges {
			if of := &schema.Edges[e]; !layers[i].alone && need[i+1][of.Dst] {
				need[i][of.Src] = true
				need[i][of.Dst] = true
			}
		}
	}
	return need
}

// first makes the inputs of the first layer of features.
func (s *embedSteps) first(t int, l *rowsLayer, x *embed.Table) []*embed.Table {
	if l.inputs == nil {
		return []*embed.Table{x}
	}
	to, prepare := s.begin(t, 1, l, x.Width)
	s.all = append(s.all, &embed.Step{Name: "layer 1, products", Type: t, Own: []*embed.Table{x}, To: to,
		Apply: func(b *embed.Block) error { return prepare(b.Pool, b.Own[0], b.To) }})
	return to
}

// layer adds the steps of layer i for nodes of a type, and returns the inputs of the next one.
func (s *embedSteps) layer(t, i int, l *rowsLayer, after []*rowsLayer, in [][]*embed.Table) []*embed.Table {
	name := fmt.Sprintf("layer %d", i+1)
	if len(s.schema.Nodes) > 1 {
		name += ", " + s.schema.Nodes[t].Name
	}
	before, sums, own := l.sums(t, in)
	if before != nil {
		before.Name = name + ", greatest"
		s.all = append(s.all, before)
	}
	step := &embed.Step{Name: name, Type: t, Own: own, Sums: sums, Rows: l.at}
	if len(after) == 0 {
		step.To = []*embed.Table{s.table(t, 0, "rows", l.width, unified.Float32)}
		step.Apply = func(b *embed.Block) error { return l.finish(b, b.To[0]) }
	} else {
		step.To, step.Apply = s.between(t, i+2, l, after[0])
	}
	s.all = append(s.all, step)
	return step.To
}

// between returns the tables of a layer's inputs, and what makes them of the sums of the layer before.
func (s *embedSteps) between(t, number int, l, next *rowsLayer) ([]*embed.Table, func(b *embed.Block) error) {
	to, prepare := s.begin(t, number, next, l.width)
	var room []float32
	return to, func(b *embed.Block) error {
		y := scratch(&room, int(b.N)*l.width)
		if err := l.finish(b, y); err != nil {
			return err
		}
		return prepare(b.Pool, y, b.To)
	}
}

// begin returns the tables of a layer's inputs, and what makes them of rows.
func (s *embedSteps) begin(t, number int, l *rowsLayer, width int) (tables []*embed.Table,
	_ func(p *sparse.Pool, x []float32, to [][]float32) error) {
	if l.inputs == nil {
		rows := s.table(t, number, "rows", width, s.dtype)
		return []*embed.Table{rows}, func(_ *sparse.Pool, x []float32, to [][]float32) error {
			copy(to[0], x)
			return nil
		}
	}
	in := l.inputs(t)
	for i, name := range in.names {
		of := s.dtype
		if strings.HasPrefix(name, "score") || strings.HasPrefix(name, "target") {
			of = unified.Float32 // what exponents are made of
		}
		tables = append(tables, s.table(t, number, name, in.widths[i], of))
	}
	return tables, in.of
}

// table is one of nodes of a type, which its name tells but for the first.
func (s *embedSteps) table(t, layer int, name string, width int, dtype unified.DType) *embed.Table {
	name = fmt.Sprintf("%d-%s", layer, name)
	if t > 0 && layer > 0 {
		name += fmt.Sprintf("-%d", t)
	}
	return &embed.Table{Name: name, Rows: s.schema.Nodes[t].Count, Width: width, DType: dtype}
}
