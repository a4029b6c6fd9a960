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

// ErrMemory is returned where the memory limit is too low for building the structure.
var ErrMemory = errors.New("the memory limit is too low")

// ErrTooLarge is returned for more nodes or edge types than a key can tell apart.
var ErrTooLarge = errors.New("too many nodes or edge types")

// ID is the type of the node ids that a source yields.
type ID interface{ int32 | int64 }

// Chunk is some consecutive edges. Its slices belong to the source; they are read until yield returns.
type Chunk[T ID] struct {
	Src, Dst []T      // fused ids, of equal length
	Types    []uint16 // edge types, of the same length; nil: all of type 0
	// Numbers are the edges' numbers, ascending through the whole source, repeats allowed; nil: counted from the first
	// edge of the source on, from 0.
	Numbers []int64
}

// Edges calls yield with all edges, chunk after chunk, and returns the first error of yield or its own. It is called
// several times and must yield the same edges each time. Chunks of 100,000 edges or more keep all workers busy.
type Edges[T ID] func(yield func(Chunk[T]) error) error

// Slices returns the edges src[i] -> dst[i] as a source. The slices are kept.
func Slices[T ID](src, dst []T) Edges[T] {
	return func(yield func(Chunk[T]) error) error {
		const step = 1 << 22 // a chunk is the step of cancellation and progress
		for lo := 0; lo < len(src); lo += step {
			hi := min(lo+step, len(src))
			if err := yield(Chunk[T]{Src: src[lo:hi], Dst: dst[lo:hi]}); err != nil {
				return err
			}
		}
		return nil
	}
}

// Options say what to build. Nodes must be set; the zero values of the rest are defaults.
type Options struct {
	Nodes       int64 // fused ids are below it
	Sources     int64 // ids of sources are below it; 0: Nodes
	Types       int   // number of edge types; 0 and 1: types are not stored
	Permutation bool  // also give each position's edge number
	MemoryLimit int64 // bytes that Stream holds at most, besides the source's own; 0: no limit
	Workers     int   // goroutines; 0: one a core
	// Alloc returns n zeroed bytes, aligned to 8, and what frees them; it is called for the large arrays that are
	// needed only meanwhile. nil takes them from the Go heap.
	Alloc func(n int64) (mem []byte, free func(), err error)
	// Progress, if set, is called from one goroutine at a time: done of total edges of a stage.
	Progress func(stage string, done, total int64)

	idBits int // tests: pretend that ids take so many bits
}

// RangeError reports an edge whose source, destination or type does not exist.
type RangeError struct {
	Edge  int64  // which edge of the source, from 0 in the order that it yields them
	What  string // "source", "destination" or "type"
	Value int64
	Limit int64 // Value must be at least 0 and below it
}

// Error names the edge, what is wrong with it and what is allowed.
func (e *RangeError) Error() string {
	return fmt.Sprintf("edge %d: %s %d is not in 0 .. %d", e.Edge, e.What, e.Value, e.Limit-1)
}

// Part is a range of the structure: some positions, and the nodes whose in-edges begin in it. The arrays of elements
// are in the machine's byte order, aligned to 8.
type Part struct {
	FirstNode int64
	// of nodes FirstNode, FirstNode+1, ..: the position of their first in-edge; the last part's ends with that of node
	// Nodes, the number of edges
	Indptr    []int64
	FirstEdge int64
	Edges     int64  // number of positions
	Indices   []byte // sources, int32 or int64 (see IDBytes, of Sources)
	Types     []byte // uint8 or uint16 (see TypeBytes); empty if there is one type
	Perm      Perm   // edge numbers, if asked for
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

// Build returns the whole structure as one part, whose Indptr, Indices and Types are ordinary Go memory of the caller.
// Perm is valid until the caller calls free. MemoryLimit is not looked at.
func Build[T ID](ctx context.Context, edges Edges[T], opt Options) (part Part, free func(), err error) {
	opt.MemoryLimit = 0
	b, err := plan(ctx, edges, opt)
	if err != nil {
		return Part{}, nil, err
	}
	b.keep = true
	err = run(ctx, b, edges, func(p Part) error { part = p; return nil })
	if err != nil {
		b.close()
		return Part{}, nil, err
	}
	return part, b.close, nil
}

// Stream hands the structure to emit in parts, in order: at least one, of as many edges as the memory limit allows. A
// part's arrays are valid until emit returns. It stops at emit's first error.
func Stream[T ID](ctx context.Context, edges Edges[T], opt Options, emit func(Part) error) error {
	b, err := plan(ctx, edges, opt)
	if err != nil {
		return err
	}
	defer b.close()
	return run(ctx, b, edges, emit)
}

// Estimate returns the bytes that Build or an unlimited Stream take for that many edges, besides the source's own, and
// the least limit that Stream is sure to work within: upper bounds, whatever the graph looks like.
func Estimate(opt Options, edges int64) (all, least int64) {
	opt = opt.withDefaults()
	lay := newLayout(opt, edges)
	pay := lay.payload(edges)
	one := func(limit int64) (fixed, perEdge int64) {
		room := lay.leafLimit(opt, edges, limit)
		return lay.tableBytes(opt, edges, room) + int64(opt.Workers)*min(room, edges)*(8+pay), 8 + pay + lay.outBytes()
	}
	fixed, perEdge := one(0)
	all = fixed + edges*perEdge + 8*(opt.Nodes+1)
	least = all
	for limit := int64(1 << 20); limit < all; limit += limit / 8 {
		fixed, perEdge := one(limit)
		need := fixed + 8*(lay.topNodes()+1) + min(edges, lay.leafLimit(opt, edges, limit))*perEdge
		if need <= limit && lay.passes(opt, edges, limit) <= maxPasses/2 {
			least = limit
			break
		}
	}
	return all, least
}

func (o Options) withDefaults() Options {
	if o.Workers <= 0 {
		o.Workers = machine.Workers()
	}
	if o.Types <= 0 {
		o.Types = 1
	}
	if o.Sources == 0 {
		o.Sources = o.Nodes
	}
	if o.Alloc == nil {
		o.Alloc = func(n int64) ([]byte, func(), error) { return heap(n), func() {}, nil }
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	return o
}

func (o Options) validate() error {
	if o.Nodes < 0 || o.Sources < 0 || o.Types > 1<<16 || o.MemoryLimit < 0 {
		return fmt.Errorf("csc: %d nodes, %d edge types, memory limit %d", o.Nodes, o.Types, o.MemoryLimit)
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
