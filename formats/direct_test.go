package formats

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// past has arrays of any size pass the page cache by, in blocks of one page, until the test ends.
func past(t *testing.T) {
	dataset, array, block := directDataset, directArray, directBlock
	directDataset, directArray, directBlock = 0, 0, 4096
	t.Cleanup(func() { directDataset, directArray, directBlock = dataset, array, block })
}

func TestADatasetWrittenPastThePageCacheHasTheSameBytes(t *testing.T) {
	for name, a := range map[string]graph.Arrays{
		"plain": plainArrays(t), "typed": typedArrays(t), "many edges": randomArrays(t, 3, 3000, 6)} {
		t.Run(name, func(t *testing.T) {
			want := files(t, write(t, a, WriterOptions{chunkBytes: 4096}))
			past(t)
			t.Setenv("TMPDIR", t.TempDir()) // on a disk
			requireEqualFiles(t, want, files(t, write(t, a, WriterOptions{chunkBytes: 4096})))
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
			w, err := Create(dir, WriterOptions{chunkBytes: 4096})
			must(t, err)
			c, err := w.NodeColumn(0, graph.Column{Name: "a", DType: unified.Int32}, 300_000)
			must(t, err)
			c.AtMost()
			_, err = c.Write(counting(4 * rows))
			must(t, err, c.Close())
			s := graph.Schema{Nodes: []graph.NodeType{{Name: "node", Count: rows,
				Columns: []graph.Column{{Name: "a", DType: unified.Int32}}}},
				Edges: []graph.EdgeType{{Source: "node", Relation: "edge", Target: "node"}}}
			p, err := w.Topology("indptr", unified.Int64, rows+1)
			must(t, err)
			feed(t, p, int(8*(rows+1)))
			i, err := w.Topology("indices", unified.Int32, 0)
			must(t, err, p.Close(), i.Close(), s.Init(), w.Commit(s))
			if got := files(t, dir); !direct {
				want = got
			} else {
				requireEqualFiles(t, want, got)
			}
		}
	}
}

func TestAnErrorOfWritingPastThePageCacheNamesTheFile(t *testing.T) {
	past(t)
	w, err := Create(filepath.Join(t.TempDir(), "x.khop"), WriterOptions{})
	must(t, err)
	defer func() { must(t, w.Abort()) }()
	c, err := w.NodeColumn(0, graph.Column{Name: "a", DType: unified.Int32}, 1<<20)
	must(t, err)
	if c.a.file.behind == nil {
		t.Skip("the file system refuses")
	}
	path := c.a.file.path
	must(t, c.a.file.File.Close())
	_, err = c.Write(make([]byte, 4<<20))
	if err = errors.Join(err, c.Close()); !errors.Is(err, os.ErrClosed) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
}

// Each such array takes memory: of many that are open at a time, the most go through the cache.
func TestFewArraysAtATimePassThePageCache(t *testing.T) {
	past(t)
	w, err := Create(filepath.Join(t.TempDir(), "x.khop"), WriterOptions{})
	must(t, err)
	defer func() { must(t, w.Abort()) }()
	var direct int
	for i := range 2 * mostDirect {
		c, err := w.NodeColumn(0, graph.Column{Name: string(rune('a' + i)), DType: unified.Int32}, 1)
		must(t, err)
		if c.a.file.behind != nil {
			direct++
		}
		if i == 0 { // its place is free again
			feed(t, c, 4)
			must(t, c.Close())
		}
	}
	if direct != 0 && direct != mostDirect+1 {
		t.Errorf("%d", direct)
	}
}
