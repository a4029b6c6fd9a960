package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

func TestSeedsOfAFileHaveTimes(t *testing.T) {
	dir := t.TempDir()
	data, file := filepath.Join(dir, "columns"), filepath.Join(dir, "seeds")
	writeColumns(t, data)
	expect.OK(t, os.WriteFile(file, []byte("5 40\n7 -3 # early\n5 90\n\n300\t60\n"), 0o600))
	seeds := graph.NodeIDs([]int64{5, 7, 5, 300})
	seeds.Sets[0].Times = []int64{40, -3, 90, 60}
	opt := loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{4, 3}, Time: sampling.Temporal{Edge: "time"}},
		BatchSize: 3, Seed: 7, Shuffle: true, Seeds: loader.GivenSeeds(seeds)}
	want := digestsOf(t, data, opt)
	args := []string{"sample", data, "--digest", "--sampler", "temporal", "--fanouts", "4,3", "--batch-size", "3",
		"--seed", "7", "--shuffle", "--seeds"}
	got := strings.Split(strings.TrimSpace(must(t, append(args, "timed@"+file)...)), "\n")
	expect.That(t, slices.Equal(got, want), "khop sample makes %q, Go options %q", got, want)
	each := strings.Split(strings.TrimSpace(must(t, append(args, "each:timed@"+file)...)), "\n")
	expect.That(t, slices.Equal(each, want), "with each: khop sample makes %q, want %q", each, want)

	seeds.Sets[0].From = []int64{30, -9, 91, -1 << 63}
	opt.Sampler, opt.Seeds = sampling.Neighbor{Fanouts: []int{4, 3}, Time: sampling.Temporal{Edge: "time"},
		Disjoint: true}, loader.GivenSeeds(seeds)
	expect.OK(t, os.WriteFile(file, []byte("5 40 30\n7 -3 -9\n5 90 91\n300 60 -9223372036854775808\n"), 0o600))
	windows := append(slices.Clone(args[:len(args)-1]), "--disjoint", "--seeds")
	got = strings.Split(strings.TrimSpace(must(t, append(windows, "window@"+file)...)), "\n")
	expect.That(t, slices.Equal(got, digestsOf(t, data, opt)), "with windows khop sample makes %q", got)
	for kind, fail := range map[string]string{"window": "set --disjoint", "each:window": "set --disjoint"} {
		_, stderr, code := khop(t, append(args, kind+"@"+file)...)
		expect.That(t, code != 0 && strings.Contains(stderr, fail), "%s: status %d, %s", kind, code, stderr)
	}
	expect.OK(t, os.WriteFile(file, []byte("5 40\n"), 0o600))
	_, stderr, code := khop(t, append(windows, "window@"+file)...)
	expect.That(t, code != 0 && strings.Contains(stderr, "a line ends with the"), "status %d, %s", code, stderr)

	for text, fail := range map[string]string{"5\n": "a line ends with the time", "5 x": "a line ends with the time",
		"x 3": "not a node id", "999 3": "node 999 is not in"} {
		expect.OK(t, os.WriteFile(file, []byte(text), 0o600))
		_, stderr, code := khop(t, append(args, "timed@"+file)...)
		expect.That(t, code != 0 && strings.Contains(stderr, fail), "%q: status %d, %s", text, code, stderr)
	}
}

func int64Of(n int64) *int64 { return &n }

// writeColumns writes a dataset whose edges have weights, a mask and times, and whose nodes have labels as times.
func writeColumns(t *testing.T, path string) {
	t.Helper()
	const nodes, edges = 500, 6000
	r := rand.New(rand.NewPCG(3, 3))
	e := graph.EdgeData{}
	label, weight := make([]int64, nodes), make([]float32, edges)
	mask, time := make([]uint8, edges), make([]int64, edges)
	for i := range edges {
		e.Src, e.Dst = append(e.Src, r.Int64N(nodes)), append(e.Dst, r.Int64N(nodes))
		weight[i], mask[i], time[i] = max(0, r.Float32()-0.2), uint8(r.IntN(3)), r.Int64N(100)
	}
	for v := range label {
		label[v] = r.Int64N(10)
	}
	e.Columns = map[string]unified.Tensor{"weight": unified.FromSlice(weight), "mask": unified.FromSlice(mask),
		"time": unified.FromSlice(time)}
	g := expect.Must(graph.New(graph.Data{Edges: []graph.EdgeData{e}, Nodes: []graph.NodeData{{Count: nodes,
		Columns: map[string]unified.Tensor{"label": unified.FromSlice(label)}}}}))(t)
	expect.OK(t, formats.WriteGraph(t.Context(), path, g, formats.WriterOptions{}))
}
