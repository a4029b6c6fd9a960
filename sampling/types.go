package sampling

import (
	"cmp"
	"unsafe"

	"github.com/khop-gnn/khop/internal/prefetch"
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
// gallops: the cost is the logarithm of the distance. It bisects by itself, as slices.BinarySearch and sort.Search call
// a function for each step.
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
			lo, hi = lo+1, min(next, hi)
			for lo < hi {
				if mid := int64(uint64(lo+hi) / 2); int(types[mid]) < e {
					lo = mid + 1
				} else {
					hi = mid
				}
			}
			return lo
		}
		lo = next
		step *= 2
	}
	return lo
}

// cursor remembers, per destination of one node type, where the edges of the next edge types begin and how many are
// left, so that a hop passes over each column once however many edge types there are.
type cursor struct {
	atMem, leftMem unified.Buffer
	at, left       []int64
	n              int // destinations that have a cursor in this hop
}

// room makes room for n destinations.
func (c *cursor) room(n int) error {
	keep := int64(c.n)
	return cmp.Or(grow(&c.at, &c.atMem, int64(n), keep), grow(&c.left, &c.leftMem, int64(n), keep))
}

// narrow sets start and degree of destinations lo .. hi-1 to their edges of type e. Edge types must come in ascending
// order.
func (c *cursor) narrow(types typeColumn, e, lo, hi int, start, degree []int64) {
	at, left, start, degree := c.at[lo:hi], c.left[lo:hi], start[lo:hi], degree[lo:hi]
	if types.t8 != nil {
		narrow(types.t8, e, at, left, start, degree)
	} else {
		narrow(types.t16, e, at, left, start, degree)
	}
}

func narrow[T uint8 | uint16](types []T, e int, at, left, start, degree []int64) {
	const ahead = 32
	for b := 0; b < len(at); b += ahead {
		end := min(b+ahead, len(at))
		next := at[end:min(end+ahead, len(at))]
		prefetch.Rows64(unsafe.Pointer(unsafe.SliceData(types)), next, int(unsafe.Sizeof(T(0))), 1)
		for i := b; i < end; i++ {
			last := at[i] + left[i]
			from := gallop(types, at[i], last, e)
			to := gallop(types, from, last, e+1)
			start[i], degree[i], at[i], left[i] = from, to-from, to, last-to
		}
	}
}
