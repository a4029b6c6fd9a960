package loader

import (
	"fmt"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// column is a column to gather with each batch.
type column struct {
	name     string
	store    *gather.Store
	onDevice *gather.DeviceStore // in place of store, where batches are made on a device
}

// columns is all that is gathered with a batch.
type columns struct {
	node, seed [][]column // [node type]
	edge       []column
	edgePos    bool
}

// each calls f for every column, with its node type, or -1 for a column of the edges.
func (c *columns) each(f func(col *column, nodeType int)) {
	for t := range c.node {
		for i := range c.node[t] {
			f(&c.node[t][i], t)
		}
		for i := range c.seed[t] {
			f(&c.seed[t][i], t)
		}
	}
	for i := range c.edge {
		f(&c.edge[i], -1)
	}
}

// newColumns looks up the columns that the options name, or the default ones.
func newColumns(opt *Options, g *graph.Graph) (c columns, err error) {
	if c.node, err = nodeColumns("NodeColumns", opt.NodeColumns, "feature", g); err != nil {
		return c, err
	}
	if c.seed, err = nodeColumns("SeedColumns", opt.SeedColumns, "label", g); err != nil {
		return c, err
	}
	for i, name := range opt.EdgeColumns {
		t, ok := g.EdgeColumn(name)
		if !ok || slices.Contains(opt.EdgeColumns[:i], name) {
			return c, noColumn("EdgeColumns", name, g.Schema().EdgeColumns)
		}
		s, err := gather.NewStore(t)
		if err != nil {
			return c, fmt.Errorf("edge column %s: %w", name, err)
		}
		c.edge = append(c.edge, column{name: name, store: s})
	}
	c.edgePos = opt.EdgePos || len(c.edge) > 0
	return c, nil
}

func nodeColumns(option string, names []string, byDefault string, g *graph.Graph) ([][]column, error) {
	schema := g.Schema()
	optional := names == nil
	if optional {
		names = []string{byDefault}
	}
	cols := make([][]column, len(schema.Nodes))
	for i, name := range names {
		found := false
		for t := range schema.Nodes {
			tensor, ok := g.NodeColumn(t, name)
			if !ok {
				continue
			}
			found = true
			s, err := gather.NewStore(tensor)
			if err != nil {
				return nil, fmt.Errorf("column %s of %s: %w", name, schema.Nodes[t].Name, err)
			}
			cols[t] = append(cols[t], column{name: name, store: s})
		}
		if !found && !optional || slices.Contains(names[:i], name) {
			var all []graph.Column
			for t := range schema.Nodes {
				all = append(all, schema.Nodes[t].Columns...)
			}
			return nil, noColumn(option, name, all)
		}
	}
	return cols, nil
}

func noColumn(option, name string, have []graph.Column) error {
	var names []string
	for _, c := range have {
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		names = []string{"none"}
	}
	if slices.Contains(names, name) {
		return fmt.Errorf("%w: %s: column %q is there twice", ErrOptions, option, name)
	}
	return fmt.Errorf("%w: %s: no column %q; there are: %s", ErrOptions, option, name, strings.Join(names, ", "))
}

// gathered is the rows of one column that belong to a batch.
type gathered struct {
	column
	buf  unified.Buffer
	rows unified.Tensor
}

// gather copies the rows, on the device in the order of stream, which is nil where the CPU does it.
func (g *gathered) gather(stream *device.Stream, ids unified.Tensor) (err error) {
	if stream != nil {
		g.rows, err = g.onDevice.Enqueue(stream, &g.buf, ids)
	} else {
		g.rows, err = g.store.Gather(&g.buf, ids)
	}
	return err
}

func find(cols []gathered, name string) unified.Tensor {
	for i := range cols {
		if cols[i].name == name {
			return cols[i].rows
		}
	}
	return unified.Tensor{}
}
