package tables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/unified"
)

const (
	arrowMagic  = "ARROW1"
	streamMagic = "\xff\xff\xff\xff"
)

// arrowFile is a file or a stream of Arrow.
type arrowFile struct {
	at     source.Place
	budget *source.Budget
	stream bool
	list   []field
	count  int64
	schema *arrow.Schema
	// how many batches there are; of a stream less than -1
	batches int
	lie     [][2]int // of each column the first node and buffer, where batches are read by rows; nil: as a whole
}

// open calls do with the file open.
func (f *arrowFile) open(do func(raw *source.Raw, a *allocator) error) error {
	return guard(func() error {
		raw, err := f.at.Raw()
		if err != nil {
			return err
		}
		defer raw.Close()
		if err := checkSchema(raw, f.stream); err != nil {
			return err
		}
		a := newAllocator(f.budget, raw.Size)
		defer a.close()
		return do(raw, a)
	})
}

// records calls take for each batch of records, with the number of its first row.
func (f *arrowFile) records(ctx context.Context, take func(r arrow.Record, row int64) error) error {
	var memory *allocator
	err := f.open(func(raw *source.Raw, a *allocator) error {
		memory = a
		next, err := f.reader(io.NewSectionReader(raw, 0, raw.Size), a)
		if err != nil {
			return damaged(err)
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
				return damaged(err)
			}
			if r.NumRows() < 0 {
				return fmt.Errorf("%w: a batch of %d rows", ErrFormat, r.NumRows())
			}
			if err := take(r, row); err != nil {
				return err
			}
			row += r.NumRows()
		}
	})
	if memory != nil && memory.err != nil { // which the library may have made another error of
		return source.Error(f.at.Path(), "", -1, "or write it again, without compression and dictionaries or in "+
			"smaller batches", fmt.Errorf("a batch of records is read as a whole: %w", memory.err))
	}
	return err
}

// reader returns what reads a batch of records, which is valid until the next.
func (f *arrowFile) reader(section *io.SectionReader, a *allocator) (func() (arrow.Record, error), error) {
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
func (f *arrowFile) describe(ctx context.Context) error {
	err := f.open(func(raw *source.Raw, a *allocator) error {
		if _, err := f.reader(io.NewSectionReader(raw, 0, raw.Size), a); err != nil {
			return damaged(err)
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
			if l := &f.list[i]; first && r.NumRows() > 0 && l.list && l.width == 0 && l.bad == "" {
				lo, hi := bounds(r.Column(i), 0)
				if l.width = hi - lo; l.width > maxWidth {
					l.bad = fmt.Sprintf("lists of more than %d numbers", maxWidth)
				}
			}
		}
		first = first && r.NumRows() == 0
		f.count = row + r.NumRows()
		return nil
	})
}

func describeSchema(s *arrow.Schema) ([]field, error) {
	if s.NumFields() > maxFields {
		return nil, fmt.Errorf("%d columns", s.NumFields())
	}
	list := []field{}
	for i := range s.NumFields() {
		list = append(list, describeArrow(s.Field(i)))
	}
	return list, nil
}

func describeArrow(a arrow.Field) field {
	f := field{name: a.Name, width: 1}
	t := a.Type
	switch l := t.(type) {
	case *arrow.FixedSizeListType:
		if f.list, f.width, t = true, int64(l.Len()), l.Elem(); f.width < 0 || f.width > maxWidth {
			f.bad = fmt.Sprintf("lists of %d numbers", f.width)
			return f
		}
	case *arrow.ListType:
		f.list, f.width, t = true, 0, l.Elem()
	case *arrow.LargeListType:
		f.list, f.width, t = true, 0, l.Elem()
	case *arrow.DictionaryType:
		t = l.ValueType
		if f.text = isText(t); !f.text {
			f.bad = "a dictionary of " + t.Name()
		}
		return f
	}
	fixed, ofBytes := t.(*arrow.FixedSizeBinaryType)
	if f.text = isText(t); ofBytes {
		name, _ := a.Metadata.GetValue("ARROW:extension:name")
		f.ofBytes(name == "arrow.uuid" && fixed.ByteWidth == 16)
	}
	if f.text {
		if f.bytes = t.ID() == arrow.BINARY || t.ID() == arrow.LARGE_BINARY; f.list {
			f.bad = textLists
		}
		return f
	}
	f.boolean = t.ID() == arrow.BOOL
	if d, ok := t.(arrow.DecimalType); ok {
		f.ofDecimals(int(d.GetPrecision()), int(d.GetScale()))
	}
	if f.dtype, f.unit = numberOf(t); f.dtype == unified.Invalid {
		f.bad = a.Type.Name()
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

func (f *arrowFile) fields() []field { return f.list }
func (f *arrowFile) rows() int64     { return f.count }

// scan implements table.
func (f *arrowFile) scan(ctx context.Context, want []int, yield func(*batch) error) error {
	var fields []field
	width := int64(0)
	for _, w := range want {
		fields = append(fields, f.list[w])
		width += f.list[w].rowBytes() + 8
	}
	step := int(rowsOf(width))
	if f.lie != nil && !slices.ContainsFunc(fields, func(l field) bool { return l.ragged }) {
		return f.scanRows(ctx, want, fields, step, yield)
	}
	return f.records(ctx, func(r arrow.Record, row int64) error {
		n := int(r.NumRows())
		for lo := 0; lo < n; lo += step {
			hi := min(lo+step, n)
			b := &batch{rows: hi - lo, path: f.at.Path(), row: row + int64(lo)}
			for i, w := range want {
				v, err := vectorOf(r.Column(w), &fields[i], lo, hi)
				if err != nil {
					return &columnError{fields[i].name, b.row, err}
				}
				b.columns = append(b.columns, v)
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
func vectorOf(a arrow.Array, f *field, lo, hi int) (v vector, err error) {
	if a.Len() < hi {
		return v, fmt.Errorf("%w: %d rows, not %d", ErrFormat, a.Len(), hi)
	}
	if a.NullN() > 0 {
		v.valid = make([]bool, hi-lo)
		for i := range v.valid {
			v.valid[i] = a.IsValid(lo + i)
		}
	}
	switch {
	case f.ragged:
		return listsOf(a, f, lo, hi)
	case f.text:
		v.texts = make([][]byte, hi-lo)
		for i := range v.texts {
			if !v.null(i) {
				v.texts[i] = f.textAt(a, lo+i)
			}
		}
	case f.list:
		if i := firstNull(v.valid); i >= 0 {
			return v, &rowError{i, errors.New("the list is missing")}
		}
		from, _ := bounds(a, lo)
		end := from
		for i := lo; i < hi; i++ {
			at, to := bounds(a, i)
			if at != end || to-at != f.width {
				return v, &rowError{i - lo, fmt.Errorf("the list has %d numbers, and that of the first row %d", to-at,
					f.width)}
			}
			end = to
		}
		v.valid = nil
		values := a.(array.ListLike).ListValues()
		if values.NullN() > 0 && !f.dtype.IsFloat() {
			for k := from; k < end; k++ {
				if values.IsNull(int(k)) {
					return v, &rowError{int((k - from) / f.width), errListGap}
				}
			}
		}
		v.data, err = numbers(values, f.dtype, from, end)
	default:
		v.data, err = numbers(a, f.dtype, int64(lo), int64(hi))
	}
	return v, err
}

// listsOf copies rows of lists of any length. A list that is missing has no elements.
func listsOf(a arrow.Array, f *field, lo, hi int) (v vector, err error) {
	values := a.(array.ListLike).ListValues()
	v.offsets = []int64{0}
	for i := lo; i < hi; i++ {
		if a.IsValid(i) {
			from, to := bounds(a, i)
			for k := from; k < to; k++ {
				if values.IsNull(int(k)) {
					return v, &rowError{i - lo, errors.New("an element of the list is missing")}
				}
				if f.text {
					v.texts = append(v.texts, f.textAt(values, int(k)))
				}
			}
			if !f.text {
				data, err := numbers(values, f.dtype, from, to)
				if err != nil {
					return v, err
				}
				v.data = append(v.data, data...)
			}
			v.offsets = append(v.offsets, v.offsets[len(v.offsets)-1]+to-from)
			continue
		}
		v.offsets = append(v.offsets, v.offsets[len(v.offsets)-1])
	}
	return v, nil
}

func firstNull(valid []bool) int {
	for i, ok := range valid {
		if !ok {
			return i
		}
	}
	return -1
}

// textAt returns a text of a column.
func (f *field) textAt(a arrow.Array, i int) []byte {
	if f.spell != nil {
		return f.spell(nil, textAt(a, i))
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
		return nil, fmt.Errorf("%w: numbers without data", ErrFormat)
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
