package tables

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/expect"
)

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
