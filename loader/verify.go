package loader

import (
	"context"
	"slices"

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
	v, err := p.recipe.opt.verifier(p.src)
	if v == nil {
		return err
	}
	list := p.recipe.topology()
	for _, c := range p.columns {
		switch {
		case c.Given:
		case c.Tier.InPlace:
			c.Verified = tiers.NewVerifiedRows(v, c.Store.Column())
			list = append(list, c.Tensors()[1:]...)
		default:
			list = append(list, c.Tensors()...)
		}
	}
	return p.recipe.opt.goThrough(ctx, "verify", list, v.Verify)
}

// goThrough calls f for all bytes of some arrays, in order and a part at a time, and tells how far it is.
func (o *Options) goThrough(ctx context.Context, stage string, list []unified.Tensor, f func([]byte) error) error {
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
			o.progress(stage, done, total)
		}
	}
	return nil
}

// verifySeeds verifies the seeds of a split, which are read whole.
func (r *recipe) verifySeeds(src Source, seeds graph.Seeds) error {
	v, err := r.opt.verifier(src)
	if v == nil {
		return err
	}
	var read []unified.Tensor
	for _, set := range seeds.Sets {
		read = append(read, set.IDs)
	}
	for _, set := range seeds.Edges {
		read = append(read, set.Sources, set.Targets)
	}
	for _, t := range read {
		if err := v.Verify(t.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
