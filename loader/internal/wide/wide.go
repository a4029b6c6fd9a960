// Package wide hashes integers of 32 and of 64 bits alike, as docs/digest.md says.
package wide

import (
	"unsafe"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/unified"
)

// Hash hashes numbers as int64. It is used by one goroutine at a time.
type Hash struct {
	N [1024]int64 // on their way
}

// Numbers hashes the first n numbers of h.N.
func (h *Hash) Numbers(n int, to ...*xxh3.Hasher) {
	write(unsafe.Slice((*byte)(unsafe.Pointer(&h.N)), 8*n), to)
}

// Tensor hashes dimensions and elements, which are widened where ids says so; no tensor is an empty list.
func (h *Hash) Tensor(t unified.Tensor, ids bool, to ...*xxh3.Hasher) {
	rank := max(t.Rank(), 1)
	h.N[0], h.N[1] = int64(rank), t.Len()
	for i := 1; i < rank; i++ {
		h.N[1+i] = t.Dim(i)
	}
	h.Numbers(1+rank, to...)
	v, err := unified.View[int32](t)
	if !ids || err != nil {
		write(t.Bytes(), to)
		return
	}
	for len(v) > 0 {
		n := min(len(v), len(h.N))
		for i, x := range v[:n] {
			h.N[i] = int64(x)
		}
		h.Numbers(n, to...)
		v = v[n:]
	}
}

func write(p []byte, to []*xxh3.Hasher) {
	for _, h := range to {
		_, _ = h.Write(p) // a hash takes everything
	}
}
