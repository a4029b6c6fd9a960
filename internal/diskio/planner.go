package diskio

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/pinned"
)

// ErrRows is returned for a column that a Planner cannot number.
var ErrRows = errors.New("too many rows for a column on disk")

const (
	// MaxLookahead is the most batches that a window has.
	MaxLookahead = 1 << 14
	// MaxRows is what a column must have fewer rows than.
	MaxRows = 1<<31 - 1
	// MaxAsks is the most rows that the batches of a window ask for.
	MaxAsks = 1<<31 - 2
	// AskBytes is what a row takes that a batch of the window asks for, and PackedBytes what it takes more where rows
	// are packed.
	AskBytes, PackedBytes = 8, 4
)

const (
	noAsk   = ^uint32(0)
	noRow   = ^uint32(0)
	isAsked = 1 << 31 // of a row's state: the rest is the number of the last ask for it
	isHeld  = 1 << 31 // of an ask's what: the rest is not a row
	levels  = 256     // of uses, by which rows without a next use are told apart
	// slotBytes and rowState are what the plan takes for each row of the cache, and for each row of the column.
	slotBytes, rowState = 12, 5
)

// ask is that a batch of the window needs a row. Its number is its place in the ring.
type ask struct {
	// what is the row. The first ask for a row says where that is, if it is anywhere: isHeld and its slot of the cache,
	// or isHeld plus the number of slots plus its place in the pack.
	what uint32
	next uint32 // the next ask for the row; of its last ask the first
}

// window is the batches that are known and not yet planned.
type window struct {
	asks       []ask // a ring
	begin, end uint32
	batches    []uint64 // [number % len] how many asks there were before it
}

// Planner decides what a cache of rows holds. It is for one goroutine at a time; Close frees its memory.
type Planner struct {
	layout Layout
	opt    PlannerOptions
	state  []uint32 // [row] 0, a slot of the cache + 1, or isAsked and the last ask
	uses   []uint8  // [row] asks so far, as far as they can be counted
	aged   int64    // asks since uses were halved
	window

	now, asked uint32 // numbers of the next batch to plan, and of the next to be asked for

	// The cache: each slot is in the list of one bucket. Lists are rings, through an entry at len(rows)+bucket.
	rows       []uint32
	prev, next []int32
	spare      int    // slots without a row
	low        int    // no bucket below it has a slot of a row without a next use
	far        uint32 // no batch after it is the next use of a cached row

	memory []*pinned.Region
	room   *pinned.Region // of the window
	count  disk.Counts
}

// PlannerOptions are a Planner's.
type PlannerOptions struct {
	// Slots are the rows that the cache holds.
	Slots int
	// Lookahead is the most batches of the window.
	Lookahead int
	// Asks is how many rows the window asks for at most; it grows where it must.
	Asks int
	// Along is the most rows that a batch reads for later batches because they are on its pages.
	Along int
	// Pack says what may be taken to pack rows that the cache has no room for.
	Pack PackOptions
	// Memory says how memory is taken and counted.
	Memory pinned.Options

	pack *pack // of rows that the cache has no room for; nil: they are read again
}

// NewPlanner returns a planner with an empty cache. Errors: ErrRows, and pinned.ErrLimit of the ledger.
func NewPlanner(layout Layout, opt PlannerOptions) (_ *Planner, err error) {
	if layout.Rows >= MaxRows {
		return nil, fmt.Errorf("%w: %d; there may be %d", ErrRows, layout.Rows, MaxRows-1)
	}
	opt.Lookahead = min(max(opt.Lookahead, 1), MaxLookahead)
	opt.Slots = int(min(int64(opt.Slots), layout.Rows))
	opt.Asks = min(opt.Asks, MaxAsks)
	p := &Planner{layout: layout, opt: opt, low: levels, room: &pinned.Region{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	lists := opt.Slots + levels + opt.Lookahead + 2
	p.state, err = take[uint32](p, err, layout.Rows)
	p.uses, err = take[uint8](p, err, layout.Rows)
	p.rows, err = take[uint32](p, err, int64(opt.Slots))
	p.prev, err = take[int32](p, err, int64(lists))
	p.next, err = take[int32](p, err, int64(lists))
	if err != nil {
		return nil, err
	}
	p.batches = make([]uint64, opt.Lookahead+1)
	for i := opt.Slots; i < lists; i++ {
		p.prev[i], p.next[i] = int32(i), int32(i)
	}
	for slot := range opt.Slots {
		p.rows[slot] = noRow
		p.link(int32(slot), p.freeList())
	}
	p.spare = opt.Slots
	return p, nil
}

// take returns n zeros, which p frees, unless there was an error before.
func take[T uint8 | int32 | uint32](p *Planner, before error, n int64) ([]T, error) {
	if before != nil {
		return nil, before
	}
	var zero T
	room, err := pinned.Allocate(n*int64(unsafe.Sizeof(zero)), p.opt.Memory)
	if err != nil || n == 0 {
		return nil, errors.Join(err, room.Close())
	}
	p.memory = append(p.memory, room)
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(room.Bytes()))), n), nil
}

// Close frees the planner's memory.
func (p *Planner) Close() (err error) {
	for _, m := range p.memory {
		err = errors.Join(err, m.Close())
	}
	p.memory = nil
	return errors.Join(err, p.room.Close())
}

// PlanBytes returns the memory of a planner, without its window.
func PlanBytes(rows, slots int64) int64 { return rows*rowState + slots*slotBytes }

// WindowBytes returns the memory of a window in which n rows are asked for.
func WindowBytes(asks int64) int64 { return max(asks, leastAsks) * AskBytes }

// leastAsks is how many asks the least window has room for.
const leastAsks = 256

// Count returns what the plans so far came to.
func (p *Planner) Count() disk.Counts {
	c := p.count
	c.Add(p.opt.pack.Count())
	return c
}

// Slots returns how many rows the cache holds at most.
func (p *Planner) Slots() int { return p.opt.Slots }

// Known returns the batches that have been asked for and not been planned, and Asks the rows of these.
func (p *Planner) Known() int { return int(p.asked - p.now) }

// Asks returns the rows that the batches of the window ask for.
func (p *Planner) Asks() int { return int(p.before(p.asked) - p.before(p.now)) }

// before returns how many asks there were before a batch of the window, or before the batch that comes after it.
func (p *Planner) before(batch uint32) uint64 { return p.batches[batch%uint32(len(p.batches))] }

// Full reports whether the window has as many batches as it may have.
func (p *Planner) Full() bool { return p.Known() >= p.opt.Lookahead }

// Spare returns how many slots of the cache hold no row.
func (p *Planner) Spare() int { return p.spare }

func (p *Planner) at(number uint32) *ask { return &p.asks[number] }

// after returns the number of the ask that comes n after another one. n is at most as many as there is room for.
func (p *Planner) after(number uint32, n int) uint32 {
	if at := int(number) + n; at < len(p.asks) {
		return uint32(at)
	}
	return uint32(int(number) + n - len(p.asks))
}

// since returns how many asks lie between two of the window, of which first is no later.
func (p *Planner) since(first, number uint32) int {
	if number < first {
		return int(number) + len(p.asks) - int(first)
	}
	return int(number - first)
}

// first returns the first ask for a row of the window; false where nobody asks for it.
func (p *Planner) first(row uint32) (number uint32, ok bool) {
	s := p.state[row]
	if s < isAsked {
		return noAsk, false
	}
	return p.at(s &^ isAsked).next, true
}

// batchOf returns the batch of an ask of the window.
func (p *Planner) batchOf(number uint32) uint32 {
	n := p.before(p.now) + uint64(p.since(p.begin, number))
	low, high := uint32(0), p.asked-p.now // the batch is now + low .. now + high - 1
	for high-low > 1 {
		if middle := (low + high) / 2; p.before(p.now+middle) <= n {
			low = middle
		} else {
			high = middle
		}
	}
	return p.now + low
}

// held returns where the row of an ask is: in a slot, or in a place of the pack, or in neither.
func (p *Planner) held(a *ask) (slot int32, place uint32, packed bool) {
	switch v := a.what &^ isHeld; {
	case a.what < isHeld:
		return -1, 0, false
	case v < uint32(len(p.rows)):
		return int32(v), 0, false
	default:
		return -1, v - uint32(len(p.rows)), true
	}
}

// rowOf returns the row of an ask.
func (p *Planner) rowOf(a *ask) uint32 {
	if slot, place, packed := p.held(a); packed {
		return p.opt.pack.rowAt(place)
	} else if slot >= 0 {
		return p.rows[slot]
	}
	return a.what
}

// Ask tells the rows of the next batch, each a row of the column; repeats are allowed. The window must not be Full.
// Its error is that of taking memory.
func (p *Planner) Ask(rows []uint32) error {
	if err := p.makeRoom(len(rows)); err != nil {
		return err
	}
	for _, row := range rows {
		number := p.end
		p.end = p.after(p.end, 1)
		a := p.at(number)
		*a = ask{what: row, next: number}
		s := p.state[row]
		p.state[row] = isAsked | number
		if s >= isAsked {
			last := p.at(s &^ isAsked)
			a.next, last.next = last.next, number
		} else if s > 0 {
			p.placeIn(int32(s-1), number, p.asked)
		}
		if p.uses[row] < levels-1 {
			p.uses[row]++
		}
	}
	before := p.before(p.asked)
	p.asked++
	p.batches[p.asked%uint32(len(p.batches))] = before + uint64(len(rows))
	p.age(int64(len(rows)))
	return nil
}

// age halves the counts of uses now and then, so that what was asked for lately counts more.
func (p *Planner) age(asks int64) {
	if p.aged += asks; p.aged < 32*p.layout.Rows {
		return
	}
	p.aged = 0
	for i := range p.uses {
		p.uses[i] /= 2
	}
}

// makeRoom makes the window large enough for n more asks.
func (p *Planner) makeRoom(n int) error {
	held := p.Asks()
	if held+n <= len(p.asks) {
		return nil
	}
	old, first, size := p.asks, p.begin, max(held+n, p.opt.Asks, leastAsks)
	room, err := pinned.Allocate(int64(size)*AskBytes, p.opt.Memory)
	if err != nil {
		return err
	}
	asks := unsafe.Slice((*ask)(unsafe.Pointer(unsafe.SliceData(room.Bytes()))), size)
	for i, at := uint32(0), first; i < uint32(held); i, at = i+1, p.after(at, 1) {
		a := &old[at]
		asks[i] = ask{what: a.what, next: uint32(p.since(first, a.next))}
		if row := p.rowOf(a); p.state[row] == isAsked|at {
			p.state[row] = isAsked | i
		}
	}
	p.asks, p.begin, p.end = asks, 0, uint32(held%size)
	room, p.room = p.room, room
	return room.Close()
}

// Forget drops the window: what the next batches will be is no longer known.
func (p *Planner) Forget() {
	for at, n := p.begin, p.Asks(); n > 0; at, n = p.after(at, 1), n-1 {
		a := p.at(at)
		row := p.rowOf(a)
		if p.state[row] < isAsked {
			continue
		}
		slot, _, _ := p.held(a) // it is the first ask for the row
		if p.state[row] = 0; slot >= 0 {
			p.place(slot, row, noAsk)
		}
	}
	p.begin, p.now = p.end, p.asked
	if p.opt.pack != nil {
		p.opt.pack.reset()
	}
}

// Lose drops what the cache was to hold of a plan that was not carried out.
func (p *Planner) Lose(plan *Plan) {
	for _, k := range plan.Keeps {
		if p.rows[k.To] != noRow {
			p.evict(int32(k.To))
			p.move(int32(k.To), p.freeList())
			p.spare++
		}
	}
}

// Next plans the oldest batch of the window, of which there must be one.
func (p *Planner) Next(plan *Plan) {
	t, first := p.now, p.begin
	n := int(p.before(t+1) - p.before(t))
	p.now, p.begin = t+1, p.after(first, n)
	plan.reset(n)
	for i := range n {
		number := p.after(first, i)
		a := p.at(number)
		if a.what == noRow { // it repeats one before
			continue
		}
		slot, place, packed := p.held(a)
		row := p.rowOf(a)
		plan.Asked[i] = row
		last, next := p.state[row]&^isAsked, a.next
		for ; next != number && p.since(first, next) < n; next = p.at(next).next {
			to := uint32(p.since(first, next))
			plan.Same, plan.Asked[to] = append(plan.Same, Move{uint32(i), to}), row
			p.at(next).what = noRow
		}
		if next == number {
			next, p.state[row] = noAsk, 0
		} else {
			p.at(last).next = next
		}
		if slot >= 0 {
			plan.Hits = append(plan.Hits, Move{uint32(slot), uint32(i)})
			p.place(slot, row, next)
		} else if packed {
			plan.Packed = append(plan.Packed, Read{place, uint32(i)})
		} else {
			plan.Reads = append(plan.Reads, Read{row, uint32(i)})
		}
	}
	for _, r := range plan.Reads {
		p.admit(plan, r.Row, r.To)
	}
	if p.opt.pack != nil {
		plan.chunks = p.opt.pack.claim(t, plan.chunks)
		for _, r := range plan.Packed {
			p.admit(plan, plan.Asked[r.To], r.To)
		}
	}
	slices.SortFunc(plan.Reads, func(a, b Read) int { return int(int64(a.Row) - int64(b.Row)) })
	p.layout.merge(plan)
	p.readAlong(plan)
	p.layout.trim(plan)
	plan.counts(&p.layout)
	p.count.Add(plan.Counts)
}

// readAlong keeps other rows of the pages that a plan reads, where a batch of the window asks for them.
func (p *Planner) readAlong(plan *Plan) {
	for i := range plan.extents {
		e := &plan.extents[i]
		e.along = len(plan.Along)
		lo, hi := p.layout.rowsWithin(e)
		for row := lo; row < hi && len(plan.Along) < p.opt.Along; row++ {
			if first, ok := p.first(uint32(row)); ok && p.at(first).what < isHeld {
				to := uint32(plan.Rows + len(plan.Along))
				if p.admit(plan, uint32(row), to) {
					plan.Along = append(plan.Along, Read{uint32(row), to})
				}
			}
		}
		e.alongEnd = len(plan.Along)
	}
}

// admit gives a row a slot of the cache, unless all others are of more use. Then it goes to the pack, if there is one
// and the row is needed again. It reports whether the row is kept.
func (p *Planner) admit(plan *Plan, row, from uint32) bool {
	next, _ := p.first(row)
	slot := p.next[p.freeList()]
	if slot == p.freeList() {
		worst := p.worst(row, next)
		if worst < 0 {
			return next != noAsk && p.spill(plan, row, next, Spill{From: from, at: -1})
		}
		slot = p.next[worst]
		old := p.rows[slot]
		p.evict(slot)
		if next, ok := p.first(old); ok {
			p.spill(plan, old, next, Spill{From: uint32(slot), at: int32(len(plan.Keeps))})
		}
	} else {
		p.spare--
	}
	p.rows[slot] = row
	p.place(slot, row, next)
	plan.Keeps = append(plan.Keeps, Move{from, uint32(slot)})
	return true
}

// spill packs a row for the batch that asks for it next.
func (p *Planner) spill(plan *Plan, row, next uint32, s Spill) (ok bool) {
	if p.opt.pack == nil {
		return false
	}
	if s.To, ok = p.opt.pack.take(p.batchOf(next), row); ok {
		p.at(next).what = isHeld | (uint32(len(p.rows)) + s.To)
		plan.Spills = append(plan.Spills, s)
	}
	return ok
}

// losePacked forgets all that is packed. No batch may be under way.
func (p *Planner) losePacked() {
	if p.opt.pack == nil {
		return
	}
	for at, n := p.begin, p.Asks(); n > 0; at, n = p.after(at, 1), n-1 {
		a := p.at(at)
		if _, place, packed := p.held(a); packed {
			a.what = p.opt.pack.rowAt(place)
		}
	}
	p.opt.pack.reset()
}

// worst returns the list of slots whose rows are of least use, or -1 if a row that is next asked for at next is of no
// more.
func (p *Planner) worst(row, next uint32) int32 {
	for p.low < levels && p.empty(p.useList(p.low)) {
		p.low++
	}
	if p.low < levels {
		if next == noAsk && int(p.uses[row]) <= p.low {
			return -1
		}
		return p.useList(p.low)
	}
	if next == noAsk {
		return -1
	}
	for p.far-p.now < uint32(p.opt.Lookahead+1) && p.empty(p.batchList(p.far)) {
		p.far--
	}
	if p.far-p.now > uint32(p.opt.Lookahead) || p.far-p.now <= p.batchOf(next)-p.now {
		return -1
	}
	return p.batchList(p.far)
}

// place puts a slot, which holds a row, where it belongs by the row's next ask.
func (p *Planner) place(slot int32, row, next uint32) {
	if next == noAsk {
		u := int(p.uses[row])
		p.state[row] = uint32(slot) + 1
		p.low = min(p.low, u)
		p.move(slot, p.useList(u))
		return
	}
	p.placeIn(slot, next, p.batchOf(next))
}

// placeIn puts a slot where it belongs by the next ask for its row, which is a batch's.
func (p *Planner) placeIn(slot int32, next, batch uint32) {
	p.at(next).what = isHeld | uint32(slot)
	if p.far-p.now > uint32(p.opt.Lookahead) || batch-p.now > p.far-p.now {
		p.far = batch
	}
	p.move(slot, p.batchList(batch))
}

// evict makes a slot empty; it stays in its list.
func (p *Planner) evict(slot int32) {
	row := p.rows[slot]
	if next, ok := p.first(row); ok {
		p.at(next).what = row
	} else {
		p.state[row] = 0
	}
	p.rows[slot] = noRow
}

func (p *Planner) freeList() int32        { return int32(len(p.rows)) }
func (p *Planner) useList(uses int) int32 { return p.freeList() + 1 + int32(uses) }
func (p *Planner) empty(list int32) bool  { return p.next[list] == list }
func (p *Planner) batchList(b uint32) int32 {
	return p.freeList() + 1 + levels + int32(b%uint32(p.opt.Lookahead+1))
}

func (p *Planner) move(slot, list int32) {
	p.next[p.prev[slot]], p.prev[p.next[slot]] = p.next[slot], p.prev[slot]
	p.link(slot, list)
}

// link puts a slot last in a list.
func (p *Planner) link(slot, list int32) {
	p.prev[slot], p.next[slot] = p.prev[list], list
	p.next[p.prev[list]], p.prev[list] = slot, slot
}
