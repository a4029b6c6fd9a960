package arrayfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

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
func Walk(file []byte) (Layout, error) {
	foot, end, err := findFooter(file)
	if err != nil {
		return Layout{}, err
	}
	f := &flatbuf{b: foot}
	t := f.root()
	version := f.fieldI16(t, 0)
	schema, _ := f.fieldTable(t, 1)
	a, err := readSchema(f, schema)
	if err != nil {
		return Layout{}, err
	}
	dictionaries := f.fieldVector(t, 2, blockSize)
	blocks := f.fieldVector(t, 3, blockSize)
	if f.err != nil {
		return Layout{}, f.err
	}
	if version != arrowV5 || dictionaries.n != 0 || blocks.n != 1 {
		return Layout{}, corruptf("Arrow footer: version %d, %d dictionaries, %d record batches; expected 4, 0 and 1",
			version, dictionaries.n, blocks.n)
	}
	offset, meta, body := f.i64(blocks.pos), int64(int32(f.u32(blocks.pos+8))), f.i64(blocks.pos+16)
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
	f    *flatbuf
	root fbTable
	kind uint8
	next int64
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
	m := message{f: &flatbuf{b: file[pos+messagePrefix : pos+messagePrefix+size]}, next: pos + messagePrefix + size}
	m.root = m.f.root()
	version := m.f.fieldI16(m.root, 0)
	m.kind = m.f.fieldU8(m.root, 1)
	if m.f.err == nil && version != arrowV5 {
		m.f.err = corruptf("an Arrow message of metadata version %d", version)
	}
	return m, m.f.err
}

// checkSchemaMessage checks that the first message says what the footer says.
func checkSchemaMessage(m message, want Type) error {
	schema, ok := m.f.fieldTable(m.root, 2)
	if m.f.err != nil {
		return m.f.err
	}
	if m.kind != headerSchema || !ok {
		return corruptf("the first Arrow message is not a schema")
	}
	a, err := readSchema(m.f, schema)
	if err == nil && !a.Equal(want) {
		err = corruptf("head and footer of the Arrow file have different schemas")
	}
	return err
}

// readSchema reads a schema of one field that is never null.
func readSchema(f *flatbuf, schema fbTable) (Type, error) {
	endian := f.fieldI16(schema, 0)
	fields := f.fieldVector(schema, 1, 4)
	if f.err == nil && (endian != 0 || fields.n != 1) {
		f.err = corruptf("an Arrow schema with %d fields, endianness %d; expected 1 and 0", fields.n, endian)
	}
	if f.err != nil {
		return Type{}, f.err
	}
	field := f.element(fields, 0)
	a := Type{Name: string(f.fieldBytes(field, 0))}
	special := specialType(f, f.fieldVector(field, 6, 4))
	for depth := 0; f.err == nil; depth++ {
		kind := f.fieldU8(field, 2)
		typ, _ := f.fieldTable(field, 3)
		if _, dictionary := f.fieldTable(field, 4); dictionary || f.fieldU8(field, 1) != 0 {
			return Type{}, corruptf("Arrow field %q is a dictionary or may be null", a.Name)
		}
		children := f.fieldVector(field, 5, 4)
		if kind != typeFixedList {
			return a, readElement(f, &a, kind, typ, children, special)
		}
		n := f.fieldI32(typ, 0)
		if f.err == nil && (n <= 0 || children.n != 1 || depth >= MaxDims) {
			return Type{}, corruptf("Arrow field %q: a list of size %d with %d children at depth %d", a.Name, n,
				children.n, depth)
		}
		a.Shape = append(a.Shape, int64(n))
		field = f.element(children, 0)
	}
	return Type{}, f.err
}

func readElement(f *flatbuf, a *Type, kind uint8, typ fbTable, children fbVector,
	special unified.DType) error {
	switch kind {
	case typeInt:
		kind := unified.Unsigned
		if f.fieldU8(typ, 1) != 0 {
			kind = unified.Signed
		}
		a.DType = unified.OfKind(kind, int64(f.fieldI32(typ, 0)))
		if special != unified.Invalid && special.Stored() == a.DType {
			a.DType = special
		}
	case typeFloat:
		if p := f.fieldI16(typ, 0); p >= 0 && p < 3 {
			a.DType = unified.OfKind(unified.IEEE, 16<<p)
		}
	case typeLargeUtf8:
		a.Strings = len(a.Shape) == 0
	}
	if f.err == nil && (children.n != 0 || a.DType == unified.Invalid && !a.Strings) {
		return corruptf("Arrow field %q has type %d, which no khop dataset has", a.Name, kind)
	}
	return f.err
}

// specialType looks among a field's first metadata entries for a dtype that Arrow does not know; Invalid if none is
// there.
func specialType(f *flatbuf, v fbVector) unified.DType {
	for i := 0; i < min(v.n, 64) && f.err == nil; i++ {
		kv := f.element(v, i)
		if string(f.fieldBytes(kv, 0)) != dtypeKey {
			continue
		}
		if d, _ := unified.ParseDType(string(f.fieldBytes(kv, 1))); d.Stored() != d && f.err == nil {
			return d
		}
	}
	return unified.Invalid
}

// readBatch reads the record batch's message and checks it against the type and the length of the body.
func readBatch(m message, a Type, body int64) (Layout, error) {
	batch, ok := m.f.fieldTable(m.root, 2)
	if m.f.err == nil && (m.kind != headerBatch || !ok) {
		m.f.err = corruptf("the second Arrow message is not a record batch")
	}
	l := Layout{Type: a, BodyOffset: m.next, Rows: m.f.fieldI64(batch, 0)}
	if declared := m.f.fieldI64(m.root, 3); m.f.err == nil && declared != body {
		m.f.err = corruptf("the Arrow record batch has %d bytes, its footer says %d", declared, body)
	}
	nodes, buffers := m.f.fieldVector(batch, 1, nodeSize), m.f.fieldVector(batch, 2, bufferSize)
	if _, compressed := m.f.fieldTable(batch, 3); m.f.err == nil && compressed {
		m.f.err = corruptf("the Arrow record batch is compressed")
	}
	if m.f.err != nil {
		return Layout{}, m.f.err
	}
	if err := l.Fit(body); err != nil {
		return Layout{}, err
	}
	return l.readBuffers(m.f, nodes, buffers, body)
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
func (l Layout) readBuffers(f *flatbuf, nodes, buffers fbVector, body int64) (Layout, error) {
	l.Bytes = l.Rows * l.RowBytes()
	if l.Strings {
		if buffers.n != 3 {
			return Layout{}, corruptf("%d Arrow buffers for strings", buffers.n)
		}
		at, n := f.i64(buffers.pos+2*bufferSize), f.i64(buffers.pos+2*bufferSize+8)
		if at < (l.Rows+1)*8 || at%8 != 0 || n < 0 || at > body || n > body-at {
			return Layout{}, corruptf("characters at %d + %d of %d bytes", at, n, body)
		}
		l.Data, l.Bytes = at, at+n
	}
	lengths, extents := l.extents()
	if nodes.n != len(lengths) || buffers.n != len(extents) {
		return Layout{}, corruptf("%d Arrow nodes and %d buffers, expected %d and %d", nodes.n, buffers.n, len(lengths),
			len(extents))
	}
	for i, want := range lengths {
		if n, nulls := f.i64(nodes.pos+nodeSize*i), f.i64(nodes.pos+nodeSize*i+8); n != want || nulls != 0 {
			return Layout{}, corruptf("an Arrow node of %d values, %d of them null; expected %d and 0", n, nulls, want)
		}
	}
	for i, want := range extents {
		at, n := f.i64(buffers.pos+bufferSize*i), f.i64(buffers.pos+bufferSize*i+8)
		if n != want[1] || n > 0 && at != want[0] || at < 0 || at > body {
			return Layout{}, corruptf("an Arrow buffer at %d + %d, expected %d + %d", at, n, want[0], want[1])
		}
	}
	if roundUp(l.Bytes, bufferAlign) != body {
		return Layout{}, corruptf("%d bytes of elements in an Arrow body of %d", l.Bytes, body)
	}
	return l, f.err
}
