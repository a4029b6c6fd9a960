package loader

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
)

// ahead samples batches before they are due, to learn which rows they need, and has their reads planned. It keeps the
// ids alone: workers sample the batch again when it is due, which costs less memory than keeping samples by far.
//
// What follows an epoch is taken to be the next one, so its batches are known as well. Where something else follows,
// the window is begun anew; what the cache has stays.
type ahead struct {
	l       *Loader
	columns []*aheadColumn
	arrays  [][2]int // [array] column, or -1, and which of its arrays
	scouts  []*aheadScout

	mu      sync.Mutex
	changed sync.Cond
	taken   course       // the next batch to sample
	asked   course       // the next batch to hand to the planners; numbers follow those of taken
	planned course       // the next batch to plan
	first   uint64       // the number of the run's first batch
	known   []askedBatch // asked for and not planned
	crowded bool         // the next batch is sampled, and the window has no room for it
	due     map[uint64]plannedBatch
}

// aheadColumn is a column on disk.
type aheadColumn struct {
	*diskio.Column
	hot      *gather.HotRows // that the device keeps, and nobody asks for here; nil for none
	arrays   []int           // of a batch
	rowBytes int64
	mostAsks int64
}

// askedBatch is how many rows a batch has of each column's arrays, or why it could not be sampled.
type askedBatch struct {
	rows [][]int
	err  error
}

// plannedBatch is a batch whose reads are planned.
type plannedBatch struct {
	askedBatch
	at    course
	reads []*diskio.Batch
}

// course is the sequence of batches that a rank is expected to make: to the end of a part, then what follows it.
type course struct {
	number   uint64 // of steps
	epoch    uint64
	first    uint64 // of the part, as in run
	last     uint64
	position uint64
}

// settle goes on to the next part as long as there is no batch at the position; false where none follows.
func (c *course) settle(r *recipe) bool {
	for tries := 0; c.position >= r.rounds(c.last-c.first); tries++ {
		if c.first, c.position = c.last, 0; c.last == r.batches {
			c.first = 0
			c.epoch++
		}
		if c.last = r.batches; tries > 2 || c.epoch >= 1<<32 {
			return false
		}
	}
	return true
}

// at returns the number of the batch within its epoch.
func (c *course) at(r *recipe) uint64 {
	return (c.first + uint64(r.opt.Rank) + c.position*uint64(r.opt.WorldSize)) % r.batches
}

func (c *course) next() { c.number, c.position = c.number+1, c.position+1 }

// same reports whether the courses go on alike.
func (c *course) same(d *course, world int) bool {
	return c.epoch == d.epoch && c.last == d.last &&
		c.first+c.position*uint64(world) == d.first+d.position*uint64(world)
}

// aheadScout samples for ahead.
type aheadScout struct {
	*scout
	rows [][]uint32 // by column
}

// openAhead makes what looks ahead, where columns are on disk.
func (l *Loader) openAhead() error {
	if l.split == nil || l.split.reader == nil {
		return nil
	}
	a := &ahead{l: l, due: map[uint64]plannedBatch{}}
	l.ahead = a
	l.split.join(l.recipe, a)
	a.changed.L = &a.mu
	for range l.arrays {
		a.arrays = append(a.arrays, [2]int{-1, 0})
	}
	for _, d := range l.split.onDisk {
		if err := a.openColumn(d); err != nil {
			return err
		}
	}
	for range scouts(l.opt.Workers) {
		s, err := newScout(l.recipe, l.ledger)
		if err != nil {
			return err
		}
		a.scouts = append(a.scouts, &aheadScout{scout: s, rows: make([][]uint32, len(a.columns))})
	}
	return nil
}

// scouts is how many goroutines sample ahead of so many workers.
func scouts(workers int) int { return (workers + 1) / 2 }

// openColumn adds a column, where batches of this loader have rows of it.
func (a *ahead) openColumn(d columnOnDisk) error {
	l := a.l
	c := &aheadColumn{rowBytes: d.column.store.RowBytes(), mostAsks: d.mostAsks, hot: d.column.hot}
	for i := range l.arrays {
		if l.columns[i] == d.column {
			a.arrays[i] = [2]int{len(a.columns), len(c.arrays)}
			c.arrays = append(c.arrays, i)
			if c.hot != nil && l.arrays[i].Most > c.hot.Most() {
				c.hot = nil // it was made for smaller batches
			}
		}
	}
	if len(c.arrays) == 0 {
		return nil
	}
	var err error
	c.Column, err = diskio.NewColumn(l.split.reader, d.index, d.layout, diskio.ColumnOptions{
		PlannerOptions: diskio.PlannerOptions{Slots: d.slots, Lookahead: l.opt.Disk.Lookahead, Along: d.along,
			Asks: int(d.mostAsks), Pack: d.pack, Memory: pinned.Options{Ledger: l.ledger, Purpose: pinned.Scratch}},
		Early: d.early, Cache: pinned.Options{Ledger: l.ledger, Purpose: pinned.Columns}})
	if err == nil {
		a.columns = append(a.columns, c)
	}
	return err
}

func (a *ahead) find(array int) (column, part int) { return a.arrays[array][0], a.arrays[array][1] }

// close frees all memory.
func (a *ahead) close() error {
	if a == nil {
		return nil
	}
	a.l.split.join(a.l.recipe, nil)
	errs := []error{a.stop()}
	for _, s := range a.scouts {
		errs = append(errs, s.close())
	}
	for _, c := range a.columns {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// begin looks ahead of a run.
func (a *ahead) begin(r *run) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	head := a.planned // the batch that is expected next
	for _, b := range a.due {
		if b.at.number < head.number {
			head = b.at
		}
	}
	run := course{number: head.number, epoch: uint64(r.epoch), first: r.first, last: r.last}
	if !run.settle(a.l.recipe) || !head.same(&run, a.l.opt.WorldSize) {
		if err := a.stop(); err != nil {
			return err
		}
		for _, c := range a.columns {
			c.Planner().Forget()
		}
		a.known, a.asked = nil, run
	}
	if len(a.due) == 0 {
		a.planned = run
	}
	a.taken, a.first, a.crowded = a.asked, run.number, false
	for _, s := range a.scouts {
		r.wg.Add(1)
		go func() {
			defer r.wg.Done()
			s.look(r.ctx, a)
		}()
	}
	context.AfterFunc(r.ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.changed.Broadcast()
	})
	return nil
}

// end ends what a run began, whose workers and scouts have ended. What is being read for the batches after it goes on,
// unless one before them has failed or was given up.
func (a *ahead) end() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.planned.settle(a.l.recipe)
	for _, c := range a.columns {
		if c.Begun() != len(a.due) {
			return a.stop()
		}
	}
	return nil
}

// stop gives up what is planned. a.mu is held, or nobody else is there.
func (a *ahead) stop() error {
	clear(a.due)
	var errs []error
	for _, c := range a.columns {
		errs = append(errs, c.Stop())
	}
	return errors.Join(errs...)
}

// look samples batches until the run ends.
func (s *aheadScout) look(ctx context.Context, a *ahead) {
	for {
		a.mu.Lock()
		at := a.taken
		ok := at.settle(a.l.recipe) && ctx.Err() == nil
		if a.taken = at; ok {
			a.taken.next()
		}
		a.mu.Unlock()
		if !ok {
			return
		}
		b := s.ask(ctx, a, &at)
		if !a.tell(ctx, s, &at, b) {
			return
		}
	}
}

// ask samples a batch and notes which rows it asks for.
func (s *aheadScout) ask(ctx context.Context, a *ahead, at *course) (b askedBatch) {
	r := a.l.recipe
	b.err = s.sample(ctx, uint32(at.epoch), at.at(r))
	for k, c := range a.columns {
		s.rows[k] = s.rows[k][:0]
		counts := make([]int, len(c.arrays))
		for p, i := range c.arrays {
			if b.err != nil {
				continue
			}
			ids, view := s.slot.rowIDs(&r.arrays[i])
			if view {
				continue
			}
			before := len(s.rows[k])
			s.rows[k], b.err = a.l.columns[i].store.Rows(s.rows[k], ids)
			if c.hot != nil {
				s.rows[k] = s.rows[k][:before+len(c.hot.Missing(s.rows[k][before:]))]
			}
			counts[p] = len(s.rows[k]) - before
		}
		b.rows = append(b.rows, counts)
	}
	if b.err != nil {
		for k := range s.rows {
			s.rows[k] = s.rows[k][:0]
		}
	}
	return b
}

// tell hands what a batch asks for to the planners, in the order of batches, when there is room; false where the run
// ends before.
func (a *ahead) tell(ctx context.Context, s *aheadScout, at *course, b askedBatch) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for ctx.Err() == nil && (a.asked.number != at.number || !a.fits(s.rows)) {
		if a.asked.number == at.number {
			a.crowded = true
			if a.advance(); a.fits(s.rows) {
				break
			}
			a.changed.Broadcast()
		}
		a.changed.Wait()
	}
	if ctx.Err() != nil {
		return false
	}
	a.crowded = false
	for k, c := range a.columns {
		if err := c.Planner().Ask(s.rows[k]); err != nil {
			b.err = errors.Join(b.err, err)
			_ = c.Planner().Ask(nil)
		}
	}
	a.asked = *at
	a.asked.next()
	a.known = append(a.known, b)
	a.advance()
	a.changed.Broadcast()
	return true
}

// fits reports whether the window has room for a batch's rows of each column. It has for one batch, whatever that
// needs.
func (a *ahead) fits(rows [][]uint32) bool {
	for k, c := range a.columns {
		p := c.Planner()
		if p.Full() || p.Known() > 0 && int64(p.Asks()+len(rows[k])) > c.mostAsks {
			return false
		}
	}
	return true
}

// full reports whether no further batch can be asked for at present.
func (a *ahead) full() bool {
	for _, c := range a.columns {
		if c.Planner().Full() {
			return true
		}
	}
	return a.crowded
}

// canPlan reports whether the oldest batch should be planned now: not before the window is as long as it becomes,
// unless the caches have room for all that is asked for.
func (a *ahead) canPlan() bool {
	if len(a.known) == 0 || a.full() {
		return len(a.known) > 0
	}
	rest := a.taken
	if !rest.settle(a.l.recipe) && a.asked.number == a.taken.number {
		return true
	}
	for _, c := range a.columns {
		if p := c.Planner(); p.Spare() < p.Asks() {
			return false
		}
	}
	return true
}

// claim returns the batch at a position of the run, once its reads are planned.
func (a *ahead) claim(ctx context.Context, position uint64) (plannedBatch, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	number := a.first + position
	for a.planned.number <= number {
		if ctx.Err() != nil {
			return plannedBatch{}, context.Cause(ctx)
		}
		if !a.canPlan() {
			a.changed.Wait()
			continue
		}
		a.plan()
	}
	b, ok := a.due[number]
	if !ok {
		return b, fmt.Errorf("%w: batch %d was planned already", ErrOptions, number)
	}
	delete(a.due, number)
	a.advance()
	return b, b.err
}

// plan plans the oldest batch that is known. a.mu is held.
func (a *ahead) plan() {
	a.planned.settle(a.l.recipe)
	b := plannedBatch{askedBatch: a.known[0], at: a.planned}
	a.known = a.known[1:]
	for _, c := range a.columns {
		read, err := c.Next()
		b.reads, b.err = append(b.reads, read), errors.Join(b.err, err)
	}
	a.due[a.planned.number] = b
	a.planned.next()
	a.changed.Broadcast()
}

// mostDue is how many batches are planned before a worker takes them, at most.
const mostDue = 64

// advance plans batches as long as the disk can begin to read them. a.mu is held.
func (a *ahead) advance() {
	for len(a.due) < mostDue && a.canPlan() {
		for _, c := range a.columns {
			if !c.Ready() {
				return
			}
		}
		a.plan()
	}
}

// finished is called when a batch has its rows: there is room to read for another.
func (a *ahead) finished() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.advance()
}

// start begins to read what batch b needs of a column to the slot.
func (c *aheadColumn) start(s tier.Slot, b plannedBatch, k int) error {
	parts := make([]diskio.Part, len(c.arrays))
	for p, i := range c.arrays {
		room, err := s.Room(i, int64(b.rows[k][p])*c.rowBytes)
		if err != nil {
			return err
		}
		parts[p] = diskio.Part{Rows: b.rows[k][p], Bytes: room}
	}
	return b.reads[k].Start(parts)
}

// stats returns what was planned so far.
func (a *ahead) stats() *DiskStats {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &DiskStats{Probe: a.l.split.reader.Probe(), Lookahead: len(a.known)}
	for _, c := range a.columns {
		s.Counts.Add(c.Planner().Count())
		if pack := c.Pack(); pack != nil {
			s.Pack = append(s.Pack, *pack)
		}
		s.CacheRows += int64(c.Planner().Slots())
	}
	return s
}
