package tables

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/endian"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/expect"
)

// readBeside reads a mapping of files of testdata and of others.
func readBeside(t *testing.T, text string, others map[string][]byte) (*source.Graph, error) {
	t.Helper()
	dir := t.TempDir()
	expect.OK(t, os.CopyFS(dir, os.DirFS("testdata")))
	for name, data := range others {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	g, err := Reader.Read(context.Background(), mapping(t, dir, text),
		&source.Request{Budget: &source.Budget{Dir: dir}})
	if err == nil {
		t.Cleanup(func() { expect.OK(t, g.Close()) })
	}
	return g, err
}

// TestColumnsOfParquetAndArrowAreStoredAlike stores lists of whole numbers, decimals, bytes and missing float16, of
// nodes, of edges and of a database's table.
func TestColumnsOfParquetAndArrowAreStoredAlike(t *testing.T) {
	for _, name := range []string{"stored.parquet", "stored.arrow"} {
		for _, kinds := range []string{"columns: [ints, hash, price, tax, half]", "kinds: {}"} {
			text := fmt.Sprintf("nodes: {n: {file: %s, %s}}\nedges: {e: {file: %[1]s, columns: [half, tax]}}\n", name,
				kinds)
			at := mapping(t, "testdata", text)
			t.Cleanup(func() { _ = os.Remove(at.Path()) })
			got, g := read(t, at)
			said := source.Text(g.Notes)
			want := []string{"ints int64[2]: [1,2,3,4,5,6]", `hash: ["01ab" "ff00" "0000"]`,
				"0>1:3e00:0.5 1>2:7e00:-2.25"}
			if kinds != "kinds: {}" {
				want = append(want, "price float64[]: [1.25,NaN,1.2345678901234568e+16]", "tax float64[]: "+
					"[0.5,-2.25,NaN]", "half float16[]: [3e00 7e00 c000]")
			}
			for _, w := range want {
				expect.That(t, strings.Contains(got, w), "%s, %s: %s is not in\n%s", name, kinds, w, got)
			}
			for _, w := range []string{`"hash" holds bytes, which are stored as text of hexadecimal digits`,
				`"price" holds decimals, of which 1 have more digits than float64 holds`} {
				expect.That(t, strings.Contains(said, w) && !strings.Contains(said, "no value"),
					"%s, %s: %s is not in\n%s", name, kinds, w, said)
			}
			expect.That(t, !strings.Contains(said, `"tax" holds decimals`), "%s", said)
		}
	}
}

// TestMissingNumbersOfListsAreNamedByTheirRow reads lists of whole numbers of which one lacks a number.
func TestMissingNumbersOfListsAreNamedByTheirRow(t *testing.T) {
	for _, name := range []string{"gap.parquet", "gap.arrow"} {
		g, err := readBeside(t, fmt.Sprintf("nodes: {n: {file: %s, features: v}}\nedges: {e: {file: stored.parquet, "+
			"columns: []}}\n", name), nil)
		if err == nil {
			err = g.Nodes[0].Columns[0].Write(context.Background(), io.Discard)
		}
		expect.That(t, err != nil && strings.Contains(err.Error(), name+`: column "v": row 2: a number `+
			`within a list is`), "%s: %v", name, err)
	}
}

// TestBigEndianArrowIsRefused has ends of edges and columns in the other order of bytes, in a file and a stream.
func TestBigEndianArrowIsRefused(t *testing.T) {
	columns := arrow.NewSchemaWithEndian([]arrow.Field{{Name: "src", Type: arrow.PrimitiveTypes.Int64},
		{Name: "dst", Type: arrow.PrimitiveTypes.Int64}}, nil, endian.BigEndian)
	b := array.NewInt64Builder(memory.DefaultAllocator)
	b.AppendValues([]int64{0, 1}, nil)
	ids := b.NewArray()
	record := array.NewRecord(columns, []arrow.Array{ids, ids}, 2)
	var stream bytes.Buffer
	w := ipc.NewWriter(&stream, ipc.WithSchema(columns))
	expect.OK(t, w.Write(record), w.Close())
	path := filepath.Join(t.TempDir(), "e.arrow")
	f := expect.Must(os.Create(path))(t)
	fw := expect.Must(ipc.NewFileWriter(f, ipc.WithSchema(columns)))(t)
	expect.OK(t, fw.Write(record), fw.Close(), f.Close())
	whole := expect.Must(os.ReadFile(path))(t)
	for name, data := range map[string][]byte{"e.arrows": stream.Bytes(), "e.arrow": whole} {
		_, err := readBeside(t, "edges: {e: "+name+"}\n", map[string][]byte{name: data})
		expect.That(t, err != nil && strings.Contains(err.Error(), name+": written in a way that is not read: "+
			"its numbers are big-endian"), "%s: %v", name, err)
	}
}

// TestChecksumsOfPagesAreCompared changes a byte of each page of a file that has checksums.
func TestChecksumsOfPagesAreCompared(t *testing.T) {
	data := expect.Must(os.ReadFile("testdata/stored.parquet"))(t)
	footer := int64(binary.LittleEndian.Uint32(data[len(data)-8:]))
	met := 0
	for at := int64(4); at < int64(len(data))-8-footer; at += 31 {
		spoilt := bytes.Clone(data)
		spoilt[at] ^= 0x10
		g, err := readBeside(t, "nodes: {n: {file: x.parquet, columns: [ints, hash, price]}}\nedges: {e: {file: "+
			"x.parquet, columns: [half]}}\n", map[string][]byte{"x.parquet": spoilt})
		if err == nil {
			err = g.Edges.Each(func(source.Batch) error { return nil })
		}
		for _, c := range nodesOf(g) {
			err = errors.Join(err, c.Write(context.Background(), io.Discard))
		}
		if err != nil && strings.Contains(err.Error(), "its checksum is") {
			met++
		}
	}
	expect.That(t, met > 10, "only %d changed bytes were noticed by their checksums", met)
}

func nodesOf(g *source.Graph) []source.Column {
	if g == nil {
		return nil
	}
	return g.Nodes[0].Columns
}

// TestTypesThatAreNewerThanKhopAreLeftOut makes a column one of a logical type that the library does not know.
func TestTypesThatAreNewerThanKhopAreLeftOut(t *testing.T) {
	var out bytes.Buffer
	fields := schema.FieldList{schema.NewInt64Node("src", parquet.Repetitions.Required, -1),
		schema.Must(schema.NewPrimitiveNodeLogical("shape", parquet.Repetitions.Required, schema.UUIDLogicalType{},
			parquet.Types.FixedLenByteArray, 16, -1)),
		schema.NewInt64Node("dst", parquet.Repetitions.Required, -1)}
	w := file.NewParquetWriter(&out, expect.Must(schema.NewGroupNode("s", parquet.Repetitions.Required, fields, -1))(t))
	g := w.AppendRowGroup()
	for i := range 3 {
		c := expect.Must(g.NextColumn())(t)
		var err error
		switch c := c.(type) {
		case *file.Int64ColumnChunkWriter:
			_, err = c.WriteBatch([]int64{int64(i / 2), int64(1 - i/2)}, nil, nil)
		case *file.FixedLenByteArrayColumnChunkWriter:
			_, err = c.WriteBatch([]parquet.FixedLenByteArray{make([]byte, 16), make([]byte, 16)}, nil, nil)
		}
		expect.OK(t, err, c.Close())
	}
	expect.OK(t, g.Close(), w.Close())
	data := out.Bytes()
	size := int(binary.LittleEndian.Uint32(data[len(data)-8:]))
	start := len(data) - 8 - size
	for _, c := range []struct {
		with []byte // in place of the field 14 of the union
		name string
	}{{[]byte{0x0c, 0x22, 0, 0}, "geometry"}, {[]byte{0x0c, 0x20, 0, 0}, "variant"},
		{[]byte{0x0c, 0x50, 0, 0}, "a logical type of the number 40"}} {
		footer := bytes.Replace(data[start:start+size], []byte{0xec, 0, 0}, c.with, 1)
		expect.Ensure(t, len(footer) == size+1, "the footer has no UUID")
		newer := append(bytes.Clone(data[:start]), footer...)
		newer = append(binary.LittleEndian.AppendUint32(newer, uint32(len(footer))), "PAR1"...)
		got, err := readBeside(t, "edges: {e: x.parquet}\n", map[string][]byte{"x.parquet": newer})
		expect.Ensure(t, err == nil, "%s: %v", c.name, err)
		said := source.Text(got.Notes)
		expect.That(t, got.Edges.Count == 2 && strings.Contains(said, "shape ("+c.name+")"), "%s: %d edges, %s", c.name,
			got.Edges.Count, said)
	}
}

// TestFilesThatAreNoTablesAreNamed has files of other kinds where a CSV is meant.
func TestFilesThatAreNoTablesAreNamed(t *testing.T) {
	for data, says := range map[string]string{
		"SQLite format 3\x00":      "is an SQLite database; a table is Parquet, Arrow or CSV: export it as one",
		"graph [\n]\n":             "is a GML file",
		"{\"src\": 0}\n":           "is a JSON file",
		"\xff\xff\x00\x00\x00\x01": "is not text: it holds zero bytes",
		"\xa8\x01\x00\x00\x10\x00\x00\x00" + strings.Repeat("\x00", 16): "is an Arrow stream of a version before 0.15",
	} {
		_, err := readBeside(t, "edges: {e: x.csv}\n", map[string][]byte{"x.csv": []byte(data)})
		expect.That(t, err != nil && strings.Contains(err.Error(), "x.csv: "+says), "%q: %v", data, err)
	}
}

// TestTypesThatAreNotReadAreNamed has decimals of 32 bits, a map, whose keys look like a list, and a name that is no
// text.
func TestTypesThatAreNotReadAreNamed(t *testing.T) {
	read := func(name string) []byte { return expect.Must(os.ReadFile(filepath.Join("testdata", name)))(t) }
	_, err := readBeside(t, "edges: {e: x.arrow}\n", map[string][]byte{"x.arrow": read("few.arrow")})
	expect.That(t, err != nil && !strings.Contains(err.Error(), "damaged") &&
		strings.Contains(err.Error(), `"tax" is decimal32: cast it to decimal128 or float64`), "%v", err)
	table := read("map.parquet")
	for says, b := range map[string][]byte{"m (records)": table,
		"(a name that is not UTF-8)": bytes.Replace(table, []byte("\x35\x02\x18\x01m"),
			[]byte("\x35\x02\x18\x01\xff"), 1)} {
		got, err := readBeside(t, "edges: {e: x.parquet}\n", map[string][]byte{"x.parquet": b})
		expect.Ensure(t, err == nil, "%v", err)
		expect.That(t, strings.Contains(source.Text(got.Notes), says), "%q lacks %q", source.Text(got.Notes), says)
	}
}
