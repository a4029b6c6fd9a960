package diskio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/pinned"
)

// Mapped is the bytes of a column, which lie in a mapped file, and how many each of its rows has.
type Mapped struct {
	Bytes    []byte
	RowBytes int64
}

// Open opens the files that columns are mapped from, and a Reader of them. Where opt leaves it open, a probe of some
// tenths of a second finds out what requests suit the disk. The layouts say where the columns lie.
//
// Errors: pinned.ErrNotMapped for a column that lies in no file, and those of opening and of memory.
func Open(ctx context.Context, columns []Mapped, opt ReaderOptions) (*Reader, []Layout, error) {
	var files []*File
	var layouts []Layout
	for _, c := range columns {
		f, offset, err := openFile(c.Bytes)
		if err != nil {
			return nil, nil, errors.Join(err, closeFiles(files))
		}
		files = append(files, f)
		layouts = append(layouts, Layout{Offset: offset, RowBytes: c.RowBytes,
			Rows: int64(len(c.Bytes)) / c.RowBytes})
	}
	probe := opt.Depth == 0 && opt.Shape.Gap == 0 && opt.Intercept == nil
	r, err := newReader(files, opt)
	if err != nil {
		return nil, nil, err
	}
	if r.probe = r.describe(); probe {
		r.try(ctx)
	}
	if ctx.Err() != nil {
		return nil, nil, errors.Join(context.Cause(ctx), r.Close())
	}
	for i := range layouts {
		layouts[i].Shape = r.probe.Shape
	}
	return r, layouts, nil
}

// Probe returns what the disk gives.
func (r *Reader) Probe() disk.Probe { return r.probe }

// Column is a column on disk with a cache of its rows. Asks come from one goroutine at a time, and so do plans; batches
// are carried out by any. Close it when all of its batches have ended.
type Column struct {
	reader  *Reader
	file    *File
	layout  Layout
	planner *Planner
	cache   *pinned.Region
	memory  pinned.Options

	mu    sync.Mutex
	last  chan struct{} // closed when the batch that was planned last has ended well
	begun []*Batch      // planned and not ended well, in order
	spare []*Batch
	early arena // of rows that are read before their batch has memory

	pack      *pack // nil: rows are not packed
	notPacked error // why, where that was wanted
}

// ColumnOptions are a Column's.
type ColumnOptions struct {
	PlannerOptions
	// Early is bytes of rows that are read before Start gives their batch memory. A batch that needs more than is free
	// is read from Start on.
	Early int64
	// Cache says how memory of the cache is taken and counted.
	Cache pinned.Options
}

// NewColumn returns the column numbered i of those that the reader was opened with, with an empty cache.
func NewColumn(r *Reader, i int, layout Layout, opt ColumnOptions) (*Column, error) {
	c := &Column{reader: r, file: r.files[i], layout: layout, memory: opt.Memory, last: closedChannel()}
	err := c.openPack(&opt)
	if err != nil {
		return nil, err
	}
	p, err := NewPlanner(layout, opt.PlannerOptions)
	if err != nil {
		return nil, errors.Join(err, c.pack.close())
	}
	c.planner = p
	c.cache, err = pinned.Allocate(int64(p.opt.Slots)*layout.RowBytes, opt.Cache)
	if err == nil {
		c.early.memory, err = pinned.Allocate(opt.Early, opt.Memory)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// openPack opens what packs rows, where that is wanted. That it is refused is no error.
func (c *Column) openPack(opt *ColumnOptions) (err error) {
	if opt.Pack.Bytes <= 0 {
		return nil
	}
	c.pack, err = openPack(c.file, c.layout, opt.Lookahead, &c.reader.probe, opt.Pack, opt.Memory)
	if errors.Is(err, ErrPack) {
		c.notPacked, err = err, nil
	}
	opt.pack = c.pack
	return err
}

// Pack says how rows are packed; nil where it was not requested.
func (c *Column) Pack() *disk.PackState {
	if c.pack != nil {
		s := c.pack.state()
		return &s
	}
	if c.notPacked != nil {
		return &disk.PackState{Refused: c.notPacked.Error()}
	}
	return nil
}

func closedChannel() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// Close frees cache and plan.
func (c *Column) Close() error {
	errs := []error{c.planner.Close(), c.cache.Close(), c.early.memory.Close(), c.pack.close()}
	for _, b := range c.spare {
		errs = append(errs, b.free())
	}
	c.spare = nil
	return errors.Join(errs...)
}

// Planner returns the plan, for who asks and plans.
func (c *Column) Planner() *Planner { return c.planner }

// Batch is a plan under way.
type Batch struct {
	Plan         Plan
	column       *Column
	before, done chan struct{} // closed when the batch before, and this one, have ended well
	parts        []Part
	own          []byte // of rows that are not the batch's, and of those that are read early
	lands        []Move // from there to rows of the batch
	earlyEnd     int64  // of own in Column.early; 0: it is along
	along        pinned.Buffer
	counted      int64
	transfers    []*transfer // what is being read for it; Column.mu guards when they begin
	late         []*transfer // and since the batch before has ended; Column.mu guards them

	unpack, unpackLate Plan   // of packed rows that are read from their file
	lost               Plan   // of those that are read from the column
	kept               []Read // packed rows in memory
}

// Part is memory for some of a batch's rows.
type Part struct {
	Rows  int
	Bytes []byte
}

// Next plans the oldest batch of the window. Every batch that is planned must end: by Finish or by Stop.
func (c *Column) Next() (*Batch, error) {
	c.mu.Lock()
	var b *Batch
	if n := len(c.spare); n > 0 {
		b, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		b = &Batch{column: c}
		b.along.Options = c.memory
	}
	b.before, b.done = c.last, make(chan struct{})
	c.last = b.done
	c.begun = append(c.begun, b)
	c.mu.Unlock()
	c.planner.Next(&b.Plan)
	grown := b.Plan.memory() + b.unpack.memory() + b.unpackLate.memory() + b.lost.memory() + int64(cap(b.kept))*8 -
		b.counted
	if err := c.memory.Ledger.Take(c.memory.Purpose, grown); err != nil {
		return nil, err
	}
	b.counted += grown
	c.mu.Lock()
	defer c.mu.Unlock()
	b.startEarly()
	return b, nil
}

// startEarly begins to read the batch to memory of the column, if there is room. Column.mu is held.
func (b *Batch) startEarly() {
	c, p := b.column, &b.Plan
	if len(p.Reads)+len(p.Packed) == 0 {
		b.read()
		return
	}
	room, end := c.early.take(int64(len(p.Along)+len(p.Reads)+len(p.Packed)) * c.layout.RowBytes)
	if room == nil {
		return
	}
	b.own, b.earlyEnd = room, end
	own := uint32(p.Rows + len(p.Along))
	for _, rows := range [2][]Read{p.Reads, p.Packed} {
		for i := range rows {
			b.lands = append(b.lands, Move{own, rows[i].To})
			rows[i].To = own
			own++
		}
	}
	b.read()
}

// read begins to read what the cache lacks, as far as that is in files by now. Column.mu is held.
func (b *Batch) read() {
	c := b.column
	b.transfers = append(b.transfers, b.start(c.file, &c.layout, &b.Plan))
	if c.pack == nil || len(b.Plan.Packed) == 0 {
		return
	}
	b.unpack.reset(0)
	b.unpack.Reads = c.pack.settle(&b.Plan, b.unpack.Reads)
	b.transfers = append(b.transfers, b.startSorted(c.pack.file, &c.pack.layout, &b.unpack))
	if c.begun[0] == b {
		b.readRest()
	}
}

// readRest begins to read the packed rows that were not there before: all batches before have ended. Column.mu is held.
func (b *Batch) readRest() {
	c := b.column
	if c.pack == nil || len(b.Plan.Packed) == 0 {
		return
	}
	b.unpackLate.reset(0)
	b.lost.reset(0)
	b.unpackLate.Reads, b.kept, b.lost.Reads = c.pack.rest(&b.Plan, b.unpackLate.Reads, b.kept, b.lost.Reads)
	b.late = append(b.late, b.startSorted(c.pack.file, &c.pack.layout, &b.unpackLate),
		b.startSorted(c.file, &c.layout, &b.lost))
	c.pack.countLost(&b.lost, &c.layout)
}

// startSorted begins to read rows in any order.
func (b *Batch) startSorted(file *File, layout *Layout, plan *Plan) *transfer {
	slices.SortFunc(plan.Reads, func(a, b Read) int { return cmp.Compare(a.Row, b.Row) })
	layout.merge(plan)
	if layout.group == 0 {
		layout.trim(plan)
	}
	return b.start(file, layout, plan)
}

// start begins to read what a plan says.
func (b *Batch) start(file *File, layout *Layout, plan *Plan) *transfer {
	t := &transfer{file: file, layout: layout, plan: plan, rowAt: b.row, done: make(chan struct{})}
	b.column.reader.start(t)
	return t
}

// Start gives the batch memory: the parts together are as many rows as it has, and belong to it until Finish or Cancel
// returns. Unless there was room before, it begins to read.
func (b *Batch) Start(parts []Part) error {
	c := b.column
	c.mu.Lock()
	defer c.mu.Unlock()
	b.parts = append(b.parts[:0], parts...)
	if len(b.transfers) > 0 {
		return nil
	}
	n := int64(len(b.Plan.Along)) * c.layout.RowBytes
	if err := b.along.Grow(n, 0); err != nil {
		return err
	}
	b.own = b.along.Bytes()[:n]
	b.read()
	return nil
}

// Ready reports whether a batch that is planned next would be read at once: those before it are being read, and there
// is room for one more like the last.
func (c *Column) Ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.begun)
	if n == 0 {
		return true
	}
	last := c.begun[n-1]
	if len(last.transfers) == 0 {
		if last.startEarly(); len(last.transfers) == 0 {
			return false
		}
	}
	return c.early.room() >= int64(len(last.own))
}

// Begun returns how many batches are planned and have not ended well.
func (c *Column) Begun() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.begun)
}

// row returns the memory of a row of the batch.
func (b *Batch) row(to uint32) []byte {
	i, bytes := int64(to), b.column.layout.RowBytes
	if i >= int64(b.Plan.Rows) {
		i -= int64(b.Plan.Rows)
		return b.own[i*bytes : (i+1)*bytes]
	}
	for k := range b.parts {
		if n := int64(b.parts[k].Rows); i >= n {
			i -= n
			continue
		}
		return b.parts[k].Bytes[i*bytes : (i+1)*bytes]
	}
	panic(fmt.Sprintf("row %d of %d of a batch on disk has no memory", to, b.Plan.Rows))
}

// Asked returns which rows of the column a part is of, as they were asked for.
func (b *Batch) Asked(part int) []uint32 {
	first := 0
	for _, p := range b.parts[:part] {
		first += p.Rows
	}
	return b.Plan.Asked[first : first+b.parts[part].Rows]
}

// Finish waits until the rows that are read are there, and the batches before have finished; then it copies the others
// from the cache, and fills that. It returns how long it waited. When it returns an error the batch has not ended: Stop
// ends it.
func (b *Batch) Finish(ctx context.Context) (waited time.Duration, err error) {
	begin := time.Now()
	for _, t := range b.transfers {
		if err := t.wait(ctx); err != nil {
			return time.Since(begin), err
		}
	}
	select {
	case <-b.before:
	case <-ctx.Done():
		return time.Since(begin), context.Cause(ctx)
	}
	c := b.column
	c.mu.Lock()
	late := b.late
	c.mu.Unlock()
	for _, t := range late {
		if err := t.wait(ctx); err != nil {
			return time.Since(begin), err
		}
	}
	waited = time.Since(begin)
	b.move()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun = c.begun[1:] // batches end in order
	if len(c.begun) > 0 && len(c.begun[0].transfers) > 0 {
		c.begun[0].readRest()
	}
	close(b.done)
	b.reset()
	c.spare = append(c.spare, b)
	return waited, nil
}

// move copies the rows that were not read, and fills cache and pack.
func (b *Batch) move() {
	c := b.column
	cache, n := c.cache.Bytes(), c.layout.RowBytes
	for _, m := range b.Plan.Hits {
		at := int64(m.From) * n
		copy(b.row(m.To), cache[at:at+n])
	}
	if c.pack != nil {
		b.takeKept()
	}
	for _, m := range b.lands {
		copy(b.row(m.To), b.row(m.From))
	}
	for _, m := range b.Plan.Same {
		copy(b.row(m.To), b.row(m.From))
	}
	spills := b.Plan.Spills
	for i, m := range b.Plan.Keeps {
		at := int64(m.To) * n
		for len(spills) > 0 && int(spills[0].at) <= i {
			b.spill(spills[0])
			spills = spills[1:]
		}
		copy(cache[at:at+n], b.row(m.From))
	}
	for _, s := range spills {
		b.spill(s)
	}
}

// takeKept copies rows that were packed, and are in memory still.
func (b *Batch) takeKept() {
	p := b.column.pack
	p.mu.Lock()
	for _, r := range b.kept {
		copy(b.row(r.To), p.row(r.Row))
	}
	p.mu.Unlock()
	p.letGo(b.Plan.chunks)
}

// spill packs a row.
func (b *Batch) spill(s Spill) {
	c := b.column
	if s.at < 0 {
		c.pack.fill(s.To, b.row(s.From))
		return
	}
	at := int64(s.From) * c.layout.RowBytes
	c.pack.fill(s.To, c.cache.Bytes()[at:at+c.layout.RowBytes])
}

// reset lets go of the batch's memory. Column.mu is held.
func (b *Batch) reset() {
	if b.earlyEnd > 0 {
		b.column.early.give(b.earlyEnd)
	}
	clear(b.parts)
	b.own, b.lands, b.kept, b.earlyEnd = nil, b.lands[:0], b.kept[:0], 0
	clear(b.transfers)
	clear(b.late)
	b.transfers, b.late = b.transfers[:0], b.late[:0]
}

// Cancel ends the reading: no part is written to any more.
func (b *Batch) Cancel() {
	b.column.mu.Lock()
	defer b.column.mu.Unlock()
	b.cancel()
}

func (b *Batch) cancel() {
	for _, t := range slices.Concat(b.transfers, b.late) {
		t.finish(context.Canceled)
	}
}

// idle reports whether nothing is being read for the batch.
func (b *Batch) idle() bool {
	return !slices.ContainsFunc(slices.Concat(b.transfers, b.late), func(t *transfer) bool { return t.left.Load() > 0 })
}

// Stop ends the batches that were planned and have not ended well. Nobody may be in Finish.
func (c *Column) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, b := range c.begun {
		b.cancel()
		c.planner.Lose(&b.Plan)
		if b.idle() {
			errs = append(errs, b.free())
		} else { // the disk still reads for it; nothing of it goes anywhere
			c.memory.Ledger.Give(c.memory.Purpose, b.counted)
			errs = append(errs, b.along.Close())
		}
	}
	c.begun, c.last = nil, closedChannel()
	c.planner.losePacked()
	c.early.reset()
	return errors.Join(errs...)
}

// free gives the batch's memory back.
func (b *Batch) free() error {
	b.column.memory.Ledger.Give(b.column.memory.Purpose, b.counted)
	b.counted = 0
	return b.along.Close()
}
