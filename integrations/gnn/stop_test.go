package gnn

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// TestTrainingGoesOnFromAnyBatch stops training after each of its steps. What comes in the end has the bytes of
// training without a stop.
func TestTrainingGoesOnFromAnyBatch(t *testing.T) {
	g := communities(t, 120, true)
	for _, fanouts := range [][]int{nil, {4, 3}} {
		opt := Options{Model: "gcn", Epochs: 3, Dropout: 0.4, Seed: 9, Hidden: 3, Workers: 2, Fanouts: fanouts,
			BatchSize: 16, Checkpoint: filepath.Join(t.TempDir(), "whole")}
		whole, err := Train(t.Context(), g, opt)
		expect.OK(t, err)
		text := contents(t, opt.Checkpoint)
		opt.Checkpoint = filepath.Join(t.TempDir(), "stopped")
		lost, stops := errors.New("stopped"), -1
		var r *Result
		for err = lost; errors.Is(err, lost); stops++ {
			ctx, cancel := context.WithCancelCause(t.Context())
			opt.Progress = func(Step) { cancel(lost) }
			r, err = Train(ctx, g, opt)
			cancel(nil)
		}
		expect.That(t, err == nil && stops >= 2 && bytes.Equal(text, contents(t, opt.Checkpoint)),
			"fan-outs %v: training that was stopped %d times gives other bytes (%v)", fanouts, stops, err)
		expect.That(t, r != nil && slices.Equal(r.Curve, whole.Curve) && len(r.Curve) == 3 && r.Test == whole.Test,
			"fan-outs %v: the curve is %v, without a stop %v", fanouts, r, whole)
	}
}

// TestACheckpointIsWrittenWhileTrainingGoesOn: a process that is killed loses no more than CheckpointEvery.
func TestACheckpointIsWrittenWhileTrainingGoesOn(t *testing.T) {
	g, dir := communities(t, 120, false), t.TempDir()
	opt := Options{Model: "sage", Epochs: 2, Seed: 4, Hidden: 3, Fanouts: []int{3, 3}, BatchSize: 16,
		Checkpoint: filepath.Join(dir, "checkpoint"), CheckpointEvery: 1}
	steps := 0
	opt.Progress = func(Step) {
		if steps++; steps == 4 {
			expect.OK(t, os.WriteFile(filepath.Join(dir, "killed"), contents(t, opt.Checkpoint), 0o600))
		}
	}
	expect.Must(Train(t.Context(), g, opt))(t)
	whole, all := contents(t, opt.Checkpoint), steps
	opt.Checkpoint, opt.CheckpointEvery, steps = filepath.Join(dir, "killed"), 0, 100
	if _, err := Train(t.Context(), g, opt); err != nil || !bytes.Equal(whole, contents(t, opt.Checkpoint)) {
		t.Errorf("what was written after three steps leads to other bytes (%v)", err)
	}
	expect.That(t, steps-100 == all-3, "%d steps after three of %d", steps-100, all)
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	return expect.Must(os.ReadFile(path))(t)
}

// TestCheckpointsCarryWhatWasTuned: another process computes as this one did; another machine in its own way.
func TestCheckpointsCarryWhatWasTuned(t *testing.T) {
	g := communities(t, 60, false)
	tuned := sparse.NewTuning()
	pool := sparse.Open(sparse.Options{Workers: 1})
	defer pool.Close()
	a := expect.Must(sparse.Whole(g))(t)
	x := make([]float32, 60*4)
	expect.Must(pool.Tune(tuned, tensor(x, 60, 4), a, unified.Tensor{}, tensor(make([]float32, 60*4), 60, 4), 1))(t)
	want := expect.Must(tuned.MarshalJSON())(t)
	path := filepath.Join(t.TempDir(), "checkpoint")
	opt := Options{Model: "gcn", Epochs: 1, Tuning: tuned, Checkpoint: path}
	expect.Must(Train(t.Context(), g, opt))(t)
	opt.Tuning, opt.Epochs = sparse.NewTuning(), 2
	expect.Must(Train(t.Context(), g, opt))(t)
	got, _ := opt.Tuning.MarshalJSON()
	expect.That(t, bytes.Equal(got, want), "choices are %s, and were %s", got, want)
	tr := trainer{opt: Options{Tuning: sparse.NewTuning()}}
	foreign := bytes.Replace(want, []byte(`"processor":"`), []byte(`"processor":"another `), 1)
	err := tr.adopt(foreign)
	expect.That(t, err == nil && !bytes.Equal(foreign, want), "choices of another machine: %v", err)
	got, _ = tr.opt.Tuning.MarshalJSON()
	expect.That(t, !bytes.Contains(got, []byte("width")), "choices of another machine are taken: %s", got)
}

func TestTrainingStaysWithinItsMemory(t *testing.T) {
	g := communities(t, 300, false)
	for _, fanouts := range [][]int{nil, {5, 5}} {
		opt := Options{Model: "gat", Epochs: 1, Fanouts: fanouts, BatchSize: 30, MaxMemory: 50 << 10}
		for enough := false; !enough; opt.MaxMemory *= 2 {
			r, err := Train(t.Context(), g, opt)
			switch {
			case err == nil:
				enough = true
			case !errors.Is(err, loader.ErrMemory) || r != nil && r.Epochs > 0:
				t.Fatalf("fan-outs %v, %d bytes: %v", fanouts, opt.MaxMemory, err)
			case opt.MaxMemory > 1<<30:
				t.Fatalf("fan-outs %v: %v", fanouts, err)
			}
		}
	}
}

// TestATapeKeepsNoMoreThanItsLargestStep, of whatever lengths the matrices of other steps are.
func TestATapeKeepsNoMoreThanItsLargestStep(t *testing.T) {
	tape := newAutodiff(nil)
	for step := range 100 {
		for i := range 5 {
			for _, v := range tape.room(1000 + 37*step - i) {
				expect.Ensure(t, v == 0, "not zero")
			}
		}
		tape.Reset()
	}
	if largest := int64(5 * (1000 + 37*100 + 2*arenaStep) * floatBytes); tape.memory.held > largest {
		t.Errorf("the tape keeps %d bytes; its largest step took %d", tape.memory.held, largest)
	}
}

func TestFeaturesOfSixteenBitsTrainAsTheirFloat32Do(t *testing.T) {
	wide := communities(t, 60, false)
	column, _ := wide.NodeColumn(0, "feature")
	x, _ := unified.View[float32](column)
	halves := make([]unified.BHalf, len(x))
	for i, v := range x {
		halves[i] = unified.BHalf(uint16(bitsOf(v) >> 16))
		x[i] = floatOf(uint32(halves[i]) << 16)
	}
	narrow := withFeatures(t, wide, unified.FromSlice(halves), int64(column.Width()))
	for _, fanouts := range [][]int{nil, {4, 4}} {
		opt := Options{Model: "sage", Epochs: 3, Seed: 2, Fanouts: fanouts, BatchSize: 9}
		want := expect.Must(Train(t.Context(), wide, opt))(t)
		got, err := Train(t.Context(), narrow, opt)
		expect.That(t, err == nil && got.Loss == want.Loss, "fan-outs %v: a loss of %v, and %v of float32 (%v)",
			fanouts, got, want, err)
	}
}

func bitsOf(v float32) uint32 { return math.Float32bits(v) }

func floatOf(b uint32) float32 { return math.Float32frombits(b) }

// withFeatures returns the same graph with other features.
func withFeatures(t *testing.T, g *graph.Graph, features unified.Tensor, width int64) *graph.Graph {
	t.Helper()
	nodes := g.NumNodes()
	x := expect.Must(features.Reshape(nodes, width))(t)
	labels, _ := g.NodeColumn(0, "label")
	a := expect.Must(sparse.Whole(g))(t)
	var src, dst []int64
	indices, _ := unified.View[int32](g.Indices())
	for v := range nodes {
		for e := g.Indptr()[v]; e < g.Indptr()[v+1]; e++ {
			src, dst = append(src, int64(indices[e])), append(dst, v)
		}
	}
	expect.Ensure(t, int64(len(src)) == a.Edges(), "%d edges of %d", len(src), a.Edges())
	data := graph.Data{Nodes: []graph.NodeData{{Columns: map[string]unified.Tensor{"feature": x, "label": labels}}},
		Edges: []graph.EdgeData{{Src: src, Dst: dst}}}
	for _, name := range []string{"train", "val", "test"} {
		s := expect.Must(g.Split(name, 0))(t)
		data.Splits = append(data.Splits, graph.Split{Name: name, Seeds: s})
	}
	return graphs.New(t, data)
}
