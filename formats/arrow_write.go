package formats

import (
	"encoding/binary"
	"slices"
	"strings"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/khop-gnn/khop/unified"
)

// Numbers of the Arrow columnar format (format/Schema.fbs, Message.fbs, File.fbs), metadata version 5.
const (
	arrowV5        = 4
	headerSchema   = 1
	headerBatch    = 3
	typeInt        = 2
	typeFloat      = 3
	typeFixedList  = 16
	typeLargeUtf8  = 20
	arrowMagic     = "ARROW1"
	continuation   = 0xFFFFFFFF
	blockSize      = 24 // struct Block: int64 offset, int32 metadata length, 4 bytes, int64 body length
	nodeSize       = 16 // struct FieldNode: int64 length, int64 null count
	bufferSize     = 16 // struct Buffer: int64 offset, int64 length
	dtypeKey       = "khop.dtype"
	alignSmall     = 128
	alignLarge     = 64 << 10
	largeArray     = 1 << 20 // arrays from here on begin on a 64 KiB border
	bufferAlign    = 64
	maxMetadata    = 1 << 20 // of head and of footer, in bytes
	endOfStream    = "\xff\xff\xff\xff\x00\x00\x00\x00"
	firstMessage   = 8 // after the magic and its padding
	messagePrefix  = 8 // continuation and length
	footerSuffix   = 4 + len(arrowMagic)
	maxListSize    = 1<<31 - 1
	maxNestedLists = unified.MaxRank - 1
	stringsDType   = "utf8"
	fixedListItem  = "item"
)

// arrayType is what one file holds: rows of a shape, or strings.
type arrayType struct {
	name    string
	dtype   unified.DType // Invalid for strings
	shape   []int64       // of a row
	strings bool
}

func (a arrayType) rowBytes() int64 {
	n := a.dtype.Size()
	for _, d := range a.shape {
		n *= d
	}
	return n
}

// layout is where the parts of a file lie.
type layout struct {
	arrayType
	rows       int64
	bodyOffset int64 // in the file
	data       int64 // where the characters begin in the body; strings only
	bytes      int64 // of the body, without the padding behind it
}

// newLayout places an array. dataBytes counts the characters of strings and is ignored otherwise.
func newLayout(a arrayType, rows, dataBytes int64) layout {
	l := layout{arrayType: a, rows: rows}
	first := rows * a.rowBytes()
	if a.strings {
		first = (rows + 1) * 8
		l.data = roundUp(first, bufferAlign)
		l.bytes = l.data + dataBytes
	} else {
		l.bytes = first
	}
	align := int64(alignSmall)
	if first >= largeArray {
		align = alignLarge
	}
	// The message's own length varies by a few bytes with the values in it: those that are zero are not stored. The
	// place of the body does not, because it is taken for values that are all stored.
	schema := int64(len(schemaMessage(a)))
	batch := int64(len(batchMetadata(layout{arrayType: a, rows: 1, data: bufferAlign, bytes: 2 * bufferAlign})))
	l.bodyOffset = roundUp(firstMessage+schema+messagePrefix+batch, align)
	return l
}

func (l layout) bodyLength() int64 { return roundUp(l.bytes, bufferAlign) }

// head returns everything before the body.
func (l layout) head() []byte {
	b := append(make([]byte, 0, l.bodyOffset), arrowMagic+"\x00\x00"...)
	b = append(b, schemaMessage(l.arrayType)...)
	meta := batchMetadata(l)
	b = binary.LittleEndian.AppendUint32(b, continuation)
	b = binary.LittleEndian.AppendUint32(b, uint32(l.bodyOffset-int64(len(b))-4))
	b = append(b, meta...)
	return append(b, make([]byte, l.bodyOffset-int64(len(b)))...)
}

// tail returns everything behind the body: its padding, the end of the stream, the footer.
func (l layout) tail() []byte {
	b := make([]byte, l.bodyLength()-l.bytes)
	b = append(b, endOfStream...)
	f := footer(l)
	b = append(b, f...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f)))
	return append(b, arrowMagic...)
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }

// schemaMessage returns the encapsulated message that holds the schema.
func schemaMessage(a arrayType) []byte {
	b := flatbuffers.NewBuilder(512)
	finishMessage(b, headerSchema, schemaTable(b, a), 0)
	return encapsulate(b.FinishedBytes())
}

func encapsulate(meta []byte) []byte {
	n := roundUp(int64(len(meta)), 8)
	out := binary.LittleEndian.AppendUint32(nil, continuation)
	out = binary.LittleEndian.AppendUint32(out, uint32(n))
	out = append(out, meta...)
	return append(out, make([]byte, n-int64(len(meta)))...)
}

func finishMessage(b *flatbuffers.Builder, kind byte, header flatbuffers.UOffsetT, bodyLength int64) {
	b.StartObject(5)
	b.PrependInt64Slot(3, bodyLength, 0)
	b.PrependUOffsetTSlot(2, header, 0)
	b.PrependInt16Slot(0, arrowV5, 0)
	b.PrependByteSlot(1, kind, 0)
	b.Finish(b.EndObject())
}

func schemaTable(b *flatbuffers.Builder, a arrayType) flatbuffers.UOffsetT {
	field := fieldTable(b, a)
	b.StartVector(4, 1, 4)
	b.PrependUOffsetT(field)
	fields := b.EndVector(1)
	b.StartObject(4)
	b.PrependUOffsetTSlot(1, fields, 0)
	return b.EndObject()
}

// fieldTable writes the field of an array: the element type, wrapped in a list for each dimension of a row.
func fieldTable(b *flatbuffers.Builder, a arrayType) flatbuffers.UOffsetT {
	kind, typ := elementType(b, a)
	name := func(depth int) string {
		if depth == 0 {
			return a.name
		}
		return fixedListItem
	}
	child := finishField(b, a, name(len(a.shape)), kind, typ, 0, len(a.shape) == 0)
	for depth := len(a.shape) - 1; depth >= 0; depth-- {
		b.StartVector(4, 1, 4)
		b.PrependUOffsetT(child)
		children := b.EndVector(1)
		b.StartObject(1)
		b.PrependInt32Slot(0, int32(a.shape[depth]), 0)
		list := b.EndObject()
		child = finishField(b, a, name(depth), typeFixedList, list, children, depth == 0)
	}
	return child
}

func elementType(b *flatbuffers.Builder, a arrayType) (byte, flatbuffers.UOffsetT) {
	if a.strings {
		b.StartObject(0)
		return typeLargeUtf8, b.EndObject()
	}
	if p := slices.Index(floatTypes, a.dtype); p >= 0 {
		b.StartObject(1)
		b.PrependInt16Slot(0, int16(p), 0)
		return typeFloat, b.EndObject()
	}
	b.StartObject(2)
	b.PrependInt32Slot(0, int32(8*a.dtype.Size()), 0)
	b.PrependBoolSlot(1, strings.HasPrefix(a.dtype.String(), "int"), false)
	return typeInt, b.EndObject()
}

// floatTypes are the floating-point types by their precision in Arrow.
var floatTypes = []unified.DType{unified.Float16, unified.Float32, unified.Float64}

func finishField(b *flatbuffers.Builder, a arrayType, name string, kind byte, typ, children flatbuffers.UOffsetT,
	outer bool) flatbuffers.UOffsetT {
	if children == 0 {
		b.StartVector(4, 0, 4)
		children = b.EndVector(0)
	}
	var meta flatbuffers.UOffsetT
	if outer && a.dtype == unified.BFloat16 {
		meta = keyValue(b, dtypeKey, a.dtype.String())
	}
	nm := b.CreateString(name)
	b.StartObject(7)
	b.PrependUOffsetTSlot(0, nm, 0)
	b.PrependUOffsetTSlot(3, typ, 0)
	b.PrependUOffsetTSlot(5, children, 0)
	b.PrependUOffsetTSlot(6, meta, 0)
	b.PrependByteSlot(2, kind, 0)
	return b.EndObject() // nullable is false by being absent
}

func keyValue(b *flatbuffers.Builder, key, value string) flatbuffers.UOffsetT {
	k, v := b.CreateString(key), b.CreateString(value)
	b.StartObject(2)
	b.PrependUOffsetTSlot(0, k, 0)
	b.PrependUOffsetTSlot(1, v, 0)
	kv := b.EndObject()
	b.StartVector(4, 1, 4)
	b.PrependUOffsetT(kv)
	return b.EndVector(1)
}

// extents returns the lengths of the nested fields and the buffers of the record batch, outermost first.
func (l layout) extents() (lengths []int64, buffers [][2]int64) {
	n := l.rows
	lengths = append(lengths, n)
	buffers = append(buffers, [2]int64{}) // no validity bitmap: nothing is null
	for _, d := range l.shape {
		n *= d
		lengths = append(lengths, n)
		buffers = append(buffers, [2]int64{})
	}
	if l.strings {
		return lengths, append(buffers, [2]int64{0, (l.rows + 1) * 8}, [2]int64{l.data, l.bytes - l.data})
	}
	return lengths, append(buffers, [2]int64{0, l.bytes})
}

// batchMetadata returns the record batch's message without its prefix and padding.
func batchMetadata(l layout) []byte {
	b := flatbuffers.NewBuilder(512)
	lengths, buffers := l.extents()
	b.StartVector(bufferSize, len(buffers), 8)
	for i := len(buffers) - 1; i >= 0; i-- {
		b.Prep(8, bufferSize)
		b.PrependInt64(buffers[i][1])
		b.PrependInt64(buffers[i][0])
	}
	buf := b.EndVector(len(buffers))
	b.StartVector(nodeSize, len(lengths), 8)
	for i := len(lengths) - 1; i >= 0; i-- {
		b.Prep(8, nodeSize)
		b.PrependInt64(0)
		b.PrependInt64(lengths[i])
	}
	nodes := b.EndVector(len(lengths))
	b.StartObject(5)
	b.PrependInt64Slot(0, l.rows, 0)
	b.PrependUOffsetTSlot(1, nodes, 0)
	b.PrependUOffsetTSlot(2, buf, 0)
	finishMessage(b, headerBatch, b.EndObject(), l.bodyLength())
	return b.FinishedBytes()
}

func footer(l layout) []byte {
	b := flatbuffers.NewBuilder(512)
	schema := schemaTable(b, l.arrayType)
	start := int64(firstMessage + len(schemaMessage(l.arrayType)))
	b.StartVector(blockSize, 1, 8)
	b.Prep(8, blockSize)
	b.PrependInt64(l.bodyLength())
	b.Pad(4)
	b.PrependInt32(int32(l.bodyOffset - start))
	b.PrependInt64(start)
	batches := b.EndVector(1)
	b.StartVector(blockSize, 0, 8)
	dictionaries := b.EndVector(0)
	b.StartObject(5)
	b.PrependUOffsetTSlot(1, schema, 0)
	b.PrependUOffsetTSlot(2, dictionaries, 0)
	b.PrependUOffsetTSlot(3, batches, 0)
	b.PrependInt16Slot(0, arrowV5, 0)
	b.Finish(b.EndObject())
	return b.FinishedBytes()
}
