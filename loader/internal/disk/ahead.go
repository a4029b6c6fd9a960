package disk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/gather/cuda"
	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/internal/errs"
	"github.com/khop-gnn/khop/loader/internal/placed"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Ahead samples batches before they are due, to learn which rows they need, and has their reads planned. It keeps the
// ids alone: workers sample the batch again when it is due, which costs less memory than keeping samples by far.
//
// What follows an epoch is taken to be the next one, so its batches are known as well. Where something else follows,
// the window is begun anew; what the cache has stays.
type Ahead struct {
	opt         AheadOptions
	columns     []*aheadColumn
	arrays      [][2]int // [array] column, or -1, and which of its arrays
	presamplers []*aheadPresampler

	mu      sync.Mutex
	changed sync.Cond
	taken   schedule     // the next batch to sample
	asked   schedule     // the next batch to hand to the planners; numbers follow those of taken
	planned schedule     // the next batch to plan
	first   uint64       // the number of the run's first batch
	known   []askedBatch // asked for and not planned
	crowded bool         // the next batch is sampled, and the window has no room for it
	due     map[uint64]plannedBatch
}

// AheadOptions are what a loader tells of itself.
type AheadOptions struct {
	Tier        *Tier
	Loader      any // as in tier.Worker
	Ledger      *pinned.Ledger
	Columns     []*placed.Column // [array] of a batch
	Most        []int64          // [array] rows
	Part        Part
	Presamplers []presampling
}

// Part says which batches of an epoch a rank has.
type Part struct {
	Batches     uint64 // of an epoch, over all ranks
	Rank, World uint64
	Rounds      func(n uint64) uint64 // how many of n batches that all ranks share
}

// presampling samples batches, without rows.
type presampling interface {
	Sample(ctx context.Context, epoch uint32, number uint64) error
	// Awaited returns how long that waited for the disk.
	Awaited() time.Duration
	// IDs returns which rows an array of the batch has of its column, and whether it is the beginning of another.
	IDs(array int) (ids unified.Tensor, view bool)
	Close() error
}

// aheadColumn is a column on disk.
type aheadColumn struct {
	*diskio.Column
	hot      *cuda.HotRows // that the device keeps, and nobody asks for here; nil for none
	arrays   []int         // of a batch
	store    *gather.Store
	rowBytes int64 // as they are stored
	mostAsks int64
}

// askedBatch is how many rows a batch has of each column's arrays, or why it could not be sampled.
type askedBatch struct {
	rows    [][]int
	awaited float64 // the share of the time to sample it that was spent waiting for the disk
	err     error
}

// plannedBatch is a batch whose reads are planned.
type plannedBatch struct {
	askedBatch
	at    schedule
	reads []*diskio.Batch
}

// schedule is the sequence of batches that a rank is expected to make: to the end of a part, then what follows it.
type schedule struct {
	number   uint64 // of steps
	epoch    uint64
	first    uint64 // of the part, as in run
	last     uint64
	position uint64
}

// settle goes on to the next part as long as there is no batch at the position; false where none follows.
func (c *schedule) settle(r *Part) bool {
	for tries := 0; c.position >= r.Rounds(c.last-c.first); tries++ {
		if c.first, c.position = c.last, 0; c.last == r.Batches {
			c.first = 0
			c.epoch++
		}
		if c.last = r.Batches; tries > 2 || c.epoch >= 1<<32 {
			return false
		}
	}
	return true
}

// at returns the number of the batch within its epoch.
func (c *schedule) at(r *Part) uint64 {
	return (c.first + r.Rank + c.position*r.World) % r.Batches
}

func (c *schedule) next() { c.number, c.position = c.number+1, c.position+1 }

// same reports whether the schedules go on alike.
func (c *schedule) same(d *schedule, world uint64) bool {
	return c.epoch == d.epoch && c.last == d.last &&
		c.first+c.position*world == d.first+d.position*world
}

// aheadPresampler samples for ahead.
type aheadPresampler struct {
	presampling
	rows [][]uint32 // by column
}

// NewAhead makes what looks ahead for a loader. It closes the presamplers also where it fails.
func NewAhead(opt AheadOptions) (*Ahead, error) {
	a := &Ahead{opt: opt, due: map[uint64]plannedBatch{}}
	a.changed.L = &a.mu
	opt.Tier.join(opt.Loader, a)
	for range opt.Columns {
		a.arrays = append(a.arrays, [2]int{-1, 0})
	}
	for _, s := range opt.Presamplers {
		a.presamplers = append(a.presamplers, &aheadPresampler{presampling: s})
	}
	for _, d := range opt.Tier.OnDisk {
		if err := a.openColumn(d); err != nil {
			return nil, errors.Join(err, a.Close())
		}
	}
	for _, s := range a.presamplers {
		s.rows = make([][]uint32, len(a.columns))
	}
	return a, nil
}

// Presamplers is how many goroutines sample ahead of this number of workers.
func Presamplers(workers int) int { return (workers + 1) / 2 }

// openColumn adds a column, where batches of this loader have rows of it.
func (a *Ahead) openColumn(d Column) error {
	o, of := &a.opt, a.opt.Tier
	c := &aheadColumn{store: d.Column.Store, rowBytes: d.Column.Store.RowBytes(), mostAsks: d.MostAsks,
		hot: d.Column.Hot}
	most := int64(0)
	for i := range o.Columns {
		if o.Columns[i] == d.Column {
			most = sat.Add(most, o.Most[i])
			a.arrays[i] = [2]int{len(a.columns), len(c.arrays)}
			c.arrays = append(c.arrays, i)
			if c.hot != nil && o.Most[i] > c.hot.Most {
				c.hot = nil // it was made for smaller batches
			}
		}
	}
	if len(c.arrays) == 0 {
		return nil
	}
	var err error
	c.Column, err = diskio.NewColumn(of.Files, d.Index, d.Layout, diskio.ColumnOptions{
		PlannerOptions: diskio.PlannerOptions{Slots: d.Slots, Lookahead: of.opt.Lookahead, Along: d.Along,
			Asks: int(d.asks(most)), Pack: d.Pack, Memory: pinned.Options{Ledger: o.Ledger, Purpose: pinned.Scratch}},
		Early: d.Early, Cache: pinned.Options{Ledger: o.Ledger, Purpose: pinned.Columns}})
	if err == nil {
		a.columns = append(a.columns, c)
	}
	return err
}

func (a *Ahead) find(array int) (column, part int) { return a.arrays[array][0], a.arrays[array][1] }

// Close frees all memory.
func (a *Ahead) Close() error {
	if a == nil {
		return nil
	}
	a.opt.Tier.join(a.opt.Loader, nil)
	all := []error{a.stop()}
	for _, s := range a.presamplers {
		all = append(all, s.Close())
	}
	for _, c := range a.columns {
		all = append(all, c.Close())
	}
	return errors.Join(all...)
}

// Begin looks ahead of batches first .. last-1 of an epoch, with goroutines that end when ctx does.
func (a *Ahead) Begin(ctx context.Context, group *sync.WaitGroup, epoch, first, last uint64) error {
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
	run := schedule{number: head.number, epoch: epoch, first: first, last: last}
	if !run.settle(&a.opt.Part) || !head.same(&run, a.opt.Part.World) {
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
	for _, s := range a.presamplers {
		group.Go(func() { s.look(ctx, a) })
	}
	context.AfterFunc(ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.changed.Broadcast()
	})
	return nil
}

// End ends what a run began, whose workers and presamplers have ended. What is being read for later batches goes on,
// unless one before them has failed or was given up.
func (a *Ahead) End() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.planned.settle(&a.opt.Part)
	for _, c := range a.columns {
		if c.Begun() != len(a.due) {
			return a.stop()
		}
	}
	return nil
}

// stop gives up what is planned. a.mu is held, or nobody else is there.
func (a *Ahead) stop() error {
	clear(a.due)
	var all []error
	for _, c := range a.columns {
		all = append(all, c.Stop())
	}
	return errors.Join(all...)
}

// look samples batches until the run ends.
func (s *aheadPresampler) look(ctx context.Context, a *Ahead) {
	for {
		a.mu.Lock()
		at := a.taken
		ok := at.settle(&a.opt.Part) && ctx.Err() == nil
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
func (s *aheadPresampler) ask(ctx context.Context, a *Ahead, at *schedule) (b askedBatch) {
	begin := time.Now()
	b.err = s.Sample(ctx, uint32(at.epoch), at.at(&a.opt.Part))
	b.awaited = s.Awaited().Seconds() / max(time.Since(begin).Seconds(), 1e-9)
	for k, c := range a.columns {
		s.rows[k] = s.rows[k][:0]
		counts := make([]int, len(c.arrays))
		for p, i := range c.arrays {
			if b.err != nil {
				continue
			}
			ids, view := s.IDs(i)
			if view {
				continue
			}
			before := len(s.rows[k])
			s.rows[k], b.err = a.opt.Columns[i].Store.Rows(s.rows[k], ids)
			if c.hot != nil {
				s.rows[k] = s.rows[k][:before+len(c.hot.Missing(s.rows[k][before:], nil))]
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
func (a *Ahead) tell(ctx context.Context, s *aheadPresampler, at *schedule, b askedBatch) bool {
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
func (a *Ahead) fits(rows [][]uint32) bool {
	for k, c := range a.columns {
		p := c.Planner()
		if p.Full() || p.Known() > 0 && int64(p.Asks()+len(rows[k])) > c.mostAsks {
			return false
		}
	}
	return true
}

// full reports whether no further batch can be asked for at present.
func (a *Ahead) full() bool {
	for _, c := range a.columns {
		if c.Planner().Full() {
			return true
		}
	}
	return a.crowded
}

// canPlan reports whether the oldest batch should be planned now: not before the window is as long as it becomes,
// unless the caches have room for all that is asked for.
func (a *Ahead) canPlan() bool {
	if len(a.known) == 0 || a.full() {
		return len(a.known) > 0
	}
	rest := a.taken
	if !rest.settle(&a.opt.Part) && a.asked.number == a.taken.number {
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
func (a *Ahead) claim(ctx context.Context, position uint64) (plannedBatch, error) {
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
		return b, fmt.Errorf("%w: batch %d was planned already", errs.ErrOptions, number)
	}
	delete(a.due, number)
	a.advance()
	return b, b.err
}

// plan plans the oldest batch that is known. a.mu is held.
func (a *Ahead) plan() {
	a.planned.settle(&a.opt.Part)
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
func (a *Ahead) advance() {
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
func (a *Ahead) finished() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.advance()
}

// start begins to read what batch b needs of a column to the slot. It returns what is to be widened when it is there.
func (c *aheadColumn) start(s tier.Slot, b plannedBatch, k int) (wide []wideRows, err error) {
	parts := make([]diskio.Part, len(c.arrays))
	rooms := make([][]byte, len(c.arrays))
	for p, i := range c.arrays {
		n := int64(b.rows[k][p])
		if rooms[p], err = s.Room(i, n*max(c.rowBytes, c.store.OutBytes())); err != nil {
			return nil, err
		}
		rooms[p] = rooms[p][:n*max(c.rowBytes, c.store.OutBytes())]
		parts[p] = diskio.Part{Rows: b.rows[k][p], Bytes: rooms[p][int64(len(rooms[p]))-n*c.rowBytes:]}
	}
	if err := b.reads[k].Start(parts); err != nil || c.store.DType() == c.store.Column().DType() {
		return nil, err
	}
	for p := range parts {
		wide = append(wide, wideRows{c.store, rooms[p], slices.Clone(b.reads[k].Asked(p))})
	}
	return wide, nil
}

// wideRows are rows of an array that are widened where they were read to.
type wideRows struct {
	store *gather.Store
	room  []byte
	rows  []uint32
}

// Report says what was planned so far: counts, how rows of each column are packed, how many rows caches hold at most,
// and how many batches are known. Of nil it is nothing.
func (a *Ahead) Report() (n disk.Counts, packs []disk.PackState, cacheRows int64, known int) {
	if a == nil {
		return n, nil, 0, 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.columns {
		n.Add(c.Planner().Count())
		if pack := c.Pack(); pack != nil {
			packs = append(packs, *pack)
		}
		cacheRows += int64(c.Planner().Slots())
	}
	return n, packs, cacheRows, len(a.known)
}
