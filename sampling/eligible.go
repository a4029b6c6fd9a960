package sampling

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// edgeValues are the columns of the edges that Neighbor reads, where it reads any.
type edgeValues struct {
	weightName string
	weights32  []float32
	weights64  []float64
	mask       []uint8 // the mask is in one of three
	mask32     []int32
	mask64     []int64
	times      timeColumn
	nodes      []timeColumn // [node type], or none
	ascend     []bool       // [node type] whether nodes are in the order of their times
}

// sourcesAscend reports whether in-edges of a type lie in the order of their sources' times: of nodes in the order of
// their times the ids are.
func (v *edgeValues) sourcesAscend(et *graph.EdgeType) bool {
	return v.ascend != nil && v.ascend[et.Src] && et.Order == graph.BySource
}

// step returns the time of a step over an edge, given its position, the source's own id and type, and the time as of
// which the destination is looked at.
func (v *edgeValues) step(pos, source int64, srcType int, asOf int64) int64 {
	switch {
	case v.times.valid():
		return v.times.at(pos)
	case v.nodes[srcType].valid():
		return v.nodes[srcType].at(source)
	}
	return asOf
}

// chooses reports whether the edges of a destination are not all alike, or their number matters: then choosePicker
// picks.
func (n Neighbor) chooses() bool {
	return n.Weight != "" || n.Mask != "" || n.Share != 0 || n.Time.on()
}

func (n Neighbor) edgeColumns() (names []string) {
	for _, name := range []string{n.Weight, n.Mask, n.Time.Edge} {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

// checkColumns refuses columns that are not as the options need them. The loader checks that they exist.
func (n Neighbor) checkColumns(s *graph.Schema) error {
	for _, c := range s.EdgeColumns {
		number := len(c.Shape) == 0
		if c.Name == n.Weight && (!number || c.DType != unified.Float32 && c.DType != unified.Float64) {
			return fmt.Errorf("%w: weights %q are %v%v; they must be one float32 or float64 an edge", ErrOptions,
				c.Name, c.DType, c.Shape)
		}
		if c.Name == n.Mask && (!number || !maskable(c.DType)) {
			return fmt.Errorf("%w: mask %q is %v%v; it must be one uint8, int32 or int64 an edge", ErrOptions, c.Name,
				c.DType, c.Shape)
		}
	}
	return nil
}

func maskable(t unified.DType) bool {
	return t == unified.Uint8 || t == unified.Int32 || t == unified.Int64
}

// values finds the columns in a graph.
func (n Neighbor) values(g *graph.Graph) (v edgeValues, err error) {
	columns, err := EdgeColumns(g, n.edgeColumns())
	if err != nil {
		return v, err
	}
	next := func() unified.Tensor {
		c := columns[0]
		columns = columns[1:]
		return c
	}
	if n.Weight != "" {
		c := next()
		v.weightName = n.Weight
		if c.DType() == unified.Float32 {
			v.weights32, err = unified.View[float32](c)
		} else {
			v.weights64, err = unified.View[float64](c)
		}
		if err != nil {
			return v, err
		}
	}
	if n.Mask != "" {
		switch c := next(); c.DType() {
		case unified.Uint8:
			v.mask, err = unified.View[uint8](c)
		case unified.Int32:
			v.mask32, err = unified.View[int32](c)
		default:
			v.mask64, err = unified.View[int64](c)
		}
		if err != nil {
			return v, err
		}
	}
	if n.Time.Edge != "" {
		if v.times, err = newTimeColumn(next()); err != nil {
			return v, err
		}
	}
	if n.Time.Node != "" {
		v.nodes, v.ascend = make([]timeColumn, len(g.Schema().Nodes)), make([]bool, len(g.Schema().Nodes))
	}
	for t := range v.nodes {
		if c, ok := g.NodeColumn(t, n.Time.Node); ok {
			if v.nodes[t], err = newTimeColumn(c); err != nil {
				return v, err
			}
			v.ascend[t] = slices.ContainsFunc(g.Schema().Nodes[t].Columns, func(c graph.Column) bool {
				return c.Name == n.Time.Node && c.Ascending
			})
		}
	}
	return v, err
}

func (v *edgeValues) weighted() bool { return v.weights32 != nil || v.weights64 != nil }

// weight returns the weight of an edge, 0 without any.
func (v *edgeValues) weight(pos int64) float64 {
	switch {
	case v.weights32 != nil:
		return float64(v.weights32[pos])
	case v.weights64 != nil:
		return v.weights64[pos]
	}
	return 0
}

// edgeChunk is up to chunkEdges edges of a destination: which of them may be followed, and their weights.
type edgeChunk struct {
	from, n int64 // positions
	words   [chunkEdges / 64]uint64
	weights [chunkEdges]float64 // 0 of edges that may not be followed
	sum     float64             // of them, about
}

// begin is for the edges at positions from .. from+n-1, all of which may be followed so far.
func (c *edgeChunk) begin(from, n int64) {
	c.from, c.n = from, n
	last := (n - 1) / 64
	for i := range c.words[:last] {
		c.words[i] = ^uint64(0)
	}
	c.words[last] = ^uint64(0) >> (63 - (n-1)%64)
	clear(c.words[last+1:])
}

// weigh reads the weights of a chunk. They are 0 where an edge may not be followed; all says that all may.
func (v *edgeValues) weigh(c *edgeChunk, all bool) error {
	ok, n := false, c.n
	if v.weights32 != nil {
		c.sum, ok = loadWeights(c.weights[:n], v.weights32[c.from:c.from+n])
	} else {
		c.sum, ok = loadWeights(c.weights[:n], v.weights64[c.from:c.from+n])
	}
	if !ok {
		if err := v.badWeight(c); err != nil {
			return err
		}
	}
	if all {
		return nil
	}
	c.sum = 0
	for i := range c.weights[:n] {
		if c.words[i/64]>>(i%64)&1 == 0 {
			c.weights[i] = 0
		}
		c.sum += c.weights[i]
	}
	return nil
}

// masked says that there is a mask.
func (v *edgeValues) masked() bool { return v.mask != nil || v.mask32 != nil || v.mask64 != nil }

// maskBy leaves the edges of a chunk whose mask is not 0.
func (v *edgeValues) maskBy(c *edgeChunk) {
	switch {
	case v.mask != nil:
		c.maskBy(v.mask[c.from : c.from+c.n])
	case v.mask32 != nil:
		keepNonZero(c.words[:], v.mask32[c.from:c.from+c.n])
	default:
		keepNonZero(c.words[:], v.mask64[c.from:c.from+c.n])
	}
}

func keepNonZero[T int32 | int64](words []uint64, mask []T) {
	for i, m := range mask {
		if m == 0 {
			words[i/64] &^= 1 << (i % 64)
		}
	}
}

// maskBy leaves the edges whose mask is not 0.
func (c *edgeChunk) maskBy(mask []uint8) {
	i := 0
	for ; i+8 <= len(mask); i += 8 {
		x := binary.LittleEndian.Uint64(mask[i:])
		x = ((x&0x7F7F7F7F7F7F7F7F + 0x7F7F7F7F7F7F7F7F) | x) >> 7 & 0x0101010101010101
		c.words[i/64] &^= (x*0x0102040810204080>>56 ^ 0xFF) << (i % 64)
	}
	for ; i < len(mask); i++ {
		if mask[i] == 0 {
			c.words[i/64] &^= 1 << (i % 64)
		}
	}
}

// loadWeights writes weights as float64, and returns about their sum and whether all are plainly valid: neither
// negative, infinite nor NaN.
func loadWeights[W float32 | float64](to []float64, from []W) (sum float64, ok bool) {
	to = to[:len(from)]
	bad, other := uint64(0), 0.0
	i := 0
	for ; i+2 <= len(from); i += 2 {
		x, y := float64(from[i]), float64(from[i+1])
		to[i], to[i+1] = x, y
		bad |= invalid(x) | invalid(y)
		sum += x
		other += y
	}
	for ; i < len(from); i++ {
		x := float64(from[i])
		to[i] = x
		bad |= invalid(x)
		sum += x
	}
	return sum + other, int64(bad) >= 0
}

// invalid sets the uppermost bit for a weight that is negative, infinite, NaN or -0.
func invalid(w float64) uint64 {
	b := math.Float64bits(w)
	return b | (0x7FEFFFFFFFFFFFFF - b)
}

// badWeight finds the first edge whose weight is invalid. -0 is valid.
func (v *edgeValues) badWeight(c *edgeChunk) error {
	for i, w := range c.weights[:c.n] {
		if !(w >= 0 && w <= math.MaxFloat64) {
			return errWeight(v.weightName, c.from+int64(i), w)
		}
	}
	return nil
}

func errWeight(column string, pos int64, w float64) error {
	return fmt.Errorf("%w: edge %d: its weight in column %q is %v; weights must be finite and not negative", ErrGraph,
		pos, column, w)
}

// positive takes away the edges whose weight is 0.
func (c *edgeChunk) positive() {
	for i, w := range c.weights[:c.n] {
		if !(w > 0) {
			c.words[i/64] &^= 1 << (i % 64)
		}
	}
}

// count returns how many edges may be followed.
func (c *edgeChunk) count() (n int64) {
	for _, w := range c.words[:(c.n+63)/64] {
		n += int64(bits.OnesCount64(w))
	}
	return n
}

// all appends the positions of the edges that may be followed.
func (c *edgeChunk) all(to []int64) []int64 {
	for i, w := range c.words[:(c.n+63)/64] {
		for ; w != 0; w &= w - 1 {
			to = append(to, c.from+int64(64*i+bits.TrailingZeros64(w)))
		}
	}
	return to
}

// nth returns the position of the edge that is rank-th, from 0, among those of the chunk that may be followed.
func (c *edgeChunk) nth(rank int64) int64 {
	for i, w := range c.words[:] {
		n := int64(bits.OnesCount64(w))
		if rank < n {
			for ; rank > 0; rank-- {
				w &= w - 1
			}
			return c.from + int64(64*i+bits.TrailingZeros64(w))
		}
		rank -= n
	}
	return -1 // there are fewer
}
