package loader

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/internal/prepared"
	"github.com/khop-gnn/khop/loader/internal/seedlist"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
)

// recipe is what decides what is in the batches of a loader, and how large they can become. It takes no memory.
type recipe struct {
	opt         Options // with defaults, and the numbers that plan settled on
	name        string  // of the source, in errors
	remedy      string  // where it is damaged; "" where it does not say
	graph       *graph.Graph
	seeds       seedlist.List
	bound       sampling.Bound
	fingerprint string           // of the sampler
	prepared    sampling.Sampler // opens workers in place of opt.Sampler; nil where that needs no preparation
	arrays      []Array          // of every batch
	arrayAt     map[arrayKey]int
	batches     uint64           // of an epoch, over all ranks
	state       State            // what all states begin as
	room        int64            // what the control group leaves; 0 where none limits memory
	reverses    [][]int          // edge types with the reverses of each, where batches leave those out
	drawer      *sampling.Drawer // of negatives, once there is memory for it; nil for none
	split       *tiers.DiskTier  // of the columns, with Disk
	paged       *pagedTopology   // where the topology stays on disk
	anyWorkers  bool             // Options.Workers was left open
	indexed     *pinned.Ledger   // counts the index of seeds that are edges of some types; nil before it is there
	shared      bool             // openShared has made prepared and drawer
}

// newRecipe looks up seeds and columns and asks the sampler what it makes. Options have their defaults.
func newRecipe(src Source, opt Options) (*recipe, error) {
	r := &recipe{opt: opt, name: nameOfSource(src), graph: src.Graph()}
	if s, ok := src.(interface{ Remedy() string }); ok {
		r.remedy = s.Remedy()
	}
	if r.graph == nil {
		return nil, fmt.Errorf("%w: %s has no graph", ErrOptions, r.name)
	}
	err := pinned.Guard(func() error {
		schema := r.graph.Schema()
		if err := r.findSeeds(src, schema); err != nil {
			return err
		}
		if err := r.askSampler(schema); err != nil {
			return err
		}
		r.state = r.newState(src.ID())
		return r.listArrays()
	})
	return r, r.explainDamage(err)
}

// nameOfSource is how errors call the source.
func nameOfSource(src Source) string {
	if p, ok := src.(*Placed); ok {
		return p.recipe.name
	}
	if p, ok := src.(interface{ Path() string }); ok {
		return paths.Text(p.Path())
	}
	id := src.ID()
	return "dataset " + hex.EncodeToString(id[:])
}

// explainDamage names the source, and what to do, in an error that comes of damage to its arrays: a mapped file that
// was cut short, or ids that nothing has.
func (r *recipe) explainDamage(err error) error {
	for _, damage := range []error{pinned.ErrFault, sampling.ErrGraph, gather.ErrRange} {
		if errors.Is(err, damage) {
			return r.damaged(err)
		}
	}
	return err
}

func (r *recipe) damaged(err error) error {
	if r.remedy == "" {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	return fmt.Errorf("%s: %w; %s", r.name, err, r.remedy)
}

func (r *recipe) findSeeds(src Source, schema *graph.Schema) error {
	if own, ok := sampling.As[sampling.ItemSampler](r.opt.Sampler); ok {
		return r.findItems(own, schema)
	}
	seeds, what, err := r.opt.Seeds.resolve(src, schema)
	if err != nil {
		return err
	}
	if what.each != nil && len(seeds.Edges) > 0 {
		return fmt.Errorf("%w: seeds of each epoch must be nodes", ErrOptions)
	}
	if err := r.verifySeeds(src, seeds); err != nil {
		return err
	}
	if err := seeds.Check(schema); err != nil {
		if err = fmt.Errorf("%v: %w", what, err); what.kind == ofSplit {
			err = r.damaged(err)
		}
		return err
	}
	if r.seeds, err = seedlist.New(seeds, r.graph, r.opt.Links.Label, r.opt.Links.Time); err != nil {
		return err
	}
	if r.opt.Seeds.kind == trainOrAll && what.kind == allNodes {
		r.opt.log().Info("no train split: all nodes are seeds")
	}
	r.opt.Seeds = what
	if err := r.checkLinks(); err != nil {
		return err
	}
	r.countBatches()
	return nil
}

// findItems asks a sampler for the items that stand in for seeds.
func (r *recipe) findItems(of sampling.ItemSampler, schema *graph.Schema) (err error) {
	defer recovered(&err)
	if err := of.Validate(schema); err != nil {
		return err
	}
	items := of.Items(schema)
	switch {
	case r.opt.Seeds.kind != trainOrAll && r.opt.Seeds.kind != ownItems:
		return fmt.Errorf("%w: %s are set, but this sampler makes batches of items of its own", ErrOptions, r.opt.Seeds)
	case r.opt.Shuffle && items.InOrder:
		return option.Errorf(ErrOptions, &r.opt, "Shuffle", " is set, but this sampler's batches have an order")
	case items.Count < 0 || items.PerBatch < 1:
		return fmt.Errorf("%w: %d items, %d a batch", ErrSampler, items.Count, items.PerBatch)
	}
	r.opt.Seeds, r.opt.BatchSize = SeedSource{kind: ownItems}, items.PerBatch
	r.seeds = seedlist.List{Count: items.Count, ByType: make([]int64, len(schema.Nodes)), Numbers: true}
	r.countBatches()
	return r.checkLinks()
}

// countBatches sets how many batches an epoch has.
func (r *recipe) countBatches() {
	size := int64(r.opt.BatchSize)
	r.batches = uint64(r.seeds.Count / size)
	if r.seeds.Count%size != 0 && !r.opt.DropLast {
		r.batches++
	}
}

// askSampler learns what the sampler says of itself.
func (r *recipe) askSampler(schema *graph.Schema) (err error) {
	defer recovered(&err)
	if err := r.opt.Sampler.Validate(schema); err != nil {
		return err
	}
	if _, err := sampling.EdgeColumns(r.opt.Sampler, r.graph); err != nil {
		return err
	}
	r.fingerprint = r.opt.Sampler.Fingerprint()
	if r.seeds.ByEdge != nil { // what else decides what is in a batch
		r.fingerprint += fmt.Sprintf(" links label=%q time=%q exclude=%v %s", r.opt.Links.Label, r.opt.Links.Time,
			r.opt.Links.ExcludeSeeds, r.opt.Links.Negatives.Fingerprint())
	}
	r.bound = r.opt.Sampler.Bound(schema, int(r.batchSize()))
	if r.bound.Layers < 0 || r.bound.Layers > 256 {
		return fmt.Errorf("%w: %d layers", ErrSampler, r.bound.Layers)
	}
	return nil
}

// openShared makes what all workers share: tables of negatives, and what the sampler learns of the whole graph.
func (r *recipe) openShared(ctx context.Context, ledger *pinned.Ledger) error {
	r.shared = true
	env := r.env(ledger)
	env.Progress = func(done, total int64) { r.opt.progress("prepare", done, total) }
	if err := ledger.Take(pinned.Scratch, r.seeds.IndexBytes()); err != nil {
		return err
	}
	r.indexed = ledger
	return guarded(func() error {
		if err := r.seeds.CountLinks(ctx, env.Progress); err != nil {
			return err
		}
		if r.opt.Links.Negatives.Any() {
			d, err := r.opt.Links.Negatives.Open(ctx, env, r.seededTypes())
			if err != nil {
				return err
			}
			r.drawer = d
		}
		prepared, err := sampling.Prepare(ctx, r.opt.Sampler, env)
		if err == nil {
			r.prepared = prepared
		}
		return err
	})
}

// closeShared frees what openShared took.
func (r *recipe) closeShared() (err error) {
	if c, ok := r.prepared.(io.Closer); ok {
		err = c.Close()
	}
	if r.drawer != nil {
		err = errors.Join(err, r.drawer.Close())
	}
	if r.indexed != nil {
		r.indexed.Give(pinned.Scratch, r.seeds.IndexBytes())
	}
	r.prepared, r.drawer, r.indexed, r.shared = nil, nil, nil, false
	return err
}

// rounds returns how many batches this rank has of n that all ranks share.
func (r *recipe) rounds(n uint64) uint64 {
	rank, world := uint64(r.opt.Rank), uint64(r.opt.WorldSize)
	switch r.opt.Remainder {
	case Drop:
		return n / world
	case Short:
		return (n + world - 1 - rank) / world
	default:
		return (n + world - 1) / world
	}
}

const (
	// writeAhead is how many ids beyond the last a sampler may ask room for in a node list.
	writeAhead = 1024
	// mostBlockEdges is what a block's int32 offsets can number.
	mostBlockEdges = math.MaxInt32
)

// batchSize returns the most seeds that a batch has; each end of an edge counts.
func (r *recipe) batchSize() int64 {
	return max(1, 2*r.mostLinks(), min(int64(r.opt.BatchSize), r.seeds.Count))
}

// mostNodes returns the most nodes of type t in a batch.
func (r *recipe) mostNodes(t int) int64 {
	most := r.graph.Schema().Nodes[t].Count
	if t < len(r.bound.Lists) {
		most = max(0, r.bound.Lists[t])
	}
	return min(most, max(0, r.bound.Nodes))
}

// mostSeeds returns the most seeds of type t in a batch.
func (r *recipe) mostSeeds(t int) int64 {
	if r.seeds.ByEdge == nil {
		return min(r.seeds.ByType[t], r.batchSize())
	}
	most := int64(0)
	for e, n := range r.seeds.ByEdge {
		et, ends := &r.graph.Schema().Edges[e], int64(0)
		if et.Src == t {
			ends++
		}
		if et.Dst == t {
			ends++
		}
		if n > 0 {
			most = max(most, ends)
		}
	}
	return most * r.mostLinks()
}

// mostEdges returns the most edges in a block.
func (r *recipe) mostEdges(layer, edgeType int) int64 {
	n := r.bound.Edges
	if b := r.bound.Blocks; layer < len(b) && edgeType < len(b[layer]) {
		n = b[layer][edgeType]
	}
	return min(max(0, n), mostBlockEdges)
}

// mostBytes returns the most memory that an array takes in a slot.
func (a *Array) mostBytes() int64 {
	rows := a.Most
	if a.Kind == ArrayNodes {
		rows = sat.Add(rows, writeAhead)
	}
	return sat.Mul(rows, a.rowBytes())
}

// rowBytes returns the bytes of one row.
func (a *Array) rowBytes() int64 {
	row := a.DType.Size()
	for _, d := range a.Row {
		row = sat.Mul(row, d)
	}
	return row
}

// mostScratch returns the most memory of a worker. The sampler says what its tables hold; buffers that grow take up to
// a quarter more, and while one moves it is there twice.
func (r *recipe) mostScratch() int64 {
	n := sat.Mul(max(0, r.bound.Scratch), 7) / 4
	if n >= pinned.HugePage {
		n = sat.Add(n, 4*pinned.HugePage)
	}
	return sat.Add(n, 64<<10)
}

// prepare adds what the options ask for to their sampler.
func (o *Options) prepare() {
	if o.Sampler == nil || o.Columns.Prepare == 0 || !o.Columns.Prepare.Valid() {
		return
	}
	o.Sampler = prepared.New(o.Sampler, o.Columns.Prepare)
}
