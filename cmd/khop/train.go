package main

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/inspect"
	"github.com/khop-gnn/khop/integrations/gnn"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sparse"
)

type trainCmd struct {
	Dataset string `arg:"" help:"Dataset directory, or its address in a store."`

	flagsOf[gnn.Options] `embed:""`
	plotFlags            `embed:"" set:"plot_of=the learning curves"`

	liveFlag `embed:""`

	Explain bool `help:"Train nothing; print the ways to compute each layer, and their times."`
	JSON    bool `name:"json" xor:"output" help:"Print one JSON object."`
	JSONL   bool `name:"jsonl" xor:"output" help:"Print one JSON object per epoch, then the result."`
}

// trainResult is what "khop train --json" prints. Scripts rely on the names.
type trainResult struct {
	Dataset string `json:"dataset"`
	*gnn.Result
}

// Run trains.
func (c *trainCmd) Run(env *environment) (err error) {
	choices, err := c.settle(env)
	if err != nil {
		return err
	}
	opt := &c.opt
	if (opt.Fastest || c.Explain) && opt.Tuning != nil {
		defer func() {
			if saved := opt.Tuning.Save(choices); saved != nil && err == nil {
				env.note("choices of ways are not kept: %v", saved)
			}
		}()
	}
	ds, err := c.plotFlags.openDataset(env, &c.tagFlags, c.Dataset, opt.Checkpoint)
	if err != nil {
		return err
	}
	defer closing(&err, ds.Close)
	if err := noteShared(env, ds); err != nil {
		return err
	}
	if c.Explain {
		return c.explain(env, ds)
	}
	line := &trainLine{env: env, epochs: opt.Epochs, began: time.Now()}
	opt.Progress = line.step
	var shown atomic.Pointer[loader.Loader]
	opt.Opened = shown.Store
	_, hide, err := c.showLoaders(env, "khop train "+paths.Text(c.Dataset), ofLoader(&shown))
	if err != nil {
		return err
	}
	defer hide()
	var printErr error
	opt.Report = func(e gnn.Epoch) {
		line.last = &e
		if c.JSONL && printErr == nil {
			printErr = env.printJSONLine(e)
		}
	}
	result, err := gnn.Train(env.ctx, ds, *opt)
	err = c.inDataset(err)
	line.end()
	if result != nil && len(result.Curve) > 0 { // also of training that was interrupted
		title := fmt.Sprintf("%s: %s", paths.Text(c.Dataset), c.opt.Model)
		err = errors.Join(err, draw(env, c.plotFlags, title, result.Curve...))
	}
	if env.ctx.Err() != nil && result != nil && opt.Checkpoint != "" {
		env.note("stopped after %d of %d epochs; %s has all steps so far, and the same command goes on from there",
			result.Epochs, opt.Epochs, paths.Text(opt.Checkpoint))
	}
	if err = errors.Join(err, printErr); err != nil {
		return err
	}
	return c.print(env, trainResult{paths.Text(c.Dataset), result})
}

// inDataset names the dataset in an error that is about it, and not about an option.
func (c *trainCmd) inDataset(err error) error {
	if of := (*option.Error)(nil); !errors.Is(err, gnn.ErrOptions) || errors.As(err, &of) {
		return err
	}
	return fmt.Errorf("%s: %w", paths.Text(c.Dataset), err)
}

// noteShared notes the nodes that splits share.
func noteShared(env *environment, ds *formats.Dataset) error {
	return pinned.Guard(func() error {
		for _, s := range inspect.Shared(ds.Graph().Schema(), ds.Graph().Splits()) {
			env.note("note: %v", s)
		}
		return nil
	})
}

// explainResult is what "khop train --explain --json" prints. Scripts rely on the names.
type explainResult struct {
	Dataset      string            `json:"dataset"`
	Model        string            `json:"model"`
	Compositions []gnn.Composition `json:"compositions"`
}

func (c *trainCmd) explain(env *environment, ds *formats.Dataset) error {
	all, err := gnn.Explain(env.ctx, ds, c.opt)
	if err != nil {
		return c.inDataset(err)
	}
	if c.JSON || c.JSONL {
		return env.printJSON(explainResult{paths.Text(c.Dataset), c.opt.Model, all})
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
	if err == nil && r.Loading != nil && r.Loading.Rule != "" {
		_, err = fmt.Fprintln(env.stdout, sentence(*r.Loading))
	}
	return err
}

// trainedText says what training came to.
func trainedText(r *gnn.Result) string {
	took := durationText(time.Duration(r.Seconds * float64(time.Second)))
	return fmt.Sprintf("%s, %s in %s: test accuracy %.4f, validation %.4f (epoch %d), loss %.4f", r.Model,
		english.Plural(r.Epochs, "epoch", ""), took, r.Test, r.Val, r.Best, r.Loss)
}

// settle decides on memory and tuning, and returns the file of the latter.
func (c *trainCmd) settle(env *environment) (choices string, err error) {
	c.opt.MaxMemory = env.memory.bytes
	if path, err := sparse.TuningPath(); err == nil { // without a home there are no choices
		c.opt.Tuning, choices, err = env.tuning(path)
		return choices, err
	}
	return "", nil
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
	moved(fmt.Sprintf("epoch %d", s.Epoch), int64(s.Batch), int64(s.Batches))
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
