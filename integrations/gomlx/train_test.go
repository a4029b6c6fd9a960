package gomlx_test

import (
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gomlx/gomlx/backends"
	"github.com/gomlx/gomlx/backends/simplego"
	ml "github.com/gomlx/gomlx/pkg/core/graph"
	"github.com/gomlx/gomlx/pkg/core/tensors"
	mlctx "github.com/gomlx/gomlx/pkg/ml/context"
	"github.com/gomlx/gomlx/pkg/ml/layers"
	"github.com/gomlx/gomlx/pkg/ml/train"
	"github.com/gomlx/gomlx/pkg/ml/train/losses"
	"github.com/gomlx/gomlx/pkg/ml/train/metrics"
	"github.com/gomlx/gomlx/pkg/ml/train/optimizers"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/convert"
	"github.com/khop-gnn/khop/formats/synthetic"
	"github.com/khop-gnn/khop/integrations/gomlx"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"

	"github.com/khop-gnn/khop/internal/expect"
)

// sage is GraphSAGE with mean aggregation: a hidden layer for each layer but the last, and logits.
func sage(hidden, classes int, dropout float64) train.ModelFn {
	return func(ctx *mlctx.Context, spec any, inputs []*ml.Node) []*ml.Node {
		b := gomlx.Unpack(spec, inputs)
		h := b.X()
		for i, layer := range b.Layers {
			width := hidden
			if i == len(b.Layers)-1 {
				width = classes
			}
			ctx := ctx.Inf("layer%d", i)
			mean := layer.Mean(layer.Messages(h))
			h = ml.Add(
				layers.Dense(ctx.In("self"), layer.Destinations(h), true, width),
				layers.Dense(ctx.In("neighbours"), mean, false, width))
			if i < len(b.Layers)-1 {
				h = layers.DropoutStatic(ctx, ml.MaxScalar(h, 0), dropout)
			}
		}
		return []*ml.Node{h}
	}
}

// linear sees the seeds' features and no edge.
func linear(classes int) train.ModelFn {
	return func(ctx *mlctx.Context, spec any, inputs []*ml.Node) []*ml.Node {
		b := gomlx.Unpack(spec, inputs)
		h := b.X()
		for _, layer := range b.Layers {
			h = layer.Destinations(h)
		}
		return []*ml.Node{layers.Dense(ctx, h, true, classes)}
	}
}

// backend is the Go backend. It executes operations one by one, because the race detector objects to GoMLX's other way.
var backend = sync.OnceValue(func() backends.Backend {
	b, err := simplego.New("ops_sequential")
	if err != nil {
		panic(err)
	}
	return b
})

func newTrainer(model train.ModelFn) *train.Trainer {
	ctx := mlctx.New()
	ctx.SetParam(mlctx.ParamInitialSeed, int64(42))
	return train.NewTrainer(backend(), ctx, model, losses.SparseCategoricalCrossEntropyLogits,
		optimizers.Adam().LearningRate(0.01).Done(), nil,
		[]metrics.Interface{metrics.NewSparseCategoricalAccuracy("accuracy", "acc")})
}

// accuracy trains a model and returns its accuracy on a validation set.
func accuracy(t *testing.T, model train.ModelFn, training, validation *gomlx.Dataset, steps int) float64 {
	t.Helper()
	trainer := newTrainer(model)
	if _, err := train.NewLoop(trainer).RunSteps(training, steps); err != nil {
		t.Fatal(err)
	}
	results, err := trainer.Eval(validation)
	expect.OK(t, err)
	return scalar(t, results[len(results)-1])
}

func scalar(t testing.TB, x *tensors.Tensor) float64 {
	t.Helper()
	v, ok := x.Value().(float32)
	if !ok {
		t.Fatalf("%v is not float32", x.Shape())
	}
	return float64(v)
}

// learn trains GraphSAGE and a linear model in the same way, and wants the one above the floor and the other below.
func learn(t *testing.T, src loader.Source, training, validation loader.Options, classes, steps int, floor float64) {
	t.Helper()
	for name, model := range map[string]train.ModelFn{"GraphSAGE": sage(16, classes, 0.5),
		"a linear model": linear(classes)} {
		a := openDataset(t, openLoader(t, src, training), gomlx.Options{Name: "training", After: gomlx.Endless})
		b := openDataset(t, openLoader(t, src, validation), gomlx.Options{Name: "validation", After: gomlx.SameEpoch})
		got := accuracy(t, model, a, b, steps)
		t.Logf("%s: validation accuracy %.3f after %d steps", name, got, steps)
		expect.That(t, (got > floor) == (name == "GraphSAGE"),
			"%s: validation accuracy %.3f, and the floor is %.2f (loader seed %d, model seed 42)", name, got, floor,
			training.Seed)
		a.Close()
		b.Close()
	}
}

func TestGraphSAGELearnsAGeneratedGraphThatALinearModelCannot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sbm.khop")
	opt := synthetic.Options{Nodes: 2000, Edges: 20000, Features: 16, Classes: 4, Seed: 1}
	if _, err := synthetic.Generate(background, synthetic.SBM, path, opt); err != nil {
		t.Fatal(err)
	}
	ds, err := formats.Open(path)
	expect.OK(t, err)
	defer ds.Close()
	s := sampling.Neighbor{Fanouts: []int{5, 5}}
	learn(t, ds,
		loader.Options{Sampler: s, BatchSize: 64, Shuffle: true, Seed: 7},
		loader.Options{Sampler: s, BatchSize: 50, Seeds: loader.Split("val"), Seed: 7, Instance: 1},
		4, 200, 0.92)
}

func TestGraphSAGELearnsCoraThatALinearModelCannot(t *testing.T) {
	data := os.Getenv("KHOP_TESTDATA")
	if data == "" {
		t.Skip("KHOP_TESTDATA is not set")
	}
	path := filepath.Join(t.TempDir(), "cora_ml.khop")
	from := filepath.Join(data, "citation-csr-npz", "cora_ml.npz")
	if _, err := convert.Run(background, from, path, convert.Options{Direction: convert.Symmetrise}); err != nil {
		t.Fatal(err)
	}
	ds, err := formats.Open(path)
	expect.OK(t, err)
	defer ds.Close()
	training, validation := splitByRemainder(ds.Graph().Schema().Nodes[0].Count)
	s := sampling.Neighbor{Fanouts: []int{5, 3}}
	learn(t, ds,
		loader.Options{Sampler: s, Seeds: loader.NodeIDs(training), BatchSize: 20, Shuffle: true, Seed: 7},
		loader.Options{Sampler: s, Seeds: loader.NodeIDs(validation), BatchSize: 100, Seed: 7, Instance: 1},
		7, 100, 0.73)
}

// splitByRemainder takes one node in 20 for training, and 400 others for validation.
func splitByRemainder(n int64) (training, validation []int64) {
	for v := range n {
		switch {
		case v%20 == 0:
			training = append(training, v)
		case v%4 == 1 && len(validation) < 400:
			validation = append(validation, v)
		}
	}
	return training, validation
}

// squaredError is the mean over the seeds of the squared error of labels divided by 1000.
func squaredError(labels, predictions []*ml.Node) *ml.Node {
	want := ml.DivScalar(ml.ConvertDType(labels[0], predictions[0].DType()), 1000)
	return losses.MeanSquaredError([]*ml.Node{ml.Squeeze(want, -1), labels[1]},
		[]*ml.Node{ml.Squeeze(predictions[0], -1)})
}

func TestPaddingChangesNoLossAndNoGradient(t *testing.T) {
	g := smallGraph(t, 300)
	ld := openLoader(t, g, loader.Options{Sampler: neighbor, Seeds: loader.NodeIDs([]int32{3, 1, 4, 15, 9, 26, 5, 35, 8,
		97}), BatchSize: 10})
	lossesWith := func(pad gomlx.Pad) (all []float64, rows int) {
		ds := openDataset(t, ld, gomlx.Options{Pad: pad, After: gomlx.SameEpoch})
		defer ds.Close()
		ctx := mlctx.New()
		ctx.SetParam(mlctx.ParamInitialSeed, int64(42))
		trainer := train.NewTrainer(backend(), ctx, sage(8, 1, 0), squaredError,
			optimizers.Adam().LearningRate(0.01).Done(), nil, nil)
		for range 5 { // from the second on, a loss shows the gradients of those before
			spec, inputs, labels, err := ds.Yield()
			expect.OK(t, err)
			results, err := trainer.TrainStep(spec, inputs, labels)
			expect.OK(t, err)
			all = append(all, scalar(t, results[0]))
			rows = inputs[0].Shape().Dimensions[0]
			ds.Reset()
		}
		return all, rows
	}
	want, few := lossesWith(gomlx.PowerOfTwo)
	got, many := lossesWith(gomlx.Maximum)
	expect.Ensure(t, few != many, "both have %d rows", few)
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= 1e-5*want[i]) {
			t.Fatalf("losses %v with %d rows, %v with %d", got, many, want, few)
		}
	}
	expect.That(t, want[4] != want[0], "losses %v: nothing was learned", want)
}
