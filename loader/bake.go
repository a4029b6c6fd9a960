package loader

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/internal/names"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/loader/internal/prepared"
	"github.com/khop-gnn/khop/loader/internal/recipe"
	"github.com/khop-gnn/khop/loader/internal/seedlist"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
)

// baked is what batches have, and what the seeds turned out to be.
type baked struct {
	*recipe.Recipe
	seeds SeedSource
}

// bake looks up seeds and columns and asks the sampler what it makes.
func bake(src Source, a *asked) (r baked, err error) {
	s := a.spec(src)
	if s.Graph == nil {
		return r, fmt.Errorf("%w: %s has no graph", ErrOptions, s.Name)
	}
	schema := s.Graph.Schema()
	if s.Widen, err = a.of(src).Columns.widening(schema); err != nil {
		return r, err
	}
	err = pinned.Guard(func() error {
		if r.seeds, err = a.findSeeds(src, &s); err != nil {
			return err
		}
		if r.Recipe, err = recipe.New(s); err != nil {
			return err
		}
		return a.Columns.check(&s)
	})
	return r, s.ExplainDamage(err)
}

// of returns the options that decide for all loaders of a source: of a placed one those that it was placed with.
func (a *asked) of(src Source) *asked {
	if p, ok := src.(*Placed); ok {
		return p.asked
	}
	return a
}

// spec is what the options say of batches, but for the seeds.
func (a *asked) spec(src Source) recipe.Spec {
	s := recipe.Spec{Name: nameOfSource(src), Graph: src.Graph(), Sampler: a.Sampler, BatchSize: a.BatchSize,
		DropLast: a.DropLast, Shuffle: a.Shuffle, TimeOrder: a.TimeOrder, SameTime: a.SameTime, Seed: a.Seed,
		Instance:    a.Instance,
		NodeColumns: a.Columns.ofNodes(src.Graph()),
		SeedColumns: orDefault(a.Columns.Seeds, defaultSeedColumn), EdgeColumns: a.Columns.Edges,
		EdgePos:   a.Columns.EdgePos || len(a.Columns.Edges) > 0,
		Negatives: a.Links.Negatives, Exclude: a.Links.ExcludeSeeds != ExcludeNone,
		Links: fmt.Sprintf("label=%q time=%q exclude=%v", a.Links.Label, a.Links.Time, a.Links.ExcludeSeeds),
		Log:   a.Hooks.log(), Progress: a.Hooks.progress}
	if a.Columns.Prepare != 0 {
		s.Sampler = prepared.New(a.Sampler, a.Columns.Prepare)
	}
	if a.Links.ExcludeSeeds == ExcludeReverse && s.Graph != nil {
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

// findSeeds looks up the seeds for a spec, and returns what they are.
func (a *asked) findSeeds(src Source, s *recipe.Spec) (what SeedSource, err error) {
	schema := s.Graph.Schema()
	said, err := recipe.Describe(s.Sampler, schema, s.BatchSize)
	if err != nil {
		return what, err
	}
	s.CanExclude = said.Excludes
	if said.Items != nil {
		return SeedSource{kind: ownItems}, a.findItems(said.Items, s)
	}
	seeds, what, err := a.Seeds.resolve(src, schema)
	if err != nil {
		return what, err
	}
	if what.each != nil && len(seeds.Edges) > 0 {
		return what, fmt.Errorf("%w: seeds of each epoch must be nodes", ErrOptions)
	}
	if err := verifySeeds(src, a.of(src).Verify, seeds); err != nil {
		return what, err
	}
	if err := seeds.Check(schema); err != nil {
		if err = fmt.Errorf("%v: %w", what, err); what.kind == ofSplit {
			err = s.Damaged(err)
		}
		return what, err
	}
	if s.Seeds, err = seedlist.New(seeds, s.Graph, a.Links.Label, a.Links.Time); err != nil {
		return what, err
	}
	if s.Seeds.OnRequest = what.kind == onRequest; s.Seeds.OnRequest {
		s.Seeds.Timed = true // each request has times or not
	}
	if a.Seeds.kind == trainOrAll && what.kind == allNodes {
		s.Log.Info("no train split: all nodes are seeds")
	}
	warnOfLinks(s, what, int64(seeds.Len()))
	warnOfReverses(s)
	if said.Times && s.Seeds.Timed {
		noteTimeless(s, said.NodeColumns)
	}
	if err := a.checkTimes(s, what, &said); err != nil {
		return what, err
	}
	return what, a.Links.check(s, what)
}

// warnOfLinks says that batches follow edges that are links to predict, where the dataset has the column of those that
// the split may follow and the sampler does not read it.
func warnOfLinks(s *recipe.Spec, of SeedSource, links int64) {
	mask := names.Follow(of.split, of.index)
	n, _ := prepared.Bare(s.Sampler).(sampling.Neighbor)
	_, there := s.Graph.EdgeColumn(mask)
	if !there || s.Seeds.ByEdge == nil || of.kind != ofSplit || n.Mask == mask && !n.Induced {
		return
	}
	why := "the sampler's mask leaves them out"
	if n.Induced {
		why = "Induced takes them whatever the mask"
	}
	s.Log.Warn("batches follow edges that are links to predict: "+why, "split", of.split, "links", links, "mask",
		mask)
}

// warnOfReverses says which edge types lead back along seeds, and are not known to hold their reverses.
func warnOfReverses(s *recipe.Spec) {
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

// unread refuses times of seeds, and first times, that the sampler does not look at. times and from say which it does.
func (a *asked) unread(l *seedlist.List, sampler sampling.Sampler, times, from bool) error {
	name := func() string { return strings.SplitN(sampler.Fingerprint(), " ", 2)[0] }
	switch {
	case !l.Timed || l.Count == 0 || l.OnRequest:
	case !times && a.Times == ReadTimes:
		return refuse("Times", " is read, but the sampler %q does not look at the times of seeds: batches would have "+
			"rows that are later than their seeds; take the sampler \"temporal\", or \"ignore\" the times", name())
	case times && !from && l.From != nil:
		return option.Textf("%w: the sampler %q does not look at first times, which seeds have: set %s, or leave "+
			"them out", ErrOptions, name(), option.Named("Disjoint"))
	}
	return nil
}

// checkTimes refuses times that the sampler does not read, and an order of times for seeds that have none, or that are
// to have another order.
func (a *asked) checkTimes(s *recipe.Spec, of SeedSource, said *sampling.Description) error {
	if err := a.unread(&s.Seeds, s.Sampler, said.Times, said.From); err != nil {
		return err
	}
	switch {
	case !a.TimeOrder && a.SameTime == 0:
	case s.Seeds.Count > 0 && !s.Seeds.Timed:
		return refuse("SameTime", " and %s are for seeds with times, and %v have none: "+
			"seeds of a task have times, and others can be given some", called("TimeOrder"), of)
	case of.each != nil:
		return refuse("SameTime", " and %s are for seeds that all epochs share, and each has "+
			"its own", called("TimeOrder"))
	case a.TimeOrder && a.Shuffle:
		return refuse("TimeOrder", " is set, and so is %s: seeds have one order", called("Shuffle"))
	}
	return nil
}

// findItems takes the items of a sampler, which stand in for seeds.
func (a *asked) findItems(items *sampling.Items, s *recipe.Spec) error {
	switch {
	case a.Seeds.kind != trainOrAll && a.Seeds.kind != ownItems:
		return fmt.Errorf("%w: %s are set, but this sampler makes batches of items of its own", ErrOptions, a.Seeds)
	case a.TimeOrder || a.SameTime > 0:
		return refuse("SameTime", " and %s are for seeds, and this sampler's batches are of "+
			"items of its own", called("TimeOrder"))
	case a.Shuffle && items.InOrder:
		return refuse("Shuffle", " is set, but this sampler's batches have an order")
	case items.Count < 0 || items.PerBatch < 1:
		return fmt.Errorf("%w: %d items, %d a batch", ErrSampler, items.Count, items.PerBatch)
	}
	s.BatchSize = items.PerBatch
	s.Seeds = seedlist.List{Count: items.Count, ByType: make([]int64, len(s.Graph.Schema().Nodes)), Numbers: true}
	return a.Links.check(s, SeedSource{kind: ownItems})
}
