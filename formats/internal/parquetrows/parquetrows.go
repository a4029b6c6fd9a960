// Package parquetrows writes columns of a dataset as a Parquet table: a row of several numbers is a list, and floats of
// 16 bits are float32.
package parquetrows

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// batchBytes is how much of a table is written at once, about.
const batchBytes = 16 << 20

// WriterBytes bounds what Arrow's writer takes beside the rows: an encoder of Zstandard for each page, which is garbage
// after it, pages, and levels.
const WriterBytes = 24 << 20

// Field is a column of a table.
type Field struct {
	graph.Column
	Mask bool // of booleans
	// Plain says that integers of 8 and 16 bits are those of 32, and unsigned ones of 64 bits signed.
	Plain bool
	// Times says that int64 of a unit are timestamps, of which those that are missing lack a value. Seconds become
	// milliseconds.
	Times bool
	// Text says that each element is a text behind its length, as binary.AppendUvarint writes it.
	Text bool
}

// Number is a column of whole numbers.
func Number(name string) Field { return Field{Column: graph.Column{Name: name, DType: unified.Int64}} }

// Table is a table being written.
type Table struct {
	Rows   int64 // of a batch
	w      *file.Writer
	to     *output
	fields []Field
}

// output keeps the first error of a writer to itself: Arrow's writer panics at some.
type output struct {
	io.Writer
	err error
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	if o.err == nil {
		_, o.err = o.Writer.Write(p)
	}
	return len(p), nil
}

// New begins a table of columns that have a name each.
func New(w io.Writer, fields []Field) (*Table, error) {
	var nodes schema.FieldList
	rowBytes := int64(0)
	for _, f := range fields {
		n, err := f.node()
		if err != nil {
			return nil, err
		}
		nodes, rowBytes = append(nodes, n), rowBytes+f.RowBytes()
	}
	root, err := schema.NewGroupNode("khop", parquet.Repetitions.Required, nodes, -1)
	if err != nil {
		return nil, err
	}
	props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithDictionaryDefault(false))
	to := &output{Writer: w}
	return &Table{w: file.NewParquetWriter(to, root, file.WithWriterProps(props)), to: to, fields: fields,
		Rows: max(1<<10, min(1<<18, batchBytes/max(rowBytes, 1)))}, to.err
}

// roomy gives a buffer that asks for little more half as much again. Where rows are lists, Arrow's encoder of levels
// asks for 64 bytes more at each of their runs, and would copy them all each time.
type roomy struct{ memory.Allocator }

// Reallocate implements memory.Allocator.
func (r roomy) Reallocate(size int, b []byte) []byte {
	if size > cap(b) && size <= len(b)+64 {
		return r.Allocator.Reallocate(size+size/2, b)[:size]
	}
	return r.Allocator.Reallocate(size, b)
}

// The encoder takes its buffers from a pool that has no other allocator.
func init() { memory.DefaultAllocator = roomy{memory.DefaultAllocator} }

// node describes a column: floating-point numbers of 16 bits are float32; a row of several numbers is a list.
func (f *Field) node() (schema.Node, error) {
	physical, logical := f.types()
	repetition := parquet.Repetitions.Required
	if f.Times {
		repetition = parquet.Repetitions.Optional
	}
	n, err := schema.NewPrimitiveNodeLogical(f.Name, repetition, logical, physical, -1, -1)
	if err != nil || len(f.Shape) == 0 {
		return n, err
	}
	return schema.ListOf(n, parquet.Repetitions.Required, -1)
}

func (f *Field) types() (parquet.Type, schema.LogicalType) {
	whole := func() schema.LogicalType {
		return schema.NewIntLogicalType(int8(8*f.DType.Size()), f.DType.Kind() == unified.Signed)
	}
	switch {
	case f.Mask:
		return parquet.Types.Boolean, schema.NoLogicalType{}
	case f.Text:
		return parquet.Types.ByteArray, schema.StringLogicalType{}
	case f.Times:
		return parquet.Types.Int64, schema.NewTimestampLogicalType(false, timeUnits[f.Unit])
	case f.Plain && !f.DType.IsFloat() && f.DType.Size() < 8:
		return parquet.Types.Int32, schema.NoLogicalType{}
	case f.Plain && !f.DType.IsFloat():
		return parquet.Types.Int64, schema.NoLogicalType{}
	case !f.DType.IsFloat() && f.DType.Size() < 8:
		return parquet.Types.Int32, whole()
	case !f.DType.IsFloat():
		return parquet.Types.Int64, whole()
	case f.DType == unified.Float64:
		return parquet.Types.Double, schema.NoLogicalType{}
	}
	return parquet.Types.Float, schema.NoLogicalType{}
}

// timeUnits are those of timestamps, by the units of columns: Parquet has no seconds.
var timeUnits = map[string]schema.TimeUnitType{"s": schema.TimeUnitMillis, "ms": schema.TimeUnitMillis,
	"us": schema.TimeUnitMicros, "ns": schema.TimeUnitNanos}

// Put writes a batch: the elements of each column.
func (t *Table) Put(columns [][]byte) error {
	rows := t.w.AppendRowGroup()
	for i := range t.fields {
		cw, err := rows.NextColumn()
		if err == nil {
			err = t.fields[i].write(cw, columns[i])
		}
		if err == nil {
			err = cw.Close()
		}
		if err != nil {
			return err
		}
	}
	return cmp.Or(t.to.err, rows.Close())
}

// piece is how many elements are converted at a time: a multiple of what Arrow writes at a time, so that its pages end
// where they would otherwise.
const piece = 1 << 16

// write writes elements.
func (f *Field) write(cw file.ColumnChunkWriter, data []byte) error {
	if f.Text {
		return f.writeTexts(cw, data)
	}
	size := f.DType.Size()
	for from, n := int64(0), int64(len(data))/size; from < n; from += piece {
		if err := f.writePiece(cw, data[from*size:min(from+piece, n)*size], from); err != nil {
			return err
		}
	}
	return nil
}

// writePiece writes elements of which the first has a number in its column.
func (f *Field) writePiece(cw file.ColumnChunkWriter, data []byte, first int64) error {
	n := int64(len(data)) / f.DType.Size()
	var def, rep []int16
	if len(f.Shape) > 0 { // each row is a list: its first element begins it
		def, rep = make([]int16, n), make([]int16, n)
		for i := range def {
			if def[i] = 1; (first+int64(i))%f.Width() != 0 {
				rep[i] = 1
			}
		}
	}
	var err error
	switch w := cw.(type) {
	case *file.Int64ColumnChunkWriter:
		if f.Times {
			return f.writeTimes(w, data)
		}
		_, err = w.WriteBatch(Each(n, func(i int64) int64 { return f.DType.Integer(data[8*i:]) }), def, rep)
	case *file.BooleanColumnChunkWriter:
		_, err = w.WriteBatch(Each(n, func(i int64) bool { return data[i] != 0 }), def, rep)
	case *file.Int32ColumnChunkWriter:
		size := f.DType.Size()
		_, err = w.WriteBatch(Each(n, func(i int64) int32 { return int32(f.DType.Integer(data[i*size:])) }), def, rep)
	case *file.Float64ColumnChunkWriter:
		_, err = w.WriteBatch(Each(n, func(i int64) float64 { return f.DType.Float(data[8*i:]) }), def, rep)
	case *file.Float32ColumnChunkWriter:
		values := make([]float32, n)
		f.DType.Floats(values, data)
		_, err = w.WriteBatch(values, def, rep)
	default:
		err = fmt.Errorf("column %q: no writer of %v", f.Name, f.DType)
	}
	return err
}

// writeTimes writes times. Where one is missing there is no value.
func (f *Field) writeTimes(w *file.Int64ColumnChunkWriter, data []byte) error {
	var values []int64
	var def []int16
	for ; len(data) >= 8; data = data[8:] {
		v := f.DType.Integer(data)
		if v == noTime {
			def = append(def, 0)
			continue
		}
		if f.Unit == "s" {
			if v > math.MaxInt64/1000 || v < math.MinInt64/1000 {
				return fmt.Errorf("column %q: the time %d s is beyond int64 in milliseconds", f.Name, v)
			}
			v *= 1000
		}
		values, def = append(values, v), append(def, 1)
	}
	_, err := w.WriteBatch(values, def, nil)
	return err
}

// noTime is a time that is missing.
const noTime = math.MinInt64

// writeTexts writes texts.
func (f *Field) writeTexts(cw file.ColumnChunkWriter, data []byte) error {
	w, ok := cw.(*file.ByteArrayColumnChunkWriter)
	if !ok {
		return fmt.Errorf("column %q: no writer of texts", f.Name)
	}
	for len(data) > 0 {
		var values []parquet.ByteArray
		for len(data) > 0 && len(values) < piece {
			n, width := binary.Uvarint(data)
			if width <= 0 || n > uint64(len(data)-width) {
				return errors.New("a text is shorter than its length")
			}
			values, data = append(values, data[width:][:n]), data[width+int(n):]
		}
		if _, err := w.WriteBatch(values, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// Each returns n values.
func Each[T any](n int64, at func(i int64) T) []T {
	v := make([]T, n)
	for i := range v {
		v[i] = at(int64(i))
	}
	return v
}

// Close ends the table.
func (t *Table) Close() error {
	err := t.w.Close()
	return cmp.Or(t.to.err, err)
}
