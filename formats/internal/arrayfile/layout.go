package arrayfile

import (
	"encoding/binary"
	"slices"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/khop-gnn/khop/unified"
)

// Bounds of what a file may hold, for whoever checks a description of one.
const (
	AlignSmall   = 128     // the body's offset is a multiple
	MaxMetadata  = 1 << 20 // of head and of footer, in bytes
	FooterSuffix = 4 + len(arrowMagic)
	MaxListSize  = 1<<31 - 1           // a dimension of a row
	MaxDims      = unified.MaxRank - 1 // of a row
)

// Numbers of the Arrow columnar format (format/Schema.fbs, Message.fbs, File.fbs), metadata version 5.
const (
	arrowV5       = 4
	headerSchema  = 1
	headerBatch   = 3
	typeInt       = 2
	typeFloat     = 3
	typeFixedList = 16
	typeLargeUtf8 = 20
	arrowMagic    = "ARROW1"
	continuation  = 0xFFFFFFFF
	blockSize     = 24 // struct Block: int64 offset, int32 metadata length, 4 bytes, int64 body length
	nodeSize      = 16 // struct FieldNode: int64 length, int64 null count
	bufferSize    = 16 // struct Buffer: int64 offset, int64 length
	dtypeKey      = "khop.dtype"
	alignLarge    = 64 << 10
	largeArray    = 1 << 20 // arrays from here on begin on a 64 KiB border
	bufferAlign   = 64
	endOfStream   = "\xff\xff\xff\xff\x00\x00\x00\x00"
	firstMessage  = 8 // after the magic and its padding
	messagePrefix = 8 // continuation and length
	fixedListItem = "item"
)

// Type is what one file holds: rows of a shape, or strings.
type Type struct {
	Name    string
	DType   unified.DType // Invalid for strings
	Shape   []int64       // of a row
	Strings bool
}

// RowBytes returns the bytes of a row of numbers.
func (a Type) RowBytes() int64 {
	n := a.DType.Size()
	for _, d := range a.Shape {
		n *= d
	}
	return n
}

// Equal reports whether two files hold the same kind of rows under the same name.
func (a Type) Equal(b Type) bool {
	return a.Name == b.Name && a.DType == b.DType && a.Strings == b.Strings && slices.Equal(a.Shape, b.Shape)
}

// Layout is where the parts of a file lie.
type Layout struct {
	Type
	Rows       int64
	BodyOffset int64 // where the body begins in the file
	Data       int64 // where the characters begin in the body; strings only
	Bytes      int64 // of the body, without the padding behind it
}

// Lies reports whether a file of this number of bytes can have the body at its stated place.
func (l Layout) Lies(fileBytes int64) bool {
	tail := fileBytes - l.BodyOffset - l.Bytes
	return l.BodyOffset >= AlignSmall && l.BodyOffset%AlignSmall == 0 && l.BodyOffset <= MaxMetadata && l.Bytes >= 0 &&
		fileBytes >= l.Bytes && tail >= int64(FooterSuffix) && tail <= MaxMetadata
}

// Tensor returns the body as a tensor over it.
func (l Layout) Tensor(body []byte) (unified.Tensor, error) {
	return unified.New(l.DType, body, append([]int64{l.Rows}, l.Shape...)...)
}

// FileBytes returns what a file takes at most whose elements take n bytes, but for long names.
func FileBytes(n int64) int64 {
	if n += 2 * AlignSmall; n >= largeArray+2*AlignSmall {
		n += alignLarge
	}
	return n
}

// NewLayout places an array. dataBytes counts the characters of strings and is ignored otherwise.
func NewLayout(a Type, rows, dataBytes int64) Layout {
	l := Layout{Type: a, Rows: rows}
	first := rows * a.RowBytes()
	if a.Strings {
		first = (rows + 1) * 8
		l.Data = roundUp(first, bufferAlign)
		l.Bytes = l.Data + dataBytes
	} else {
		l.Bytes = first
	}
	align := int64(AlignSmall)
	if first >= largeArray {
		align = alignLarge
	}
	// The message's own length varies by a few bytes with the values in it: those that are zero are not stored. The
	// place of the body does not, because it is taken for values that are all stored.
	schema := int64(len(schemaMessage(a)))
	batch := int64(len(batchMetadata(Layout{Type: a, Rows: 1, Data: bufferAlign, Bytes: 2 * bufferAlign})))
	l.BodyOffset = roundUp(firstMessage+schema+messagePrefix+batch, align)
	return l
}

func (l Layout) bodyLength() int64 { return roundUp(l.Bytes, bufferAlign) }

// Head returns everything before the body.
func (l Layout) Head() []byte {
	b := append(make([]byte, 0, l.BodyOffset), arrowMagic+"\x00\x00"...)
	b = append(b, schemaMessage(l.Type)...)
	meta := batchMetadata(l)
	b = binary.LittleEndian.AppendUint32(b, continuation)
	b = binary.LittleEndian.AppendUint32(b, uint32(l.BodyOffset-int64(len(b))-4))
	b = append(b, meta...)
	return append(b, make([]byte, l.BodyOffset-int64(len(b)))...)
}

// Tail returns everything behind the body: its padding, the end of the stream, the footer.
func (l Layout) Tail() []byte {
	b := make([]byte, l.bodyLength()-l.Bytes)
	b = append(b, endOfStream...)
	f := footer(l)
	b = append(b, f...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f)))
	return append(b, arrowMagic...)
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }

// schemaMessage returns the encapsulated message that holds the schema.
func schemaMessage(a Type) []byte {
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

func schemaTable(b *flatbuffers.Builder, a Type) flatbuffers.UOffsetT {
	field := fieldTable(b, a)
	b.StartVector(4, 1, 4)
	b.PrependUOffsetT(field)
	fields := b.EndVector(1)
	b.StartObject(4)
	b.PrependUOffsetTSlot(1, fields, 0)
	return b.EndObject()
}

// fieldTable writes the field of an array: the element type, wrapped in a list for each dimension of a row.
func fieldTable(b *flatbuffers.Builder, a Type) flatbuffers.UOffsetT {
	kind, typ := elementType(b, a)
	name := func(depth int) string {
		if depth == 0 {
			return a.Name
		}
		return fixedListItem
	}
	child := finishField(b, a, name(len(a.Shape)), kind, typ, 0, len(a.Shape) == 0)
	for depth := len(a.Shape) - 1; depth >= 0; depth-- {
		b.StartVector(4, 1, 4)
		b.PrependUOffsetT(child)
		children := b.EndVector(1)
		b.StartObject(1)
		b.PrependInt32Slot(0, int32(a.Shape[depth]), 0)
		list := b.EndObject()
		child = finishField(b, a, name(depth), typeFixedList, list, children, depth == 0)
	}
	return child
}

func elementType(b *flatbuffers.Builder, a Type) (byte, flatbuffers.UOffsetT) {
	if a.Strings {
		b.StartObject(0)
		return typeLargeUtf8, b.EndObject()
	}
	d := a.DType.Stored()
	if d.IsFloat() { // its precision in Arrow: 0, 1 or 2 for 16, 32 and 64 bits
		b.StartObject(1)
		b.PrependInt16Slot(0, int16(d.Size()/4), 0)
		return typeFloat, b.EndObject()
	}
	b.StartObject(2)
	b.PrependInt32Slot(0, int32(8*d.Size()), 0)
	b.PrependBoolSlot(1, d.Kind() == unified.Signed, false)
	return typeInt, b.EndObject()
}

func finishField(b *flatbuffers.Builder, a Type, name string, kind byte, typ, children flatbuffers.UOffsetT,
	outer bool) flatbuffers.UOffsetT {
	if children == 0 {
		b.StartVector(4, 0, 4)
		children = b.EndVector(0)
	}
	var meta flatbuffers.UOffsetT
	if outer && a.DType.Stored() != a.DType {
		meta = keyValue(b, dtypeKey, a.DType.String())
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
func (l Layout) extents() (lengths []int64, buffers [][2]int64) {
	n := l.Rows
	lengths = append(lengths, n)
	buffers = append(buffers, [2]int64{}) // no validity bitmap: nothing is null
	for _, d := range l.Shape {
		n *= d
		lengths = append(lengths, n)
		buffers = append(buffers, [2]int64{})
	}
	if l.Strings {
		return lengths, append(buffers, [2]int64{0, (l.Rows + 1) * 8}, [2]int64{l.Data, l.Bytes - l.Data})
	}
	return lengths, append(buffers, [2]int64{0, l.Bytes})
}

// batchMetadata returns the record batch's message without its prefix and padding.
func batchMetadata(l Layout) []byte {
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
	b.PrependInt64Slot(0, l.Rows, 0)
	b.PrependUOffsetTSlot(1, nodes, 0)
	b.PrependUOffsetTSlot(2, buf, 0)
	finishMessage(b, headerBatch, b.EndObject(), l.bodyLength())
	return b.FinishedBytes()
}

func footer(l Layout) []byte {
	b := flatbuffers.NewBuilder(512)
	schema := schemaTable(b, l.Type)
	start := int64(firstMessage + len(schemaMessage(l.Type)))
	b.StartVector(blockSize, 1, 8)
	b.Prep(8, blockSize)
	b.PrependInt64(l.bodyLength())
	b.Pad(4)
	b.PrependInt32(int32(l.BodyOffset - start))
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
