//go:build cuda

package gpu

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/synthetic"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

var (
	countsFolder = flag.String("counts.graphs", "", "with -rewrite, also count real batches of each *.khop in here")
	countsOnly   = flag.String("counts.only", "", "expression: count these samplers alone; -rewrite keeps the others")
	countsCommit = flag.String("counts.commit", "", "with -rewrite, the commit of the kernels")
)

// countedSamplers are those of docs/results/gpu.md, for batches of this number of seeds. Those without seeds draw
// batches of a like size.
func countedSamplers(t *testing.T, g *graph.Graph, seeds int) map[string]sampling.Sampler {
	asOf, hops := int64(50), []int{15, 10, 5}
	if len(g.Schema().Edges) > 1 { // of each edge type
		hops = []int{10, 5}
	}
	all := map[string]sampling.Sampler{
		"uniform":            sampling.Neighbor{Fanouts: hops},
		leavingOut:           sampling.Neighbor{Fanouts: hops},
		"replacing":          sampling.Neighbor{Fanouts: hops, Replace: true},
		"trees apart":        sampling.Neighbor{Fanouts: hops, Disjoint: true},
		"weighted":           sampling.Neighbor{Fanouts: hops, Weight: "w"},
		"temporal":           sampling.Neighbor{Fanouts: hops, Time: sampling.Temporal{Edge: "t", AsOf: &asOf}},
		"labor":              sampling.Labor{Fanouts: hops},
		"hops, then induced": sampling.Neighbor{Fanouts: hops[:2], Induced: true},
		"shadow":             sampling.Shadow{Fanouts: hops[:2]},
		"induced":            sampling.Induced{},
		"cluster":            sampling.Cluster{Partition: evenParts(t, g, int64(seeds)), PerBatch: 8},
		"saint, nodes":       sampling.Saint{Budget: 6 * seeds},
		"saint, edges":       sampling.Saint{Kind: sampling.SaintEdges, Budget: 4 * seeds},
		"saint, walks":       sampling.Saint{Kind: sampling.SaintWalks, Budget: 3 * seeds, Length: 2},
		"fastgcn":            sampling.FastGCN{Nodes: []int{4 * seeds, 4 * seeds}},
		"ladies":             sampling.Ladies{Nodes: []int{4 * seeds, 4 * seeds}},
		"hgt":                sampling.HGT{Nodes: []int{seeds, seeds}},
		"walk":               sampling.Walk{Length: 40, PerSeed: 10},
		"node2vec":           sampling.Node2Vec{Length: 20, PerSeed: 4, P: 0.5, Q: 2},
		"pinsage":            sampling.PinSage{Neighbors: 32, Length: 2},
		"pinsage, 600 steps": sampling.PinSage{Neighbors: 32, Walks: 200, Length: 3},
		"both directions":    sampling.Neighbor{Fanouts: hops, Direction: sampling.Both},
	}
	if len(g.Schema().Edges) > 1 {
		all["together"] = sampling.Neighbor{Fanouts: hops, Together: true}
		delete(all, "both directions") // edges join two types
	}
	return all
}

// What counts besides, with an edge of each seed: leaving these out, and five strict negatives for each. The edges
// counted are the negatives.
const leavingOut, drawing = "uniform, an edge left out", "negatives"

// samplerCount is what a sampler asks for to make one batch over the bus.
type samplerCount struct {
	Commit  string                 `json:"commit"` // of the kernels
	Nodes   int64                  `json:"nodes"`
	Edges   int64                  `json:"edges"`
	Kernels map[string]kernelReads `json:"kernels"`
}

// kernelReads is what the launches of a kernel for one batch ask for. Needed are the bytes of the graph that no kernel
// had read before. Longest are the reads of the warp that makes the most of them, each launch's added up.
type kernelReads struct {
	kernelCount
	Needed        uint64 `json:"needed"`
	LongestBus    uint64 `json:"longest_bus"`
	LongestDevice uint64 `json:"longest_device"`
}

// TestCountsOfSamplers keeps samplers.json true, which -rewrite makes: what docs/results/gpu.md says of each
// sampler. Batches of a small graph are counted each night, real ones (bench/gpu/counts.sh) only for that page.
func TestCountsOfSamplers(t *testing.T) {
	if !expect.Night() && !expect.Rewriting() {
		t.Skip("make nightly runs it")
	}
	cudatest.NeedSimulator(t)
	cudatest.Configure(t, "checks=lines")
	path := filepath.Join(t.TempDir(), "small.khop")
	expect.Must(synthetic.Generate(t.Context(), synthetic.Products, path, synthetic.Options{Nodes: 20_000}))(t)
	const file = "samplers.json"
	var want map[string]map[string]samplerCount
	if text, err := os.ReadFile(file); err == nil {
		expect.OK(t, json.Unmarshal(text, &want))
	}
	got := map[string]map[string]samplerCount{"small": countSamplers(t, path, 16, 4)}
	if *countsFolder != "" {
		for _, path := range expect.Must(filepath.Glob(filepath.Join(*countsFolder, "*.khop")))(t) {
			got[strings.TrimSuffix(filepath.Base(path), ".khop")] = countSamplers(t, path, 1024, 132)
		}
	}
	if expect.Rewriting() {
		for graph, samplers := range want { // what was not counted stays
			maps.Copy(samplers, got[graph])
			got[graph] = samplers
		}
		text := expect.Must(json.MarshalIndent(got, "", " "))(t)
		text = regexp.MustCompile(`\{[^{}]*\}`).ReplaceAllFunc(text, func(kernel []byte) []byte { // in a line
			return bytes.Join(bytes.Fields(kernel), nil)
		})
		expect.OK(t, os.WriteFile(file, append(text, '\n'), 0o644))
		return
	}
	for name, g := range got["small"] {
		for kernel, w := range want["small"][name].Kernels {
			g := g.Kernels[kernel]
			same := g.Launches == w.Launches && g.Needed == w.Needed
			expect.That(t, same && alike(g.DeviceSectors, w.DeviceSectors) && alike(g.BusSectors, w.BusSectors) &&
				alike(g.BusLines, w.BusLines),
				"%s, %s: %+v, in %s %+v: make it again with -args -rewrite", name, kernel, g, file, w)
		}
	}
}

// alike says whether two counts of reads may be of one kernel. Those of .cu files are equal each time; what is made of
// PTX merges other reads, and has up to twice as many.
func alike(a, b float64) bool { return max(a, b) <= 2.5*min(a, b)+8 }

// countSamplers counts a batch of each sampler on a device with sms multiprocessors.
func countSamplers(t *testing.T, path string, seeds, sms int) map[string]samplerCount {
	ds := expect.Must(formats.Open(path))(t)
	defer ds.Close()
	g := withWeightsAndTimes(t, ds.Graph())
	counts := map[string]samplerCount{}
	only, samplers := regexp.MustCompile(*countsOnly), countedSamplers(t, g, seeds)
	samplers[drawing] = nil
	for _, name := range slices.Sorted(maps.Keys(samplers)) {
		if !only.MatchString(name) {
			continue
		}
		r := openReader(t, g, sms)
		n, left := seeds, []sampling.EdgePairs(nil)
		if name == "induced" { // few edges between them, otherwise
			n *= 8
		}
		if name == leavingOut {
			left = edgesOfSeeds(t, g, seeds)
		}
		c := samplerCount{}
		if name == drawing {
			c = r.draw(edgesOfSeeds(t, g, seeds))
		} else {
			c = r.sample(samplers[name], n, left)
		}
		r.close()
		c.Commit = *countsCommit
		counts[name] = c
		t.Logf("%s, %s: %d nodes, %d edges", filepath.Base(path), name, c.Nodes, c.Edges)
	}
	return counts
}

// edgesOfSeeds returns the first in-edge of each seed of countedRequest's batch 1 that has one, by edge type.
func edgesOfSeeds(t *testing.T, g *graph.Graph, seeds int) []sampling.EdgePairs {
	s := g.Schema()
	pairs, indices := make([]sampling.EdgePairs, len(s.Edges)), expect.Must(unified.View[int32](g.Indices()))(t)
	for i := range int64(seeds) {
		v := (i*s.Nodes[0].Count/int64(seeds) + 1) % s.Nodes[0].Count
		if at := g.Indptr()[v]; at < g.Indptr()[v+1] {
			e := 0
			if g.Types().Valid() {
				e = int(expect.Must(unified.View[uint8](g.Types()))(t)[at])
			}
			pairs[e].Sources = append(pairs[e].Sources, int64(indices[at])-g.Offset(s.Edges[e].Src))
			pairs[e].Targets = append(pairs[e].Targets, v)
		}
	}
	return pairs
}

// withWeightsAndTimes adds columns of edges: "w", of 1 to 8, and "t", of 0 to 99.
func withWeightsAndTimes(t *testing.T, g *graph.Graph) *graph.Graph {
	a := graphs.ArraysOf(g)
	w, times, x := make([]float32, g.NumEdges()), make([]int32, g.NumEdges()), uint64(1)
	for i := range w {
		x = x*6364136223846793005 + 1442695040888963407
		w[i], times[i] = float32(x>>61+1), int32(x>>33%100)
	}
	for name, c := range map[string]unified.Tensor{"t": unified.FromSlice(times), "w": unified.FromSlice(w)} {
		a.EdgeColumns[name] = c
		a.Schema.EdgeColumns = append(a.Schema.EdgeColumns, graph.Column{Name: name, DType: c.DType()})
	}
	slices.SortFunc(a.Schema.EdgeColumns, func(a, b graph.Column) int { return strings.Compare(a.Name, b.Name) })
	return graphs.Of(t, a)
}

// evenParts divides a graph into parts of this number of nodes with successive ids.
func evenParts(t *testing.T, g *graph.Graph, nodes int64) *graph.Partition {
	of := make([]int32, g.NumNodes())
	for v := range of {
		of[v] = int32(int64(v) / nodes)
	}
	return expect.Must(graph.NewPartition(of, int((g.NumNodes()+nodes-1)/nodes)))(t)
}

// reader is a device that reads a graph over the bus.
type reader struct {
	t        *testing.T
	env      sampling.DeviceEnv
	attached []*pinned.Attachment
}

// openReader puts a graph where a device with sms multiprocessors reads it.
func openReader(t *testing.T, g *graph.Graph, sms int) *reader {
	dev := cudatest.Open(t)
	r := &reader{t: t, env: sampling.DeviceEnv{Env: sampling.Env{Graph: g}, Device: dev,
		Stream: expect.Must(dev.NewStream())(t), MaxBlocks: 8 * sms}}
	r.env.Topology = sampling.Topology{Indptr: r.place(unified.FromSlice(g.Indptr())), Indices: r.place(g.Indices()),
		Types: r.place(g.Types())}
	return r
}

func (r *reader) place(x unified.Tensor) device.Address {
	r.attached = append(r.attached, expect.Must(pinned.Attach(r.t.Context(), r.env.Device, x.Bytes(),
		pinned.AttachOptions{}))(r.t))
	return r.attached[len(r.attached)-1].Address()
}

func (r *reader) close() {
	expect.OK(r.t, r.env.Stream.Close())
	for _, a := range r.attached {
		expect.OK(r.t, a.Close())
	}
}

// sample makes a batch that leaves edges out, after another that tells how large buffers are to be.
func (r *reader) sample(sampler sampling.Sampler, seeds int, left []sampling.EdgePairs) samplerCount {
	t, env, s := r.t, r.env, r.env.Graph.Schema()
	env.BatchSize = seeds
	prepared := expect.Must(sampling.Prepare(t.Context(), sampler, env.Env))(t)
	if c, ok := prepared.(io.Closer); ok {
		defer c.Close()
	}
	said := expect.Must(prepared.Describe(s, seeds))(t)
	for _, c := range expect.Must(sampling.EdgeColumns(env.Graph, said.EdgeColumns))(t) {
		env.Topology.Columns = append(env.Topology.Columns, r.place(c))
	}
	w := expect.Must(prepared.(sampling.DeviceSampler).OpenDevice(env))(t)
	var out graph.Sample
	said.Bound.Init(&out, s, pinned.Options{Device: env.Device})
	for batch := range uint64(2) {
		req := countedRequest(s, said, seeds, batch)
		req.Exclude = left
		for replay := true; replay; {
			cudatest.ResetStats(t)
			expect.OK(t, w.Enqueue(t.Context(), req, &out))
			expect.OK(t, env.Stream.Synchronize())
			var err error
			replay, err = w.Finish(&out)
			expect.OK(t, err)
		}
	}
	c := countedKernels(t)
	for _, n := range out.Nodes {
		c.Nodes += n.Len()
	}
	for _, layer := range out.Blocks {
		for e := range layer {
			c.Edges += layer[e].NumEdges()
		}
	}
	expect.OK(t, w.Close())
	expect.OK(t, out.Close())
	return c
}

// draw draws the negatives of edges.
func (r *reader) draw(edges []sampling.EdgePairs) samplerCount {
	t := r.t
	negatives, types := sampling.Negatives{Ratio: 5, Law: sampling.Uniform, Strict: true}, make([]bool, len(edges))
	for e := range types {
		types[e] = len(edges[e].Sources) != 0
	}
	drawer := expect.Must(negatives.Open(t.Context(), r.env.Env, types))(t)
	on := expect.Must(drawer.OpenDevice(t.Context(), r.env))(t)
	var c samplerCount
	for batch := range uint64(2) {
		links := make([]sampling.LinkSeeds, len(edges))
		asked := int64(0)
		for e, pairs := range edges {
			n := len(pairs.Sources)
			links[e] = sampling.LinkSeeds{SeedEdges: sampling.SeedEdges{Sources: slices.Clone(pairs.Sources),
				Targets: slices.Clone(pairs.Targets), Labels: slices.Repeat([]int64{1}, n)},
				Items: make([]int64, n), Group: make([]int32, n)}
			for i := range n {
				links[e].Items[i], links[e].Group[i] = asked+int64(i), int32(i)
			}
			asked += int64(n)
		}
		cudatest.ResetStats(t)
		expect.OK(t, on.Draw(sampling.NewRand(1, 0, 0, batch), links))
		c = countedKernels(t)
		for e := range links {
			c.Edges += int64(len(links[e].Sources))
		}
		c.Edges -= asked
	}
	expect.OK(t, errors.Join(on.Close(), drawer.Close()))
	return c
}

// countedRequest asks for seeds of the first node type, spread over its nodes, or for items.
func countedRequest(s *graph.Schema, said sampling.Description, seeds int, batch uint64) *sampling.Request {
	req := &sampling.Request{Seeds: make([][]int64, len(s.Nodes)), Rand: sampling.NewRand(1, 0, 0, batch)}
	if said.Items != nil {
		for i := range int64(said.Items.PerBatch) {
			req.Items = append(req.Items, (i*7+int64(batch))%said.Items.Count)
		}
		return req
	}
	for i := range int64(seeds) {
		req.Seeds[0] = append(req.Seeds[0], (i*s.Nodes[0].Count/int64(seeds)+int64(batch))%s.Nodes[0].Count)
	}
	return req
}

// countedKernels returns what kernels asked for since counts were reset.
func countedKernels(t *testing.T) samplerCount {
	c := samplerCount{Kernels: map[string]kernelReads{}}
	for _, name := range cudatest.Kernels(t) {
		if n := countOf(t, name, 1); n.Launches > 0 {
			c.Kernels[name] = kernelReads{n, cudatest.FreshBytes(t, name), cudatest.Longest(t, name, cudatest.Host),
				cudatest.Longest(t, name, cudatest.Device)}
		}
	}
	cudatest.Report(t)
	return c
}
