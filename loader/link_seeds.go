package loader

import (
	"github.com/khop-gnn/khop/internal/enum"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/internal/seedlist"
	"github.com/khop-gnn/khop/sampling"
)

// Exclusion says which edges batches leave out because they are seeds.
type Exclusion uint8

const (
	// ExcludeNone leaves out none.
	ExcludeNone Exclusion = iota
	// ExcludeSeeds leaves out the batch's seeds that are edges, as if the graph did not have them: of their type,
	// between the same ends, all parallel ones.
	ExcludeSeeds
	// ExcludeReverse leaves out their reverses as well: of the same type, if that leads from a node type to itself, and
	// of the type with relation "rev_" and theirs between the ends exchanged, where there is one.
	ExcludeReverse
)

var exclusions = []string{"none", "seeds", "reverse"}

// String returns the name on the command line.
func (x Exclusion) String() string { return enum.Name(exclusions, x) }

// UnmarshalText is the inverse of String.
func (x *Exclusion) UnmarshalText(text []byte) error {
	return enum.Parse(ErrOptions, "exclusion", exclusions, text, x)
}

// checkLinks refuses options that make no sense for these seeds.
func (r *recipe) checkLinks() error {
	o, l := &r.opt, &r.seeds
	if err := o.Links.Negatives.Validate(r.graph.Schema()); err != nil {
		return err
	}
	ofLinks := o.Links.Negatives.Any() || o.Links.ExcludeSeeds != ExcludeNone || o.Links.Label != "" ||
		o.Links.Time != ""
	if ofLinks && l.ByEdge == nil {
		return option.Errorf(ErrOptions, o, "Links.Negatives.Law", ", %s, %s and %s are for seeds that are edges: %v "+
			"are not", option.NameOf(o, "Links.ExcludeSeeds"), option.NameOf(o, "Links.Label"),
			option.NameOf(o, "Links.Time"), o.Seeds)
	}
	if o.Links.Label+o.Links.Time != "" && l.ByEdge != nil && l.Count > 0 && !l.OfGraph() {
		return option.Errorf(ErrOptions, o, "Links.Label", " and %s are columns of the graph's edges, for AllEdges: "+
			"%v have labels and times of their own, or none", option.NameOf(o, "Links.Time"), o.Seeds)
	}
	if o.Links.Negatives.Time != "" && !l.Timed {
		return option.Errorf(ErrOptions, o, "Links.Negatives.Time", " is %q, but %v have no times",
			o.Links.Negatives.Time, o.Seeds)
	}
	if r.mostLinks() > 1<<29 {
		return option.Errorf(ErrOptions, o, "BatchSize", " %d with %v negatives an edge: a batch has more than 2^29 "+
			"edges", o.BatchSize, o.Links.Negatives.Ratio)
	}
	if x, ok := sampling.As[sampling.Excluder](o.Sampler); o.Links.ExcludeSeeds != ExcludeNone && (!ok ||
		!x.CanExclude()) {
		return option.Errorf(ErrOptions, o, "Links.ExcludeSeeds", " is %v, but the sampler cannot leave edges out: %s",
			o.Links.ExcludeSeeds, o.Sampler.Fingerprint())
	}
	if o.Links.ExcludeSeeds == ExcludeReverse {
		r.reverses = seedlist.Reverses(r.graph.Schema())
	}
	return nil
}

// mostLinks returns the most edges that are seeds or negatives in a batch; 0 where seeds are nodes.
func (r *recipe) mostLinks() int64 {
	if r.seeds.ByEdge == nil {
		return 0
	}
	return sat.Add(r.askedLinks(), r.opt.Links.Negatives.Of(r.askedLinks()))
}

// seededTypes marks the edge types that have seeds.
func (r *recipe) seededTypes() []bool {
	types := make([]bool, len(r.seeds.ByEdge))
	for e, n := range r.seeds.ByEdge {
		types[e] = n > 0
	}
	return types
}

// takeLinks looks up the batch's seeds that are edges, and draws their negatives.
func (s *slot) takeLinks(m sampler, j job, lo, hi int64) error {
	r := s.recipe
	clear(s.linkCounts)
	found, items := s.linkMemory.found[:hi-lo], s.linkMemory.items[:hi-lo]
	for i := range found {
		if items[i] = lo + int64(i); j.order != nil {
			items[i] = int64(j.order.At(uint64(items[i])))
		}
		var err error
		if found[i], err = r.seeds.LinkAt(items[i]); err != nil {
			return err
		}
		s.linkCounts[found[i].EdgeType][0]++
	}
	s.linkMemory.carve(r, s.links, s.linkCounts, s.request.Exclude)
	for i, x := range found {
		l := &s.links[x.EdgeType]
		l.Sources, l.Targets = append(l.Sources, x.Source), append(l.Targets, x.Target)
		l.Labels, l.Group = append(l.Labels, x.Label), append(l.Group, int32(len(l.Items)))
		if l.Items = append(l.Items, items[i]); r.seeds.Timed {
			l.Times = append(l.Times, x.Time)
		}
	}
	s.exclude()
	if err := m.negatives(s.request.Rand, s.links); err != nil {
		return err
	}
	for e := range s.links {
		l := &s.links[e]
		if s.request.Edges[e] = l.SeedEdges; !r.seeds.Timed {
			s.request.Edges[e].Times = nil
		}
		s.linkCounts[e] = [3]int64{int64(len(l.Items)), int64(len(l.Sources) - len(l.Items)), l.Missed}
	}
	return nil
}

// exclude notes which edges the batch leaves out.
func (s *slot) exclude() {
	r := s.recipe
	if r.opt.Links.ExcludeSeeds == ExcludeNone {
		return
	}
	for e := range s.request.Exclude {
		x := &s.request.Exclude[e]
		l := &s.links[e]
		x.Sources, x.Targets = append(x.Sources, l.Sources...), append(x.Targets, l.Targets...)
	}
	for e, back := range r.reverses {
		for _, b := range back {
			x := &s.request.Exclude[b]
			x.Sources, x.Targets = append(x.Sources, s.links[e].Targets...), append(x.Targets, s.links[e].Sources...)
		}
	}
}
