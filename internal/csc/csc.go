package csc

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/khop-gnn/khop/internal/machine"
)

// ErrTooLarge is returned for more nodes or edge types than a key can tell apart.
var ErrTooLarge = errors.New("too many nodes or edge types")

// Edges are the edges of one type, Src[i] -> Dst[i]. The slices are of equal length, and nobody changes them meanwhile.
type Edges struct {
	Src, Dst []int64
	// From and To make ids of Src and Dst fused ids (package graph) when they are added to them.
	From, To int64
}

// Options say what to build. Nodes must be set; the zero values of the rest are defaults.
type Options struct {
	Nodes       int64 // fused ids are below it, and not negative: the caller has checked that
	Permutation bool  // also give each position's edge number
	Workers     int   // goroutines; 0: one a core
	// Alloc returns n zeroed bytes, aligned to 8, and what frees them; it is called for the large arrays that are
	// needed only meanwhile, and for Perm. Many goroutines call it. nil takes them from the Go heap.
	Alloc func(n int64) (mem []byte, free func(), err error)

	idBits int // tests: pretend that ids take this number of bits
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
// Wide. An edge's number is its place among those of all types, from 0.
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

// Number is how an edge's number is carried: 32 bits where all fit.
type Number interface{ uint32 | uint64 }

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

// Build returns the structure of the edges of all types. Its Indptr, Indices and Types are ordinary Go memory of the
// caller. Its Perm is valid until the caller calls free. Errors are ErrTooLarge and those of Alloc.
func Build(edges []Edges, opt Options) (s Structure, free func(), err error) {
	if opt.Workers <= 0 {
		opt.Workers = machine.Workers()
	}
	if opt.Alloc == nil {
		opt.Alloc = func(n int64) ([]byte, func(), error) { return heap(n), func() {}, nil }
	}
	b := &builder{edges: edges, opt: opt}
	for _, e := range edges {
		b.total += int64(len(e.Src))
	}
	if b.lay = newLayout(opt, len(edges), b.total); !b.lay.fits() {
		return Structure{}, nil, fmt.Errorf("%w: %d nodes, %d edge types", ErrTooLarge, opt.Nodes, len(edges))
	}
	if b.total < 1<<32 {
		s.Perm.Narrow, err = build[uint32](b, &s)
	} else {
		s.Perm.Wide, err = build[uint64](b, &s)
	}
	if err != nil {
		b.close()
		return Structure{}, nil, err
	}
	return s, b.close, nil
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
