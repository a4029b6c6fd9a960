package loader

import (
	"encoding/binary"
	"slices"
	"strings"
	"unsafe"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/unified"
)

// hashed is an array that digests cover: its number, and its name and dtype as they are hashed.
type hashed struct {
	*Array
	number int
	header []byte
}

// hashOrder returns the arrays that digests cover, in the order in which they are hashed.
func hashOrder(arrays []Array) []hashed {
	var list []hashed
	for i := range arrays {
		a := &arrays[i]
		if !a.InFull() {
			continue
		}
		dtype := unified.Int64 // ids are widened
		if !a.IsIDs() {
			dtype = a.DType
		}
		var h []byte
		for _, text := range []string{a.Name, dtype.String()} {
			h = append(binary.LittleEndian.AppendUint64(h, uint64(len(text))), text...)
		}
		list = append(list, hashed{a, i, h})
	}
	slices.SortFunc(list, func(a, b hashed) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// digester hashes one batch after another.
type digester struct {
	arrays         []hashed
	topology, full xxh3.Hasher
	wide           [1024]int64 // ids on their way from 32 to 64 bits
}

// Digest returns the batch's digests (docs/digest.md): topology covers what was sampled, full also the columns. One
// goroutine at a time may call it. 0, 0 of a released batch, and of one that a device failed to make: Sync says why.
func (b *Batch) Digest() (topology, full uint64) {
	if b.slot == nil {
		return 0, 0
	}
	s := b.slot
	if s.digest == nil {
		s.digest = &digester{arrays: hashOrder(s.recipe.arrays)}
	}
	d := s.digest
	if b.Sync() != nil {
		return 0, 0
	}
	var late error
	topology, full = d.sum(func(i int) unified.Tensor {
		t, err := s.fence.host(s.tensor(i))
		if err != nil {
			late = err
			return unified.Tensor{}
		}
		return t
	})
	if late != nil {
		return 0, 0
	}
	return topology, full
}

// Digests returns the digests of a batch that is not a loader's any more, such as a consumer of the feed has: of its
// arrays, of which Name, Kind and DType count. of returns an array, on the host.
func Digests(arrays []Array, of func(i int) unified.Tensor) (topology, full uint64) {
	d := digester{arrays: hashOrder(arrays)}
	return d.sum(of)
}

// sum hashes all arrays.
func (d *digester) sum(of func(i int) unified.Tensor) (topology, full uint64) {
	d.topology.Reset()
	d.full.Reset()
	for i := range d.arrays {
		a := &d.arrays[i]
		d.write(a.Array, a.header)
		d.array(a.Array, of(a.number))
	}
	return d.topology.Sum64(), d.full.Sum64()
}

func (d *digester) write(a *Array, p []byte) {
	_, _ = d.full.Write(p) // a hash takes everything
	if a.InTopology() {
		_, _ = d.topology.Write(p)
	}
}

// int64s hashes the first n numbers of d.wide.
func (d *digester) int64s(a *Array, n int) {
	d.write(a, unsafe.Slice((*byte)(unsafe.Pointer(&d.wide)), 8*n))
}

// array hashes dimensions and elements, ids as int64; no tensor is an empty list.
func (d *digester) array(a *Array, t unified.Tensor) {
	rank := max(t.Rank(), 1)
	d.wide[0], d.wide[1] = int64(rank), t.Len()
	for i := 1; i < rank; i++ {
		d.wide[1+i] = t.Dim(i)
	}
	d.int64s(a, 1+rank)
	v, err := unified.View[int32](t)
	if !a.IsIDs() || err != nil {
		d.write(a, t.Bytes())
		return
	}
	for len(v) > 0 {
		n := min(len(v), len(d.wide))
		for i, x := range v[:n] {
			d.wide[i] = int64(x)
		}
		d.int64s(a, n)
		v = v[n:]
	}
}

// hash stands for the list of seeds in states.
func (l *seedList) hash() uint64 {
	d := new(digester)
	e := &Array{Kind: ArrayItems} // one hash is enough
	d.full.Reset()
	run := func(r *seedRun, nodeType int, lo, hi int64) { // of one type
		d.wide[0], d.wide[1] = int64(nodeType), hi-lo
		d.int64s(e, 2)
		switch {
		case r.ids32 != nil:
			d.array(e, unified.FromSlice(r.ids32[lo:hi]))
		case r.ids64 != nil:
			d.array(e, unified.FromSlice(r.ids64[lo:hi]))
		}
		if r.times != nil {
			d.array(e, unified.FromSlice(r.times[lo:hi]))
		}
	}
	for i := range l.sets {
		r := &l.sets[i]
		n, lo := r.end-r.begin, int64(0)
		for k := range r.types {
			if next := int64(k) + 1; next == n || r.types[next] != r.types[k] {
				run(r, int(r.types[k]), lo, next)
				lo = next
			}
		}
		if r.types == nil {
			run(r, r.nodeType, 0, n)
		}
	}
	l.hashLinks(d, e)
	return d.full.Sum64()
}
