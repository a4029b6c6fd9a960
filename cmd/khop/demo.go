package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/synthetic"
	"github.com/khop-gnn/khop/integrations/gnn"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/project"
	"github.com/khop-gnn/khop/internal/underway"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

type demoCmd struct {
	Dataset string `arg:"" optional:"" help:"Dataset directory to write; default: a new temporary one."`

	flagsOf[demoOptions] `embed:""`
}

// demoOptions say what graph is made.
type demoOptions struct {
	Nodes int64  `default:"20000" help:"Number of nodes."`
	Seed  uint64 `same:"seed" default:"7"`
	Force bool   `help:"Replace a dataset that is there."`
}

// demoFanouts and demoBatch are what the demonstration loads.
var demoFanouts = []int{10, 5}

const (
	demoBatch  = 256
	demoEpochs = 2

	demoTrained = 3 // epochs
)

// Run makes, checks and loads a small graph, trains a model on it, and says what it does.
func (c *demoCmd) Run(env *environment) error {
	if c.Dataset != "" {
		return c.tour(env, c.Dataset)
	}
	dir, err := os.MkdirTemp("", "khop-demo-")
	if err != nil {
		return err
	}
	defer underway.Leaves(underway.Folder, dir)()
	c.Dataset = filepath.Join(dir, "demo.khop")
	if err := c.tour(env, dir); err != nil {
		_ = os.RemoveAll(dir)
		return err
	}
	return nil
}

// tour does it all; made is what to remove afterwards.
func (c *demoCmd) tour(env *environment, made string) (err error) {
	fmt.Fprint(env.stdout, "khop loads mini-batches of a graph for training. This makes a small graph, and trains on "+
		"it.\n\n")
	classes, err := c.make(env)
	if err != nil {
		return err
	}
	if err := c.check(env); err != nil {
		return err
	}
	ds, err := formats.Open(c.Dataset)
	if err != nil {
		return err
	}
	defer closing(&err, ds.Close)
	if err := c.load(env, ds); err != nil {
		return err
	}
	if err := c.train(env, ds, classes); err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, `
Next:
  %[1]s bench %[2]s
      how fast this machine loads the graph, and what holds it up
  %[1]s train %[2]s --model gat --plot curves.svg
      another model, and its curves
  %[1]s convert YOUR-GRAPH my.khop
      your own graph: from PyG, DGL, OGB, CSV, Parquet and others
The graph stays until you remove it: rm -r %[3]s
khop beside PyG, DGL and GraphBolt: %[4]sresults/cpu.md
`, programName(), paths.Text(c.Dataset), made, project.Get().Docs)
	return nil
}

// programName is how the user calls the program again.
func programName() string {
	if strings.Contains(os.Args[0], "go-build") {
		return "go run ./cmd/khop"
	}
	return "khop"
}

// said prints a line, which begins with what is done.
func (c *demoCmd) said(env *environment, what, format string, args ...any) {
	fmt.Fprintf(env.stdout, "%-9s %s\n", what, fmt.Sprintf(format, args...))
}

// size is a number of bytes, for a newcomer.
func (c *demoCmd) size(n int64) string { return humanize.BytesN(uint64(n), 3) }

func (c *demoCmd) make(env *environment) (classes int, err error) {
	res, took, err := watched(env, func(bar *progress) (*synthetic.Result, error) {
		return synthetic.Generate(env.ctx, synthetic.SBM, c.Dataset, synthetic.Options{Nodes: c.opt.Nodes,
			Seed: c.opt.Seed, Force: c.opt.Force, Progress: bar.report()})
	})
	if err != nil {
		return 0, err
	}
	o := res.Options
	c.said(env, "made", "%s nodes, %s edges, %d features a node, %d classes: %s, in %s", humanize.Comma(o.Nodes),
		humanize.Comma(o.Edges), o.Features, o.Classes, c.size(res.Bytes), durationText(took))
	c.said(env, "", "%s", paths.Text(c.Dataset))
	return o.Classes, nil
}

func (c *demoCmd) check(env *environment) error {
	start := time.Now()
	rep, err := formats.Check(env.ctx, c.Dataset, formats.CheckOptions{})
	if err != nil {
		return err
	}
	c.said(env, "checked", "%d files: checksums, order and ids are right, in %s", rep.Files,
		durationText(time.Since(start)))
	return nil
}

func (c *demoCmd) load(env *environment, ds *formats.Dataset) (err error) {
	opt := loader.Options{
		Sampler: sampling.Neighbor{Fanouts: demoFanouts}, Seeds: loader.Split("train"), BatchSize: demoBatch,
		Shuffle: true, Seed: c.opt.Seed,
	}
	plan, err := loader.Plan(env.ctx, ds, opt)
	if err != nil {
		return err
	}
	ld, err := loader.NewContext(env.ctx, ds, opt)
	if err != nil {
		return err
	}
	defer closing(&err, ld.Close)
	c.said(env, "loaded", "batches of %d training nodes, %d neighbours of each and %d of each of those, with features",
		demoBatch, demoFanouts[0], demoFanouts[1])
	for epoch := range uint64(demoEpochs) {
		if err := c.epoch(env, ld, epoch); err != nil {
			return err
		}
	}
	took := ld.Stats()
	where := fmt.Sprintf("%s, on %s", english.Plural(plan.Workers, "worker", ""), ld.Answer().Device)
	if took.DeviceMemoryPeak > 0 {
		c.said(env, "", "device memory: about %s expected for batches; %s taken, with the graph",
			c.size(plan.Device.Total()), c.size(took.DeviceMemoryPeak))
		c.said(env, "", "host memory: %s taken; %s", c.size(took.MemoryPeak), where)
		return nil
	}
	c.said(env, "", "memory: %s expected, %s taken; %s", c.size(plan.Expected.Total()), c.size(took.MemoryPeak), where)
	return nil
}

func (c *demoCmd) epoch(env *environment, ld *loader.Loader, epoch uint64) error {
	var total work
	var digest uint64
	batches := 0
	start := time.Now()
	for b, err := range ld.Epoch(env.ctx, epoch) {
		if err != nil {
			return err
		}
		moved("batches", int64(b.Number), int64(ld.AllBatches()))
		total.add(countBatch(ld.Arrays(), b))
		if batches == 0 {
			_, digest = b.Digest()
		}
		batches++
	}
	took := time.Since(start)
	c.said(env, "", "epoch %d: %d batches in %s: %s batches a second, of about %s nodes", epoch, batches,
		durationText(took), humanize.Comma(int64(float64(batches)/took.Seconds())),
		humanize.Comma(total.nodes/int64(max(batches, 1))))
	if epoch == 0 {
		c.said(env, "", "its first batch is %016x, as it is on any machine with this seed", digest)
	}
	return nil
}

// train trains a model on the batches that were loaded.
func (c *demoCmd) train(env *environment, ds *formats.Dataset, classes int) error {
	line := &trainLine{env: env, epochs: demoTrained, began: time.Now()}
	r, err := gnn.Train(env.ctx, ds, gnn.Options{Model: "sage", Fanouts: demoFanouts, BatchSize: demoBatch,
		Epochs: demoTrained, Seed: c.opt.Seed, MaxMemory: env.memory.bytes, Progress: line.step})
	line.end()
	if err != nil {
		return err
	}
	c.said(env, "trained", "GraphSAGE, %d epochs in %s: right for %.1f %% of the test nodes (by chance: %.1f %%)",
		r.Epochs, durationText(time.Duration(r.Seconds*float64(time.Second))), 100*r.Test, 100/float64(classes))
	return nil
}
