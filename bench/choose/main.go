// Command choose measures samplers that look at the edges of a node to choose among them, by weight, by time or by
// variates of the sources (LABOR), beside GraphBolt's: bench/peers/choose.py runs both on the same arrays and seeds.
//
//	choose -dir D make           writes indptr, indices, weight and time as raw arrays
//	choose -dir D run weighted   samples, and prints one JSON object
//	choose -dir D draw weighted  samples the first batch's seeds again and again, and writes what it picks to D/khop
//	                             (bench/peers/means.py compares it)
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

const (
	batchSize = 1024
	lastTime  = 1 << 20 // of edges; seeds look back from there on
)

var (
	dir     = flag.String("dir", ".", "folder of the arrays")
	nodes   = flag.Int("nodes", 500_000, "nodes to make")
	edges   = flag.Int("edges", 25_000_000, "edges to make")
	batches = flag.Int("batches", 10, "batches to time, after 3 that are not")
)

func main() {
	flag.Parse()
	var err error
	switch flag.Arg(0) {
	case "make":
		err = makeArrays()
	case "run":
		err = run(flag.Arg(1))
	case "draw":
		err = draw(flag.Arg(1))
	default:
		err = fmt.Errorf("%q: must be make, run or draw", flag.Arg(0))
	}
	if err != nil {
		log.Fatal(err)
	}
}

// makeArrays makes a graph whose in-degrees fall with the square root of a random rank, as do sources.
func makeArrays() error {
	n, m := *nodes, *edges
	perm := rng.NewPermutation(1, uint64(n))
	root := func(x float64) float64 { return math.Sqrt(x+5) - math.Sqrt(5) }
	share := func(rank uint64) int64 { return int64(float64(m) * root(float64(rank)) / root(float64(n))) }
	indptr := make([]int64, n+1)
	byRank := make([]int32, n)
	for v := range n {
		r := perm.At(uint64(v))
		indptr[v+1] = indptr[v] + share(r+1) - share(r)
		byRank[r] = int32(v)
	}
	m = int(indptr[n])
	indices, weight, when := make([]int32, m), make([]float32, m), make([]int64, m)
	for i := range indices {
		u := rng.Float64(rng.Draw(1, uint64(i)))
		indices[i] = byRank[int(u*u*float64(n))]
		weight[i], when[i] = rng.Float32(rng.Draw(2, uint64(i))), int64(rng.Bounded(rng.Draw(3, uint64(i)), lastTime))
	}
	for name, bytes := range map[string][]byte{"indptr": unified.FromSlice(indptr).Bytes(),
		"indices": unified.FromSlice(indices).Bytes(), "weight": unified.FromSlice(weight).Bytes(),
		"time": unified.FromSlice(when).Bytes()} {
		if err := os.WriteFile(filepath.Join(*dir, name), bytes, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// read reads an array into memory on huge pages.
func read[T unified.Element](name string) ([]T, error) {
	b, err := os.ReadFile(filepath.Join(*dir, name))
	if err != nil {
		return nil, err
	}
	r, err := pinned.Allocate(int64(len(b)), pinned.Options{})
	if err != nil {
		return nil, err
	}
	copy(r.Bytes(), b)
	var z T
	return unsafe.Slice((*T)(unsafe.Pointer(&r.Bytes()[0])), len(b)/int(unsafe.Sizeof(z))), nil
}

func open() (*graph.Graph, error) {
	indptr, err := read[int64]("indptr")
	if err != nil {
		return nil, err
	}
	indices, err := read[int32]("indices")
	if err != nil {
		return nil, err
	}
	weight, err := read[float32]("weight")
	if err != nil {
		return nil, err
	}
	when, err := read[int64]("time")
	if err != nil {
		return nil, err
	}
	return graph.FromArrays(graph.Arrays{Schema: graph.Schema{
		Nodes:       []graph.NodeType{{Name: "n", Count: int64(len(indptr) - 1)}},
		Edges:       []graph.EdgeType{{Source: "n", Relation: "e", Target: "n", Count: int64(len(indices))}},
		EdgeColumns: []graph.Column{{Name: "weight", DType: unified.Float32}, {Name: "time", DType: unified.Int64}},
	}, Indptr: unified.FromSlice(indptr), Indices: unified.FromSlice(indices), EdgeColumns: map[string]unified.Tensor{
		"weight": unified.FromSlice(weight), "time": unified.FromSlice(when)}})
}

// samplers are what can be run. GraphBolt follows edges before the time of a node, and looks at all nodes of a tree as
// of the seed's.
var samplers = map[string]sampling.Sampler{
	"uniform":   sampling.Neighbor{Fanouts: fanouts, Frontier: sampling.AllNodes},
	"weighted":  sampling.Neighbor{Fanouts: fanouts, Frontier: sampling.AllNodes, Weight: "weight"},
	"labor":     sampling.Labor{Fanouts: fanouts, Frontier: sampling.AllNodes},
	"labor, 4":  sampling.Labor{Fanouts: fanouts, Frontier: sampling.AllNodes, BatchDependency: 4},
	"labor, 64": sampling.Labor{Fanouts: fanouts, Frontier: sampling.AllNodes, BatchDependency: 64},
	// GraphBolt expands a node as often as it was reached: two hops are enough.
	"temporal": sampling.Neighbor{Fanouts: fanouts[:2], Frontier: sampling.AllNodes,
		Time: sampling.Temporal{Edge: "time", Rules: []sampling.TimeRule{sampling.Before}}},
	"temporal weighted": sampling.Neighbor{Fanouts: fanouts[:2], Frontier: sampling.AllNodes, Weight: "weight",
		Time: sampling.Temporal{Edge: "time",
			Rules: []sampling.TimeRule{sampling.Before}}},
}

var fanouts = []int{15, 10, 5}

// opened is a sampler over the arrays.
type opened struct {
	g      *graph.Graph
	w      sampling.Worker
	out    graph.Sample
	asOf   bool // seeds have times
	layers int
}

func openSampler(samplers map[string]sampling.Sampler, name string, edgePos bool) (*opened, error) {
	g, err := open()
	if err != nil {
		return nil, err
	}
	s, ok := samplers[name]
	if !ok {
		return nil, fmt.Errorf("no sampler %q", name)
	}
	said, err := s.Describe(g.Schema(), batchSize)
	if err != nil {
		return nil, err
	}
	o := &opened{g: g, layers: said.Bound.Layers, asOf: strings.Contains(name, "temporal")}
	if o.w, err = s.Open(sampling.Env{Graph: g, BatchSize: batchSize, EdgePos: edgePos}); err != nil {
		return nil, err
	}
	said.Bound.Init(&o.out, g.Schema(), pinned.Options{})
	return o, nil
}

func (o *opened) Close() error { return errors.Join(o.w.Close(), o.out.Close()) }

// beside are samplers of two hops, and of one with times, whose lists of GraphBolt may have a node twice.
var beside = map[string]sampling.Sampler{
	"uniform":      sampling.Neighbor{Fanouts: fanouts[:2], Frontier: sampling.AllNodes},
	"uniform, new": sampling.Neighbor{Fanouts: fanouts[:2], Frontier: sampling.NewNodes},
	"weighted":     sampling.Neighbor{Fanouts: fanouts[:2], Frontier: sampling.AllNodes, Weight: "weight"},
	"labor":        sampling.Labor{Fanouts: fanouts[:2], Frontier: sampling.AllNodes},
	"temporal": sampling.Neighbor{Fanouts: fanouts[:1], Frontier: sampling.AllNodes,
		Time: sampling.Temporal{Edge: "time", Rules: []sampling.TimeRule{sampling.Before}}},
	"temporal weighted": sampling.Neighbor{Fanouts: fanouts[:1], Frontier: sampling.AllNodes, Weight: "weight",
		Time: sampling.Temporal{Edge: "time",
			Rules: []sampling.TimeRule{sampling.Before}}},
}

// draw writes, for each batch of the same seeds, how many picks hop 0 has, how many edges and nodes the batch has, and
// the positions of these picks, as int64.
func draw(name string) error {
	o, err := openSampler(beside, name, true)
	if err != nil {
		return err
	}
	defer o.Close()
	var all []int64
	for batch := range *batches {
		req := request(o.g, 0, o.asOf)
		req.Rand = sampling.NewRand(1, 0, 0, uint64(batch))
		if err := o.w.Sample(context.Background(), req, &o.out); err != nil {
			return err
		}
		b := &o.out.Blocks[o.layers-1][0]
		pos, err := unified.View[int32](b.EdgePos)
		if err != nil {
			return err
		}
		edges := int64(0)
		for l := range o.out.Blocks {
			edges += o.out.Blocks[l][0].NumEdges()
		}
		if len(o.out.Blocks) > 1 && name == "uniform, new" {
			edges = o.out.Blocks[0][0].NumEdges() // which has those of the hops before
		}
		all = append(all, int64(len(pos)), edges, o.out.NumNodes[o.layers][0])
		for _, p := range pos {
			all = append(all, int64(p))
		}
	}
	return os.WriteFile(filepath.Join(*dir, "khop"), unified.FromSlice(all).Bytes(), 0o644)
}

func run(name string) error {
	o, err := openSampler(samplers, name, false)
	if err != nil {
		return err
	}
	defer o.Close()
	g, w, out := o.g, o.w, &o.out
	var wall, cpu time.Duration
	sampled, reached, shared := int64(0), int64(0), int64(0)
	last := make([]int, g.NumNodes()) // batch that a node was in
	for batch := range 3 + *batches {
		req := request(g, batch, o.asOf)
		from, began := processorTime(), time.Now()
		if err := w.Sample(context.Background(), req, out); err != nil {
			return err
		}
		if batch >= 3 {
			wall, cpu = wall+time.Since(began), cpu+processorTime()-from
			sampled, reached = sampled+out.NumEdges(), reached+out.NumNodes[o.layers][0]
		}
		ids, err := unified.View[int32](out.Nodes[0])
		if err != nil {
			return err
		}
		for _, v := range ids {
			if batch >= 3 && last[v] == batch {
				shared++
			}
			last[v] = batch + 1
		}
	}
	per := float64(*batches)
	return json.NewEncoder(os.Stdout).Encode(map[string]float64{"wall_ms": wall.Seconds() * 1e3 / per,
		"cpu_ms": cpu.Seconds() * 1e3 / per, "edges": float64(sampled) / per, "nodes": float64(reached) / per,
		"shared": float64(shared) / float64(reached)})
}

// request is the seeds of a batch: node (i * 7919) mod nodes for item i of the epoch, the time between half of the span
// and its end.
func request(g *graph.Graph, batch int, timed bool) *sampling.Request {
	seeds, times := make([]int64, batchSize), make([]int64, batchSize)
	for i := range seeds {
		item := int64(batch*batchSize + i)
		seeds[i], times[i] = item*7919%g.NumNodes(), lastTime/2+item*104729%(lastTime/2)
	}
	req := &sampling.Request{Seeds: [][]int64{seeds}, Rand: sampling.NewRand(1, 0, 0, uint64(batch))}
	if timed {
		req.Times = [][]int64{times}
	}
	return req
}

func processorTime() time.Duration {
	took, err := machine.ProcessorTime()
	if err != nil {
		log.Fatal(err)
	}
	return took
}
