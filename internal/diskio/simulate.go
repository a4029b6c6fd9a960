package diskio

import (
	"cmp"
	"slices"

	"github.com/khop-gnn/khop/gather/disk"
)

// Simulate returns what batches from number from on would read of a column under a policy, after those before have
// filled the cache. Each batch is the rows that it asks for.
func Simulate(policy disk.Policy, layout Layout, opt PlannerOptions, asks [][]uint32, from int) (disk.Counts, error) {
	opt.Slots = int(min(int64(opt.Slots), layout.Rows))
	switch policy {
	case disk.Packed:
		opt.pack, _ = newPack(layout, opt.Lookahead, opt.Pack) // where it is refused, rows are not packed
		return simulatePlans(layout, opt, asks, from)
	case disk.Ahead:
		return simulatePlans(layout, opt, asks, from)
	case disk.Optimum:
		opt.Lookahead, opt.Along = len(asks), 0
		return simulatePlans(layout, opt, asks, from)
	}
	if err := opt.Memory.Ledger.Take(opt.Memory.Purpose, QueueBytes(layout.Rows)); err != nil {
		return disk.Counts{}, err
	}
	defer opt.Memory.Ledger.Give(opt.Memory.Purpose, QueueBytes(layout.Rows))
	c := newQueue(layout.Rows, opt.Slots)
	hit, miss := c.touch, c.insert
	switch policy {
	case disk.Static:
		c.hold(asks[:from])
		hit, miss = func(uint32) {}, func(uint32) {}
	case disk.Sieve:
		hit, miss = c.visit, c.insertSieve
	}
	var total disk.Counts
	var plan Plan
	for i, rows := range asks {
		plan.reset(len(rows))
		for _, row := range rows {
			if c.at[row].in {
				hit(row)
				continue
			}
			plan.Reads = append(plan.Reads, Read{Row: row})
			if opt.Slots > 0 {
				miss(row)
			}
		}
		if i >= from {
			slices.SortFunc(plan.Reads, func(a, b Read) int { return cmp.Compare(a.Row, b.Row) })
			layout.merge(&plan)
			layout.trim(&plan)
			plan.counts(&layout)
			total.Add(plan.Counts)
		}
	}
	return total, nil
}

func simulatePlans(layout Layout, opt PlannerOptions, asks [][]uint32, from int) (total disk.Counts, err error) {
	p, err := NewPlanner(layout, opt)
	if err != nil {
		return total, err
	}
	var plan Plan
	var before disk.Counts
	known := 0
	for i := range asks {
		if i == from {
			before = p.Count()
		}
		for ; known < len(asks) && !p.Full() && err == nil; known++ {
			err = p.Ask(asks[known])
		}
		if err != nil {
			break
		}
		p.Next(&plan)
	}
	total = p.Count()
	return total.Less(&before), cmp.Or(err, p.Close())
}

// queue is the rows of a cache, from the newest to the oldest, as in LRU and SIEVE.
type queue struct {
	at    []queued // [row], and the end of the ring
	end   uint32
	hand  uint32
	room  int
	count int
}

type queued struct {
	newer, older uint32
	in, visited  bool
}

// QueueBytes returns the bytes that a simulation of a policy without a plan takes for this number of rows.
func QueueBytes(rows int64) int64 { return queuedBytes * (rows + 1) }

// queuedBytes are a queued row, and what hold has of it.
const queuedBytes = 20

func newQueue(rows int64, slots int) *queue {
	q := &queue{at: make([]queued, rows+1), end: uint32(rows), room: slots}
	q.at[q.end].newer, q.at[q.end].older, q.hand = q.end, q.end, q.end
	return q
}

func (q *queue) unlink(row uint32) {
	r := &q.at[row]
	q.at[r.newer].older, q.at[r.older].newer = r.older, r.newer
	r.in = false
	q.count--
}

func (q *queue) push(row uint32) {
	newest := q.at[q.end].older
	q.at[row] = queued{newer: q.end, older: newest, in: true}
	q.at[newest].newer, q.at[q.end].older = row, row
	q.count++
}

func (q *queue) touch(row uint32) {
	q.unlink(row)
	q.push(row)
}

func (q *queue) insert(row uint32) {
	if q.count == q.room {
		q.unlink(q.at[q.end].newer)
	}
	q.push(row)
}

func (q *queue) visit(row uint32) { q.at[row].visited = true }

// insertSieve evicts the first row that was not visited, from where the hand was towards newer ones.
func (q *queue) insertSieve(row uint32) {
	if q.count == q.room {
		at := q.hand
		for at == q.end || q.at[at].visited {
			q.at[at].visited = false
			at = q.at[at].newer
		}
		q.hand = q.at[at].newer
		q.unlink(at)
	}
	q.push(row)
}

// hold fills the cache with the rows that batches asked for most.
func (q *queue) hold(asks [][]uint32) {
	uses := make([]uint32, q.end)
	for _, rows := range asks {
		for _, row := range rows {
			uses[row]++
		}
	}
	order := make([]uint32, 0, q.end)
	for row, n := range uses {
		if n > 0 {
			order = append(order, uint32(row))
		}
	}
	slices.SortStableFunc(order, func(a, b uint32) int { return cmp.Compare(uses[b], uses[a]) })
	for _, row := range order[:min(q.room, len(order))] {
		q.push(row)
	}
}
