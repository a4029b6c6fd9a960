package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/integrations/gnn"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/sparse"
)

type trainCmd struct {
	Dataset string `arg:"" help:"Dataset: a directory that khop has written."`

	Model        string        `enum:"sage,gcn,gin,gat" default:"sage" help:"sage, gcn, gin or gat."`
	Epochs       positive      `default:"100" help:"Epochs to train, including those of the checkpoint."`
	Layers       positive      `default:"2" help:"Layers of the model."`
	Hidden       int           `default:"0" placeholder:"N" help:"Width of hidden layers, or heads; 0: 16, gat 8."`
	Heads        positive      `default:"8" help:"Heads of hidden layers of gat."`
	Dropout      float32       `default:"0.5" help:"Chance that an element is dropped in training."`
	Rate         float64       `default:"0.01" help:"Learning rate of Adam."`
	Decay        float64       `default:"0.0005" help:"Weight decay, added to the gradient."`
	RowNormalise bool          `help:"Divide each node's features by their sum."`
	Fanouts      *fanouts      `placeholder:"N,..." help:"Train on batches: fan-outs, one a layer."`
	BatchSize    positive      `default:"1024" help:"Seeds a batch."`
	Budget       float64       `name:"backward-budget" default:"0" help:"Share of gradient work to do; 0: all."`
	Fastest      bool          `help:"Compute each layer in the way that is fastest here."`
	Explain      bool          `help:"Print ways to compute each layer, and their times; train nothing."`
	Seed         uint64        `default:"0" help:"Keys every random choice."`
	Workers      int           `default:"0" placeholder:"N" help:"Goroutines; 0: one a core. They change no result."`
	MaxMemory    byteSize      `placeholder:"SIZE" help:"The most memory to take, such as 4GB, without mapped files."`
	Checkpoint   string        `type:"path" placeholder:"FILE" help:"Continue from this file if it exists; write it."`
	SaveEvery    time.Duration `default:"1m" help:"Write the checkpoint at least so often while training."`
	Plot         string        `type:"path" placeholder:"FILE" help:"Draw the learning curves, as SVG."`
	JSON         bool          `name:"json" xor:"output" help:"Print one JSON object."`
	JSONL        bool          `name:"jsonl" xor:"output" help:"Print a JSON object an epoch, then the result."`
}

// trainResult is what "khop train --json" prints. Scripts rely on the names.
type trainResult struct {
	Dataset string `json:"dataset"`
	*gnn.Result
}

// Run trains.
func (c *trainCmd) Run(env *environment) (err error) {
	opt, choices, err := c.options(env)
	if err != nil {
		return err
	}
	if (c.Fastest || c.Explain) && opt.Tuning != nil {
		defer func() {
			if saved := opt.Tuning.Save(choices); saved != nil && err == nil {
				env.note("choices of ways are not kept: %v", saved)
			}
		}()
	}
	ds, err := formats.Open(c.Dataset)
	if err != nil {
		return err
	}
	defer closing(&err, ds.Close)
	if c.Explain {
		return c.explain(env, ds, opt)
	}
	line := &trainLine{env: env, epochs: opt.Epochs, began: time.Now()}
	opt.Progress = line.step
	var printErr error
	opt.Report = func(e gnn.Epoch) {
		line.last = &e
		if c.JSONL && printErr == nil {
			printErr = env.printJSONLine(e)
		}
	}
	result, err := gnn.Train(env.ctx, ds, opt)
	line.end()
	if result != nil && c.Plot != "" && len(result.Curve) > 0 { // also of training that was interrupted
		title := fmt.Sprintf("%s: %s", paths.Text(c.Dataset), c.Model)
		err = errors.Join(err, learningCurves(title, result.Curve).Save(c.Plot))
	}
	if env.ctx.Err() != nil && result != nil && c.Checkpoint != "" {
		env.note("stopped after %d of %d epochs; %s has all steps so far, and the same command goes on from there",
			result.Epochs, opt.Epochs, paths.Text(c.Checkpoint))
	}
	if err = errors.Join(err, printErr); err != nil {
		return err
	}
	return c.print(env, trainResult{paths.Text(c.Dataset), result})
}

// explainResult is what "khop train --explain --json" prints. Scripts rely on the names.
type explainResult struct {
	Dataset      string            `json:"dataset"`
	Model        string            `json:"model"`
	Compositions []gnn.Composition `json:"compositions"`
}

func (c *trainCmd) explain(env *environment, ds *formats.Dataset, opt gnn.Options) error {
	all, err := gnn.Explain(env.ctx, ds, opt)
	if err != nil {
		return err
	}
	if c.JSON || c.JSONL {
		return env.printJSON(explainResult{paths.Text(c.Dataset), c.Model, all})
	}
	t := newTable(env.stdout)
	t.row("layer", "columns", "product", "predicted", "measured", "regret", "")
	for _, w := range all {
		mark := map[bool]string{true: "usual"}[w.Usual]
		if w.Fastest {
			mark = strings.TrimPrefix(mark+", chosen", ", ")
		}
		second := float64(time.Second)
		t.row(w.Layer, fmt.Sprintf("%d to %d", w.Inputs, w.Outputs), w.Product,
			durationText(time.Duration(w.Predicted*second)), durationText(time.Duration(w.Measured*second)),
			fmt.Sprintf("%.0f %%", 100*w.Regret), mark)
	}
	return t.flush()
}

func (c *trainCmd) print(env *environment, r trainResult) error {
	switch {
	case c.JSON:
		return env.printJSON(r)
	case c.JSONL:
		return env.printJSONLine(r)
	}
	_, err := fmt.Fprintf(env.stdout, "%s: %s\n", r.Dataset, trainedText(r.Result))
	return err
}

// trainedText says what training came to.
func trainedText(r *gnn.Result) string {
	return fmt.Sprintf("%s, %d epochs in %s: test accuracy %.4f, validation %.4f (epoch %d), loss %.4f", r.Model,
		r.Epochs, durationText(time.Duration(r.Seconds*float64(time.Second))), r.Test, r.Val, r.Best, r.Loss)
}

// options returns those of training, and the file of opt.Tuning.
func (c *trainCmd) options(env *environment) (opt gnn.Options, choices string, err error) {
	opt = gnn.Options{Model: c.Model, Epochs: int(c.Epochs), Layers: int(c.Layers), Hidden: c.Hidden,
		Heads: int(c.Heads), Dropout: c.Dropout, Rate: c.Rate, Decay: c.Decay, RowNormalise: c.RowNormalise,
		BatchSize: int(c.BatchSize), Seed: c.Seed, Workers: c.Workers, Checkpoint: c.Checkpoint,
		CheckpointEvery: c.SaveEvery, BackwardBudget: c.Budget, Fastest: c.Fastest}
	if c.Fanouts != nil {
		if opt.Fanouts = c.Fanouts.all; opt.Fanouts == nil {
			return opt, "", usageError("--fanouts: a model of one edge type takes fan-outs alone, such as 15,10")
		}
	}
	if opt.MaxMemory, err = c.MaxMemory.forData(); err != nil {
		return opt, "", err
	}
	limitHeap(opt.MaxMemory, true)
	if path, err := sparse.TuningPath(); err == nil { // without a home there are no choices
		opt.Tuning, choices, err = env.tuning(path)
		return opt, choices, err
	}
	return opt, "", nil
}

// trainLine shows on a terminal how training stands.
type trainLine struct {
	env    *environment
	epochs int
	began  time.Time
	first  float64 // epochs that were done when training began, in part
	steps  int
	shown  time.Time
	last   *gnn.Epoch
}

func (l *trainLine) step(s gnn.Step) {
	done := float64(s.Epoch-1) + float64(s.Batch)/float64(s.Batches)
	if l.steps++; l.steps == 1 {
		l.first = done - 1/float64(s.Batches)
	}
	if !l.env.terminal || time.Since(l.shown) < progressInterval {
		return
	}
	l.shown = time.Now()
	took := time.Since(l.began)
	left := time.Duration(float64(took) * (float64(l.epochs) - done) / (done - l.first))
	accuracy := ""
	if l.last != nil {
		accuracy = fmt.Sprintf("accuracy %.4f (validation %.4f), ", l.last.Train, l.last.Val)
	}
	fmt.Fprintf(l.env.stderr, "\r\x1b[Kepoch %d of %d, batch %d of %d: loss %.4f, %s%.1f batches/s, %s left ", s.Epoch,
		l.epochs, s.Batch, s.Batches, s.Loss, accuracy, float64(l.steps)/took.Seconds(), durationText(left))
}

func (l *trainLine) end() {
	if !l.shown.IsZero() {
		fmt.Fprint(l.env.stderr, "\r\x1b[K")
	}
}

// fanouts is the value of --fanouts.
type fanouts struct {
	all     []int
	perType map[string][]int
}

// UnmarshalText reads fan-outs as package sampling does.
func (f *fanouts) UnmarshalText(text []byte) (err error) {
	f.all, f.perType, err = sampling.ParseFanouts(string(text))
	return err
}
