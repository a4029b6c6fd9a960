package formats

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// unfitting change a schema, or what is written, of a dataset that fits.
func unfitting(t *testing.T) map[string]func(w *Writer, s *graph.Schema) error {
	return map[string]func(w *Writer, s *graph.Schema) error{
		"fits": func(*Writer, *graph.Schema) error { return nil },
		"other dtype": func(_ *Writer, s *graph.Schema) error {
			s.Nodes[0].Columns[0].DType = unified.Int8
			return nil
		},
		"other shape": func(_ *Writer, s *graph.Schema) error {
			s.Nodes[0].Columns[0].Shape = []int64{1, 3}
			return nil
		},
		"more nodes": func(_ *Writer, s *graph.Schema) error { s.Nodes[0].Count = 1234; return nil },
		"more edges": func(_ *Writer, s *graph.Schema) error { s.Edges[0].Count = 12345; return nil },
		"not there": func(_ *Writer, s *graph.Schema) error {
			s.Nodes[0].Columns = append(s.Nodes[0].Columns, graph.Column{Name: "y", DType: unified.Int64})
			return nil
		},
		"not asked for": func(_ *Writer, s *graph.Schema) error { s.Nodes[0].Columns = nil; return nil },
		"an edge column that is not there": func(_ *Writer, s *graph.Schema) error {
			s.EdgeColumns = append(s.EdgeColumns, graph.Column{Name: "w", DType: unified.Float64, Shape: []int64{2}})
			return nil
		},
		"types that are not there": func(_ *Writer, s *graph.Schema) error {
			s.Edges = append(s.Edges, graph.EdgeType{Source: "node", Relation: "more", Target: "node"})
			return nil
		},
		"strings of a column": func(w *Writer, s *graph.Schema) error {
			s.Nodes[0].Columns = append(s.Nodes[0].Columns, graph.Column{Name: "z", DType: unified.Int8})
			z := expect.Must(w.NodeStrings(0, "z", 2))(t)
			expect.OK(t, z.Write("a"), z.Write("b"))
			return z.Close()
		},
		"strings of other nodes": func(w *Writer, s *graph.Schema) error {
			z := expect.Must(w.NodeStrings(3, "z", 2))(t)
			expect.OK(t, z.Write("a"), z.Write("b"))
			return z.Close()
		},
		"not closed": func(w *Writer, s *graph.Schema) error {
			_, err := w.NodeStrings(0, "z", 2)
			return err
		},
	}
}

// TestWhatDoesNotFitTheSchemaIsNamed: what was written, and what was expected.
func TestWhatDoesNotFitTheSchemaIsNamed(t *testing.T) {
	x := graph.Column{Name: "x", DType: unified.Float32, Shape: []int64{3}}
	lines := map[string]string{}
	for name, change := range unfitting(t) {
		dir := filepath.Join(scratchDir(t), "x.khop")
		w := expect.Must(Create(dir, WriterOptions{}))(t)
		s := plainSchema(2, 0)
		s.Nodes[0].Columns = []graph.Column{x}
		indptr := expect.Must(w.Topology("indptr", unified.Int64, 3))(t)
		feed(t, indptr, 24)
		indices := expect.Must(w.Topology("indices", unified.Int32, 0))(t)
		cw := expect.Must(w.NodeColumn(0, x, 2))(t)
		feed(t, cw, 24)
		expect.OK(t, indptr.Close(), indices.Close(), cw.Close(), change(w, &s))
		lines[name] = expect.Line(t, w.Commit(s), dir)
		expect.OK(t, w.Abort())
	}
	said(t, "commit", lines)
}

// seal puts the right checksum into a manifest's text, where the text has a place for it.
func seal(text string) []byte {
	body, ok := strings.CutSuffix(text, manifestEnd)
	if !ok || len(body) < 16+len(manifestChecksum) {
		return []byte(text)
	}
	body = body[:len(body)-16-len(manifestChecksum)]
	return []byte(body + manifestChecksum + formatHash(xxh3.HashString(body)) + manifestEnd)
}

// asContent wraps a content in a manifest that is right in everything else.
func asContent(content []byte) []byte {
	body := fmt.Sprintf("{\n  \"format\": [1, 0],\n  \"requires\": [],\n  \"id\": \"%x\",\n  \"generation\": 1,\n  "+
		"\"provenance\": {},\n  \"content\": %s,\n", xxh3.Hash128(content).Bytes(), content)
	return []byte(body + manifestChecksum + formatHash(xxh3.HashString(body)) + manifestEnd)
}

// past has arrays of any size pass the page cache by, in blocks of one page, until the test ends.
func past(t *testing.T) {
	was := passCache
	passCache = arrayfile.Direct{Block: 4096}
	t.Cleanup(func() { passCache = was })
}

func TestADatasetWrittenPastThePageCacheHasTheSameBytes(t *testing.T) {
	for name, a := range map[string]graph.Arrays{
		"plain": plainArrays(t), "typed": typedArrays(t), "many edges": randomArrays(t, 3, 3000, 6)} {
		t.Run(name, func(t *testing.T) {
			want := expect.Files(t, write(t, a, WriterOptions{chunkBytes: 4096}))
			past(t)
			t.Setenv("TMPDIR", t.TempDir()) // on a disk
			requireEqualFiles(t, want, expect.Files(t, write(t, a, WriterOptions{chunkBytes: 4096})))
		})
	}
}

// Fewer rows than were announced: the file is made shorter, and its head is written once more.
func TestAnArrayPastThePageCacheMayBeShorterThanAnnounced(t *testing.T) {
	for _, rows := range []int64{0, 1, 1000, 5000, 300_000} {
		var want map[string][]byte
		for _, direct := range []bool{false, true} {
			if direct {
				past(t)
			}
			dir := filepath.Join(t.TempDir(), "x.khop")
			w := expect.Must(Create(dir, WriterOptions{chunkBytes: 4096}))(t)
			c, err := w.NodeColumn(0, graph.Column{Name: "a", DType: unified.Int32}, 300_000)
			expect.OK(t, err)
			c.AtMost()
			_, err = c.Write(counting(4 * rows))
			expect.OK(t, err, c.Close())
			s := graph.Schema{Nodes: []graph.NodeType{{Name: "node", Count: rows,
				Columns: []graph.Column{{Name: "a", DType: unified.Int32}}}},
				Edges: []graph.EdgeType{{Source: "node", Relation: "edge", Target: "node"}}}
			p := expect.Must(w.Topology("indptr", unified.Int64, rows+1))(t)
			feed(t, p, int(8*(rows+1)))
			i := expect.Must(w.Topology("indices", unified.Int32, 0))(t)
			expect.OK(t, p.Close(), i.Close(), s.Init(), w.Commit(s))
			if got := expect.Files(t, dir); !direct {
				want = got
			} else {
				requireEqualFiles(t, want, got)
			}
		}
	}
}
