package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"runtime"
	"sync"

	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Estimate says what memory a loader needs: Loader.Estimate before the first batch, Plan before anything is taken.
type Estimate struct {
	Workers  int `json:"workers"`  // after MaxMemory
	Prefetch int `json:"prefetch"` // after MaxMemory
	Slots    int `json:"slots"`    // Workers + Prefetch

	// Expected is what is held once New has returned, with room for batches a quarter larger than those it tried.
	// Unless batches differ much it stays so.
	Expected Memory `json:"expected"`
	// Bound is what the largest batch that the sampler can make would need in every slot. MaxMemory is kept against it.
	Bound Memory `json:"bound"`
	// SlotBound is one slot's part of it.
	SlotBound int64 `json:"slot_bound"`
	// Device is what is held in device memory once New has returned, DeviceBound what the largest batch would need
	// there in every slot. DeviceMemory is the limit.
	Device      Memory `json:"device"`
	DeviceBound Memory `json:"device_bound"`
	// FileBytes is how much of the source is read where it lies, through the page cache if it is in mapped files.
	FileBytes int64 `json:"file_bytes"`
}

// Estimate returns what memory the loader needs; of a Placed source that it shares the arrays are not in it.
func (l *Loader) Estimate() Estimate { return l.estimate }

// Plan returns what memory New would need with these arguments, without taking it: Expected within some percent. It
// samples a few batches in one slot to learn their size. Its errors are those of New.
func Plan(ctx context.Context, src Source, opt Options) (Estimate, error) {
	r, on, err := settle(src, opt)
	if err != nil {
		return Estimate{}, err
	}
	e, err := plan(ctx, r, on)
	if err = errors.Join(r.explainDamage(err), on.close()); err != nil {
		return Estimate{}, err
	}
	return e, nil
}

func plan(ctx context.Context, r *recipe, on processor) (e Estimate, err error) {
	columns, err := findColumns(r)
	if err != nil {
		return Estimate{}, err
	}
	p := &Placed{recipe: r, on: on, columns: columns, loaders: 1}
	if err := p.settleTiers(); err != nil {
		return Estimate{}, err
	}
	if e, err = on.fit(p, r); err != nil {
		return e, err
	}
	var ledger pinned.Ledger
	ledger.SetLimit(r.limit())
	var owned []io.Closer
	defer func() { err = errors.Join(err, r.closeShared(), tiers.CloseAll(owned)) }()
	if err := r.openPages(&pinned.Ledger{}, &owned); err != nil { // counted by diskMemory
		return e, on.explain(err, &r.opt)
	}
	if err := r.openShared(ctx, &ledger); err != nil {
		return e, on.explain(err, &r.opt)
	}
	r.paged.begin()
	needs, err := r.tryBatches(ctx, on, &ledger)
	if err != nil {
		return e, err
	}
	needs.tables = ledger.Used(pinned.Scratch)
	if err := p.expect(r, &e, needs); err != nil {
		return e, err
	}
	if limit := r.limit(); limit > 0 && e.Expected.Total() > limit {
		return e, e.tooMuch(limit)
	}
	return e, nil
}

// needs is what batches on trial took, in bytes.
type needs struct {
	slot    int64 // of a batch, with room for larger ones
	scratch int64 // of a sampler
	tables  int64 // of all samplers together
}

// tryBatches samples some batches in one slot to learn how large they are. Its memory is given back.
func (r *recipe) tryBatches(ctx context.Context, on processor, within *pinned.Ledger) (n needs, err error) {
	ledger, z := pinned.Ledger{Within: within}, sizes{limited: on.bounded(&r.opt)}
	err = r.trial(ctx, min(r.batches, leastTried), &ledger, func(s *slot) {
		z.learn(s)
		n.scratch = ledger.Used(pinned.Scratch)
	})
	if failed := (failedBatch{}); errors.As(err, &failed) && !errors.Is(err, pinned.ErrLimit) && ctx.Err() == nil {
		r.opt.log().Debug("a batch on trial failed", "error", err) // it is left for the epoch to report
	} else if err != nil {
		return n, on.explain(err, &r.opt)
	}
	n.slot = z.total() + r.linkBytes()
	if r.opt.MaxMemory > 0 { // all of the bound is taken
		n.slot, _ = r.slotBound()
	}
	return n, nil
}

// expect sets what is expected of each of some loaders. Workers that a topology on disk has by default beyond the cores
// become fewer until that is within the room.
func (p *Placed) expect(r *recipe, e *Estimate, n needs) (err error) {
	had := r.opt.Workers
	for {
		p.on.expect(e, sat.Mul(int64(e.Slots), n.slot), n.scratch)
		e.Expected.Scratch = sat.Add(e.Expected.Scratch, sat.Add(n.tables,
			sat.Add(r.pagedMemory(), p.cost(r, n.slot, n.scratch).Scratch)))
		m := &e.Expected
		all := sat.Add(m.Topology+m.Columns, sat.Mul(int64(p.loaders), sat.Add(m.Batches, m.Scratch)))
		if limit := r.limit(); !r.spareWorkers() || limit == 0 || sat.Add(all, all/spareRoom) <= limit {
			break
		}
		r.opt.Workers--
		if *e, err = p.on.fit(p, r); err != nil {
			return err
		}
	}
	if r.opt.Workers < had {
		r.opt.log().Info("fewer workers than a topology on disk has by default, to keep within the room", "room",
			r.limit(), "workers", r.opt.Workers)
	}
	return nil
}

// limit returns the most host memory that the loaders of a placed source take: MaxMemory, or what the control group
// leaves; 0 for no limit.
func (r *recipe) limit() int64 {
	if r.opt.MaxMemory > 0 {
		return r.opt.MaxMemory
	}
	return r.room
}

// tooMuch is the error of what is expected where there is room for less.
func (e *Estimate) tooMuch(room int64) error {
	m := &e.Expected
	return fmt.Errorf("%w: %s are needed (%s for copies of the source, %s for %d batches, %s for scratch), and there "+
		"is room for %s; %s", ErrMemory, machine.Bytes(m.Total()), machine.Bytes(m.Topology+m.Columns),
		machine.Bytes(m.Batches), e.Slots, machine.Bytes(m.Scratch), machine.Bytes(max(room, 0)), remedyMemory)
}

// remedyMemory says what to do where memory is short.
const remedyMemory = "take smaller batches, smaller fan-outs, fewer columns, workers or batches ahead, or allow more " +
	"(MaxMemory, the control group)"

func (*onCPU) expect(e *Estimate, batches, scratch int64) {
	e.Expected = Memory{Topology: e.Bound.Topology, Columns: e.Bound.Columns, Batches: batches,
		Scratch: int64(e.Workers) * scratch}
}

func (*onCUDA) expect(e *Estimate, batches, _ int64) {
	e.Device = Memory{Batches: batches, Scratch: e.DeviceBound.Scratch}
	if e.Bound.Batches > 0 { // rows are there twice (Carry)
		e.Expected = Memory{Columns: e.Bound.Columns, Batches: batches}
	}
}

// failedBatch is the error of a batch on trial.
type failedBatch struct{ error }

func (e failedBatch) Unwrap() error { return e.error }

// leastTried is how many batches are sampled to learn how large they are.
const leastTried = 4

// slotBound returns the most that the memory of one slot takes, and the most that one array of it does.
func (r *recipe) slotBound() (total, largest int64) {
	for i := range r.arrays {
		if a := &r.arrays[i]; a.hasMemory() {
			most := a.mostBytes()
			total = sat.Add(total, pinned.Options{}.Size(min(most, math.MaxInt64/4)))
			largest = max(largest, most)
		}
	}
	return sat.Add(total, sat.Add(r.linkBytes(), r.opt.Hooks.PerSlot)), largest
}

// fit makes slots and workers fewer until the bound of all loaders is within MaxMemory.
func (*onCPU) fit(p *Placed, r *recipe) (e Estimate, err error) {
	var largest int64
	e.SlotBound, largest = r.slotBound()
	if e.FileBytes = p.sourceBytes().Topology; r.opt.Residence == Resident {
		e.Bound.Topology, e.FileBytes = e.FileBytes, 0
	}
	for _, t := range p.tiers {
		for i := 0; i < len(t.Columns) && t.InPlace; i++ {
			e.FileBytes += t.Columns[i].CopyBytes()
		}
	}
	e.Bound.Columns = p.cost(r, 0, 0).Columns
	o := &r.opt
	o.Workers = max(1, int(min(uint64(o.Workers), r.rounds(r.batches))))
	tables := sat.Add(o.Links.Negatives.Bytes(r.graph.Schema(), r.seededTypes()), r.seeds.IndexBytes())
	wanted, limit := *o, (o.MaxMemory-e.Bound.Total())/int64(p.loaders)
	for {
		e.Workers, e.Prefetch, e.Slots = o.Workers, o.Tuning.Prefetch, o.Workers+o.Tuning.Prefetch
		e.Bound.Batches, e.Bound.Scratch = sat.Mul(int64(e.Slots), e.SlotBound),
			sat.Add(sat.Mul(int64(e.Workers), r.mostScratch()), sat.Add(tables, max(0, r.bound.Shared)))
		e.Bound.Scratch = sat.Add(e.Bound.Scratch, sat.Add(r.pagedMemory(),
			p.cost(r, r.withoutColumns(), r.mostScratch()).Scratch))
		if o.MaxMemory == 0 {
			// Without a limit buffers grow as needed: by a quarter more than needed, and are there twice while they
			// move.
			e.Bound.Batches = sat.Add(e.Bound.Batches, sat.Add(e.Bound.Batches/4, sat.Mul(int64(e.Workers), largest)))
			return e, nil
		}
		switch {
		case sat.Add(e.Bound.Batches, e.Bound.Scratch) <= limit:
			if wanted.Workers != e.Workers || wanted.Tuning.Prefetch != e.Prefetch {
				level := slog.LevelWarn
				if wanted.Tuning.Prefetch == e.Prefetch && r.anyWorkers && e.Workers >= machine.Workers() {
					level = slog.LevelInfo // nobody asked for so many
				}
				o.log().Log(context.Background(), level, "fewer workers or slots, to keep within MaxMemory",
					"max_memory", o.MaxMemory, "workers", e.Workers, "prefetch", e.Prefetch)
			}
			return e, nil
		case r.spareWorkers():
			o.Workers--
		case o.Tuning.Prefetch > 1:
			o.Tuning.Prefetch--
		case o.Workers > 1:
			o.Workers--
		case o.Tuning.Prefetch > 0: // one slot: the worker rests while the loop body runs
			o.Tuning.Prefetch = 0
		default:
			return e, fmt.Errorf("%w: %d bytes are needed (%d for copies of the source, %d for one batch, %d for "+
				"scratch, times %d loaders), MaxMemory is %d; take smaller batches, smaller fan-outs or fewer columns",
				ErrMemory, sat.Add(e.Bound.Topology+e.Bound.Columns, sat.Mul(sat.Add(e.SlotBound, e.Bound.Scratch),
					int64(p.loaders))), e.Bound.Topology+e.Bound.Columns, e.SlotBound, e.Bound.Scratch, p.loaders,
				o.MaxMemory)
		}
	}
}

// fit leaves the numbers: slots take what batches turn out to need, within DeviceMemory.
func (*onCUDA) fit(p *Placed, r *recipe) (e Estimate, err error) {
	o := &r.opt
	o.Workers = max(1, int(min(uint64(o.Workers), r.rounds(r.batches))))
	e.SlotBound, _ = r.slotBound()
	e.FileBytes = p.sourceBytes().Total()
	e.Workers, e.Prefetch, e.Slots = o.Workers, o.Tuning.Prefetch, o.Workers+o.Tuning.Prefetch
	tiers := p.cost(r, r.withoutColumns(), r.mostScratch())
	e.Bound.Columns, e.Bound.Scratch = tiers.Columns, tiers.Scratch
	// The largest that docs/sampling.md names: four slots of 16 bytes a node, 24 bytes a destination, a bit a pick.
	scratch := sat.Add(sat.Mul(max(0, r.bound.Nodes), 4*16+24), max(0, r.bound.Edges)/8+1<<20)
	e.DeviceBound = Memory{Batches: sat.Mul(int64(e.Slots), e.SlotBound), Scratch: sat.Mul(int64(e.Workers), scratch)}
	e.Bound.Batches = min(tiers.Batches, e.DeviceBound.Batches) // several tiers may ask for the same
	return e, nil
}

// prepareSlots makes the slots, fills some on trial to learn how large batches are, and takes and touches that much
// memory in all slots, so that the first batch is as fast as the hundredth.
func (l *Loader) prepareSlots(ctx context.Context) error {
	on := l.placed.on
	l.free = newFreeList(l.estimate.Slots)
	for i := range l.estimate.Slots {
		s, err := newSlot(l.recipe, on, l.ledger, &l.stats)
		if err != nil {
			return on.explain(err, &l.opt)
		}
		s.index, s.batch = i, newBatch(l, s)
		l.slots = append(l.slots, s)
		l.free.put(s)
	}
	z := sizes{limited: on.bounded(&l.opt)}
	// no batch may need a buffer to grow: there might be no room for it then
	if z.limited {
		for _, s := range l.slots {
			if err := s.claimBound(); err != nil {
				return on.explain(err, &l.opt)
			}
		}
	}
	if l.batches > 0 {
		if err := l.probe(ctx, &z); err != nil {
			return err
		}
	}
	if !z.limited {
		e := l.estimate
		e.Expected = l.memory()
		held := e.Expected.Total()
		e.Expected.Batches = sat.Mul(int64(e.Slots), z.total()+l.linkBytes())
		if left := l.ledger.Left(); e.Expected.Total()-held > left {
			return e.tooMuch(held + left)
		}
	}
	for _, s := range l.slots {
		s.state = free
	}
	return l.reserve(ctx, z.bytes)
}

func (s *slot) claimBound() (err error) {
	s.each(func(_ int, b *unified.Buffer, most int64) {
		if err == nil {
			err = b.Claim(most)
		}
	})
	return err
}

// sizes is what the memory of each array of a batch should be.
type sizes struct {
	limited bool // slots are given their bound, so that what they have says nothing
	mu      sync.Mutex
	bytes   []int64 // [array]
}

// learn takes the needs of the batch in s into account.
func (z *sizes) learn(s *slot) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.bytes == nil {
		z.bytes = make([]int64, len(s.recipe.arrays))
	}
	s.each(func(i int, b *unified.Buffer, most int64) {
		want := min(s.used(i)*5/4, most)
		if !z.limited {
			want = max(want, b.Cap()) // the sampler asked for as much
		}
		z.bytes[i] = max(z.bytes[i], want)
	})
}

// used returns the bytes that an array of a sampled batch needs, of columns those that it will.
func (s *slot) used(i int) int64 {
	a, p := &s.recipe.arrays[i], &s.sample
	rows := int64(0)
	switch a.Kind {
	case ArrayInputs:
		return a.mostBytes()
	case ArrayNodeColumn:
		rows = p.Nodes[a.Type].Len()
	case ArraySeedColumn:
		rows = p.NumNodes[0][a.Type]
	case ArrayEdgeColumn:
		rows = p.Blocks[a.Layer][a.Type].NumEdges()
	default:
		return int64(len(s.tensor(i).Bytes()))
	}
	return rows * a.rowBytes()
}

// total returns what a slot with these sizes takes.
func (z *sizes) total() (bytes int64) {
	for _, n := range z.bytes {
		bytes += pinned.Options{}.Size(n)
	}
	return bytes
}

// probe samples some batches of epoch 0, spread over it, at least one with each worker, so that its scratch is there
// too. A batch that fails is left for the epoch to report.
func (l *Loader) probe(ctx context.Context, z *sizes) error {
	n := max(leastTried, len(l.workers))
	order := l.order(0)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i, w := range l.workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for k := i; k < n && ctx.Err() == nil; k += len(l.workers) {
				number := uint64(float64(l.batches) * float64(k) / float64(n))
				if errs[k] = w.sampleOnly(ctx, l.slots[i], job{number: number, order: order}); errs[k] != nil {
					return
				}
				z.learn(l.slots[i])
			}
		}()
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, err := range errs {
		if errors.Is(err, ErrMemory) {
			return err
		}
		if err != nil {
			l.opt.log().Debug("a batch on trial failed", "error", err)
		}
	}
	return nil
}

// reserve takes and touches memory in all slots.
func (l *Loader) reserve(ctx context.Context, bytes []int64) error {
	if len(bytes) == 0 {
		return nil
	}
	total := int64(0)
	for _, n := range bytes {
		total += n
	}
	total *= int64(len(l.slots))
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		done int64
		err  error
		next = make(chan *slot, len(l.slots))
	)
	for _, s := range l.slots {
		next <- s
	}
	close(next)
	work := func() {
		defer wg.Done()
		for s := range next {
			s.each(func(i int, b *unified.Buffer, _ int64) {
				n := bytes[i]
				if n == 0 || ctx.Err() != nil {
					return
				}
				e := errors.Join(b.Reserve(n), s.fence.reserve(i, n))
				mu.Lock()
				defer mu.Unlock()
				err = cmp.Or(err, e) // one is enough: they all want memory
				done += n
				l.opt.progress("slots", done, total)
			})
		}
	}
	for range min(runtime.GOMAXPROCS(0), len(l.slots)) {
		wg.Add(1)
		go work()
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return l.placed.on.explain(err, &l.opt)
}
