package loader

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// onCPU makes batches in host memory.
type onCPU struct {
	owned []io.Closer // what reads a topology on disk, to close in reverse order
}

func (*onCPU) String() string          { return "cpu" }
func (*onCPU) bounded(o *Options) bool { return o.MaxMemory > 0 }

func (c *onCPU) close() error {
	err := closeAll(c.owned)
	c.owned = nil
	return err
}

// closeAll closes all in reverse order.
func closeAll(owned []io.Closer) error {
	var errs []error
	for _, o := range slices.Backward(owned) {
		errs = append(errs, o.Close())
	}
	return errors.Join(errs...)
}

func (c *onCPU) place(ctx context.Context, p *Placed) error {
	r := p.recipe
	if r.opt.Residence != Resident {
		if r.split == nil {
			if err := readAhead(ctx, p); err != nil {
				return err
			}
		}
		if err := p.openTiers(ctx); err != nil {
			return err
		}
		return r.openPages(&p.ledger, &c.owned)
	}
	err := p.copies.stage(ctx, pinned.Topology, r.topology(), func(done, total int64) {
		r.opt.progress("topology", done, total)
	})
	if err = cmp.Or(err, p.openTiers(ctx)); err != nil {
		return err
	}
	r.graph, err = p.copies.graph(r.graph)
	return err
}

// readColumns names the columns of the edges that a sampler reads.
func readColumns(s sampling.Sampler) []string {
	if s, ok := sampling.As[sampling.ColumnSampler](s); ok {
		return s.EdgeColumns()
	}
	return nil
}

// topology returns the arrays that the sampler reads: indptr, indices and edge types, then the columns that it names,
// of the edges and then of the nodes, each of these by node type.
func (r *recipe) topology() []unified.Tensor {
	g := r.graph
	columns, _ := sampling.EdgeColumns(r.opt.Sampler, g) // askSampler saw that they are there
	list := append([]unified.Tensor{unified.FromSlice(g.Indptr()), g.Indices(), g.Types()}, columns...)
	return slices.Concat(append([][]unified.Tensor{list}, sampling.NodeColumns(r.opt.Sampler, g)...)...)
}

// readAhead reads what will be read from mapped files: in order, which a disk gives many times faster than pages at
// random. It is worth it where all of it stays in memory: at most half of what is available.
func readAhead(ctx context.Context, p *Placed) error {
	if p.sourceBytes().Total() > probeMachine().Room()/2 {
		return nil
	}
	list := p.recipe.topology()
	for _, c := range p.columns {
		list = append(list, c.tensors()...)
	}
	if err := p.recipe.opt.goThrough(ctx, "read ahead", list, populate); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// populate is a variable for tests only.
var populate = pinned.Populate

// graph returns a graph whose arrays are the copies of g's, as far as there are some.
func (in *copier) graph(g *graph.Graph) (*graph.Graph, error) {
	schema := *g.Schema() // its own slices, since FromArrays sets what follows from names
	schema.Nodes, schema.Edges = slices.Clone(schema.Nodes), slices.Clone(schema.Edges)
	a := graph.Arrays{
		Schema: schema, ID: g.ID(), EdgeIDs: g.EdgeIDs(), Splits: g.Splits(),
		Indptr:      in.of(unified.FromSlice(g.Indptr())),
		Indices:     in.of(g.Indices()),
		Types:       in.of(g.Types()),
		NodeColumns: make([]map[string]unified.Tensor, len(schema.Nodes)),
		EdgeColumns: make(map[string]unified.Tensor),
	}
	for t := range schema.Nodes {
		a.NodeColumns[t] = make(map[string]unified.Tensor)
		for _, c := range schema.Nodes[t].Columns {
			col, _ := g.NodeColumn(t, c.Name)
			a.NodeColumns[t][c.Name] = in.of(col)
		}
	}
	for _, c := range schema.EdgeColumns {
		col, _ := g.EdgeColumn(c.Name)
		a.EdgeColumns[c.Name] = in.of(col)
	}
	return graph.FromArrays(a)
}
