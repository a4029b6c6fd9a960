package loader

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/khop-gnn/khop/loader/internal/tiers"
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
	err := tiers.CloseAll(c.owned)
	c.owned = nil
	return err
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
	err := p.copies.Stage(ctx, pinned.Topology, r.topology(), func(done, total int64) {
		r.opt.progress("topology", done, total)
	})
	if err = cmp.Or(err, p.openTiers(ctx)); err != nil {
		return err
	}
	r.graph, err = p.copies.GraphOf(r.graph)
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
		list = append(list, c.Tensors()...)
	}
	if err := p.recipe.opt.goThrough(ctx, "read ahead", list, populate); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// populate is a variable for tests only.
var populate = pinned.Populate
