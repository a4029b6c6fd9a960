package shm

import (
	"fmt"
	"math/bits"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/unified"
)

const (
	descriptorMagic = "khopbtch"
	descriptorHead  = 64
	entrySize       = 64
)

// Flags of an array.
const (
	inTopology = 1 << 0 // it is hashed into the topology digest
	inFull     = 1 << 1 // it is hashed into the full digest
)

// arrayForm is what all batches of a ring have in common of one array.
type arrayForm struct {
	name  string
	dtype unified.DType
	rank  int
	flags uint16
}

// newDescriptor returns a descriptor without places and dimensions, to copy and complete for each batch.
func newDescriptor(arrays []arrayForm) []byte {
	size := descriptorHead + entrySize*len(arrays)
	for i := range arrays {
		size += len(arrays[i].name)
	}
	b := make([]byte, size)
	copy(b, descriptorMagic)
	le.PutUint32(b[8:], uint32(size))
	le.PutUint32(b[12:], uint32(len(arrays)))
	at := descriptorHead + entrySize*len(arrays)
	for i, a := range arrays {
		e := b[descriptorHead+entrySize*i:]
		e[12], e[13] = byte(a.dtype), byte(a.rank)
		le.PutUint16(e[14:], a.flags)
		le.PutUint32(e[16:], uint32(at))
		le.PutUint32(e[20:], uint32(len(a.name)))
		at += copy(b[at:], a.name)
	}
	le.PutUint64(b[16:], xxh3.Hash(b[descriptorHead:]))
	return b
}

// putArray completes array i of a descriptor.
func putArray(b []byte, i int, segment uint32, offset uint64, dims []int64) {
	e := b[descriptorHead+entrySize*i:]
	le.PutUint64(e, offset)
	le.PutUint32(e[8:], segment)
	for k, d := range dims {
		le.PutUint64(e[32+8*k:], uint64(d))
	}
}

// putPlace writes which batch it is.
func putPlace(b []byte, epoch, number, next uint64, padded bool) {
	le.PutUint64(b[24:], epoch)
	le.PutUint64(b[32:], number)
	le.PutUint64(b[40:], next)
	flags := uint32(0)
	if padded {
		flags = batchPadded
	}
	le.PutUint32(b[48:], flags)
}

// Array is one named array of a batch.
type Array struct {
	Name   string
	Tensor unified.Tensor
	flags  uint16
}

// parseDescriptor reads a descriptor that nobody else can change any more. memory returns a segment's bytes, nil if
// there is no such segment. names is what an earlier call returned for the same layout, or nil.
func parseDescriptor(b []byte, memory func(uint32) []byte, names []string) ([]Array, error) {
	if len(b) < descriptorHead || string(b[:8]) != descriptorMagic || uint64(le.Uint32(b[8:])) != uint64(len(b)) {
		return nil, fmt.Errorf("%w: no descriptor of a batch", errMessage)
	}
	n := le.Uint32(b[12:])
	if n > maxArrays || descriptorHead+entrySize*int(n) > len(b) {
		return nil, fmt.Errorf("%w: a descriptor of %d bytes with %d arrays", errMessage, len(b), n)
	}
	if len(names) != int(n) {
		names = nil
	}
	arrays := make([]Array, n)
	for i := range arrays {
		e := b[descriptorHead+entrySize*i:][:entrySize]
		if names != nil {
			arrays[i].Name = names[i]
		} else {
			at, size := uint64(le.Uint32(e[16:])), uint64(le.Uint32(e[20:]))
			if size == 0 || size > maxName || at+size > uint64(len(b)) {
				return nil, fmt.Errorf("%w: array %d has its name at %d, of %d bytes", errMessage, i, at, size)
			}
			arrays[i].Name = string(b[at : at+size])
		}
		arrays[i].flags = le.Uint16(e[14:])
		var err error
		if arrays[i].Tensor, err = parseArray(e, memory); err != nil {
			return nil, fmt.Errorf("%w: array %q: %w", errMessage, arrays[i].Name, err)
		}
	}
	return arrays, nil
}

// parseArray returns the tensor of an entry; an error unless it lies within its segment.
func parseArray(e []byte, memory func(uint32) []byte) (unified.Tensor, error) {
	dtype, rank := unified.DType(e[12]), int(e[13])
	if dtype.Size() == 0 || rank < 1 || rank > unified.MaxRank {
		return unified.Tensor{}, fmt.Errorf("dtype %d of rank %d", e[12], e[13])
	}
	var dims [unified.MaxRank]int64
	size := uint64(dtype.Size())
	for k := range rank {
		d := le.Uint64(e[32+8*k:])
		hi, lo := bits.Mul64(size, d)
		if hi != 0 || d > 1<<62 {
			return unified.Tensor{}, fmt.Errorf("dimension %d is %d", k, d)
		}
		size, dims[k] = lo, int64(d)
	}
	if size == 0 {
		return unified.New(dtype, nil, dims[:rank]...)
	}
	offset, data := le.Uint64(e), memory(le.Uint32(e[8:]))
	if offset%alignment != 0 || offset > uint64(len(data)) || size > uint64(len(data))-offset {
		return unified.Tensor{}, fmt.Errorf("%d bytes at %d of segment %d, which has %d", size, offset,
			le.Uint32(e[8:]), len(data))
	}
	return unified.New(dtype, data[offset:offset+size], dims[:rank]...)
}
