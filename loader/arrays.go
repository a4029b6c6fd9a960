package loader

import (
	"fmt"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/narrow"
	"github.com/khop-gnn/khop/loader/internal/recipe"
	"github.com/khop-gnn/khop/loader/internal/seedlist"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/unified"
)

// Arrays returns the list of all arrays of every batch, in a fixed order, with their names, dtypes and shapes. It must
// not be changed.
func (l *Loader) Arrays() []layout.Array { return l.plan.Arrays }

// Find returns the number of the array with a name, such as "node/paper/year"; ErrOptions, with all names, if batches
// do not have it.
func (l *Loader) Find(name string) (int, error) {
	var there []string
	for i := range l.plan.Arrays {
		if there = append(there, l.plan.Arrays[i].Name); l.plan.Arrays[i].Name == name {
			return i, nil
		}
	}
	return -1, fmt.Errorf("%w: batches have no array %q; they have %s", ErrOptions, name, strings.Join(there, ", "))
}

// Array returns array i of Loader.Arrays, valid as long as the batch is. It may be the zero Tensor for a list without
// elements, and is so for a released batch.
func (b *Batch) Array(i int) unified.Tensor {
	if b.slot == nil {
		return unified.Tensor{}
	}
	return b.slot.Tensor(i)
}

// IsView reports whether array i is the beginning of its Base, in the same memory: layers may share blocks and columns
// (sampling.NewNodes).
func (b *Batch) IsView(i int) bool { return b.slot != nil && b.slot.IsView(i) }

// The columns of a batch where the options name none. X and Y are of these.
var defaultNodeColumn, defaultSeedColumn = graph.Feature.String(), graph.Label.String()

// ofNodes returns the columns of all nodes that batches have: the features where the options name none, and what a
// database's tables have, whose elements have names.
func (o *ColumnOptions) ofNodes(g *graph.Graph) []string {
	names := orDefault(o.Nodes, defaultNodeColumn)
	if o.Nodes != nil || g == nil {
		return names
	}
	names = slices.Clip(names)
	for _, n := range g.Schema().Nodes {
		for _, c := range n.Columns {
			if c.Fields != nil && !slices.Contains(names, c.Name) {
				names = append(names, c.Name)
			}
		}
	}
	return names
}

func orDefault(names []string, byDefault string) []string {
	if names == nil {
		return []string{byDefault}
	}
	return names
}

// check returns ErrOptions for a column that is asked for and not there, or asked for twice.
func (o *ColumnOptions) check(of *recipe.Spec) error {
	var ofNodes []graph.Column
	s := of.Graph.Schema()
	for t := range s.Nodes {
		ofNodes = append(ofNodes, s.Nodes[t].Columns...)
	}
	for _, k := range []struct {
		option, byDefault string
		names             []string
		there             []graph.Column
	}{
		{"Columns.Nodes", defaultNodeColumn, o.Nodes, ofNodes},
		{"Columns.Seeds", defaultSeedColumn, o.Seeds, ofNodes},
		{"Columns.Edges", "", o.Edges, s.EdgeColumns},
	} {
		there := map[string]bool{}
		for _, c := range k.there {
			there[c.Name] = true
		}
		if k.names == nil && k.byDefault != "" && !there[k.byDefault] {
			of.Log.Info("batches have no "+k.byDefault, "reason", k.option+" names none, and the dataset has no "+
				"such column")
		}
		named := map[string]bool{}
		for _, name := range k.names {
			if named[name] {
				return refuse(k.option, " names column %q twice", name)
			}
			if named[name] = true; !there[name] {
				return refuse(k.option, ": no column %q; there are: %s", name,
					seedlist.ColumnNames(k.there))
			}
		}
	}
	return nil
}

// widening returns what Columns.Widen says.
func (o *ColumnOptions) widening(s *graph.Schema) (narrow.Choices, error) {
	choices, err := narrow.ParseChoices(o.Widen, []string{unified.Float32.String(), unified.Float16.String(),
		unified.BFloat16.String()})
	if err != nil {
		return choices, refuse("Columns.Widen", ": %v", err)
	}
	there := map[string]bool{}
	for _, c := range s.EdgeColumns {
		there[c.Name] = true
	}
	for t := range s.Nodes {
		for _, c := range s.Nodes[t].Columns {
			there[c.Name] = true
		}
	}
	if name := choices.Missing(func(column string) bool { return there[column] }); name != "" {
		return choices, refuse("Columns.Widen", ": no column %q", name)
	}
	return choices, nil
}
