package vector

import (
	"math"
	"unsafe"

	"github.com/khop-gnn/khop/internal/rng"
)

// kernels are the functions for vectors of one width, over one element or more. tools/asm writes those in assembly.
type kernels struct {
	name      string
	bytes     int // of a vector; 0: plain Go
	keep      func(bits *byte, stream, limit uint64, groups int)
	scale     func(y, x *float32, bits *byte, n int, factor float32)
	add       func(y, x *float32, n int, factor float32)
	relu, elu func(x *float32, n int)
	slope     func(d, y *float32, n int, factor float32)
	eluSlope  func(d, y *float32, n int, factor float32)
	leaky     func(d, y *float32, n int, factor float32)
	softmax   func(to, from *float32, n int) (greatest, sum float32)
}

// plain is the specification of the other kernels.
var plain = &kernels{"plain", 0, keepPlain, scalePlain, addPlain, reluPlain, eluPlain, slopePlain, eluSlopePlain,
	leakyPlain, softmaxPlain}

// best are the kernels in use: the widest that this processor has. Tests change it.
var best = available()[0]

// Group is the number of elements whose bits belong together: slices of bits have Bits bytes, and parts of them begin
// with a group.
const Group = 16

// Bits returns the bytes of bits for n elements.
func Bits(n int) int { return (n + Group - 1) / Group * (Group / 8) }

// Keep draws for elements first, first+1, .. of a stream: bit i%8 of byte i/8 is set with probability 1-p, where
// rng.Float32(rng.Draw(stream, first+i)) >= p. bits are of whole groups (Bits), p is from 0 on and below 1. What is
// drawn for an element depends on the stream and its number alone.
func Keep(bits []byte, stream, first uint64, p float32) {
	limit := uint64(math.Ceil(float64(p) * (1 << 24))) // a draw has 24 bits; the product is exact
	if limit == 0 {
		for i := range bits {
			bits[i] = 0xFF
		}
		return
	}
	if len(bits) > 0 {
		best.keep(&bits[0], stream+first*rng.Golden, limit, len(bits)/(Group/8))
	}
}

// Scale writes x times factor to y where an element's bit is set, and 0 elsewhere.
func Scale(y, x []float32, bits []byte, factor float32) {
	if len(x) > 0 {
		best.scale(&y[0], &x[0], &bits[0], len(x), factor)
	}
}

// Add adds x times factor to y; the product is rounded before it is added.
func Add(y, x []float32, factor float32) {
	if len(x) > 0 {
		best.add(&y[0], &x[0], len(x), factor)
	}
}

// ReLU sets elements that are not positive to 0. NaN stays.
func ReLU(x []float32) {
	if len(x) > 0 {
		best.relu(&x[0], len(x))
	}
}

// Slope multiplies a gradient d by factor where y, what ReLU made, is positive, and sets it to 0 elsewhere.
func Slope(d, y []float32, factor float32) {
	if len(y) > 0 {
		best.slope(&d[0], &y[0], len(y), factor)
	}
}

// ELU sets elements that are not positive to e^x - 1.
func ELU(x []float32) {
	if len(x) > 0 {
		best.elu(&x[0], len(x))
	}
}

// ELUSlope multiplies a gradient d by that of ELU, which made y times factor of its input.
func ELUSlope(d, y []float32, factor float32) {
	if len(y) > 0 {
		best.eluSlope(&d[0], &y[0], len(y), factor)
	}
}

// Leaky multiplies elements of d by factor whose y is not positive: the leaky ReLU of y where d is a copy of it, and
// the gradient of that otherwise.
func Leaky(d, y []float32, factor float32) {
	if len(y) > 0 {
		best.leaky(&d[0], &y[0], len(y), factor)
	}
}

// Exp is e^x for x up to 88, right to an ulp or two, and the same on every processor.
func Exp(x float32) float32 { return float32(exp(x)) }

// Softmax makes a distribution of numbers: to = exp(s - greatest) / sum, where sum is that of all exp(s - greatest), in
// order. It returns both. Without numbers they are -Inf and 0.
func Softmax(to, from []float32) (greatest, sum float32) {
	if len(from) == 0 {
		return float32(math.Inf(-1)), 0
	}
	return best.softmax(&to[0], &from[0], len(from))
}

// Edges are edges of one row, with consecutive numbers from First on, and the rows of a matrix of float32 at their
// other ends.
type Edges struct {
	Count, First int
	X            unsafe.Pointer // row 0, from the first column that counts on
	Stride       int            // bytes of a row
	Indices      unsafe.Pointer // of the first edge: which row
	Wide         bool           // indices are int64, not int32
	Weights      []float32      // one an edge, or nil
}

// index returns which row edge e names.
func (r *Edges) index(e int) int {
	if r.Wide {
		return int(*(*int64)(unsafe.Add(r.Indices, 8*e)))
	}
	return int(*(*int32)(unsafe.Add(r.Indices, 4*e)))
}

func (r *Edges) row(e, width int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Add(r.X, r.index(e)*r.Stride)), width)
}

// Extreme writes to y the greatest, or the least, of each column over the edges of a row, times their weights, and to
// arg the first edge that has it. NaN is taken, and stays. Rows of X are below 2^32, and edges below 2^31. Without
// edges y becomes zeros and arg -1.
func Extreme(y []float32, arg []int32, least bool, r Edges) {
	if r.Count == 0 {
		clear(y)
		for k := range arg {
			arg[k] = -1
		}
		return
	}
	if len(y) > 0 {
		extreme(y, arg, least, r)
	}
}
