// Package slots has the memory of batches: samples, seeds and rows, how they are filled and what they may become.
package slots

import (
	"errors"
	"fmt"
	"time"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/invariants"
	"github.com/khop-gnn/khop/loader/internal/recipe"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// Slot is all the memory of one batch. It has one owner at a time: the list of free slots, the worker that fills it,
// the window, the loop body, or who kept the batch.
type Slot struct {
	Recipe     *recipe.Recipe
	Index      int    // among those of its loader
	Number     uint64 // of the batch
	State      State  // the owner's
	ids        pinned.Options
	Fence      Fence                // nil on the CPU, where a batch is complete when it is delivered
	seedIDs    []unified.Buffer     // [node type]
	Items      [][]int64            // [node type] the seeds' numbers in the list of seeds
	Request    sampling.Request     // Seeds are views of seedIDs
	times      [][]int64            // [node type] of them; nil where they have none
	from       [][]int64            // likewise
	Links      []sampling.LinkSeeds // [edge type] the request's edges, where seeds are edges
	Sample     graph.Sample
	LinkCounts [][3]int64 // [edge type] edges that were asked for, negatives, and those that were not found
	counts     []int64    // Sample.NumNodes, row after row
	linkMemory linkMemory // of links
	rows       []gathered // [array]; empty for what is not a column

	Awaited time.Duration // what sampling waited for the disk, and for rows that were expected

	turn       uint64 // of the run's batches, from 1 on; 0 on trial
	Incomplete bool   // not all rows were there when fetching had begun

	ReadyAt time.Time // when the worker was done
}

// Fence says when the memory of a slot on a device may be read, and when it may be written again.
type Fence interface {
	// Room returns page-locked memory for rows of an array that copies bring.
	Room(array int) *unified.Buffer
	// Reserve takes what an array of the slot, of n bytes, needs besides its own memory.
	Reserve(array int, n int64) error
	// Wait lets a CUDA stream wait until the batch is complete.
	Wait(stream uintptr) error
	// Record keeps the batch until the stream has done what is on it by now.
	Record(stream uintptr) error
	// Sync waits on the host until the batch is complete.
	Sync() error
	// Host returns the elements of a tensor of the batch in host memory, valid until the next call.
	Host(t unified.Tensor) (unified.Tensor, error)
	// Free waits until memory of a Provider may be given back, which may give it out again at once.
	Free() error
	// Close frees the fence, after the slot's memory.
	Close() error
}

// Memory is where a slot's memory comes from.
type Memory struct {
	Fence     Fence // nil on the CPU
	IDs, Rows pinned.Options
}

// State says how far a slot's batch is.
type State uint8

const (
	Free     State = iota
	sampled        // the host knows the ids and all shapes
	Fetching       // rows are on their way
	Ready          // the batch may be delivered; its fence says when it is complete
	Delivered
)

// To goes on to the next state, unless there is an error, and returns that.
func (s *Slot) To(next State, err error) error {
	if err != nil {
		return err
	}
	if invariants.Enabled {
		again := s.State == sampled && next == sampled // on trial, before New returns
		invariants.Check(s.State+1 == next || again, "slot %d: %d follows %d", s.Index, next, s.State)
	}
	s.State = next
	return nil
}

// gathered is the rows of one column that belong to a batch.
type gathered struct {
	buf    unified.Buffer
	onHeap []byte // of a column of the list of seeds, in place of buf
	tensor unified.Tensor
}

// New returns a slot that holds no memory yet. It closes the fence also where it fails.
func New(r *recipe.Recipe, m Memory, ledger *pinned.Ledger) (*Slot, error) {
	schema := r.Graph.Schema()
	types := len(schema.Nodes)
	s := &Slot{Recipe: r, Items: make([][]int64, types), rows: make([]gathered, len(r.Arrays)),
		seedIDs: make([]unified.Buffer, types), Fence: m.Fence, ids: m.IDs}
	for t := range s.seedIDs { // the host looks them up
		s.seedIDs[t].Options = pinned.Options{Ledger: ledger, Purpose: pinned.Batches}
	}
	s.Request.Seeds = make([][]int64, types)
	if r.Seeds.Timed && r.Seeds.ByEdge == nil {
		s.times, s.from = make([][]int64, types), make([][]int64, types)
	}
	if r.Seeds.ByEdge != nil {
		n := len(schema.Edges)
		s.Links, s.LinkCounts = make([]sampling.LinkSeeds, n), make([][3]int64, n)
		s.Request.Edges = make([]sampling.SeedEdges, n)
		if r.Exclude {
			s.Request.Exclude = make([]sampling.EdgePairs, n)
		}
		if err := s.linkMemory.claim(r, ledger); err != nil {
			return nil, errors.Join(err, s.fenced(Fence.Close))
		}
	}
	r.Bound.Init(&s.Sample, schema, s.ids)
	for i := range s.rows {
		s.rows[i].buf.Options = m.Rows
	}
	return s, nil
}

// Repair gives the slot a new sample where a sampler may have broken the old one's shape.
func (s *Slot) Repair() error {
	err := s.Sample.Close()
	s.Sample = graph.Sample{}
	s.Recipe.Bound.Init(&s.Sample, s.Recipe.Graph.Schema(), s.ids)
	return err
}

// Turn is of tier.Slot.
func (s *Slot) Turn() uint64 { return s.turn }

// SetTurn says which of the run's batches the slot gets, from 1 on.
func (s *Slot) SetTurn(turn uint64) { s.turn = turn }

// Room is of tier.Slot.
func (s *Slot) Room(array int, bytes int64) ([]byte, error) {
	b := &s.rows[array].buf
	if s.Fence != nil {
		b = s.Fence.Room(array)
	}
	room, err := unified.Grow[uint8](b, bytes, 0)
	if err != nil {
		return nil, err
	}
	return room[:bytes], nil
}

// Rows is of tier.Slot.
func (s *Slot) Rows(array int, n int64) (unified.Tensor, error) {
	a, b := &s.Recipe.Arrays[array], &s.rows[array].buf
	if n > (1<<61)/recipe.RowBytes(a) {
		return unified.Tensor{}, fmt.Errorf("%w: %d rows of %v", unified.ErrShape, n, a.Row)
	}
	if err := b.Grow(n*recipe.RowBytes(a), 0); err != nil {
		return unified.Tensor{}, err
	}
	shape := [unified.MaxRank]int64{n}
	copy(shape[1:], a.Row)
	return b.Tensor(a.DType, shape[:1+len(a.Row)]...)
}

// Each calls f for the memory of every array, in order, with the most bytes that the sampler's bound lets it need.
func (s *Slot) Each(f func(i int, b *unified.Buffer, most int64)) {
	for i := range s.Recipe.Arrays {
		if a := &s.Recipe.Arrays[i]; recipe.HasMemory(a) {
			f(i, s.buffer(i), recipe.MostBytes(a))
		}
	}
}

// Wait lets a CUDA stream wait until the batch is complete.
func (s *Slot) Wait(stream uintptr) error {
	return s.fenced(func(f Fence) error { return f.Wait(stream) })
}

// Record keeps the batch until the stream has done what is on it by now.
func (s *Slot) Record(stream uintptr) error {
	return s.fenced(func(f Fence) error { return f.Record(stream) })
}

// Sync waits on the host until the batch is complete.
func (s *Slot) Sync() error { return s.fenced(Fence.Sync) }

// Host returns a tensor of the batch in host memory, valid until the next call.
func (s *Slot) Host(t unified.Tensor) (unified.Tensor, error) {
	if s.Fence == nil {
		return t, nil
	}
	return s.Fence.Host(t)
}

// Reserve takes what an array of n bytes needs besides its own memory.
func (s *Slot) Reserve(array int, n int64) error {
	return s.fenced(func(f Fence) error { return f.Reserve(array, n) })
}

// fenced calls f with the fence, if there is one.
func (s *Slot) fenced(f func(Fence) error) error {
	if s.Fence == nil {
		return nil
	}
	return f(s.Fence)
}

// Close frees the slot's memory.
func (s *Slot) Close() error {
	errs := []error{s.fenced(Fence.Free)}
	s.Each(func(_ int, b *unified.Buffer, _ int64) { errs = append(errs, b.Close()) })
	errs = append(errs, s.Sample.Close()) // a sampler may have used what the options did not ask for
	s.linkMemory.Close(s.Recipe)
	return errors.Join(append(errs, s.fenced(Fence.Close))...)
}
