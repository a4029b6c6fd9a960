package tiers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/internal/disk"
	"github.com/khop-gnn/khop/loader/internal/placed"
	"github.com/khop-gnn/khop/loader/internal/recipe"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Set is the columns of a placed source, and the tiers that bring their rows.
type Set struct {
	recipe  *recipe.Recipe // of the loaders that it is for
	Columns []*placed.Column
	Tiers   []*placed.Tier
	given   tier.Tier  // who brings the rows of columns that are Given and not Remote; nil for none
	remote  *Remote    // who has those that are Remote; nil for none
	Disk    *disk.Tier // of the columns that stay on disk; nil for none
	Copies  *Copier    // of what is copied to memory
	Loaders int        // how many share it
	Ledger  pinned.Ledger
}

// NewSet looks up the columns that batches have rows of, and which of them remote has, and the tier that is given, if
// there are such.
func NewSet(r *recipe.Recipe, loaders int, given tier.Tier, remote *Remote) (*Set, error) {
	s := &Set{recipe: r, Loaders: loaders, given: given, remote: remote}
	s.Copies = &Copier{Ledger: &s.Ledger, Copies: map[*byte]unified.Tensor{}}
	for i := range r.Arrays {
		a := &r.Arrays[i]
		if !a.IsColumn() || s.Find(a) != nil {
			continue
		}
		c := &placed.Column{ColumnKey: recipe.KeyOf(a)}
		if err := c.Find(r); err != nil {
			return nil, fmt.Errorf("column of %s: %w", a.Name, err)
		}
		s.Columns = append(s.Columns, c)
	}
	of, some := given.(tier.Chooser)
	for i, c := range s.describe(s.Columns) {
		at := s.Columns[i]
		at.Remote = remote != nil && c.NodeType >= 0 && c.Data.RowBytes() > 0 && remote.Has(&c)
		at.Given = at.Remote || given != nil && (!some || of.Has(&c))
	}
	return s, nil
}

// HasGiven reports whether a tier from outside, or one of a source that is partial, has a column.
func (s *Set) HasGiven() bool {
	return slices.ContainsFunc(s.Columns, func(c *placed.Column) bool { return c.Given })
}

// AsStored reports whether there are columns whose rows come as they are stored, whoever brings them.
func (s *Set) AsStored() bool {
	return slices.ContainsFunc(s.Columns, func(c *placed.Column) bool { return c.Given && !s.Disk.Has(c) })
}

// Find returns the column of an array; nil where the set does not have it.
func (s *Set) Find(a *layout.Array) *placed.Column {
	if i := slices.IndexFunc(s.Columns, func(c *placed.Column) bool { return c.ColumnKey == recipe.KeyOf(a) }); i >= 0 {
		return s.Columns[i]
	}
	return nil
}

// IsRemote reports whether a Remote has columns.
func (s *Set) IsRemote() bool { return s.remote != nil }

// ReadRemote makes the tier of the disk that of the columns that a Remote has.
func (s *Set) ReadRemote(o disk.Options) {
	columns, _ := placed.Divide(s.Columns, func(c *placed.Column) bool { return c.Remote })
	s.Disk = disk.OfRemote(s.remote.Remote, s.remote.Dataset, columns, o, s.Loaders, s.recipe.Log)
}

// SourceBytes returns how much memory copies of topology and columns take.
func (s *Set) SourceBytes() (m tier.Memory) {
	for _, t := range s.recipe.Topology() {
		m.Topology += pinned.Options{}.Size(int64(len(t.Bytes())))
	}
	for _, c := range s.Columns {
		if !c.Given {
			m.Columns += c.CopyBytes()
		}
	}
	return m
}

// Add makes a tier the one of some columns.
func (s *Set) Add(t tier.Tier, inPlace bool, columns []*placed.Column) {
	if len(columns) == 0 {
		return
	}
	placed := &placed.Tier{Tier: t, InPlace: inPlace}
	placed.Take(columns)
	s.Tiers = append(s.Tiers, placed)
}

// ChooseOnHost finds a tier for each column that a host reads. resident says that what has no other is copied.
func (s *Set) ChooseOnHost(resident bool) {
	rest := s.AddElsewhere(func(t tier.Tier, _ []*placed.Column) tier.Tier { return t }, true)
	copied, rest := placed.Divide(rest, func(c *placed.Column) bool {
		return resident || s.Disk != nil && slices.Contains(s.Disk.Whole, c)
	})
	s.Add(&Resident{Mapped: Mapped{Columns: copied}, In: s.Copies}, false, copied)
	s.Add(&Mapped{Columns: rest}, true, rest)
}

// AddElsewhere adds the tiers of columns that a tier from outside or the disk has, each as wrap makes it of the host's,
// and returns the others. inPlace says whether columns on disk are verified as their rows are read.
func (s *Set) AddElsewhere(wrap func(tier.Tier, []*placed.Column) tier.Tier, inPlace bool) (rest []*placed.Column) {
	_, rest = placed.Divide(s.Columns, s.Disk.Has)
	given, rest := placed.Divide(rest, func(c *placed.Column) bool { return c.Given })
	remote, given := placed.Divide(given, func(c *placed.Column) bool { return c.Remote })
	s.Add(wrap(s.given, given), false, given)
	s.Add(wrap(&asked{from: s.remote}, remote), false, remote)
	onDisk := s.Disk.Columns()
	s.Add(wrap(s.Disk, onDisk), inPlace, onDisk)
	return rest
}

// describe says what tiers are to know of columns.
func (s *Set) describe(columns []*placed.Column) []tier.Column {
	return placed.Describe(s.recipe, columns)
}

// Open opens all
func (s *Set) Open(ctx context.Context) error {
	for _, t := range slices.Clone(s.Tiers) {
		err := t.Open(ctx, tier.Env{Columns: s.describe(t.Columns), Ledger: &s.Ledger,
			Progress: func(done, total int64) { s.recipe.Progress("columns", done, total) }})
		if err != nil {
			return err
		}
	}
	return nil
}

// Close closes all
func (s *Set) Close() error {
	var errs []error
	for _, t := range slices.Backward(s.Tiers) {
		errs = append(errs, t.Close())
	}
	s.Tiers = nil
	return errors.Join(errs...)
}

// Cost returns what the tiers take for loaders of a recipe within a bound, which has no columns yet.
func (s *Set) Cost(r *recipe.Recipe, b tier.Bound) (all tier.Memory) {
	b.Loaders = s.Loaders
	for _, t := range s.Tiers {
		b.Columns = placed.Describe(r, t.Columns)
		m := t.Cost(b)
		all = tier.Memory{Topology: sat.Add(all.Topology, m.Topology), Columns: sat.Add(all.Columns, m.Columns),
			Batches: sat.Add(all.Batches, m.Batches), Scratch: sat.Add(all.Scratch, m.Scratch)}
	}
	return all
}

// Stats adds up what all tiers have brought.
func (s *Set) Stats() (all tier.Stats, err error) {
	for _, t := range s.Tiers {
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
	Renew(ctx context.Context) error
}

// Renew prepares the tiers for an epoch. No other loader shares them.
func (s *Set) Renew(ctx context.Context) error {
	for _, t := range s.Tiers {
		if again, ok := t.Tier.(renewing); ok {
			if err := again.Renew(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
