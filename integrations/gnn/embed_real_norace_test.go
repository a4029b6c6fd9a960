//go:build !race

package gnn

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/convert"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/gnn/internal/embed"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// realGraph converts one of the real graphs, or skips the test.
func realGraph(t *testing.T, path string) (string, *graph.Graph) {
	t.Helper()
	root, dir := os.Getenv("KHOP_TESTDATA"), filepath.Join(t.TempDir(), "data")
	if root == "" {
		t.Skip("KHOP_TESTDATA is not set")
	}
	expect.OK(t, expect.Err(convert.Run(t.Context(), filepath.Join(root, filepath.FromSlash(path)), dir,
		convert.Options{})))
	ds := expect.Must(formats.Open(dir))(t)
	t.Cleanup(func() { _ = ds.Close() })
	return dir, ds.Graph()
}

// TestEmbeddingsOfRealGraphsAreTheWholeProduct compares rows with sums in float64, edge by edge, in a memory that has
// room for all and in one that has not. A graph without features has drawn ones. KHOP_DRAWS says how many of the four
// models there are for each graph. The graph with the widest rows is for the night.
func TestEmbeddingsOfRealGraphsAreTheWholeProduct(t *testing.T) {
	for n, path := range []string{"planetoid-cora", "heterophilous/tolokers.npz", "musae-facebook-page",
		"cnr-2000-webgraph/derived/cnr-2000.csr.npz"} {
		if path == "musae-facebook-page" && !expect.Night() && os.Getenv("KHOP_DRAWS") == "" {
			continue
		}
		t.Run(path, func(t *testing.T) {
			_, g := realGraph(t, path)
			column, ok := g.NodeRole(0, graph.Feature)
			if !ok {
				x, r := make([]float32, 8*g.NumNodes()), rand.New(rand.NewPCG(1, 1))
				for i := range x {
					x[i] = float32(r.NormFloat64())
				}
				column = expect.Must(unified.FromRows(x, 8))(t)
			}
			for k := range expect.Draws(t, expect.DayOrNight(1, 2)) {
				model := models[(n+k)%len(models)]
				opt := Options{Model: model, Hidden: 8, Layers: 2, Heads: 2, Seed: 4}.withDefaults()
				m := expect.Must(newNetwork(int(column.Width()), 4, opt, &budget{}))(t)
				want := float64Of(t, g, m, expect.Must(sparse.Floats(column))(t))
				for _, way := range []embed.Options{{Memory: 4 << 30}, {Way: embed.Sweeps, Memory: 32 << 20}} {
					all := steps(g, m.rowsLayers(), []*embed.Table{embed.Column("feature", column)}, 0, unified.Float32)
					near(t, made(t, &embed.Program{Graph: g, Steps: all, Name: model}, way), want, 2e-5)
				}
			}
		})
	}
}

// TestEmbeddingsHaveTheAccuracyOfTraining trains on Cora, and compares the classes of the column's greatest scores.
func TestEmbeddingsHaveTheAccuracyOfTraining(t *testing.T) {
	dir, g := realGraph(t, "planetoid-cora")
	for _, model := range models {
		checkpoint := filepath.Join(t.TempDir(), "model")
		trained := expect.Must(Train(t.Context(), g, Options{Model: model, Epochs: 20, Checkpoint: checkpoint}))(t)
		expect.OK(t, expect.Err(Embed(t.Context(), dir, EmbedOptions{Checkpoint: checkpoint, Out: model})))
		ds := expect.Must(formats.Open(dir))(t)
		column, _ := ds.Graph().NodeColumn(0, model)
		scores := expect.Must(unified.View[float32](column))(t)
		labels, _ := g.NodeRole(0, graph.Label)
		of, width := expect.Must(unified.View[int64](labels))(t), int(column.Width())
		test := expect.Must(g.Split("test", 0))(t)
		right := 0
		for k := range test.Len() {
			_, v := test.At(k)
			row, best := scores[int(v)*width:][:width], 0
			for c, s := range row {
				if s > row[best] {
					best = c
				}
			}
			right += map[bool]int{true: 1}[int64(best) == of[v]]
		}
		expect.OK(t, ds.Close())
		last := trained.Curve[len(trained.Curve)-1]
		expect.Same(t, float64(right)/float64(test.Len()), last.Test, model)
	}
}
