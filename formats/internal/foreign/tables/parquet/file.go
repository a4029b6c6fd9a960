// Package parquet reads tables in Parquet. Footers are parsed by the library; pages are expanded and decoded here, some
// rows at a time, and each value is checked before it is used (pages.go, page_values.go, page_numbers.go).
package parquet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/metadata"
	"github.com/apache/arrow/go/v15/parquet/schema"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/guard"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/unified"
)

// Magic is what a file begins and ends with.
const Magic = "PAR1"

// File is a Parquet file.
type File struct {
	at     source.Place
	budget *source.Budget
	list   []columnar.Field
	leaves []leaf
	count  int64
	groups []int64 // rows of each group
	// first and last bound the groups that are read; last is 0 for all
	first, last int
	unknown     map[int]string // columns of logical types that the library does not know
}

// Open describes a file.
func Open(at source.Place, budget *source.Budget) (*File, error) {
	p := &File{at: at, budget: budget}
	return p, p.describe()
}

// Groups returns the rows of each group.
func (p *File) Groups() []int64 { return p.groups }

// Only returns the file with groups first up to last alone.
func (p *File) Only(first, last int) *File {
	f := *p
	f.first, f.last, f.count = first, last, 0
	for _, rows := range p.groups[first:last] {
		f.count += rows
	}
	return &f
}

// leaf is a column of the file. The schema of one that can be stored is a number or text, or a list of numbers.
type leaf struct {
	column int
	def    int16 // definition level of a value that is there
	inList int16 // that of an element of a list
}

// open opens the file. Every call into the library is within guard.Call.
func (p *File) open() (*openParquet, error) {
	raw, err := p.at.Raw()
	if err != nil {
		return nil, err
	}
	a := guard.NewAllocator(p.budget, raw.Size)
	props := parquet.NewReaderProperties(a)
	r, err := p.newReader(raw, file.WithReadProps(props))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", guard.ErrFormat, err), raw.Close())
	}
	return &openParquet{r, raw, a}, nil
}

// openParquet is an open file.
type openParquet struct {
	*file.Reader
	raw    *source.Raw
	memory *guard.Allocator
}

// close gives back what is open; the library's own Close would close what it was given.
func (r *openParquet) close() {
	r.memory.Close()
	_ = r.raw.Close() // of reading
}

// describe reads the schema.
func (p *File) describe() error {
	return guard.Call(func() error {
		r, err := p.open()
		if err != nil {
			return err
		}
		defer r.close()
		p.count = r.NumRows()
		total := int64(0)
		for i := range r.NumRowGroups() {
			n := r.RowGroup(i).NumRows()
			if n < 0 || total > math.MaxInt64-n {
				return fmt.Errorf("%w: a group of %d rows", guard.ErrFormat, n)
			}
			total += n
			p.groups = append(p.groups, n)
		}
		if total != p.count {
			return fmt.Errorf("%w: %d rows in all, and %d in its groups", guard.ErrFormat, p.count, total)
		}
		s := r.MetaData().Schema
		if s.NumColumns() > columnar.MaxFields {
			return fmt.Errorf("%w: %d columns", guard.ErrFormat, s.NumColumns())
		}
		for i := range s.NumColumns() {
			f, l := describeLeaf(s.Column(i))
			l.column = i
			if what, ok := p.unknown[i]; ok {
				f.Bad, f.List = what, false
			}
			if f.List && f.Bad == "" && p.count > 0 {
				if f.Width, err = p.firstWidth(r, &l); errors.Is(err, guard.ErrUnread) {
					return columnar.InColumn(f.Name, -1, err)
				} else if err != nil {
					f.Bad = err.Error()
				}
			}
			p.list, p.leaves = append(p.list, f), append(p.leaves, l)
		}
		return nil
	})
}

// describeLeaf says what a column is.
func describeLeaf(c *schema.Column) (columnar.Field, leaf) {
	l := leaf{def: c.MaxDefinitionLevel()}
	f := columnar.Field{Name: c.ColumnPath()[0], Width: 1}
	var chain []schema.Node
	for n := c.SchemaNode(); n != nil && n.Parent() != nil; n = n.Parent() {
		chain = append([]schema.Node{n}, chain...)
	}
	lists, several := 0, false
	for _, n := range chain {
		if g, ok := n.(*schema.GroupNode); ok {
			several = several || g.NumFields() > 1
		}
		switch n.RepetitionType() {
		case parquet.Repetitions.Repeated:
			l.inList++
			lists++
		case parquet.Repetitions.Optional:
			if lists == 0 {
				l.inList++
			}
		}
	}
	switch {
	case lists > 1:
		f.Bad = "lists of lists"
	case several, lists == 1 && len(chain) > 3, lists == 0 && len(chain) > 1:
		f.Bad = "records"
	}
	f.List = lists > 0
	if f.Bad == "" {
		f.Bad = physical(&f, c)
	}
	if f.Text && f.List {
		f.Bad = columnar.TextLists
	}
	return f, l
}

// physical sets the type of the values, and returns what is wrong with it.
func physical(f *columnar.Field, c *schema.Column) string {
	logical := c.LogicalType()
	switch logical.(type) {
	case schema.DecimalLogicalType, *schema.DecimalLogicalType:
		f.DType, f.Decimal = unified.Float64, decimalOf(c)
		f.OfDecimals(precisionOf(logical))
		return ""
	case schema.IntervalLogicalType:
		return "intervals"
	case schema.NullLogicalType, *schema.NullLogicalType, schema.UnknownLogicalType, *schema.UnknownLogicalType:
		f.Void = true
	}
	switch c.PhysicalType() {
	case parquet.Types.Boolean:
		f.DType, f.Boolean = unified.Uint8, true
	case parquet.Types.Int32, parquet.Types.Int64:
		narrow := c.PhysicalType() == parquet.Types.Int32
		if f.DType = integerType(narrow, logical); f.DType == unified.Invalid || narrow && f.DType.Size() > 4 {
			return "integers of another size than they are called"
		}
		f.Unit = unitOf(logical)
	case parquet.Types.Int96:
		f.DType, f.Unit = unified.Int64, "ns"
	case parquet.Types.Float:
		f.DType = unified.Float32
	case parquet.Types.Double:
		f.DType = unified.Float64
	case parquet.Types.ByteArray:
		f.Text, f.Bytes = true, !isString(logical)
	case parquet.Types.FixedLenByteArray:
		if _, half := logical.(schema.Float16LogicalType); half && c.TypeLength() == 2 {
			f.DType = unified.Float16
			break
		}
		_, uuid := logical.(schema.UUIDLogicalType)
		f.OfBytes(uuid && c.TypeLength() == 16)
	default:
		return "an unknown type"
	}
	return ""
}

// isString reports whether bytes are called text.
func isString(logical schema.LogicalType) bool {
	switch logical.(type) {
	case schema.StringLogicalType, schema.EnumLogicalType, schema.JSONLogicalType:
		return true
	}
	return false
}

// integerType returns the type of integers.
func integerType(narrow bool, logical schema.LogicalType) unified.DType {
	bits, signed := int8(64), true
	if narrow {
		bits = 32
	}
	if t, ok := logical.(schema.IntLogicalType); ok {
		bits, signed = t.BitWidth(), t.IsSigned()
	} else if t, ok := logical.(*schema.IntLogicalType); ok {
		bits, signed = t.BitWidth(), t.IsSigned()
	}
	if signed {
		return unified.OfKind(unified.Signed, int64(bits))
	}
	return unified.OfKind(unified.Unsigned, int64(bits))
}

// unitOf returns the unit of times; "" of other integers.
func unitOf(logical schema.LogicalType) string {
	unit := schema.TimeUnitUnknown
	switch t := logical.(type) {
	case schema.DateLogicalType:
		return "d"
	case *schema.DateLogicalType:
		return "d"
	case schema.TimestampLogicalType:
		unit = t.TimeUnit()
	case *schema.TimestampLogicalType:
		unit = t.TimeUnit()
	case schema.TimeLogicalType:
		unit = t.TimeUnit()
	case *schema.TimeLogicalType:
		unit = t.TimeUnit()
	}
	return map[schema.TimeUnitType]string{schema.TimeUnitMillis: "ms", schema.TimeUnitMicros: "us",
		schema.TimeUnitNanos: "ns"}[unit]
}

// firstWidth returns how many elements the list of the first row has.
func (p *File) firstWidth(r *openParquet, l *leaf) (int64, error) {
	for g := range r.NumRowGroups() {
		if r.RowGroup(g).NumRows() == 0 {
			continue
		}
		c, err := r.column(r.RowGroup(g), l.column)
		if err != nil {
			return 0, err
		}
		defer c.close()
		d := &decoder{leaf: *l, chunk: c}
		for n := int64(0); ; n++ {
			if n > columnar.MaxWidth {
				return 0, fmt.Errorf("lists of more than %d numbers", columnar.MaxWidth)
			}
			levels, _, err := d.read(1)
			if err != nil {
				return 0, err
			}
			if levels == 0 || n > 0 && d.rep[0] == 0 {
				return n, nil
			}
			if n == 0 && d.def[0] < l.inList {
				return 0, nil // an empty list
			}
		}
	}
	return 0, nil
}

// Fields describes the columns. Who reads the file may change how they are read.
func (p *File) Fields() []columnar.Field { return p.list }

// Rows returns how many rows there are.
func (p *File) Rows() int64 { return p.count }

// Missing returns how many rows have no value in a column, as the file states; -1 where it does not.
func (p *File) Missing(column int) (n int64, err error) {
	if p.leaves[column].def == 0 {
		return 0, nil
	}
	err = p.eachChunk(column, func(c *metadata.ColumnChunkMetaData) error {
		s, err := c.Statistics()
		if n < 0 || err != nil || s == nil || !s.HasNullCount() || s.NullCount() < 0 || s.NullCount() > p.count-n {
			n = -1
			return err
		}
		n += s.NullCount()
		return nil
	})
	return n, err
}

// Even reports whether lists have as many elements in all as if each were as long as the first.
func (p *File) Even(column int) (bool, error) {
	n := int64(0)
	err := p.eachChunk(column, func(c *metadata.ColumnChunkMetaData) error {
		n += min(max(c.NumValues(), 0), math.MaxInt64-n)
		return nil
	})
	width := p.list[column].Width
	return width > 0 && n%width == 0 && n/width == p.count, err
}

// eachChunk calls take for what the file states of a column in each group of rows.
func (p *File) eachChunk(column int, take func(*metadata.ColumnChunkMetaData) error) error {
	return guard.Call(func() error {
		r, err := p.open()
		if err != nil {
			return err
		}
		defer r.close()
		for g := range r.NumRowGroups() {
			c, err := r.RowGroup(g).MetaData().ColumnChunk(p.leaves[column].column)
			if err == nil {
				err = take(c)
			}
			if err != nil {
				return fmt.Errorf("%w: column %q: %w", guard.ErrFormat, p.list[column].Name, err)
			}
		}
		return nil
	})
}

// Scan yields the rows of some columns, in order, in batches that are valid until the next. It may be called again.
func (p *File) Scan(ctx context.Context, want []int, yield func(*columnar.Batch) error) error {
	return guard.Call(func() error {
		r, err := p.open()
		if err != nil {
			return err
		}
		defer r.close()
		row := int64(0)
		for g := range r.NumRowGroups() {
			if p.last > 0 && (g < p.first || g >= p.last) {
				row += r.RowGroup(g).NumRows()
				continue
			}
			if err := p.group(ctx, r, g, want, &row, yield); err != nil {
				return err
			}
		}
		return nil
	})
}

// group yields the rows of a group of rows.
func (p *File) group(ctx context.Context, r *openParquet, g int, want []int, row *int64,
	yield func(*columnar.Batch) error) error {
	rg, width := r.RowGroup(g), int64(0)
	var columns []*decoder
	for _, w := range want {
		c, err := r.column(rg, p.leaves[w].column)
		if errors.Is(err, guard.ErrUnread) {
			return columnar.InColumn(p.list[w].Name, -1, err)
		} else if err != nil {
			return fmt.Errorf("%w: column %q: %w", guard.ErrFormat, p.list[w].Name, err)
		}
		defer c.close()
		columns = append(columns, &decoder{leaf: p.leaves[w], chunk: c, field: &p.list[w]})
		if width += p.list[w].RowBytes() + 8; p.list[w].Text {
			width += 64 + min(c.bytes, 1<<50)/max(rg.NumRows(), 1)
		}
	}
	step := columnar.RowsOf(width)
	b := &columnar.Batch{Path: p.at.Path(), Columns: make([]columnar.Vector, len(want))}
	for left := rg.NumRows(); left > 0; left -= step {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := min(step, left)
		b.Rows, b.Row = int(n), *row
		for i, c := range columns {
			if err := c.next(n, &b.Columns[i]); err != nil {
				return columnar.InColumn(c.field.Name, *row, err)
			}
		}
		if err := yield(b); err != nil {
			return err
		}
		*row += n
	}
	return nil
}

// decoder reads a column of a group of rows.
type decoder struct {
	leaf
	*chunk
	field *columnar.Field

	def, rep []int16
	data     []byte
	texts    [][]byte
	valid    []bool
	bad      error // of a value that the field does not hold, first at badRow
	badRow   int
	ragged   raggedReader
}

// room returns a slice of n elements.
func room[E any](s *[]E, n int64) []E {
	if int64(cap(*s)) < n {
		*s = make([]E, n)
	}
	*s = (*s)[:n]
	return *s
}

// read reads levels, and the values of those that have one. Fewer are the last ones.
func (d *decoder) read(n int64) (levels int64, values int, err error) {
	return d.chunk.read(room(&d.def, n), room(&d.rep, n))
}

// next reads n rows.
func (d *decoder) next(n int64, v *columnar.Vector) error {
	if d.field.Ragged {
		return d.nextLists(n, v)
	}
	want := n * d.field.Width
	if d.field.List && d.field.Width == 0 {
		want = n // each is one level, without a value
	}
	levels, values, err := d.read(want)
	if err != nil {
		return err
	}
	if d.field.List {
		if err := d.sameWidths(levels); err != nil {
			return err
		}
	}
	if levels < want || int64(values) > levels {
		return columnar.AtRow(int(levels/max(d.field.Width, 1)), errors.New("the rows end here: it is cut short"))
	}
	v.Valid = nil
	if d.leaf.def > 0 {
		if err := d.levels(v, values); err != nil {
			return err
		}
	} else if values != int(want) {
		return fmt.Errorf("%w: %d values in %d rows", guard.ErrFormat, values, n)
	}
	return d.fill(v, values)
}

// levels looks at which rows have values.
func (d *decoder) levels(v *columnar.Vector, values int) error {
	present, all := 0, true
	for _, def := range d.def {
		if def == d.leaf.def {
			present++
		} else {
			all = false
		}
	}
	if present != values {
		return fmt.Errorf("%w: %d values, %d levels that say so", guard.ErrFormat, values, present)
	}
	if !all && !d.field.List {
		v.Valid = room(&d.valid, int64(len(d.def)))
		for i, def := range d.def {
			v.Valid[i] = def == d.leaf.def
		}
	} else if !all && d.field.Width > 0 && !d.field.DType.IsFloat() {
		at := slices.IndexFunc(d.def, func(def int16) bool { return def != d.leaf.def })
		return columnar.AtRow(at/int(d.field.Width), columnar.ErrListGap)
	}
	return nil
}

// value returns a value that was read last.
func (d *decoder) value(k int) []byte {
	if d.size == 0 {
		return d.found[k]
	}
	return d.raw[k*d.size : (k+1)*d.size]
}

// text returns a text. It is valid until more is read.
func (d *decoder) text(k int) []byte {
	if d.field.Spell == nil {
		return d.value(k)
	}
	from := len(d.data)
	d.data = d.field.Spell(d.data, d.value(k))
	return d.data[from:len(d.data):len(d.data)]
}

// fill puts the values of a read into a vector, with room for those that are not there.
func (d *decoder) fill(v *columnar.Vector, values int) error {
	at := func(yield func(i int, there bool)) {
		for i := range d.def {
			yield(i, d.leaf.def == 0 || d.def[i] == d.leaf.def)
		}
	}
	if d.field.Text {
		v.Texts, d.data = room(&d.texts, int64(len(d.def))), d.data[:0]
		k := 0
		at(func(i int, there bool) {
			if v.Texts[i] = nil; there {
				v.Texts[i] = d.text(k)
				k++
			}
		})
		return nil
	}
	d.data = d.data[:0]
	if d.field.Width == 0 {
		v.Data = nil
		return nil
	}
	if values == len(d.def) && d.asStored() {
		v.Data = d.raw
		return nil
	}
	k, put, missing := 0, d.put(), make([]byte, d.field.DType.Size())
	d.field.DType.Put(missing, math.NaN())
	d.badRow = -1
	at(func(i int, there bool) {
		if there {
			put(k)
			k++
			if d.bad != nil && d.badRow < 0 {
				d.badRow = i / int(d.field.Width)
			}
			return
		}
		d.data = append(d.data, missing...)
	})
	v.Data = d.data
	if d.bad != nil {
		return columnar.AtRow(d.badRow, d.bad)
	}
	return nil
}

// julianEpoch is the day 1970-01-01 as INT96 counts them, and nanoDays the days that int64 holds in nanoseconds.
const julianEpoch, nanoDays = 2440588, 106751

// asStored reports whether values lie as those of the field's type do.
func (d *decoder) asStored() bool {
	return d.field.Decimal == nil && d.kind != parquet.Types.Int96 && d.field.DType.Size() == int64(d.size)
}

// put returns what appends a value as the field's type.
func (d *decoder) put() func(k int) {
	switch size := d.field.DType.Size(); {
	case d.field.Decimal != nil:
		return func(k int) {
			x := d.field.Decimal(d.value(k))
			d.data = binary.LittleEndian.AppendUint64(d.data, math.Float64bits(x))
		}
	case d.kind == parquet.Types.Int96:
		return func(k int) {
			x := parquet.Int96(d.value(k))
			if days := int64(binary.LittleEndian.Uint32(x[8:])) - julianEpoch; max(days, -days) > nanoDays {
				d.bad = fmt.Errorf("an INT96 of day %d since 1970 is beyond what int64 holds in ns: write it as INT64",
					days)
			}
			d.data = binary.LittleEndian.AppendUint64(d.data, uint64(x.ToTime().UnixNano()))
		}
	default:
		return func(k int) { d.data = append(d.data, d.value(k)[:size]...) }
	}
}
