package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestDeepLooksNameWhatMayNotBeMeant converts a graph with one of each.
func TestDeepLooksNameWhatMayNotBeMeant(t *testing.T) {
	nan := float32(math.NaN())
	x := textFile(t, "x.npy", string(expect.NPY([]float32{1, 2, 3, nan, 5, 6, 7, 8, 9, 10}, 5, 2)))
	data := filepath.Join(t.TempDir(), "data.khop")
	must(t, "convert", textFile(t, "edges.txt", "0 1\n0 1\n2 1\n1 1\n"), data, "--features", x)
	year := textFile(t, "y.npy", string(expect.NPY([]int32{2001, 2009, 2005, 2003, 2004})))
	train := textFile(t, "a.npy", string(expect.NPY([]int64{0, 1, 2})))
	test := textFile(t, "b.npy", string(expect.NPY([]int64{3})))
	must(t, "add", data, "--column", "year="+year, "--split", "train="+train, "--split", "test="+test)
	plot := filepath.Join(t.TempDir(), "degrees.svg")
	info := object(t, "info", data, "--json", "--plot", plot)
	picture(t, plot, "in-edges of nodes")
	if got := fmt.Sprint(info["degrees"], info["isolated"], info["self_loops"], info["duplicate_edges"]); got !=
		"[map[from:0 nodes:4 to:0] map[from:1 nodes:0 to:1] map[from:2 nodes:0 to:3] map[from:4 nodes:1 to:7]] 2 1 1" {
		t.Errorf("degrees, isolated nodes, loops, duplicates: %s", got)
	}
	out := must(t, "info", data, "--deep")
	checked := must(t, "check", data, "--deep")
	for _, want := range []string{"2 nodes without edges", "1 edge between the same nodes as another",
		`column "feature" of node: 1 row with NaN or an infinity, the first is row 1`,
		`2 of 3 nodes in the split train (index 0) are later, by "year", than the first of test`} {
		expect.That(t, strings.Contains(out, "hint: "+want) && strings.Contains(checked, "hint: "+want),
			"no %q in %s%s", want, out, checked)
	}
	if !strings.Contains(out, "memory on cpu: graph ") || !strings.Contains(out, "4-7           ########## 1\n") &&
		!strings.Contains(out, "4-7           ##########                               1\n") {
		t.Errorf("no memory, or histogram: %s", out)
	}
	if info := object(t, "info", data, "--json"); info["degrees"] != nil {
		t.Error("info reads arrays without being asked")
	}
}

func TestInfoTellsOfLinksAndOfNamesThatAreNoNodes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("train.txt", "a\tlikes\tb\nb\tlikes\tc\nc\tknows\ta\n")
	write("valid.txt", "a\tknows\tb\n")
	write("test.txt", "b\tknows\ta\nc\tlikes\tb\n")
	data := filepath.Join(t.TempDir(), "g.khop")
	must(t, "convert", dir, data)
	r := object(t, "info", data, "--json")
	link := func(name string, count float64) map[string]any {
		return map[string]any{"name": name, "index": 0.0, "edge_type": "node:edge:node", "count": count}
	}
	for key, want := range map[string]any{
		"links": []any{link("val", 1), link("test", 2)},
		"names": []any{map[string]any{"node_type": "node", "name": "relation", "count": 2.0}},
	} {
		if !reflect.DeepEqual(r[key], want) {
			t.Errorf("%s: %v, want %v", key, r[key], want)
		}
	}
	text := must(t, "info", data)
	for _, want := range []string{"node: 3, id utf8\n", "val 0: 1, node:edge:node", "test 0: 2, node:edge:node",
		"relation: 2"} {
		expect.That(t, strings.Contains(text, want), "%q is not in:\n%s", want, text)
	}
}

// TestMissingTimesAreCountedNowhere: they are stored as one that is far before all others.
func TestMissingTimesAreCountedNowhere(t *testing.T) {
	at := []int64{50, math.MinInt64, 10, 10, 49}
	got, ok := countTimes(timesInfo{}, int64(len(at)), func(i int64) int64 { return at[i] })
	sum := int64(0)
	for _, n := range got.Rows {
		sum += n
	}
	expect.That(t, ok && got.First == 10 && got.Last == 50 && sum == 4 && got.Rows[0] == 2 && got.Rows[39] == 2, "%v",
		got)
	_, ok = countTimes(timesInfo{}, 2, func(int64) int64 { return math.MinInt64 })
	expect.That(t, !ok, "a column without times has a picture")
}

// ofEdges converts undirected edges.
func ofEdges(t *testing.T, edges [][2]int, n int) string {
	t.Helper()
	ends := make([]int64, 2*len(edges))
	for i, e := range edges {
		ends[i], ends[len(edges)+i] = int64(e[0]), int64(e[1])
	}
	dir := t.TempDir()
	expect.OK(t, os.WriteFile(filepath.Join(dir, "edge_index.npy"), expect.NPY(ends, 2, len(edges)), 0o600))
	expect.OK(t, os.WriteFile(filepath.Join(dir, "num_nodes.npy"), expect.NPY([]int64{int64(n)}), 0o600))
	data := filepath.Join(t.TempDir(), "g.khop")
	must(t, "convert", dir, data, "--symmetrise")
	return data
}
