package loader

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"

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

// Estimate returns what memory the loader needs.
func (l *Loader) Estimate() Estimate { return l.estimate }

// Plan returns what memory New would need with these arguments, without taking it: Expected within some percent. It
// samples a few batches in one slot to learn their size. Its errors are those of New.
func Plan(ctx context.Context, src Source, opt Options) (Estimate, error) {
	var e Estimate
	l, err := settled(src, opt, func(l *Loader) error {
		e = l.estimate
		onDevice := l.device != nil
		if err := l.leaveDevice(); err != nil { // the CPU's batches have the same size
			return err
		}
		l.opt.Workers, l.opt.Prefetch, l.estimate.Slots, l.opt.Progress = 1, 0, 1, nil
		if err := l.openWorkers(); err != nil {
			return err
		}
		var z sizes
		l.slots = []*slot{l.newSlot()}
		if l.batches > 0 {
			if err := l.probe(ctx, &z); err != nil {
				return err
			}
		}
		slotBytes := e.SlotBound // with a limit all of it is taken
		if l.opt.MaxMemory == 0 {
			slotBytes = z.total()
		}
		if onDevice {
			e.Device = Memory{Batches: int64(e.Slots) * slotBytes, Scratch: e.DeviceBound.Scratch}
			return nil
		}
		e.Expected = Memory{Topology: e.Bound.Topology, Columns: e.Bound.Columns,
			Batches: int64(e.Slots) * slotBytes, Scratch: int64(e.Workers) * l.ledger.Used(pinned.Scratch)}
		return nil
	})
	if err != nil {
		return Estimate{}, err
	}
	return e, l.Close()
}

// plan settles on numbers of workers and slots, so that the bound is within MaxMemory.
func (l *Loader) plan() error {
	e := &l.estimate
	l.opt.Workers = max(1, int(min(uint64(l.opt.Workers), l.rounds(l.batches))))
	largest := int64(0)
	mem := pinned.Options{}
	l.newSlot().each(func(_ int, _ *unified.Buffer, most int64) {
		e.SlotBound = satAdd(e.SlotBound, mem.Size(min(most, math.MaxInt64/4)))
		largest = max(largest, most)
	})
	topology, columns := l.sourceBytes()
	if l.device != nil {
		l.planDevice(topology + columns)
		return nil
	}
	if l.opt.Residence == Resident {
		e.Bound.Topology, e.Bound.Columns = topology, columns
	} else {
		e.FileBytes = topology + columns
	}
	wanted := l.opt
	for {
		e.Workers, e.Prefetch, e.Slots = l.opt.Workers, l.opt.Prefetch, l.opt.Workers+l.opt.Prefetch
		e.Bound.Batches, e.Bound.Scratch = satMul(int64(e.Slots), e.SlotBound),
			satMul(int64(e.Workers), l.mostScratch())
		if l.opt.MaxMemory == 0 {
			// Without a limit buffers grow as needed: by a quarter more than needed, and are there twice while they
			// move.
			e.Bound.Batches = satAdd(e.Bound.Batches, satAdd(e.Bound.Batches/4, satMul(int64(e.Workers), largest)))
			return nil
		}
		switch {
		case e.Bound.Total() <= l.opt.MaxMemory:
			if wanted.Workers != e.Workers || wanted.Prefetch != e.Prefetch {
				l.opt.log().Warn("fewer workers or slots, to keep within MaxMemory", "max_memory", l.opt.MaxMemory,
					"workers", e.Workers, "prefetch", e.Prefetch)
			}
			return nil
		case l.opt.Prefetch > 1:
			l.opt.Prefetch--
		case l.opt.Workers > 1:
			l.opt.Workers--
		case l.opt.Prefetch > 0: // one slot: the worker rests while the loop body runs
			l.opt.Prefetch = 0
		default:
			return fmt.Errorf("%w: %d bytes are needed (%d for copies of the source, %d for one batch, %d for scratch), "+
				"MaxMemory is %d; take smaller batches, smaller fan-outs or fewer columns", ErrMemory, e.Bound.Total(),
				e.Bound.Topology+e.Bound.Columns, e.SlotBound, e.Bound.Scratch, l.opt.MaxMemory)
		}
	}
}

// planDevice is plan for a device: slots take what batches turn out to need, within DeviceMemory.
func (l *Loader) planDevice(sourceBytes int64) {
	e := &l.estimate
	e.FileBytes = sourceBytes
	e.Workers, e.Prefetch, e.Slots = l.opt.Workers, l.opt.Prefetch, l.opt.Workers+l.opt.Prefetch
	// The largest that docs/sampling.md names: four slots of 16 bytes a node, 24 bytes a destination, a bit a pick.
	scratch := satAdd(satMul(max(0, l.bound.Nodes), 4*16+24), max(0, l.bound.Edges)/8+1<<20)
	e.DeviceBound = Memory{Batches: satMul(int64(e.Slots), e.SlotBound), Scratch: satMul(int64(e.Workers), scratch)}
}

// sourceBytes returns how much memory copies of topology and columns take.
func (l *Loader) sourceBytes() (topology, columns int64) {
	mem := pinned.Options{}
	for _, t := range l.topology() {
		topology += mem.Size(int64(len(t.Bytes())))
	}
	for _, t := range l.columnTensors() {
		columns += mem.Size(int64(len(t.Bytes())))
	}
	return topology, columns
}

// topology returns the arrays that samplers read.
func (l *Loader) topology() []unified.Tensor {
	return []unified.Tensor{unified.FromSlice(l.graph.Indptr()), l.graph.Indices(), l.graph.Types()}
}

// prepareSlots makes the slots, fills some on trial to learn how large batches are, and takes and touches that much
// memory in all slots, so that the first batch is as fast as the hundredth.
func (l *Loader) prepareSlots(ctx context.Context) error {
	l.free = newFreeList(l.estimate.Slots)
	for i := range l.estimate.Slots {
		s := l.newSlot()
		s.index = i
		l.slots = append(l.slots, s)
		l.free.put(s)
		if err := s.join(l.device); err != nil {
			return l.explainLimit(err)
		}
	}
	var sizes sizes
	// no batch may need a buffer to grow: there might be no room for it then
	if l.opt.MaxMemory > 0 && l.device == nil {
		for _, s := range l.slots {
			if err := s.claimBound(); err != nil {
				return l.explainLimit(err)
			}
		}
	}
	if l.batches > 0 {
		if err := l.probe(ctx, &sizes); err != nil {
			return err
		}
	}
	return l.reserve(ctx, sizes.bytes)
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
	mu    sync.Mutex
	bytes []int64 // [array]
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
		if s.loader.opt.MaxMemory == 0 || s.loader.device != nil {
			want = max(want, b.Cap()) // the sampler asked for as much
		}
		z.bytes[i] = max(z.bytes[i], want)
	})
}

// used returns the bytes that an array of a sampled batch needs, of columns those that it will.
func (s *slot) used(i int) int64 {
	a, p := &s.recipe.arrays[i], &s.sample
	rows, row := int64(0), a.DType.Size()
	for _, d := range a.Row {
		row *= d
	}
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
	return rows * row
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
	const least = 4
	n := max(least, len(l.workers))
	order := l.order(0)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i, w := range l.workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for k := i; k < n && ctx.Err() == nil; k += len(l.workers) {
				number := uint64(float64(l.batches) * float64(k) / float64(n))
				if errs[k] = w.fill(ctx, l.slots[i], job{number: number, order: order,
					stages: sampleOnly}); errs[k] != nil {
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
				e := b.Reserve(n)
				mu.Lock()
				defer mu.Unlock()
				err = errors.Join(err, e)
				if done += n; l.opt.Progress != nil {
					l.opt.Progress("slots", done, total)
				}
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
	return l.explainLimit(err)
}
