package gnn

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

func TestMain(m *testing.M) { expect.NoGoroutines(m) }

// models are the names of the models that there are.
var models = option.Of(Options{})[0].Choices

// communities returns a graph whose nodes know little of their class and have most edges within it, with splits.
func communities(t testing.TB, nodes int, mostlyZero bool) *graph.Graph {
	t.Helper()
	return crowded(t, nodes, 10, mostlyZero)
}

// crowded is communities with another mean degree.
func crowded(t testing.TB, nodes, degree int, mostlyZero bool) *graph.Graph {
	t.Helper()
	const classes, width = 4, 40
	r := rand.New(rand.NewPCG(1, 2))
	var src, dst []int64
	for range degree / 2 * nodes {
		i, j := r.IntN(nodes), r.IntN(nodes)
		if r.IntN(10) < 8 {
			j = (j/classes*classes + i%classes) % nodes
		}
		src, dst = append(src, int64(i), int64(j)), append(dst, int64(j), int64(i))
	}
	x, labels := make([]float32, nodes*width), make([]int64, nodes)
	splits := make([][]int64, 3)
	for i := range nodes {
		labels[i] = int64(i % classes)
		splits[i%3] = append(splits[i%3], int64(i))
		for k := range width {
			switch {
			case mostlyZero && r.IntN(30) == 0, mostlyZero && k%classes == i%classes && r.IntN(12) == 0:
				x[i*width+k] = 1
			case !mostlyZero:
				x[i*width+k] = float32(r.NormFloat64())
				if k == i%classes {
					x[i*width+k] += 1
				}
			}
		}
	}
	feature := expect.Must(unified.FromSlice(x).Reshape(int64(nodes), width))(t)
	data := graph.Data{Nodes: []graph.NodeData{{Columns: map[string]unified.Tensor{"feature": feature,
		"label": unified.FromSlice(labels)}}}, Edges: []graph.EdgeData{{Src: src, Dst: dst}}}
	for i, name := range []string{"train", "val", "test"} {
		data.Splits = append(data.Splits, graph.Split{Name: name, Seeds: graph.NodeIDs(splits[i])})
	}
	return graphs.New(t, data)
}

func TestEveryModelLearns(t *testing.T) {
	for _, mostlyZero := range []bool{false, true} {
		g := communities(t, 180, mostlyZero)
		for _, model := range models {
			for _, fanouts := range [][]int{nil, {8, 8}} {
				if fanouts != nil && (mostlyZero || model == "gin" || model == "gcn") {
					continue
				}
				r := expect.Must(Train(context.Background(), g, Options{Model: model, Epochs: 20, Fanouts: fanouts,
					BatchSize: 50, Rate: 0.02, Dropout: 0.2, Seed: 3, RowNormalise: mostlyZero}))(t)
				expect.That(t, r.Test >= 0.7 && r.Epochs == 20 && (r.Features == "sparse") == mostlyZero,
					"%s, mostly zero %v, fan-outs %v: %+v", model, mostlyZero, fanouts, r)
			}
		}
	}
}

// TestGradientsOfEveryModel compares the gradients of all parameters with differences of the loss.
func TestGradientsOfEveryModel(t *testing.T) {
	d := expect.Must(read(communities(t, 24, true), Options{}, &budget{}))(t)
	pool := sparse.Open(sparse.Options{Workers: 1})
	defer pool.Close()
	for _, model := range models {
		for _, in := range []modelInput{{Dense: d.input().Dense}, d.input()} {
			opt := Options{Model: model, Hidden: 5, Heads: 2, Seed: 1}.withDefaults()
			m := expect.Must(newNetwork(d.features, d.classes, opt, &budget{}))(t)
			for _, p := range m.params { // away from 0, where relu has no gradient
				for i := range p.Data {
					p.Data[i] += 0.1 * float32(1+i%3)
				}
			}
			tape, tr := newAutodiff(pool), trainer{model: m}
			a := expect.Must(tr.prepared(d.whole))(t)
			loss := func() float64 {
				tape.Reset()
				scores := m.Forward(tape, []*sparse.Matrix{a, a}, in)
				loss, _ := tape.CrossEntropy(scores, d.splits[0].rows, d.splits[0].labels)
				return loss
			}
			loss()
			expect.OK(t, tape.Backward())
			for _, p := range m.params {
				for i := 0; i < len(p.Data); i += 1 + len(p.Data)/7 {
					const step = 5e-4
					have := p.Data[i]
					p.Data[i] = have + step
					up := loss()
					p.Data[i] = have - step
					want := (up - loss()) / (2 * step)
					p.Data[i] = have
					if got := float64(p.Grad[i]); math.Abs(got-want) > 1e-2+0.03*math.Abs(want) {
						t.Errorf("%s, sparse %v: %s[%d]: the gradient is %g, differences say %g", model,
							in.Sparse != nil, p.Name, i, got, want)
					}
				}
				clear(p.Grad)
			}
		}
	}
}

func TestTrainingIsTheSameWithAnyWorkersAndAfterAStop(t *testing.T) {
	g := communities(t, 120, true)
	for _, fanouts := range [][]int{nil, {4, 3}} {
		train := func(name string, workers int, epochs ...int) []byte {
			path := filepath.Join(t.TempDir(), name)
			for _, n := range epochs {
				opt := Options{Model: "gat", Epochs: n, Dropout: 0.4, Seed: 9, Hidden: 3, Heads: 2, Workers: workers,
					Fanouts: fanouts, BatchSize: 16, Checkpoint: path}
				expect.Must(Train(context.Background(), g, opt))(t)
			}
			return expect.Must(os.ReadFile(path))(t)
		}
		whole := train("whole", 1, 6)
		expect.That(t, bytes.Equal(whole, train("stopped", 1, 2, 6)),
			"fan-outs %v: training that was stopped gives other bytes", fanouts)
		expect.That(t, bytes.Equal(whole, train("workers", 3, 6)),
			"fan-outs %v: three workers give other bytes than one", fanouts)
	}
}

func TestCheckpointsOfOthersAreRefused(t *testing.T) {
	g, path := communities(t, 30, false), filepath.Join(t.TempDir(), "checkpoint")
	opt := Options{Model: "sage", Epochs: 1, Checkpoint: path}
	train := func(o Options) error { _, err := Train(context.Background(), g, o); return err }
	expect.OK(t, train(opt))
	other := opt
	other.Seed = 1
	expect.Is(t, train(other), ErrCheckpoint, "another seed")
	text := expect.Must(os.ReadFile(path))(t)
	changed := bytes.Clone(text)
	changed[len(text)/2] ^= 1
	for what, damaged := range map[string][]byte{"empty": {}, "cut": text[:len(text)-1], "changed": changed,
		"foreign": []byte("{}\nabcdefghijklmnopq")} {
		expect.OK(t, os.WriteFile(path, damaged, 0o600))
		expect.Is(t, train(opt), ErrCheckpoint, what)
	}
}

func TestTrainRefusesWhatItCannotTrain(t *testing.T) {
	g := communities(t, 30, false)
	feature, _ := unified.FromSlice([]float32{1, 2, 3}).Reshape(3, 1)
	columns := map[string]unified.Tensor{"feature": feature, "label": unified.FromSlice([]int64{0, 1, 0})}
	bare, err := graph.New(graph.Data{Nodes: []graph.NodeData{{Count: 3}}})
	unsplit, err2 := graph.New(graph.Data{Nodes: []graph.NodeData{{Columns: columns}}, Edges: []graph.EdgeData{{}}})
	expect.OK(t, errors.Join(err, err2))
	for what, c := range map[string]struct {
		g   *graph.Graph
		opt Options
	}{"model": {g, Options{Model: "rnn"}}, "fan-outs": {g, Options{Model: "gcn", Fanouts: []int{3}}},
		"features": {bare, Options{Model: "gcn"}}, "splits": {unsplit, Options{Model: "gcn"}},
		"dropout":          {g, Options{Model: "gcn", Dropout: 1}},
		"a dropout of NaN": {g, Options{Model: "gcn", Dropout: float32(math.NaN())}},
		"rate":             {g, Options{Model: "gcn", Rate: math.NaN()}},
		"decay":            {g, Options{Model: "gcn", Decay: -1}}} {
		expect.Is(t, expect.Err(Train(context.Background(), c.g, c.opt)), ErrOptions, what)
	}
}

// TestTrainingThatDivergesSaysSo: a loss that is not a number has no place in a checkpoint, nor in JSON.
func TestTrainingThatDivergesSaysSo(t *testing.T) {
	opt := Options{Model: "gcn", Epochs: 5, Rate: 1e30, Checkpoint: filepath.Join(t.TempDir(), "checkpoint")}
	opt.Report = func(e Epoch) {
		expect.That(t, !math.IsNaN(e.Loss) && !math.IsInf(e.Loss, 0), "epoch %d has a loss of %v", e.Epoch, e.Loss)
	}
	_, err := Train(context.Background(), communities(t, 30, false), opt)
	expect.That(t, err != nil && strings.Contains(err.Error(), "lower the learning rate"),
		"a learning rate of 1e30: %v", err)
	g := communities(t, 30, false)
	column, _ := g.NodeColumn(0, "feature")
	x := expect.Must(unified.View[float32](column))(t)
	x[3] = float32(math.NaN())
	for _, fanouts := range [][]int{nil, {2, 2}} {
		for _, model := range models {
			_, err := Train(t.Context(), g, Options{Model: model, Epochs: 3, Fanouts: fanouts})
			expect.That(t, err != nil && strings.Contains(err.Error(), "features are finite"),
				"%s, fan-outs %v: a feature is NaN: %v", model, fanouts, err)
		}
	}
}

// TestNodesWithoutEdgesAreTrained, with more workers than rows and classes of one node.
func TestNodesWithoutEdgesAreTrained(t *testing.T) {
	feature := expect.Must(unified.FromSlice([]float32{1, 0, 0, 1, 1, 1, 0, 0}).Reshape(4, 2))(t)
	g, err := graph.New(graph.Data{Nodes: []graph.NodeData{{Columns: map[string]unified.Tensor{"feature": feature,
		"label": unified.FromSlice([]int64{0, 1, 0, 2})}}}, Edges: []graph.EdgeData{{Src: []int64{0}, Dst: []int64{1}}},
		Splits: []graph.Split{{Name: "train", Seeds: graph.NodeIDs([]int64{3, 0, 3, 1})},
			{Name: "val", Seeds: graph.NodeIDs([]int64{2})}, {Name: "test", Seeds: graph.NodeIDs([]int64{})}}})
	expect.OK(t, err)
	for _, model := range models {
		for _, fanouts := range [][]int{nil, {2, 2}} {
			r, err := Train(t.Context(), g, Options{Model: model, Epochs: 3, Workers: 16, Fanouts: fanouts, Hidden: 1,
				Heads: 1, Dropout: 0.5})
			expect.That(t, err == nil && r.Loss > 0 && r.Test == 0, "%s, fan-outs %v: %+v, %v", model, fanouts, r, err)
		}
	}
}

func TestCrossEntropyOfRowsThatRepeat(t *testing.T) {
	pool := sparse.Open(sparse.Options{Workers: 3})
	defer pool.Close()
	tape := newAutodiff(pool)
	x := &variable{Rows: 3, Cols: 2, Data: []float32{1, 1, 0, 2, 5, 5}, Grad: make([]float32, 6)}
	loss, right := tape.CrossEntropy(x, []int64{1, 0, 1, 1}, []int64{1, 0, 1, 0})
	low := math.Log1p(math.Exp(-2))
	if want := (2*low + math.Ln2 + low + 2) / 4; math.Abs(loss-want) > 1e-6 || right != 3 {
		t.Errorf("the loss is %g, not %g; %d are right, not 3", loss, want, right)
	}
	share := 1 / (1 + math.Exp(2)) // of the first class in row 1
	for i, want := range []float64{-.125, .125, (3*share - 1) / 4, (1 - 3*share) / 4, 0, 0} {
		expect.That(t, math.Abs(float64(x.Grad[i])-want) <= 1e-6, "gradient %d is %g, not %g", i, x.Grad[i], want)
	}
	tape.CrossEntropy(x, []int64{2}, []int64{2})
	if err := tape.Err(); err == nil || !strings.Contains(err.Error(), "label 2 is not below 2 classes") {
		t.Errorf("a label out of range: %v", err)
	}
}
