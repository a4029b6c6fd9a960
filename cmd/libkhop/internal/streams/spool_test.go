package streams

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/khop-gnn/khop/internal/expect"
)

// encoded makes an array of texts and nils in one of the ways in which libraries hand texts on.
func encoded(r *rand.Rand, texts []any) arrow.Array {
	var b array.Builder
	mem := memory.DefaultAllocator
	switch r.IntN(7) {
	case 0:
		b = array.NewStringBuilder(mem)
	case 1:
		b = array.NewLargeStringBuilder(mem)
	case 2:
		b = array.NewStringViewBuilder(mem)
	case 3:
		b = array.NewBinaryViewBuilder(mem)
	case 4:
		b = array.NewBuilder(mem, &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint8,
			ValueType: arrow.BinaryTypes.String})
	case 5:
		return indexed(texts)
	default:
		return runs(r, texts)
	}
	for _, t := range texts {
		switch b := b.(type) {
		case *array.BinaryViewBuilder: // which knows no text of binary
			if t == nil {
				b.AppendNull()
			} else {
				b.AppendString(t.(string))
			}
		default:
			if t == nil {
				b.AppendNull()
			} else if err := b.AppendValueFromString(t.(string)); err != nil {
				panic(err)
			}
		}
	}
	return b.NewArray()
}

// indexed makes a dictionary of views of texts, as polars does, with a value that nobody refers to.
func indexed(texts []any) arrow.Array {
	mem := memory.DefaultAllocator
	values, indices := array.NewStringViewBuilder(mem), array.NewInt32Builder(mem)
	values.Append("nobody")
	seen := map[any]int32{}
	for _, t := range texts {
		if _, there := seen[t]; !there && t != nil {
			seen[t] = int32(1 + len(seen))
			values.Append(t.(string))
		}
		if t == nil {
			indices.AppendNull()
		} else {
			indices.Append(seen[t])
		}
	}
	return array.NewDictionaryArray(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32,
		ValueType: arrow.BinaryTypes.StringView}, indices.NewArray(), values.NewArray())
}

// runs makes an array of runs of texts and nils.
func runs(r *rand.Rand, texts []any) arrow.Array {
	ends := []arrow.DataType{arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64}
	b := array.NewRunEndEncodedBuilder(memory.DefaultAllocator, ends[r.IntN(3)], arrow.BinaryTypes.String)
	values := b.ValueBuilder().(*array.StringBuilder)
	for i := 0; i < len(texts); {
		n := 1
		for i+n < len(texts) && texts[i+n] == texts[i] {
			n++
		}
		b.Append(uint64(n))
		if texts[i] == nil {
			values.AppendNull()
		} else {
			values.Append(texts[i].(string))
		}
		i += n
	}
	return b.NewArray()
}

// counted makes an array of numbers and nils, plain or as a dictionary.
func counted(r *rand.Rand, numbers []any) arrow.Array {
	var b array.Builder = array.NewInt32Builder(memory.DefaultAllocator)
	if r.IntN(2) == 0 {
		b = array.NewBuilder(memory.DefaultAllocator, &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8,
			ValueType: arrow.PrimitiveTypes.Int32})
	}
	for _, v := range numbers {
		if v == nil {
			b.AppendNull()
		} else if err := b.AppendValueFromString(fmt.Sprint(v)); err != nil {
			panic(err)
		}
	}
	return b.NewArray()
}

// listed makes lists, of equal or any length, of the elements.
func listed(r *rand.Rand, elements arrow.Array, width, rows int) arrow.Array {
	offsets, valid := make([]int32, rows+1), make([]byte, (rows+7)/8)
	for i := range rows {
		offsets[i+1] = int32((i + 1) * width)
		valid[i/8] |= 1 << (i % 8)
	}
	if r.IntN(2) == 0 {
		return arrayOf(arrow.FixedSizeListOf(int32(width), elements.DataType()), rows, 0, valid, nil, elements.Data())
	}
	return arrayOf(arrow.ListOf(elements.DataType()), rows, 0, valid, arrow.Int32Traits.CastToBytes(offsets),
		elements.Data())
}

// draw returns n drawn values, of which some are nil, and some follow one another.
func draw(r *rand.Rand, n int, value func() any) []any {
	list := make([]any, n)
	for i := range list {
		switch {
		case i > 0 && r.IntN(3) == 0:
			list[i] = list[i-1]
		case r.IntN(6) > 0:
			list[i] = value()
		}
	}
	return list
}

// spelt returns the rows of a file, as texts.
func spelt(t *testing.T, path string) (rows []string) {
	f := expect.Must(os.Open(path))(t)
	defer f.Close()
	r := expect.Must(ipc.NewFileReader(f))(t)
	for k := range r.NumRecords() {
		batch := expect.Must(r.Record(k))(t)
		for i := range int(batch.NumRows()) {
			var cells []string
			for c := range batch.Columns() {
				cells = append(cells, cell(batch.Column(c), i))
			}
			rows = append(rows, strings.Join(cells, "|"))
		}
	}
	return rows
}

// cell returns a value as text.
func cell(a arrow.Array, i int) string {
	if a.IsNull(i) {
		return "-"
	}
	if l, ok := a.(array.ListLike); ok {
		lo, hi := l.ValueOffsets(i)
		var parts []string
		for k := lo; k < hi; k++ {
			parts = append(parts, cell(l.ListValues(), int(k)))
		}
		return strings.Join(parts, ",")
	}
	if text := textAt(a); text != nil {
		return text(i)
	}
	return a.ValueStr(i)
}

// A file has the rows of a stream, however texts and numbers are encoded, and wherever its batches are cut.
func TestAFileHasTheRowsOfItsStream(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 1))
	for range 300 {
		rows, width := 1+r.IntN(60), 1+r.IntN(3)
		texts := draw(r, rows, func() any { return strings.Repeat("x", r.IntN(20)) + fmt.Sprint(r.IntN(4)) })
		numbers := draw(r, rows, func() any { return int32(r.IntN(100) - 50) })
		elements := draw(r, rows*width, func() any { return fmt.Sprint(r.IntN(9)) })
		columns := []arrow.Array{encoded(r, texts), counted(r, numbers), listed(r, encoded(r, elements), width, rows)}
		var fields []arrow.Field
		for i, c := range columns {
			fields = append(fields, arrow.Field{Name: fmt.Sprint(i), Type: c.DataType(), Nullable: true})
		}
		schema := arrow.NewSchema(fields, nil)
		whole := array.NewRecord(schema, columns, int64(rows))

		var want []string
		text := func(v any) string {
			if v == nil {
				return "-"
			}
			return fmt.Sprint(v)
		}
		for i := range rows {
			var list []string
			for _, e := range elements[i*width : (i+1)*width] {
				list = append(list, text(e))
			}
			want = append(want, text(texts[i])+"|"+text(numbers[i])+"|"+strings.Join(list, ","))
		}
		path := filepath.Join(t.TempDir(), "rows.arrow")
		s := expect.Must(New(path, schema))(t)
		for at := 0; at < rows; {
			n := 1 + r.IntN(rows-at)
			expect.OK(t, s.Put(whole.NewSlice(int64(at), int64(at+n))))
			at += n
		}
		expect.OK(t, s.Close())
		got := spelt(t, path)
		expect.Ensure(t, slices.Equal(got, want), "%v: %v, not %v", schema, got, want)
	}
}

// Batches of a file are some megabytes at most, however large a record is, so that reading one takes no more.
func TestLargeRecordsAreWrittenAsSmallBatches(t *testing.T) {
	b := array.NewFixedSizeListBuilder(memory.DefaultAllocator, 1<<10, arrow.PrimitiveTypes.Float32)
	b.ValueBuilder().(*array.Float32Builder).AppendValues(make([]float32, 4000<<10), nil)
	for range 4000 {
		b.Append(true)
	}
	list := b.NewArray()
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: list.DataType()}}, nil)
	path := filepath.Join(t.TempDir(), "rows.arrow")
	s := expect.Must(New(path, schema))(t)
	expect.OK(t, s.Put(array.NewRecord(schema, []arrow.Array{list}, 4000)), s.Close())
	f := expect.Must(os.Open(path))(t)
	defer f.Close()
	r, rows := expect.Must(ipc.NewFileReader(f))(t), int64(0)
	for k := range r.NumRecords() {
		n := expect.Must(r.Record(k))(t).NumRows()
		expect.That(t, n<<12 <= sliceBytes, "a batch of %d rows, %d bytes", n, n<<12)
		rows += n
	}
	expect.That(t, rows == 4000, "%d rows", rows)
}

// A type that no reader would understand is refused by the name of its column, and leaves no file.
func TestTypesThatAreNotKeptAreNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.arrow")
	for _, kind := range []arrow.DataType{arrow.ListViewOf(arrow.PrimitiveTypes.Int8), &arrow.DictionaryType{
		IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.ListOf(arrow.PrimitiveTypes.Int8)}} {
		_, err := New(path, arrow.NewSchema([]arrow.Field{{Name: "odd", Type: kind}}, nil))
		expect.That(t, err != nil && strings.Contains(err.Error(), `"odd"`), "%v: %v", kind, err)
		_, err = os.Stat(path)
		expect.That(t, os.IsNotExist(err), "%v leaves a file: %v", kind, err)
	}
}
