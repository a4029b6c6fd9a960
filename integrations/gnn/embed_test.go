package gnn

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/convert"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/gnn/internal/embed"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// stepsOf returns the steps of a model over a graph's features.
func stepsOf(t testing.TB, g *graph.Graph, m *network) []*embed.Step {
	t.Helper()
	x := expect.Must(features(g, 0, m.layers[0].in, false))(t)
	return steps(g, m.rowsLayers(), []*embed.Table{x}, 0, unified.Float32)
}

// embedded returns the rows that a model makes of a graph's features.
func embedded(t testing.TB, g *graph.Graph, m *network, of [][]int32, opt embed.Options) []float32 {
	t.Helper()
	return made(t, &embed.Program{Graph: g, Steps: stepsOf(t, g, m), Of: of, Name: t.Name()}, opt)
}

// made returns the rows that a program makes.
func made(t testing.TB, p *embed.Program, opt embed.Options) []float32 {
	t.Helper()
	if opt.Folder == "" {
		opt.Folder = filepath.Join(t.TempDir(), "work")
	}
	expect.OK(t, expect.Err(embed.Run(t.Context(), p, opt)))
	all := p.Steps
	out := all[len(all)-1].To[0]
	rows := make([]float32, out.Rows*int64(out.Width))
	raw := expect.Must(os.ReadFile(filepath.Join(opt.Folder, out.Name)))(t)
	unified.Float32.Floats(rows, raw)
	return rows
}

// ways are ways to carry a program out, in memories from one that has room for all to one for some nodes at a time.
var ways = []embed.Options{
	{Way: embed.Resident, Memory: 1 << 30},
	{Way: embed.Resident, Memory: 1 << 30, Files: true, Workers: 3},
	{Way: embed.Sweeps, Memory: 1 << 30, Workers: 3},
	{Way: embed.Sweeps, Memory: 8 << 20, Files: true, Workers: 1},
	{Way: embed.Window, Memory: 16 << 20, Files: true, Workers: 3},
	{Way: embed.Window, Memory: 1 << 30},
	{Way: embed.Hubs, Memory: 32 << 20, Files: true, Workers: 3},
	{Way: embed.Gather, Memory: 1 << 30, Files: true},
	{Way: embed.Gather, Memory: 32 << 20, Files: true, Workers: 3},
}

// onDisk returns a graph that is a dataset on disk.
func onDisk(t testing.TB, g *graph.Graph) *graph.Graph {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	expect.OK(t, formats.WriteGraph(t.Context(), dir, g, formats.WriterOptions{}))
	ds := expect.Must(formats.Open(dir))(t)
	t.Cleanup(func() { _ = ds.Close() })
	return ds.Graph()
}

// wholly computes a model as training does, over the whole graph.
func wholly(t testing.TB, g *graph.Graph, m *network) []float32 {
	t.Helper()
	pool := sparse.Open(sparse.Options{Workers: 2})
	defer pool.Close()
	x, _ := g.NodeRole(0, graph.Feature)
	a := expect.Must((&trainer{model: m}).prepared(expect.Must(sparse.Whole(g))(t)))(t)
	tape := newAutodiff(pool)
	in := newVariable(int(x.Len()), int(x.Width()), expect.Must(sparse.Floats(x))(t))
	scores := m.Forward(tape, slices.Repeat([]*sparse.Matrix{a}, len(m.layers)), modelInput{Dense: in})
	expect.OK(t, tape.Err())
	return scores.Data
}

// TestEmbeddingIsTheWholeProductInAnyWay compares rows of all nodes with what training computes over the whole graph,
// to the bit but for attention, and with sums in float64.
func TestEmbeddingIsTheWholeProductInAnyWay(t *testing.T) {
	g := onDisk(t, communities(t, 1000, false))
	for _, model := range models {
		for _, hidden := range []int{8, 60} { // fewer columns than before, and more
			opt := Options{Model: model, Hidden: hidden, Layers: 3, Heads: 2, Seed: 4}.withDefaults()
			m := expect.Must(newNetwork(40, 4, opt, &budget{}))(t)
			want := wholly(t, g, m)
			near(t, want, inFloat64(t, g, m), 1e-4)
			var first []float32
			for _, way := range ways {
				got := embedded(t, g, m, nil, way)
				if model != "gat" {
					expect.Same(t, bitsOfAll(got), bitsOfAll(want), model+", "+way.Way)
				}
				near(t, got, want, 1e-5)
				if first == nil {
					first = got
				}
				expect.Same(t, bitsOfAll(got), bitsOfAll(first), model+", "+way.Way)
			}
		}
	}
}

// TestRowsOfSomeNodesAreThoseOfAll in each way, and less is computed for them.
func TestRowsOfSomeNodesAreThoseOfAll(t *testing.T) {
	g := onDisk(t, crowded(t, 3000, 4, false))
	for n, model := range models {
		m := expect.Must(newNetwork(40, 4, Options{Model: model, Hidden: 12, Heads: 2, Layers: 2,
			Seed: 4}.withDefaults(), &budget{}))(t)
		all := embedded(t, g, m, nil, ways[0])
		for k, way := range ways {
			some := []int32{int32(k), 700, 701, 702, int32(2900 + n)}
			got := embedded(t, g, m, [][]int32{some}, way)
			for _, v := range some {
				expect.Same(t, bitsOfAll(got[v*4:v*4+4]), bitsOfAll(all[v*4:v*4+4]), model+" "+way.Way)
			}
			unset := 0
			for v := range 3000 {
				unset += map[bool]int{true: 1}[slices.Equal(got[v*4:v*4+4], make([]float32, 4))]
			}
			expect.That(t, unset == 3000-len(some), "%s: %d rows were not computed", model, unset)
		}
	}
}

// TestNarrowFeaturesAreWidened compares rows over features that are stored as int4 and int8 with sums in float64 over
// the numbers that these stand for.
func TestNarrowFeaturesAreWidened(t *testing.T) {
	for n, dtype := range []string{"int4", "int8"} {
		dir := filepath.Join(t.TempDir(), "data")
		whole := communities(t, 900, false)
		expect.OK(t, formats.WriteGraph(t.Context(), dir, whole, formats.WriterOptions{}))
		expect.OK(t, expect.Err(convert.Add(t.Context(), dir, convert.AddOptions{FeatureDType: []string{dtype}})))
		ds := expect.Must(formats.Open(dir))(t)
		t.Cleanup(func() { _ = ds.Close() })
		g := ds.Graph()
		numbers := expect.Must(features(g, 0, 0, false))(t).Floats()
		near(t, numbers, expect.Must(features(whole, 0, 0, false))(t).Floats(), 0.1)
		m := expect.Must(newNetwork(40, 4, Options{Model: models[2*n], Hidden: 60, Heads: 2, Layers: 2,
			Seed: 4}.withDefaults(), &budget{}))(t)
		want := float64Of(t, g, m, numbers)
		first := embedded(t, g, m, nil, ways[0])
		near(t, first, want, 1e-4)
		for _, way := range ways {
			expect.Same(t, bitsOfAll(embedded(t, g, m, nil, way)), bitsOfAll(first), dtype+", "+way.Way)
		}
	}
}

func bitsOfAll(x []float32) []uint32 {
	to := make([]uint32, len(x))
	for i, v := range x {
		to[i] = math.Float32bits(v)
	}
	return to
}

// near compares rows relative to the greatest number.
func near(t testing.TB, got, want []float32, most float64) {
	t.Helper()
	greatest, worst := 0.0, 0.0
	for i := range want {
		greatest = max(greatest, math.Abs(float64(want[i])))
		worst = max(worst, math.Abs(float64(got[i])-float64(want[i])))
	}
	expect.That(t, len(got) == len(want) && worst <= most*greatest, "%d numbers differ by up to %g of %g", len(got),
		worst, greatest)
}

// inFloat64 computes a model edge by edge, in float64.
func inFloat64(t testing.TB, g *graph.Graph, m *network) []float32 {
	t.Helper()
	feature, _ := g.NodeRole(0, graph.Feature)
	return float64Of(t, g, m, expect.Must(sparse.Floats(feature))(t))
}

// float64Of is inFloat64 of features that are given.
func float64Of(t testing.TB, g *graph.Graph, m *network, data []float32) []float32 {
	t.Helper()
	r := &reference{m: m, edges: make([][]int, g.NumNodes()), out: make([]float64, g.NumNodes())}
	sources := expect.Must(unified.View[int32](g.Indices()))(t)
	width, x := len(data)/int(g.NumNodes()), [][]float64(nil)
	for i := range r.edges {
		x = append(x, doubles(data[i*width:][:width]))
		for _, j := range sources[g.Indptr()[i]:g.Indptr()[i+1]] {
			r.edges[i] = append(r.edges[i], int(j))
		}
		if m.Loops() && !slices.Contains(r.edges[i], i) {
			r.edges[i] = append(r.edges[i], i)
		}
		for _, j := range r.edges[i] {
			r.out[j]++
		}
	}
	for number := range m.layers {
		x = r.layer(&m.layers[number], x, number == len(m.layers)-1)
	}
	var all []float32
	for _, row := range x {
		for _, v := range row {
			all = append(all, float32(v))
		}
	}
	return all
}

// reference computes layers over edges in float64.
type reference struct {
	m     *network
	edges [][]int   // of each node: sources
	out   []float64 // edges that leave it
}

func doubles(x []float32) (to []float64) {
	for _, v := range x {
		to = append(to, float64(v))
	}
	return to
}

func doubled(x []float64, w *variable) []float64 {
	y := make([]float64, w.Cols)
	for k, v := range x {
		for c := range y {
			y[c] += v * float64(w.Data[k*w.Cols+c])
		}
	}
	return y
}

func plus(x, y []float64) []float64 {
	for k := range x {
		x[k] += y[k]
	}
	return x
}

// sum sums weighted rows of a node's sources.
func (r *reference) sum(i int, x [][]float64, weight func(j int) float64) []float64 {
	y := make([]float64, len(x[0]))
	for _, j := range r.edges[i] {
		w := weight(j)
		for k, v := range x[j] {
			y[k] += w * v
		}
	}
	return y
}

func (r *reference) layer(l *layer, x [][]float64, last bool) [][]float64 {
	var z [][]float64
	if r.m.kind == "gat" {
		for _, row := range x {
			z = append(z, doubled(row, l.w["weight"]))
		}
	}
	next, bias := make([][]float64, len(x)), l.w["bias"]
	for i := range next {
		degree := float64(len(r.edges[i]))
		switch r.m.kind {
		case "gcn":
			norm := func(j int) float64 { return 1 / math.Sqrt(degree*r.out[j]) }
			next[i] = doubled(r.sum(i, x, norm), l.w["weight"])
		case "sage":
			mean := r.sum(i, x, func(int) float64 { return 1 / degree })
			next[i] = plus(doubled(mean, l.w["weight"]), doubled(x[i], l.w["own"]))
		case "gin":
			sum := plus(r.sum(i, x, func(int) float64 { return 1 }), x[i])
			h := plus(doubled(sum, l.w["weight"]), doubles(bias.Data))
			for k := range h {
				h[k] = max(h[k], 0)
			}
			next[i] = plus(doubled(h, l.w["weight2"]), doubles(l.w["bias2"].Data))
		case "gat":
			for h := range l.heads {
				next[i] = append(next[i], r.attend(l, z, i, h)...)
			}
		}
		if r.m.kind != "gin" {
			plus(next[i], doubles(bias.Data))
		}
		for k, v := range next[i] {
			if !last && v < 0 {
				next[i][k] = map[bool]float64{true: math.Expm1(v)}[r.m.kind == "gat"]
			}
		}
	}
	return next
}

// attend returns a head's part of a node's row.
func (r *reference) attend(l *layer, z [][]float64, i, h int) []float64 {
	width, all := l.out/l.heads, 0.0
	dot := func(v []float64, w *variable) (sum float64) {
		for k := h * width; k < (h+1)*width; k++ {
			sum += v[k] * float64(w.Data[k])
		}
		return sum
	}
	weight := func(j int) float64 {
		s := dot(z[i], l.w["target"]) + dot(z[j], l.w["source"])
		return math.Exp(max(s, s*slope))
	}
	for _, j := range r.edges[i] {
		all += weight(j)
	}
	return r.sum(i, z, func(j int) float64 { return weight(j) / all })[h*width : (h+1)*width]
}
