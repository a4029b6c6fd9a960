package formats

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/unified"
)

// walk finds the one array of an Arrow IPC file. It reads the head and the footer, checks every offset against the
// file, and does not touch the body. It works in memory that does not depend on the file.
func walk(file []byte) (layout, error) {
	foot, end, err := findFooter(file)
	if err != nil {
		return layout{}, err
	}
	f := &flatbuf{b: foot}
	t := f.root()
	version := f.fieldI16(t, 0)
	schema, _ := f.fieldTable(t, 1)
	a, err := readSchema(f, schema)
	if err != nil {
		return layout{}, err
	}
	dictionaries := f.fieldVector(t, 2, blockSize)
	blocks := f.fieldVector(t, 3, blockSize)
	if f.err != nil {
		return layout{}, f.err
	}
	if version != arrowV5 || dictionaries.n != 0 || blocks.n != 1 {
		return layout{}, corruptf("Arrow footer: version %d, %d dictionaries, %d record batches; expected 4, 0 and 1",
			version, dictionaries.n, blocks.n)
	}
	offset, meta, body := f.i64(blocks.pos), int64(int32(f.u32(blocks.pos+8))), f.i64(blocks.pos+16)
	first, err := readMessage(file, firstMessage, end)
	if err != nil {
		return layout{}, err
	}
	if err := checkSchemaMessage(first, a); err != nil {
		return layout{}, err
	}
	if offset != first.next {
		return layout{}, corruptf("Arrow footer: the record batch is said to be at %d, not at %d", offset, first.next)
	}
	batch, err := readMessage(file, offset, end)
	if err != nil {
		return layout{}, err
	}
	if batch.next-offset != meta || body < 0 || body%8 != 0 || body > end-batch.next {
		return layout{}, corruptf("Arrow footer: the record batch takes %d + %d bytes, the file has %d + %d", meta,
			body, batch.next-offset, end-batch.next)
	}
	return readBatch(batch, a, body)
}

// findFooter returns the footer's bytes and where what precedes it ends.
func findFooter(file []byte) (foot []byte, end int64, err error) {
	n := len(file)
	if n < firstMessage+footerSuffix || !bytes.Equal(file[:firstMessage], []byte(arrowMagic+"\x00\x00")) {
		return nil, 0, corruptf("not an Arrow file")
	}
	if string(file[n-len(arrowMagic):]) != arrowMagic {
		return nil, 0, corruptf("the Arrow file does not end as one: it was cut short")
	}
	size := int64(binary.LittleEndian.Uint32(file[n-footerSuffix:]))
	end = int64(n-footerSuffix) - size
	if size > maxMetadata || end < firstMessage {
		return nil, 0, corruptf("an Arrow footer of %d bytes", size)
	}
	return file[end : n-footerSuffix], end, nil
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
	if binary.LittleEndian.Uint32(file[pos:]) != continuation || size > maxMetadata || size%8 != 0 ||
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
func checkSchemaMessage(m message, want arrayType) error {
	schema, ok := m.f.fieldTable(m.root, 2)
	if m.f.err != nil {
		return m.f.err
	}
	if m.kind != headerSchema || !ok {
		return corruptf("the first Arrow message is not a schema")
	}
	a, err := readSchema(m.f, schema)
	if err == nil && !a.equal(want) {
		err = corruptf("head and footer of the Arrow file have different schemas")
	}
	return err
}

func (a arrayType) equal(b arrayType) bool {
	return a.name == b.name && a.dtype == b.dtype && a.strings == b.strings && slices.Equal(a.shape, b.shape)
}

// readSchema reads a schema of one field that is never null.
func readSchema(f *flatbuf, schema fbTable) (arrayType, error) {
	endian := f.fieldI16(schema, 0)
	fields := f.fieldVector(schema, 1, 4)
	if f.err == nil && (endian != 0 || fields.n != 1) {
		f.err = corruptf("an Arrow schema with %d fields, endianness %d; expected 1 and 0", fields.n, endian)
	}
	if f.err != nil {
		return arrayType{}, f.err
	}
	field := f.element(fields, 0)
	a := arrayType{name: string(f.fieldBytes(field, 0))}
	bf16 := hasKey(f, f.fieldVector(field, 6, 4), dtypeKey, unified.BFloat16.String())
	for depth := 0; f.err == nil; depth++ {
		kind := f.fieldU8(field, 2)
		typ, _ := f.fieldTable(field, 3)
		if _, dictionary := f.fieldTable(field, 4); dictionary || f.fieldU8(field, 1) != 0 {
			return arrayType{}, corruptf("Arrow field %q is a dictionary or may be null", a.name)
		}
		children := f.fieldVector(field, 5, 4)
		if kind != typeFixedList {
			return a, readElement(f, &a, kind, typ, children, bf16)
		}
		n := f.fieldI32(typ, 0)
		if f.err == nil && (n <= 0 || children.n != 1 || depth >= maxNestedLists) {
			return arrayType{}, corruptf("Arrow field %q: a list of size %d with %d children at depth %d", a.name, n,
				children.n, depth)
		}
		a.shape = append(a.shape, int64(n))
		field = f.element(children, 0)
	}
	return arrayType{}, f.err
}

func readElement(f *flatbuf, a *arrayType, kind uint8, typ fbTable, children fbVector, bf16 bool) error {
	switch kind {
	case typeInt:
		a.dtype = intType(f.fieldI32(typ, 0), f.fieldU8(typ, 1) != 0)
		if bf16 && a.dtype == unified.Uint16 {
			a.dtype = unified.BFloat16
		}
	case typeFloat:
		if p := f.fieldI16(typ, 0); p >= 0 && int(p) < len(floatTypes) {
			a.dtype = floatTypes[p]
		}
	case typeLargeUtf8:
		a.strings = len(a.shape) == 0
	}
	if f.err == nil && (children.n != 0 || a.dtype == unified.Invalid && !a.strings) {
		return corruptf("Arrow field %q has type %d, which no khop dataset has", a.name, kind)
	}
	return f.err
}

// intType returns the dtype of an Arrow integer; Invalid where there is none.
func intType(bits int32, signed bool) unified.DType {
	name := fmt.Sprintf("int%d", bits)
	if !signed {
		name = "u" + name
	}
	d, _ := unified.ParseDType(name)
	return d
}

// hasKey looks among a field's first metadata entries.
func hasKey(f *flatbuf, v fbVector, key, value string) bool {
	for i := 0; i < min(v.n, 64) && f.err == nil; i++ {
		kv := f.element(v, i)
		if string(f.fieldBytes(kv, 0)) == key && string(f.fieldBytes(kv, 1)) == value {
			return f.err == nil
		}
	}
	return false
}

// readBatch reads the record batch's message and checks it against the type and the length of the body.
func readBatch(m message, a arrayType, body int64) (layout, error) {
	batch, ok := m.f.fieldTable(m.root, 2)
	if m.f.err == nil && (m.kind != headerBatch || !ok) {
		m.f.err = corruptf("the second Arrow message is not a record batch")
	}
	l := layout{arrayType: a, bodyOffset: m.next, rows: m.f.fieldI64(batch, 0)}
	if declared := m.f.fieldI64(m.root, 3); m.f.err == nil && declared != body {
		m.f.err = corruptf("the Arrow record batch has %d bytes, its footer says %d", declared, body)
	}
	nodes, buffers := m.f.fieldVector(batch, 1, nodeSize), m.f.fieldVector(batch, 2, bufferSize)
	if _, compressed := m.f.fieldTable(batch, 3); m.f.err == nil && compressed {
		m.f.err = corruptf("the Arrow record batch is compressed")
	}
	if m.f.err != nil {
		return layout{}, m.f.err
	}
	if err := l.fit(body); err != nil {
		return layout{}, err
	}
	return l.readBuffers(m.f, nodes, buffers, body)
}

// fit checks that the rows can lie in the body at all, so that no product overflows later.
func (l layout) fit(body int64) error {
	left := body
	if l.rows < 0 {
		return corruptf("%d rows", l.rows)
	}
	if l.strings {
		if l.rows > body/8 || (l.rows+1)*8 > body {
			return corruptf("%d strings in %d bytes", l.rows, body)
		}
		return nil
	}
	left /= l.dtype.Size()
	for _, d := range l.shape {
		left /= d
	}
	if l.rows > left {
		return corruptf("%d rows of %v %v in %d bytes", l.rows, l.shape, l.dtype, body)
	}
	return nil
}

// readBuffers checks the field nodes and buffers and sets where the body's parts lie.
func (l layout) readBuffers(f *flatbuf, nodes, buffers fbVector, body int64) (layout, error) {
	l.bytes = l.rows * l.rowBytes()
	if l.strings {
		if buffers.n != 3 {
			return layout{}, corruptf("%d Arrow buffers for strings", buffers.n)
		}
		at, n := f.i64(buffers.pos+2*bufferSize), f.i64(buffers.pos+2*bufferSize+8)
		if at < (l.rows+1)*8 || at%8 != 0 || n < 0 || at > body || n > body-at {
			return layout{}, corruptf("characters at %d + %d of %d bytes", at, n, body)
		}
		l.data, l.bytes = at, at+n
	}
	lengths, extents := l.extents()
	if nodes.n != len(lengths) || buffers.n != len(extents) {
		return layout{}, corruptf("%d Arrow nodes and %d buffers, expected %d and %d", nodes.n, buffers.n, len(lengths),
			len(extents))
	}
	for i, want := range lengths {
		if n, nulls := f.i64(nodes.pos+nodeSize*i), f.i64(nodes.pos+nodeSize*i+8); n != want || nulls != 0 {
			return layout{}, corruptf("an Arrow node of %d values, %d of them null; expected %d and 0", n, nulls, want)
		}
	}
	for i, want := range extents {
		at, n := f.i64(buffers.pos+bufferSize*i), f.i64(buffers.pos+bufferSize*i+8)
		if n != want[1] || n > 0 && at != want[0] || at < 0 || at > body {
			return layout{}, corruptf("an Arrow buffer at %d + %d, expected %d + %d", at, n, want[0], want[1])
		}
	}
	if roundUp(l.bytes, bufferAlign) != body {
		return layout{}, corruptf("%d bytes of elements in an Arrow body of %d", l.bytes, body)
	}
	return l, f.err
}
