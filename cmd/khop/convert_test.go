package main

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// textFile writes a file of a test's own.
func textFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestConvertLeavesOutAsManyBadLinesAsItMay(t *testing.T) {
	src := textFile(t, "edges.txt", "0 1\n1 2\nx 2\n2 0\n2\n0 2\n")
	out := filepath.Join(t.TempDir(), "out.khop")
	_, err, code := khop(t, "convert", src, out, "--skip-bad", "1", "--ids", "numbers")
	expect.That(t, code == exitFailed && strings.Contains(err, "edges.txt: row 5") &&
		strings.Contains(err, "that were skipped: 1"), "one may be bad: status %d, %s", code, err)
	res := object(t, "convert", src, out, "--skip-bad", "2", "--ids", "numbers", "--json")
	notes := expectStrings(t, res["notes"])
	expect.That(t, res["edges"] == 4.0 && res["skipped"] == 2.0 &&
		strings.Contains(notes, `row 3: id "x" is not a number`) &&
		strings.Contains(notes, "row 5: the line has 1 field, not 2"), "two may be bad: %v", res)
	must(t, "check", out)
}

// A configuration has switches and lists as JSON values; an empty list means none.
func TestConvertTakesAConfiguration(t *testing.T) {
	src, out := textFile(t, "edges.txt", "0 1\n1 2\n"), filepath.Join(t.TempDir(), "out.khop")
	for config, edges := range map[string]float64{`{"symmetrise": true, "columns": []}`: 4, `{"symmetrise": 1}`: 4,
		`{"symmetrise": false, "columns": ["src", "dst"], "self_loops": "add"}`: 5} {
		res := object(t, "convert", src, out, "--force", "--json", "--config", textFile(t, "config.json", config))
		expect.That(t, res["edges"] == edges, "%s: %v edges", config, res["edges"])
	}
}

// expectStrings joins a list of strings.
func expectStrings(t *testing.T, v any) string {
	t.Helper()
	var all []string
	for _, s := range v.([]any) {
		all = append(all, s.(map[string]any)["text"].(string))
	}
	return strings.Join(all, "\n")
}

func TestConvertStoresFeaturesInFewerBytes(t *testing.T) {
	const nodes, width = 50, 7
	r := rand.New(rand.NewPCG(3, 4))
	features := make([]float32, nodes*width)
	for i := range features {
		features[i] = float32(r.NormFloat64() * 10)
	}
	clear(features[:width]) // a row of zeros
	src := textFile(t, "edges.txt", "0 1\n49 0\n")
	table := textFile(t, "x.npy", string(expect.NPY(features, nodes, width)))
	within := map[string]float64{"float16": 0x1p-11, "bfloat16": 0x1p-8, "int8": 0.5 / 127}
	for dtype, most := range within {
		out := filepath.Join(t.TempDir(), "out.khop")
		res := object(t, "convert", src, out, "--features", table, "--feature-dtype", dtype, "--json")
		notes := expectStrings(t, res["notes"])
		expect.That(t, strings.Contains(notes, `50 rows of "feature" are stored as `+dtype), "%s: notes %s", dtype,
			notes)
		must(t, "check", out)
		ds := expect.Must(formats.Open(out))(t)
		col, _ := ds.Graph().NodeColumn(0, "feature")
		expect.That(t, col.DType().String() == dtype, "%s: stored as %v", dtype, col.DType())
		scales, _ := ds.Graph().NodeColumn(0, "feature_scale")
		for i, want := range features {
			row := features[i/width*width : i/width*width+width]
			bound := most * math.Abs(float64(want))
			if dtype == "int8" {
				bound = most * 1.001 * float64(max(slices.Max(row), -slices.Min(row)))
			}
			got := stored(col, scales, i, width)
			expect.Ensure(t, math.Abs(float64(got-want)) <= bound, "%s: element %d is %g, not %g", dtype, i, got, want)
		}
		expect.OK(t, ds.Close())
	}
	table = textFile(t, "x.npy", string(expect.NPY([]float32{1, 70000, 3, 4}, 2, 2)))
	fails(t, exitFailed, `column "feature": row 0: 70000 does not fit float16`,
		"convert", textFile(t, "edges.txt", "0 1\n"), filepath.Join(t.TempDir(), "x"), "--features", table,
		"--feature-dtype", "float16")
}

// stored returns the number that an element stands for.
func stored(col, scales unified.Tensor, i, width int) float32 {
	switch col.DType() {
	case unified.Float16:
		v, _ := unified.View[unified.Half](col)
		return v[i].Float32()
	case unified.BFloat16:
		v, _ := unified.View[unified.BHalf](col)
		return v[i].Float32()
	}
	v, _ := unified.View[int8](col)
	s, _ := unified.View[float32](scales)
	return float32(v[i]) * s[i/width]
}

// TestConvertNumbersNodesAnew compares with the conversion without it, by way of the old numbers.
func TestConvertNumbersNodesAnew(t *testing.T) {
	const nodes = 200
	r := rand.New(rand.NewPCG(8, 9))
	var list, path strings.Builder
	features := make([]float32, 2*nodes)
	for i := range features {
		features[i] = float32(i)
	}
	list.WriteString("src dst weight\n")
	shuffled := r.Perm(nodes)
	for i := range nodes * 4 {
		fmt.Fprintf(&list, "%d %d %d\n", r.IntN(nodes), r.IntN(r.IntN(nodes)+1), i)
	}
	for i := range nodes - 1 {
		fmt.Fprintf(&path, "%d %d\n", shuffled[i], shuffled[i+1])
	}
	src, table := textFile(t, "edges.txt", list.String()), textFile(t, "x.npy", string(expect.NPY(features, nodes, 2)))
	want := anew(t, src, "--features", table)
	for _, how := range []string{"degree", "bfs", "rcm", "hot", "community"} {
		got := anew(t, src, "--features", table, "--reorder", how)
		if !maps.Equal(got.edges, want.edges) || !slices.IsSorted(slices.Sorted(slices.Values(got.old))) ||
			slices.IsSorted(got.old) {
			t.Errorf("%s: other edges, or the old order: %v", how, got.old)
		}
		for v, old := range got.old {
			if got.features[2*v] != features[2*old] || got.features[2*v+1] != features[2*old+1] {
				t.Fatalf("%s: node %d, which was %d, has the features %v", how, v, old, got.features[2*v:2*v+2])
			}
			if how == "degree" && v > 0 && got.degree[v] > got.degree[v-1] {
				t.Errorf("node %d has %d edges, the one before %d", v, got.degree[v], got.degree[v-1])
			}
		}
	}
	far := 0
	line := anew(t, textFile(t, "path.txt", path.String()), "--reorder", "rcm")
	for e := range line.fresh {
		far = max(far, int(e[0]-e[1]), int(e[1]-e[0]))
	}
	expect.That(t, far == 1, "rcm: neighbours on a path are %d apart", far)
}

// renumbered is a dataset with its old numbers.
type renumbered struct {
	old      []int64
	edges    map[[3]int64]int // old numbers, weight
	fresh    map[[2]int64]bool
	degree   []int
	features []float32
}

// anew converts a graph.
func anew(t *testing.T, args ...string) renumbered {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out.khop")
	must(t, append([]string{"convert", args[0], out}, args[1:]...)...)
	must(t, "check", out)
	ds := expect.Must(formats.Open(out))(t)
	defer ds.Close()
	g := ds.Graph()
	n := renumbered{edges: map[[3]int64]int{}, fresh: map[[2]int64]bool{}, degree: make([]int, g.NumNodes())}
	if col, ok := g.NodeColumn(0, "old_id"); ok {
		v, _ := unified.View[int64](col)
		n.old = slices.Clone(v)
	} else {
		for v := range g.NumNodes() {
			n.old = append(n.old, v)
		}
	}
	if col, ok := g.NodeColumn(0, "feature"); ok {
		v, _ := unified.View[float32](col)
		n.features = slices.Clone(v)
	}
	var weights []int64
	if col, ok := g.EdgeColumn("weight"); ok {
		weights, _ = unified.View[int64](col)
	}
	indices, _ := unified.View[int32](g.Indices())
	for v := range g.NumNodes() {
		for e := g.Indptr()[v]; e < g.Indptr()[v+1]; e++ {
			u, weight := int64(indices[e]), int64(0)
			if weights != nil {
				weight = weights[e]
			}
			n.edges[[3]int64{n.old[u], n.old[v], weight}]++
			n.fresh[[2]int64{u, v}] = true
			n.degree[u]++
			n.degree[v]++
		}
	}
	return n
}
