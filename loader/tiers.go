package loader

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/unified"
)

// addTier makes a tier the one of some columns.
func (p *Placed) addTier(t tier.Tier, inPlace bool, columns []*tiers.Column) {
	if len(columns) == 0 {
		return
	}
	placed := &tiers.PlacedTier{Tier: t, InPlace: inPlace}
	placed.Take(columns)
	p.tiers = append(p.tiers, placed)
}

// chooseGiven finds the columns that Options.Tier has.
func (p *Placed) chooseGiven() error {
	o := &p.recipe.opt
	if o.Hooks.Tier == nil {
		return nil
	}
	if o.Columns.Widen {
		return fmt.Errorf("%w: Widen: rows that a Tier brings are delivered as they are stored", ErrOptions)
	}
	of, some := o.Hooks.Tier.(tier.Chooser)
	for i, c := range p.recipe.describe(p.columns) {
		p.columns[i].Given = !some || of.Has(&c)
	}
	return nil
}

// settleTiers decides where the rows of each column come from.
func (p *Placed) settleTiers() error {
	if err := p.chooseGiven(); err != nil {
		return err
	}
	if err := p.recipe.settleResidence(p.columns, p.loaders); err != nil {
		return err
	}
	p.on.chooseTiers(p)
	return nil
}

// describe says what tiers are to know of columns.
func (r *recipe) describe(columns []*tiers.Column) []tier.Column {
	list := make([]tier.Column, len(columns))
	for i, c := range columns {
		list[i] = tier.Column{Name: c.Name, NodeType: c.NodeType, Data: c.Store.Column()}
		for _, a := range r.arraysOf(c) {
			list[i].Most = sat.Add(list[i].Most, a.Most)
		}
	}
	return list
}

// split returns the columns with and without a property.
func split(columns []*tiers.Column, is func(*tiers.Column) bool) (with, without []*tiers.Column) {
	for _, c := range columns {
		if is(c) {
			with = append(with, c)
		} else {
			without = append(without, c)
		}
	}
	return with, without
}

func (c *onCPU) chooseTiers(p *Placed) {
	r := p.recipe
	own, rest := split(p.columns, func(c *tiers.Column) bool { return c.Given })
	p.addTier(r.opt.Hooks.Tier, false, own)
	_, rest = split(rest, r.split.Has)
	p.addTier(r.split, true, r.split.Columns())
	copied, rest := split(rest, func(c *tiers.Column) bool {
		return r.opt.Residence == Resident || r.split != nil && slices.Contains(r.split.Whole, c)
	})
	p.copies = &tiers.Copier{Ledger: &p.ledger, Copies: map[*byte]unified.Tensor{}}
	p.addTier(&tiers.Resident{Mapped: tiers.Mapped{Columns: copied}, In: p.copies, Widen: r.opt.Columns.Widen},
		false, copied)
	p.addTier(&tiers.Mapped{Columns: rest}, true, rest)
}

func (d *onCUDA) chooseTiers(p *Placed) {
	r := p.recipe
	own, rest := split(p.columns, func(c *tiers.Column) bool { return c.Given })
	p.addTier(&copies{Tier: r.opt.Hooks.Tier, columns: own}, false, own)
	_, rest = split(rest, r.split.Has)
	onDisk := r.split.Columns()
	p.addTier(&copies{Tier: r.split, columns: onDisk, keeps: r.opt.Device.HotRows != RankNone}, false, onDisk)
	cache := &tiers.PlacedTier{Tier: &deviceCache{d: d, source: p}} // which places all columns, also where it has none
	cache.Take(rest)
	p.tiers = append(p.tiers, cache)
}

// openTiers opens all tiers.
func (p *Placed) openTiers(ctx context.Context) error {
	for _, t := range slices.Clone(p.tiers) {
		err := t.Open(ctx, tier.Env{Columns: p.recipe.describe(t.Columns), Ledger: &p.ledger,
			Progress: func(done, total int64) { p.recipe.opt.progress("columns", done, total) }})
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *Placed) closeTiers() error {
	var errs []error
	for _, t := range slices.Backward(p.tiers) {
		errs = append(errs, t.Close())
	}
	p.tiers = nil
	return errors.Join(errs...)
}

// free frees everything. No loader may read it any more.
func (p *Placed) free() error { return errors.Join(p.closeTiers(), p.on.close()) }

// cost returns what the tiers take for loaders of a recipe, of which a batch without rows and a sampler's scratch take
// so many bytes.
func (p *Placed) cost(r *recipe, sampled, scratch int64) (all tier.Memory) {
	batch, _ := r.slotBound()
	b := tier.Bound{Loaders: p.loaders, Workers: r.opt.Workers, Slots: r.opt.Workers + r.opt.Tuning.Prefetch,
		Sampled: sampled, Worker: scratch, Batch: batch}
	for _, t := range p.tiers {
		b.Columns = r.describe(t.Columns)
		all = all.Add(t.Cost(b))
	}
	return all
}

// gathered adds up what all tiers have brought.
func (p *Placed) gathered() (all tier.Stats, err error) {
	for _, t := range p.tiers {
		s, err := t.Stats()
		if err != nil {
			return all, err
		}
		all.Add(s)
	}
	return all, nil
}

// renewing is a tier that chooses anew before each epoch what it keeps. No batch is under way.
type renewing interface {
	tier.Tier
	renew(ctx context.Context) error
}

// renew prepares the tiers for an epoch, where no other loader shares them.
func (p *Placed) renew(ctx context.Context) error {
	for _, t := range p.tiers {
		if again, ok := t.Tier.(renewing); ok && p.alone() {
			if err := again.renew(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
