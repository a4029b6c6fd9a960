package parquet

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"
	"github.com/pierrec/lz4/v4"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/expect"
)

// written is a column of a drawn file: its encoding, and what is in its rows; nil where nothing is.
type written struct {
	encoding parquet.Encoding
	dict     bool
	values   []any
}

// drawn returns the rows of a column.
func drawn(r *rand.Rand, rows int, one func() any) (w written) {
	gaps := r.IntN(2) == 0
	for range rows {
		if gaps && r.IntN(3) == 0 {
			w.values = append(w.values, nil)
		} else if n := len(w.values); n > 0 && r.IntN(2) == 0 {
			w.values = append(w.values, w.values[n-1]) // runs
		} else {
			w.values = append(w.values, one())
		}
	}
	return w
}

// write writes the columns, all of which may lack values.
func write(t *testing.T, r *rand.Rand, columns []written) []byte {
	t.Helper()
	var fields schema.FieldList
	props := []parquet.WriterProperty{parquet.WithDataPageSize(int64(1 + r.IntN(300))), parquet.WithBatchSize(7),
		parquet.WithDataPageVersion([]parquet.DataPageVersion{parquet.DataPageV1, parquet.DataPageV2}[r.IntN(2)])}
	for i, c := range columns {
		name, kind := fmt.Sprint("c", i), parquet.Types.Int64
		for _, v := range c.values {
			switch v.(type) {
			case int32:
				kind = parquet.Types.Int32
			case bool:
				kind = parquet.Types.Boolean
			case string:
				kind = parquet.Types.ByteArray
			}
		}
		node := expect.Must(schema.NewPrimitiveNode(name, parquet.Repetitions.Optional, kind, -1, -1))(t)
		fields = append(fields, node)
		props = append(props, parquet.WithEncodingFor(name, c.encoding), parquet.WithDictionaryFor(name, c.dict))
	}
	var out bytes.Buffer
	root := expect.Must(schema.NewGroupNode("schema", parquet.Repetitions.Required, fields, -1))(t)
	w := file.NewParquetWriter(&out, root, file.WithWriterProps(parquet.NewWriterProperties(props...)))
	g := w.AppendRowGroup()
	for _, c := range columns {
		chunk := expect.Must(g.NextColumn())(t)
		err := writeColumn(chunk, c.values)
		expect.Ensure(t, err == nil, "%v, dictionary %v: %v", c.encoding, c.dict, err)
		expect.OK(t, chunk.Close())
	}
	expect.OK(t, w.Close())
	return out.Bytes()
}

// writeColumn writes the values of a column.
func writeColumn(to file.ColumnChunkWriter, values []any) (err error) {
	var def []int16
	var i32 []int32
	var i64 []int64
	var bools []bool
	var texts []parquet.ByteArray
	for _, v := range values {
		def = append(def, 1)
		switch v := v.(type) {
		case nil:
			def[len(def)-1] = 0
		case int32:
			i32 = append(i32, v)
		case int64:
			i64 = append(i64, v)
		case bool:
			bools = append(bools, v)
		case string:
			texts = append(texts, parquet.ByteArray(v))
		}
	}
	switch to := to.(type) {
	case *file.Int32ColumnChunkWriter:
		_, err = to.WriteBatch(i32, def, nil)
	case *file.Int64ColumnChunkWriter:
		_, err = to.WriteBatch(i64, def, nil)
	case *file.BooleanColumnChunkWriter:
		_, err = to.WriteBatch(bools, def, nil)
	case *file.ByteArrayColumnChunkWriter:
		_, err = to.WriteBatch(texts, def, nil)
	}
	return err
}

// TestPagesHoldWhatWasWritten has the library write drawn columns, plain and by dictionaries. What it writes in other
// encodings is wrong at times: TestEachEncodingOfPagesHoldsTheSame has those of another library.
func TestPagesHoldWhatWasWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 5))
	for range 40 {
		rows := 1 + r.IntN(400)
		var columns []written
		add := func(e parquet.Encoding, dict bool, one func() any) {
			w := drawn(r, rows, one)
			w.encoding, w.dict = e, dict
			columns = append(columns, w)
		}
		narrow := func() any { return []int32{math.MinInt32, math.MaxInt32, int32(r.IntN(100)), r.Int32()}[r.IntN(4)] }
		wide := func() any { return []int64{math.MinInt64, math.MaxInt64, r.Int64N(100), r.Int64()}[r.IntN(4)] }
		text := func() any { return strings.Repeat("ab", r.IntN(9)) + fmt.Sprint(r.IntN(50)) }
		add(parquet.Encodings.Plain, false, narrow)
		add(parquet.Encodings.Plain, false, text)
		add(parquet.Encodings.Plain, true, wide)
		add(parquet.Encodings.Plain, true, text)
		add(parquet.Encodings.Plain, false, func() any { return r.IntN(2) == 0 })
		path := filepath.Join(t.TempDir(), "t.parquet")
		expect.OK(t, os.WriteFile(path, write(t, r, columns), 0o600))
		p := expect.Must(Open(source.Local(path), &source.Budget{}))(t)
		for i, c := range columns {
			at := 0
			expect.OK(t, p.Scan(context.Background(), []int{i}, func(b *columnar.Batch) error {
				for k := range b.Rows {
					v := &b.Columns[0]
					got := any(nil)
					switch want := c.values[at].(type) {
					case int32:
						got = int32(p.Fields()[i].DType.Integer(v.Data[4*k:]))
					case int64:
						got = p.Fields()[i].DType.Integer(v.Data[8*k:])
					case bool:
						got = v.Data[k] == 1
					case string:
						got = string(v.Texts[k])
					case nil:
						expect.That(t, v.Null(k), "column %d, row %d: a value, want %v", i, at, want)
					}
					expect.Ensure(t, got == c.values[at], "column %d (%v), row %d: %v, want %v", i, c.encoding, at, got,
						c.values[at])
					at++
				}
				return nil
			}))
			expect.That(t, at == rows, "%d rows of %d", at, rows)
		}
	}
}

// TestNumbersOfADictionaryAreChecked changes the page of a column of two values in turn: a byte that says how many bits
// a number has, one that says that 8 of them follow, and these.
func TestNumbersOfADictionaryAreChecked(t *testing.T) {
	var w written
	for i := range 8 {
		w.values = append(w.values, int64(i%2))
	}
	w.dict, w.encoding = true, parquet.Encodings.Plain
	b := write(t, rand.New(rand.NewPCG(1, 1)), []written{w, w})
	expect.OK(t, readBoth(t, b))
	page := []byte{1, 3, 0xaa}
	expect.Ensure(t, bytes.Count(b, page) == 2, "%d pages", bytes.Count(b, page))
	for says, other := range map[string][]byte{
		"numbers of 254 bits":                     {254, 3, 0xaa},
		"a run of numbers has no length":          {1, 1, 0xaa},
		"has no length, or one beyond":            {1, 0, 0xaa},
		"no length, or one beyond its page":       {31, 3, 0xaa},
		"the number 2, where 1 is the greatest":   {2, 3, 0xaa},
		"the number 170, where 1 is the greatest": {1, 16, 0xaa},
	} {
		err := readBoth(t, bytes.Replace(b, page, other, 1))
		expect.That(t, err != nil && strings.Contains(err.Error(), says), "%v lacks %q", err, says)
	}
}

// readBoth reads both columns of a file.
func readBoth(t *testing.T, b []byte) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "e.parquet")
	expect.OK(t, os.WriteFile(path, b, 0o600))
	f, err := Open(source.Local(path), &source.Budget{})
	if err != nil {
		return err
	}
	return f.Scan(context.Background(), []int{0, 1}, func(*columnar.Batch) error { return nil })
}

// TestDifferencesAreChecked reads what pages in DELTA_BINARY_PACKED begin with, and cuts them short.
func TestDifferencesAreChecked(t *testing.T) {
	whole := []byte{128, 1, 4, 5, 14, 3, 2, 0, 0, 0, 0b11_10_01_00, 0, 0, 0, 0, 0, 0, 0} // of blocks of 128
	read := func(b []byte) (list []int64, err error) {
		d, err := newDeltas(b)
		for err == nil && len(list) < 5 {
			var v int64
			v, err = d.next()
			list = append(list, v)
		}
		if err == nil {
			_, err = d.next()
			expect.That(t, err != nil, "a sixth number")
			err = nil
		}
		return list, err
	}
	list, err := read(whole)
	expect.That(t, err == nil && fmt.Sprint(list) == "[7 5 4 4 5]", "%v, %v", list, err)
	for n := range 11 {
		_, err := read(whole[:n])
		expect.That(t, err != nil, "%d bytes are enough", n)
	}
	for _, head := range [][]byte{{0, 4}, {128, 1, 0}, {128, 1, 3}, {128, 1, 64}, {128, 128, 128, 1, 4},
		{128, 1, 255, 1}} {
		d, err := newDeltas(append(head, 5, 14, 3, 2, 0, 0, 0, 0, 0))
		expect.That(t, err != nil, "blocks of %v: %+v", head, d)
	}
	wide := bytes.Clone(whole)
	wide[6] = 65
	_, err = read(wide)
	expect.That(t, err != nil, "numbers of 65 bits")
}

// Pages of LZ4 are blocks; old writers have sizes before each block, or call a block alone by the same name.
func TestBlocksOfLZ4AreReadWithTheirSizesOrWithout(t *testing.T) {
	want := bytes.Repeat([]byte("khop and khop, "), 40)
	block := func(b []byte) []byte {
		to := make([]byte, lz4.CompressBlockBound(len(b)))
		return to[:expect.Must(lz4.CompressBlock(b, to, nil))(t)]
	}
	var framed []byte
	for _, b := range [][]byte{want[:99], want[99:]} {
		framed = binary.BigEndian.AppendUint32(framed, uint32(len(b)))
		framed = append(binary.BigEndian.AppendUint32(framed, uint32(len(block(b)))), block(b)...)
	}
	for name, src := range map[string][]byte{"framed": framed, "alone": block(want)} {
		got := make([]byte, len(want))
		err := expandHadoop(got, src)
		expect.That(t, err == nil && bytes.Equal(got, want), "%s: %v, %q", name, err, got)
		for cut := range src {
			expect.That(t, expandHadoop(got, src[:cut]) != nil, "%s: %d of %d bytes are enough", name, cut, len(src))
		}
		expect.That(t, expandHadoop(got[1:], src) != nil && expandHadoop(make([]byte, len(want)+1), src) != nil,
			"%s: it has another size than it states", name)
	}
}
