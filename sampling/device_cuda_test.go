//go:build cuda

package sampling

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// deviceUnderTest is a device with a stream and a graph's arrays on it.
type deviceUnderTest struct {
	t      testing.TB
	device *device.Device
	stream *device.Stream
}

// openDevice fails where there is no device, since these tests are only built for one. The test fails on whatever the
// simulated one finds.
func openDevice(t testing.TB) *deviceUnderTest {
	t.Helper()
	gpu := cudatest.Open(t)
	stream := expect.Must(gpu.NewStream())(t)
	t.Cleanup(func() {
		expect.OK(t, stream.Close())
	})
	return &deviceUnderTest{t, gpu, stream}
}

// upload copies an array to the device for as long as the test runs.
func (d *deviceUnderTest) upload(data []byte) device.Address {
	d.t.Helper()
	memory, err := d.device.Alloc(int64(len(data)))
	expect.OK(d.t, err)
	addr := memory.Address()
	if err = d.stream.CopyToDevice(addr, data); err == nil {
		err = d.stream.Synchronize()
	}
	expect.OK(d.t, err)
	d.t.Cleanup(func() {
		expect.OK(d.t, memory.Close())
	})
	return addr
}

// topology puts a graph's arrays on the device, with ids as wide as asked for. The types of a graph with wide ids begin
// between two vectors.
func (d *deviceUnderTest) topology(g *graph.Graph, ids unified.DType) Topology {
	indices, odd := g.Indices(), int64(0)
	if ids == unified.Int64 {
		indices, odd = unified.FromSlice(widen(d.t, indices)), g.Types().DType().Size()
	}
	types := append(make([]byte, odd), g.Types().Bytes()...)
	return Topology{Indptr: d.upload(unified.FromSlice(g.Indptr()).Bytes()), Indices: d.upload(indices.Bytes()),
		Types: d.upload(types) + device.Address(odd)}
}

// uploadColumns puts the columns that a sampler reads on the device.
func (d *deviceUnderTest) uploadColumns(n Sampler, g *graph.Graph, to *Topology) {
	d.t.Helper()
	said := expect.Must(n.Describe(g.Schema(), 1))(d.t)
	columns := expect.Must(EdgeColumns(g, said.EdgeColumns))(d.t)
	for _, c := range columns {
		to.Columns = append(to.Columns, d.upload(c.Bytes()))
	}
	for _, name := range said.NodeColumns {
		at := make([]device.Address, len(g.Schema().Nodes))
		for t := range at {
			if c, ok := g.NodeColumn(t, name); ok {
				at[t] = d.upload(c.Bytes())
			}
		}
		to.NodeColumns = append(to.NodeColumns, at)
	}
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
func (d *deviceUnderTest) open(n DeviceSampler, env DeviceEnv) *onDevice {
	d.t.Helper()
	env.Device, env.Stream = d.device, d.stream
	w := expect.Must(n.OpenDevice(env))(d.t)
	o := &onDevice{deviceUnderTest: d, worker: w}
	s := env.Graph.Schema()
	bound := boundOf(n, s, env.BatchSize)
	bound.Init(&o.sample, s, pinned.Options{Device: d.device})
	d.t.Cleanup(func() {
		expect.OK(d.t, o.Close())
	})
	return o
}

// openVariants opens the sampler over every width of ids and every table, and with buffers that are too small.
func (d *deviceUnderTest) openVariants(n DeviceSampler, g *graph.Graph, blocks int) map[string]*onDevice {
	d.t.Helper()
	return d.openSome(n, g, blocks, []string{"as opened", "hash", "small", "small hash", "int64", "int64 hash"})
}

// runsOnDevices returns a sampler as one of devices, unless it or what it makes sequences of runs on the CPU alone.
func runsOnDevices(s Sampler) (on DeviceSampler, ok bool) {
	of := s
	if k, is := s.(Sequence); is {
		of = k.Of
	}
	if _, ok = of.(DeviceSampler); ok {
		on = s.(DeviceSampler)
	}
	return on, ok
}

// noPositions reports whether a sampler's edges have no positions.
func noPositions(s Sampler) bool {
	switch s.(type) {
	case PinSage, Sequence, preparedSequence:
		return true
	}
	return false
}

// openSome opens some of the variants.
func (d *deviceUnderTest) openSome(n DeviceSampler, g *graph.Graph, blocks int, names []string) map[string]*onDevice {
	d.t.Helper()
	none := noPositions(n)
	narrow := DeviceEnv{Env: Env{Graph: g, BatchSize: 40, EdgePos: !none}, Topology: d.topology(g, unified.Int32),
		MaxBlocks: blocks}
	d.uploadColumns(n, g, &narrow.Topology)
	wide := narrow
	wide.Topology = d.topology(g, unified.Int64)
	wide.Topology.Columns, wide.Topology.NodeColumns = narrow.Topology.Columns, narrow.Topology.NodeColumns
	all := map[string]*onDevice{}
	for _, name := range names {
		env := narrow
		if strings.Contains(name, "int64") {
			env = wide
		}
		all[name] = d.open(n, env)
		w := all[name].assembly()
		w.direct = !w.apart() && !strings.Contains(name, "hash")
		switch name {
		case "int64", "int64 hash":
			w.ids, w.pos = unified.Int64, unified.Int64
			if k, ok := all[name].worker.(*deviceSequences); ok {
				k.from.ids, k.from.pos = unified.Int64, unified.Int64
			}
		case "small":
			w.capacity = w.newCapacity(1, 1)
			if k, ok := all[name].worker.(*deviceSequences); ok {
				k.from.capacity = k.from.newCapacity(1, 1)
			}
		case "small hash":
			w.capacity.bits = 1
		}
	}
	return all
}

func (o *onDevice) Sample(ctx context.Context, req *Request, out *graph.Sample) error {
	if err := o.enqueue(ctx, req); err != nil {
		return err
	}
	return o.bring(out)
}

// enqueue samples to the device, as often as it takes.
func (o *onDevice) enqueue(ctx context.Context, req *Request) error {
	for {
		if err := o.worker.Enqueue(ctx, req, &o.sample); err != nil {
			return err
		}
		if err := o.stream.Synchronize(); err != nil {
			return err
		}
		replay, err := o.worker.Finish(&o.sample)
		if err != nil || !replay {
			return err
		}
		if o.replays++; o.replays > 100 {
			return errors.New("the worker asks for more room again and again")
		}
	}
}

func (o *onDevice) bring(out *graph.Sample) (err error) {
	bring := func(x *unified.Tensor, from unified.Tensor, to *unified.Buffer) {
		if err == nil {
			*x, err = o.download(from, to)
		}
	}
	for t := range out.Nodes {
		bring(&out.Nodes[t], o.sample.Nodes[t], &out.Buffers.Nodes[t])
		bring(&out.SeedLocal[t], o.sample.SeedLocal[t], &out.Buffers.Seeds[t])
	}
	for i := range out.Arrays {
		bring(&out.Arrays[i].Rows, o.sample.Arrays[i].Rows, &out.Buffers.Arrays[i])
	}
	for h := range out.NumNodes {
		copy(out.NumNodes[h], o.sample.NumNodes[h])
	}
	for l := range out.Blocks {
		for e := range out.Blocks[l] {
			b, from := &out.Blocks[l][e], &o.sample.Blocks[l][e]
			b.NumSrc, b.NumDst = from.NumSrc, from.NumDst
			bring(&b.Indptr, from.Indptr, &out.Buffers.Indptr[l][e])
			bring(&b.Indices, from.Indices, &out.Buffers.Indices[l][e])
			bring(&b.EdgePos, from.EdgePos, &out.Buffers.EdgePos[l][e])
		}
	}
	return err
}

// assembly is that of the worker: of sequences the one that places tokens.
func (o *onDevice) assembly() *deviceAssembly {
	if k, ok := o.worker.(*deviceSequences); ok {
		return k.deviceAssembly
	}
	return o.worker.(*deviceAssembly)
}

func (o *onDevice) disjoint() bool { return o.assembly().disjoint }
func (o *onDevice) timed() bool    { return o.assembly().times != nil }

func (o *onDevice) Close() error {
	if err := o.worker.Close(); err != nil {
		return err
	}
	return o.sample.Close()
}

func randomSeeds(r *rand.Rand, g *graph.Graph) [][]int64 {
	seeds := make([][]int64, len(g.Schema().Nodes))
	for t := range seeds {
		for range min(r.Int64N(8), 8*g.Schema().Nodes[t].Count) {
			seeds[t] = append(seeds[t], r.Int64N(g.Schema().Nodes[t].Count))
		}
	}
	return seeds
}

func TestDeviceNeighborEqualsTheOracle(t *testing.T) {
	const seed = 20261121
	r := rand.New(rand.NewPCG(seed, 0))
	buffers, table, rounds := 0, 0, 2 // for each order
	if *heavy {
		rounds = 20
	}
	cudatest.EachOrder(t, func(t *testing.T) {
		d := openDevice(t)
		for round := range rounds {
			types := [][2]int{{1, 1}, {1, 1}, {1, 3}, {3, 5}}[r.IntN(4)]
			g := randomGraph(t, r, types[0], types[1])
			b, t := d.compareVariants(fmt.Sprintf("seed %d round %d", seed, round), r, g, randomOptions(r, g.Schema()))
			buffers, table = buffers+b, table+t
		}
	})
	expect.That(t, buffers != 0 && table != 0,
		"%d replays because of small buffers, %d because of small tables: want some of each", buffers, table)
}

func TestDeviceKeepsTreesApart(t *testing.T) {
	const seed = 20261122
	r := rand.New(rand.NewPCG(seed, 0))
	d := openDevice(t)
	for round := range 4 {
		g := randomGraph(t, r, 1+round%3, 1+r.IntN(4))
		n := randomOptions(r, g.Schema())
		n.Disjoint = true
		d.compareVariants(fmt.Sprintf("seed %d round %d", seed, round), r, g, n)
	}
}

func TestDeviceRefusesMoreTreesThanItsTableTellsApart(t *testing.T) {
	d := openDevice(t)
	g := randomGraph(t, rand.New(rand.NewPCG(5, 5)), 1, 1)
	env := d.env(g, 1<<40)
	env.Device, env.Stream = d.device, d.stream
	_, err := Neighbor{Fanouts: []int{1}, Disjoint: true}.OpenDevice(env)
	expect.That(t, errors.Is(err, ErrOptions) && strings.Contains(err.Error(), "take smaller batches"),
		"%v, want ErrOptions with a remedy", err)
}

func TestDeviceNeighborTakesManyEdgeTypes(t *testing.T) {
	const seed = 41
	r := rand.New(rand.NewPCG(seed, 0))
	d := openDevice(t)
	// More types, of 16 bits, than threads that put them in order (512), and nodes that are new in the last of them.
	g := sizedGraph(t, r, 2, 1100, 900, func() int { return max(0, r.IntN(10)-8) })
	runs := newEdgeRuns(g)
	for _, n := range []Neighbor{{Fanouts: []int{2, 1}}, {PerType: map[string][]int{"r7": {5, 5}, "r250": {All},
		"r30": {40}}, Frontier: NewNodes}} {
		w := d.open(n, d.env(g, 8))
		req := &Request{Rand: NewRand(seed, 0, 0, 0), Seeds: randomSeeds(r, g)}
		compare(t, fmt.Sprintf("seed %d: %s", seed, n.Fingerprint()), g, w, req, oracle(g, runs, n, req))
	}
}

// compareVariants compares two batches with the oracle, and returns how often too small buffers and a too small table
// made a replay.
func (d *deviceUnderTest) compareVariants(what string, r *rand.Rand, g *graph.Graph, n Neighbor) (buffers, table int) {
	d.t.Helper()
	runs := newEdgeRuns(g)
	workers := d.openVariants(n, g, 1+r.IntN(4))
	for batch := range 2 {
		req := randomRequest(r, g.Schema(), uint64(batch))
		want := oracle(g, runs, n, req)
		for name, w := range workers {
			compare(d.t, fmt.Sprintf("%s batch %d: %s: %s", what, batch, n.Fingerprint(), name), g, w, req, want)
		}
	}
	return workers["small"].replays, workers["small hash"].replays
}

// skewedGraph has nodes of one type, edges of the given types, and hubs: sources are chosen by a steep distribution,
// and a few destinations have a great many edges.
func skewedGraph(t testing.TB, r *rand.Rand, nodes int64, edgeTypes int) *graph.Graph {
	s := graph.Schema{Nodes: []graph.NodeType{{Name: "node", Count: nodes}}}
	for e := range edgeTypes {
		s.Edges = append(s.Edges, graph.EdgeType{Source: "node", Relation: fmt.Sprintf("r%d", e), Target: "node"})
	}
	indptr := []int64{0}
	var indices []int32
	var types []uint8
	for v := range nodes {
		for e := range edgeTypes {
			d := r.IntN(20)
			if v%500 == 7 {
				d = 2000
			}
			for range d {
				x := r.Float64()
				indices = append(indices, int32(x*x*x*float64(nodes)))
				types = append(types, uint8(e))
			}
			s.Edges[e].Count += int64(d)
		}
		indptr = append(indptr, int64(len(indices)))
	}
	a := graph.Arrays{Schema: s, Indptr: unified.FromSlice(indptr), Indices: unified.FromSlice(indices)}
	if edgeTypes > 1 {
		a.Types = unified.FromSlice(types)
	}
	return graphs.Of(t, a)
}

func TestDeviceSharesManyDestinationsAmongFewWarps(t *testing.T) {
	const seed = 31
	r := rand.New(rand.NewPCG(seed, 0))
	d := openDevice(t)
	for _, types := range []int{1, 2} {
		g := skewedGraph(t, r, 3000, types)
		for _, n := range []Neighbor{
			{Fanouts: []int{15, 10, 5}},
			{Fanouts: []int{4, 3, All}, Frontier: NewNodes},
			{Fanouts: []int{40, 7}, Replace: true},
			{Fanouts: []int{100, 3}},
		} {
			host := expect.Must(n.Open(Env{Graph: g, BatchSize: 40, EdgePos: true}))(t)
			env := d.env(g, 40)
			env.MaxBlocks = 1
			device := d.open(n, env)
			req := &Request{Rand: NewRand(seed, 0, 0, uint64(types)), Seeds: [][]int64{{}}}
			for range 40 {
				req.Seeds[0] = append(req.Seeds[0], r.Int64N(3000))
			}
			want := new(graph.Sample)
			(&Bound{Layers: len(n.Fanouts)}).Init(want, g.Schema(), pinned.Options{})
			expect.OK(t, host.Sample(context.Background(), req, want))
			compare(t, fmt.Sprintf("seed %d: %d types: %s", seed, types, n.Fingerprint()), g, device, req,
				asOracle(t, want))
			want.Close()
			host.Close()
		}
	}
}

// asOracle returns a sample of the host in the form that compare takes.
func asOracle(t testing.TB, s *graph.Sample) *oracleSample {
	o := &oracleSample{numNodes: s.NumNodes}
	for i := range s.Nodes {
		o.nodes = append(o.nodes, widen(t, s.Nodes[i]))
		o.seeds = append(o.seeds, widen(t, s.SeedLocal[i]))
	}
	for l := range s.Blocks {
		var layer []oracleB
		for e := range s.Blocks[l] {
			b := &s.Blocks[l][e]
			layer = append(layer, oracleB{b.NumSrc, b.NumDst, widen(t, b.Indptr), widen(t, b.Indices),
				widen(t, b.EdgePos)})
		}
		o.blocks = append(o.blocks, layer)
	}
	return o
}
