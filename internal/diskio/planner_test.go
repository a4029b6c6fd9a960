package diskio

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/expect"
)

// asksOf draws batches of rows, some of which are asked for much more often than others.
func asksOf(r *rand.Rand, batches, rows, most int) (all [][]uint32) {
	for range batches {
		b := make([]uint32, r.IntN(most+1))
		for i := range b {
			b[i] = uint32(float64(rows) * r.Float64() * r.Float64() * r.Float64())
		}
		all = append(all, b)
	}
	return all
}

// content is a cache whose slots hold the numbers of rows, as a plan is carried out.
type content struct {
	slots  []int64
	batch  []int64
	packed map[uint32]int64 // [place]
}

// run carries out a plan and returns the rows that it delivers.
func (c *content) run(p *Plan) []int64 {
	c.batch = slices.Grow(c.batch[:0], p.Rows+len(p.Along))[:p.Rows+len(p.Along)]
	for i := range c.batch {
		c.batch[i] = -1
	}
	for _, m := range p.Hits {
		c.batch[m.To] = c.slots[m.From]
	}
	for _, m := range slices.Concat(p.Reads, p.Along) {
		c.batch[m.To] = int64(m.Row)
	}
	for _, m := range p.Packed {
		c.batch[m.To] = c.packed[m.Row]
		delete(c.packed, m.Row)
	}
	for _, m := range p.Same {
		c.batch[m.To] = c.batch[m.From]
	}
	spills := p.Spills
	for i, m := range p.Keeps {
		for ; len(spills) > 0 && int(spills[0].at) <= i; spills = spills[1:] {
			c.spill(spills[0])
		}
		c.slots[m.To] = c.batch[m.From]
	}
	for _, s := range spills {
		c.spill(s)
	}
	return c.batch[:p.Rows]
}

func (c *content) spill(s Spill) {
	from := c.batch
	if s.at >= 0 {
		from = c.slots
	}
	c.packed[s.To] = from[s.From]
}

// optimum is how many rows must be read at least: Belady's policy, as slowly and plainly as can be. A batch has all of
// its rows at once, and afterwards the cache keeps those of the rows in it and in the batch that are needed soonest.
func optimum(asks [][]uint32, slots int) (misses int) {
	cache := map[uint32]bool{}
	nextUse := func(row uint32, after int) int {
		for t := after + 1; t < len(asks); t++ {
			if slices.Contains(asks[t], row) {
				return t
			}
		}
		return len(asks)
	}
	for t, batch := range asks {
		for _, row := range batch {
			if !cache[row] {
				misses++
			}
			cache[row] = true
		}
		var held []uint32
		for row := range cache {
			held = append(held, row)
		}
		slices.SortFunc(held, func(a, b uint32) int { return nextUse(a, t) - nextUse(b, t) })
		clear(cache)
		for _, row := range held[:min(slots, len(held))] {
			cache[row] = true
		}
	}
	return misses
}

func newTestPlanner(t *testing.T, rows, slots, lookahead, along int) *Planner {
	t.Helper()
	p := expect.Must(NewPlanner(Layout{Offset: 40, RowBytes: 24, Rows: int64(rows),
		Shape: disk.Shape{Page: 64, Gap: 32, Most: 256, Sector: 16}},
		PlannerOptions{Slots: slots, Lookahead: lookahead, Along: along}))(t)
	t.Cleanup(func() {
		expect.OK(t, p.Close())
	})
	return p
}

// plans carries out all plans of asks and checks what they deliver.
func plans(t *testing.T, p *Planner, asks [][]uint32) {
	t.Helper()
	c, plan := content{slots: make([]int64, len(p.rows)), packed: map[uint32]int64{}}, Plan{}
	known := 0
	for i, rows := range asks {
		for ; known < len(asks) && !p.Full(); known++ {
			expect.OK(t, p.Ask(asks[known]))
		}
		p.Next(&plan)
		for k, got := range c.run(&plan) {
			expect.Ensure(t, got == int64(rows[k]), "batch %d, row %d: got row %d, want %d", i, k, got, rows[k])
		}
	}
}

func newRandom(t *testing.T) *rand.Rand {
	return rand.New(rand.NewPCG(expect.Seed(t), 1))
}

func TestPlansReadAsLittleAsTheOptimum(t *testing.T) {
	r := newRandom(t)
	for range 300 {
		rows, slots := 1+r.IntN(60), r.IntN(40)
		asks := asksOf(r, 1+r.IntN(25), rows, 30)
		p := newTestPlanner(t, rows, slots, len(asks), 0)
		plans(t, p, asks)
		distinct := make([][]uint32, len(asks))
		for i, a := range asks {
			distinct[i] = slices.Compact(slices.Sorted(slices.Values(a)))
		}
		got, want := int(p.Count().Misses), optimum(distinct, min(slots, rows))
		expect.Ensure(t, got == want, "%d rows, %d slots, %d batches: %d misses, the optimum has %d\n%v", rows, slots,
			len(asks), got, want, asks)
	}
}

// Rows that the cache has no room for are read together, where they are packed: the disk has fewer requests, those that
// write among them, for the same rows.
func TestPackedRowsAreReadTogether(t *testing.T) {
	asks := asksOf(newRandom(t), 60, 20000, 400)
	counts := func(bytes int64) disk.Counts {
		p, err := NewPlanner(Layout{RowBytes: 64, Rows: 20000,
			Shape: disk.Shape{Page: 4096, Most: 1 << 16, Sector: 512}},
			PlannerOptions{Slots: 500, Lookahead: 30, Along: 100})
		expect.OK(t, err)
		if bytes > 0 {
			p.opt.pack, err = newPack(p.layout, 30, PackOptions{Bytes: bytes, Memory: 1 << 19})
		}
		expect.OK(t, err)
		plans(t, p, asks)
		if p.opt.pack != nil {
			expect.Same(t, len(p.opt.pack.spare), int(min(1<<19, bytes)/4096), "buffers that were given back")
		}
		return p.Count()
	}
	not, some, all := counts(0), counts(40<<10), counts(1<<30)
	expect.That(t, not.Packed == 0 && not.Writes == 0, "without a file %+v", not)
	expect.That(t, all.Packed*3 >= all.Misses && (all.Requests+all.Writes)*4 <= not.Requests*3 && all.Rows == not.Rows,
		"packed: %+v\nelse: %+v", all, not)
	expect.That(t, some.Packed != 0 && some.Packed < all.Packed && some.Requests+some.Writes > all.Requests+all.Writes,
		"with a small file: %+v\nwith a large one: %+v", some, all)
	expect.That(t, all.Written == all.Writes*4096 && all.Useful <= all.Bytes, "%+v", all)
}

// Where a disk serves parts of pages as fast, the same requests are for fewer bytes.
func TestRequestsEndWhereRowsEnd(t *testing.T) {
	asks := asksOf(newRandom(t), 30, 5000, 60)
	counts := func(sector int64) disk.Counts {
		p, err := NewPlanner(Layout{Offset: 3 * 512, RowBytes: 512, Rows: 5000,
			Shape: disk.Shape{Page: 4096, Most: 1 << 16, Sector: sector}},
			PlannerOptions{Slots: 300, Lookahead: 10, Along: 40})
		expect.OK(t, err)
		plans(t, p, asks)
		return p.Count()
	}
	pages, sectors := counts(4096), counts(512)
	if sectors.Bytes < sectors.Useful || sectors.Useful*2 < sectors.Bytes || pages.Useful*2 > pages.Bytes {
		t.Errorf("of %d bytes in sectors and %d in pages %d are rows", sectors.Bytes, pages.Bytes, sectors.Useful)
	}
	sectors.Bytes = pages.Bytes
	expect.That(t, sectors == pages, "more than bytes differs: %+v, %+v", sectors, pages)
}
