// Package columnar has what files of tables are read as, whatever their format: fields, which describe columns, and
// batches of rows, a vector for each column. Package tables makes graphs of them.
package columnar

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// Field describes a column of a table.
type Field struct {
	Name    string
	Text    bool
	DType   unified.DType // of numbers
	List    bool
	Width   int64  // elements of a row; 1 unless it is a list
	Boolean bool   // the numbers are 0 and 1
	Bad     string // why it cannot be stored; "": it can
	// Unit is that of times, "d" for days; text that has one is dates, which are read as microseconds.
	Unit string
	Odd  OddCell // of text
	// Doubt says that a column of a CSV is text for the sake of some cells; nil: it does not.
	Doubt *Doubt
	// Exponents says that a dataset calls whole numbers of floats as "1e+06".
	Exponents bool
	// Wide is, of decimals of more digits than float64 tells apart, what they are multiplied by to be whole; 0: they
	// are others. Hex says that bytes are spelt as hexadecimal numbers.
	Wide float64
	Hex  bool
	// Gaps says that whole numbers are missing, of a CSV or where somebody looked: where they are stored as numbers,
	// they are float64.
	Gaps bool
	// Big says that some of them are beyond 2^53, which float64 does not hold.
	Big bool
	// Void says that no row has a value, and that the file gives the column no type.
	Void bool
	// Bytes says of text that the file does not call it so: it may be anything. Spell writes bytes as text; nil: they
	// are some.
	Bytes bool
	Spell func(to, value []byte) []byte
	// Decimal reads a value as a number, of a decimal of Parquet; nil: not a decimal.
	Decimal func(value []byte) float64
	// Ragged says that lists are read as they are, of any length (Vector.Offsets), in place of being all as long.
	Ragged bool
}

// spellUUID appends 16 bytes as UUIDs are written.
func spellUUID(to, value []byte) []byte {
	at := 0
	for _, end := range []int{4, 6, 8, 10} {
		to, at = append(hex.AppendEncode(to, value[at:end]), '-'), end
	}
	return hex.AppendEncode(to, value[at:])
}

// OfBytes makes the field one of bytes of fixed length, which are spelt as hexadecimal numbers.
func (f *Field) OfBytes(uuid bool) {
	if f.Text, f.Spell, f.Hex = true, hex.AppendEncode, true; uuid {
		f.Spell, f.Hex = spellUUID, false
	}
}

// OddCell is the first cell of a text that is no whole number, where all others but a tenth are.
type OddCell struct {
	Cell string // "": there is none
	Line int64
}

// Set keeps the first cell.
func (c *OddCell) Set(cell string, line int64) {
	if c.Cell == "" {
		*c = OddCell{strings.Clone(cell), line}
	}
}

// Doubt is what keeps a column of a CSV from being one of numbers or dates: this number of cells of so many.
type Doubt struct {
	Cells, Of int64
	First     OddCell
}

// Packed returns the type that the numbers of the field are laid side by side as.
func (f *Field) Packed() unified.DType {
	if f.Gaps {
		return unified.Float64
	}
	return f.DType
}

// PackedData returns the numbers of a vector as that type.
func (f *Field) PackedData(v *Vector) []byte {
	if !f.Gaps {
		return v.Data
	}
	data := source.Convert(nil, f.DType, unified.Float64, v.Data)
	for i, there := range v.Valid {
		if !there {
			unified.Float64.Put(data[8*i:8*i+8], math.NaN())
		}
	}
	return data
}

// Times reports whether the rows are times, where the column is stored under a name.
func (f *Field) Times(name string) bool {
	return f.Unit != "" || graph.RoleOf(name) == graph.Time && !f.List
}

// Stored returns the type that the numbers of the field are stored as, alone under a name, and the unit of times.
func (f *Field) Stored(name string) (unified.DType, string) {
	switch {
	case f.Times(name) && f.Text:
		return unified.Int64, "us"
	case f.Times(name) && !f.DType.IsFloat():
		return unified.Int64, f.Unit
	}
	return f.DType, f.Unit
}

// LookForGaps takes whole numbers into account for Gaps and Big.
func (f *Field) LookForGaps(v *Vector) {
	f.Gaps = f.Gaps || v.FirstNull() >= 0
	if size := f.DType.Size(); size == 8 && !f.Big {
		for data := v.Data; int64(len(data)) >= size; data = data[size:] {
			if x := f.DType.Float(data); x > 1<<53 || x < -1<<53 {
				f.Big = !v.Null(int(int64(len(v.Data)-len(data))/size)) || f.Big
			}
		}
	}
}

// RowBytes returns the bytes of a row of numbers.
func (f *Field) RowBytes() int64 { return f.DType.Size() * f.Width }

// String says what the field holds, for people.
func (f *Field) String() string {
	switch {
	case f.Bad != "":
		return f.Bad
	case f.Text:
		return "text"
	case f.List:
		return fmt.Sprintf("lists of %d %v", f.Width, f.DType)
	}
	return f.DType.String()
}

// Vector is some consecutive rows of a column.
type Vector struct {
	Data  []byte   // of numbers: little-endian, a row behind the other
	Texts [][]byte // of text
	Valid []bool   // whether there is a value; nil: in every row
	// Offsets are where the elements of each row begin in Data or Texts, and the end of the last; nil unless the lists
	// are ragged.
	Offsets []int64
}

// TextLists is why lists of text are not stored, unless they are read as ragged ones.
const TextLists = "lists of text"

// FirstNull returns the first row without a value; -1: there is none.
func (v *Vector) FirstNull() int { return slices.Index(v.Valid, false) }

// Elements returns what is in the rows of ragged lists, a row each, and their field.
func (v *Vector) Elements(f *Field) (*Vector, *Field) {
	one := *f
	one.List, one.Ragged, one.Width = false, false, 1
	return &Vector{Data: v.Data, Texts: v.Texts}, &one
}

// Null reports whether a row has no value.
func (v *Vector) Null(i int) bool { return v.Valid != nil && !v.Valid[i] }

// Slice returns rows lo to below hi, of a field.
func (v *Vector) Slice(f *Field, lo, hi int) (part Vector) {
	if v.Valid != nil {
		part.Valid = v.Valid[lo:hi]
	}
	switch {
	case v.Offsets != nil:
		part.Data, part.Texts, part.Offsets = v.Data, v.Texts, v.Offsets[lo:hi+1]
	case f.Text:
		part.Texts = v.Texts[lo:hi]
	default:
		part.Data = v.Data[int64(lo)*f.RowBytes() : int64(hi)*f.RowBytes()]
	}
	return part
}

// Batch is some consecutive rows of a table. It is valid until the next.
type Batch struct {
	Rows    int
	Columns []Vector // those that were asked for
	Path    string   // of the file
	Row     int64    // of the first row in the file: from 0, or from 1 for lines of a text
	Lines   []int64  // of texts: the line of each row
	// From returns, of tables side by side, the same rows of the file that a column lies in; nil: it is this one.
	From func(column string) *Batch
}

// At returns what messages call a row.
func (b *Batch) At(i int) int64 {
	if b.Lines != nil {
		return b.Lines[i]
	}
	return b.Row + int64(i)
}

// Fail says of an error which row of the batch it is about.
func (b *Batch) Fail(column string, err error) error {
	if b.From != nil {
		b = b.From(column)
	}
	row := b.At(0)
	var within *RowError
	if errors.As(err, &within) {
		row, err = b.At(within.Row), within.Err
	}
	return source.Error(b.Path, column, row, "", err)
}

// Some returns the rows keep of a batch, in order, whose columns are want of a list.
func (b *Batch) Some(list []Field, want, keep []int) *Batch {
	s := &Batch{Rows: len(keep), Path: b.Path}
	for _, i := range keep {
		s.Lines = append(s.Lines, b.At(i))
	}
	for k, v := range b.Columns {
		size := int(list[want[k]].RowBytes())
		var o Vector
		if v.Offsets != nil {
			o.Offsets = []int64{0}
		}
		for _, i := range keep {
			if v.Offsets != nil {
				o.appendList(&v, i, list[want[k]].DType.Size())
			} else if v.Texts != nil {
				o.Texts = append(o.Texts, v.Texts[i])
			} else {
				o.Data = append(o.Data, v.Data[size*i:size*(i+1)]...)
			}
			if v.Valid != nil {
				o.Valid = append(o.Valid, v.Valid[i])
			}
		}
		s.Columns = append(s.Columns, o)
	}
	return s
}

// appendList appends a row of ragged lists, whose numbers have size bytes.
func (o *Vector) appendList(v *Vector, i int, size int64) {
	lo, hi := v.Offsets[i], v.Offsets[i+1]
	if v.Texts != nil {
		o.Texts = append(o.Texts, v.Texts[lo:hi]...)
	} else {
		o.Data = append(o.Data, v.Data[size*lo:size*hi]...)
	}
	o.Offsets = append(o.Offsets, o.Offsets[len(o.Offsets)-1]+hi-lo)
}

// The bounds of a batch; of the elements of a row; of the columns of a table.
const (
	batchRows  = 1 << 14
	batchBytes = 4 << 20
	MaxWidth   = 1 << 24
	MaxFields  = 1 << 14
)

// RowsOf returns how many rows a batch has, by the bytes of a row.
func RowsOf(rowBytes int64) int64 { return max(1, min(batchRows, batchBytes/max(rowBytes, 1))) }

// Ints appends numbers as int64. NaN, which stands for a missing one, becomes -1, and so does what int64 cannot hold.
func Ints(f *Field, data []byte, to []int64) ([]int64, error) {
	size := f.DType.Size()
	if f.DType == unified.Int64 {
		for ; len(data) >= 8; data = data[8:] {
			to = append(to, int64(binary.LittleEndian.Uint64(data)))
		}
		return to, nil
	}
	if f.DType == unified.Float32 || f.DType == unified.Float64 {
		for i := 0; int64(len(data)) >= size; i, data = i+1, data[size:] {
			y := f.DType.Float(data)
			switch {
			case math.IsNaN(y):
				to = append(to, -1)
			case y != math.Trunc(y) || math.Abs(y) >= 1<<62:
				return nil, AtRow(i, fmt.Errorf("%v is not a whole number", y))
			default:
				to = append(to, int64(y))
			}
		}
		return to, nil
	}
	if f.DType == unified.Float16 {
		return nil, errors.New("float16, where whole numbers are wanted")
	}
	for ; int64(len(data)) >= size; data = data[size:] {
		to = append(to, max(-1, f.DType.Integer(data)))
	}
	return to, nil
}
