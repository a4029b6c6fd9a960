package tables

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/csv"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/unified"
)

// foldered is a part whose rows have columns that its file does not have: keys of the folders that it lies in, and
// values that are missing where a column of the file is of the type null.
type foldered struct {
	part
	list   []columnar.Field // those of the file, then those of the folders
	void   []bool           // of each column of the file: it has no values, whatever the table says that they are
	keys   []folderKey      // of the other columns
	shadow []folderKey      // keys that are columns of the file, too
}

// withFolders returns a part with the columns that its folders add: fields, one for each key.
func withFolders(p part, keys []folderKey, fields []columnar.Field) part {
	own := p.Fields()
	f := &foldered{part: p, list: slices.Clone(own), void: make([]bool, len(own))}
	for i := range own {
		f.void[i] = own[i].Void && !isCSV(p)
	}
	for i, k := range keys {
		if slices.ContainsFunc(own, func(o columnar.Field) bool { return o.Name == k.name }) {
			f.shadow = append(f.shadow, k)
			continue
		}
		f.keys, f.list = append(f.keys, k), append(f.list, fields[i])
	}
	if keys == nil && !slices.Contains(f.void, true) {
		return p
	}
	return f
}

// isCSV reports whether what a part holds depends on the others of its table.
func isCSV(p part) bool {
	if f, ok := p.(*foldered); ok {
		p = f.part
	}
	_, is := p.(*csv.File)
	return is
}

// keyFields describes the columns that folders add: whole numbers if all values are, else text, and perhaps dates.
func keyFields(inputs []input) (list []columnar.Field) {
	if len(inputs) == 0 {
		return nil
	}
	for i, k := range inputs[0].keys {
		f := columnar.Field{Name: k.name, Width: 1, DType: unified.Int64}
		dates, values := true, false
		for _, in := range inputs {
			k := in.keys[i]
			if k.null {
				f.Gaps = true
				continue
			}
			values = true
			if _, err := strconv.ParseInt(k.value, 10, 64); err != nil {
				f.Text = true
			}
			_, date := columnar.ParseTime(k.value)
			dates = dates && date
		}
		if f.Text || !values {
			f = columnar.Field{Name: k.name, Width: 1, Text: true}
			if dates && values {
				f.Unit = "us"
			}
		}
		list = append(list, f)
	}
	return list
}

// Fields describes the columns. Who reads the file may change how they are read.
func (f *foldered) Fields() []columnar.Field { return f.list }

// Scan yields the rows of some columns, in order, in batches that are valid until the next.
func (f *foldered) Scan(ctx context.Context, want []int, yield func(*columnar.Batch) error) error {
	own := f.part.Fields()
	for i := range own {
		if isCSV(f.part) {
			own[i] = f.list[i]
		} else if own[i].Ragged = f.list[i].Ragged; own[i].Ragged {
			own[i].Bad = f.list[i].Bad
		}
	}
	var inner []int
	for _, w := range want {
		if w < len(own) && !f.void[w] {
			inner = append(inner, w)
		}
	}
	added, out := map[int]columnar.Vector{}, columnar.Batch{}
	return f.part.Scan(ctx, inner, func(b *columnar.Batch) error {
		columns, k := out.Columns[:0], 0
		out = *b
		out.Columns = columns
		for _, w := range want {
			if w < len(own) && !f.void[w] {
				if err := f.agree(b, k, w); err != nil {
					return err
				}
				out.Columns = append(out.Columns, b.Columns[k])
				k++
				continue
			}
			v, err := f.added(w, b.Rows, added[w])
			if err != nil {
				return b.Fail(f.list[w].Name, err)
			}
			added[w] = v
			out.Columns = append(out.Columns, v)
		}
		return yield(&out)
	})
}

// agree refuses a value of a column of the file, the k-th of a batch, that is not the value of the folder.
func (f *foldered) agree(b *columnar.Batch, k, column int) error {
	i := slices.IndexFunc(f.shadow, func(s folderKey) bool { return s.name == f.list[column].Name })
	if i < 0 || f.list[column].List {
		return nil
	}
	for row := range b.Rows {
		if cell, same := f.shadow[i].is(&f.list[column], &b.Columns[k], row); !same {
			return b.Fail(f.list[column].Name, columnar.AtRow(row, fmt.Errorf("a row says %.40q, and the name of its "+
				"folder %.40q: correct either", cell, f.shadow[i].value)))
		}
	}
	return nil
}

// is reports whether the value of a row is that of the folder.
func (k *folderKey) is(f *columnar.Field, v *columnar.Vector, row int) (string, bool) {
	cell, there := f.Cell(v, row)
	if !there || k.null {
		return cell, there != k.null
	}
	if us, ok := columnar.ParseTime(k.value); ok && f.Unit != "" && !f.Text {
		at, ok := source.InUnit(us, "us", f.Unit)
		return cell, ok && cell == strconv.FormatInt(at, 10)
	}
	x, err := strconv.ParseInt(cell, 10, 64)
	y, errOf := strconv.ParseInt(k.value, 10, 64)
	return cell, cell == k.value || err == nil && errOf == nil && x == y
}

// added returns rows of a column that the file does not have, which may be in a vector already.
func (f *foldered) added(column, rows int, v columnar.Vector) (columnar.Vector, error) {
	field, key := &f.list[column], folderKey{null: true}
	if k := column - len(f.void); k >= 0 {
		key = f.keys[k]
	}
	if key.null && field.List && !field.Ragged && !field.DType.IsFloat() && field.Width > 0 {
		return v, columnar.AtRow(0, columnar.ErrListGap)
	}
	cell := f.cell(field, key)
	var out columnar.Vector
	out.Data, out.Texts, out.Offsets = v.Data[:0], v.Texts[:0], v.Offsets[:0]
	for range rows {
		switch {
		case field.Ragged:
		case field.Text && key.null:
			out.Texts = append(out.Texts, nil)
		case field.Text:
			out.Texts = append(out.Texts, []byte(key.value))
		default:
			out.Data = append(out.Data, cell...)
		}
	}
	if field.Ragged {
		out.Offsets = append(out.Offsets, make([]int64, rows+1)...)
	} else if out.Offsets = nil; key.null && !field.List {
		out.Valid = make([]bool, rows)
	}
	return out, nil
}

// cell returns a row of numbers: the value of a key, or a missing one.
func (f *foldered) cell(field *columnar.Field, key folderKey) (row []byte) {
	if field.Text || field.Ragged {
		return nil
	}
	if x, err := strconv.ParseInt(key.value, 10, 64); err == nil && !key.null {
		return binary.LittleEndian.AppendUint64(nil, uint64(x))
	}
	row = make([]byte, field.RowBytes())
	for at := int64(0); at < int64(len(row)); at += field.DType.Size() {
		field.DType.Put(row[at:at+field.DType.Size()], math.NaN())
	}
	return row
}
