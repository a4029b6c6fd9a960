package loader

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/loader/internal/wide"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/unified"
)

// hashed is an array that digests cover: its number, and its name and dtype as they are hashed.
type hashed struct {
	*layout.Array
	number int
	header []byte
}

// hashOrder returns the arrays that digests cover, in the order in which they are hashed.
func hashOrder(arrays []layout.Array) []hashed {
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
	wide           wide.Hash
}

// Digest returns the batch's digests (docs/digest.md): topology covers the sample, full also the columns. One goroutine
// at a time may call it. Both are 0 for a released batch, and for one that a device failed to make; Sync then returns
// the error.
func (b *Batch) Digest() (topology, full uint64) {
	if b.slot == nil {
		return 0, 0
	}
	s := b.slot
	if s.digest == nil {
		s.digest = &digester{arrays: hashOrder(s.Recipe.Arrays)}
	}
	d := s.digest
	if b.Sync() != nil {
		return 0, 0
	}
	var late error
	topology, full = d.sum(func(i int) unified.Tensor {
		t, err := s.Host(s.Tensor(i))
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

// Digests returns the digests of a batch outside a loader, such as one of a consumer of the feed. They depend on Name,
// Kind and DType of its arrays. of returns an array, on the host.
func Digests(arrays []layout.Array, of func(i int) unified.Tensor) (topology, full uint64) {
	d := digester{arrays: hashOrder(arrays)}
	return d.sum(of)
}

// sum hashes all arrays.
func (d *digester) sum(of func(i int) unified.Tensor) (topology, full uint64) {
	d.topology.Reset()
	d.full.Reset()
	both := []*xxh3.Hasher{&d.full, &d.topology}
	for i := range d.arrays {
		a, to := &d.arrays[i], both
		if !a.InTopology() {
			to = both[:1]
		}
		for _, h := range to {
			_, _ = h.Write(a.header) // a hash takes everything
		}
		d.wide.Tensor(of(a.number), a.IsIDs(), to...)
	}
	return d.topology.Sum64(), d.full.Sum64()
}
