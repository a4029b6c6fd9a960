package arrayfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/khop-gnn/khop/unified"
)

// ErrCorrupt is damage: a checksum, an offset or an element that cannot be right.
var ErrCorrupt = errors.New("corrupt dataset")

func corruptf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// Walk finds the one array of an Arrow IPC file. It reads the head and the footer, checks every offset against the
// file, and does not touch the body. It works in memory that does not depend on the file. ErrCorrupt says what is not
// as it must be.
func Walk(file []byte) (l Layout, err error) {
	defer func() {
		if recover() != nil { // flatbuffers reads at whatever place the metadata says
			l, err = Layout{}, corruptf("Arrow metadata: an offset points outside")
		}
	}()
	foot, end, err := findFooter(file)
	if err != nil {
		return Layout{}, err
	}
	t := root(foot)
	version := t.GetInt16Slot(4, 0)
	schema, _ := t.table(6)
	a, err := readSchema(schema)
	if err != nil {
		return Layout{}, err
	}
	_, dictionaries := t.vector(8)
	block, blocks := t.vector(10)
	if version != arrowV5 || dictionaries != 0 || blocks != 1 {
		return Layout{}, corruptf("Arrow footer: version %d, %d dictionaries, %d record batches; expected 4, 0 and 1",
			version, dictionaries, blocks)
	}
	offset, meta, body := t.GetInt64(block), int64(t.GetInt32(block+8)), t.GetInt64(block+16)
	first, err := readMessage(file, firstMessage, end)
	if err != nil {
		return Layout{}, err
	}
	if err := checkSchemaMessage(first, a); err != nil {
		return Layout{}, err
	}
	if offset != first.next {
		return Layout{}, corruptf("Arrow footer: the record batch is said to be at %d, not at %d", offset, first.next)
	}
	batch, err := readMessage(file, offset, end)
	if err != nil {
		return Layout{}, err
	}
	if batch.next-offset != meta || body < 0 || body%8 != 0 || body > end-batch.next {
		return Layout{}, corruptf("Arrow footer: the record batch takes %d + %d bytes, the file has %d + %d", meta,
			body, batch.next-offset, end-batch.next)
	}
	return readBatch(batch, a, body)
}

// findFooter returns the footer's bytes and where what precedes it ends.
func findFooter(file []byte) (foot []byte, end int64, err error) {
	n := len(file)
	if n < firstMessage+FooterSuffix || !bytes.Equal(file[:firstMessage], []byte(arrowMagic+"\x00\x00")) {
		return nil, 0, corruptf("not an Arrow file")
	}
	if string(file[n-len(arrowMagic):]) != arrowMagic {
		return nil, 0, corruptf("the Arrow file does not end as one: it was cut short")
	}
	size := int64(binary.LittleEndian.Uint32(file[n-FooterSuffix:]))
	end = int64(n-FooterSuffix) - size
	if size > MaxMetadata || end < firstMessage {
		return nil, 0, corruptf("an Arrow footer of %d bytes", size)
	}
	return file[end : n-FooterSuffix], end, nil
}

// message is an encapsulated message: its metadata and where what follows it begins.
type message struct {
	table
	kind uint8
	next int64
}

// table is a table of metadata that nobody has checked: what points outside panics. The fields are as flatbuffers
// number them, from 4 in steps of 2.
type table struct{ flatbuffers.Table }

func root(b []byte) table { return table{flatbuffers.Table{Bytes: b, Pos: flatbuffers.GetUOffsetT(b)}} }

// table returns the table that a field refers to; ok is false if it is absent.
func (t table) table(field flatbuffers.VOffsetT) (sub table, ok bool) {
	at := flatbuffers.UOffsetT(t.Offset(field))
	if at != 0 {
		t.Union(&sub.Table, at)
	}
	return sub, at != 0
}

// vector returns where a vector begins, and of how many elements it says to be.
func (t table) vector(field flatbuffers.VOffsetT) (first flatbuffers.UOffsetT, n int) {
	if at := flatbuffers.UOffsetT(t.Offset(field)); at != 0 {
		return t.Vector(at), t.VectorLen(at)
	}
	return 0, 0
}

// element returns table i of a vector of tables.
func (t table) element(first flatbuffers.UOffsetT, i int) table {
	return table{flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(first + flatbuffers.UOffsetT(4*i))}}
}

// bytes returns those of a string, without copying them.
func (t table) bytes(field flatbuffers.VOffsetT) []byte {
	if at := flatbuffers.UOffsetT(t.Offset(field)); at != 0 {
		return t.ByteVector(at + t.Pos)
	}
	return nil
}

func readMessage(file []byte, pos, end int64) (message, error) {
	if pos < 0 || pos%8 != 0 || pos > end-messagePrefix {
		return message{}, corruptf("an Arrow message at %d of %d", pos, end)
	}
	size := int64(binary.LittleEndian.Uint32(file[pos+4:]))
	if binary.LittleEndian.Uint32(file[pos:]) != continuation || size > MaxMetadata || size%8 != 0 ||
		size > end-pos-messagePrefix {
		return message{}, corruptf("an Arrow message of %d bytes at %d of %d", size, pos, end)
	}
	pos += messagePrefix
	m := message{table: root(file[pos : pos+size]), next: pos + size}
	m.kind = m.GetByteSlot(6, 0)
	if version := m.GetInt16Slot(4, 0); version != arrowV5 {
		return message{}, corruptf("an Arrow message of metadata version %d", version)
	}
	return m, nil
}

// checkSchemaMessage checks that the first message says what the footer says.
func checkSchemaMessage(m message, want Type) error {
	schema, ok := m.table.table(8)
	if m.kind != headerSchema || !ok {
		return corruptf("the first Arrow message is not a schema")
	}
	a, err := readSchema(schema)
	if err == nil && !a.Equal(want) {
		err = corruptf("head and footer of the Arrow file have different schemas")
	}
	return err
}

// readSchema reads a schema of one field that is never null.
func readSchema(schema table) (Type, error) {
	endian := schema.GetInt16Slot(4, 0)
	first, fields := schema.vector(6)
	if endian != 0 || fields != 1 {
		return Type{}, corruptf("an Arrow schema with %d fields, endianness %d; expected 1 and 0", fields, endian)
	}
	field := schema.element(first, 0)
	a := Type{Name: string(field.bytes(4))}
	special := specialType(field)
	for depth := 0; ; depth++ {
		kind := field.GetByteSlot(8, 0)
		typ, _ := field.table(10)
		if _, dictionary := field.table(12); dictionary || field.GetByteSlot(6, 0) != 0 {
			return Type{}, corruptf("Arrow field %q is a dictionary or may be null", a.Name)
		}
		first, children := field.vector(14)
		if kind != typeFixedList {
			return a, readElement(&a, kind, typ, children, special)
		}
		n := typ.GetInt32Slot(4, 0)
		if n <= 0 || children != 1 || depth >= MaxDims {
			return Type{}, corruptf("Arrow field %q: a list of size %d with %d children at depth %d", a.Name, n,
				children, depth)
		}
		a.Shape = append(a.Shape, int64(n))
		field = field.element(first, 0)
	}
}

func readElement(a *Type, kind uint8, typ table, children int, special unified.DType) error {
	switch kind {
	case typeInt:
		kind := unified.Unsigned
		if typ.GetByteSlot(6, 0) != 0 {
			kind = unified.Signed
		}
		a.DType = unified.OfKind(kind, int64(typ.GetInt32Slot(4, 0)))
		if special != unified.Invalid && special.Stored() == a.DType {
			a.DType = special
		}
	case typeFloat:
		if p := typ.GetInt16Slot(4, 0); p >= 0 && p < 3 {
			a.DType = unified.OfKind(unified.IEEE, 16<<p)
		}
	case typeLargeUtf8:
		a.Strings = len(a.Shape) == 0
	}
	if children != 0 || a.DType == unified.Invalid && !a.Strings {
		return corruptf("Arrow field %q has type %d, which no khop dataset has", a.Name, kind)
	}
	return nil
}

// specialType looks among a field's first metadata entries for a dtype that Arrow does not know; Invalid if none is
// there.
func specialType(field table) unified.DType {
	first, n := field.vector(16)
	for i := range min(n, 64) {
		kv := field.element(first, i)
		if string(kv.bytes(4)) != dtypeKey {
			continue
		}
		if d, _ := unified.ParseDType(string(kv.bytes(6))); d.Stored() != d {
			return d
		}
	}
	return unified.Invalid
}

// readBatch reads the record batch's message and checks it against the type and the length of the body.
func readBatch(m message, a Type, body int64) (Layout, error) {
	batch, ok := m.table.table(8)
	if m.kind != headerBatch || !ok {
		return Layout{}, corruptf("the second Arrow message is not a record batch")
	}
	l := Layout{Type: a, BodyOffset: m.next, Rows: batch.GetInt64Slot(4, 0)}
	if declared := m.GetInt64Slot(10, 0); declared != body {
		return Layout{}, corruptf("the Arrow record batch has %d bytes, its footer says %d", declared, body)
	}
	if _, compressed := batch.table(10); compressed {
		return Layout{}, corruptf("the Arrow record batch is compressed")
	}
	if err := l.Fit(body); err != nil {
		return Layout{}, err
	}
	return l.readBuffers(batch, body)
}

// Fit checks that the rows can lie in the body at all, so that no product overflows later.
func (l Layout) Fit(body int64) error {
	left := body
	if l.Rows < 0 {
		return corruptf("%d rows", l.Rows)
	}
	if l.Strings {
		if l.Rows > body/8 || (l.Rows+1)*8 > body {
			return corruptf("%d strings in %d bytes", l.Rows, body)
		}
		return nil
	}
	left /= l.DType.Size()
	for _, d := range l.Shape {
		left /= d
	}
	if l.Rows > left {
		return corruptf("%d rows of %v %v in %d bytes", l.Rows, l.Shape, l.DType, body)
	}
	return nil
}

// readBuffers checks the field nodes and buffers and sets where the body's parts lie.
func (l Layout) readBuffers(batch table, body int64) (Layout, error) {
	node, nodes := batch.vector(6)
	buffer, buffers := batch.vector(8)
	pair := func(first flatbuffers.UOffsetT, i int) (a, b int64) {
		first += flatbuffers.UOffsetT(bufferSize * i) // as long as a node
		return batch.GetInt64(first), batch.GetInt64(first + 8)
	}
	l.Bytes = l.Rows * l.RowBytes()
	if l.Strings {
		if buffers != 3 {
			return Layout{}, corruptf("%d Arrow buffers for strings", buffers)
		}
		at, n := pair(buffer, 2)
		if at < (l.Rows+1)*8 || at%8 != 0 || n < 0 || at > body || n > body-at {
			return Layout{}, corruptf("characters at %d + %d of %d bytes", at, n, body)
		}
		l.Data, l.Bytes = at, at+n
	}
	lengths, extents := l.extents()
	if nodes != len(lengths) || buffers != len(extents) {
		return Layout{}, corruptf("%d Arrow nodes and %d buffers, expected %d and %d", nodes, buffers, len(lengths),
			len(extents))
	}
	for i, want := range lengths {
		if n, nulls := pair(node, i); n != want || nulls != 0 {
			return Layout{}, corruptf("an Arrow node of %d values, %d of them null; expected %d and 0", n, nulls, want)
		}
	}
	for i, want := range extents {
		at, n := pair(buffer, i)
		if n != want[1] || n > 0 && at != want[0] || at < 0 || at > body {
			return Layout{}, corruptf("an Arrow buffer at %d + %d, expected %d + %d", at, n, want[0], want[1])
		}
	}
	if roundUp(l.Bytes, bufferAlign) != body {
		return Layout{}, corruptf("%d bytes of elements in an Arrow body of %d", l.Bytes, body)
	}
	return l, nil
}
