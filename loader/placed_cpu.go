package loader

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// onCPU reads the source where it lies, or copies of it in memory (Resident).
type onCPU struct {
	owned []io.Closer // copies, and the reader of columns on disk, to close in reverse order
}

func (*onCPU) String() string                    { return "cpu" }
func (*onCPU) arrays() []PlacedArray             { return nil }
func (*onCPU) readsInPlace(o *Options) bool      { return o.Residence != Resident }
func (*onCPU) begin(context.Context, bool) error { return nil }
func (*onCPU) traffic(*counters) error           { return nil }
func (*onCPU) busAddress() string                { return "" }
func (*onCPU) bounded(o *Options) bool           { return o.MaxMemory > 0 }

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
	if p.recipe.opt.Residence == Resident {
		return c.copySource(ctx, p)
	}
	if s := p.recipe.split; s != nil {
		if err := s.copyWhole(ctx, p, &c.owned); err != nil {
			return err
		}
		if err := s.open(ctx, p, &c.owned); err != nil {
			return err
		}
		return p.recipe.openPages(&p.ledger, &c.owned)
	}
	return readAhead(ctx, p)
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

// copySource replaces the graph by one whose topology and columns in use are in memory.
func (c *onCPU) copySource(ctx context.Context, p *Placed) error {
	g := p.recipe.graph
	in := copier{c: c, p: p, ctx: ctx, copies: map[*byte]unified.Tensor{}}
	var columns []unified.Tensor
	for _, col := range p.columns {
		columns = append(columns, col.tensors()...)
	}
	if err := in.stage("topology", pinned.Topology, p.recipe.topology()); err != nil {
		return err
	}
	if err := in.stage("columns", pinned.Columns, columns); err != nil {
		return err
	}
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
	copied, err := graph.FromArrays(a)
	p.recipe.graph = copied
	for i := 0; i < len(p.columns) && err == nil; i++ {
		err = p.columns[i].find(copied, p.recipe.opt.Columns.Widen)
	}
	return err
}

// copier copies tensors into memory.
type copier struct {
	c      *onCPU
	p      *Placed
	ctx    context.Context
	copies map[*byte]unified.Tensor // by where the original lies
}

func (in *copier) stage(name string, purpose pinned.Purpose, tensors []unified.Tensor) error {
	done, total := int64(0), int64(0)
	for _, t := range tensors {
		total += int64(len(t.Bytes()))
	}
	for _, t := range tensors {
		if _, ok := in.copies[firstByte(t)]; ok || len(t.Bytes()) == 0 {
			continue
		}
		to, r, err := gather.Resident(in.ctx, t, pinned.Options{Ledger: &in.p.ledger, Purpose: purpose},
			func(n int64) { in.p.recipe.opt.progress(name, done+n, total) })
		if err != nil {
			return err
		}
		in.c.owned = append(in.c.owned, r)
		in.copies[firstByte(t)] = to
		done += int64(len(t.Bytes()))
	}
	return nil
}

// of returns the copy of a tensor, or the tensor itself if it was not copied.
func (in *copier) of(t unified.Tensor) unified.Tensor {
	if to, ok := in.copies[firstByte(t)]; ok {
		return to
	}
	return t
}

func firstByte(t unified.Tensor) *byte {
	if len(t.Bytes()) == 0 {
		return nil
	}
	return &t.Bytes()[0]
}
