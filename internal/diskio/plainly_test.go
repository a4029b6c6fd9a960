package diskio

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/invariants"
	"github.com/khop-gnn/khop/pinned"
)

// plainPlanner is a Planner as plainly as can be: it looks through all slots and all batches of the window each time.
type plainPlanner struct {
	layout           Layout
	lookahead, along int
	cache            []plainSlot
	window           [][]uint32
	now              int // number of the window's first batch
	uses             map[uint32]int
	asks             int64 // since uses were halved
	moved            int
	count            disk.Counts
}

// plainSlot is a slot of the cache, in a list: of those without a row, of rows without a next use by how often they
// were asked for, or of rows whose next use is a batch. It moved there later than those before it in the list.
type plainSlot struct {
	row         int64 // -1: none
	list, moved int
}

const (
	plainFree  = -1
	plainBatch = 1000 // and its number
)

func newPlain(p *Planner) *plainPlanner {
	q := &plainPlanner{layout: p.layout, lookahead: p.opt.Lookahead, along: p.opt.Along, uses: map[uint32]int{}}
	for range p.opt.Slots {
		q.moved++
		q.cache = append(q.cache, plainSlot{-1, plainFree, q.moved})
	}
	return q
}

func (q *plainPlanner) slotOf(row uint32) int {
	return slices.IndexFunc(q.cache, func(s plainSlot) bool { return s.row == int64(row) })
}

// nextUse returns the number of the first batch of the window that asks for a row, or -1.
func (q *plainPlanner) nextUse(row uint32) int {
	for i, rows := range q.window {
		if slices.Contains(rows, row) {
			return q.now + i
		}
	}
	return -1
}

// place moves a slot last into the list where its row belongs.
func (q *plainPlanner) place(slot int) {
	q.moved++
	s := &q.cache[slot]
	s.moved, s.list = q.moved, plainFree
	if s.row < 0 {
		return
	}
	if s.list = q.uses[uint32(s.row)]; q.nextUse(uint32(s.row)) >= 0 {
		s.list = plainBatch + q.nextUse(uint32(s.row))
	}
}

func (q *plainPlanner) ask(rows []uint32) {
	var first []int
	for i, row := range rows {
		if slot := q.slotOf(row); slot >= 0 && q.nextUse(row) < 0 && !slices.Contains(rows[:i], row) {
			first = append(first, slot)
		}
		q.uses[row] = min(q.uses[row]+1, 255)
	}
	q.window = append(q.window, rows)
	for _, slot := range first {
		q.place(slot)
	}
	if q.asks += int64(len(rows)); q.asks >= 32*q.layout.Rows {
		q.asks = 0
		for row := range q.uses {
			q.uses[row] /= 2
		}
	}
}

func (q *plainPlanner) forget() {
	rows := slices.Concat(q.window...)
	q.now += len(q.window)
	q.window = nil
	for i, row := range rows {
		if slot := q.slotOf(row); slot >= 0 && !slices.Contains(rows[:i], row) {
			q.place(slot)
		}
	}
}

func (q *plainPlanner) lose(p *Plan) {
	for _, k := range p.Keeps {
		if s := &q.cache[k.To]; s.row >= 0 {
			s.row = -1
			q.place(int(k.To))
		}
	}
}

func (q *plainPlanner) spare() (n int) {
	for _, s := range q.cache {
		if s.row < 0 {
			n++
		}
	}
	return n
}

// admit gives a row the slot of a row of less use, if there is one.
func (q *plainPlanner) admit(p *Plan, row, from uint32) bool {
	// none is better than a row without a next use, the rarer the better; then the row whose next use is latest
	better := func(a, b plainSlot) bool {
		switch {
		case a.list == b.list:
			return a.moved < b.moved
		case a.list >= plainBatch && b.list >= plainBatch:
			return a.list > b.list
		default:
			return a.list < b.list
		}
	}
	best := -1
	for i := range q.cache {
		if best < 0 || better(q.cache[i], q.cache[best]) {
			best = i
		}
	}
	if best < 0 {
		return false
	}
	victim, next := q.cache[best].list, q.nextUse(row)
	switch {
	case victim == plainFree:
	case victim < plainBatch && (next >= 0 || q.uses[row] > victim):
	case victim >= plainBatch && next >= 0 && next < victim-plainBatch:
	default:
		return false
	}
	q.cache[best].row = int64(row)
	q.place(best)
	p.Keeps = append(p.Keeps, Move{from, uint32(best)})
	return true
}

// next plans the window's first batch.
func (q *plainPlanner) next() *Plan {
	rows := q.window[0]
	q.window = q.window[1:]
	q.now++
	p := &Plan{Rows: len(rows), Asked: slices.Clone(rows)}
	var hits []int
	for i, row := range rows {
		if first := slices.Index(rows, row); first < i {
			p.Same = append(p.Same, Move{uint32(first), uint32(i)})
		} else if slot := q.slotOf(row); slot >= 0 {
			p.Hits, hits = append(p.Hits, Move{uint32(slot), uint32(i)}), append(hits, slot)
		} else {
			p.Reads = append(p.Reads, Read{row, uint32(i)})
		}
	}
	slices.SortFunc(p.Same, func(a, b Move) int { return int(a.From)*1000 + int(a.To) - int(b.From)*1000 - int(b.To) })
	for _, slot := range hits {
		q.place(slot)
	}
	for _, r := range p.Reads {
		q.admit(p, r.Row, r.To)
	}
	slices.SortFunc(p.Reads, func(a, b Read) int { return int(a.Row) - int(b.Row) })
	q.requests(p)
	p.Batches, p.Counts.Rows = 1, int64(len(rows)-len(p.Same))
	p.Misses, p.Counts.Along, p.Requests = int64(len(p.Reads)), int64(len(p.Along)), int64(len(p.extents))
	p.Useful = (p.Misses + p.Counts.Along) * q.layout.RowBytes
	for _, e := range p.extents {
		p.Bytes += e.bytes
	}
	q.count.Add(p.Counts)
	return p
}

// requests makes requests of what a plan reads, and reads along what is asked for later.
func (q *plainPlanner) requests(p *Plan) {
	l := q.layout
	var whole []extent // in pages, each for reads next to one another
	for i, r := range p.Reads {
		first := (l.Offset + int64(r.Row)*l.RowBytes) / l.Page * l.Page
		end := (l.Offset + int64(r.Row+1)*l.RowBytes + l.Page - 1) / l.Page * l.Page
		if n := len(whole); n > 0 {
			w := &whole[n-1]
			if at := w.offset + w.bytes; first <= at+l.Gap && end-w.offset <= l.Most {
				w.bytes, w.end = max(w.bytes, end-w.offset), i+1
				continue
			}
		}
		whole = append(whole, extent{offset: first, bytes: end - first, first: i, end: i + 1})
	}
	for _, w := range whole {
		for at := int64(0); at < w.bytes; at += l.Most {
			e := extent{offset: w.offset + at, bytes: min(l.Most, w.bytes-at), first: w.first, end: w.end}
			from := l.Offset + int64(p.Reads[e.first].Row)*l.RowBytes
			to := l.Offset + int64(p.Reads[e.end-1].Row+1)*l.RowBytes
			e.along = len(p.Along)
			for row := range uint32(l.Rows) {
				begin := l.Offset + int64(row)*l.RowBytes
				if begin < e.offset || begin+l.RowBytes > e.offset+e.bytes || len(p.Along) >= q.along ||
					q.nextUse(row) < 0 || q.slotOf(row) >= 0 {
					continue
				}
				if to1 := uint32(p.Rows + len(p.Along)); q.admit(p, row, to1) {
					p.Along = append(p.Along, Read{row, to1})
					from, to = min(from, begin), max(to, begin+l.RowBytes)
				}
			}
			e.alongEnd = len(p.Along)
			begin, end := max(from/l.Sector*l.Sector, e.offset), min((to+l.Sector-1)/l.Sector*l.Sector,
				e.offset+e.bytes)
			e.offset, e.bytes = begin, end-begin
			p.extents = append(p.extents, e)
		}
	}
}

// differs names the first part in which plans differ. Empty lists are those that are nil.
func differs(a, b *Plan) string {
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range x.NumField() {
		if fmt.Sprint(x.Field(i)) != fmt.Sprint(y.Field(i)) {
			return x.Type().Field(i).Name
		}
	}
	return ""
}

// drawnPlanner draws a planner of few rows; its asks are about to be numbered from 0 again.
func drawnPlanner(t *testing.T, r *rand.Rand) *Planner {
	page := int64(64)
	l := Layout{Offset: int64(r.IntN(3)) * 40, RowBytes: []int64{24, 64, 100, 200}[r.IntN(4)], Rows: 1 + r.Int64N(50),
		Shape: disk.Shape{Page: page, Gap: r.Int64N(5) * page / 2, Most: page * (1 + r.Int64N(6)),
			Sector: []int64{16, 32, 64}[r.IntN(3)]}}
	p := expect.Must(NewPlanner(l, PlannerOptions{Slots: r.IntN(30), Lookahead: 1 + r.IntN(9), Along: r.IntN(12)}))(t)
	expect.OK(t, p.makeRoom(1))
	p.begin = uint32(len(p.asks)) - 1 - r.Uint32N(200)
	p.end = p.begin
	return p
}

// Plans are those of the slow planner: what is asked for, forgotten and lost, in any order.
func TestPlansAreThoseOfAPlainPlanner(t *testing.T) {
	r := newRandom(t)
	for range 150 {
		p := drawnPlanner(t, r)
		q := newPlain(p)
		most := []int{5, 30, 200}[r.IntN(3)]
		var last []*Plan // not carried out, perhaps
		for range 40 {
			switch what := r.IntN(40); {
			case what == 0:
				p.Forget()
				q.forget()
			case what == 1:
				for _, plan := range last {
					p.Lose(plan)
					q.lose(plan)
				}
				last = nil
			case what < 22 && !p.Full():
				rows := asksOf(r, 1, int(p.layout.Rows), most)[0]
				expect.OK(t, p.Ask(rows))
				q.ask(rows)
			case p.Known() > 0:
				plan, want := &Plan{}, q.next()
				p.Next(plan)
				if d := differs(plan, want); d != "" {
					t.Fatalf("%s differs in batch %d: %+v\n%+v, want\n%+v", d, q.now-1, p.layout, *plan, *want)
				}
				if last = append(last, plan); len(last) > 3 {
					last = last[1:]
				}
			}
			asks := len(slices.Concat(q.window...))
			expect.Ensure(t,
				p.Known() == len(q.window) && p.Asks() == asks && p.Full() == (len(q.window) == q.lookahead) &&
					p.Spare() == q.spare() && p.Count() == q.count,
				"%d batches known, %d asks, %d spare, %+v; want %d, %d, %d, %+v", p.Known(), p.Asks(), p.Spare(),
				p.Count(), len(q.window), asks, q.spare(), q.count)
		}
		expect.OK(t, p.Close())
	}
}

// A planner takes exactly the stated memory, and a window takes more only where batches ask for more.
func TestAPlannerTakesTheMemoryThatIsSaid(t *testing.T) {
	var ledger pinned.Ledger
	const rows, slots = 100_000, 20_000
	opt := PlannerOptions{Slots: slots, Lookahead: 10, Asks: 1000, Memory: pinned.Options{Ledger: &ledger,
		Purpose: pinned.Scratch}}
	p := expect.Must(NewPlanner(Layout{RowBytes: 8, Rows: rows,
		Shape: disk.Shape{Page: 4096, Most: 4096, Sector: 512}}, opt))(t)
	bare := ledger.Used(pinned.Scratch)
	if said := PlanBytes(rows, slots); bare < said || bare > said+5*4096+4*2*(levels+10) {
		t.Errorf("a planner takes %d bytes, it is said to take %d", bare, said)
	}
	for i, step := range []struct{ asks, planned, room int64 }{{300, 0, 1000}, {700, 0, 1000}, {24, 0, 1024},
		{300, 1, 1024}, {1, 0, 1025}} {
		for range step.planned { // what is planned takes no room any more
			p.Next(&Plan{})
		}
		expect.OK(t, p.Ask(make([]uint32, step.asks)))
		got := ledger.Used(pinned.Scratch) - bare
		expect.That(t, got >= WindowBytes(step.room) && got <= WindowBytes(step.room)+4096,
			"step %d: the window takes %d bytes, not %d", i, got, WindowBytes(step.room))
	}
	err := p.Close()
	expect.That(t, err == nil && ledger.Total() == 0, "%d bytes are left, %v", ledger.Total(), err)
}

func TestAWindowTakesWhatItsAsksNeed(t *testing.T) {
	size := unsafe.Sizeof(ask{})
	expect.That(t, size == AskBytes, "an ask takes %d bytes", size)
	for asks, want := range map[int64]int64{0: 256, 1: 256, 256: 256, 257: 257, 1<<40 + 1: 1<<40 + 1} {
		got := WindowBytes(asks)
		expect.That(t, got == want*AskBytes, "%d asks take %d bytes, want %d", asks, got, want*AskBytes)
	}
}

// A cache has no more slots than the column has rows, and a window from one batch to MaxLookahead.
func TestAPlannerTakesNoMoreThanItCanUse(t *testing.T) {
	for _, c := range [][3]int{{5, 9, 5}, {9, 9, 9}, {9, 5, 5}, {0, 4, 0}} {
		p := newTestPlanner(t, c[0], c[1], 3, 0)
		if p.Slots() != c[2] || p.Spare() != c[2] {
			t.Errorf("%d slots, %d spare, for %d rows and %d slots", p.Slots(), p.Spare(), c[0], c[1])
		}
	}
	for lookahead, want := range map[int]int{-1: 1, 0: 1, 1: 1, 7: 7, MaxLookahead: MaxLookahead,
		MaxLookahead + 1: MaxLookahead} {
		if invariants.Enabled && lookahead > 7 { // a planner is one goroutine's
			continue
		}
		p, n := newTestPlanner(t, 3, 2, lookahead, 0), 0
		for ; !p.Full(); n++ {
			expect.OK(t, p.Ask([]uint32{1}))
		}
		expect.That(t, n == want, "a window of %d takes %d batches", lookahead, n)
	}
	expect.Is(t, expect.Err(NewPlanner(Layout{RowBytes: 1, Rows: MaxRows}, PlannerOptions{})), ErrRows, "%d rows",
		MaxRows)
}

// The plans of a column are counted, and those that have ended are used again.
func TestAColumnCountsItsPlans(t *testing.T) {
	var ledger pinned.Ledger
	t.Cleanup(func() {
		expect.That(t, ledger.Total() == 0, "%d bytes are left", ledger.Total())
	})
	m, _ := columnFile(t, t.TempDir(), 500, 100)
	memory := pinned.Options{Ledger: &ledger, Purpose: pinned.Batches}
	c := openColumn(t, m, ReaderOptions{Depth: 2}, ColumnOptions{PlannerOptions: PlannerOptions{Slots: 40, Lookahead: 4,
		Asks: 1000, Memory: memory}, Early: 1 << 16})
	asks, bare := asksOf(newRandom(t), 30, 500, 120), int64(0)
	asks[0] = []uint32{3, 1, 4} // so that the window takes its room
	for i, rows := range asks {
		expect.OK(t, c.planner.Ask(rows))
		if i == 0 {
			bare = ledger.Used(pinned.Batches)
		}
		b, err := c.Next()
		if err == nil {
			err = carryOut(background, b, m, rows)
		}
		expect.OK(t, err)
		expect.Ensure(t, len(c.spare) == 1 && ledger.Used(pinned.Batches)-bare == b.Plan.memory(),
			"batch %d: %d plans take %d bytes, %d are counted", i, len(c.spare), b.Plan.memory(),
			ledger.Used(pinned.Batches)-bare)
	}
	for _, rows := range asks[:3] { // one that ends, and two that are given up
		expect.OK(t, c.planner.Ask(rows))
		expect.Must(c.Next())(t)
	}
}
