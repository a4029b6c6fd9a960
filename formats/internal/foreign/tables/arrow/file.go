// Package arrow reads tables in Arrow: files, streams and Feather 2. Batches of records that are not compressed are
// read some rows at a time (rows.go); others as a whole. Schemas are walked before the library sees them (schema.go).
package arrow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/guard"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/unified"
)

const (
	arrowMagic  = "ARROW1"
	streamMagic = "\xff\xff\xff\xff"
)

// File is a file or a stream of Arrow.
type File struct {
	at     source.Place
	budget *source.Budget
	stream bool
	list   []columnar.Field
	count  int64
	schema *arrow.Schema
	// how many batches there are; of a stream less than -1
	batches int
	lie     [][2]int // of each column the first node and buffer, where batches are read by rows; nil: as a whole
}

// Open describes a file whose first bytes are head.
func Open(ctx context.Context, at source.Place, budget *source.Budget, head []byte) (*File, error) {
	f := &File{at: at, budget: budget, stream: !bytes.HasPrefix(head, []byte(arrowMagic))}
	return f, f.describe(ctx)
}

// Is reports whether a file begins as one of Arrow.
func Is(head []byte) bool {
	return bytes.HasPrefix(head, []byte(arrowMagic)) || bytes.HasPrefix(head, []byte(streamMagic))
}

// open calls do with the file open.
func (f *File) open(do func(raw *source.Raw, a *guard.Allocator) error) error {
	return guard.Call(func() error {
		raw, err := f.at.Raw()
		if err != nil {
			return err
		}
		defer raw.Close()
		if err := checkSchema(raw, f.stream); err != nil {
			return err
		}
		a := guard.NewAllocator(f.budget, raw.Size)
		defer a.Close()
		return do(raw, a)
	})
}

// records calls take for each batch of records, with the number of its first row.
func (f *File) records(ctx context.Context, take func(r arrow.Record, row int64) error) error {
	var memory *guard.Allocator
	err := f.open(func(raw *source.Raw, a *guard.Allocator) error {
		memory = a
		next, err := f.reader(io.NewSectionReader(raw, 0, raw.Size), a)
		if err != nil {
			return guard.Damaged(err)
		}
		for row := int64(0); ; {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			r, err := next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return guard.Damaged(err)
			}
			if r.NumRows() < 0 {
				return fmt.Errorf("%w: a batch of %d rows", guard.ErrFormat, r.NumRows())
			}
			if err := take(r, row); err != nil {
				return err
			}
			row += r.NumRows()
		}
	})
	if memory != nil && memory.Err != nil { // which the library may have made another error of
		return source.Error(f.at.Path(), "", -1, "or write it again, without compression and dictionaries or in "+
			"smaller batches", fmt.Errorf("a batch of records is read as a whole: %w", memory.Err))
	}
	return err
}

// reader returns what reads a batch of records, which is valid until the next.
func (f *File) reader(section *io.SectionReader, a *guard.Allocator) (func() (arrow.Record, error), error) {
	var r interface {
		Schema() *arrow.Schema
		Read() (arrow.Record, error)
	}
	var err error
	batches := -2
	if f.stream {
		r, err = ipc.NewReader(section, ipc.WithAllocator(a))
	} else {
		var file *ipc.FileReader
		if file, err = ipc.NewFileReader(section, ipc.WithAllocator(a)); err == nil {
			r, batches = file, file.NumRecords()
		}
	}
	if err != nil {
		return nil, err
	}
	if f.list == nil {
		f.schema, f.lie, f.batches = r.Schema(), places(r.Schema()), batches
		f.list, err = describeSchema(r.Schema())
	}
	return r.Read, err
}

// describe reads the schema, and counts the rows.
func (f *File) describe(ctx context.Context) error {
	err := f.open(func(raw *source.Raw, a *guard.Allocator) error {
		if _, err := f.reader(io.NewSectionReader(raw, 0, raw.Size), a); err != nil {
			return guard.Damaged(err)
		}
		if f.lie == nil {
			return nil
		}
		plain, err := f.describeRows(ctx, raw, a)
		if !plain {
			f.lie, f.count = nil, 0
		}
		return err
	})
	if err != nil || f.lie != nil {
		return err
	}
	first := true
	return f.records(ctx, func(r arrow.Record, row int64) error {
		for i := range f.list {
			if l := &f.list[i]; first && r.NumRows() > 0 && l.List && l.Width == 0 && l.Bad == "" {
				lo, hi := bounds(r.Column(i), 0)
				if l.Width = hi - lo; l.Width > columnar.MaxWidth {
					l.Bad = fmt.Sprintf("lists of more than %d numbers", columnar.MaxWidth)
				}
			}
		}
		first = first && r.NumRows() == 0
		f.count = row + r.NumRows()
		return nil
	})
}

func describeSchema(s *arrow.Schema) ([]columnar.Field, error) {
	if s.NumFields() > columnar.MaxFields {
		return nil, fmt.Errorf("%d columns", s.NumFields())
	}
	list := []columnar.Field{}
	for i := range s.NumFields() {
		list = append(list, describeArrow(s.Field(i)))
	}
	return list, nil
}

func describeArrow(a arrow.Field) columnar.Field {
	f := columnar.Field{Name: a.Name, Width: 1}
	t := a.Type
	switch l := t.(type) {
	case *arrow.FixedSizeListType:
		if f.List, f.Width, t = true, int64(l.Len()), l.Elem(); f.Width < 0 || f.Width > columnar.MaxWidth {
			f.Bad = fmt.Sprintf("lists of %d numbers", f.Width)
			return f
		}
	case *arrow.ListType:
		f.List, f.Width, t = true, 0, l.Elem()
	case *arrow.LargeListType:
		f.List, f.Width, t = true, 0, l.Elem()
	case *arrow.DictionaryType:
		t = l.ValueType
		if f.Text = isText(t); !f.Text {
			f.Bad = "a dictionary of " + t.Name()
		}
		return f
	}
	fixed, ofBytes := t.(*arrow.FixedSizeBinaryType)
	if f.Text = isText(t); ofBytes {
		name, _ := a.Metadata.GetValue("ARROW:extension:name")
		f.OfBytes(name == "arrow.uuid" && fixed.ByteWidth == 16)
	}
	if f.Text {
		if f.Bytes = t.ID() == arrow.BINARY || t.ID() == arrow.LARGE_BINARY; f.List {
			f.Bad = columnar.TextLists
		}
		return f
	}
	f.Boolean = t.ID() == arrow.BOOL
	if d, ok := t.(arrow.DecimalType); ok {
		f.OfDecimals(int(d.GetPrecision()), int(d.GetScale()))
	}
	if f.DType, f.Unit = numberOf(t); f.DType == unified.Invalid {
		f.Bad, f.Void = a.Type.Name(), t.ID() == arrow.NULL && !f.List
	}
	return f
}

func isText(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.STRING, arrow.LARGE_STRING, arrow.BINARY, arrow.LARGE_BINARY:
		return true
	}
	return false
}

// numberOf returns the type that numbers of a type are read as, and the unit of times.
func numberOf(t arrow.DataType) (unified.DType, string) {
	switch t := t.(type) {
	case *arrow.BooleanType:
		return unified.Uint8, ""
	case arrow.DecimalType:
		return unified.Float64, ""
	case *arrow.Date32Type:
		return unified.Int32, "d"
	case *arrow.Date64Type:
		return unified.Int64, "ms"
	case *arrow.Time32Type:
		return unified.Int32, t.Unit.String()
	case *arrow.Time64Type:
		return unified.Int64, t.Unit.String()
	case *arrow.TimestampType:
		return unified.Int64, t.Unit.String()
	case *arrow.DurationType:
		return unified.Int64, t.Unit.String()
	}
	d, _ := unified.ParseDType(t.Name())
	return d, ""
}

// Fields describes the columns. Who reads the file may change how they are read.
func (f *File) Fields() []columnar.Field { return f.list }

// Rows returns how many rows there are.
func (f *File) Rows() int64 { return f.count }

// Scan yields the rows of some columns, in order, in batches that are valid until the next. It may be called again.
func (f *File) Scan(ctx context.Context, want []int, yield func(*columnar.Batch) error) error {
	var fields []columnar.Field
	width := int64(0)
	for _, w := range want {
		fields = append(fields, f.list[w])
		width += f.list[w].RowBytes() + 8
	}
	step := int(columnar.RowsOf(width))
	if f.lie != nil && !slices.ContainsFunc(fields, func(l columnar.Field) bool { return l.Ragged }) {
		return f.scanRows(ctx, want, fields, step, yield)
	}
	return f.records(ctx, func(r arrow.Record, row int64) error {
		n := int(r.NumRows())
		for lo := 0; lo < n; lo += step {
			hi := min(lo+step, n)
			b := &columnar.Batch{Rows: hi - lo, Path: f.at.Path(), Row: row + int64(lo)}
			for i, w := range want {
				v, err := vectorOf(r.Column(w), &fields[i], lo, hi)
				if err != nil {
					return columnar.InColumn(fields[i].Name, b.Row, err)
				}
				b.Columns = append(b.Columns, v)
			}
			if err := yield(b); err != nil {
				return err
			}
		}
		return nil
	})
}

// bounds returns where the elements of a list lie.
func bounds(a arrow.Array, i int) (lo, hi int64) {
	return a.(array.ListLike).ValueOffsets(i)
}

// vectorOf copies rows of an array.
func vectorOf(a arrow.Array, f *columnar.Field, lo, hi int) (v columnar.Vector, err error) {
	if a.Len() < hi {
		return v, fmt.Errorf("%w: %d rows, not %d", guard.ErrFormat, a.Len(), hi)
	}
	if a.NullN() > 0 {
		v.Valid = make([]bool, hi-lo)
		for i := range v.Valid {
			v.Valid[i] = a.IsValid(lo + i)
		}
	}
	switch {
	case f.Ragged:
		return listsOf(a, f, lo, hi)
	case f.Text:
		v.Texts = make([][]byte, hi-lo)
		for i := range v.Texts {
			if !v.Null(i) {
				v.Texts[i] = spelt(f, a, lo+i)
			}
		}
	case f.List:
		if i := v.FirstNull(); i >= 0 {
			return v, columnar.AtRow(i, errors.New("the list is missing"))
		}
		from, _ := bounds(a, lo)
		end := from
		for i := lo; i < hi; i++ {
			at, to := bounds(a, i)
			if at != end || to-at != f.Width {
				return v, columnar.AtRow(i-lo, fmt.Errorf("the list has %d numbers, and that of the first row %d",
					to-at, f.Width))
			}
			end = to
		}
		v.Valid = nil
		values := a.(array.ListLike).ListValues()
		if values.NullN() > 0 && !f.DType.IsFloat() {
			for k := from; k < end; k++ {
				if values.IsNull(int(k)) {
					return v, columnar.AtRow(int((k-from)/f.Width), columnar.ErrListGap)
				}
			}
		}
		v.Data, err = numbers(values, f.DType, from, end)
	default:
		v.Data, err = numbers(a, f.DType, int64(lo), int64(hi))
	}
	return v, err
}

// listsOf copies rows of lists of any length. A list that is missing has no elements.
func listsOf(a arrow.Array, f *columnar.Field, lo, hi int) (v columnar.Vector, err error) {
	values := a.(array.ListLike).ListValues()
	v.Offsets = []int64{0}
	for i := lo; i < hi; i++ {
		if a.IsValid(i) {
			from, to := bounds(a, i)
			for k := from; k < to; k++ {
				if values.IsNull(int(k)) {
					return v, columnar.AtRow(i-lo, errors.New("an element of the list is missing"))
				}
				if f.Text {
					v.Texts = append(v.Texts, spelt(f, values, int(k)))
				}
			}
			if !f.Text {
				data, err := numbers(values, f.DType, from, to)
				if err != nil {
					return v, err
				}
				v.Data = append(v.Data, data...)
			}
			v.Offsets = append(v.Offsets, v.Offsets[len(v.Offsets)-1]+to-from)
			continue
		}
		v.Offsets = append(v.Offsets, v.Offsets[len(v.Offsets)-1])
	}
	return v, nil
}

// spelt returns a text of a column.
func spelt(f *columnar.Field, a arrow.Array, i int) []byte {
	if f.Spell != nil {
		return f.Spell(nil, textAt(a, i))
	}
	return textAt(a, i)
}

// textAt returns a string, valid as long as the record.
func textAt(a arrow.Array, i int) []byte {
	switch a := a.(type) {
	case *array.String:
		return []byte(a.Value(i))
	case *array.LargeString:
		return []byte(a.Value(i))
	case *array.Binary:
		return a.Value(i)
	case *array.LargeBinary:
		return a.Value(i)
	case *array.FixedSizeBinary:
		return a.Value(i)
	case *array.Dictionary:
		return textAt(a.Dictionary(), a.GetValueIndex(i))
	}
	panic("text of an unknown type")
}

// numbers returns the bytes of numbers lo up to hi. Floats that are missing are NaN.
func numbers(a arrow.Array, d unified.DType, lo, hi int64) ([]byte, error) {
	if b, ok := a.(*array.Boolean); ok {
		out := make([]byte, hi-lo)
		for i := range out {
			if a.IsValid(int(lo)+i) && b.Value(int(lo)+i) {
				out[i] = 1
			}
		}
		return out, nil
	}
	if t, ok := a.DataType().(arrow.DecimalType); ok {
		return arrowDecimals(a, t.GetScale(), lo, hi)
	}
	size, data := d.Size(), a.Data()
	if len(data.Buffers()) < 2 || data.Buffers()[1] == nil {
		if hi == lo {
			return nil, nil
		}
		return nil, fmt.Errorf("%w: numbers without data", guard.ErrFormat)
	}
	from := size * (int64(data.Offset()) + lo)
	out := append([]byte(nil), data.Buffers()[1].Bytes()[from:from+size*(hi-lo)]...)
	if a.NullN() > 0 {
		for i := lo; i < hi; i++ {
			if a.IsNull(int(i)) {
				d.Put(out[(i-lo)*size:(i-lo+1)*size], math.NaN())
			}
		}
	}
	return out, nil
}
