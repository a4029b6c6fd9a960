package loader

import (
	"github.com/khop-gnn/khop/internal/enum"
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

// check refuses options that make no sense for these seeds.
func (o *LinkOptions) check(s *recipe.Spec, of SeedSource) error {
	l := &s.Seeds
	if err := o.Negatives.Validate(s.Graph.Schema()); err != nil {
		return err
	}
	ofLinks := o.Negatives.Ratio != 0 || o.ExcludeSeeds != ExcludeNone || o.Label != "" || o.Time != ""
	if ofLinks && l.ByEdge == nil {
		return refuse("Links.Negatives.Law", ", %s, %s and %s are for seeds that are edges: %v are not",
			called("Links.ExcludeSeeds"), called("Links.Label"), called("Links.Time"), of)
	}
	if o.Label+o.Time != "" && l.ByEdge != nil && l.Count > 0 && !l.OfGraph() {
		return refuse("Links.Label", " and %s are columns of the graph's edges, for AllEdges: "+
			"%v have labels and times of their own, or none", called("Links.Time"), of)
	}
	if n := o.Negatives; n.Time != "" && !l.Timed {
		return refuse("Links.Negatives.Time", " is %q, but %v have no times", n.Time, of)
	} else if n.Timed() && !l.Timed {
		return refuse("Links.Negatives.History", " is %q, but %v have no times", n.History, of)
	}
	if o.Negatives.Ratio != 0 && l.Given > 0 {
		return refuse("Links.Negatives.Law", " is %v, but %v have negatives of their own", o.Negatives.Law, of)
	}
	if s.MostLinks() > 1<<29 {
		return refuse("BatchSize", " %d with %v negatives an edge: a batch has more than 2^29 "+
			"edges", s.BatchSize, o.Negatives.Ratio+float64(l.Given))
	}
	if o.ExcludeSeeds != ExcludeNone && !s.CanExclude {
		return refuse("Links.ExcludeSeeds", " is %v, but the sampler cannot leave edges out: %s",
			o.ExcludeSeeds, s.Sampler.Fingerprint())
	}
	return nil
}
