//go:build cuda

package sampling

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

func TestDeviceRunsEveryKernel(t *testing.T) {
	d := openDevice(t)
	g := randomGraph(t, rand.New(rand.NewPCG(5, 5)), 2, 4)
	o := d.open(Neighbor{Fanouts: []int{3, All, 2}, Frontier: AllNodes}, d.env(g, 2))
	cudatest.ResetStats(t)
	expect.OK(t, sampleOn(t, o, g, 3, &Request{Seeds: [][]int64{{0}, {0}}}))
	for kernel, want := range map[string]int64{
		"assembly_seed": 1, "assembly_flag": 4, "assembly_lists": 4, "assembly_append": 4, "assembly_relabel": 4,
		"neighbor_count": 3, "assembly_admit": 3, "neighbor_pick": 3, "neighbor_expand": 3,
	} {
		n := cudatest.Launches(kernel)
		expect.That(t, n == want, "%s ran %d times, want %d", kernel, n, want)
	}
}

func TestDeviceWorkerLeavesNothingBehind(t *testing.T) {
	gpu := cudatest.Open(t)
	before := cudatest.NowLive(t)
	stream := expect.Must(gpu.NewStream())(t)
	t.Run("sample", func(t *testing.T) {
		d := &deviceUnderTest{t, gpu, stream}
		g := randomGraph(t, rand.New(rand.NewPCG(5, 5)), 2, 4)
		for _, o := range d.openVariants(Neighbor{Fanouts: []int{3, 40}, Frontier: AllNodes}, g, 1) {
			expect.OK(t, sampleOn(t, o, g, 2, &Request{Seeds: [][]int64{{0}, {0}}}))
		}
	})
	expect.OK(t, stream.Close())
	after := cudatest.NowLive(t)
	expect.That(t, after == before, "alive afterwards: %+v, before: %+v", after, before)
}

func TestDeviceWorkerOutlivesALackOfMemory(t *testing.T) {
	d := openDevice(t)
	g := randomGraph(t, rand.New(rand.NewPCG(5, 5)), 1, 1)
	n, req := Neighbor{Fanouts: []int{5, 5}, Frontier: AllNodes}, &Request{Seeds: [][]int64{{0}}}
	want := oracle(g, newEdgeRuns(g), n, req)
	for nth := 1; ; nth++ { // each allocation of a batch fails once
		o := d.open(n, d.env(g, 2))
		w := o.assembly()
		w.direct = false
		if nth%2 == 0 {
			w.guess = 0 // as after a first batch
		}
		cudatest.Fail(t, "cuMemAlloc", nth, 2)
		err := sampleOn(t, o, g, 2, req)
		cudatest.Findings() // forgets a failure that did not come
		if nth > 20 {
			return
		}
		expect.Ensure(t, nth > 10 || (nth%2 == 0) == errors.Is(err, device.ErrOutOfMemory), "allocation %d fails: %v",
			nth, err)
		compare(t, fmt.Sprintf("after allocation %d failed", nth), g, o, req, want)
	}
}

func TestDeviceWorkerClosesOnALostDevice(t *testing.T) {
	d := openDevice(t)
	g := randomGraph(t, rand.New(rand.NewPCG(5, 5)), 1, 1)
	o := d.open(Neighbor{Fanouts: []int{5}, Frontier: AllNodes}, d.env(g, 2))
	cudatest.Fail(t, "kernel:neighbor_pick", 1, 700)
	err := sampleOn(t, o, g, 1, &Request{Seeds: [][]int64{{0}}})
	expect.That(t, errors.Is(err, device.ErrDeviceLost), "%v, want ErrDeviceLost", err)
	expect.OK(t, o.worker.Close())
	cudatest.Findings() // the loss was asked for
}

// overTheBus samples once with the graph in host memory, and hot with its edges on the device as well. It returns the
// picks, the destinations, and the sectors of 32 bytes that the kernels read of the graph on the host.
func (d *deviceUnderTest) overTheBus(g *graph.Graph, n Neighbor, seeds int, hot bool) (picks, dsts int64,
	sectors map[string]uint64) {
	d.t.Helper()
	onHost := func(data []byte) device.Address {
		region, err := pinned.Allocate(int64(len(data)), pinned.Options{Device: d.device, Place: pinned.Pinned})
		expect.OK(d.t, err)
		d.t.Cleanup(func() { region.Close() })
		copy(region.Bytes(), data)
		return region.Address()
	}
	env := DeviceEnv{Env: Env{Graph: g, BatchSize: seeds}, MaxBlocks: 8, Topology: Topology{
		Indptr: onHost(unified.FromSlice(g.Indptr()).Bytes()), Indices: onHost(g.Indices().Bytes()),
		Types: onHost(g.Types().Bytes())}}
	if hot {
		d.keepHot(g, everyNode(rand.New(rand.NewPCG(3, 3)), g), g.NumEdges(), &env.Topology)
	}
	o := d.open(n, env)
	req := &Request{Rand: NewRand(1, 0, 0, 0), Seeds: [][]int64{make([]int64, seeds)}}
	for i := range req.Seeds[0] {
		req.Seeds[0][i] = int64(i) * 31 % g.NumNodes()
	}
	cudatest.ResetStats(d.t)
	expect.OK(d.t, o.enqueue(context.Background(), req))
	sectors = make(map[string]uint64)
	for _, kernel := range []string{"assembly_seed", "assembly_flag", "assembly_lists", "assembly_append",
		"assembly_relabel",
		"neighbor_count", "assembly_admit", "neighbor_pick", "neighbor_expand"} {
		if s := cudatest.Sectors(d.t, kernel, cudatest.Host); s > 0 {
			sectors[kernel] = s
		}
	}
	for l := range o.sample.Blocks {
		for e := range o.sample.Blocks[l] {
			picks += o.sample.Blocks[l][e].NumEdges()
			dsts += o.sample.Blocks[l][e].NumDst
		}
	}
	return picks, dsts, sectors
}

func TestDeviceReadsTheGraphSparingly(t *testing.T) {
	cudatest.Checks(t, "lines")
	for name, c := range map[string]struct {
		n                Neighbor
		types            int
		perPick, perNode float64 // sectors over the bus
	}{
		"fan-outs":      {Neighbor{Fanouts: []int{10, 5}, Frontier: AllNodes}, 1, 1, 1.3},
		"replacement":   {Neighbor{Fanouts: []int{10, 5}, Frontier: AllNodes, Replace: true}, 1, 1, 1.3},
		"large":         {Neighbor{Fanouts: []int{50}, Frontier: AllNodes}, 1, 1, 1.3},
		"all":           {Neighbor{Fanouts: []int{All}, Frontier: AllNodes}, 1, 0.35, 1.3},
		"several types": {Neighbor{Fanouts: []int{10, 5}, Frontier: AllNodes}, 3, 1, 4.75},
		// 4.7 of the PTX, which joins fewer reads
	} {
		d := openDevice(t)
		g := skewedGraph(t, rand.New(rand.NewPCG(3, 3)), 20000, c.types)
		picks, dsts, sectors := d.overTheBus(g, c.n, 300, false)
		perPick := float64(sectors["neighbor_pick"]+sectors["neighbor_expand"]) / float64(picks)
		perNode := float64(sectors["neighbor_count"]) / float64(dsts)
		t.Logf("%s: %d picks, %d destinations; %.3f sectors a pick, %.3f a destination", name, picks, dsts, perPick,
			perNode)
		delete(sectors, "neighbor_pick")
		delete(sectors, "neighbor_expand")
		delete(sectors, "neighbor_count")
		expect.That(t, perPick <= c.perPick && perNode <= c.perNode && len(sectors) <= 0,
			"%s: %.3f sectors a pick, at most %.2f; %.3f a destination, at most %.2f; others: %v", name, perPick,
			c.perPick, perNode, c.perNode, sectors)
	}
}

func BenchmarkDeviceNeighbor(b *testing.B) {
	for _, fanout := range []int{5, 15, 50, All} {
		b.Run(fmt.Sprintf("fanout=%d", fanout), func(b *testing.B) {
			d := openDevice(b)
			g := skewedGraph(b, rand.New(rand.NewPCG(3, 3)), 20000, 1)
			var picks int64
			var sectors map[string]uint64
			for b.Loop() {
				picks, _, sectors = d.overTheBus(g, Neighbor{Fanouts: []int{fanout}, Frontier: AllNodes}, 300, false)
			}
			b.ReportMetric(float64(sectors["neighbor_pick"]+sectors["neighbor_expand"])/float64(picks), "sectors/pick")
		})
	}
}
