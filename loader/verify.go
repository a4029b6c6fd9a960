package loader

import (
	"context"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/unified"
)

// Verifier is a Source that has checksums of its arrays, as a dataset has.
type Verifier interface {
	Source
	// Verify compares what b lies in, elements of one of the source's arrays, with its checksums, unless it did so
	// before. It is safe for concurrent use.
	Verify(b []byte) error
}

// verifier returns the source as one that can verify; nil where the options do not ask for it.
func (o *Options) verifier(src Source) (Verifier, error) {
	v, ok := src.(Verifier)
	switch {
	case !o.Verify:
		return nil, nil
	case !ok:
		return nil, option.Errorf(ErrOptions, o, "Verify", ": %s has no checksums", nameOfSource(src))
	}
	return v, nil
}

// verify compares with their checksums the arrays that may be read anywhere at any time: the topology, and columns of
// which copies are made. Other columns are verified as their rows are read.
func (p *Placed) verify(ctx context.Context) error {
	v, err := p.opt.verifier(p.src)
	if v == nil {
		return err
	}
	list := p.plan.Topology()
	for _, c := range p.plan.Set.Columns {
		switch {
		case c.Given:
		case c.Tier.InPlace:
			c.Verified = tiers.NewVerifiedRows(v, c.Store.Column())
			list = append(list, c.Tensors()[1:]...)
		default:
			list = append(list, c.Tensors()...)
		}
	}
	return p.plan.GoThrough(ctx, "verify", list, v.Verify)
}

// verifySeeds verifies the seeds of a split, which are read whole.
func (o *Options) verifySeeds(src Source, seeds graph.Seeds) error {
	v, err := o.verifier(src)
	if v == nil {
		return err
	}
	var read []unified.Tensor
	for _, set := range seeds.Sets {
		read = append(read, set.IDs)
	}
	for _, set := range seeds.Edges {
		read = append(read, set.Sources, set.Targets, unified.FromSlice(set.Offsets))
	}
	for _, t := range read {
		if err := v.Verify(t.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
