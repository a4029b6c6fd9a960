package parquet

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/metadata"
	"github.com/apache/thrift/lib/go/thrift"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/guard"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// The library ends with a panic at a logical type that is newer than it. Such a file is opened with a copy of its
// footer that lacks these types; the columns are then known by their numbers.

// The numbers of logical types in footers, and what the newest are called.
const lastLogical = 15

var newLogical = map[int16]string{16: "variant", 17: "geometry", 18: "geography"}

// newReader opens the file by the library.
func (p *File) newReader(raw *source.Raw, opts ...file.ReadOption) (*file.Reader, error) {
	section := io.NewSectionReader(raw, 0, raw.Size)
	r, known, err := tryReader(section, opts...)
	if known {
		return r, err
	}
	size := guard.LengthAt(raw, raw.Size-8)
	if size < 0 || size > min(raw.Size-8, maxFooter) {
		return nil, fmt.Errorf("a footer of %d bytes", size)
	}
	old := make([]byte, size)
	if _, err := raw.ReadAt(old, raw.Size-8-size); err != nil {
		return nil, err
	}
	c, buf := &footerCopy{unknown: map[int]string{}, leaf: -1}, thrift.NewTMemoryBuffer()
	in := thrift.NewTMemoryBuffer()
	if _, err := in.Write(old); err != nil {
		return nil, err
	}
	c.in, c.out = thrift.NewTCompactProtocolConf(in, nil), thrift.NewTCompactProtocolConf(buf, nil)
	if err := c.structure(inFooter, 0); err != nil {
		return nil, err
	}
	if err := c.out.Flush(context.Background()); err != nil {
		return nil, err
	}
	meta, err := metadata.NewFileMetaData(buf.Bytes(), nil)
	if err != nil {
		return nil, err
	}
	p.unknown = c.unknown
	return file.NewParquetReader(section, append(opts, file.WithMetadata(meta))...)
}

// maxFooter is the most bytes of a footer that is copied.
const maxFooter = 256 << 20

// tryReader opens a file; known is false where it has a logical type that the library does not know.
func tryReader(in *io.SectionReader, opts ...file.ReadOption) (r *file.Reader, known bool, err error) {
	defer func() {
		if x := recover(); x == "invalid logical type" {
			known = false
		} else if x != nil {
			panic(x)
		}
	}()
	r, err = file.NewParquetReader(in, opts...)
	return r, true, err
}

// footerCopy copies a footer without logical types that the library does not know.
type footerCopy struct {
	in, out thrift.TProtocol
	leaf    int            // the number of the next column; -1 before the root
	unknown map[int]string // the types left out, by column; of a group by its first one
}

// Where in a footer a struct is.
const (
	inFooter = iota
	inSchema
	inElement
	elsewhere

	footerDepth   = 64
	footerSchemas = 2  // field of the footer: the elements of the schema
	elementCount  = 5  // field of an element: the number of its children
	elementType   = 10 // field of an element: its logical type
)

// structure copies a struct.
func (c *footerCopy) structure(where, depth int) error {
	ctx, group := context.Background(), false
	if depth > footerDepth {
		return fmt.Errorf("structs within structs, deeper than %d", footerDepth)
	}
	if _, err := c.in.ReadStructBegin(ctx); err != nil {
		return err
	}
	if err := c.out.WriteStructBegin(ctx, ""); err != nil {
		return err
	}
	for {
		_, kind, id, err := c.in.ReadFieldBegin(ctx)
		if err != nil {
			return err
		}
		if kind == thrift.STOP {
			break
		}
		if where == inElement && id == elementType && kind == thrift.STRUCT {
			err = c.logical()
		} else if where == inElement && id == elementCount && kind == thrift.I32 {
			var n int32
			if n, err = c.in.ReadI32(ctx); err == nil {
				group = n > 0
				err = errors.Join(c.out.WriteFieldBegin(ctx, "", kind, id), c.out.WriteI32(ctx, n))
			}
		} else {
			inner := elsewhere
			if where == inFooter && id == footerSchemas {
				inner = inSchema
			}
			if err = c.out.WriteFieldBegin(ctx, "", kind, id); err == nil {
				err = c.value(kind, inner, depth)
			}
		}
		if err != nil {
			return err
		}
	}
	if where == inElement && (!group || c.leaf < 0) {
		c.leaf++
	}
	if err := c.out.WriteFieldStop(ctx); err != nil {
		return err
	}
	if err := c.out.WriteStructEnd(ctx); err != nil {
		return err
	}
	return c.in.ReadStructEnd(ctx)
}

// logical copies the logical type of an element of the schema, or leaves it out.
func (c *footerCopy) logical() error {
	ctx := context.Background()
	if _, err := c.in.ReadStructBegin(ctx); err != nil {
		return err
	}
	for first := true; ; first = false {
		_, kind, id, err := c.in.ReadFieldBegin(ctx)
		if err != nil {
			return err
		}
		if kind == thrift.STOP {
			return c.in.ReadStructEnd(ctx)
		}
		if !first || id < 1 || id == 9 || id > lastLogical {
			name := newLogical[id]
			if name == "" {
				name = fmt.Sprintf("a logical type of the number %d", id)
			}
			c.unknown[max(c.leaf, 0)] = name
			if err := thrift.SkipDefaultDepth(ctx, c.in, kind); err != nil {
				return err
			}
			continue
		}
		for _, write := range []func() error{
			func() error { return c.out.WriteFieldBegin(ctx, "", thrift.STRUCT, elementType) },
			func() error { return c.out.WriteStructBegin(ctx, "") },
			func() error { return c.out.WriteFieldBegin(ctx, "", kind, id) },
			func() error { return c.value(kind, elsewhere, 0) },
			func() error { return c.out.WriteFieldStop(ctx) },
			func() error { return c.out.WriteStructEnd(ctx) },
		} {
			if err := write(); err != nil {
				return err
			}
		}
	}
}

// value copies a value.
func (c *footerCopy) value(kind thrift.TType, where, depth int) error {
	ctx := context.Background()
	switch kind {
	case thrift.BOOL:
		return copied(ctx, c.in.ReadBool, c.out.WriteBool)
	case thrift.BYTE:
		return copied(ctx, c.in.ReadByte, c.out.WriteByte)
	case thrift.I16:
		return copied(ctx, c.in.ReadI16, c.out.WriteI16)
	case thrift.I32:
		return copied(ctx, c.in.ReadI32, c.out.WriteI32)
	case thrift.I64:
		return copied(ctx, c.in.ReadI64, c.out.WriteI64)
	case thrift.DOUBLE:
		return copied(ctx, c.in.ReadDouble, c.out.WriteDouble)
	case thrift.STRING:
		return copied(ctx, c.in.ReadBinary, c.out.WriteBinary)
	case thrift.STRUCT:
		return c.structure(where, depth+1)
	case thrift.LIST:
		of, n, err := c.in.ReadListBegin(ctx)
		if err != nil {
			return err
		}
		if where == inSchema {
			where = inElement
		}
		if err := c.out.WriteListBegin(ctx, of, n); err != nil {
			return err
		}
		for range n {
			if err := c.value(of, where, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("a value of the kind %v in the footer", kind)
}

// copied reads and writes a value.
func copied[T any](ctx context.Context, read func(context.Context) (T, error), write func(context.Context, T) error,
) error {
	v, err := read(ctx)
	if err == nil {
		err = write(ctx, v)
	}
	return err
}

// Noted returns what the footer of a file notes under a key; "" for nothing, and where the file cannot be read, of
// which reading its rows says what is wrong.
func Noted(at source.Place, budget *source.Budget, key string) (text string, _ error) {
	err := guard.Call(func() error {
		r, err := (&File{at: at, budget: budget}).open()
		if err != nil {
			return nil //nolint:nilerr // as the comment says
		}
		defer r.close()
		if v := r.MetaData().KeyValueMetadata().FindValue(key); v != nil {
			text = *v
		}
		return nil
	})
	return text, err
}
