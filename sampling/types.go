package sampling

import (
	"sort"

	"github.com/khop-gnn/khop/unified"
)

// typeColumn is the edge types of a graph: uint8, uint16, or none.
type typeColumn struct {
	t8  []uint8
	t16 []uint16
}

func newTypeColumn(t unified.Tensor) (c typeColumn, err error) {
	switch t.DType() {
	case unified.Invalid:
	case unified.Uint8:
		c.t8, err = unified.View[uint8](t)
	default:
		c.t16, err = unified.View[uint16](t)
	}
	return c, err
}

// at returns the type of an edge, 0 where there is one type only.
func (c typeColumn) at(pos int64) int {
	switch {
	case c.t8 != nil:
		return int(c.t8[pos])
	case c.t16 != nil:
		return int(c.t16[pos])
	default:
		return 0
	}
}

// firstAtLeast returns the first position of lo .. hi whose type is at least e, given that types ascend there. It
// gallops: the cost is the logarithm of the distance.
func (c typeColumn) firstAtLeast(lo, hi int64, e int) int64 {
	if c.t8 != nil {
		return gallop(c.t8, lo, hi, e)
	}
	return gallop(c.t16, lo, hi, e)
}

func gallop[T uint8 | uint16](types []T, lo, hi int64, e int) int64 {
	step := int64(1)
	for lo < hi && int(types[lo]) < e {
		next := lo + step
		if next >= hi || int(types[next]) >= e {
			end := min(next, hi)
			return lo + 1 + int64(sort.Search(int(end-lo-1),
				func(i int) bool { return int(types[lo+1+int64(i)]) >= e }))
		}
		lo = next
		step *= 2
	}
	return lo
}

// cursor remembers, per destination of one node type, where the edges of the next edge types begin, so that a hop
// passes over each column once however many edge types there are.
type cursor struct {
	buf unified.Buffer
	at  []int64
	n   int // destinations that have a cursor in this hop
}

// narrow cuts the columns lo .. hi-1 in start and degree down to edge type e. Edge types must come in ascending order.
func (c *cursor) narrow(types typeColumn, e, lo, hi int, start, degree []int64) (err error) {
	if c.n < hi {
		if c.at, err = unified.Grow[int64](&c.buf, int64(hi), int64(c.n)); err != nil {
			return err
		}
		copy(c.at[max(c.n, lo):hi], start[max(c.n, lo):hi])
		c.n = hi
	}
	for i := lo; i < hi; i++ {
		end := start[i] + degree[i]
		from := types.firstAtLeast(c.at[i], end, e)
		to := types.firstAtLeast(from, end, e+1)
		c.at[i], start[i], degree[i] = to, from, to-from
	}
	return nil
}
