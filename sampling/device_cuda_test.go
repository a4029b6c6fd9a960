//go:build cuda

package sampling

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/cuda"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// deviceUnderTest is a device with a stream and a graph's arrays on it.
type deviceUnderTest struct {
	t      testing.TB
	device *cuda.Device
	stream *cuda.Stream
}

// openDevice fails where there is no device: these tests are only built for one.
func openDevice(t testing.TB) *deviceUnderTest {
	t.Helper()
	device, err := cuda.Open(0)
	if err != nil {
		t.Fatalf("%v; for the simulated one run make cudasim and set KHOP_CUDA_DRIVER=dist/libcudasim.so", err)
	}
	stream, err := device.NewStream(cuda.PriorityLow)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stream.Close(); err != nil {
			t.Error(err)
		}
		if err := device.Close(); err != nil {
			t.Error(err)
		}
	})
	return &deviceUnderTest{t, device, stream}
}

// upload copies an array to the device for as long as the test runs.
func (d *deviceUnderTest) upload(data []byte) cuda.Address {
	d.t.Helper()
	addr, err := d.device.Alloc(int64(len(data)))
	if err == nil {
		err = d.stream.CopyToDevice(addr, data)
	}
	if err == nil {
		err = d.stream.Synchronize()
	}
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		if err := d.device.Free(addr); err != nil {
			d.t.Error(err)
		}
	})
	return addr
}

func (d *deviceUnderTest) topology(g *graph.Graph) Topology {
	return Topology{Indptr: d.upload(unified.FromSlice(g.Indptr()).Bytes()), Indices: d.upload(g.Indices().Bytes()), Types: d.upload(g.Types().Bytes())}
}

// download copies a tensor of the device into a buffer of the host.
func (d *deviceUnderTest) download(x unified.Tensor, to *unified.Buffer) (unified.Tensor, error) {
	n := int64(len(x.Bytes()))
	mem, err := unified.Grow[uint8](to, n, 0)
	if err == nil {
		err = d.stream.CopyToHost(mem[:n], x.Address())
	}
	if err == nil {
		err = d.stream.Synchronize()
	}
	if err != nil || !x.Valid() {
		return unified.Tensor{}, err
	}
	return to.Tensor(x.DType(), x.Shape()...)
}

// onDevice is a Worker that samples on a device and brings the sample to the host.
type onDevice struct {
	*deviceUnderTest
	worker  DeviceWorker
	sample  graph.Sample
	replays int
}

// open opens a sampler on the device.
func (d *deviceUnderTest) open(g *graph.Graph, n Neighbor, top Topology, blocks int) *onDevice {
	d.t.Helper()
	env := DeviceEnv{Env: Env{Graph: g, BatchSize: 8, EdgePos: true}, Device: d.device, Stream: d.stream, Topology: top, MaxBlocks: blocks}
	w, err := n.OpenDevice(env)
	if err != nil {
		d.t.Fatal(err)
	}
	o := &onDevice{deviceUnderTest: d, worker: w}
	o.sample.Init(g.Schema(), n.Bound(g.Schema(), 8).Layers, pinned.Options{Device: d.device})
	d.t.Cleanup(func() {
		if err := o.Close(); err != nil {
			d.t.Error(err)
		}
	})
	return o
}

func (o *onDevice) Sample(ctx context.Context, req *Request, out *graph.Sample) error {
	for replay := true; replay; {
		if err := o.worker.Enqueue(ctx, req, &o.sample); err != nil {
			return err
		}
		if err := o.stream.Synchronize(); err != nil {
			return err
		}
		var err error
		if replay, err = o.worker.Finish(&o.sample); err != nil {
			return err
		}
		if replay {
			o.replays++
		}
	}
	return o.bring(out)
}

func (o *onDevice) bring(out *graph.Sample) (err error) {
	bring := func(x *unified.Tensor, from unified.Tensor, to *unified.Buffer) {
		if err == nil {
			*x, err = o.download(from, to)
		}
	}
	for t := range out.Nodes {
		bring(&out.Nodes[t], o.sample.Nodes[t], out.NodeBuffer(t))
		bring(&out.SeedLocal[t], o.sample.SeedLocal[t], out.SeedBuffer(t))
	}
	for h := range out.NumNodes {
		copy(out.NumNodes[h], o.sample.NumNodes[h])
	}
	for l := range out.Blocks {
		for e := range out.Blocks[l] {
			b, from := &out.Blocks[l][e], &o.sample.Blocks[l][e]
			b.NumSrc, b.NumDst = from.NumSrc, from.NumDst
			bring(&b.Indptr, from.Indptr, out.IndptrBuffer(l, e))
			bring(&b.Indices, from.Indices, out.IndicesBuffer(l, e))
			bring(&b.EdgePos, from.EdgePos, out.EdgePosBuffer(l, e))
		}
	}
	return err
}

func (o *onDevice) Close() error {
	if err := o.worker.Close(); err != nil {
		return err
	}
	return o.sample.Close()
}

func randomSeeds(r *rand.Rand, g *graph.Graph) [][]int64 {
	seeds := make([][]int64, len(g.Schema().Nodes))
	for t := range seeds {
		for range r.IntN(8) {
			seeds[t] = append(seeds[t], r.Int64N(g.Schema().Nodes[t].Count))
		}
	}
	return seeds
}

func TestDeviceNeighborEqualsTheOracle(t *testing.T) {
	const seed = 20261121
	r := rand.New(rand.NewPCG(seed, 0))
	d := openDevice(t)
	for round := range 60 {
		types := [][2]int{{1, 1}, {1, 1}, {1, 3}, {3, 5}, {2, 300}}[r.IntN(5)]
		if types[1] == 300 && round%16 != 0 {
			types = [2]int{1, 1}
		}
		g := randomGraph(t, r, types[0], types[1])
		n := randomOptions(r, g.Schema())
		runs := newEdgeRuns(g)
		w := d.open(g, n, d.topology(g), 1+r.IntN(4))
		for batch := range 3 {
			req := &Request{Rand: NewRand(r.Uint64(), r.Uint32(), 0, uint64(batch)), Seeds: randomSeeds(r, g)}
			want := oracle(g, runs, n, req)
			compare(t, fmt.Sprintf("seed %d round %d batch %d: %s", seed, round, batch, n.Fingerprint()), g, w, req, want)
		}
	}
}
