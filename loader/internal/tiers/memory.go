// Package tiers has the tiers of rows that a host reads: the source's memory (Mapped), copies of it (Resident), and
// chunks that pass by (Passing). Package disk has that of files; see package tier for what a tier is.
package tiers

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader/internal/placed"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Mapped is the tier of columns that are read where the source has them.
type Mapped struct{ Columns []*placed.Column }

func (*Mapped) Cost(tier.Bound) tier.Memory          { return tier.Memory{} }
func (*Mapped) Open(context.Context, tier.Env) error { return nil }
func (*Mapped) Stats() (tier.Stats, error)           { return tier.Stats{}, nil }
func (*Mapped) Close() error                         { return nil }

func (t *Mapped) Reader(w tier.Worker) (tier.Reader, error) {
	return &memoryReader{columns: t.Columns, goroutines: w.Goroutines}, nil
}

// Resident is the tier of columns that are copied to memory on huge pages.
type Resident struct {
	Mapped
	In *Copier
}

func (t *Resident) Cost(tier.Bound) (m tier.Memory) {
	for _, c := range t.Columns {
		m.Columns += c.CopyBytes()
	}
	return m
}

func (t *Resident) Open(ctx context.Context, env tier.Env) error {
	var list []unified.Tensor
	for _, c := range t.Columns {
		list = append(list, c.Tensors()...)
	}
	if err := t.In.Stage(ctx, pinned.Columns, list, env.Progress); err != nil {
		return err
	}
	for _, c := range t.Columns {
		if err := c.ReadFrom(t.In.of); err != nil {
			return err
		}
	}
	return nil
}

func (t *Resident) Close() error { return t.In.close() }

// Copier copies tensors into memory, each once.
type Copier struct {
	Ledger *pinned.Ledger
	Copies map[*byte]unified.Tensor // by where the original lies
	owned  []io.Closer
}

func (in *Copier) Stage(ctx context.Context, purpose pinned.Purpose, list []unified.Tensor,
	progress func(done, total int64)) error {
	done, total := int64(0), int64(0)
	for _, t := range list {
		total += int64(len(t.Bytes()))
	}
	for _, t := range list {
		if _, ok := in.Copies[firstByte(t)]; ok || len(t.Bytes()) == 0 {
			continue
		}
		to, r, err := gather.Resident(ctx, t, pinned.Options{Ledger: in.Ledger, Purpose: purpose},
			func(n int64) { progress(done+n, total) })
		if err != nil {
			return err
		}
		in.owned = append(in.owned, r)
		in.Copies[firstByte(t)] = to
		done += int64(len(t.Bytes()))
	}
	return nil
}

// of returns the copy of a tensor, or the tensor itself if it was not copied.
func (in *Copier) of(t unified.Tensor) unified.Tensor {
	if to, ok := in.Copies[firstByte(t)]; ok {
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

func (in *Copier) close() error {
	err := CloseAll(in.owned)
	in.owned = nil
	return err
}

// memoryReader copies rows out of memory that the host reads.
type memoryReader struct {
	tier.Done
	columns    []*placed.Column
	goroutines int
}

func (r *memoryReader) Begin(_ context.Context, s tier.Slot, w tier.Want) (done bool, err error) {
	c := r.columns[w.Column]
	if err := c.Verified.Check(w.IDs); err != nil {
		return false, err
	}
	to, err := s.Room(w.Array, w.IDs.Len()*c.Store.OutBytes())
	if err != nil {
		return false, err
	}
	return true, c.Store.GatherInto(to, w.IDs, r.goroutines)
}

// GraphOf returns a graph whose arrays are the copies of g's, as far as there are some.
func (in *Copier) GraphOf(g *graph.Graph) (*graph.Graph, error) {
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

// CloseAll closes all in reverse order.
func CloseAll(owned []io.Closer) error {
	var errs []error
	for _, o := range slices.Backward(owned) {
		errs = append(errs, o.Close())
	}
	return errors.Join(errs...)
}
