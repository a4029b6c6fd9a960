package arrayfile

import "encoding/binary"

// flatbuf reads a FlatBuffers buffer that nobody has checked. The first read that does not fit sets err, and all later
// ones return zeros. Positions are absolute.
type flatbuf struct {
	b   []byte
	err error
}

// fbTable is a table: where it begins, and its vtable. The zero value is an absent table, all of whose fields are
// absent.
type fbTable struct {
	pos    int
	vtable int
	fields int // slots of the vtable
	size   int // bytes of the table itself
}

// fbVector is a vector of n elements.
type fbVector struct{ pos, n int }

func (f *flatbuf) fail(what string) {
	if f.err == nil {
		f.err = corruptf("Arrow metadata: %s", what)
	}
}

// at returns n bytes at pos, or nil with err set.
func (f *flatbuf) at(pos, n int) []byte {
	if f.err != nil {
		return nil
	}
	if pos < 0 || n < 0 || pos > len(f.b)-n {
		f.fail("an offset points outside")
		return nil
	}
	return f.b[pos : pos+n : pos+n]
}

func (f *flatbuf) u8(pos int) uint8 {
	if b := f.at(pos, 1); b != nil {
		return b[0]
	}
	return 0
}

func (f *flatbuf) u16(pos int) uint16 {
	if b := f.at(pos, 2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (f *flatbuf) u32(pos int) uint32 {
	if b := f.at(pos, 4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (f *flatbuf) i64(pos int) int64 {
	if b := f.at(pos, 8); b != nil {
		return int64(binary.LittleEndian.Uint64(b))
	}
	return 0
}

// indirect follows the unsigned offset at pos.
func (f *flatbuf) indirect(pos int) int {
	off := f.u32(pos)
	if f.err == nil && (off == 0 || off > uint32(len(f.b))) {
		f.fail("an offset points outside")
	}
	return pos + int(off&0x7FFFFFFF)
}

func (f *flatbuf) root() fbTable { return f.table(f.indirect(0)) }

// table reads the head of the table at pos.
func (f *flatbuf) table(pos int) fbTable {
	vtable := int64(pos) - int64(int32(f.u32(pos)))
	if f.err != nil {
		return fbTable{}
	}
	if vtable < 0 || vtable > int64(len(f.b)) {
		f.fail("a vtable lies outside")
		return fbTable{}
	}
	t := fbTable{pos: pos, vtable: int(vtable)}
	n := int(f.u16(t.vtable))
	t.size = int(f.u16(t.vtable + 2))
	if f.err == nil && (n < 4 || n%2 != 0 || t.size < 4) {
		f.fail("a vtable is malformed")
	}
	f.at(t.vtable, n)
	f.at(t.pos, t.size)
	if f.err != nil {
		return fbTable{}
	}
	t.fields = (n - 4) / 2
	return t
}

// field returns where field i of width bytes lies; ok is false if it is absent.
func (f *flatbuf) field(t fbTable, i, width int) (pos int, ok bool) {
	if f.err != nil || i >= t.fields {
		return 0, false
	}
	off := int(f.u16(t.vtable + 4 + 2*i))
	if off == 0 {
		return 0, false
	}
	if off < 4 || off+width > t.size {
		f.fail("a field lies outside its table")
		return 0, false
	}
	return t.pos + off, true
}

func (f *flatbuf) fieldU8(t fbTable, i int) uint8 {
	if pos, ok := f.field(t, i, 1); ok {
		return f.u8(pos)
	}
	return 0
}

func (f *flatbuf) fieldI16(t fbTable, i int) int16 {
	if pos, ok := f.field(t, i, 2); ok {
		return int16(f.u16(pos))
	}
	return 0
}

func (f *flatbuf) fieldI32(t fbTable, i int) int32 {
	if pos, ok := f.field(t, i, 4); ok {
		return int32(f.u32(pos))
	}
	return 0
}

func (f *flatbuf) fieldI64(t fbTable, i int) int64 {
	if pos, ok := f.field(t, i, 8); ok {
		return f.i64(pos)
	}
	return 0
}

// fieldTable returns the table that field i refers to; ok is false if it is absent.
func (f *flatbuf) fieldTable(t fbTable, i int) (fbTable, bool) {
	pos, ok := f.field(t, i, 4)
	if !ok {
		return fbTable{}, false
	}
	sub := f.table(f.indirect(pos))
	return sub, f.err == nil
}

// fieldVector returns the vector of elements of width bytes that field i refers to; an absent one is empty.
func (f *flatbuf) fieldVector(t fbTable, i, width int) fbVector {
	pos, ok := f.field(t, i, 4)
	if !ok {
		return fbVector{}
	}
	pos = f.indirect(pos)
	n := f.u32(pos)
	if f.err == nil && int64(n)*int64(width) > int64(len(f.b)-pos-4) {
		f.fail("a vector runs past the end")
	}
	if f.err != nil {
		return fbVector{}
	}
	return fbVector{pos: pos + 4, n: int(n)}
}

// element returns table i of a vector of tables.
func (f *flatbuf) element(v fbVector, i int) fbTable {
	if f.err != nil || i >= v.n {
		f.fail("a vector is too short")
		return fbTable{}
	}
	return f.table(f.indirect(v.pos + 4*i))
}

// fieldBytes returns the bytes of the string that field i refers to, without copying them.
func (f *flatbuf) fieldBytes(t fbTable, i int) []byte {
	v := f.fieldVector(t, i, 1)
	return f.at(v.pos, v.n)
}
