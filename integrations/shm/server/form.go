package server

import (
	"encoding/binary"
	"fmt"
	"slices"
	"unsafe"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/unified"
)

// source says which part of a batch an array is.
type source uint8

const (
	numNodes source = iota
	nodeList
	seedPlaces
	seedIDs
	seedItems
	indptr
	indices
	edgePos
	nodeColumn // the first of the columns
	seedColumn
	edgeColumn
)

// part is one array of every batch: of node or edge type t.
type part struct {
	source   source
	layer, t int
	column   graph.Column
	first    int // index of the part of layer 0 that is otherwise the same
}

// form is how the batches of a ring look to consumers of one way.
type form struct {
	way
	parts      []part
	descriptor []byte // to copy and complete
}

// way is how a consumer gets batches: with ids of which dtype, and where ids and columns lie, Host or Device.
type way struct {
	index unified.DType
	place unified.Placement
}

// newForm lists the arrays of a loader's batches.
func newForm(ld *loader.Loader, layers int, w way) (*form, error) {
	s, opt := ld.Schema(), ld.Options()
	index := w.index
	ids, local, pos := index, index, index
	if s.IDType() == unified.Int64 && index == unified.Int32 || s.PosType() == unified.Int64 &&
		index == unified.Int32 && withEdgePos(&opt) {
		return nil, refuse(shm.CodeIndexDType, "the dataset has more than 2^31 nodes or edges: their numbers do not fit int32")
	}
	f := &form{way: w}
	if w.place == unified.Device { // announced as they lie there
		ids, local, pos = s.IDType(), unified.Int32, s.PosType()
	}
	var arrays []wire.Form
	first := map[[2]int]int{} // by source and type
	add := func(p part, dtype unified.DType, rank int, flags uint16, format string, args ...any) {
		key := [2]int{int(p.source), p.t}
		if p.layer == 0 {
			first[key] = len(f.parts)
		}
		p.first = first[key]
		f.parts = append(f.parts, p)
		arrays = append(arrays, wire.Form{Name: fmt.Sprintf(format, args...), DType: dtype, Rank: rank, Flags: flags})
	}
	const topology = shm.InTopology | shm.InFull
	add(part{source: numNodes}, unified.Int64, 2, topology, "num_nodes")
	for t := range s.Nodes {
		n := &s.Nodes[t]
		add(part{source: nodeList, t: t}, ids, 1, topology, "nodes/%s", n.Name)
		add(part{source: seedPlaces, t: t}, local, 1, topology, "seeds/%s", n.Name)
		add(part{source: seedIDs, t: t}, index, 1, 0, "input/%s", n.Name)
		add(part{source: seedItems, t: t}, unified.Int64, 1, 0, "item/%s", n.Name)
		for _, c := range columnsOf(n, opt.NodeColumns, "feature") {
			add(part{source: nodeColumn, t: t, column: c}, c.DType, 1+len(c.Shape), shm.InFull, "node/%s/%s", n.Name,
				c.Name)
		}
		for _, c := range columnsOf(n, opt.SeedColumns, "label") {
			add(part{source: seedColumn, t: t, column: c}, c.DType, 1+len(c.Shape), shm.InFull, "seed/%s/%s", n.Name,
				c.Name)
		}
	}
	for l := range layers {
		for t := range s.Edges {
			name := s.Edges[t].String()
			add(part{source: indptr, layer: l, t: t}, local, 1, topology, "block/%d/%s/indptr", l, name)
			add(part{source: indices, layer: l, t: t}, local, 1, topology, "block/%d/%s/indices", l, name)
			if withEdgePos(&opt) {
				add(part{source: edgePos, layer: l, t: t}, pos, 1, topology, "block/%d/%s/edge_pos", l, name)
			}
			for _, c := range s.EdgeColumns {
				if slices.Contains(opt.EdgeColumns, c.Name) {
					add(part{source: edgeColumn, layer: l, t: t, column: c}, c.DType, 1+len(c.Shape), shm.InFull,
						"edge/%d/%s/%s", l, name, c.Name)
				}
			}
		}
	}
	if len(arrays) > wire.MaxArrays {
		return nil, fmt.Errorf("%w: %d arrays a batch, at most %d are possible", shm.ErrOptions, len(arrays), wire.MaxArrays)
	}
	for _, a := range arrays {
		if len(a.Name) > wire.MaxName {
			return nil, fmt.Errorf("%w: the name of array %.40q... has %d bytes, at most %d are possible", shm.ErrOptions,
				a.Name, len(a.Name), wire.MaxName)
		}
	}
	f.descriptor = wire.NewDescriptor(arrays)
	return f, nil
}

func withEdgePos(o *loader.Options) bool { return o.EdgePos || len(o.EdgeColumns) > 0 }

// columnsOf returns the columns of a node type that are gathered, as the loader decides it.
func columnsOf(n *graph.NodeType, names []string, byDefault string) []graph.Column {
	if names == nil {
		names = []string{byDefault}
	}
	var list []graph.Column
	for _, name := range names {
		for _, c := range n.Columns {
			if c.Name == name {
				list = append(list, c)
			}
		}
	}
	return list
}

// record is the ring's part of a loader slot: one piece of memory with the descriptor and the arrays that are copied,
// because they are widened, or because the server must not read what a consumer can write.
type record struct {
	memory  unified.Buffer
	segment uint32
	offset  uint64
	size    uint32   // of the descriptor
	starts  []uint64 // of the copied parts, in the segment
	scratch []byte   // ids of a device on their way
}

// paddedFlag is wire.Padded for a batch that the rank repeats.
func paddedFlag(b *loader.Batch) uint16 {
	if b.Padded {
		return wire.Padded
	}
	return 0
}

func aligned(n int64) int64 { return (n + wire.Alignment - 1) &^ (wire.Alignment - 1) }

// write describes a batch in the ring. Rows that the loader gathered lie there already, and on a device what it
// sampled.
func (f *form) write(r *record, a *arena, b *loader.Batch) error {
	total := aligned(int64(len(f.descriptor)))
	for i := range f.parts {
		switch p := &f.parts[i]; {
		case f.liesOnDevice(p):
		case p.source < nodeColumn && !p.isView(b):
			total += aligned(f.count(b, p) * p.dtype(f.index).Size())
		case p.source >= nodeColumn && p.tensor(b, p.layer).Placement() == unified.Device:
			total += aligned(int64(len(p.tensor(b, p.layer).Bytes())))
		}
	}
	room, err := unified.Grow[uint8](&r.memory, total, 0)
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
	if len(r.starts) != len(f.parts) {
		r.starts = make([]uint64, len(f.parts))
	}
	w := writer{form: f, batch: b, record: r, room: room, at: aligned(int64(len(d))), segment: segment, offset: offset,
		starts: r.starts}
	for i := range f.parts {
		if err := w.array(d, i, a); err != nil {
			return err
		}
	}
	return nil
}

// liesOnDevice reports whether a part is announced where it lies on a device: all but what the host knows better.
func (f *form) liesOnDevice(p *part) bool {
	return f.place == unified.Device && p.source != numNodes && p.source != seedIDs && p.source != seedItems
}

func (p *part) dtype(index unified.DType) unified.DType {
	if p.source == numNodes || p.source == seedItems {
		return unified.Int64
	}
	return index
}

// isView reports whether a part lies in the memory of layer 0's: layers may be the beginnings of one another.
func (p *part) isView(b *loader.Batch) bool {
	if p.layer == 0 || p.source != indptr && p.source != indices && p.source != edgePos {
		return false
	}
	mine, its := p.tensor(b, p.layer).Bytes(), p.tensor(b, 0).Bytes()
	return len(mine) > 0 && len(its) >= len(mine) && unsafe.SliceData(mine) == unsafe.SliceData(its)
}

// tensor returns the array as the batch has it, for parts that are tensors there.
func (p *part) tensor(b *loader.Batch, layer int) unified.Tensor {
	s := b.Sample
	switch p.source {
	case nodeList:
		return s.Nodes[p.t]
	case seedPlaces:
		return s.SeedLocal[p.t]
	case indptr:
		return s.Blocks[layer][p.t].Indptr
	case indices:
		return s.Blocks[layer][p.t].Indices
	case edgePos:
		return s.Blocks[layer][p.t].EdgePos
	case nodeColumn:
		return b.Node(p.t, p.column.Name)
	case seedColumn:
		return b.Seed(p.t, p.column.Name)
	case edgeColumn:
		return b.Edge(layer, p.t, p.column.Name)
	}
	return unified.Tensor{}
}

// count returns the elements of a part that is copied.
func (f *form) count(b *loader.Batch, p *part) int64 {
	switch p.source {
	case numNodes:
		return int64(len(b.Sample.NumNodes) * len(b.Sample.NumNodes[0]))
	case seedIDs, seedItems:
		ids, _ := b.Seeds(p.t)
		return int64(len(ids))
	}
	return p.tensor(b, p.layer).Len()
}

// writer copies one batch's arrays.
type writer struct {
	form    *form
	batch   *loader.Batch
	record  *record
	room    []byte
	at      int64 // free from here on
	segment uint32
	offset  uint64   // of room in the segment
	starts  []uint64 // of the copied parts so far, in the segment
}

func (w *writer) array(d []byte, i int, a *arena) error {
	p := &w.form.parts[i]
	if p.source >= nodeColumn || w.form.liesOnDevice(p) {
		return w.lying(d, i, a)
	}
	n := w.form.count(w.batch, p)
	dims := []int64{n}
	if p.source == numNodes {
		dims = []int64{int64(len(w.batch.Sample.NumNodes)), int64(len(w.batch.Sample.NumNodes[0]))}
	}
	if p.isView(w.batch) {
		wire.PutArray(d, i, w.segment, w.starts[p.first], dims)
		return nil
	}
	w.starts[i] = w.offset + uint64(w.at)
	wire.PutArray(d, i, w.segment, w.starts[i], dims)
	size := n * p.dtype(w.form.index).Size()
	if err := w.copy(p, w.room[w.at:w.at+size]); err != nil {
		return err
	}
	w.at += aligned(size)
	return nil
}

// lying enters what the loader has put into the ring, or brings it there from a device.
func (w *writer) lying(d []byte, i int, a *arena) error {
	p := &w.form.parts[i]
	t := p.tensor(w.batch, p.layer)
	dims := append([]int64{t.Len()}, p.column.Shape...)
	if len(t.Bytes()) == 0 {
		wire.PutArray(d, i, 0, 0, dims)
		return nil
	}
	if t.Placement() == unified.Device && w.form.place == unified.Host {
		to := w.room[w.at : w.at+int64(len(t.Bytes()))]
		wire.PutArray(d, i, w.segment, w.offset+uint64(w.at), dims)
		w.at += aligned(int64(len(to)))
		return w.batch.CopyTo(to, t)
	}
	segment, offset, ok := a.locate(t.Bytes())
	if !ok || offset%wire.Alignment != 0 {
		return fmt.Errorf("%w: %v, made by the loader, does not lie in the ring", shm.ErrOptions, t)
	}
	wire.PutArray(d, i, segment, offset, dims)
	return nil
}

func (w *writer) copy(p *part, to []byte) error {
	switch p.source {
	case numNodes:
		for _, row := range w.batch.Sample.NumNodes {
			to = to[widen(to, row):]
		}
	case seedItems:
		_, items := w.batch.Seeds(p.t)
		widen(to, items)
	case seedIDs:
		ids, _ := w.batch.Seeds(p.t)
		if w.form.index == unified.Int64 {
			widen(to, ids)
			return nil
		}
		for i, v := range ids {
			binary.LittleEndian.PutUint32(to[4*i:], uint32(v))
		}
	default:
		return w.ids(p.tensor(w.batch, p.layer), to)
	}
	return nil
}

// ids copies ids in the index dtype.
func (w *writer) ids(t unified.Tensor, to []byte) (err error) {
	if t.Len() == 0 {
		return nil
	}
	if t.DType() == w.form.index {
		return w.batch.CopyTo(to, t)
	}
	if t.Placement() == unified.Device {
		n := len(t.Bytes())
		w.record.scratch = slices.Grow(w.record.scratch[:0], n)[:n]
		if err := w.batch.CopyTo(w.record.scratch, t); err != nil {
			return err
		}
		if t, err = unified.New(t.DType(), w.record.scratch, t.Shape()...); err != nil {
			return err
		}
	}
	v, err := unified.View[int32](t)
	if err != nil || w.form.index != unified.Int64 {
		return fmt.Errorf("%w: %v as %v", shm.ErrOptions, t, w.form.index)
	}
	widen(to, v)
	return nil
}

// widen writes v as int64 and returns how many bytes that took. to is aligned to 8 bytes.
func widen[T int32 | int64](to []byte, v []T) int {
	if len(v) == 0 {
		return 0
	}
	n := 8 * len(v)
	d := unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(to))), len(to)/8)[:len(v)]
	for len(v) >= 8 { // eight at a time take half the time
		a, b := (*[8]T)(v), (*[8]int64)(d)
		b[0], b[1], b[2], b[3] = int64(a[0]), int64(a[1]), int64(a[2]), int64(a[3])
		b[4], b[5], b[6], b[7] = int64(a[4]), int64(a[5]), int64(a[6]), int64(a[7])
		v, d = v[8:], d[8:]
	}
	for i, x := range v {
		d[i] = int64(x)
	}
	return n
}
