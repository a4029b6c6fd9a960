package formats

import (
	"path/filepath"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

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
