package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/invariants"
	"github.com/khop-gnn/khop/internal/samplers"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

// samplerCases are samplers as flags and as Go options. Together they name every sampler and all of its flags.
var samplerCases = []struct {
	data, flags string
	sampler     sampling.Sampler
}{
	{"sbm", "", sampling.Neighbor{Fanouts: []int{15, 10, 5}}},
	{"sbm", "--sampler neighbor --fanouts 4,3 --replace", sampling.Neighbor{Fanouts: []int{4, 3}, Replace: true}},
	{"typed", "--fanouts cites=4,3;*=2,2 --frontier new --disjoint", sampling.Neighbor{Fanouts: []int{2, 2},
		PerType: map[string][]int{"cites": {4, 3}}, Frontier: sampling.NewNodes, Disjoint: true}},
	{"typed", "--fanouts 5,3 --together", sampling.Neighbor{Fanouts: []int{5, 3}, Together: true}},
	{"columns", "--fanouts 3,2 --direction both --weight weight", sampling.Neighbor{Fanouts: []int{3, 2},
		Direction: sampling.Both, Weight: "weight"}},
	{"sbm", "--sampler temporal --fanouts 3 --time none --node-time label --direction out", sampling.Neighbor{
		Fanouts: []int{3}, Direction: sampling.Out, Time: sampling.Temporal{Node: "label"}}},
	{"typed", "--fanouts 3,2 --induced", sampling.Neighbor{Fanouts: []int{3, 2}, Induced: true}},
	{"columns", "--sampler temporal --fanouts 4 --as-of 60 --together", sampling.Neighbor{Fanouts: []int{4},
		Together: true, Time: sampling.Temporal{Edge: "time", AsOf: int64Of(60)}}},
	{"columns", "--weight weight --mask mask --share 0.5 --fanouts 4,3", sampling.Neighbor{Fanouts: []int{4, 3},
		Weight: "weight", Mask: "mask", Share: 0.5}},
	{"columns", "--sampler temporal --fanouts 3,2 --as-of 50 --replace --weight weight --mask mask --disjoint",
		sampling.Neighbor{Fanouts: []int{3, 2}, Replace: true, Weight: "weight", Mask: "mask", Disjoint: true,
			Time: sampling.Temporal{Edge: "time", AsOf: int64Of(50)}}},
	{"columns", "--sampler temporal --fanouts 3,2 --time none --node-time label --time-rules before,not-after " +
		"--window 3 --half-life 2 --chain --frontier new", sampling.Neighbor{Fanouts: []int{3, 2},
		Frontier: sampling.NewNodes, Time: sampling.Temporal{Node: "label", Window: []int64{3}, HalfLife: 2,
			Chain: true, Rules: []sampling.TimeRule{sampling.Before, sampling.NotAfter}}}},
	{"columns", "--sampler temporal --fanouts 5 --time time --recent --share 0.9 --as-of 70", sampling.Neighbor{
		Fanouts: []int{5}, Share: 0.9, Time: sampling.Temporal{Edge: "time", Recent: true, AsOf: int64Of(70)}}},
	{"sbm", "--sampler walk", sampling.Walk{Length: 40}},
	{"typed", "--sampler shadow --fanouts cites=4,3;*=2,2 --replace", sampling.Shadow{Fanouts: []int{2, 2},
		PerType: map[string][]int{"cites": {4, 3}}, Replace: true}},
	{"sbm", "--sampler induced", sampling.Induced{}},
	{"typed", "--sampler walk --length 6 --walks 2 --restart 0.2 --stop 0.1 --metapath writes,rev_writes " +
		"--walk-edges", sampling.Walk{Length: 6, PerSeed: 2, Restart: 0.2, Stop: 0.1,
		Metapath: []string{"writes", "rev_writes"}, Edges: true}},
	{"sbm", "--sampler node2vec --length 5 --walks 3 --p 0.5 --q 2 --walk-edges", sampling.Node2Vec{Length: 5,
		PerSeed: 3, P: 0.5, Q: 2, Edges: true}},
	{"sbm", "--sampler saint-node --budget 70 --steps 3 --coverage 2", sampling.Saint{Budget: 70, Steps: 3,
		Coverage: 2}},
	{"sbm", "--sampler saint-edge --budget 70 --steps 3 --coverage 0", sampling.Saint{Kind: sampling.SaintEdges,
		Budget: 70, Steps: 3}},
	{"typed", "--sampler saint-walk --budget 70 --length 3 --steps 2 --coverage 1", sampling.Saint{
		Kind: sampling.SaintWalks, Budget: 70, Length: 3, Steps: 2, Coverage: 1}},
	{"sbm", "--sampler cluster --clusters 3 --partition FILE", sampling.Cluster{PerBatch: 3}},
	{"typed", "--sampler full --work 500", sampling.Full{Work: 500}},
	{"typed", "--sampler pinsage --neighbors 4 --hops 2 --walks 5 --length 4 --restart 0.1 --stop 0.1 " +
		"--metapath writes,rev_writes --edge-type cites", sampling.PinSage{Neighbors: 4, Hops: 2, Walks: 5, Length: 4,
		Restart: 0.1, Stop: 0.1, Metapath: []string{"writes", "rev_writes"}, As: "cites"}},
	{"typed", "--sampler ppr --neighbors 5 --alpha 0.2 --epsilon 0.001 --edge-type cites", sampling.PPR{Neighbors: 5,
		Alpha: 0.2, Epsilon: 0.001, As: "cites"}},
	{"sbm", "--sampler neighbor --fanouts 4,3 --sequence 9 --seed-first", sampling.Sequence{Length: 9, SeedFirst: true,
		Of: sampling.Neighbor{Fanouts: []int{4, 3}}}},
	{"columns", "--sampler temporal --fanouts 5 --recent --as-of 70 --sequence 4 --seed-first", sampling.Sequence{
		Length: 4, SeedFirst: true, Of: sampling.Neighbor{Fanouts: []int{5}, Time: sampling.Temporal{Edge: "time",
			Recent: true, AsOf: int64Of(70)}}}},
	{"sbm", "--sampler pinsage --sequence 6 --seed-first", sampling.Sequence{Length: 6, SeedFirst: true,
		Of: sampling.PinSage{Walks: 10, Length: 2}}},
	{"sbm", "--sampler ppr --sequence 7 --seed-first", sampling.Sequence{Length: 7, SeedFirst: true,
		Of: sampling.PPR{}}},
	{"columns", "--sampler fastgcn --layer-nodes 300,200 --weight weight", sampling.FastGCN{Nodes: []int{300, 200},
		Weight: "weight"}},
	{"typed", "--sampler ladies --layer-nodes 50,-1", sampling.Ladies{Nodes: []int{50, -1}}},
	{"columns", "--sampler ladies --weight weight", sampling.Ladies{Nodes: []int{512, 512}, Weight: "weight"}},
	{"typed", "--sampler hgt --layer-nodes paper=20,10;*=5", sampling.HGT{Nodes: []int{5},
		PerType: map[string][]int{"paper": {20, 10}}}},
	{"sbm", "--sampler labor --fanouts 4,3 --poisson --layer-dependent", sampling.Labor{Fanouts: []int{4, 3},
		Poisson: true, LayerDependent: true}},
	{"typed", "--sampler labor --fanouts 3,2 --frontier new --batch-dependency 3", sampling.Labor{Fanouts: []int{3, 2},
		Frontier: sampling.NewNodes, BatchDependency: 3}},
}

func TestSamplersThroughEveryDoor(t *testing.T) {
	dir, seen := t.TempDir(), map[string]bool{}
	for kind, more := range map[string]string{"sbm": "--nodes 600 --edges 6000 --features 4",
		"typed": "--nodes 600 --edges 5000 --features 3"} {
		must(t, append([]string{"generate", kind, filepath.Join(dir, kind)}, strings.Fields(more)...)...)
	}
	writeColumns(t, filepath.Join(dir, "columns"))
	for i, c := range samplerCases {
		chosen := samplers.All[0].Name
		args := strings.Fields(c.flags)
		for i, flag := range args {
			if flag == "--sampler" {
				chosen = args[i+1]
			}
		}
		for _, flag := range args {
			seen[chosen+" "+strings.TrimPrefix(flag, "--")] = true
		}
		if invariants.Enabled && i%expect.DayOrNight(9, 3) > 0 {
			continue // with -race, which makes each take ten times as long
		}
		t.Run(fmt.Sprintf("%T %s", c.sampler, c.flags), func(t *testing.T) {
			data := filepath.Join(dir, c.data)
			opt := loader.Options{Sampler: c.sampler, BatchSize: 100, Seed: 7}
			args = append(args, "--batch-size", "100", "--seed", "7")
			if _, inOrder := c.sampler.(sampling.Full); !inOrder {
				opt.Shuffle, args = true, append(args, "--shuffle")
			}
			if parts, ok := c.sampler.(sampling.Cluster); ok {
				parts.Partition, args[slices.Index(args, "FILE")] = someParts(t, dir)
				opt.Sampler = parts
			}
			want := digestsOf(t, data, opt)
			got := must(t, append([]string{"sample", data, "--digest"}, args...)...)
			if got := strings.Split(strings.TrimSpace(got), "\n"); !slices.Equal(got, want) {
				t.Errorf("khop sample makes\n%q, Go options\n%q", got, want)
			}
			if got := digestsFed(t, servedHere(t, append([]string{data}, args...)...), 0); !slices.Equal(got, want) {
				t.Errorf("khop serve makes\n%q, Go options\n%q", got, want)
			}
		})
	}
	for _, s := range samplers.All {
		for _, o := range s.Options() {
			if !seen[s.Name+" "+o.Name] {
				t.Errorf("no case of --sampler %s has --%s", s.Name, o.Name)
			}
		}
	}
}

// servedHere runs "khop serve" in this process until the test ends, and returns a consumer of it.
func servedHere(t *testing.T, args ...string) *consumer.Consumer {
	t.Helper()
	ctx := t.Context()
	socket, ended := socketPath(t), make(chan int, 1)
	lines, out := io.Pipe()
	var stderr strings.Builder
	go func() {
		ended <- run(ctx, append([]string{"serve", "--socket", socket, "--json"}, args...), out, &stderr, false)
		out.Close()
	}()
	var ready serveReady
	if err := json.NewDecoder(lines).Decode(&ready); err != nil {
		t.Fatalf("khop serve %v: status %d, %v: %s", args, <-ended, err, stderr.String())
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	c := expect.Must(consumer.Dial(t.Context(), ready.Socket, consumer.Options{Timeout: 2 * time.Minute}))(t)
	t.Cleanup(func() {
		_ = c.Close()
		if code := <-ended; code != exitInterrupted {
			t.Errorf("khop serve %v: status %d: %s", args, code, stderr.String())
		}
	})
	return c
}

// someParts returns a partition of 600 nodes, and a file that has it.
func someParts(t *testing.T, dir string) (*graph.Partition, string) {
	t.Helper()
	var text strings.Builder
	of := make([]int32, 600)
	for v := range of {
		of[v] = int32(v * 5 % 13)
		fmt.Fprintln(&text, of[v])
	}
	p := expect.Must(graph.NewPartition(of, 13))(t)
	name := filepath.Join(dir, "parts")
	expect.OK(t, os.WriteFile(name, []byte(text.String()), 0o600))
	return p, name
}

// digestsOf returns number and digests of an epoch's batches, as "khop sample --digest" prints them.
func digestsOf(t *testing.T, data string, opt loader.Options) (lines []string) {
	t.Helper()
	ds := expect.Must(formats.Open(data))(t)
	defer ds.Close()
	ld := expect.Must(loader.New(ds, opt))(t)
	defer ld.Close()
	for b, err := range ld.Epoch(t.Context(), 0) {
		expect.OK(t, err)
		topology, full := b.Digest()
		lines = append(lines, fmt.Sprintf("%d %016x %016x", b.Number, topology, full))
	}
	return lines
}

// digestsFed is the same for the batches that a consumer gets.
func digestsFed(t *testing.T, con *consumer.Consumer, epoch uint64) (lines []string) {
	t.Helper()
	for b, err := range con.Epoch(t.Context(), epoch) {
		expect.OK(t, err)
		topology, full := b.Digest()
		lines = append(lines, fmt.Sprintf("%d %016x %016x", b.Number, topology, full))
	}
	return lines
}
