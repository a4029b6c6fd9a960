package server

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// form is how the batches of a ring look to consumers of one way: the loader's arrays, and their dtypes there.
type form struct {
	way
	arrays     []layout.Array
	dtypes     []unified.DType
	descriptor []byte // to copy and complete
	down       bool   // columns lie on a device and are copied to the host
}

// way is how a consumer gets batches: with ids of which dtype, and where ids and columns lie, Host or Device.
type way struct {
	index unified.DType
	place pinned.Placement
}

// newForm describes the arrays of a loader's batches.
func newForm(arrays []layout.Array, w way, down bool) (*form, error) {
	if len(arrays) > wire.MaxArrays {
		return nil, fmt.Errorf("%w: %d arrays a batch, at most %d are possible", shm.ErrOptions, len(arrays),
			wire.MaxArrays)
	}
	f := &form{way: w, arrays: arrays, down: down}
	var forms []wire.Form
	for i := range arrays {
		a := &arrays[i]
		if len(a.Name) > wire.MaxName {
			return nil, fmt.Errorf("%w: the name of array %.40q... has %d bytes, at most %d are possible",
				shm.ErrOptions,
				a.Name, len(a.Name), wire.MaxName)
		}
		if a.IsIndex() && a.Kind != layout.Inputs && a.DType == unified.Int64 && w.index == unified.Int32 {
			return nil, refuse(wire.CodeIndexDType,
				"the dataset has more than 2^31 nodes or edges: their numbers do not fit int32")
		}
		dtype := a.DType
		if a.IsIndex() && !f.liesOnDevice(a) {
			dtype = w.index
		}
		var flags uint16
		if a.InTopology() {
			flags |= shm.InTopology
		}
		if a.InFull() {
			flags |= shm.InFull
		}
		f.dtypes = append(f.dtypes, dtype)
		forms = append(forms, wire.Form{Name: a.Name, DType: dtype, Rank: 1 + len(a.Row), Flags: flags})
	}
	f.descriptor = wire.NewDescriptor(forms)
	return f, nil
}

// liesOnDevice reports whether consumers read an array where it lies on a device: all arrays but those that the loader
// keeps on the host.
func (f *form) liesOnDevice(a *layout.Array) bool {
	return f.place == pinned.Device && !a.OnHost()
}

// record is the ring's part of a loader slot: one piece of memory with the descriptor and the arrays that are copied,
// because they are widened, or because the server must not read what a consumer can write.
type record struct {
	memory  unified.Buffer
	segment uint32
	offset  uint64
	size    uint32  // of the descriptor
	places  []array // of the batch
	scratch []byte  // ids of a device on their way
	dims    []int64 // room
}

// array is one array of a batch on its way into the ring.
type array struct {
	tensor unified.Tensor
	size   int64 // bytes as the consumer gets them
	at     int64 // where they are copied to, in the record's memory; 0 where they are not
	isView bool  // its base is copied to there
}

func aligned(n int64) int64 { return (n + wire.Alignment - 1) &^ (wire.Alignment - 1) }

// most returns the bytes that a record may need for any batch.
func (f *form) most() (total int64) {
	total = aligned(int64(len(f.descriptor)))
	for i := range f.arrays {
		a := &f.arrays[i]
		size := float64(a.Most) * float64(f.dtypes[i].Size())
		for _, d := range a.Row {
			size *= float64(d)
		}
		switch {
		case f.liesOnDevice(a) || a.IsColumn() && !f.down: // it is not copied
		case size > 1<<60 || total > 1<<60: // it would not be there either
			return 1 << 60
		default:
			total += aligned(int64(size))
		}
	}
	return pinned.Options{}.Size(total)
}

// lay decides where the arrays of a batch go, and returns how much memory the record needs.
func (f *form) lay(r *record, b *loader.Batch) (total int64) {
	total = aligned(int64(len(f.descriptor)))
	r.places = slices.Grow(r.places[:0], len(f.arrays))[:len(f.arrays)]
	for i := range f.arrays {
		a, t := &f.arrays[i], b.Array(i)
		p := array{tensor: t, size: t.Len() * f.dtypes[i].Size()}
		for _, d := range a.Row {
			p.size *= d
		}
		switch {
		case p.size == 0 || f.liesOnDevice(a) || a.IsColumn() && t.Placement() != pinned.Device:
		case b.IsView(i):
			p.at, p.isView = r.places[a.Base].at, true
		default:
			p.at = total
			total += aligned(p.size)
		}
		r.places[i] = p
	}
	return total
}

// write describes a batch in the ring. Rows that the loader gathered lie there already; on a device so do samples.
func (f *form) write(r *record, a *arena, b *loader.Batch) error {
	room, err := unified.Grow[uint8](&r.memory, f.lay(r, b), 0)
	if err != nil {
		return err
	}
	segment, offset, ok := a.locate(room)
	if !ok {
		return fmt.Errorf("%w: a batch's memory is not in the ring", shm.ErrOptions)
	}
	r.segment, r.offset, r.size = segment, offset, uint32(len(f.descriptor))
	d := room[:copy(room, f.descriptor)]
	wire.PutPlace(d, b.Epoch, b.Number, b.State().Next, uint32(paddedFlag(b)))
	for i := range f.arrays {
		p, s, o := &r.places[i], segment, offset
		switch {
		case p.size == 0: // its place means nothing
		case p.at == 0:
			if s, o, ok = a.locate(p.tensor.Bytes()); !ok || o%wire.Alignment != 0 {
				return fmt.Errorf("%w: %s, made by the loader, does not lie in the ring", shm.ErrOptions,
					f.arrays[i].Name)
			}
		case !p.isView:
			if err := r.copy(b, p.tensor, f.dtypes[i], room[p.at:p.at+p.size]); err != nil {
				return fmt.Errorf("array %s: %w", f.arrays[i].Name, err)
			}
		}
		r.dims = append(append(r.dims[:0], p.tensor.Len()), f.arrays[i].Row...)
		wire.PutArray(d, i, s, o+uint64(p.at), r.dims)
	}
	return nil
}

// copy brings an array into the ring, as elements of a dtype: ids may be widened, and ids of seeds narrowed.
func (r *record) copy(b *loader.Batch, t unified.Tensor, dtype unified.DType, to []byte) (err error) {
	if t.DType() == dtype {
		return b.CopyTo(to, t)
	}
	if t.Placement() == pinned.Device {
		n := len(t.Bytes())
		r.scratch = slices.Grow(r.scratch[:0], n)[:n]
		if err := b.CopyTo(r.scratch, t); err != nil {
			return err
		}
		if t, err = unified.New(t.DType(), r.scratch, t.Shape()...); err != nil {
			return err
		}
	}
	switch from := t.DType(); { // to try a view and to drop its error would take microseconds
	case from == unified.Int64 && dtype == unified.Int32:
		wide, err := unified.View[int64](t)
		convert[int32](to, wide)
		return err
	case from == unified.Int32 && dtype == unified.Int64:
		narrow, err := unified.View[int32](t)
		convert[int64](to, narrow)
		return err
	}
	return fmt.Errorf("%w: %v as %v", shm.ErrOptions, t, dtype)
}

// convert writes v in another width. to is aligned to 8 bytes.
func convert[D, T int32 | int64](to []byte, v []T) {
	d := unsafe.Slice((*D)(unsafe.Pointer(unsafe.SliceData(to))), len(v))
	for len(v) >= 8 { // eight at a time take half the time
		a, b := (*[8]T)(v), (*[8]D)(d)
		b[0], b[1], b[2], b[3] = D(a[0]), D(a[1]), D(a[2]), D(a[3])
		b[4], b[5], b[6], b[7] = D(a[4]), D(a[5]), D(a[6]), D(a[7])
		v, d = v[8:], d[8:]
	}
	for i, x := range v {
		d[i] = D(x)
	}
}

// paddedFlag is wire.Padded for a batch that the rank repeats.
func paddedFlag(b *loader.Batch) uint16 {
	if b.Padded {
		return wire.Padded
	}
	return 0
}
