package loader

import (
	"errors"

	"github.com/khop-gnn/khop/loader/internal/disk"
	"github.com/khop-gnn/khop/loader/internal/plan"
	"github.com/khop-gnn/khop/loader/internal/presamplers"
	"github.com/khop-gnn/khop/pinned"
)

// settled has the decisions that come before any memory. Each part is made of those before it:
//
//	asked    options with their defaults      ask
//	baked    what batches have                bake
//	choice   where, and by how many workers   choose
//	sources  where rows and topology lie      source
//
// The plan holds them for the rooms below; Fit adds the estimate.
type settled struct {
	asked *asked
	seeds SeedSource
	sources
	plan *plan.Plan
}

// asked are options with their defaults. Nobody writes to them.
type asked struct {
	Options
	anyWorkers bool // the number of workers is the default
}

// ask checks options, with defaults in place of what they leave out.
func ask(opt Options) (*asked, error) {
	a := &asked{opt, opt.Workers == 0}
	return a, a.EnsureDefaults().Validate()
}

// settle decides for a number of loaders that share a source.
func settle(src Source, opt Options, loaders int) (s settled, err error) {
	if s.asked, err = ask(opt); err != nil {
		return s, err
	}
	r, err := bake(src, s.asked)
	if err != nil {
		return s, err
	}
	s.seeds = r.seeds
	c, err := choose(s.asked)
	if err != nil {
		return s, err
	}
	s.plan = s.asked.newPlan(r, c)
	err = pinned.Guard(func() (err error) {
		s.sources, err = source(src, s.asked, s.plan, loaders)
		return err
	})
	if err != nil {
		return s, errors.Join(r.ExplainDamage(err), c.on.Close())
	}
	return s, nil
}

// Outlooks are made of plans, by a package above this one.
func init() {
	plan.Settle = func(src, options any) (*plan.Plan, disk.Options, error) {
		s, err := settle(src.(Source), options.(Options), 1)
		if err != nil {
			return nil, disk.Options{}, err
		}
		rows := disk.Options(s.asked.Disk)
		rows.CacheBytes = s.cache
		return s.plan, rows, nil
	}
}

// newPlan returns a plan that has no sources yet.
func (a *asked) newPlan(r baked, c choice) *plan.Plan {
	return &plan.Plan{Kit: &presamplers.Kit{Recipe: r.Recipe, RowMemory: a.Hooks.RowMemory}, On: c.on,
		Workers: c.workers, AnyWorkers: c.anyWorkers, Prefetch: a.Tuning.Prefetch, MaxMemory: c.maxMemory, Room: c.room,
		Free: c.free, PerSlot: a.Hooks.PerSlot, Soon: a.Hooks.Soon, OfRank: a.share().rounds}
}

// share returns which part of an epoch is this rank's.
func (a *asked) share() share { return share{uint64(a.Rank), uint64(a.WorldSize), a.Remainder} }
