package streams

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/bitutil"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/export"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// rowsBytes is about how much of a table a record has, and rowsMost the most rows.
const (
	rowsBytes = 16 << 20
	rowsMost  = 1 << 18
)

// Rows are the rows of a table of a dataset as records of Arrow: those of a node type are n_id, columns, splits as
// booleans, and strings, those of an edge type src, dst and columns. Times are timestamps, in UTC, or null.
//
// Columns of nodes and strings are where the dataset is mapped; other arrays are copies, from an allocator. Rows are an
// array.RecordReader for one goroutine at a time; records may outlive them. Who has made them releases them.
type Rows struct {
	ds     *formats.Dataset
	keeps  atomic.Int64 // how often it is held: by the reader, and by each buffer that lies in it
	users  atomic.Int64
	cancel context.CancelFunc
	mem    memory.Allocator
	schema *arrow.Schema

	records chan arrow.Record // closed at the end
	begun   chan error
	ended   sync.WaitGroup
	last    arrow.Record
	failed  error // why there are no more records: written before they are closed
	err     error
}

// NodeRows returns the rows of a node type, by its place in the schema. Copies are in memory of mem. The dataset is
// theirs, also after an error: it is closed when they and the last record are released.
func NodeRows(ds *formats.Dataset, t int, mem memory.Allocator) (*Rows, error) {
	return newRows(ds, mem, t, export.Nodes)
}

// EdgeRows is NodeRows for the edges of a type.
func EdgeRows(ds *formats.Dataset, t int, mem memory.Allocator) (*Rows, error) {
	return newRows(ds, mem, t, export.Edges)
}

// put is export.Nodes or export.Edges.
type put func(ctx context.Context, ds *formats.Dataset, t int, to export.Sink) error

func newRows(ds *formats.Dataset, mem memory.Allocator, of int, rows put) (*Rows, error) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Rows{ds: ds, mem: mem, cancel: cancel, records: make(chan arrow.Record), begun: make(chan error, 1)}
	r.keeps.Store(1)
	r.users.Store(1)
	// A goroutine and not iter.Pull, which wants one thread: C may ask for each record from another.
	r.ended.Go(func() {
		defer close(r.records)
		r.failed = rows(ctx, ds, of, &table{rows: r, ctx: ctx, of: of})
		select {
		case r.begun <- r.failed: // nobody reads it where the table has begun
		default:
		}
	})
	if err := <-r.begun; err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// Retain keeps the rows until another Release.
func (r *Rows) Retain() { r.users.Add(1) }

// Release ends the rows. The dataset is closed when nobody has a record of it any more.
func (r *Rows) Release() {
	if r.users.Add(-1) > 0 {
		return
	}
	r.cancel()
	if r.last != nil {
		r.last.Release()
		r.last = nil
	}
	for rec := range r.records {
		rec.Release()
	}
	r.ended.Wait()
	r.drop()
}

// drop closes the dataset, where it is held no more.
func (r *Rows) drop() {
	if r.keeps.Add(-1) == 0 {
		_ = r.ds.Close() // it was only read
	}
}

// Schema describes the columns.
func (r *Rows) Schema() *arrow.Schema { return r.schema }

// Next makes the next record current; false where there is none, or Err says why.
func (r *Rows) Next() bool {
	if r.last != nil {
		r.last.Release()
	}
	rec, more := <-r.records
	if r.last = rec; !more {
		r.last, r.err = nil, r.failed
	}
	return more
}

// Record returns the current record, valid until the next unless it is retained.
func (r *Rows) Record() arrow.Record { return r.last }

// Err returns why Next is false; nil at the end.
func (r *Rows) Err() error { return r.err }

// table is a sink that makes records.
type table struct {
	rows   *Rows
	ctx    context.Context
	of     int // type of nodes or edges
	fields []field
	texts  []texts
	row    int64 // of the next batch
}

// field is a column of numbers, or of booleans.
type field struct {
	graph.Column
	mask bool
}

// Begin implements export.Sink.
func (t *table) Begin(columns []graph.Column, masks int) (rows int64, err error) {
	var list []arrow.Field
	width := int64(0)
	for i, c := range columns {
		f := field{c, i >= len(columns)-masks}
		if f.Name == "id" && i == 0 {
			f.Name = "n_id" // as in batches: strings may be called id
			if t.texts, err = t.rows.strings(t.of); err != nil {
				return 0, err
			}
		}
		t.fields = append(t.fields, f)
		list = append(list, arrow.Field{Name: f.Name, Type: f.arrow(), Nullable: f.Unit != ""})
		width += f.RowBytes()
	}
	for _, s := range t.texts {
		list = append(list, arrow.Field{Name: s.name, Type: arrow.BinaryTypes.LargeString})
	}
	names := map[string]bool{}
	for _, f := range list {
		if names[f.Name] {
			return 0, fmt.Errorf("%w: two columns of a table would both be %q: rename one of them", formats.ErrExist,
				f.Name)
		}
		names[f.Name] = true
	}
	t.rows.schema = arrow.NewSchema(list, nil)
	t.rows.begun <- nil
	return max(1, min(rowsMost, rowsBytes/max(width, 1))), nil
}

// texts is a list of strings of nodes.
type texts struct {
	name string
	*formats.Strings
}

// strings returns the lists with a string for each node, verified.
func (r *Rows) strings(nodeType int) (list []texts, err error) {
	names, _, err := export.NodeTexts(r.ds, nodeType)
	for _, name := range names {
		s, err := r.ds.Strings(nodeType, name)
		if err != nil {
			return nil, err
		}
		list = append(list, texts{name, s})
	}
	return list, err
}

// arrow returns the type that the column has in Arrow.
func (f *field) arrow() arrow.DataType {
	t := f.scalar()
	if len(f.Shape) > 0 {
		return arrow.FixedSizeListOfNonNullable(int32(f.Width()), t)
	}
	return t
}

// scalar returns the type of an element.
func (f *field) scalar() arrow.DataType {
	units := map[string]arrow.TimeUnit{"s": arrow.Second, "ms": arrow.Millisecond, "us": arrow.Microsecond,
		"ns": arrow.Nanosecond}
	if unit, is := units[f.Unit]; is && f.DType == unified.Int64 && len(f.Shape) == 0 {
		return &arrow.TimestampType{Unit: unit, TimeZone: "UTC"}
	}
	if f.mask {
		return arrow.FixedWidthTypes.Boolean
	}
	numbers := map[unified.DType]arrow.DataType{
		unified.Int8: arrow.PrimitiveTypes.Int8, unified.Uint8: arrow.PrimitiveTypes.Uint8,
		unified.Int16: arrow.PrimitiveTypes.Int16, unified.Uint16: arrow.PrimitiveTypes.Uint16,
		unified.Int32: arrow.PrimitiveTypes.Int32, unified.Uint32: arrow.PrimitiveTypes.Uint32,
		unified.Int64: arrow.PrimitiveTypes.Int64, unified.Uint64: arrow.PrimitiveTypes.Uint64,
		unified.Float16: arrow.FixedWidthTypes.Float16, unified.Float64: arrow.PrimitiveTypes.Float64}
	if t, is := numbers[f.DType]; is {
		return t
	}
	return arrow.PrimitiveTypes.Float32 // of bfloat16, too
}

// Put implements export.Sink.
func (t *table) Put(elements [][]byte, mapped int) error {
	n := int64(len(elements[0])) / t.fields[0].RowBytes()
	var made []arrow.Array
	defer func() {
		for _, a := range made {
			a.Release()
		}
	}()
	for i := range t.fields {
		made = append(made, t.rows.array(&t.fields[i], elements[i], n, i > 0 && i < mapped))
	}
	for _, s := range t.texts {
		a, err := t.rows.textsOf(s, t.row, n)
		if err != nil {
			return err
		}
		made = append(made, a)
	}
	t.row += n
	rec := array.NewRecord(t.rows.schema, made, n)
	select {
	case t.rows.records <- rec:
		return nil
	case <-t.ctx.Done():
		rec.Release()
		return context.Cause(t.ctx)
	}
}

// array makes an array of n rows of a column, which stays where it is if it is mapped.
func (r *Rows) array(f *field, data []byte, n int64, mapped bool) arrow.Array {
	kind, nulls := f.arrow(), 0
	var valid, held *memory.Buffer
	if f.scalar().ID() == arrow.TIMESTAMP {
		valid, nulls = r.missing(data)
	}
	switch {
	case f.mask:
		held = r.room(bitutil.BytesForBits(n))
		for i := range n {
			bitutil.SetBitTo(held.Bytes(), int(i), data[i] != 0)
		}
	case f.DType == unified.BFloat16:
		held = r.room(2 * int64(len(data)))
		f.DType.Floats(arrow.Float32Traits.CastFromBytes(held.Bytes()), data)
	case mapped:
		held = r.held(data)
	default:
		held = r.room(int64(len(data)))
		copy(held.Bytes(), data)
	}
	list, is := kind.(*arrow.FixedSizeListType)
	if !is {
		return ofBuffers(kind, n, nulls, nil, valid, held)
	}
	elements := ofBuffers(list.Elem(), n*int64(list.Len()), 0, nil, nil, held)
	defer elements.Release()
	return ofBuffers(kind, n, 0, []arrow.ArrayData{elements.Data()}, nil)
}

// ofBuffers makes an array of buffers, which are then the array's.
func ofBuffers(kind arrow.DataType, n int64, nulls int, children []arrow.ArrayData,
	buffers ...*memory.Buffer) arrow.Array {
	d := array.NewData(kind, int(n), buffers, children, nulls, 0)
	defer d.Release()
	for _, b := range buffers {
		if b != nil {
			b.Release()
		}
	}
	return array.MakeFromData(d)
}

// missing returns which times are there, and how many are not; nil where all are.
func (r *Rows) missing(times []byte) (*memory.Buffer, int) {
	nulls, n := 0, len(times)/8
	is := func(i int) bool { return int64(binary.LittleEndian.Uint64(times[8*i:])) == math.MinInt64 }
	for i := range n {
		if is(i) {
			nulls++
		}
	}
	if nulls == 0 {
		return nil, 0
	}
	valid := r.room(bitutil.BytesForBits(int64(n)))
	for i := range n {
		bitutil.SetBitTo(valid.Bytes(), i, !is(i))
	}
	return valid, nulls
}

// textsOf returns n strings of a list, where they are mapped: offsets and then, at a multiple of 64 bytes, UTF-8
// (docs/format.md, "Strings"). Who reads the array checks neither, so each is looked at here.
func (r *Rows) textsOf(s texts, first, n int64) (arrow.Array, error) {
	for i := first; i < first+n; i++ {
		if _, err := s.At(i); err != nil {
			return nil, err
		}
	}
	ends := 8 * (s.Len() + 1)
	return ofBuffers(arrow.BinaryTypes.LargeString, n, 0, nil, nil, r.held(s.Bytes()[8*first:8*(first+n+1)]),
		r.held(s.Bytes()[(ends+63)&^63:])), nil
}

// room returns a buffer of n bytes, zeros.
func (r *Rows) room(n int64) *memory.Buffer {
	data := r.mem.Allocate(int(n))
	clear(data)
	return memory.NewBufferWithAllocator(data, r.mem)
}

// held returns a buffer of bytes of the dataset, which stays open until it is released.
func (r *Rows) held(data []byte) *memory.Buffer {
	r.keeps.Add(1)
	return memory.NewBufferWithAllocator(data, holder{r})
}

// holder is the allocator of bytes of the dataset, which it does not free.
type holder struct{ *Rows }

// Allocate implements memory.Allocator. Nothing asks for it.
func (h holder) Allocate(n int) []byte { return make([]byte, n) }

// Reallocate implements memory.Allocator. Nothing asks for it.
func (h holder) Reallocate(n int, b []byte) []byte { return append(b[:0:0], b...)[:n] }

// Free implements memory.Allocator.
func (h holder) Free([]byte) { h.drop() }

var _ array.RecordReader = (*Rows)(nil)
