package loader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/pinned"
)

// Placed is a source whose graph and columns are where a processor reads them: mapped, resident, or on a device. Place
// makes one for several loaders, such as the ranks of a server. It is a Source, safe for concurrent use.
//
// MaxMemory and DeviceMemory hold for the placed source and all its loaders together.
type Placed struct {
	src     Source
	recipe  *recipe // of the loaders that it was made for
	on      processor
	columns []*tiers.Column
	tiers   []*tiers.PlacedTier
	copies  *tiers.Copier // of what is copied to memory
	loaders int           // how many share the limits
	ledger  pinned.Ledger
	// estimate is of a loader of recipe.
	estimate Estimate

	fleet *fleet // whose members read each other's caches; nil: nobody else reads its own

	mu    sync.Mutex
	users int // who placed it, and each loader
	taken int // loaders that there ever were
	ended bool
}

// PlacedArray says where the kernels of a device find an array of the source.
type PlacedArray struct {
	Array string      `json:"array"` // "indptr", "column feature"
	Bytes int64       `json:"bytes"`
	Rung  pinned.Rung `json:"rung"`
	// Refused are the better ways to let the device address it, and why they were not taken.
	Refused []pinned.Step `json:"refused,omitempty"`
	// CachedRows are the rows of a column, or the edges, that are in device memory besides.
	CachedRows int64 `json:"cached_rows,omitempty"`
	// PeerRows are the rows that are read from the memory of other devices.
	PeerRows int64 `json:"peer_rows,omitempty"`
	// Pages is what measuring its pages found, with PagesMeasured; nil where nothing was to be chosen.
	Pages *PageTrial `json:"pages,omitempty"`
	// Carry is who brings the device the rows of a column, where kernels do not read them: "copies", "disk" or
	// "tier".
	Carry string `json:"carry,omitempty"`
}

// Place brings the graph, and the columns that opt names, to where loaders on opt.Device read them, once. New then
// makes loaders of the result that share it: as many at a time as loaders says, among which the limits of opt are
// divided. Their options name the same device or "auto", and columns that opt names; their Residence, MaxMemory,
// DeviceMemory, DeviceCache, HostPages, Carry and HotRows are not looked at. Where loaders share it, RankUses ranks
// once, as RankPresample does.
//
// The source must stay open until the loaders and the result are closed. Errors are those of New.
func Place(ctx context.Context, src Source, opt Options, loaders int) (*Placed, error) {
	if loaders < 1 {
		return nil, fmt.Errorf("%w: %d loaders share a placed source: must be 1 or more", ErrOptions, loaders)
	}
	if p, ok := src.(*Placed); ok {
		return nil, fmt.Errorf("%w: %s is placed already", ErrOptions, p.recipe.name)
	}
	return newPlaced(ctx, src, opt, loaders, keepAtOnce)
}

func newPlaced(ctx context.Context, src Source, opt Options, loaders int, when hotRows) (*Placed, error) {
	p := &Placed{src: src, loaders: loaders, users: 1}
	var err error
	if p.recipe, p.on, err = settle(src, opt); err != nil {
		return nil, err
	}
	if d, ok := p.on.(*onCUDA); ok {
		d.hotRows = when
	}
	err = p.recipe.explainDamage(pinned.Guard(func() error { return p.bring(ctx) }))
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// settle decides where batches are made, and what is in them.
func settle(src Source, opt Options) (*recipe, processor, error) {
	chosen := opt.Workers
	if err := opt.EnsureDefaults().Validate(); err != nil {
		return nil, nil, err
	}
	on, err := chooseProcessor(&opt)
	if err != nil {
		return nil, nil, err
	}
	if opt.Device.Name = on.String(); chosen == 0 {
		opt.Workers = on.workers()
	}
	room, err := groupRoom(&opt)
	if err != nil {
		return nil, nil, errors.Join(err, on.close())
	}
	r, err := newRecipe(src, opt)
	if err != nil {
		return nil, nil, errors.Join(err, on.close())
	}
	r.room, r.anyWorkers = room, chosen == 0
	return r, on, nil
}

// probeMachine is a variable for tests only.
var probeMachine = machine.Probe

// groupRoom returns what the control group leaves to loaders, 0 where none limits memory, and lowers MaxMemory to it.
func groupRoom(opt *Options) (int64, error) {
	m := probeMachine()
	room, ok := m.GroupRoom()
	switch {
	case !ok:
		return 0, nil
	case room <= 0:
		return 0, m.GroupIsFull(ErrMemory)
	case opt.MaxMemory > room:
		opt.log().Warn("MaxMemory is lowered to what the control group leaves", "max_memory", opt.MaxMemory,
			"room", room)
		opt.MaxMemory = room
	}
	return room, nil
}

// bring finds the columns and brings all arrays to where they are read.
func (p *Placed) bring(ctx context.Context) (err error) {
	if p.columns, err = findColumns(p.recipe); err != nil {
		return err
	}
	r := p.recipe
	if err := p.settleTiers(); err != nil {
		return err
	}
	if p.estimate, err = p.on.fit(p, r); err != nil {
		return err
	}
	p.ledger.SetLimit(r.limit())
	if err := p.verify(ctx); err != nil {
		return err
	}
	return p.on.explain(p.on.place(ctx, p), &r.opt)
}

// findColumns looks up the columns that batches have rows of.
func findColumns(r *recipe) (list []*tiers.Column, err error) {
	found := columnsByKey(nil)
	for i := range r.arrays {
		a := &r.arrays[i]
		key := keyOfColumn(a)
		if !a.IsColumn() || found[key] != nil {
			continue
		}
		c := &tiers.Column{Name: key.name, NodeType: key.nodeType}
		found[key] = c
		if err := c.Find(r.graph, r.opt.Columns.Widen); err != nil {
			return nil, fmt.Errorf("column of %s: %w", a.Name, err)
		}
		list = append(list, c)
	}
	return list, nil
}

// columnKey tells columns apart: nodeType is -1 for one of the edges.
type columnKey struct {
	name     string
	nodeType int
}

// keyOfColumn returns the key of an array's column.
func keyOfColumn(a *Array) columnKey {
	if a.Kind == ArrayEdgeColumn {
		return columnKey{a.Column, -1}
	}
	return columnKey{a.Column, a.Type}
}

func columnsByKey(list []*tiers.Column) map[columnKey]*tiers.Column {
	m := make(map[columnKey]*tiers.Column, len(list))
	for _, c := range list {
		m[columnKey{c.Name, c.NodeType}] = c
	}
	return m
}

// sourceBytes returns how much memory copies of topology and columns take.
func (p *Placed) sourceBytes() (m Memory) {
	for _, t := range p.recipe.topology() {
		m.Topology += pinned.Options{}.Size(int64(len(t.Bytes())))
	}
	for _, c := range p.columns {
		if !c.Given {
			m.Columns += c.CopyBytes()
		}
	}
	return m
}

// recipeFor returns the recipe of a loader that shares the placed source.
func (p *Placed) recipeFor(opt Options) (*recipe, error) {
	own, workers := &p.recipe.opt, opt.Workers
	if err := opt.EnsureDefaults().Validate(); err != nil {
		return nil, err
	}
	if n, _ := ParseDevice(opt.Device.Name); n >= 0 {
		opt.Device.Name = fmt.Sprintf("cuda:%d", n)
	}
	if opt.Device.Name != "auto" && opt.Device.Name != own.Device.Name {
		return nil, option.Errorf(ErrOptions, opt, "Device.Name", " is %s, but %s was placed for %s", opt.Device.Name,
			p.recipe.name, own.Device.Name)
	}
	if reads, placed := readColumns(opt.Sampler), readColumns(own.Sampler); reads != nil && !slices.Equal(reads,
		placed) {
		return nil, fmt.Errorf("%w: the sampler reads columns %q of the edges, but %s was placed for one that reads %q",
			ErrOptions, reads, p.recipe.name, placed)
	}
	if workers == 0 {
		opt.Workers = p.on.workers()
		if p.recipe.paged != nil {
			opt.Workers = pagedWorkers()
		}
	}
	opt.Device.Name, opt.Residence, opt.Device.HotRows = own.Device.Name, own.Residence, own.Device.HotRows
	opt.Verify, opt.Columns.Widen, opt.Tuning.Carry, opt.Tuning.HostPages = own.Verify, own.Columns.Widen,
		own.Tuning.Carry, own.Tuning.HostPages
	opt.Disk.CacheBytes, opt.Disk.Lookahead, opt.Disk.PackBytes = own.Disk.CacheBytes, own.Disk.Lookahead,
		own.Disk.PackBytes
	opt.MaxMemory, opt.Device.Memory, opt.Device.Cache = own.MaxMemory, own.Device.Memory, own.Device.Cache
	r, err := newRecipe(p, opt)
	if err == nil {
		r.split, r.paged, r.room, r.anyWorkers = p.recipe.split, p.recipe.paged, p.recipe.room, workers == 0
	}
	return r, err
}

// join makes l one of the placed source's loaders, which finds its columns there and how much memory it may take.
func (p *Placed) join(l *Loader) (err error) {
	l.columns = make([]*tiers.Column, len(l.arrays))
	placed := columnsByKey(p.columns)
	for i := range l.arrays {
		a := &l.arrays[i]
		if !a.IsColumn() {
			continue
		}
		if l.columns[i] = placed[keyOfColumn(a)]; l.columns[i] == nil {
			return fmt.Errorf("%w: %s: the column was not placed: name it in the options of Place", ErrOptions, a.Name)
		}
	}
	if l.estimate, err = p.on.fit(p, l.recipe); err != nil {
		return err
	}
	return p.retain()
}

// retain counts one more loader.
func (p *Placed) retain() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return fmt.Errorf("%s: %w", p.recipe.name, ErrClosed)
	}
	p.users++
	p.taken++
	return nil
}

// release counts one user less, and frees everything with the last.
func (p *Placed) release() error {
	p.mu.Lock()
	p.users--
	last := p.users == 0
	p.mu.Unlock()
	if !last {
		return nil
	}
	if p.fleet != nil {
		return p.fleet.leave()
	}
	return p.free()
}

// alone reports whether one loader has the placed source to itself for good.
func (p *Placed) alone() bool { return p.loaders == 1 && p.taken == 1 }

// Close ends what Place began: memory is freed when the last loader is closed too. A later call does nothing.
func (p *Placed) Close() error {
	p.mu.Lock()
	again := p.ended
	p.ended = true
	p.mu.Unlock()
	if again {
		return nil
	}
	return p.release()
}

// ID implements Source.
func (p *Placed) ID() [16]byte { return p.src.ID() }

// Graph implements Source: it is the source's graph or its copy (Resident), valid until the last loader is closed.
func (p *Placed) Graph() *graph.Graph { return p.recipe.graph }

// Split implements Source.
func (p *Placed) Split(name string, index int) (graph.Seeds, error) { return p.src.Split(name, index) }

// Path returns how errors call the source.
func (p *Placed) Path() string { return p.recipe.name }

// Remedy returns what the source says to do where it is damaged.
func (p *Placed) Remedy() string { return p.recipe.remedy }

// Verify implements Verifier, as far as the source does.
func (p *Placed) Verify(b []byte) error {
	if v, ok := p.src.(Verifier); ok {
		return v.Verify(b)
	}
	return nil
}

// unchanged asks the source whether it is what it was.
func (p *Placed) unchanged() error {
	if s, ok := p.src.(interface{ Unchanged() error }); ok {
		return s.Unchanged()
	}
	return nil
}

// Arrays returns where each array of the source is that a device reads; nil on the CPU.
func (p *Placed) Arrays() []PlacedArray {
	if d, ok := p.on.(*onCUDA); ok {
		return slices.Clone(d.placed)
	}
	return nil
}

// BatchArrays is Loader.Arrays of the loaders that the source was placed for.
func (p *Placed) BatchArrays() []Array { return p.recipe.arrays }

// Device returns where loaders of the placed source make batches: "cpu", "cuda:0" and so on.
func (p *Placed) Device() string { return p.recipe.opt.Device.Name }

// Ledger returns what counts the memory of the placed source and of all its loaders, and keeps their limits. Whoever
// takes memory on behalf of the loaders counts it there too, and says so in Options.Hooks.PerSlot.
func (p *Placed) Ledger() *pinned.Ledger { return &p.ledger }
