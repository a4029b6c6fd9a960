package loader

import (
	"errors"
	"fmt"
	"time"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/invariants"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// slot is all the memory of one batch. It has one owner at a time: the list of free slots, the worker that fills it,
// the window, the loop body, or who kept the batch.
type slot struct {
	recipe     *recipe
	index      int       // in Loader.slots
	batch      *Batch    // nil on trial
	state      slotState // the owner's
	ids        pinned.Options
	fence      *fence               // nil on the CPU, where a batch is complete when it is delivered
	seedIDs    []unified.Buffer     // [node type]
	items      [][]int64            // [node type] the seeds' numbers in the list of seeds
	request    sampling.Request     // Seeds are views of seedIDs
	links      []sampling.LinkSeeds // [edge type] the request's edges, where seeds are edges
	sample     graph.Sample
	linkCounts [][3]int64 // [edge type] edges that were asked for, negatives, and those that were not found
	counts     []int64    // Sample.NumNodes, row after row
	linkMemory linkMemory // of links
	rows       []gathered // [array]; empty for what is not a column
	digest     *digester  // of the first Digest on

	awaited time.Duration // what sampling waited for the disk

	turn       uint64 // of the run's batches, from 1 on; 0 on trial
	incomplete bool   // not all rows were there when fetching had begun

	err     error     // in place of a batch
	readyAt time.Time // when the worker was done
	inBody  bool      // guarded by Loader.mu
}

// slotState says how far a slot's batch is.
type slotState uint8

const (
	free     slotState = iota
	sampled            // the host knows the ids and all shapes
	fetching           // rows are on their way
	ready              // the batch may be delivered; its fence says when it is complete
	delivered
)

// to goes on to the next state, unless there is an error, and returns that.
func (s *slot) to(next slotState, err error) error {
	if err != nil {
		return err
	}
	if invariants.Enabled {
		again := s.state == sampled && next == sampled // on trial, before New returns
		invariants.Check(s.state+1 == next || again, "slot %d: %d follows %d", s.index, next, s.state)
	}
	s.state = next
	return nil
}

// gathered is the rows of one column that belong to a batch.
type gathered struct {
	buf    unified.Buffer
	tensor unified.Tensor
}

// newSlot returns a slot that holds no memory yet.
func newSlot(r *recipe, on processor, ledger *pinned.Ledger, stats *counters) (*slot, error) {
	schema := r.graph.Schema()
	types := len(schema.Nodes)
	s := &slot{recipe: r, items: make([][]int64, types), rows: make([]gathered, len(r.arrays)),
		seedIDs: make([]unified.Buffer, types)}
	var rows pinned.Options
	var err error
	if s.fence, s.ids, rows, err = on.slotMemory(r, ledger, stats); err != nil {
		return nil, err
	}
	for t := range s.seedIDs { // the host looks them up
		s.seedIDs[t].Options = pinned.Options{Ledger: ledger, Purpose: pinned.Batches}
	}
	s.request.Seeds = make([][]int64, types)
	if r.seeds.Timed && r.seeds.ByEdge == nil {
		s.request.Times = make([][]int64, types)
	}
	if r.seeds.ByEdge != nil {
		n := len(schema.Edges)
		s.links, s.linkCounts = make([]sampling.LinkSeeds, n), make([][3]int64, n)
		s.request.Edges = make([]sampling.SeedEdges, n)
		if r.opt.Links.ExcludeSeeds != ExcludeNone {
			s.request.Exclude = make([]sampling.EdgePairs, n)
		}
		if err := s.linkMemory.claim(r, ledger); err != nil {
			return nil, errors.Join(err, s.fence.close())
		}
	}
	r.bound.Init(&s.sample, schema, s.ids)
	for i := range s.rows {
		s.rows[i].buf.Options = rows
	}
	return s, nil
}

// repair gives the slot a new sample where a sampler may have broken the old one's shape.
func (s *slot) repair() error {
	err := s.sample.Close()
	s.sample = graph.Sample{}
	s.recipe.bound.Init(&s.sample, s.recipe.graph.Schema(), s.ids)
	return err
}

// Turn is of tier.Slot.
func (s *slot) Turn() uint64 { return s.turn }

// Room is of tier.Slot.
func (s *slot) Room(array int, bytes int64) ([]byte, error) {
	b := &s.rows[array].buf
	if s.fence != nil {
		b = &s.fence.carried.rows[array]
	}
	room, err := unified.Grow[uint8](b, bytes, 0)
	if err != nil {
		return nil, err
	}
	return room[:bytes], nil
}

// Rows is of tier.Slot.
func (s *slot) Rows(array int, n int64) (unified.Tensor, error) {
	a, b := &s.recipe.arrays[array], &s.rows[array].buf
	if n > (1<<61)/a.rowBytes() {
		return unified.Tensor{}, fmt.Errorf("%w: %d rows of %v", unified.ErrShape, n, a.Row)
	}
	if err := b.Grow(n*a.rowBytes(), 0); err != nil {
		return unified.Tensor{}, err
	}
	shape := [unified.MaxRank]int64{n}
	copy(shape[1:], a.Row)
	return b.Tensor(a.DType, shape[:1+len(a.Row)]...)
}

// each calls f for the memory of every array, in order, with the most bytes that the sampler's bound lets it need.
func (s *slot) each(f func(i int, b *unified.Buffer, most int64)) {
	for i := range s.recipe.arrays {
		if a := &s.recipe.arrays[i]; a.hasMemory() {
			f(i, s.buffer(i), a.mostBytes())
		}
	}
}

// close frees the slot's memory.
func (s *slot) close() error {
	errs := []error{s.fence.free()}
	s.each(func(_ int, b *unified.Buffer, _ int64) { errs = append(errs, b.Close()) })
	errs = append(errs, s.sample.Close()) // a sampler may have used what the options did not ask for
	s.linkMemory.close(s.recipe)
	return errors.Join(append(errs, s.fence.close())...)
}

// deliver makes a slot the batch of a loop body; false if the loader was closed meanwhile.
func (l *Loader) deliver(s *slot) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	if invariants.Enabled {
		invariants.Check(!s.inBody && !s.batch.kept, "slot %d is delivered to a second owner", s.index)
	}
	s.inBody = true
	_ = s.to(delivered, nil)
	return true
}

// leave ends a loop body.
func (l *Loader) leave(s *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.inBody = false
	if !s.batch.kept {
		l.recycle(s)
	}
}

// recycle makes a delivered slot free for another batch, or frees its memory if there will be none. l.mu is held.
func (l *Loader) recycle(s *slot) {
	if s.batch.shared { // its pointer must never come to mean another batch
		s.batch.slot, s.batch.Sample = nil, nil
		s.batch = newBatch(l, s)
	}
	if l.closed {
		l.closeErr = errors.Join(l.closeErr, s.close())
		return
	}
	if invariants.Enabled {
		invariants.Check(!s.inBody && !s.batch.kept, "slot %d has an owner as it becomes free", s.index)
	}
	l.free.put(s)
}
