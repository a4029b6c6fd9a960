package gnn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/gnn/internal/embed"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/invariants"
	"github.com/khop-gnn/khop/unified"
)

// grown are graphs of which each has more nodes than the one before, some other features, and a few edges more.
func grown(t testing.TB, r *rand.Rand, count int) (all []*graph.Graph) {
	t.Helper()
	const nodes, width = 2000, 40
	var x []float32
	e := graph.EdgeData{}
	for n := range count {
		before := len(x) / width
		for range (nodes + 7*n - before) * width {
			x = append(x, float32(r.NormFloat64()))
		}
		if n > 0 {
			x = slices.Clone(x)
			x[r.IntN(before*width)]++
		}
		now := len(x) / width
		for range map[bool]int{true: 2 * nodes, false: 9}[n == 0] {
			e.Src, e.Dst = append(e.Src, int64(r.IntN(now))), append(e.Dst, int64(r.IntN(now)))
		}
		feature := expect.Must(unified.FromRows(x, width))(t)
		all = append(all, onDisk(t, graphs.New(t, graph.Data{Edges: []graph.EdgeData{e},
			Nodes: []graph.NodeData{{Columns: map[string]unified.Tensor{"feature": feature}}}})))
	}
	return all
}

// TestWhatWasKeptIsMadeAgainOnlyWhereItChanges runs programs over graphs that change, in the same folder, each until it
// is stopped at a drawn range or is done. Rows are those of a run that kept nothing, whatever was stopped before and
// hurt of the sums, and a run behind one that was done makes few. KHOP_DRAWS says how many are drawn.
func TestWhatWasKeptIsMadeAgainOnlyWhereItChanges(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 9))
	all, stop := grown(t, r, 3), errors.New("stop")
	for n := range expect.Draws(t, 4) {
		of := Options{Model: models[n%len(models)], Hidden: 12, Heads: 2, Layers: 2, Seed: 4}.withDefaults()
		m := expect.Must(newNetwork(40, 4, of, &budget{}))(t)
		folder, done := filepath.Join(t.TempDir(), "work"), -1
		for range 6 {
			at := r.IntN(len(all))
			p := &embed.Program{Graph: all[at], Steps: stepsOf(t, all[at], m), Name: fmt.Sprint(m.kind, at)}
			p.Base = m.kind
			ctx, cancel := context.WithCancelCause(t.Context())
			way, left := ways[r.IntN(len(ways))], r.IntN(12)
			way.Folder, way.Keep, way.SaveEvery = folder, true, 1
			way.Progress = func(string, int64, int64) {
				if left--; left < 0 {
					cancel(stop)
				}
			}
			hurt := r.IntN(8) == 0 && hurtSums(r, folder)
			if all[at].NumNodes() < graphNodes(all, done) {
				done = -1 // rows that are gone are nothing to go on from
			}
			report, err := embed.Run(ctx, p, way)
			cancel(nil)
			if err != nil {
				expect.Is(t, err, stop)
				done = -1
				continue
			}
			name, made, whole := fmt.Sprintf("draw %d, %s", n, way.Way), int64(0), int64(0)
			for _, s := range report.Steps {
				made, whole = made+s.Did.Written-s.Did.Scratch, whole+s.Nodes
			}
			few := done < 0 || hurt || made < all[at].NumNodes()*64
			expect.That(t, few, "%s: %d to %d: %d bytes", name, done, at, made)
			none := done != at || hurt || made == 0 && whole == 0
			expect.That(t, none, "%s: %d bytes of what is the same", name, made)
			got := expect.Must(os.ReadFile(filepath.Join(folder, "0-rows")))(t)
			rows := make([]float32, len(got)/4)
			unified.Float32.Floats(rows, got)
			want := embedded(t, all[at], m, nil, ways[0])
			expect.Same(t, bitsOfAll(rows), bitsOfAll(want), name)
			done = at
		}
	}
}

func graphNodes(all []*graph.Graph, at int) int64 {
	if at < 0 {
		return 0
	}
	return all[at].NumNodes()
}

// hurtSums changes a byte of the sums that were kept, and reports whether there are any.
func hurtSums(r *rand.Rand, folder string) bool {
	path := filepath.Join(folder, "kept")
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	text[r.IntN(len(text))] ^= 1
	return os.WriteFile(path, text, 0o600) == nil
}

// TestTablesOfAnotherGraphAreNothingToGoOnFrom: a run that ended before its sums were in place has changed tables, and
// the graph before it comes back.
func TestTablesOfAnotherGraphAreNothingToGoOnFrom(t *testing.T) {
	all := grown(t, rand.New(rand.NewPCG(expect.Seed(t), 9)), 2)
	m := expect.Must(newNetwork(40, 4, Options{Model: "sage", Layers: 2, Seed: 4}.withDefaults(), &budget{}))(t)
	way := embed.Options{Folder: filepath.Join(t.TempDir(), "work"), Memory: 1 << 30, Keep: true}
	sums := filepath.Join(way.Folder, "kept")
	run := func(at int) []float32 {
		return made(t, &embed.Program{Graph: all[at], Steps: stepsOf(t, all[at], m), Name: fmt.Sprint(at)}, way)
	}
	first := run(0)
	text := expect.Must(os.ReadFile(sums))(t)
	run(1)
	expect.OK(t, os.WriteFile(sums, text, 0o600))
	expect.Same(t, bitsOfAll(run(0)), bitsOfAll(first), "rows")
}

// edited returns the data of a small graph after one to three drawn edits: an edge's source, all edges of a node or to
// it, an edge more or less, a feature, a node more.
func edited(r *rand.Rand, was graph.EdgeData, x []float32, width int) (graph.EdgeData, []float32) {
	e := graph.EdgeData{Src: slices.Clone(was.Src), Dst: slices.Clone(was.Dst)}
	x = slices.Clone(x)
	remove := func(gone func(i int) bool) {
		var left graph.EdgeData
		for i := range e.Src {
			if !gone(i) {
				left.Src, left.Dst = append(left.Src, e.Src[i]), append(left.Dst, e.Dst[i])
			}
		}
		e = left
	}
	for range 1 + r.IntN(3) {
		nodes := len(x) / width
		node, edge := int64(r.IntN(nodes)), r.IntN(len(e.Src))
		switch r.IntN(7) {
		case 0:
			e.Src[edge] = node
		case 1:
			remove(func(i int) bool { return e.Dst[i] == node && len(e.Src) > 2*nodes })
		case 2:
			remove(func(i int) bool { return e.Src[i] == node && len(e.Src) > 2*nodes })
		case 3:
			e.Src, e.Dst = append(e.Src, node), append(e.Dst, int64(r.IntN(nodes)))
		case 4:
			remove(func(i int) bool { return i == edge })
		case 5:
			x[r.IntN(len(x))]++
		case 6:
			for range width {
				x = append(x, float32(r.NormFloat64()))
			}
			e.Src, e.Dst = append(e.Src, int64(nodes)), append(e.Dst, node)
		}
	}
	return e, x
}

// TestRowsAfterADrawnEditAreThoseOfARunFromScratch: of each model, some are kept while a small graph is edited three
// times, and once nothing changes. KHOP_DRAWS says how many graphs are drawn.
func TestRowsAfterADrawnEditAreThoseOfARunFromScratch(t *testing.T) {
	const nodes, width = 30, 5
	r := rand.New(rand.NewPCG(expect.Seed(t), 11))
	draws := expect.DayOrNight(12, 48)
	if invariants.Enabled { // without the race detector all are drawn
		draws = 6
	}
	for n := range expect.Draws(t, draws) {
		of := Options{Model: models[n%len(models)], Hidden: 4, Heads: 2, Layers: 2, Seed: uint64(n)}.withDefaults()
		m := expect.Must(newNetwork(width, 3, of, &budget{}))(t)
		folder, e, x := filepath.Join(t.TempDir(), "work"), graph.EdgeData{}, make([]float32, nodes*width)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		for range 3 * nodes {
			e.Src, e.Dst = append(e.Src, int64(r.IntN(nodes))), append(e.Dst, int64(r.IntN(nodes)))
		}
		for edit := range 4 {
			feature := expect.Must(unified.FromRows(x, width))(t)
			g := onDisk(t, graphs.New(t, graph.Data{Edges: []graph.EdgeData{e},
				Nodes: []graph.NodeData{{Columns: map[string]unified.Tensor{"feature": feature}}}}))
			p := &embed.Program{Graph: g, Steps: stepsOf(t, g, m), Name: fmt.Sprint(m.kind, edit), Base: m.kind}
			way := ways[r.IntN(len(ways))]
			way.Folder, way.Keep = folder, true
			rows := made(t, p, way)
			expect.Same(t, bitsOfAll(rows), bitsOfAll(embedded(t, g, m, nil, ways[0])),
				fmt.Sprintf("draw %d, edit %d of %s, %s", n, edit, m.kind, way.Way))
			if edit != 2 {
				e, x = edited(r, e, x, width)
			}
		}
	}
}

// TestNothingThatChangedIsNothingToMake where tables do not fit in memory, and the way is chosen by measuring.
func TestNothingThatChangedIsNothingToMake(t *testing.T) {
	g := grown(t, rand.New(rand.NewPCG(expect.Seed(t), 9)), 1)[0]
	for i, model := range models {
		if invariants.Enabled && i > 0 {
			break
		}
		of := Options{Model: model, Heads: 2, Layers: 2, Seed: 4}.withDefaults()
		m := expect.Must(newNetwork(40, 4, of, &budget{}))(t)
		way := embed.Options{Folder: filepath.Join(t.TempDir(), "work"), Memory: 3 << 20, Files: true, Keep: true}
		p := func() *embed.Program {
			return &embed.Program{Graph: g, Steps: stepsOf(t, g, m), Name: model, Base: model}
		}
		first := made(t, p(), way)
		expect.Same(t, bitsOfAll(made(t, p(), way)), bitsOfAll(first), model)
	}
}
