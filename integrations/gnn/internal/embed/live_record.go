package embed

import (
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"
)

// A change as bytes, all little-endian: the number of lists of rows (4 bytes), and of each the type (4), how many rows
// (8) and numbers a row (8), ids (8 each), numbers (4 each); the number of lists of edges to take away, and of each the
// type (4), how many (8), sources and destinations (8 each); the same of edges to add.

var errRecord = errors.New("it is no change")

// bytes returns a change as bytes.
func (c *Change) bytes() []byte {
	le := binary.LittleEndian
	to := le.AppendUint32(nil, uint32(len(c.Rows)))
	ints := func(all []int64) {
		to = slices.Grow(to, 8*len(all))
		for _, v := range all {
			to = le.AppendUint64(to, uint64(v))
		}
	}
	for i := range c.Rows {
		one := &c.Rows[i]
		to = le.AppendUint32(to, uint32(one.Type))
		to = le.AppendUint64(to, uint64(len(one.IDs)))
		to = le.AppendUint64(to, uint64(len(one.Rows)/max(len(one.IDs), 1)))
		ints(one.IDs)
		to = slices.Grow(to, 4*len(one.Rows))
		for _, v := range one.Rows {
			to = le.AppendUint32(to, math.Float32bits(v))
		}
	}
	for _, all := range [][]ChangedEdges{c.Remove, c.Add} {
		to = le.AppendUint32(to, uint32(len(all)))
		for i := range all {
			to = le.AppendUint32(to, uint32(all[i].Edges))
			to = le.AppendUint64(to, uint64(len(all[i].Src)))
			ints(all[i].Src)
			ints(all[i].Dst)
		}
	}
	return to
}

// reader reads a change, whoever wrote it: failed says that it ended early.
type reader struct {
	left   []byte
	failed bool
}

// take returns n elements of size bytes.
func (r *reader) take(n uint64, size int) []byte {
	if r.failed || n > uint64(len(r.left)/size) {
		r.failed = true
		return nil
	}
	b := r.left[:int(n)*size]
	r.left = r.left[len(b):]
	return b
}

func (r *reader) number(size int) (n uint64) {
	for i, b := range r.take(1, size) {
		n |= uint64(b) << (8 * i)
	}
	return n
}

func (r *reader) ints(n uint64) []int64 {
	b := r.take(n, 8)
	to := make([]int64, len(b)/8)
	for i := range to {
		to[i] = int64(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return to
}

func (r *reader) floats(n uint64) []float32 {
	b := r.take(n, 4)
	to := make([]float32, len(b)/4)
	for i := range to {
		to[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return to
}

// readChange reads a change from bytes, all of which it has.
func readChange(b []byte) (*Change, error) {
	r, c := &reader{left: b}, &Change{}
	for n := r.number(4); n > 0 && !r.failed; n-- {
		one := ChangedRows{Type: int(r.number(4))}
		rows, width := r.number(8), r.number(8)
		one.IDs = r.ints(rows)
		if rows > 0 && width > math.MaxUint64/rows {
			return nil, errRecord
		}
		one.Rows = r.floats(rows * width)
		c.Rows = append(c.Rows, one)
	}
	for _, to := range []*[]ChangedEdges{&c.Remove, &c.Add} {
		for n := r.number(4); n > 0 && !r.failed; n-- {
			one := ChangedEdges{Edges: int(r.number(4))}
			count := r.number(8)
			one.Src, one.Dst = r.ints(count), r.ints(count)
			*to = append(*to, one)
		}
	}
	if r.failed || len(r.left) > 0 {
		return nil, errRecord
	}
	return c, nil
}

// merged is changes as one: the last row of each node, and how often each edge was added more than taken away. That
// many are there in any order, so that those which are taken away were there before all of them.
type merged struct {
	rows  map[int]map[int64][]float32 // [type][id]
	edges map[int]map[[2]int64]int64  // [edge type][source, destination]
}

func newMerged() *merged {
	return &merged{map[int]map[int64][]float32{}, map[int]map[[2]int64]int64{}}
}

func (m *merged) add(c *Change) {
	for i := range c.Rows {
		one := &c.Rows[i]
		if m.rows[one.Type] == nil {
			m.rows[one.Type] = map[int64][]float32{}
		}
		width := len(one.Rows) / max(len(one.IDs), 1)
		for k, id := range one.IDs {
			m.rows[one.Type][id] = one.Rows[k*width : (k+1)*width]
		}
	}
	for by, all := range map[int64][]ChangedEdges{-1: c.Remove, 1: c.Add} {
		for i := range all {
			one := &all[i]
			if m.edges[one.Edges] == nil {
				m.edges[one.Edges] = map[[2]int64]int64{}
			}
			for k := range min(len(one.Src), len(one.Dst)) {
				m.edges[one.Edges][[2]int64{one.Src[k], one.Dst[k]}] += by
			}
		}
	}
}

// change returns all of it as one change, in order of types and ids.
func (m *merged) change() *Change {
	c := &Change{}
	for _, t := range slices.Sorted(maps.Keys(m.rows)) {
		one := ChangedRows{Type: t, IDs: slices.Sorted(maps.Keys(m.rows[t]))}
		for _, id := range one.IDs {
			one.Rows = append(one.Rows, m.rows[t][id]...)
		}
		c.Rows = append(c.Rows, one)
	}
	for _, e := range slices.Sorted(maps.Keys(m.edges)) {
		less, more := ChangedEdges{Edges: e}, ChangedEdges{Edges: e}
		for _, ends := range slices.SortedFunc(maps.Keys(m.edges[e]), func(a, b [2]int64) int {
			return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
		}) {
			n, to := m.edges[e][ends], &more
			if n < 0 {
				n, to = -n, &less
			}
			for range n {
				to.Src, to.Dst = append(to.Src, ends[0]), append(to.Dst, ends[1])
			}
		}
		if len(less.Src) > 0 {
			c.Remove = append(c.Remove, less)
		}
		if len(more.Src) > 0 {
			c.Add = append(c.Add, more)
		}
	}
	return c
}
