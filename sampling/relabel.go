package sampling

import (
	"unsafe"

	"github.com/khop-gnn/khop/internal/prefetch"
	"github.com/khop-gnn/khop/unified"
)

// nodeID is the type of node ids in a graph, of either width.
type nodeID interface{ int32 | int64 }

// relabeler maps fused node ids to local ids within a batch. Entries of earlier batches are not cleared: values grow
// from batch to batch, and those below base are old.
type relabeler[V nodeID] interface {
	// begin starts a batch, that will have fewer than 2^30 local ids of any type.
	begin() error
	// grow makes room for n more nodes, given the lists that hold those of this batch.
	grow(n int, lists []list[V]) error
	// prefetch asks for the entries of ids.
	prefetch(ids []V)
	// relabel writes the local id of each id to out; ids that are new get the next ones, in order, and are appended to
	// l. All ids are fused ids within the graph; l is of their node type and has room for all.
	relabel(ids []V, out []int32, l *list[V])
	// find writes the local id of each id to out, -1 for one that has none. All ids are fused ids within the graph.
	find(ids []V, out []int32)
}

// list is the node list of one type in a batch.
type list[V nodeID] struct {
	ids    []V // own ids; room beyond n
	n      int
	offset V       // fused id of own id 0
	count  V       // nodes of the type
	trees  []int32 // likewise, the tree of each node; nil unless trees are kept apart
	times  []int64 // likewise, the time as of which it is looked at; nil unless times matter
}

// newRelabeler chooses: a direct map takes 4 bytes for every node of the graph, a hash table 16 (int32 ids) or 32
// (int64) for every node of a batch and 1.5 times as long. So the direct map is for graphs whose map is not larger than
// the table.
func newRelabeler[V nodeID](numNodes, batchNodes int64, memory *scratch) relabeler[V] {
	if numNodes*4 <= hashSlots(batchNodes)*int64(unsafe.Sizeof(slot[V]{})) {
		d := &directMap[V]{numNodes: numNodes}
		memory.own(&d.buf)
		return d
	}
	h := &hashMap[V]{most: hashSlots(batchNodes)}
	memory.own(&h.buf)
	return h
}

func relabelerBytes[V nodeID](numNodes, batchNodes int64) int64 {
	return min(numNodes*4, hashSlots(batchNodes)*int64(unsafe.Sizeof(slot[V]{})))
}

// maxBase is where the values start over: a batch of 2^30 local ids still fits above it.
const maxBase = 3 << 30

// directMap has an entry for every node of the graph.
type directMap[V nodeID] struct {
	numNodes int64
	buf      unified.Buffer
	tab      []uint32 // base + local id; below base: not in this batch
	base     uint32
	next     uint32 // above all values of this batch
}

func (d *directMap[V]) begin() (err error) {
	if d.tab == nil {
		if err := d.buf.Claim(4 * d.numNodes); err != nil {
			return err
		}
		if d.tab, err = unified.Grow[uint32](&d.buf, d.numNodes, 0); err != nil {
			return err
		}
		d.tab, d.next = d.tab[:d.numNodes], 1
	}
	d.base = d.next
	if d.base > maxBase {
		clear(d.tab)
		d.base, d.next = 1, 1
	}
	return nil
}

func (d *directMap[V]) grow(int, []list[V]) error { return nil }

func (d *directMap[V]) prefetch(ids []V) {
	if len(d.tab) > 0 {
		prefetchNodes4(unsafe.Pointer(&d.tab[0]), ids)
	}
}

// relabel has no branch that depends on what is found: which ids are new is random, and a mispredicted branch costs
// more than two stores.
func (d *directMap[V]) relabel(ids []V, out []int32, l *list[V]) {
	tab, base, off := d.tab, d.base, l.offset
	n, nodes := l.n, l.ids
	out = out[:len(ids)]
	if haveRelabel32 && unsafe.Sizeof(off) == 4 && len(ids) > 0 {
		_ = nodes[n+len(ids)] // room
		n = relabel32((*int32)(unsafe.Pointer(&ids[0])), len(ids), &tab[0], (*int32)(unsafe.Pointer(&nodes[0])),
			&out[0], base, uint32(off), n)
		ids = nil
	}
	for i, v := range ids {
		if uint64(v) >= uint64(len(tab)) { // never: ids were checked; it spares the compiler's own check a panic
			break
		}
		entry := tab[v]
		fresh := 0
		if entry < base {
			fresh = 1
		}
		if entry < base {
			entry = base + uint32(n)
		}
		tab[v] = entry
		nodes[n] = v - off
		out[i] = int32(entry - base)
		n += fresh
	}
	l.n = n
	d.next = max(d.next, base+uint32(n)+1)
}

func (d *directMap[V]) find(ids []V, out []int32) {
	tab, base := d.tab, d.base
	for i, v := range ids {
		at := int32(tab[v] - base)
		if tab[v] < base { // no branch
			at = -1
		}
		out[i] = at
	}
}

// slot is an entry of a hashMap.
type slot[V nodeID] struct {
	key V
	val uint32 // base + local id; below base: empty
}

// hashMap is an open-addressing table with linear probing at a load of at most one half.
type hashMap[V nodeID] struct {
	buf   unified.Buffer
	tab   []slot[V]
	most  int64 // slots, as long as they do: its stated memory
	shift uint8
	base  uint32
	next  uint32
}

const minSlots = 1 << 12

func hashSlots(nodes int64) int64 {
	n := int64(minSlots)
	for n < 2*nodes && n < 1<<40 {
		n *= 2
	}
	return n
}

func (m *hashMap[V]) begin() error {
	if m.tab == nil {
		if err := m.resize(minSlots); err != nil {
			return err
		}
		m.next = 1
	}
	if m.base = m.next; m.base > maxBase {
		clear(m.tab)
		m.base, m.next = 1, 1
	}
	return nil
}

func (m *hashMap[V]) resize(slots int64) error {
	size := int64(unsafe.Sizeof(slot[V]{}))
	if err := m.buf.Close(); err != nil {
		return err
	}
	if err := m.buf.Reserve(slots * size); err != nil {
		return err
	}
	bytes, err := unified.Grow[uint8](&m.buf, slots*size, slots*size)
	if err != nil {
		return err
	}
	m.tab = unsafe.Slice((*slot[V])(unsafe.Pointer(&bytes[0])), slots)
	m.shift = 64
	for s := slots; s > 1; s /= 2 {
		m.shift--
	}
	return nil
}

func (m *hashMap[V]) grow(n int, lists []list[V]) error {
	used := 0
	for t := range lists {
		used += lists[t].n
	}
	if int64(2*(used+n)) <= int64(len(m.tab)) {
		return nil
	}
	slots := hashSlots(int64(2 * (used + n)))
	if slots > m.most {
		slots = max(m.most, hashSlots(int64(used+n)))
	}
	if err := m.resize(slots); err != nil {
		return err
	}
	for t := range lists { // the new memory is zero, so below base: empty
		l := &lists[t]
		for i, own := range l.ids[:l.n] {
			v := own + l.offset
			h := m.home(v)
			for m.tab[h].val >= m.base {
				h = m.after(h)
			}
			m.tab[h] = slot[V]{v, m.base + uint32(i)}
		}
	}
	return nil
}

func (m *hashMap[V]) home(v V) uint64       { return uint64(v) * prefetch.Multiplier >> (m.shift & 63) }
func (m *hashMap[V]) after(h uint64) uint64 { return (h + 1) & uint64(len(m.tab)-1) }
func (m *hashMap[V]) prefetch(ids []V)      { prefetchSlots(unsafe.Pointer(&m.tab[0]), ids, m.shift) }

func (m *hashMap[V]) find(ids []V, out []int32) {
	tab, base, shift := m.tab, m.base, m.shift&63
	mask := uint64(len(tab) - 1)
	out = out[:len(ids)]
	for i, v := range ids {
		h := uint64(v) * prefetch.Multiplier >> shift
		s := tab[h&mask]
		for s.val >= base && s.key != v {
			h++
			s = tab[h&mask]
		}
		at := int32(s.val - base)
		if s.val < base { // no branch
			at = -1
		}
		out[i] = at
	}
}

func (m *hashMap[V]) relabel(ids []V, out []int32, l *list[V]) {
	tab, base, shift := m.tab, m.base, m.shift&63
	mask := uint64(len(tab) - 1)
	n, nodes := l.n, l.ids
	out = out[:len(ids)]
	for i, v := range ids {
		for h := uint64(v) * prefetch.Multiplier >> shift; ; h++ {
			s := &tab[h&mask]
			if s.val < base {
				*s = slot[V]{v, base + uint32(n)}
				nodes[n] = v - l.offset
				out[i] = int32(n)
				n++
				break
			}
			if s.key == v {
				out[i] = int32(s.val - base)
				break
			}
		}
	}
	l.n = n
	m.next = max(m.next, base+uint32(n)+1)
}

// The prefetches are by the width of an id; which one is known when the generic code is compiled.

func prefetchNodes4[V nodeID](base unsafe.Pointer, ids []V) {
	if unsafe.Sizeof(V(0)) == 4 {
		prefetch.Node32x4(base, *(*[]int32)(unsafe.Pointer(&ids)))
	} else {
		prefetch.Node64x4(base, *(*[]int64)(unsafe.Pointer(&ids)))
	}
}

func prefetchNodes8[V nodeID](base unsafe.Pointer, ids []V) {
	if unsafe.Sizeof(V(0)) == 4 {
		prefetch.Node32x8(base, *(*[]int32)(unsafe.Pointer(&ids)))
	} else {
		prefetch.Node64x8(base, *(*[]int64)(unsafe.Pointer(&ids)))
	}
}

func prefetchSlots[V nodeID](base unsafe.Pointer, ids []V, shift uint8) {
	if unsafe.Sizeof(V(0)) == 4 {
		prefetch.Hash32x8(base, *(*[]int32)(unsafe.Pointer(&ids)), shift)
	} else {
		prefetch.Hash64x16(base, *(*[]int64)(unsafe.Pointer(&ids)), shift)
	}
}

// prefetchPicks asks for the sources at pos, which lie in the column start .. start+n-1: for the whole column, where it
// has fewer lines than half the picks, since a line that was asked for is asked for again at a cost.
func prefetchPicks[V nodeID](indices []V, pos []int64, start, n int64) {
	if n*int64(unsafe.Sizeof(V(0))) <= int64(len(pos))*32 {
		prefetchColumn(indices, start, n)
		return
	}
	if unsafe.Sizeof(V(0)) == 4 {
		prefetch.Index4(unsafe.Pointer(unsafe.SliceData(indices)), pos)
	} else {
		prefetch.Index8(unsafe.Pointer(unsafe.SliceData(indices)), pos)
	}
}

// prefetchColumn asks for the n elements from position start on, where there is such a column.
func prefetchColumn[T any](column []T, start, n int64) {
	if column != nil && n > 0 {
		prefetch.Range(unsafe.Pointer(&column[start]), int(n)*int(unsafe.Sizeof(column[0])))
	}
}
