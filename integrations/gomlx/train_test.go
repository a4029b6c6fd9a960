package gomlx_test

import (
	"math"
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

func scalar(t testing.TB, x *tensors.Tensor) float64 {
	t.Helper()
	v, ok := x.Value().(float32)
	if !ok {
		t.Fatalf("%v is not float32", x.Shape())
	}
	return float64(v)
}

func TestGraphSAGELearnsAGeneratedGraphThatALinearModelCannot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sbm.khop")
	opt := synthetic.Options{Nodes: 2000, Edges: 20000, Features: 16, Classes: 4, Seed: 1}
	expect.Must(synthetic.Generate(background, synthetic.SBM, path, opt))(t)
	ds := expect.Must(formats.Open(path))(t)
	defer ds.Close()
	open := func(opt loader.Options, of gomlx.Options) *gomlx.Dataset {
		opt.Sampler, opt.Seed = sampling.Neighbor{Fanouts: []int{5, 5}}, 7
		return openDataset(t, openLoader(t, ds, opt), of)
	}
	for name, model := range map[string]train.ModelFn{"GraphSAGE": sage(16, 4, 0.5), "a linear model": linear(4)} {
		trainer := newTrainer(model)
		training := open(loader.Options{BatchSize: 64, Shuffle: true}, gomlx.Options{After: gomlx.Endless})
		expect.Must(train.NewLoop(trainer).RunSteps(training, 200))(t)
		training.Close()
		results := expect.Must(trainer.Eval(open(loader.Options{BatchSize: 50, Seeds: loader.Split("val"), Instance: 1},
			gomlx.Options{After: gomlx.SameEpoch})))(t)
		got := scalar(t, results[len(results)-1])
		expect.That(t, (got > 0.92) == (name == "GraphSAGE"), "%s: validation accuracy %.3f", name, got)
	}
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
			y := expect.Must(next(ds))(t)
			results := expect.Must(trainer.TrainStep(y.spec, y.inputs, y.labels))(t)
			all = append(all, scalar(t, results[0]))
			rows = y.inputs[0].Shape().Dimensions[0]
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
