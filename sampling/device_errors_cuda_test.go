//go:build cuda

package sampling

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// env is what a worker needs for a graph of 32-bit ids.
func (d *deviceUnderTest) env(g *graph.Graph, batch int) DeviceEnv {
	return DeviceEnv{Env: Env{Graph: g, BatchSize: batch, EdgePos: true}, Topology: d.topology(g, unified.Int32),
		MaxBlocks: 2}
}

// sampleOn samples once and drops the sample.
func sampleOn(t *testing.T, w Worker, g *graph.Graph, layers int, req *Request) error {
	t.Helper()
	var out graph.Sample
	(&Bound{Layers: layers}).Init(&out, g.Schema(), pinned.Options{})
	defer out.Close()
	return w.Sample(context.Background(), req, &out)
}

func TestDeviceReportsDamagedGraphs(t *testing.T) {
	d := openDevice(t)
	for name, c := range damagedGraphs {
		g := graphs.CSC(t, c.indptr, c.indices)
		w := d.open(Neighbor{Fanouts: []int{2, -1}, Frontier: AllNodes}, d.env(g, len(c.seeds)))
		for range 2 { // the worker goes on after an error
			err := sampleOn(t, w, g, 2, &Request{Seeds: [][]int64{c.seeds}})
			expect.Says(t, err, c.want, c.says, name)
		}
		for _, s := range []DeviceSampler{Walk{Length: 6, PerSeed: 3}, Saint{Kind: SaintWalks, Budget: 9, Length: 2}} {
			env := d.env(g, 9)
			req := &Request{Seeds: [][]int64{c.seeds}, Rand: NewRand(1, 0, 0, 0)}
			if said := expect.Must(s.Describe(g.Schema(), 9))(t); said.Items != nil {
				req.Seeds = [][]int64{nil}
			}
			host := expect.Must(s.(Sampler).Open(env.Env))(t)
			out := sampleOf(g, s, 40)
			want, err := host.Sample(t.Context(), req, out), d.open(s, env).Sample(t.Context(), req, out)
			expect.That(t, errors.Is(err, ErrGraph) == errors.Is(want, ErrGraph) && (err == nil) == (want == nil),
				"%s: %s: %v; the CPU says %v", name, s.Fingerprint(), err, want)
			expect.OK(t, errors.Join(host.Close(), out.Close()))
		}
	}
}

func TestDeviceReportsASourceOfAnotherType(t *testing.T) {
	a := graph.Arrays{
		Schema: graph.Schema{
			Nodes: []graph.NodeType{{Name: "a", Count: 2}, {Name: "b", Count: 2}},
			Edges: []graph.EdgeType{
				{Source: "b", Relation: "one", Target: "a", Count: 2},
				{Source: "a", Relation: "two", Target: "a", Count: 2},
			},
		},
		Indptr:  unified.FromSlice([]int64{0, 2, 4, 4, 4}),
		Indices: unified.FromSlice([]int32{2, 0, 3, 3}), // the last is a "b"
		Types:   unified.FromSlice([]uint8{0, 1, 0, 1}),
	}
	g := graphs.Of(t, a)
	d := openDevice(t)
	w := d.open(Neighbor{Fanouts: []int{5}, Frontier: AllNodes}, d.env(g, 2))
	expect.Is(t, sampleOn(t, w, g, 1, &Request{Seeds: [][]int64{{0}, nil}}), nil, "sound edges")
	err := sampleOn(t, w, g, 1, &Request{Seeds: [][]int64{{0, 1}, nil}})
	want := `hop 0, edge type a:two:a: invalid graph: edge 3: source 3 is not one of the 2 nodes of type "a"`
	expect.That(t, err != nil && err.Error() == want, "%v, want %s", err, want)
}

func TestDeviceStampsStartOver(t *testing.T) {
	const seed = 21
	r := rand.New(rand.NewPCG(seed, 0))
	d := openDevice(t)
	g := randomGraph(t, r, 2, 3)
	n, runs := Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes}, newEdgeRuns(g)
	for name, o := range d.openVariants(n, g, 2) {
		w := o.assembly()
		for batch := range 6 {
			if batch == 1 {
				w.stamp = maxStamp - 2
			}
			req := &Request{Rand: NewRand(r.Uint64(), 0, 0, uint64(batch)), Seeds: randomSeeds(r, g)}
			compare(t, fmt.Sprintf("seed %d batch %d: %s", seed, batch, name), g, o, req, oracle(g, runs, n, req))
		}
		expect.That(t, w.stamp <= 100, "%s: stamp is %d, did not start over", name, w.stamp)
	}
}

func TestDeviceWorkerHasOneBatchInHand(t *testing.T) {
	d := openDevice(t)
	g := randomGraph(t, rand.New(rand.NewPCG(5, 5)), 1, 1)
	n := Neighbor{Fanouts: []int{3}, Frontier: AllNodes}
	o := d.open(n, d.env(g, 2))
	ctx, req := context.Background(), &Request{Seeds: [][]int64{{0}}}
	expect.Is(t, expect.Err(o.worker.Finish(&o.sample)), ErrOptions, "finished what was not begun")
	var givenUp graph.Sample
	(&Bound{Layers: 1}).Init(&givenUp, g.Schema(), o.sample.Buffers.Nodes[0].Options)
	defer givenUp.Close()
	expect.OK(t, o.worker.Enqueue(ctx, &Request{Seeds: [][]int64{{1}}}, &givenUp))
	compare(t, "after a batch that was given up", g, o, req, oracle(g, newEdgeRuns(g), n, req))
	expect.Is(t, expect.Err(o.worker.Finish(&givenUp)), ErrOptions, "finished what was given up")
	expect.OK(t, o.worker.Enqueue(ctx, req, &o.sample))
	if err := o.worker.Close(); err != nil { // waits
		t.Error(err)
	}
	expect.Is(t, o.worker.Close(), nil, "closed twice")
}

func TestDeviceEnqueueRefusesWhatItCannotDo(t *testing.T) {
	d := openDevice(t)
	g := randomGraph(t, rand.New(rand.NewPCG(5, 5)), 1, 1)
	n := Neighbor{Fanouts: []int{3}, Frontier: AllNodes}
	env := d.env(g, 2)
	why := errors.New("enough")
	cancelled, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	var ledger pinned.Ledger
	ledger.SetDeviceLimit(1000)
	limited := env
	limited.Scratch.Ledger = &ledger
	onHost := new(graph.Sample)
	(&Bound{Layers: 1}).Init(onHost, g.Schema(), pinned.Options{})
	for name, c := range map[string]struct {
		env  DeviceEnv
		ctx  context.Context
		req  *Request
		out  *graph.Sample
		want error
	}{
		"cancelled":        {env, cancelled, &Request{Seeds: [][]int64{{0}}}, nil, why},
		"seeds of no type": {env, context.Background(), &Request{}, nil, ErrOptions},
		"no such node": {env, context.Background(), &Request{Seeds: [][]int64{{g.NumNodes()}}}, nil,
			graph.ErrSeed},
		"a sample on hosts": {env, context.Background(), &Request{Seeds: [][]int64{{0}}}, onHost, ErrOptions},
		"no memory":         {limited, context.Background(), &Request{Seeds: [][]int64{{0}}}, nil, pinned.ErrLimit},
	} {
		o := d.open(n, c.env)
		out := c.out
		if out == nil {
			out = &o.sample
		}
		expect.Is(t, o.worker.Enqueue(c.ctx, c.req, out), c.want, name)
	}
	expect.Is(t, expect.Err((Neighbor{}).OpenDevice(env)), ErrOptions, "no hops")
}

func TestDeviceWorkerStartsSmallerWhereMemoryIsShort(t *testing.T) {
	d := openDevice(t)
	g := skewedGraph(t, rand.New(rand.NewPCG(5, 5)), 20000, 1)
	n := Neighbor{Fanouts: []int{2, 100, 2}, Frontier: AllNodes} // most nodes have far fewer edges than the bound
	var ledger pinned.Ledger
	env := d.env(g, 16)
	env.Scratch.Ledger = &ledger
	req := &Request{Seeds: [][]int64{{1, 2, 3}}}
	want := oracle(g, newEdgeRuns(g), n, req)
	for _, limit := range []int64{1 << 40, 100_000, 10_000} {
		ledger.SetDeviceLimit(limit)
		o := d.open(n, env)
		o.assembly().direct = false
		if limit > 10_000 {
			compare(t, fmt.Sprintf("%d bytes", limit), g, o, req, want)
		} else if err := sampleOn(t, o, g, 3, req); !errors.Is(err, pinned.ErrLimit) {
			t.Errorf("%d bytes: %v, want ErrLimit", limit, err)
		}
		expect.OK(t, o.worker.Close())
	}
}
