package loader

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/khop-gnn/khop/graph"
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
		return nil, fmt.Errorf("%w: Verify: %s has no checksums", ErrOptions, nameOfSource(src))
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
		case c.given:
		case c.tier.inPlace:
			c.verified = newVerifiedRows(v, c.store.Column())
			list = append(list, c.tensors()[1:]...)
		default:
			list = append(list, c.tensors()...)
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

// verifiedRows remembers which pieces of a column have been verified.
type verifiedRows struct {
	by    Verifier
	bytes []byte
	row   int64
	rows  int64
	seen  []atomic.Uint32 // a bit a piece
}

// pieceShift is the size of a piece: 1 MiB.
const pieceShift = 20

func newVerifiedRows(v Verifier, t unified.Tensor) *verifiedRows {
	b := t.Bytes()
	return &verifiedRows{by: v, bytes: b, rows: t.Len(), row: t.RowBytes(),
		seen: make([]atomic.Uint32, len(b)>>pieceShift/32+1)}
}

// check verifies the rows of ids. Ids that are out of range are for who gathers to report.
func (r *verifiedRows) check(ids unified.Tensor) error {
	if r == nil {
		return nil
	}
	if v, err := unified.View[int32](ids); err == nil {
		return checkRows(r, v)
	}
	v, _ := unified.View[int64](ids)
	return checkRows(r, v)
}

func checkRows[T int32 | int64](r *verifiedRows, ids []T) error {
	for _, id := range ids {
		if id < 0 || int64(id) >= r.rows {
			continue
		}
		first := int64(id) * r.row >> pieceShift
		last := (int64(id)*r.row + r.row - 1) >> pieceShift
		for p := first; p <= last; p++ {
			if r.seen[p/32].Load()>>(p%32)&1 != 0 {
				continue
			}
			if err := r.by.Verify(r.bytes[p<<pieceShift : min((p+1)<<pieceShift, int64(len(r.bytes)))]); err != nil {
				return err
			}
			r.seen[p/32].Or(1 << (p % 32))
		}
	}
	return nil
}
