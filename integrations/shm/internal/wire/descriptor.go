package wire

import (
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/unified"
)

// head begins a descriptor.
type head struct {
	magic                       [8]byte
	size, count                 uint32
	layout, epoch, number, next uint64
	flags, _                    uint32
	_                           uint64
}

// entry describes one array in a descriptor.
type entry struct {
	offset         uint64
	segment        uint32
	dtype, rank    uint8
	flags          uint16
	name, nameSize uint32
	_              uint64
	dims           [unified.MaxRank]int64
}

const (
	descriptorHead = int(unsafe.Sizeof(head{}))
	entrySize      = int(unsafe.Sizeof(entry{}))
)

// Flags of an array: the digests that cover it.
const (
	InTopology = 1 << 0
	InFull     = 1 << 1
)

var descriptorMagic = [8]byte([]byte("khopbtch"))

// load returns the struct at the beginning of b.
func load[T head | entry](b []byte) (v T) {
	copy(bytesOf(&v), b)
	return v
}

// entryAt returns the bytes of entry i.
func entryAt(b []byte, i int) []byte { return b[descriptorHead+entrySize*i:][:entrySize] }

// Form describes one array in all batches of a ring.
type Form struct {
	Name  string
	DType unified.DType
	Rank  int
	Flags uint16 // InTopology and InFull
}

// NewDescriptor returns a descriptor without places and dimensions, to copy and complete for each batch.
func NewDescriptor(arrays []Form) []byte {
	at := descriptorHead + entrySize*len(arrays)
	b := make([]byte, at)
	for i, a := range arrays {
		e := entry{dtype: uint8(a.DType), rank: uint8(a.Rank), flags: a.Flags, name: uint32(len(b)),
			nameSize: uint32(len(a.Name))}
		copy(entryAt(b, i), bytesOf(&e))
		b = append(b, a.Name...)
	}
	h := head{magic: descriptorMagic, size: uint32(len(b)), count: uint32(len(arrays)),
		layout: xxh3.Hash(b[descriptorHead:])}
	copy(b, bytesOf(&h))
	return b
}

// PutArray completes array i of a descriptor.
func PutArray(b []byte, i int, segment uint32, offset uint64, dims []int64) {
	e := entryAt(b, i)
	le.PutUint64(e, offset)
	le.PutUint32(e[8:], segment)
	copy(e[32:], unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(dims))), 8*len(dims)))
}

// PutPlace writes which batch it is; flags is Padded or 0.
func PutPlace(b []byte, epoch, number, next uint64, flags uint32) {
	h := load[head](b)
	h.epoch, h.number, h.next, h.flags = epoch, number, next, flags
	copy(b, bytesOf(&h))
}

// PlaceOf returns what PutPlace wrote, zeros for a descriptor that is too short.
func PlaceOf(b []byte) (epoch, number, next uint64) {
	h := load[head](b)
	return h.epoch, h.number, h.next
}

// Layout returns a number that two descriptors share if their names, dtypes, ranks and flags are the same; 0 for one
// that is too short.
func Layout(b []byte) uint64 { return load[head](b).layout }

// ParseDescriptor reads a descriptor that nobody else can change any more. memory returns a segment; nil if there is
// none. names is what an earlier call returned for the same layout, or nil.
func ParseDescriptor(b []byte, memory func(uint32) *Memory, names []string) ([]shm.Array, error) {
	h := load[head](b)
	if h.magic != descriptorMagic || uint64(h.size) != uint64(len(b)) {
		return nil, fmt.Errorf("%w: not the descriptor of a batch", ErrMessage)
	}
	if h.count > MaxArrays || descriptorHead+entrySize*int(h.count) > len(b) {
		return nil, fmt.Errorf("%w: a descriptor of %d bytes with %d arrays", ErrMessage, len(b), h.count)
	}
	if len(names) != int(h.count) {
		names = nil
	}
	arrays := make([]shm.Array, h.count)
	for i := range arrays {
		a, e := &arrays[i], load[entry](entryAt(b, i))
		if names != nil {
			a.Name = names[i]
		} else {
			if e.nameSize == 0 || e.nameSize > MaxName || uint64(e.name)+uint64(e.nameSize) > uint64(len(b)) {
				return nil, fmt.Errorf("%w: array %d has its name at %d, of %d bytes", ErrMessage, i, e.name,
					e.nameSize)
			}
			a.Name = string(b[e.name:][:e.nameSize])
		}
		a.InTopology, a.InFull = e.flags&InTopology != 0, e.flags&InFull != 0
		var err error
		if a.Tensor, err = e.tensor(memory); err != nil {
			return nil, fmt.Errorf("%w: array %q: %w", ErrMessage, a.Name, err)
		}
	}
	return arrays, nil
}

// tensor returns the tensor of an entry; an error unless it lies within its segment.
func (e *entry) tensor(memory func(uint32) *Memory) (unified.Tensor, error) {
	dtype := unified.DType(e.dtype)
	if dtype.Size() == 0 || e.rank < 1 || e.rank > unified.MaxRank {
		return unified.Tensor{}, fmt.Errorf("dtype %d of rank %d", e.dtype, e.rank)
	}
	dims, size := e.dims[:e.rank], uint64(dtype.Size())
	for k, d := range dims {
		hi, lo := bits.Mul64(size, uint64(d))
		if hi != 0 || uint64(d) > 1<<62 {
			return unified.Tensor{}, fmt.Errorf("dimension %d is %d", k, uint64(d))
		}
		size = lo
	}
	if size == 0 {
		return unified.New(dtype, nil, dims...)
	}
	m := memory(e.segment)
	if m == nil || e.offset%Alignment != 0 || e.offset > uint64(len(m.Data)) || size > uint64(len(m.Data))-e.offset {
		return unified.Tensor{}, fmt.Errorf("%d bytes at %d of segment %d: not within it", size, e.offset, e.segment)
	}
	return unified.NewPlaced(m.Placement(), dtype, m.Data[e.offset:e.offset+size], dims...)
}
