package loader

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/internal/launcher"
	"github.com/khop-gnn/khop/internal/names"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/loader/internal/disk"
	"github.com/khop-gnn/khop/loader/internal/plan"
	"github.com/khop-gnn/khop/loader/internal/prepared"
	"github.com/khop-gnn/khop/loader/internal/presamplers"
	"github.com/khop-gnn/khop/loader/internal/recipe"
	"github.com/khop-gnn/khop/loader/internal/seedlist"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
)

// settle decides where batches are made, and what is in them, for n loaders that share a source. It fills in the
// options.
func settle(src Source, opt *Options, loaders int) (*plan.Plan, error) {
	chosen := opt.Workers
	if err := opt.EnsureDefaults().Validate(); err != nil {
		return nil, err
	}
	on, err := chooseProcessor(opt)
	if err != nil {
		return nil, err
	}
	if opt.Device.Name = on.String(); chosen == 0 {
		opt.Workers = on.DefaultWorkers()
	}
	room, err := groupRoom(opt)
	if err != nil {
		return nil, errors.Join(err, on.Close())
	}
	r, err := newRecipeOf(src, opt)
	if err != nil {
		return nil, errors.Join(err, on.Close())
	}
	p := opt.newPlan(r, on)
	p.Room, p.AnyWorkers = room, chosen == 0
	err = p.ExplainDamage(pinned.Guard(func() error { return opt.settleTiers(src, p, loaders) }))
	if err != nil {
		return nil, errors.Join(err, on.Close())
	}
	return p, nil
}

// newPlan returns a plan of the options' numbers.
func (o *Options) newPlan(r *recipe.Recipe, on plan.Processor) *plan.Plan {
	return &plan.Plan{Kit: &presamplers.Kit{Recipe: r, RowMemory: o.Hooks.RowMemory}, On: on, Workers: o.Workers,
		Prefetch: o.Tuning.Prefetch, MaxMemory: o.MaxMemory, PerSlot: o.Hooks.PerSlot, OfRank: o.rounds}
}

// settleTiers decides where the rows of each column come from.
func (o *Options) settleTiers(src Source, p *plan.Plan, loaders int) (err error) {
	given := o.Hooks.Tier
	if from := tiers.PartialOf(src); given == nil && from != nil {
		given = &tiers.Passing{From: from}
	}
	remote, err := o.remote(src)
	if err != nil {
		return err
	}
	if p.Set, err = tiers.NewSet(p.Recipe, loaders, given, remote); err != nil {
		return err
	}
	if passing, ok := given.(*tiers.Passing); ok && passing.Bytes() > 0 {
		o.log().Warn("a column is fetched again for each batch, because the cache of datasets has no room for it",
			"bytes", passing.Bytes())
	}
	if p.Seeds.OnRequest && o.Residence == Auto {
		o.Residence = Mapped
	}
	if err := o.checkRequests(); err != nil {
		return err
	}
	if o.Residence == Disk || o.Residence == Auto {
		disk, auto := disk.Options(o.Disk), o.Residence == Auto
		o.Residence = Mapped
		if p.StayOnDisk(&disk, auto) {
			o.Residence, o.Disk.CacheBytes = Disk, disk.CacheBytes
		}
	}
	if p.Set.IsRemote() && !p.Seeds.OnRequest {
		o.Disk.CacheBytes = p.ReadRemote(disk.Options(o.Disk))
	}
	if len(o.Columns.Widen) > 0 && p.Set.AsStored() {
		return option.Errorf(ErrOptions, o, "Columns.Widen",
			": rows that a Tier brings are delivered as they are stored")
	}
	p.On.ChooseTiers(p.Set)
	return nil
}

// newRecipeOf looks up seeds and columns and asks the sampler what it makes. Options have their defaults; Seeds and
// BatchSize become what they turn out to be.
func newRecipeOf(src Source, opt *Options) (r *recipe.Recipe, err error) {
	s := opt.spec(src)
	if s.Graph == nil {
		return nil, fmt.Errorf("%w: %s has no graph", ErrOptions, s.Name)
	}
	if s.Widen, err = opt.widening(s.Graph.Schema()); err != nil {
		return nil, err
	}
	err = pinned.Guard(func() error {
		if err := opt.findSeeds(src, &s); err != nil {
			return err
		}
		if r, err = recipe.New(s); err != nil {
			return err
		}
		return opt.checkColumns(s.Graph.Schema())
	})
	return r, s.ExplainDamage(err)
}

// spec is what the options say of batches, but for the seeds.
func (o *Options) spec(src Source) recipe.Spec {
	s := recipe.Spec{Name: nameOfSource(src), Graph: src.Graph(), Sampler: o.Sampler, BatchSize: o.BatchSize,
		DropLast: o.DropLast, Shuffle: o.Shuffle, TimeOrder: o.TimeOrder, SameTime: o.SameTime, Seed: o.Seed,
		Instance:    o.Instance,
		NodeColumns: o.nodeColumns(src.Graph()),
		SeedColumns: orDefault(o.Columns.Seeds, defaultSeedColumn), EdgeColumns: o.Columns.Edges,
		EdgePos:   o.Columns.EdgePos || len(o.Columns.Edges) > 0,
		Negatives: o.Links.Negatives, Exclude: o.Links.ExcludeSeeds != ExcludeNone,
		Links: fmt.Sprintf("label=%q time=%q exclude=%v", o.Links.Label, o.Links.Time, o.Links.ExcludeSeeds),
		Log:   o.log(), Progress: o.progress}
	if o.Links.ExcludeSeeds == ExcludeReverse && s.Graph != nil {
		s.Reverses = seedlist.Reverses(s.Graph.Schema())
	}
	if says, ok := src.(interface{ Remedy() string }); ok {
		s.Remedy = says.Remedy()
	}
	return s
}

// nameOfSource is how errors call the source.
func nameOfSource(src Source) string {
	if p, ok := src.(*Placed); ok {
		return p.plan.Name
	}
	if p, ok := src.(interface{ Path() string }); ok {
		return paths.Text(p.Path())
	}
	id := src.ID()
	return "dataset " + hex.EncodeToString(id[:])
}

// findSeeds looks up the seeds, and notes in the options what they are.
func (o *Options) findSeeds(src Source, s *recipe.Spec) error {
	schema := s.Graph.Schema()
	said, err := recipe.Describe(o.Sampler, schema, o.BatchSize)
	if err != nil {
		return err
	}
	s.CanExclude = said.Excludes
	if said.Items != nil {
		return o.findItems(said.Items, s)
	}
	seeds, what, err := o.Seeds.resolve(src, schema)
	if err != nil {
		return err
	}
	if what.each != nil && len(seeds.Edges) > 0 {
		return fmt.Errorf("%w: seeds of each epoch must be nodes", ErrOptions)
	}
	if err := o.verifySeeds(src, seeds); err != nil {
		return err
	}
	if err := seeds.Check(schema); err != nil {
		if err = fmt.Errorf("%v: %w", what, err); what.kind == ofSplit {
			err = s.Damaged(err)
		}
		return err
	}
	if s.Seeds, err = seedlist.New(seeds, s.Graph, o.Links.Label, o.Links.Time); err != nil {
		return err
	}
	if s.Seeds.OnRequest = what.kind == onRequest; s.Seeds.OnRequest {
		s.Seeds.Timed = true // each request has times or not
	}
	if o.Seeds.kind == trainOrAll && what.kind == allNodes {
		o.log().Info("no train split: all nodes are seeds")
	}
	o.Seeds = what
	o.warnOfLinks(s, int64(seeds.Len()))
	o.warnOfReverses(s)
	if said.Times && s.Seeds.Timed {
		noteTimeless(s, said.NodeColumns)
	}
	if err := o.checkTimes(s, said.Times); err != nil {
		return err
	}
	return o.checkLinks(s)
}

// warnOfLinks says that batches follow edges that are links to predict, where the dataset has the column of those that
// the split may follow and the sampler does not read it.
func (o *Options) warnOfLinks(s *recipe.Spec, links int64) {
	mask := names.Follow(o.Seeds.split, o.Seeds.index)
	n, _ := unwrapped(o.Sampler).(sampling.Neighbor)
	_, there := s.Graph.EdgeColumn(mask)
	if !there || s.Seeds.ByEdge == nil || o.Seeds.kind != ofSplit || n.Mask == mask && !n.Induced {
		return
	}
	why := "the sampler's mask leaves them out"
	if n.Induced {
		why = "Induced takes them whatever the mask"
	}
	s.Log.Warn("batches follow edges that are links to predict: "+why, "split", o.Seeds.split, "links", links, "mask",
		mask)
}

// warnOfReverses says which edge types lead back along seeds, and are not known to hold their reverses.
func (o *Options) warnOfReverses(s *recipe.Spec) {
	types := s.Graph.Schema().Edges
	for e, known := range s.Reverses {
		if s.Seeds.ByEdge == nil || s.Seeds.ByEdge[e] == 0 || types[e].Src == types[e].Dst {
			continue
		}
		for r := range types {
			if types[r].Src == types[e].Dst && types[r].Dst == types[e].Src && !slices.Contains(known, r) {
				s.Log.Warn("edges that may reverse seeds are not left out: only those of the same relation with "+
					"rev_ before it are", "seeds", types[e].String(), "stay", types[r].String())
			}
		}
	}
}

// noteTimeless says which node types have no times where others do: a batch of any time may have their rows.
func noteTimeless(s *recipe.Spec, times []string) {
	var without []string
	var rows int64
	types := s.Graph.Schema().Nodes
	for t, n := range types {
		has := func(c string) bool { _, ok := s.Graph.NodeColumn(t, c); return ok }
		if n.Count > 0 && !slices.ContainsFunc(times, has) {
			without, rows = append(without, n.Name), rows+n.Count
		}
	}
	if len(without) > 0 && len(without) < len(types) {
		s.Log.Info("rows of tables without times are read at any time", "tables", strings.Join(without, ", "),
			"rows", rows)
	}
}

// errUnread is that of times which the sampler does not look at.
func (o *Options) errUnread() error {
	name, _, _ := strings.Cut(o.Sampler.Fingerprint(), " ")
	return option.Errorf(ErrOptions, o, "Times", " is read, but the sampler %q does not look at the times of seeds: "+
		"batches would have rows that are later than their seeds; take the sampler \"temporal\", or \"ignore\" the "+
		"times", name)
}

// checkTimes refuses times that the sampler does not read, and an order of times for seeds that have none, or that are
// to have another order.
func (o *Options) checkTimes(s *recipe.Spec, read bool) error {
	switch of := o.Seeds; {
	case s.Seeds.Timed && s.Seeds.Count > 0 && !s.Seeds.OnRequest && !read && o.Times == ReadTimes:
		return o.errUnread()
	case !o.TimeOrder && o.SameTime == 0:
	case s.Seeds.Count > 0 && !s.Seeds.Timed:
		return option.Errorf(ErrOptions, o, "SameTime", " and %s are for seeds with times, and %v have none: "+
			"seeds of a task have times, and others can be given some", option.NameOf(o, "TimeOrder"), of)
	case of.each != nil:
		return option.Errorf(ErrOptions, o, "SameTime", " and %s are for seeds that all epochs share, and each has "+
			"its own", option.NameOf(o, "TimeOrder"))
	case o.TimeOrder && o.Shuffle:
		return option.Errorf(ErrOptions, o, "TimeOrder", " is set, and so is %s: seeds have one order",
			option.NameOf(o, "Shuffle"))
	}
	return nil
}

// findItems takes the items of a sampler, which stand in for seeds.
func (o *Options) findItems(items *sampling.Items, s *recipe.Spec) error {
	switch {
	case o.Seeds.kind != trainOrAll && o.Seeds.kind != ownItems:
		return fmt.Errorf("%w: %s are set, but this sampler makes batches of items of its own", ErrOptions, o.Seeds)
	case o.TimeOrder || o.SameTime > 0:
		return option.Errorf(ErrOptions, o, "SameTime", " and %s are for seeds, and this sampler's batches are of "+
			"items of its own", option.NameOf(o, "TimeOrder"))
	case o.Shuffle && items.InOrder:
		return option.Errorf(ErrOptions, o, "Shuffle", " is set, but this sampler's batches have an order")
	case items.Count < 0 || items.PerBatch < 1:
		return fmt.Errorf("%w: %d items, %d a batch", ErrSampler, items.Count, items.PerBatch)
	}
	o.Seeds, o.BatchSize = SeedSource{kind: ownItems}, items.PerBatch
	s.BatchSize = items.PerBatch
	s.Seeds = seedlist.List{Count: items.Count, ByType: make([]int64, len(s.Graph.Schema().Nodes)), Numbers: true}
	return o.checkLinks(s)
}

// rounds returns how many batches this rank has of n that all ranks share.
func (o *Options) rounds(n uint64) uint64 {
	rank, world := uint64(o.Rank), uint64(o.WorldSize)
	switch o.Remainder {
	case Drop:
		return n / world
	case Short:
		return (n + world - 1 - rank) / world
	default:
		return (n + world - 1) / world
	}
}

// prepare adds what the options ask for to their sampler.
func (o *Options) prepare() {
	if o.Sampler == nil || o.Columns.Prepare == 0 || !o.Columns.Prepare.Valid() {
		return
	}
	o.Sampler = prepared.New(o.Sampler, o.Columns.Prepare)
}

// FindRank returns Options.Rank and Options.WorldSize as the launcher of this process has set them in the environment
// (docs/machines.md, "Which rank"), and which variables have them; without a launcher rank 0 of 1. It returns
// ErrOptions for an impossible rank, and if there is a number of ranks but none for this process.
func FindRank() (rank, worldSize int, from string, err error) {
	p, err := launcher.Find(os.Getenv)
	if err != nil {
		return 0, 1, "", fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return p.Rank, p.Size, p.From, nil
}
