package arrow

import (
	"fmt"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/guard"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// The library makes lists as long as a schema says, before it looks whether there is so much: a file of a kilobyte ends
// the program by asking for more memory than there is. So schemas are gone over before the library sees them.

// The fields of schemas that are looked at, as flatbuffers number them.
const (
	footerSchema   = 6
	schemaEndian   = 4
	schemaFields   = 6
	schemaMetadata = 8
	fieldName      = 4
	fieldKind      = 8
	fieldType      = 10
	fieldChildren  = 14
	fieldMetadata  = 16
	pairKey        = 4
	pairValue      = 6
	decimalBits    = 8

	kindDecimal = 7

	maxDepth = 64 // of types within types
	maxParts = 1 << 18
)

// schemaCheck counts what the library will make of a schema. Offsets may lead to the same place many times, so that few
// bytes stand for many things.
type schemaCheck struct {
	parts, text int
}

// checkSchema refuses a schema of which the library would make more than the file has. Panics of flatbuffers are
// guard's.
func checkSchema(raw *source.Raw, stream bool) error {
	if stream {
		message, err := piece(raw, 8, guard.LengthAt(raw, 4))
		if err != nil {
			return err
		}
		t := flatbuffers.Table{Bytes: message, Pos: flatbuffers.GetUOffsetT(message)}
		if t.GetByteSlot(messageKind, 0) != kindSchema {
			return fmt.Errorf("%w: it does not begin with a schema", guard.ErrFormat)
		}
		return checkIn(&t, messageHeader)
	}
	size := guard.LengthAt(raw, raw.Size-10)
	footer, err := piece(raw, raw.Size-10-size, size)
	if err != nil {
		return err
	}
	return checkIn(&flatbuffers.Table{Bytes: footer, Pos: flatbuffers.GetUOffsetT(footer)}, footerSchema)
}

// piece reads a message, or a footer.
func piece(raw *source.Raw, at, n int64) ([]byte, error) {
	if at < 0 || n < 4 || n > maxMessage || n > raw.Size-at {
		return nil, fmt.Errorf("%w: metadata of %d bytes at %d of %d", guard.ErrFormat, n, at, raw.Size)
	}
	b := make([]byte, n)
	_, err := raw.ReadAt(b, at)
	return b, err
}

// checkIn checks the schema in a slot of a table.
func checkIn(t *flatbuffers.Table, slot flatbuffers.VOffsetT) error {
	at := flatbuffers.UOffsetT(t.Offset(slot))
	if at == 0 {
		return fmt.Errorf("%w: it has no schema", guard.ErrFormat)
	}
	s, c := flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(at + t.Pos)}, &schemaCheck{}
	if s.GetInt16Slot(schemaEndian, 0) != 0 {
		return fmt.Errorf("%w: its numbers are big-endian: write it again on a little-endian machine", guard.ErrUnread)
	}
	if err := c.metadata(&s, schemaMetadata); err != nil {
		return err
	}
	return c.each(&s, schemaFields, func(f *flatbuffers.Table) error { return c.field(f, 0) })
}

// each calls take for the tables in a slot.
func (c *schemaCheck) each(t *flatbuffers.Table, slot flatbuffers.VOffsetT, take func(*flatbuffers.Table) error) error {
	at := flatbuffers.UOffsetT(t.Offset(slot))
	if at == 0 {
		return nil
	}
	n := t.VectorLen(at)
	if c.parts += n; n < 0 || n > len(t.Bytes)/4 || c.parts > maxParts {
		return fmt.Errorf("%w: a schema of %d parts in %d bytes", guard.ErrFormat, max(n, c.parts), len(t.Bytes))
	}
	from := t.Vector(at)
	for i := range n {
		p := from + flatbuffers.UOffsetT(4*i)
		if err := take(&flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(p)}); err != nil {
			return err
		}
	}
	return nil
}

func (c *schemaCheck) field(f *flatbuffers.Table, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%w: types within types, deeper than %d", guard.ErrFormat, maxDepth)
	}
	if err := c.string(f, fieldName); err != nil {
		return err
	}
	if err := c.metadata(f, fieldMetadata); err != nil {
		return err
	}
	if err := decimals(f); err != nil {
		return err
	}
	return c.each(f, fieldChildren, func(child *flatbuffers.Table) error { return c.field(child, depth+1) })
}

// decimals refuses those of few bits, which the library does not know, and takes for damage.
func decimals(f *flatbuffers.Table) error {
	at := flatbuffers.UOffsetT(f.Offset(fieldType))
	if f.GetByteSlot(fieldKind, 0) != kindDecimal || at == 0 {
		return nil
	}
	var t flatbuffers.Table
	f.Union(&t, at)
	if n := t.GetInt32Slot(decimalBits, 128); n == 32 || n == 64 {
		name := ""
		if at := flatbuffers.UOffsetT(f.Offset(fieldName)); at != 0 {
			name = string(f.ByteVector(at + f.Pos))
		}
		return fmt.Errorf("%w: %.100q is decimal%d: cast it to decimal128 or float64", guard.ErrUnread, name, n)
	}
	return nil
}

func (c *schemaCheck) metadata(t *flatbuffers.Table, slot flatbuffers.VOffsetT) error {
	return c.each(t, slot, func(pair *flatbuffers.Table) error {
		if err := c.string(pair, pairKey); err != nil {
			return err
		}
		return c.string(pair, pairValue)
	})
}

// string counts a text, which the library copies.
func (c *schemaCheck) string(t *flatbuffers.Table, slot flatbuffers.VOffsetT) error {
	if at := flatbuffers.UOffsetT(t.Offset(slot)); at != 0 {
		c.text += len(t.ByteVector(at + t.Pos))
	}
	if c.text > maxMessage {
		return fmt.Errorf("%w: a schema of %d bytes of text", guard.ErrFormat, c.text)
	}
	return nil
}
