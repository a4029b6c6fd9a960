package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/unified"
)

// edgesAndRows are the edges of a graph, by source and destination, and the features of its nodes.
type edgesAndRows struct {
	src, dst []int64
	rows     []float32
}

const rowWidth = 9

func (s edgesAndRows) nodes() int { return len(s.rows) / rowWidth }

// next draws changes and makes them: the request, after the arrays are in its file, and the state after it.
func (s edgesAndRows) next(t *testing.T, r *rand.Rand, a *asker) (string, edgesAndRows) {
	t.Helper()
	s = edgesAndRows{slices.Clone(s.src), slices.Clone(s.dst), slices.Clone(s.rows)}
	var less, more edgesAndRows
	for range r.IntN(20) {
		at := r.IntN(len(s.src))
		less.src, less.dst = append(less.src, s.src[at]), append(less.dst, s.dst[at])
		s.src, s.dst = slices.Delete(s.src, at, at+1), slices.Delete(s.dst, at, at+1)
	}
	ids := []int64{r.Int64N(int64(s.nodes())), int64(s.nodes())}[r.IntN(2):][:1]
	for range rowWidth {
		more.rows = append(more.rows, r.Float32())
	}
	if ids[0] == int64(s.nodes()) {
		s.rows = append(s.rows, more.rows...)
	}
	copy(s.rows[ids[0]*rowWidth:], more.rows)
	for range r.IntN(25) {
		more.src, more.dst = append(more.src, r.Int64N(int64(s.nodes()))), append(more.dst, r.Int64N(int64(s.nodes())))
	}
	s.src, s.dst = append(s.src, more.src...), append(s.dst, more.dst...)
	at := [6]int64{}
	for i, x := range [][]int64{less.src, less.dst, more.src, more.dst, ids} {
		at[i+1] = putArray(t, a.file, at[i], x)
	}
	putArray(t, a.file, at[5], more.rows)
	return fmt.Sprintf(`{"apply":{"remove":[{"count":%d,"src_at":%d,"dst_at":%d}],"add":[{"count":%d,"src_at":%d,`+
		`"dst_at":%d}],"features":[{"count":1,"ids_at":%d,"rows_at":%d}]}}`, len(less.src), at[0], at[1],
		len(more.src), at[2], at[3], at[4], at[5]), s
}

// write makes a dataset of a state.
func (s edgesAndRows) write(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	x := expect.Must(unified.FromRows(s.rows, rowWidth))(t)
	expect.OK(t, formats.WriteGraph(t.Context(), dir, graphs.New(t, graph.Data{Edges: []graph.EdgeData{{Src: s.src,
		Dst: s.dst}}, Nodes: []graph.NodeData{{Columns: map[string]unified.Tensor{"feature": x}}}}),
		formats.WriterOptions{}))
	return dir
}

// TestAcknowledgedChangesOutliveKills kills khop embed --live at drawn moments, while it opens, makes changes or makes
// the journal one record. Opened again it has all changes that it has acknowledged, and at most the one that it was
// making, and the rows are those of khop embed over a dataset with these. KHOP_DRAWS says how many kills are drawn.
func TestAcknowledgedChangesOutliveKills(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 1))
	model := filepath.Join(t.TempDir(), "model")
	must(t, "train", small(t), "--epochs", "1", "--checkpoint", model)
	state := edgesAndRows{rows: make([]float32, 300*rowWidth)}
	for i := range state.rows {
		state.rows[i] = r.Float32()
	}
	for range 3000 {
		state.src, state.dst = append(state.src, r.Int64N(300)), append(state.dst, r.Int64N(300))
	}
	data := state.write(t)
	states := []edgesAndRows{state} // by generation, acknowledged but for the last one
	acknowledged, most := 0, 0
	for kills := 0; kills <= expect.Draws(t, 6); kills++ {
		a := startLive(t, nil, data, "--checkpoint", model)
		last := kills == expect.Draws(t, 6)
		timer := time.AfterFunc(time.Duration(r.IntN(150))*time.Millisecond, func() {
			if !last {
				_ = a.cmd.Process.Kill()
			}
		})
		ready, err := a.answer()
		if err == nil {
			g := int(ready["generation"].(float64))
			expect.Ensure(t, acknowledged <= g && g < len(states), "generation %d after %d was acknowledged", g,
				acknowledged)
			states, acknowledged = states[:g+1], g
			if last {
				sameRows(t, a, states[g], model)
				a.end(t)
				break
			}
		}
		for n := 0; err == nil; n++ {
			line, next := states[acknowledged].next(t, r, a)
			states = append(states[:acknowledged+1], next)
			var report map[string]any
			if report, err = a.ask(line); err == nil {
				acknowledged++
				expect.Ensure(t, report["generation"] == float64(acknowledged), "%v", report)
			}
			if err == nil && n%8 == 7 {
				_, err = a.ask(`{"compact":{}}`)
			}
		}
		timer.Stop()
		_ = a.cmd.Wait()
		most = max(most, acknowledged)
	}
	expect.That(t, most > 5, "%d changes were acknowledged", most)
}

// sameRows compares rows with those of khop embed over a dataset of a state.
func sameRows(t *testing.T, a *asker, s edgesAndRows, model string) {
	t.Helper()
	dir := s.write(t)
	must(t, "embed", dir, "--checkpoint", model)
	want := columnOf(t, dir, "embedding")
	got := a.all(t, s.nodes(), len(want)/4/s.nodes())
	expect.That(t, bytes.Equal(got, want), "rows after %d nodes and %d edges differ", s.nodes(), len(s.src))
}
