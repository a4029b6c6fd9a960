//go:build !race

package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// TestFeaturesOfAnySizeTakeTheSameMemory streams a table of zeros that takes no room on the disk, of KHOP_FEATURES
// bytes.
func TestFeaturesOfAnySizeTakeTheSameMemory(t *testing.T) {
	bytes := int64(96 << 20)
	if n, err := strconv.ParseInt(os.Getenv("KHOP_FEATURES"), 10, 64); err == nil {
		bytes = n
	}
	const width = 256
	rows := bytes / (4 * width)
	path := filepath.Join(t.TempDir(), "x.npy")
	f, err := os.Create(path)
	if err == nil {
		err = array.WriteHeader(f, unified.Float32.NumPy(), []int64{rows, width})
	}
	if at, e := f.Seek(0, io.SeekCurrent); err == nil && e == nil {
		err = f.Truncate(at + 4*width*rows)
	}
	err = errors.Join(err, f.Close())
	expect.OK(t, err)
	c := &conversion{src: path, opt: Options{Features: path}, graph: source.Plain()}
	n, err := c.openTables()
	expect.Ensure(t, err == nil && n == rows, "%d rows, %v", n, err)
	col := source.Column{Column: graph.Column{Name: "feature", DType: unified.Float32, Shape: []int64{width}},
		Write: c.tables[0].writer(&c.ledger)}
	w := &heapWatch{before: heapInUse()}
	half := graph.Column{Name: "feature", DType: unified.Float16, Shape: []int64{width}}
	expect.OK(t, c.narrowed(col, half, rows).Write(t.Context(), w))
	expect.That(t, w.bytes == 2*width*rows && w.most-w.before <= 24<<20 && c.ledger.Peak() <= 24<<20,
		"%d bytes of %d, %d more of heap, %d counted", w.bytes, 2*width*rows, w.most-w.before, c.ledger.Peak())
	t.Logf("%d bytes of features: %d more of heap", bytes, w.most-w.before)
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

// heapWatch counts bytes, and looks at the heap now and then.
type heapWatch struct{ bytes, looked, before, most int64 }

func (w *heapWatch) Write(p []byte) (int, error) {
	if w.bytes += int64(len(p)); w.bytes-w.looked >= 8<<20 {
		w.looked, w.most = w.bytes, max(w.most, heapInUse())
	}
	return len(p), nil
}

// TestTheMemoryLimitHoldsForReadersToo reads sources of each kind that take more than the structure that is built.
func TestTheMemoryLimitHoldsForReadersToo(t *testing.T) {
	const n = 200_000 // names take the most time, and the most memory
	var names strings.Builder
	for i := range n / 3 {
		fmt.Fprintf(&names, "node-%d node-%d\n", i, i+1)
	}
	if res, _ := convert(t, adjacency(t, 2*n), Options{MemoryLimit: 2 << 20}); res.MemoryPeak > 2<<20 ||
		res.TempPeak == 0 {
		t.Errorf("an archive: a peak of %d bytes, %d of temporary files", res.MemoryPeak, res.TempPeak)
	}
	for _, c := range []struct {
		name, src, where string
		opt              Options
		fits             int64
	}{
		{"names", write(t, "names.txt", names.String()), "names.txt: row", Options{}, 32 << 20},
		{"npy", write(t, "edges.txt", "0 1\n"), "table.npy", Options{Labels: npyFile(t, make([]int32, 2*n))}, 8 << 20},
		{"musae", collection(t, n/10), "x_target.csv: row", Options{}, 8 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.opt.MemoryLimit = 2 << 20
			_, err := Run(context.Background(), c.src, filepath.Join(t.TempDir(), "x"), c.opt)
			expect.That(t, errors.Is(err, pinned.ErrLimit) && strings.Contains(err.Error(), c.where) &&
				strings.Contains(err.Error(), "and of the limit of 2.10 MB (2.00 MiB)"), "a limit of 2 MiB: %v", err)
			c.opt.MemoryLimit = c.fits
			if res, _ := convert(t, c.src, c.opt); res.MemoryPeak < 2<<20 || res.MemoryPeak > c.fits {
				t.Errorf("a peak of %d bytes under a limit of %d", res.MemoryPeak, c.fits)
			}
		})
	}
}

// TestAGraphOfManyRelationsHasThatManyTypes: their numbers take two bytes beyond 256, and tasks make it, too.
func TestAGraphOfManyRelationsHasThatManyTypes(t *testing.T) {
	for _, n := range []int{2, 256, 257, 300} {
		src := knowledge(t, n)
		_, ds := convert(t, src, Options{RelationsAsTypes: true})
		s := ds.Graph().Schema()
		if len(s.Edges) != n || int64(len(ds.Graph().Types().Bytes())) != s.NumEdges()*map[bool]int64{true: 2,
			false: 1}[n > 256] {
			t.Errorf("%d relations: %d edge types, %v", n, len(s.Edges), ds.Graph().Types())
		}
		for i, e := range s.Edges {
			expect.That(t, e.Count == 1, "%d relations: type %d has %d edges", n, i, e.Count)
		}
		tasksMake(t, ds, src, 3, Options{RelationsAsTypes: true})
	}
}
