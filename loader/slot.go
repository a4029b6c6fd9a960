package loader

import (
	"errors"
	"time"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// slot is all the memory of one batch. It has one owner at a time: the list of free slots, the worker that fills it,
// the reorder window, the loop body, or who kept the batch.
type slot struct {
	recipe  *recipe
	loader  *Loader
	index   int // in Loader.slots
	batch   *Batch
	seedIDs []unified.Buffer // [node type]
	items   [][]int64        // [node type] the seeds' numbers in the list of seeds
	request sampling.Request // Seeds are views of seedIDs
	sample  graph.Sample
	counts  []int64    // Sample.NumNodes, row after row
	rows    []gathered // [array]; empty for what is no column
	digest  *digester  // of the first Digest on
	down    download   // of the first Digest or CopyTo on
	onDevice

	err     error     // in place of a batch
	readyAt time.Time // when the worker was done
	inBody  bool      // guarded by Loader.mu
}

// newSlot returns a slot that holds no memory yet.
func (l *Loader) newSlot() *slot {
	schema := l.graph.Schema()
	mem := l.slotMemory()
	rows := mem
	rows.From = l.opt.RowMemory
	s := &slot{recipe: l.recipe, loader: l, items: make([][]int64, len(schema.Nodes)), rows: make([]gathered, len(l.arrays))}
	s.batch = newBatch(s)
	seeds := mem
	seeds.Device, seeds.From = nil, nil // the host looks them up
	s.seedIDs = make([]unified.Buffer, len(schema.Nodes))
	for t := range s.seedIDs {
		s.seedIDs[t].Options = seeds
	}
	s.request.Seeds = make([][]int64, len(schema.Nodes))
	l.bound.Init(&s.sample, schema, mem)
	for i := range s.rows {
		s.rows[i].buf.Options = rows
	}
	return s
}

func (l *Loader) slotMemory() pinned.Options {
	o := pinned.Options{Ledger: &l.ledger, Purpose: pinned.Batches}
	if l.device != nil {
		o.Device, o.From = l.device.Device, l.opt.RowMemory
	}
	return o
}

// repair gives the slot a new sample where a sampler may have broken the old one's shape.
func (s *slot) repair() error {
	err := s.sample.Close()
	s.sample = graph.Sample{}
	s.loader.bound.Init(&s.sample, s.loader.graph.Schema(), s.loader.slotMemory())
	return err
}

// each calls f for the memory of every array, in the order of the list, with the most bytes that the sampler's bound
// lets it need.
func (s *slot) each(f func(i int, b *unified.Buffer, most int64)) {
	for i := range s.recipe.arrays {
		if b := s.buffer(i); b != nil {
			f(i, b, s.recipe.arrays[i].mostBytes())
		}
	}
}

// close frees the slot's memory.
func (s *slot) close() error {
	var errs []error
	if s.loader.opt.RowMemory != nil {
		errs = append(errs, s.outwaitReaders())
	}
	s.each(func(_ int, b *unified.Buffer, _ int64) { errs = append(errs, b.Close()) })
	errs = append(errs, s.sample.Close()) // a sampler may have used what the options did not ask for
	if s.joined {
		errs = append(errs, s.down.close(), s.closeEvents(), s.loader.device.release())
	}
	return errors.Join(errs...)
}

// deliver makes a slot the batch of a loop body; false if the loader was closed meanwhile.
func (l *Loader) deliver(s *slot) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	s.inBody = true
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
		s.batch = newBatch(s)
	}
	if l.closed {
		l.closeErr = errors.Join(l.closeErr, s.close())
		return
	}
	l.free.put(s)
}
