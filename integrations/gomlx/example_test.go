package gomlx_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/gomlx/gomlx/backends/simplego"
	ml "github.com/gomlx/gomlx/pkg/core/graph"
	mlctx "github.com/gomlx/gomlx/pkg/ml/context"
	"github.com/gomlx/gomlx/pkg/ml/layers"
	"github.com/gomlx/gomlx/pkg/ml/layers/activations"
	"github.com/gomlx/gomlx/pkg/ml/train"
	"github.com/gomlx/gomlx/pkg/ml/train/losses"
	"github.com/gomlx/gomlx/pkg/ml/train/metrics"
	"github.com/gomlx/gomlx/pkg/ml/train/optimizers"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/synthetic"
	"github.com/khop-gnn/khop/integrations/gomlx"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

// model is GraphSAGE with mean aggregation: 16 hidden units, then the logits of 4 classes.
func model(ctx *mlctx.Context, spec any, inputs []*ml.Node) []*ml.Node {
	b := gomlx.Unpack(spec, inputs)
	h := b.X()
	for i, layer := range b.Layers {
		ctx, width := ctx.Inf("layer%d", i), []int{16, 4}[i]
		mean := layer.Mean(layer.Messages(h)) // over the sampled in-neighbours of each destination
		self := layer.Destinations(h)
		h = ml.Add(layers.Dense(ctx.In("self"), self, true, width), layers.Dense(ctx.In("mean"), mean, false, width))
		if i == 0 {
			h = activations.Relu(h)
		}
	}
	return []*ml.Node{h} // a row a seed
}

// dataset opens what feeds one split.
func dataset(ctx context.Context, graph *formats.Dataset, split string, instance uint32, after gomlx.After) (
	ds *gomlx.Dataset, closeAll func(), err error) {
	ld, err := loader.New(graph, loader.Options{
		Sampler:   sampling.Neighbor{Fanouts: []int{5, 5}},
		Seeds:     loader.Split(split),
		BatchSize: 64, Shuffle: true, Seed: 42, Instance: instance,
	})
	if err != nil {
		return nil, nil, err
	}
	ds, err = gomlx.New(ctx, ld, gomlx.Options{Name: split, After: after})
	if err != nil {
		ld.Close()
		return nil, nil, err
	}
	return ds, func() { ds.Close(); ld.Close() }, nil
}

// run trains for some epochs and returns the accuracy on the validation split.
func run(ctx context.Context, graph *formats.Dataset, epochs int) (accuracy float32, err error) {
	training, closeTraining, err := dataset(ctx, graph, "train", 0, gomlx.NextEpoch)
	if err != nil {
		return 0, err
	}
	defer closeTraining()
	validation, closeValidation, err := dataset(ctx, graph, "val", 1, gomlx.SameEpoch)
	if err != nil {
		return 0, err
	}
	defer closeValidation()

	backend, err := simplego.New("ops_sequential")
	if err != nil {
		return 0, err
	}
	defer backend.Finalize()
	params := mlctx.New()
	params.SetParam(mlctx.ParamInitialSeed, int64(1))
	trainer := train.NewTrainer(backend, params, model, losses.SparseCategoricalCrossEntropyLogits,
		optimizers.Adam().LearningRate(0.01).Done(), nil,
		[]metrics.Interface{metrics.NewSparseCategoricalAccuracy("accuracy", "acc")})
	if _, err := train.NewLoop(trainer).RunEpochs(training, epochs); err != nil {
		return 0, err
	}
	results, err := trainer.Eval(validation)
	if err != nil {
		return 0, err
	}
	return results[len(results)-1].Value().(float32), nil
}

func Example() {
	dir, err := os.MkdirTemp("", "khop-gomlx-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, path := context.Background(), filepath.Join(dir, "communities.khop")
	opt := synthetic.Options{Nodes: 4000, Edges: 40_000, Features: 16, Classes: 4, Seed: 1}
	if _, err := synthetic.Generate(ctx, synthetic.SBM, path, opt); err != nil {
		log.Fatal(err)
	}
	graph, err := formats.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer graph.Close()
	accuracy, err := run(ctx, graph, 5)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("more than nine in ten right:", accuracy > 0.9)
	// Output: more than nine in ten right: true
}
