package csc

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/khop-gnn/khop/internal/machine"
)

// ErrChanged is returned for a source that yielded other edges at a later walk than at the first.
var ErrChanged = errors.New("the edges changed while they were read")

// ErrTooLarge is returned for more nodes or edge types than a key can tell apart.
var ErrTooLarge = errors.New("too many nodes or edge types")

// Chunk is some consecutive edges. Its slices belong to the source; they are read until yield returns.
type Chunk struct {
	Src, Dst []int64  // fused ids, of equal length
	Types    []uint16 // edge types, of the same length; nil: all of type 0
}

// Edges calls yield with all edges, chunk after chunk, and returns the first error of yield or its own. It is called
// several times and must yield the same edges each time. Chunks of 100,000 edges or more keep all workers busy. An
// edge's number is its place among all that are yielded, from 0.
type Edges func(yield func(Chunk) error) error

// Slices returns the edges src[i] -> dst[i] as a source. The slices are kept.
func Slices(src, dst []int64) Edges {
	return func(yield func(Chunk) error) error {
		const step = 1 << 22 // a chunk is the step of cancellation
		for lo := 0; lo < len(src); lo += step {
			hi := min(lo+step, len(src))
			if err := yield(Chunk{Src: src[lo:hi], Dst: dst[lo:hi]}); err != nil {
				return err
			}
		}
		return nil
	}
}

// Options say what to build. Nodes must be set; the zero values of the rest are defaults.
type Options struct {
	Nodes       int64 // fused ids are below it
	Types       int   // number of edge types; 0 and 1: types are not stored
	Permutation bool  // also give each position's edge number
	Workers     int   // goroutines; 0: one a core
	// Alloc returns n zeroed bytes, aligned to 8, and what frees them; it is called for the large arrays that are
	// needed only meanwhile, and for Perm. nil takes them from the Go heap.
	Alloc func(n int64) (mem []byte, free func(), err error)

	idBits    int   // tests: pretend that ids take so many bits
	leafLimit int64 // tests: split ranges of more edges
}

// RangeError reports an edge whose source, destination or type does not exist.
type RangeError struct {
	Edge  int64  // its number
	What  string // "source", "destination" or "type"
	Value int64
	Limit int64 // Value must be at least 0 and below it
}

// Error names the edge, what is wrong with it and what is allowed.
func (e *RangeError) Error() string {
	return fmt.Sprintf("edge %d: %s %d is not in 0 .. %d", e.Edge, e.What, e.Value, e.Limit-1)
}

// Structure is the edges in compressed-sparse-column form. The arrays of elements are in the machine's byte order,
// aligned to 8.
type Structure struct {
	Indptr  []int64 // of each node: the position of its first in-edge; then the number of edges
	Edges   int64   // number of positions
	Indices []byte  // sources, int32 or int64 (see IDBytes)
	Types   []byte  // uint8 or uint16 (see TypeBytes); empty if there is one type
	Perm    Perm    // edge numbers, if asked for
}

// Perm holds the edge number of each position, in one of two widths: Narrow where all numbers are below 2^32, else
// Wide.
type Perm struct {
	Narrow []uint32
	Wide   []uint64
}

// Len returns the number of positions.
func (p Perm) Len() int { return len(p.Narrow) + len(p.Wide) }

// At returns the edge number of position i.
func (p Perm) At(i int) int64 {
	if p.Wide != nil {
		return int64(p.Wide[i])
	}
	return int64(p.Narrow[i])
}

// IDBytes returns the width of a node id among that many nodes: 4 while they are below 2^31, else 8.
func IDBytes(nodes int64) int64 {
	if nodes < 1<<31 {
		return 4
	}
	return 8
}

// TypeBytes returns the width of an edge type among that many: 0 for one, 1 up to 256, else 2.
func TypeBytes(types int) int64 {
	switch {
	case types <= 1:
		return 0
	case types <= 256:
		return 1
	}
	return 2
}

// Build returns the structure of the edges. Its Indptr, Indices and Types are ordinary Go memory of the caller. Its
// Perm is valid until the caller calls free.
func Build(ctx context.Context, edges Edges, opt Options) (s Structure, free func(), err error) {
	b, err := plan(ctx, edges, opt)
	if err != nil {
		return Structure{}, nil, err
	}
	if b.edges < 1<<32 {
		s, err = run[uint32](ctx, b, edges)
	} else {
		s, err = run[uint64](ctx, b, edges)
	}
	if err != nil {
		b.close()
		return Structure{}, nil, err
	}
	return s, b.close, nil
}

func (o Options) withDefaults() Options {
	if o.Workers <= 0 {
		o.Workers = machine.Workers()
	}
	if o.Types <= 0 {
		o.Types = 1
	}
	if o.Alloc == nil {
		o.Alloc = func(n int64) ([]byte, func(), error) { return heap(n), func() {}, nil }
	}
	return o
}

func (o Options) validate() error {
	if o.Nodes < 0 || o.Types > 1<<16 {
		return fmt.Errorf("csc: %d nodes, %d edge types", o.Nodes, o.Types)
	}
	if lay := newLayout(o, 1<<60); lay.idBits+lay.typeBits > 64 || lay.tops > maxTopsEver {
		return fmt.Errorf("%w: %d nodes, %d edge types", ErrTooLarge, o.Nodes, o.Types)
	}
	return nil
}

// heap returns n zeroed bytes that are aligned to 8.
func heap(n int64) []byte {
	w := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), n)
}

// view returns memory as elements.
func view[E uint8 | uint16 | int32 | uint32 | int64 | uint64](mem []byte) []E {
	var z E
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/int(unsafe.Sizeof(z)))
}

// bitsFor returns how many bits tell n values apart.
func bitsFor(n int64) int { return bits.Len64(uint64(max(n, 1) - 1)) }
