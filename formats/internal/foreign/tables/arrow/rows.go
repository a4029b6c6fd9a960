package arrow

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/endian"
	"github.com/apache/arrow/go/v15/arrow/memory"
	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/guard"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// The library reads a batch of records as a whole, twice over, and writers make batches of any size. So a batch that is
// not compressed, of columns without dictionaries, is read some rows and some columns at a time, by what the message
// before it says of where they lie. Panics of flatbuffers, of damaged messages, are guard's.

// The fields of messages that are looked at, as flatbuffers number them.
const (
	messageKind   = 6
	messageHeader = 8
	messageBody   = 10
	batchLength   = 4
	batchNodes    = 6
	batchBuffers  = 8
	batchCodec    = 10

	kindSchema = 1
	kindBatch  = 3

	maxMessage = 64 << 20 // bytes of a message without its body
)

// recordBatch is where the columns of a batch lie.
type recordBatch struct {
	raw     *source.Raw
	rows    int64
	body    int64 // where it begins
	size    int64
	nodes   [][2]int64 // length and missing values
	buffers [][2]int64 // offset in the body and length
}

// walk calls take for each batch, until one is compressed or of another kind: then plain is false.
func (f *File) walk(ctx context.Context, raw *source.Raw, take func(*recordBatch) error) (plain bool, err error) {
	at := int64(0)
	if !f.stream {
		at = 8
	}
	for left, first := f.batches+1, true; left != 0; left, first = left-1, false { // the schema, and batches
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		var prefix [8]byte
		if n, err := raw.ReadAt(prefix[:], at); n < len(prefix) {
			if n == 0 && f.stream && !first {
				return true, nil // a stream may end without saying so
			}
			return false, fmt.Errorf("%w: it is cut short: %w", guard.ErrFormat, err)
		}
		size := int64(binary.LittleEndian.Uint32(prefix[4:]))
		if string(prefix[:4]) != streamMagic || size > maxMessage || size > raw.Size-at {
			return false, nil // of an old version, or no message
		}
		if size == 0 {
			return true, nil
		}
		message := make([]byte, size)
		if _, err := raw.ReadAt(message, at+8); err != nil {
			return false, err
		}
		b := &recordBatch{raw: raw, body: at + 8 + size}
		kind, ok := b.parse(message)
		if b.size < 0 || b.size > raw.Size-b.body {
			return false, fmt.Errorf("%w: a message of %d bytes at %d of %d", guard.ErrFormat, b.size, at, raw.Size)
		}
		switch {
		case first && kind == kindSchema:
		case first || kind != kindBatch || !ok:
			return false, nil
		default:
			if err := take(b); err != nil {
				return true, err
			}
		}
		at = b.body + (b.size+7)&^7
	}
	return true, nil
}

// describeRows counts rows, and finds the width of lists. plain is that of walk.
func (f *File) describeRows(ctx context.Context, raw *source.Raw, a *guard.Allocator) (plain bool, err error) {
	count := 0
	plain, err = f.walk(ctx, raw, func(b *recordBatch) error {
		for i := range f.list {
			if err := b.fits(f.lie[i]); err != nil {
				return err
			}
			if l := &f.list[i]; f.count == 0 && b.rows > 0 && l.List && l.Width == 0 && l.Bad == "" {
				_, lo, hi := b.offsets(a, f.schema.Field(i).Type, f.lie[i][1]+1, 0, 1)
				if l.Width = hi - lo; l.Width > columnar.MaxWidth {
					l.Bad = fmt.Sprintf("lists of more than %d numbers", columnar.MaxWidth)
				}
			}
		}
		if count++; b.rows > math.MaxInt64-f.count {
			return fmt.Errorf("%w: a batch of %d rows", guard.ErrFormat, b.rows)
		}
		f.count += b.rows
		return nil
	})
	return plain && (f.batches < 0 || f.batches == count), err
}

// fits checks that a column has as many rows as the batch, and that it has bytes for them: bits, or offsets.
func (b *recordBatch) fits(at [2]int) error {
	if at[0] >= len(b.nodes) || b.nodes[at[0]][0] != b.rows || b.rows > 0 && b.rows/8 > b.size {
		return fmt.Errorf("%w: a column of another length than the %d rows of its batch", guard.ErrFormat, b.rows)
	}
	return nil
}

// scanRows is scan for batches that are read by rows.
func (f *File) scanRows(ctx context.Context, want []int, fields []columnar.Field, step int,
	yield func(*columnar.Batch) error) error {
	return f.open(func(raw *source.Raw, a *guard.Allocator) error {
		row, step := int64(0), int64(step+7)&^7
		_, err := f.walk(ctx, raw, func(in *recordBatch) error {
			for lo := int64(0); lo < in.rows; lo += step {
				hi := min(lo+step, in.rows)
				b := &columnar.Batch{Rows: int(hi - lo), Path: f.at.Path(), Row: row + lo}
				for i, w := range want {
					v, err := in.vector(a, f.schema.Field(w).Type, f.lie[w], &fields[i], lo, hi)
					if err != nil {
						return columnar.InColumn(fields[i].Name, b.Row, err)
					}
					b.Columns = append(b.Columns, v)
				}
				if err := yield(b); err != nil {
					return err
				}
			}
			row += in.rows
			return nil
		})
		return err
	})
}

// vector reads rows of a column.
func (b *recordBatch) vector(a *guard.Allocator, t arrow.DataType, at [2]int, f *columnar.Field,
	lo, hi int64) (columnar.Vector, error) {
	data := b.slice(a, t, at, lo, hi)
	defer data.Release()
	column := array.MakeFromData(data)
	defer column.Release()
	return vectorOf(column, f, 0, int(hi-lo))
}

// parse reads a message, and reports whether it is a batch that is not compressed.
func (b *recordBatch) parse(message []byte) (kind byte, ok bool) {
	t := flatbuffers.Table{Bytes: message, Pos: flatbuffers.GetUOffsetT(message)}
	kind = t.GetByteSlot(messageKind, 0)
	b.size = t.GetInt64Slot(messageBody, 0)
	at := t.Offset(messageHeader)
	if kind != kindBatch || at == 0 {
		return kind, false
	}
	var h flatbuffers.Table
	t.Union(&h, flatbuffers.UOffsetT(at))
	b.rows = h.GetInt64Slot(batchLength, 0)
	if h.Offset(batchCodec) != 0 || b.rows < 0 {
		return kind, false
	}
	pairs := func(slot flatbuffers.VOffsetT) (list [][2]int64) {
		if at := flatbuffers.UOffsetT(h.Offset(slot)); at != 0 {
			from := h.Vector(at)
			for i := range min(h.VectorLen(at), len(message)/16) {
				p := from + flatbuffers.UOffsetT(16*i)
				list = append(list, [2]int64{h.GetInt64(p), h.GetInt64(p + 8)})
			}
		}
		return list
	}
	b.nodes, b.buffers = pairs(batchNodes), pairs(batchBuffers)
	return kind, true
}

// parts returns how many nodes and buffers a column of a type has; false for types of which the number depends on more.
func parts(t arrow.DataType) (nodes, buffers int, ok bool) {
	switch t := t.(type) {
	case *arrow.StringType, *arrow.BinaryType, *arrow.LargeStringType, *arrow.LargeBinaryType:
		return 1, 3, true
	case *arrow.ListType, *arrow.LargeListType:
		nodes, buffers, ok = parts(t.(arrow.ListLikeType).Elem())
		return nodes + 1, buffers + 2, ok
	case *arrow.FixedSizeListType:
		nodes, buffers, ok = parts(t.Elem())
		return nodes + 1, buffers + 1, ok
	case *arrow.DictionaryType, arrow.ExtensionType:
		return 0, 0, false
	case arrow.FixedWidthDataType:
		return 1, 2, true
	}
	return 0, 0, false
}

// places finds where the nodes and buffers of each column begin; nil if that is not known.
func places(s *arrow.Schema) (at [][2]int) {
	nodes, buffers := 0, 0
	if s.Endianness() != endian.NativeEndian || endian.NativeEndian != endian.LittleEndian {
		return nil
	}
	at = [][2]int{}
	for _, f := range s.Fields() {
		n, b, ok := parts(f.Type)
		if !ok {
			return nil
		}
		at = append(at, [2]int{nodes, buffers})
		nodes, buffers = nodes+n, buffers+b
	}
	return at
}

// slice reads rows lo up to hi of a column. lo is a multiple of 8.
func (b *recordBatch) slice(a *guard.Allocator, t arrow.DataType, at [2]int, lo, hi int64) arrow.ArrayData {
	node := b.nodes[at[0]]
	if lo < 0 || lo > hi || hi > node[0] {
		panic(fmt.Sprintf("rows %d to %d of %d", lo, hi, node[0]))
	}
	var valid *memory.Buffer
	nulls := 0
	if node[1] != 0 {
		valid, nulls = b.bytes(a, at[1], lo/8, (hi+7)/8), array.UnknownNullCount
	}
	next := [2]int{at[0] + 1, at[1] + 2}
	var children []arrow.ArrayData
	buffers := []*memory.Buffer{valid}
	switch t := t.(type) {
	case *arrow.StringType, *arrow.BinaryType, *arrow.LargeStringType, *arrow.LargeBinaryType:
		offsets, from, to := b.offsets(a, t, at[1]+1, lo, hi)
		buffers = append(buffers, offsets, b.bytes(a, at[1]+2, from, to))
	case *arrow.ListType, *arrow.LargeListType:
		offsets, from, to := b.offsets(a, t, at[1]+1, lo, hi)
		buffers = append(buffers, offsets)
		children = append(children, b.unaligned(a, t.(arrow.ListLikeType).Elem(), next, from, to))
	case *arrow.FixedSizeListType:
		n := int64(t.Len())
		children = append(children, b.slice(a, t.Elem(), [2]int{next[0], at[1] + 1}, lo*n, hi*n))
	default:
		bits := int64(t.(arrow.FixedWidthDataType).BitWidth())
		buffers = append(buffers, b.bytes(a, at[1]+1, lo*bits/8, (hi*bits+7)/8))
	}
	defer memory.ReleaseBuffers(buffers)
	data := array.NewData(t, int(hi-lo), buffers, children, nulls, 0)
	for _, c := range children {
		c.Release()
	}
	return data
}

// unaligned is slice for any lo.
func (b *recordBatch) unaligned(a *guard.Allocator, t arrow.DataType, at [2]int, lo, hi int64) arrow.ArrayData {
	data := b.slice(a, t, at, lo&^7, hi)
	defer data.Release()
	return array.NewSliceData(data, lo&7, hi-lo&^7)
}

// bytes reads bytes lo up to hi of a buffer.
func (b *recordBatch) bytes(a *guard.Allocator, i int, lo, hi int64) *memory.Buffer {
	at := b.buffers[i]
	if lo < 0 || lo > hi || hi > at[1] || at[0] < 0 || at[1] > b.size-at[0] {
		panic(fmt.Sprintf("bytes %d to %d of a buffer of %d at %d of %d", lo, hi, at[1], at[0], b.size))
	}
	buf := memory.NewResizableBuffer(a)
	buf.Resize(int(hi - lo))
	if hi > lo {
		if _, err := b.raw.ReadAt(buf.Bytes(), b.body+at[0]+lo); err != nil {
			panic(err)
		}
	}
	return buf
}

// offsets reads where values lo up to hi lie, and makes the first of them begin at 0.
func (b *recordBatch) offsets(a *guard.Allocator, t arrow.DataType, i int, lo, hi int64) (buf *memory.Buffer, from,
	to int64) {
	width := int64(4)
	switch t.(type) {
	case *arrow.LargeStringType, *arrow.LargeBinaryType, *arrow.LargeListType:
		width = 8
	}
	if lo == hi {
		return b.bytes(a, i, 0, 0), 0, 0
	}
	buf = b.bytes(a, i, width*lo, width*(hi+1))
	for k, data := int64(0), buf.Bytes(); k <= hi-lo; k, data = k+1, data[width:] {
		v := int64(int32(binary.LittleEndian.Uint32(data)))
		if width == 8 {
			v = int64(binary.LittleEndian.Uint64(data))
		}
		if k == 0 {
			from, to = v, v
		}
		if v < to || v < 0 {
			panic("offsets that go back")
		}
		to = v
		if width == 8 {
			binary.LittleEndian.PutUint64(data, uint64(v-from))
		} else {
			binary.LittleEndian.PutUint32(data, uint32(v-from))
		}
	}
	return buf, from, to
}
