package main

import (
	"context"
	"math"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/formats/convert"
	"github.com/khop-gnn/khop/gather/cuda"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/unified"
)

type convertCmd struct {
	Source  string `arg:"" help:"File, directory, archive or address to convert."`
	Dataset string `arg:"" help:"Dataset directory to write."`

	Config configFile `placeholder:"FILE" help:"${config_help}"`

	flagsOf[convert.Options] `embed:""`

	tasksFlags `embed:"" group:"Tasks:"`

	liveFlag `embed:""`
	jsonFlag `embed:""`
}

// Help lists the kinds.
func (convertCmd) Help() string {
	return "khop recognises the kind of a source by its contents. khop docs convert describes the kinds:\n" +
		helpTable(convert.Kinds())
}

// convertResult is what "khop convert --json" prints. Scripts rely on the names.
type convertResult struct {
	Source  string `json:"source"`
	Dataset string `json:"dataset"`
	*convert.Result
	Seconds float64 `json:"seconds"`
}

// heat scores nodes as the cache of hot rows does.
func heat(ctx context.Context, indptr []int64, indices unified.Tensor, seeds []int64) ([]float64, error) {
	return cuda.PageRank{Indptr: indptr, Indices: indices, Seeds: seeds}.Scores(ctx)
}

// settle decides on memory, and bounds the heap.
func (c *convertCmd) settle(env *environment) error {
	c.opt.MemoryLimit, c.opt.Remote = env.memory.asked, c.elsewhere
	if err := c.opt.Settle(); err != nil {
		return err
	}
	if env.memory.bytes == 0 { // the default bounds it, too
		heaps.limit(&env.memory, min(c.opt.MemoryLimit, math.MaxInt64-machine.Own)+machine.Own)
	}
	return nil
}

// Run converts.
func (c *convertCmd) Run(env *environment) error {
	switch {
	case c.Clean:
		return convert.CleanTasks(env.ctx, c.Dataset)
	case c.Tasks > 0:
		return c.inTasks(env)
	case c.Plan || c.Script != "":
		return wrongOption("tasks", ": say how many")
	}
	if err := c.settle(env); err != nil {
		return err
	}
	res, took, err := watched(env, func(bar *progress) (*convert.Result, error) {
		hide, err := c.showProgress(env, "khop convert "+paths.Text(c.Source), bar)
		if err != nil {
			return nil, err
		}
		defer hide()
		return convert.Run(env.ctx, c.Source, c.Dataset, doorsOf(env, bar, c.opt))
	})
	if err != nil {
		return err
	}
	return c.say(env, res, took)
}

// doorsOf adds to options what commands that convert have in common.
func doorsOf(env *environment, bar *progress, opt convert.Options) convert.Options {
	opt.Heat, opt.Spell = heat, func(name, _ string) string { return option.Flag(option.Name{Option: name}) }
	opt.Progress = bar.report()
	opt.Log = func(line string) {
		bar.finish()
		env.note("%s", line)
	}
	return opt
}

// say prints the result.
func (c *convertCmd) say(env *environment, res *convert.Result, took time.Duration) error {
	r := convertResult{paths.Text(c.Source), paths.Text(c.Dataset), res, took.Seconds()}
	if res.Draft != "" {
		return c.answer(env, r, "%s", res.Draft)
	}
	if c.opt.DryRun {
		return c.answer(env, r, "%s would be: %s; %s nodes, at most %s edges (%s), %s; at most %s of memory and "+
			"%s of temporary files\n", r.Dataset, r.Kind, humanize.Comma(r.Nodes), humanize.Comma(r.Edges), r.Direction,
			machine.Bytes(r.Bytes), machine.Bytes(r.MemoryPeak), machine.Bytes(r.TempPeak))
	}
	return c.answer(env, r,
		"%s: %s; %s nodes, %s edges (%s; %s in the source), %d features, %d classes, %d splits, %s in %s\n",
		r.Dataset, r.Kind, humanize.Comma(r.Nodes), humanize.Comma(r.Edges), r.Direction, humanize.Comma(r.SourceEdges),
		r.FeatureDim, r.Classes, r.Splits, machine.Bytes(r.Bytes), durationText(took))
}
