//go:build cuda

package loader_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

// A consumer's stream waits for a batch whose rows are still on their way from page-locked memory to the device, and
// the batch is released. What the disk reads for the slot's next batch must not be written there meanwhile.
func TestRowsOnTheirWayToAConsumersStreamAreNotReadOver(t *testing.T) {
	needDisk(t)
	d := cudatest.Open(t)
	cudatest.Configure(t, "order=forward") // nothing but the batch's own work goes before its rows
	consumer, err := d.NewStream()
	check(t, err)
	defer consumer.Close()
	var mu sync.Mutex
	came := sync.NewCond(&mu)
	requests, awaited := 0, 0
	var on atomic.Bool
	// one request at a time, of a page: when the third comes, two have been written where they belong
	loader.ReadWith(t, diskio.ReaderOptions{Depth: 1, Engine: "threads", Shape: disk.Shape{Page: 4096, Most: 4096},
		Intercept: func(_ string, _ int64, _ []byte, n int, err error) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			requests++
			came.Broadcast()
			return n, err
		}})
	g := graphs.Wide(t, 300, 6)
	l := open(t, onDisk(t, g), loader.Options{Sampler: watchedSampler{sampling.Neighbor{Fanouts: []int{5, 5}},
		func(*graph.Sample) {
			mu.Lock()
			defer mu.Unlock()
			for on.Load() && requests < awaited {
				came.Wait()
			}
		}}, Residence: loader.Disk, Disk: loader.DiskOptions{CacheBytes: 1},
		Device: loader.DeviceOptions{Name: "cuda:0", Cache: loader.NoDeviceCache}, BatchSize: 64,
		Workers: 1, Tuning: loader.TuningOptions{Prefetch: 1},
		Columns: loader.ColumnOptions{Nodes: []string{"feature"}, Seeds: []string{}}})
	var got, want [][]byte
	var kept *loader.Batch
	for b, err := range l.Epoch(background, 0) {
		check(t, err)
		if kept == nil { // then all others share one slot
			kept = b.Keep()
			continue
		}
		got, want = append(got, copyLater(t, d, consumer, b)), append(want, rowsOf(t, l, b))
		mu.Lock()
		awaited = requests + 3
		mu.Unlock()
		on.Store(b.Number+1 < l.AllBatches())
	}
	kept.Release()
	check(t, consumer.Synchronize())
	for i := range got {
		if string(got[i]) != string(want[i]) {
			t.Errorf("batch %d changed under its consumer", i+1)
		}
	}
	expect.That(t, len(got) >= 3, "%d batches", len(got))
}
