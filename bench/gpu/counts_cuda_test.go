//go:build cuda

package gpu

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/synthetic"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

// batchKernels make a batch by uniform neighbours, one node type, on a device.
var batchKernels = []string{"assembly_seed", "neighbor_count", "neighbor_pick", "neighbor_expand", "assembly_admit",
	"assembly_flag", "assembly_lists", "assembly_append", "assembly_relabel", "gather_rows", "gather_rows_ragged"}

// kernelCount is what the launches of a kernel for one batch ask for: sectors of 32 bytes and requests of a line, of
// the device's memory and over the bus. Caches are left out.
type kernelCount struct {
	Launches      float64 `json:"launches"`
	DeviceSectors float64 `json:"device_sectors"`
	BusSectors    float64 `json:"bus_sectors"`
	BusLines      float64 `json:"bus_lines"`
}

// batchCounts is what model.py scales to batches of other sizes.
type batchCounts struct {
	Fanouts   []int                  `json:"fanouts"`
	BatchSize int                    `json:"batch_size"`
	Expanded  float64                `json:"expanded"` // nodes that hops expand, added up
	Edges     float64                `json:"edges"`
	Nodes     float64                `json:"nodes"`
	RowBytes  int                    `json:"row_bytes"`
	Card      map[string]kernelCount `json:"card"` // with all in device memory
	Bus       map[string]kernelCount `json:"bus"`  // with all over the bus
}

// TestCountsOfABatch keeps counts.json true, which -rewrite makes: what docs/results/gpu.md rests on. A
// kernel that reads a sixth more than is written there is noticed.
func TestCountsOfABatch(t *testing.T) {
	cudatest.NeedSimulator(t)
	cudatest.Configure(t, "checks=lines,attr16=4") // with the blocks of four multiprocessors
	path := filepath.Join(t.TempDir(), "products.khop")
	expect.Must(synthetic.Generate(t.Context(), "products", path, synthetic.Options{Nodes: 20_000, Features: 100}))(t)
	ds := expect.Must(formats.Open(path))(t)
	defer ds.Close()
	got := batchCounts{Fanouts: []int{15, 10, 5}, BatchSize: 16, RowBytes: 400}
	got.Card = got.count(t, ds, 0)
	got.Bus = got.count(t, ds, loader.NoDeviceCache)
	const file = "counts.json"
	if expect.Rewriting() {
		text := expect.Must(json.MarshalIndent(got, "", " "))(t)
		expect.OK(t, os.WriteFile(file, append(text, '\n'), 0o644))
		return
	}
	var want batchCounts
	expect.OK(t, json.Unmarshal(expect.Must(os.ReadFile(file))(t), &want))
	for _, kernels := range [][2]map[string]kernelCount{{got.Card, want.Card}, {got.Bus, want.Bus}} {
		for name, w := range kernels[1] {
			g := kernels[0][name]
			same := g.Launches == w.Launches && !far(g.DeviceSectors, w.DeviceSectors) && !far(g.BusSectors, w.BusSectors)
			expect.That(t, same, "%s: %+v, in %s %+v: make it again with -args -rewrite", name, g, file, w)
		}
	}
}

func far(got, want float64) bool { return math.Abs(got-want) > want/6+8 }

// count makes an epoch of batches, after another for warming up, and divides what was counted among them.
func (c *batchCounts) count(t *testing.T, ds *formats.Dataset, cache int64) map[string]kernelCount {
	seeds := make([]int64, 6*c.BatchSize)
	for i := range seeds {
		seeds[i] = int64(i) * 7
	}
	l := expect.Must(loader.New(ds, loader.Options{BatchSize: c.BatchSize,
		Sampler: sampling.Neighbor{Fanouts: c.Fanouts, Frontier: sampling.AllNodes},
		Seeds:   loader.NodeIDs(seeds), Device: loader.DeviceOptions{Name: "cuda:0", Cache: cache}}))(t)
	defer l.Close()
	batches := float64(l.NumBatches())
	for epoch := range uint64(2) {
		cudatest.ResetStats(t)
		c.Expanded, c.Edges, c.Nodes = 0, 0, 0
		for b, err := range l.Epoch(t.Context(), epoch) {
			expect.OK(t, err)
			c.add(b, batches)
			b.Release()
		}
	}
	kernels := map[string]kernelCount{}
	for _, name := range batchKernels {
		if n := countOf(t, name, batches); n.Launches > 0 {
			kernels[name] = n
		}
	}
	cudatest.Report(t)
	return kernels
}

// countOf returns what a kernel asked for since counts were reset, for one of so many batches.
func countOf(t *testing.T, name string, batches float64) kernelCount {
	return kernelCount{Launches: float64(cudatest.Launches(name)) / batches,
		DeviceSectors: float64(cudatest.Sectors(t, name, cudatest.Device)) / batches,
		BusSectors:    float64(cudatest.Sectors(t, name, cudatest.Host)) / batches,
		BusLines:      float64(cudatest.Lines(t, name, cudatest.Host)) / batches}
}

// add counts a batch, of so many.
func (c *batchCounts) add(b *loader.Batch, batches float64) {
	for layer := range b.Sample.Blocks {
		block := &b.Sample.Blocks[layer][0]
		c.Expanded += float64(block.NumDst) / batches
		c.Edges += float64(block.NumEdges()) / batches
	}
	c.Nodes += float64(b.Sample.Nodes[0].Len()) / batches
}
