//go:build cuda

package sampling

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// room is what a worker has room for: nodes by hop and type, edges by hop and type.
type room struct{ nodes, edges [][]int64 }

// needed returns what the worker's last batch needed, to the cell.
func (o *onDevice) needed() (r room) {
	w := o.assembly()
	for h := range w.bound.Layers + 1 {
		r.nodes = append(r.nodes, slices.Clone(w.lengths(h)))
	}
	for h := range w.bound.Layers {
		r.edges = append(r.edges, slices.Clone(w.made(h)))
	}
	return r
}

// lessOne returns r with one cell less of the nodes or edges.
func (r room) lessOne(nodes bool, h, i int) (c room) {
	for _, row := range r.nodes {
		c.nodes = append(c.nodes, slices.Clone(row))
	}
	for _, row := range r.edges {
		c.edges = append(c.edges, slices.Clone(row))
	}
	if nodes {
		c.nodes[h][i]--
	} else {
		c.edges[h][i]--
	}
	return c
}

// give gives the worker exactly that room, and a table with keys.
func (o *onDevice) give(r room) {
	w := o.assembly()
	w.direct, w.guess = false, 0
	w.capacity.nodes, w.capacity.edges, w.capacity.bits = r.nodes, r.edges, 0
	w.capacity.fitTable()
}

// takenTwice is a graph of two node types and three edge types, with hubs, and a batch of two hops that takes edges of
// one type at both.
func takenTwice(t *testing.T, r *rand.Rand, n Neighbor) (*graph.Graph, *Request, *oracleSample) {
	req := &Request{Rand: NewRand(61, 0, 0, 0), Seeds: [][]int64{{5, 2, 8}, {1, 7}}}
	for {
		g := randomGraph(t, r, 2, 3)
		if s := g.Schema(); s.Nodes[0].Count < 10 || s.Nodes[1].Count < 10 {
			continue
		}
		want := oracle(g, newEdgeRuns(g), n, req)
		for e := range want.blocks[0] {
			first := len(want.blocks[1][e].edge)
			if first > 0 && len(want.blocks[0][e].edge) > first && want.numNodes[2][0] > want.numNodes[1][0] {
				return g, req, want
			}
		}
	}
}

// TestDeviceUsesItsRoomToTheLastCell gives a batch the room that it needs, which it must fill without a replay, and
// then one cell less at each place in turn, which it must say before it writes there. The simulator finds what is
// written or read behind a buffer.
func TestDeviceUsesItsRoomToTheLastCell(t *testing.T) {
	const seed = 61
	r := rand.New(rand.NewPCG(seed, 0))
	d := openDevice(t)
	for _, n := range []Neighbor{{Fanouts: []int{3, 2}}, {Fanouts: []int{2, All}, Frontier: NewNodes},
		{Fanouts: []int{2, 40}, Disjoint: true}} {
		g, req, want := takenTwice(t, r, n)
		env := d.env(g, 0)
		replays := func(what string, prepare, look func(*onDevice)) int {
			o := d.open(n, env)
			defer o.Close()
			prepare(o)
			compare(t, fmt.Sprintf("seed %d: %s: %s", seed, n.Fingerprint(), what), g, o, req, want)
			look(o)
			return o.replays
		}
		nothing := func(*onDevice) {}
		var exact room
		replays("any room", nothing, func(o *onDevice) { exact = o.needed() })
		got := replays("exact", func(o *onDevice) { o.give(exact) }, nothing)
		expect.That(t, got == 0, "%s: %d replays with room enough", n.Fingerprint(), got)
		short := func(nodes bool, h, i int) {
			what := fmt.Sprintf("one short: nodes %t, hop %d, type %d", nodes, h, i)
			expect.That(t, replays(what, func(o *onDevice) { o.give(exact.lessOne(nodes, h, i)) }, nothing) != 0,
				"%s: %s: no replay", n.Fingerprint(), what)
		}
		for h := 1; h < len(exact.nodes); h++ {
			for i, have := range exact.nodes[h] {
				last := h == len(exact.nodes)-1
				isTarget := slices.ContainsFunc(g.Schema().Edges, func(e graph.EdgeType) bool { return e.Dst == i })
				if have > exact.nodes[0][i] && (last && have > exact.nodes[h-1][i] || !last && isTarget) {
					short(true, h, i)
				}
			}
		}
		for h, row := range exact.edges {
			for e, have := range row {
				if have > 0 && (n.Frontier == AllNodes || h == len(exact.edges)-1) {
					short(false, h, e)
				}
			}
		}
	}
}

// TestDeviceMakesLargeSubsetsApart takes edges of two types at the second hop, of which one has edges in the block
// already: its subsets still begin at its part of the scratch, and not so much further, where the other's are.
func TestDeviceMakesLargeSubsetsApart(t *testing.T) {
	const seed = 62
	r := rand.New(rand.NewPCG(seed, 0))
	d := openDevice(t)
	g := withColumns(t, r, sizedGraph(t, r, 1, 2, 90, func() int { return 60 + r.IntN(20) }))
	types := g.Schema().Edges
	for _, n := range []Neighbor{{}, {Share: 0.95}, {Weight: "w64"}, {Mask: "mask"}} {
		few := 40
		if n.Mask != "" {
			few = 33 // of those that it leaves
		}
		n.Frontier = NewNodes
		n.PerType = map[string][]int{types[0].String(): {30, few}, types[1].String(): {0, few}}
		req := &Request{Rand: NewRand(seed, 0, 0, 0), Seeds: [][]int64{{0, 1, 2}}}
		want := oracle(g, newEdgeRuns(g), n, req)
		if first, all := len(want.blocks[1][0].edge), len(want.blocks[0][0].edge); first < 60 || all < 2*first {
			t.Fatalf("%d edges of the first hop, %d in all: the test shows nothing", first, all)
		}
		env := d.env(g, 3)
		d.uploadColumns(n, g, &env.Topology)
		compare(t, fmt.Sprintf("seed %d: %s", seed, n.Fingerprint()), g, d.open(n, env), req, want)
	}
}

// TestDeviceTableTakesEverySlot fills a table to its last slot, batch after batch with the same and with other nodes,
// so that all its keys are those of earlier batches.
func TestDeviceTableTakesEverySlot(t *testing.T) {
	const seed, slots, nodes = 62, 64, 100
	cudatest.Configure(t, "order=random,seed=62") // lanes compete for a slot
	r := rand.New(rand.NewPCG(seed, 0))
	d := openDevice(t)
	var indptr []int64
	var indices []int32
	for v := range int32(nodes) { // each node is its own neighbour, so that the seeds are all there is
		indptr, indices = append(indptr, int64(v)), append(indices, v)
	}
	g := graphs.CSC(t, append(indptr, nodes), indices)
	n := Neighbor{Fanouts: []int{1}, Frontier: AllNodes}
	o := d.open(n, d.env(g, slots))
	w := o.assembly()
	w.direct, w.capacity.bits = false, 6
	w.capacity.nodes[1][0] = slots
	for batch := range 12 {
		req := &Request{Rand: NewRand(seed, 0, 0, uint64(batch)), Seeds: [][]int64{nil}}
		if batch%3 != 2 {
			for _, v := range r.Perm(nodes)[:slots] {
				req.Seeds[0] = append(req.Seeds[0], int64(v))
			}
		} else {
			for v := range int64(slots) { // the same nodes again
				req.Seeds[0] = append(req.Seeds[0], (int64(batch)+v)%slots)
			}
		}
		compare(t, fmt.Sprintf("seed %d batch %d", seed, batch), g, o, req, oracle(g, newEdgeRuns(g), n, req))
		expect.Ensure(t, o.replays <= 0, "seed %d batch %d: a table of %d slots has no room for as many nodes", seed,
			batch, slots)
	}
}

// TestDeviceNumbersThousandsOfChunks takes a batch that is cut into more chunks than one block adds up in two rounds,
// as on a device of 132 multiprocessors.
func TestDeviceNumbersThousandsOfChunks(t *testing.T) {
	const seed, perRound = 63, 8 * deviceSpine
	cudatest.Configure(t, "checks=addresses")
	r := rand.New(rand.NewPCG(seed, 0))
	d := openDevice(t)
	const seeds = 32*2*perRound + 700
	indptr, indices := make([]int64, seeds+1), make([]int32, seeds)
	for v := range seeds {
		indptr[v+1], indices[v] = int64(v+1), int32(r.IntN(seeds))
	}
	g := graphs.CSC(t, indptr, indices)
	n, env := Neighbor{Fanouts: []int{1}, Frontier: AllNodes}, d.env(g, seeds)
	env.MaxBlocks = 132 * defaultBlocksOfSM
	req := &Request{Rand: NewRand(seed, 0, 0, 0), Seeds: [][]int64{make([]int64, seeds)}}
	for v := range req.Seeds[0] {
		req.Seeds[0][v] = int64(v)
	}
	req.Seeds[0][seeds-40] = 0 // so that chunks differ
	compare(t, fmt.Sprintf("seed %d", seed), g, d.open(n, env), req, oracle(g, newEdgeRuns(g), n, req))
}

// farGraph has 3 * 2^31 edges to a node, 0 or 1, which no page of memory holds, all from node 0, and then a few of
// others; node 0 has none if it is not that node. Types as asked for.
func (d *deviceUnderTest) farGraph(r *rand.Rand, edgeTypes, to int) (*graph.Graph, Topology) {
	d.t.Helper()
	const far, tail, nodes = 3<<31 + 3, 1000, 90
	s := graph.Schema{Nodes: []graph.NodeType{{Name: "node", Count: nodes}}}
	for e := range edgeTypes {
		s.Edges = append(s.Edges, graph.EdgeType{Source: "node", Relation: fmt.Sprintf("r%d", e), Target: "node"})
	}
	s.Edges[0].Count = far
	sparse := func(n int) []byte {
		m := expect.Must(unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE))(d.t)
		d.t.Cleanup(func() { unix.Munmap(m) })
		return m
	}
	tensor := func(of unified.DType, b []byte) unified.Tensor {
		return expect.Must(unified.New(of, b, far+tail))(d.t)
	}
	a := graph.Arrays{Indices: tensor(unified.Int32, sparse(4*(far+tail)))}
	indices, _ := unified.View[int32](a.Indices)
	var types []uint8
	if edgeTypes > 1 {
		a.Types = tensor(unified.Uint8, sparse(far+tail))
		types, _ = unified.View[uint8](a.Types)
	}
	indptr, at := append(make([]int64, to+1), far), far
	for v := to + 1; v < nodes-1; v++ {
		more := r.IntN(9)
		if v == 7 {
			more = 60
		}
		for i := range more {
			indices[at+i] = int32(1 + r.IntN(nodes-1))
			e := i * edgeTypes / more
			if types != nil {
				types[at+i] = uint8(e)
			}
			s.Edges[e].Count++
		}
		at += more
		indptr = append(indptr, int64(at))
	}
	s.Edges[0].Count += far + tail - int64(at) // the last node has the rest
	indptr = append(indptr, far+tail)
	for i := at; i < far+tail; i++ {
		indices[i] = int32(1 + r.IntN(nodes-1))
	}
	a.Schema, a.Indptr = s, unified.FromSlice(indptr)
	g := graphs.Of(d.t, a)
	return g, d.farTopology(g, far)
}

// farTopology puts the first and the last of a large graph's edges on the device. What lies between stays zero.
func (d *deviceUnderTest) farTopology(g *graph.Graph, far int64) Topology {
	d.t.Helper()
	put := func(x unified.Tensor) device.Address {
		all, tail := x.Bytes(), far*x.DType().Size()
		if len(all) == 0 {
			return 0
		}
		memory := expect.Must(d.device.Alloc(int64(len(all))))(d.t)
		d.t.Cleanup(func() { memory.Close() })
		for _, part := range [][2]int64{{0, 1 << 20}, {tail, int64(len(all))}} {
			err := d.stream.CopyToDevice(memory.Address()+device.Address(part[0]), all[part[0]:part[1]])
			if err == nil {
				err = d.stream.Synchronize()
			}
			expect.OK(d.t, err)
		}
		return memory.Address()
	}
	return Topology{Indptr: d.upload(unified.FromSlice(g.Indptr()).Bytes()), Indices: put(g.Indices()),
		Types: put(g.Types())}
}

// TestDeviceSamplesBeyondFourBillionEdges has first edges, a degree and positions of more than 32 bits.
func TestDeviceSamplesBeyondFourBillionEdges(t *testing.T) {
	const seed = 64
	cudatest.NeedSimulator(t) // it backs only the memory that is touched
	cudatest.SetMemory(t, 64<<30)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, types := range []int{1, 2} {
		d := openDevice(t)
		g, topology := d.farGraph(r, types, 0)
		hot := topology
		d.keepHot(g, []int64{7, 3, 50}, 1<<10, &hot)
		for _, c := range []struct {
			n     Neighbor
			seeds []int64
		}{
			{Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes}, []int64{7, 0, 50, 0, 89}},
			{Neighbor{Fanouts: []int{5, 2}, Frontier: AllNodes, Replace: true}, []int64{0, 7, 3}},
			{Neighbor{Fanouts: []int{40}, Frontier: AllNodes}, []int64{0, 7, 3}},
			{Neighbor{Fanouts: []int{All}, Frontier: AllNodes}, []int64{7, 3, 50, 80}},
			{Neighbor{Fanouts: []int{3}, Frontier: AllNodes, Share: 0.5}, []int64{7, 0, 50}}, // 3 are less
			{Neighbor{Fanouts: []int{40}, Frontier: AllNodes, Share: 0.9, Replace: true}, []int64{0, 7}},
			{Neighbor{Fanouts: []int{40}, Frontier: AllNodes, Share: 0.9}, []int64{0, 7}},
			{Neighbor{Fanouts: []int{All}, Frontier: AllNodes, Share: 1e-9}, []int64{3, 0}},
		} {
			want := new(graph.Sample)
			(&Bound{Layers: len(c.n.Fanouts)}).Init(want, g.Schema(), pinned.Options{})
			req := &Request{Rand: NewRand(seed, 0, 0, 0), Seeds: [][]int64{c.seeds}}
			host, err := c.n.Open(Env{Graph: g, BatchSize: 8, EdgePos: true})
			if err == nil {
				err = host.Sample(context.Background(), req, want)
			}
			expect.OK(t, err)
			for _, isHot := range []bool{false, true} {
				env := DeviceEnv{Env: Env{Graph: g, BatchSize: 8, EdgePos: true}, Topology: topology, MaxBlocks: 1}
				if isHot {
					env.Topology = hot
				}
				compare(t, fmt.Sprintf("seed %d: %d types: %s: hot %t", seed, types, c.n.Fingerprint(), isHot), g,
					d.open(c.n, env), req, asOracle(t, want))
			}
			want.Close()
			host.Close()
		}
	}
}

// TestDeviceDrawsEdgesBeyondFourBillion draws among more edges than 32 bits count. Their source has no in-edges, so
// that subgraphs are small.
func TestDeviceDrawsEdgesBeyondFourBillion(t *testing.T) {
	const seed = 65
	cudatest.NeedSimulator(t) // it backs only the memory that is touched
	cudatest.SetMemory(t, 64<<30)
	d := openDevice(t)
	g, topology := d.farGraph(rand.New(rand.NewPCG(seed, 0)), 1, 1)
	env := Env{Graph: g, BatchSize: 1, EdgePos: true}
	for _, s := range []DeviceSampler{Saint{Budget: 40}, Walk{Length: 3, PerSeed: 40, Edges: true}} {
		host := expect.Must(s.(Sampler).Open(env))(t)
		o := d.open(s, DeviceEnv{Env: env, Topology: topology, MaxBlocks: 1})
		req := &Request{Rand: NewRand(seed, 0, 0, 0), Seeds: make([][]int64, 1)}
		if _, walk := s.(Walk); walk {
			req.Seeds[0] = []int64{1}
		}
		d.compareOne(fmt.Sprintf("seed %d", seed), host, o, g, s, req)
		expect.OK(t, host.Close())
	}
}
