package loader

import (
	"context"
	"slices"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// columnTensors returns the columns in use, each once.
func (l *Loader) columnTensors() []unified.Tensor {
	var list []unified.Tensor
	l.eachColumn(func(c *column) { list = append(list, c.store.Column()) })
	return list
}

func firstByte(t unified.Tensor) *byte {
	if len(t.Bytes()) == 0 {
		return nil
	}
	return &t.Bytes()[0]
}

// copier copies tensors of one stage into memory that the loader owns.
type copier struct {
	l           *Loader
	ctx         context.Context
	stage       string
	purpose     pinned.Purpose
	done, total int64
	err         error
	copies      map[*byte]unified.Tensor // by where the original lies
}

func (l *Loader) newCopier(ctx context.Context, stage string, p pinned.Purpose, tensors []unified.Tensor) *copier {
	c := &copier{l: l, ctx: ctx, stage: stage, purpose: p, copies: make(map[*byte]unified.Tensor)}
	for _, t := range tensors {
		c.total += int64(len(t.Bytes()))
	}
	for _, t := range tensors {
		c.copy(t)
	}
	return c
}

func (c *copier) copy(t unified.Tensor) {
	p := firstByte(t)
	if p == nil || c.err != nil {
		return
	}
	opt := gather.ResidentOptions{Memory: pinned.Options{Ledger: &c.l.ledger, Purpose: c.purpose}}
	if c.l.opt.Progress != nil {
		opt.Progress = func(done, _ int64) { c.l.opt.Progress(c.stage, c.done+done, c.total) }
	}
	var r *pinned.Region
	var to unified.Tensor
	if to, r, c.err = gather.Resident(c.ctx, t, opt); c.err != nil {
		return
	}
	c.l.regions = append(c.l.regions, r)
	c.copies[p] = to
	c.done += int64(len(t.Bytes()))
}

// of returns the copy of a tensor, or the tensor itself if it was not copied.
func (c *copier) of(t unified.Tensor) unified.Tensor {
	if to, ok := c.copies[firstByte(t)]; ok {
		return to
	}
	return t
}

// makeResident replaces the graph by one whose topology and columns in use are in memory.
func (l *Loader) makeResident(ctx context.Context) error {
	g := l.graph
	topology := l.newCopier(ctx, "topology", pinned.Topology, l.topology())
	if topology.err != nil {
		return l.explainLimit(topology.err)
	}
	cols := l.newCopier(ctx, "columns", pinned.Columns, l.columnTensors())
	if cols.err != nil {
		return l.explainLimit(cols.err)
	}
	schema := *g.Schema() // its own slices, since FromArrays sets what follows from names
	schema.Nodes, schema.Edges = slices.Clone(schema.Nodes), slices.Clone(schema.Edges)
	a := graph.Arrays{
		Schema: schema, ID: g.ID(), EdgeIDs: g.EdgeIDs(), Splits: g.Splits(),
		Indptr:      topology.of(unified.FromSlice(g.Indptr())),
		Indices:     topology.of(g.Indices()),
		Types:       topology.of(g.Types()),
		NodeColumns: make([]map[string]unified.Tensor, len(schema.Nodes)),
		EdgeColumns: make(map[string]unified.Tensor),
	}
	for t := range schema.Nodes {
		a.NodeColumns[t] = make(map[string]unified.Tensor)
		for _, c := range schema.Nodes[t].Columns {
			col, _ := g.NodeColumn(t, c.Name)
			a.NodeColumns[t][c.Name] = cols.of(col)
		}
	}
	for _, c := range schema.EdgeColumns {
		col, _ := g.EdgeColumn(c.Name)
		a.EdgeColumns[c.Name] = cols.of(col)
	}
	copied, err := graph.FromArrays(a)
	if err != nil {
		return err
	}
	l.graph = copied
	return l.openColumns()
}
