package main

import (
	"fmt"
	"time"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/integrations/gnn"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/sparse"
)

type trainCmd struct {
	Dataset string `arg:"" help:"Dataset: a directory that khop has written."`

	Model        string   `enum:"sage,gcn,gin,gat" default:"sage" help:"sage, gcn, gin or gat."`
	Epochs       positive `default:"100" help:"Epochs to train, those of the checkpoint among them."`
	Layers       positive `default:"2" help:"Layers of the model."`
	Hidden       int      `default:"0" placeholder:"N" help:"Width of hidden layers, for gat of a head; 0: 16, gat 8."`
	Heads        positive `default:"8" help:"Heads of hidden layers of gat."`
	Dropout      float32  `default:"0.5" help:"Chance that an element is dropped in training."`
	Rate         float64  `default:"0.01" help:"Learning rate of Adam."`
	Decay        float64  `default:"0.0005" help:"Weight decay, added to the gradient."`
	RowNormalise bool     `help:"Divide each node's features by their sum."`
	Fanouts      *fanouts `placeholder:"N,..." help:"Train on batches with these fan-outs, one a layer."`
	BatchSize    positive `default:"1024" help:"Seeds a batch."`
	Seed         uint64   `default:"0" help:"Keys every random choice."`
	Workers      int      `default:"0" placeholder:"N" help:"Goroutines; 0: one a core. They change no result."`
	Checkpoint   string   `type:"path" placeholder:"FILE" help:"Go on from this file, if it is there, and write it."`
	JSON         bool     `name:"json" xor:"output" help:"Print one JSON object."`
	JSONL        bool     `name:"jsonl" xor:"output" help:"Print a JSON object an epoch, then the result."`
}

// trainResult is what "khop train --json" prints. Scripts rely on the names.
type trainResult struct {
	Dataset string `json:"dataset"`
	*gnn.Result
}

// Run trains.
func (c *trainCmd) Run(env *environment) (err error) {
	ds, err := formats.Open(c.Dataset)
	if err != nil {
		return err
	}
	defer closing(&err, ds.Close)
	opt := gnn.Options{Model: c.Model, Epochs: int(c.Epochs), Layers: int(c.Layers), Hidden: c.Hidden,
		Heads: int(c.Heads), Dropout: c.Dropout, Rate: c.Rate, Decay: c.Decay, RowNormalise: c.RowNormalise,
		BatchSize: int(c.BatchSize), Seed: c.Seed, Workers: c.Workers, Checkpoint: c.Checkpoint}
	if c.Fanouts != nil {
		if opt.Fanouts = c.Fanouts.all; opt.Fanouts == nil {
			return usageError("--fanouts: a model of one edge type takes fan-outs alone, such as 15,10")
		}
	}
	if path, err := sparse.TuningPath(); err == nil { // without a home there are no choices
		if opt.Tuning, _, err = env.tuning(path); err != nil {
			return err
		}
	}
	shown, first := time.Time{}, time.Now()
	opt.Report = func(e gnn.Epoch) {
		switch {
		case c.JSONL:
			err = env.printJSONLine(e)
		case env.terminal && time.Since(shown) > progressInterval:
			shown = time.Now()
			left := time.Since(first) / time.Duration(e.Epoch) * time.Duration(opt.Epochs-e.Epoch)
			fmt.Fprintf(env.stderr, "\repoch %d of %d: loss %.4f, accuracy %.4f (validation %.4f), %.1f batches/s, "+
				"%s left ", e.Epoch, opt.Epochs, e.Loss, e.Train, e.Val, e.BatchesS, durationText(left))
		}
	}
	result, trainErr := gnn.Train(env.ctx, ds, opt)
	if !shown.IsZero() {
		fmt.Fprint(env.stderr, "\r\x1b[K")
	}
	if trainErr != nil || err != nil {
		if trainErr != nil {
			return trainErr
		}
		return err
	}
	r := trainResult{paths.Text(c.Dataset), result}
	switch {
	case c.JSON:
		return env.printJSON(r)
	case c.JSONL:
		return env.printJSONLine(r)
	}
	fmt.Fprintf(env.stdout, "%s: %s, %d epochs in %s: test accuracy %.4f, validation %.4f (epoch %d), loss %.4f\n",
		r.Dataset, r.Model, r.Epochs, durationText(time.Duration(r.Seconds*float64(time.Second))), r.Test, r.Val,
		r.Best, r.Loss)
	return nil
}
