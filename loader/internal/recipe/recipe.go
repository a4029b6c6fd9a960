// Package recipe says what is in the batches of a loader, and how large they can become: which seeds, which keys of
// randomness, which arrays. It takes no memory.
package recipe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/narrow"
	"github.com/khop-gnn/khop/loader/internal/errs"
	"github.com/khop-gnn/khop/loader/internal/seedlist"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// Spec is what decides what is in the batches of a loader. All of it makes sense for the graph.
type Spec struct {
	Name    string // of the source, in errors
	Remedy  string // where it is damaged; "" where it does not say
	Graph   *graph.Graph
	Sampler sampling.Sampler
	Seeds   seedlist.List

	BatchSize         int
	DropLast, Shuffle bool
	TimeOrder         bool  // items come in the order of their times
	SameTime          int64 // the span of time that those of a batch lie within; 0: they need not
	Seed              uint64
	Instance          uint32

	NodeColumns, SeedColumns, EdgeColumns []string       // of batches
	EdgePos                               bool           // with edge positions
	Widen                                 narrow.Choices // types of rows that are stored narrow

	Negatives sampling.Negatives
	// CanExclude says that the sampler can leave out edges because they are seeds; Exclude that it does.
	CanExclude, Exclude bool
	Reverses            [][]int // edge types with the reverses of each, where batches leave those out
	Links               string  // what else decides what is in a batch whose seeds are edges

	Log      *slog.Logger
	Progress func(stage string, done, total int64)
}

// Recipe is what decides what is in the batches of a loader, and how large they can become.
type Recipe struct {
	Spec
	Bound       sampling.Bound
	ReadsTimes  bool           // the sampler looks at the times of seeds
	ReadsFrom   bool           // and at their first times
	EdgesRead   []string       // columns of the edges that the sampler reads
	NodesRead   []string       // and of the nodes
	Fingerprint string         // of the sampler
	Arrays      []layout.Array // of every batch
	arrayAt     map[arrayKey]int
	Batches     uint64 // of an epoch, over all ranks
}

// New asks the sampler what it makes.
func New(of Spec) (*Recipe, error) {
	r := &Recipe{Spec: of}
	if size := int64(r.BatchSize); r.TimeOrder || r.SameTime > 0 {
		r.Seeds.Spans = r.Seeds.SpansOf(r.SameTime, size, r.DropLast)
	}
	r.Batches = r.Seeds.Batches(int64(r.BatchSize), r.DropLast)
	if err := r.askSampler(r.Graph.Schema()); err != nil {
		return nil, err
	}
	r.listArrays()
	return r, nil
}

// ExplainDamage names the source, and what to do, in an error that comes of damage to its arrays: a mapped file that
// was cut short, or ids that nothing has.
func (s *Spec) ExplainDamage(err error) error {
	for _, damage := range []error{pinned.ErrFault, sampling.ErrGraph, gather.ErrRange} {
		if errors.Is(err, damage) {
			return s.Damaged(err)
		}
	}
	return err
}

func (s *Spec) Damaged(err error) error {
	if s.Remedy == "" {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	return fmt.Errorf("%s: %w; %s", s.Name, err, s.Remedy)
}

// Explain says where an error happened.
func (s *Spec) Explain(err error, epoch uint32, batch uint64) error {
	return fmt.Errorf("epoch %d, batch %d: %w", epoch, batch, s.ExplainDamage(err))
}

// Describe asks a sampler what it says of itself. Its panic is an error.
func Describe(of sampling.Sampler, schema *graph.Schema, batchSize int) (d sampling.Description, err error) {
	defer errs.Recovered(&err)
	return of.Describe(schema, batchSize)
}

// askSampler learns what the sampler says of itself.
func (r *Recipe) askSampler(schema *graph.Schema) (err error) {
	defer errs.Recovered(&err)
	d, err := r.Sampler.Describe(schema, int(r.mostEnds()))
	if err != nil {
		return err
	}
	if _, err := sampling.EdgeColumns(r.Graph, d.EdgeColumns); err != nil {
		return err
	}
	r.Bound, r.EdgesRead, r.NodesRead = d.Bound, d.EdgeColumns, d.NodeColumns
	r.ReadsTimes, r.ReadsFrom = d.Times, d.From
	r.Fingerprint = r.Sampler.Fingerprint()
	if r.Seeds.ByEdge != nil { // what else decides what is in a batch
		r.Fingerprint += fmt.Sprintf(" links %s %s", r.Links, r.Negatives.Fingerprint())
	}
	if r.Bound.Layers < 0 || r.Bound.Layers > 256 {
		return fmt.Errorf("%w: %d layers", errs.ErrSampler, r.Bound.Layers)
	}
	return nil
}

// Topology returns the arrays that the sampler reads: indptr, indices and edge types, then the columns that it names,
// of the edges and then of the nodes, each of these by node type.
func (r *Recipe) Topology() []unified.Tensor {
	g := r.Graph
	columns, _ := sampling.EdgeColumns(g, r.EdgesRead) // askSampler saw that they are there
	list := append([]unified.Tensor{unified.FromSlice(g.Indptr()), g.Indices(), g.Types()}, columns...)
	for _, name := range r.NodesRead {
		for t := range g.Schema().Nodes {
			column, _ := g.NodeColumn(t, name) // the zero Tensor if the type has none
			list = append(list, column)
		}
	}
	return list
}

// Order returns the order of an epoch's items.
func (r *Recipe) Order(epoch uint32) seedlist.Order {
	if !r.Shuffle {
		return r.Seeds.InOrder(int64(r.BatchSize))
	}
	return r.Seeds.Shuffled(int64(r.BatchSize), r.Seed, epoch, r.Instance)
}

// Env is what a sampler's worker works with.
func (r *Recipe) Env(ledger *pinned.Ledger) sampling.Env {
	return sampling.Env{Graph: r.Graph, BatchSize: int(r.mostEnds()), EdgePos: r.EdgePos,
		Scratch: pinned.Options{Ledger: ledger, Purpose: pinned.Scratch}}
}

// GoThrough calls f for all bytes of some arrays, in order and a part at a time, and tells how far it is.
func (s *Spec) GoThrough(ctx context.Context, stage string, list []unified.Tensor, f func([]byte) error) error {
	const part = 64 << 20
	done, total := int64(0), int64(0)
	for _, t := range list {
		total += int64(len(t.Bytes()))
	}
	for _, t := range list {
		for b := range slices.Chunk(t.Bytes(), part) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := f(b); err != nil {
				return err
			}
			done += int64(len(b))
			s.Progress(stage, done, total)
		}
	}
	return nil
}
