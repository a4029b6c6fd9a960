package sampling

import (
	"fmt"
	"unsafe"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/unified"
)

// groups numbers the pairs of tree and time of a batch, in the order of their appearance.
type groups struct {
	times []int64 // of the items of the batch
	from  []int64 // first times of these, or none
	cells []groupCell
	n     int
	most  int          // of these
	slots []int32      // open addressing, by hash: 1 + number of the pair, 0 for none
	nodes []timeColumn // [node type]: the times of nodes, for seeds that have no other; or none
	asOf  *int64       // the time of seeds that have none of these
	// step returns the time as of which the source of an edge is looked at, given its position, the source's own id and
	// type, and the time of the destination; nil where that is the same.
	step func(pos, source int64, srcType int, asOf int64) int64

	timeMem, cellMem, slotMem unified.Buffer
}

// groupCell is a pair. Where trees are not kept apart all are tree 0.
type groupCell struct {
	time int64
	tree int64
}

const groupCellBytes = int64(unsafe.Sizeof(groupCell{}))

// maxGroups is how many pairs a batch may have.
const maxGroups = 1<<31 - 1

// groupBytes is the memory of the groups of that many times of items and pairs.
func groupBytes(times, pairs int64) int64 {
	return sat.Add(sat.Mul(8, times), sat.Add(sat.Mul(groupCellBytes, pairs), sat.Mul(4, hashSlots(pairs))))
}

// begin finds the times of the items of a request; apart says that each has a tree of its own.
func (g *groups) begin(s *graph.Schema, req *Request, apart bool) (err error) {
	g.n = 0
	clear(g.slots)
	bounded, err := req.bounded(apart)
	if err != nil {
		return err
	}
	items := req.numItems()
	if g.times, err = unified.Grow[int64](&g.timeMem, items<<bit(bounded), 0); err != nil {
		return err
	}
	if g.from = nil; bounded {
		g.from = g.times[items : 2*items]
		req.itemFrom(g.from)
	}
	return req.itemTimes(s, g.nodes, g.asOf, g.times[:items])
}

// of returns the number of a pair.
func (g *groups) of(tree, time int64) (int64, error) {
	if 2*(g.n+1) > len(g.slots) {
		if err := g.grow(); err != nil {
			return 0, err
		}
	}
	mask := uint64(len(g.slots) - 1)
	h := g.home(tree, time)
	for ; g.slots[h&mask] != 0; h++ {
		if at := g.slots[h&mask] - 1; g.cells[at] == (groupCell{time, tree}) {
			return int64(at), nil
		}
	}
	if g.n >= g.most {
		return 0, fmt.Errorf("%w: a batch with more than %d times: take smaller batches or fan-outs", ErrOptions,
			g.most)
	}
	g.cells[g.n] = groupCell{time, tree}
	g.n++
	g.slots[h&mask] = int32(g.n)
	return int64(g.n - 1), nil
}

func (g *groups) home(tree, time int64) uint64 {
	return rng.Mix64(uint64(time) + uint64(tree)*rng.Golden)
}

// grow makes room for twice as many pairs.
func (g *groups) grow() error {
	slots := max(minSlots, 2*int64(len(g.slots)))
	cells, err := unified.Grow[uint8](&g.cellMem, groupCellBytes*slots/2, groupCellBytes*int64(g.n))
	if err != nil {
		return err
	}
	g.cells = unsafe.Slice((*groupCell)(unsafe.Pointer(unsafe.SliceData(cells))), slots/2)
	if g.slots, err = unified.Grow[int32](&g.slotMem, slots, 0); err != nil {
		return err
	}
	g.slots = g.slots[:slots]
	clear(g.slots)
	for i, c := range g.cells[:g.n] {
		h := g.home(c.tree, c.time)
		for g.slots[h&uint64(slots-1)] != 0 {
			h++
		}
		g.slots[h&uint64(slots-1)] = int32(i + 1)
	}
	return nil
}
