//go:build !race

package convert

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
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
	if n, err := c.openTables(); err != nil || n != rows {
		t.Fatalf("%d rows, %v", n, err)
	}
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
