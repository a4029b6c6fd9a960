package loader

import (
	"github.com/khop-gnn/khop/internal/enum"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/loader/internal/recipe"
)

// Exclusion says which edges batches leave out because they are seeds.
type Exclusion uint8

const (
	// ExcludeNone leaves out no edges.
	ExcludeNone Exclusion = iota
	// ExcludeSeeds leaves out the batch's seeds that are edges, as if the graph did not have them: all edges of their
	// type between the same ends.
	ExcludeSeeds
	// ExcludeReverse leaves out their reverses as well: those of the same type, if it leads from a node type to itself,
	// and those of the type between the exchanged ends whose relation is "rev_" and theirs, if there is one.
	ExcludeReverse
)

var exclusions = []string{"none", "seeds", "reverse"}

// String returns the name on the command line.
func (x Exclusion) String() string { return enum.Name(exclusions, x) }

// checkLinks refuses options that make no sense for these seeds.
func (o *Options) checkLinks(s *recipe.Spec) error {
	l := &s.Seeds
	if err := o.Links.Negatives.Validate(s.Graph.Schema()); err != nil {
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
	if s.MostLinks() > 1<<29 {
		return option.Errorf(ErrOptions, o, "BatchSize", " %d with %v negatives an edge: a batch has more than 2^29 "+
			"edges", o.BatchSize, o.Links.Negatives.Ratio)
	}
	if o.Links.ExcludeSeeds != ExcludeNone && !s.CanExclude {
		return option.Errorf(ErrOptions, o, "Links.ExcludeSeeds", " is %v, but the sampler cannot leave edges out: %s",
			o.Links.ExcludeSeeds, o.Sampler.Fingerprint())
	}
	return nil
}
