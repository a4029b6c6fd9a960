package embed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// drawnEdges are those of a graph whose edges are near their nodes, or come from and lead to hubs, or neither.
func drawnEdges(r *rand.Rand, nodes int) graph.EdgeData {
	e := graph.EdgeData{Source: "node", Relation: "edge", Target: "node"}
	near, hubs := r.IntN(101), r.IntN(101)
	skewed := func() int { return int(float64(nodes) * r.Float64() * r.Float64() * r.Float64() * r.Float64()) }
	for range r.IntN(8 * nodes) {
		src, dst := r.IntN(nodes), r.IntN(nodes)
		if r.IntN(100) < near {
			src = min(max(dst+r.IntN(21)-10, 0), nodes-1)
		} else if r.IntN(100) < hubs {
			src, dst = skewed()*7919%nodes, skewed()*7907%nodes
		}
		e.Src, e.Dst = append(e.Src, int64(src)), append(e.Dst, int64(dst))
	}
	return e
}

// passesProgram has two steps over a drawn relation, of rows of a drawn type and width.
func passesProgram(r *rand.Rand, g *graph.Graph, reduce Reduce, width int) *Program {
	n := g.NumNodes()
	x := make([]float32, n*int64(width))
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	dtype := []unified.DType{unified.Float32, unified.Float16}[r.IntN(2)]
	raw := make([]byte, int64(len(x))*dtype.Size())
	dtype.PutFloats(raw, x)
	t, _ := unified.New(dtype, raw, n, int64(width))
	in, apart := Column("x", t), r.IntN(2) == 0
	loops := reduce == Norm || reduce == NormIn || reduce == Max && r.IntN(2) == 0
	step := func(name string, of *Table, own *Table, wide int) (*Step, *Table) {
		to := &Table{Name: name, Rows: n, Width: wide, DType: unified.Float32}
		return &Step{Name: name, Own: []*Table{own}, To: []*Table{to},
			Sums: []Relation{{Reduce: reduce, Table: of, Loops: loops}}, Apply: func(b *Block) error {
				for i := range int(b.N) {
					for k := range wide {
						b.To[0][i*wide+k] = b.Sums[0][i*of.Width+k%of.Width]*0.5 + b.Own[0][i*own.Width+k%own.Width]
					}
				}
				return nil
			}}, to
	}
	first, mid := step("mid", in, in, 1+r.IntN(2*width))
	own := in
	if !apart {
		own = mid
	}
	second, _ := step("out", mid, own, 1+r.IntN(width))
	if r.IntN(4) == 0 {
		second.Rows = 64 // as a function has that is somebody's own
	}
	if r.IntN(4) == 0 {
		second.Own = nil
		second.Apply = func(b *Block) error {
			for i := range b.To[0] {
				b.To[0][i] = b.Sums[0][i%len(b.Sums[0])]
			}
			return nil
		}
		second.To[0].Width = mid.Width
	}
	return &Program{Graph: g, Steps: []*Step{first, second}, Name: fmt.Sprint("drawn ", reduce)}
}

// TestPassesOverRowsMakeTheSameBytes of drawn graphs and steps in drawn memories: in sweeps, in windows and with hubs,
// stopped on the way and taken up in another way. They read and write what was planned, to the byte. KHOP_DRAWS says
// how many are drawn.
func TestPassesOverRowsMakeTheSameBytes(t *testing.T) {
	seed := expect.Seed(t)
	defer func(apply int, spill, sheet int64) { applyBytes, spillBuffer, sheetEdges = apply, spill, sheet }(applyBytes,
		spillBuffer, sheetEdges)
	applyBytes, spillBuffer = 32<<10, 2<<10 // which leave room for few sums
	spilled, ranges := 0, 0
	draws := expect.Draws(t, expect.DayOrNight(3, 12))
	for n := range draws {
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		nodes := 600 + r.IntN(20000)
		g := graphs.New(t, graph.Data{Nodes: []graph.NodeData{{Name: "node", Count: int64(nodes)}},
			Edges: []graph.EdgeData{drawnEdges(r, nodes)}})
		sheetEdges = 1 << (10 + r.IntN(8))
		reduce, width, key := Reduce(r.IntN(int(Attend))), 1+r.IntN(90), r.Uint64()
		program := func() *Program { return passesProgram(rand.New(rand.NewPCG(key, 1)), g, reduce, width) }
		run := func(ctx context.Context, opt Options) (*Report, error) { return Run(ctx, program(), opt) }
		rows := func(opt Options) string {
			return string(expect.Must(os.ReadFile(filepath.Join(opt.Folder, "out")))(t))
		}
		whole := Options{Folder: filepath.Join(t.TempDir(), "whole"), Way: Resident, Memory: 1 << 30}
		expect.OK(t, expect.Err(run(t.Context(), whole)))
		want := rows(whole)
		for _, way := range []string{Sweeps, Window, Hubs} {
			opt := Options{Folder: filepath.Join(t.TempDir(), "work"), Way: way, Files: true, Workers: 1 + r.IntN(3)}
			var report *Report
			var err error
			for opt.Memory = 3 << 20; report == nil; opt.Memory += opt.Memory / 8 {
				report, err = run(t.Context(), opt)
				if err != nil && (report != nil || !errors.Is(err, pinned.ErrLimit)) {
					t.Fatalf("draw %d, %s: %v", n, way, err)
				}
			}
			expect.That(t, rows(opt) == want, "draw %d, %s in %d bytes: other rows", n, way, opt.Memory)
			for _, s := range report.Steps {
				expect.That(t, s.Did.Read == s.Plan.Read && s.Did.Written == s.Plan.Written,
					"draw %d, %s of %d nodes: %+v", n, way, nodes, s)
				if s.Way == Window && s.Passes > 1 {
					ranges++
				}
				if s.Way == Hubs && s.hubs.messages > 0 {
					spilled++
				}
			}
			stopAndGoOn(t, r, opt, run)
			expect.That(t, rows(opt) == want, "draw %d, %s, stopped: other rows", n, way)
		}
	}
	t.Logf("%d steps spilled rows, %d windows had several ranges", spilled, ranges)
	expect.That(t, draws < 40 || spilled > 0 && ranges > 0, "they say nothing of spilled rows, or of ranges")
}

// stopAndGoOn stops a run at a drawn place, and ends it in another way.
func stopAndGoOn(t *testing.T, r *rand.Rand, opt Options, run func(context.Context, Options) (*Report, error)) {
	t.Helper()
	expect.OK(t, os.RemoveAll(opt.Folder))
	ctx, stop := context.WithCancelCause(t.Context())
	halt, left := errors.New("stop"), r.IntN(12)
	opt.SaveEvery, opt.Progress = 1, func(string, int64, int64) {
		if left--; left < 0 {
			stop(halt)
		}
	}
	_, err := run(ctx, opt)
	stop(nil)
	expect.That(t, err == nil || errors.Is(err, halt), "%v", err)
	opt.Way, opt.Progress = []string{Sweeps, Window, Hubs}[r.IntN(3)], nil
	for report := (*Report)(nil); report == nil; opt.Memory *= 2 { // until it is planned
		if report, err = run(t.Context(), opt); report != nil {
			expect.OK(t, err)
		}
	}
}
