package tables

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// writeLists writes a record of lists of int32 and of text as Parquet, in groups of some rows, or as Arrow.
func writeLists(t *testing.T, path string, r arrow.Record, group int64) {
	t.Helper()
	f := expect.Must(os.Create(path))(t)
	if filepath.Ext(path) != ".parquet" {
		w := expect.Must(ipc.NewFileWriter(f, ipc.WithSchema(r.Schema())))(t)
		expect.OK(t, w.Write(r), w.Close(), f.Close())
		return
	}
	fields := schema.FieldList{
		expect.Must(schema.ListOf(schema.NewInt32Node("element", parquet.Repetitions.Optional, -1),
			parquet.Repetitions.Optional, -1))(t),
		expect.Must(schema.ListOf(schema.NewByteArrayNode("element", parquet.Repetitions.Optional, -1),
			parquet.Repetitions.Optional, -1))(t)}
	root := expect.Must(schema.NewGroupNode("schema", parquet.Repetitions.Required, fields, -1))(t)
	w := file.NewParquetWriter(f, root, file.WithWriterProps(parquet.NewWriterProperties(
		parquet.WithDataPageSize(1<<10))))
	for lo := int64(0); lo < r.NumRows(); lo += group {
		g := w.AppendRowGroup()
		for _, c := range r.NewSlice(lo, min(lo+group, r.NumRows())).Columns() {
			writeListColumn(t, expect.Must(g.NextColumn())(t), c.(*array.List))
		}
		expect.OK(t, g.Close())
	}
	expect.OK(t, w.Close())
}

// writeListColumn writes the lists of a group.
func writeListColumn(t *testing.T, w file.ColumnChunkWriter, c *array.List) {
	t.Helper()
	var def, rep []int16
	var ints []int32
	var texts []parquet.ByteArray
	for i := range c.Len() {
		lo, hi := c.ValueOffsets(i)
		if c.IsNull(i) {
			lo, hi = 0, 0
		}
		if lo == hi {
			def, rep = append(def, map[bool]int16{true: 0, false: 1}[c.IsNull(i)]), append(rep, 0)
		}
		for k := lo; k < hi; k++ {
			def, rep = append(def, 3), append(rep, map[bool]int16{true: 0, false: 1}[k == lo])
			switch v := c.ListValues().(type) {
			case *array.Int32:
				ints = append(ints, v.Value(int(k)))
			case *array.String:
				texts = append(texts, parquet.ByteArray(v.Value(int(k))))
			}
		}
	}
	var err error
	switch w := w.(type) {
	case *file.Int32ColumnChunkWriter:
		_, err = w.WriteBatch(ints, def, rep)
	case *file.ByteArrayColumnChunkWriter:
		_, err = w.WriteBatch(texts, def, rep)
	}
	expect.OK(t, err, w.Close())
}

// drawLists draws rows of lists of numbers and of texts, and spells them.
func drawLists(draw *rand.Rand, rows int) (r arrow.Record, want []string) {
	ints := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int32)
	words := array.NewListBuilder(memory.DefaultAllocator, arrow.BinaryTypes.String)
	for range rows {
		row := ""
		for _, b := range []*array.ListBuilder{ints, words} {
			if draw.IntN(10) == 0 {
				b.AppendNull()
				row += "; "
				continue
			}
			b.Append(true)
			for range draw.IntN(5) {
				n := draw.IntN(1000)
				if b == ints {
					b.ValueBuilder().(*array.Int32Builder).Append(int32(n))
				} else {
					b.ValueBuilder().(*array.StringBuilder).Append(fmt.Sprint(n))
				}
				row += fmt.Sprint(n, " ")
			}
			row += "; "
		}
		want = append(want, row)
	}
	columns := arrow.NewSchema([]arrow.Field{{Name: "ints", Type: ints.Type(), Nullable: true},
		{Name: "words", Type: words.Type(), Nullable: true}}, nil)
	return array.NewRecord(columns, []arrow.Array{ints.NewArray(), words.NewArray()}, int64(rows)), want
}

// spellLists spells a row of lists of int32 and of texts.
func spellLists(b *columnar.Batch, i int) (row string) {
	for k := range b.Columns {
		v := &b.Columns[k]
		for j := v.Offsets[i]; j < v.Offsets[i+1]; j++ {
			if v.Texts != nil {
				row += string(v.Texts[j]) + " "
			} else {
				row += fmt.Sprint(unified.Int32.Integer(v.Data[4*j:]), " ")
			}
		}
		row += "; "
	}
	return row
}

// Lists of any length are read as they are: numbers and texts, empty ones and missing ones, over pages, groups and
// batches.
func TestListsOfAnyLengthAreReadAsTheyAre(t *testing.T) {
	record, want := drawLists(rand.New(rand.NewPCG(expect.Seed(t), 0)), 20000)
	for _, name := range []string{"a.parquet", "a.arrow"} {
		dir := t.TempDir()
		writeLists(t, filepath.Join(dir, name), record, 7001)
		tree := expect.Must(source.OpenTree(dir, nil))(t)
		x := expect.Must(open(context.Background(), tree.At("m.yaml"), Words{name}, Format{}, &source.Request{
			Budget: &source.Budget{Memory: &pinned.Ledger{}, Dir: dir}}))(t)
		x.readRagged(0)
		x.readRagged(1)
		at := 0
		expect.OK(t, x.scan(context.Background(), []int{0, 1}, func(b *columnar.Batch) error {
			for i := range b.Rows {
				row := spellLists(b, i)
				expect.Ensure(t, row == want[at], "%s: row %d is %q, not %q", name, at, row, want[at])
				at++
			}
			return nil
		}))
		expect.That(t, at == len(want), "%s: %d rows", name, at)
	}
}

// zeros writes a Parquet file of edges 0 -> 0, whose columns are a page each.
func zeros(t *testing.T, codec compress.Compression, version parquet.DataPageVersion, rows int) []byte {
	t.Helper()
	var out bytes.Buffer
	root := expect.Must(schema.NewGroupNode("schema", parquet.Repetitions.Required, schema.FieldList{
		schema.NewInt64Node("src", parquet.Repetitions.Required, -1),
		schema.NewInt64Node("dst", parquet.Repetitions.Required, -1)}, -1))(t)
	w := file.NewParquetWriter(&out, root, file.WithWriterProps(parquet.NewWriterProperties(
		parquet.WithCompression(codec), parquet.WithDictionaryDefault(false), parquet.WithDataPageVersion(version),
		parquet.WithDataPageSize(int64(16*rows)))))
	g := w.AppendRowGroup()
	for range 2 {
		c, err := g.NextColumn()
		if err == nil {
			_, err = c.(*file.Int64ColumnChunkWriter).WriteBatch(make([]int64, rows), nil, nil)
		}
		if err == nil {
			err = c.Close()
		}
		expect.OK(t, err)
	}
	expect.OK(t, w.Close())
	return out.Bytes()
}

// TestAPageThatExpandsBeyondWhatItStatesIsRefused changes the stated size of a page, in as many bytes as it has.
func TestAPageThatExpandsBeyondWhatItStatesIsRefused(t *testing.T) {
	const rows = 1 << 18
	for name, codec := range map[string]compress.Compression{"zstd": compress.Codecs.Zstd,
		"snappy": compress.Codecs.Snappy} {
		for _, version := range []parquet.DataPageVersion{parquet.DataPageV1, parquet.DataPageV2} {
			good := zeros(t, codec, version, rows)
			err := readEdges(t, good, rows)
			expect.Ensure(t, err == nil, "%s %d: %v", name, version, err)
			size := binary.AppendVarint(nil, 8*rows)
			small := binary.AppendVarint(nil, 64)
			for len(small) < len(size) { // the same number, spelt longer
				small[len(small)-1] |= 0x80
				small = append(small, 0)
			}
			bomb := bytes.Replace(good, append([]byte{0x15}, size...), append([]byte{0x15}, small...), 1)
			expect.Ensure(t, !bytes.Equal(bomb, good), "%s: no page states its size", name)
			if err := readEdges(t, bomb, rows); err == nil || !strings.Contains(err.Error(), "than the 64 bytes that") {
				t.Errorf("%s %d: %v", name, version, err)
			}
		}
	}
}

// readEdges reads a file of this number of edges.
func readEdges(t *testing.T, b []byte, rows int64) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "edges.parquet")
	expect.OK(t, os.WriteFile(path, b, 0o600))
	g, err := Reader.Read(context.Background(), source.Local(path), &source.Request{Budget: &source.Budget{
		Dir: t.TempDir()}})
	if err != nil {
		return err
	}
	defer g.Close()
	n := int64(0)
	err = g.Edges.Each(func(b source.Batch) error {
		n += int64(len(b.Src))
		return nil
	})
	expect.That(t, err != nil || n == rows, "%d edges of %d", n, rows)
	return err
}
