package loader

import (
	"context"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader/internal/placed"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/unified"
)

// Verifier is a Source with checksums of its arrays, such as a dataset.
type Verifier interface {
	Source
	// Verify compares the chunks that contain b, elements of one of the source's arrays, with their checksums, unless
	// it did so before. It is safe for concurrent use.
	Verify(b []byte) error
}

// bringer is a source that is partial: with Verify, it brings the arrays that will be read before they are verified.
type bringer struct {
	Source
	from   tiers.Partial
	verify func(b []byte) error // nil: what is brought was compared with its checksum
}

// Verify implements Verifier.
func (s *bringer) Verify(b []byte) error {
	err := s.from.Bring(b)
	if err == nil && s.verify != nil {
		err = s.verify(b)
	}
	return err
}

// absent reports whether some of a column is not there.
func (s *bringer) absent(t unified.Tensor) bool {
	absent, _, err := s.from.Absent(t.Bytes())
	return absent || err != nil // which Verify says
}

// verifier returns the source as one that can verify; nil where nobody asks for it, and all of it is there.
func verifier(src Source, asked bool) (Verifier, error) {
	v, ok := src.(Verifier)
	if asked && !ok {
		return nil, refuse("Verify", ": %s has no checksums", nameOfSource(src))
	}
	from := tiers.PartialOf(src)
	switch {
	case from != nil && asked:
		return &bringer{src, from, v.Verify}, nil
	case from != nil:
		return &bringer{Source: src, from: from}, nil
	case !asked:
		return nil, nil
	}
	return v, nil
}

// verify compares with their checksums the arrays that may be read anywhere at any time: the topology, and columns of
// which copies are made. Other columns are verified as their rows are read.
func (p *Placed) verify(ctx context.Context) error {
	v, err := verifier(p.src, p.asked.Verify)
	if v == nil {
		return err
	}
	list := p.plan.Topology()
	part, _ := v.(*bringer)
	for _, c := range p.plan.Set.Columns {
		c.Partly = part != nil && part.absent(c.Store.Column())
		switch {
		case c.Given, part != nil && part.verify == nil && !c.Partly:
		case c.Tier.InPlace:
			c.Verified = placed.NewVerifiedRows(v, c.Store.Column())
			list = append(list, c.Tensors()[1:]...)
		default:
			list = append(list, c.Tensors()...)
		}
	}
	return p.plan.GoThrough(ctx, "verify", list, v.Verify)
}

// verifySeeds verifies the seeds of a split, which are read whole.
func verifySeeds(src Source, asked bool, seeds graph.Seeds) error {
	v, err := verifier(src, asked)
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
