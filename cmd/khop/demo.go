package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/synthetic"
	"github.com/khop-gnn/khop/integrations/gnn"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/paths"
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
	c.Dataset = filepath.Join(dir, "demo.khop")
	if err := c.tour(env, dir); err != nil {
		_ = os.RemoveAll(dir)
		return err
	}
	return nil
}

// tour does it all; made is what to remove afterwards.
func (c *demoCmd) tour(env *environment, made string) (err error) {
	if err := c.make(env); err != nil {
		return err
	}
	if err := c.check(env); err != nil {
		return err
	}
	start := time.Now()
	ds, err := formats.Open(c.Dataset)
	if err != nil {
		return err
	}
	defer closing(&err, ds.Close)
	fmt.Fprintf(env.stdout, "opened    in %s: the files are mapped, not read\n", durationText(time.Since(start)))
	if err := c.load(env, ds); err != nil {
		return err
	}
	if err := c.train(env, ds); err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, `
The dataset stays where it is. Next:
  %[1]s info %[2]s
  %[1]s sample %[2]s --batches 3 --digest
  %[1]s bench %[2]s
  %[1]s train %[2]s --model gat --plot curves.svg
  rm -r %[3]s
`, programName(), paths.Text(c.Dataset), made)
	return nil
}

// programName is how the user calls the program again.
func programName() string {
	if strings.Contains(os.Args[0], "go-build") {
		return "go run ./cmd/khop"
	}
	return "khop"
}

func (c *demoCmd) make(env *environment) error {
	res, took, err := watched(env, func(bar *progress) (*synthetic.Result, error) {
		return synthetic.Generate(env.ctx, synthetic.SBM, c.Dataset, synthetic.Options{Nodes: c.opt.Nodes,
			Seed: c.opt.Seed, Force: c.opt.Force, Progress: bar.report()})
	})
	if err != nil {
		return err
	}
	o := res.Options
	fmt.Fprintf(env.stdout, "made      %s: %s nodes, %s edges, %d float32 features, %d classes, %s, in %s\n",
		paths.Text(c.Dataset), humanize.Comma(o.Nodes), humanize.Comma(o.Edges), o.Features, o.Classes,
		machine.Bytes(res.Bytes), durationText(took))
	return nil
}

func (c *demoCmd) check(env *environment) error {
	start := time.Now()
	rep, err := formats.Check(env.ctx, c.Dataset, formats.CheckOptions{})
	if err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "checked   %d files, %s, in %s: checksums, order and ids are right\n", rep.Files,
		machine.Bytes(rep.Bytes), durationText(time.Since(start)))
	return nil
}

func (c *demoCmd) load(env *environment, ds *formats.Dataset) (err error) {
	opt := loader.Options{
		Sampler: sampling.Neighbor{Fanouts: demoFanouts}, Seeds: loader.Split("train"), BatchSize: demoBatch,
		Shuffle: true, Seed: c.opt.Seed,
	}
	said, err := loader.Plan(env.ctx, ds, opt)
	if err != nil {
		return err
	}
	need, all := machine.Bytes(said.Expected.Total()), needs(said)
	if on := said.Device.Total(); on > 0 {
		need = "up to about " + machine.Bytes(on) + " of device memory for batches"
		all = need
	}
	fmt.Fprintf(env.stdout, "loader    fan-outs %v, %d seeds a batch, %d workers: it will need %s\n", demoFanouts,
		demoBatch, said.Workers, all)
	ld, err := loader.NewContext(env.ctx, ds, opt)
	if err != nil {
		return err
	}
	defer closing(&err, ld.Close)
	for epoch := range uint64(demoEpochs) {
		if err := c.epoch(env, ld, epoch); err != nil {
			return err
		}
	}
	took := ld.Stats()
	line := fmt.Sprintf("memory    the loader said %s and took %s", need, machine.Bytes(took.MemoryPeak))
	if took.DeviceMemoryPeak > 0 {
		line = fmt.Sprintf("memory    the loader said %s and took %s with graph and columns, and %s of host memory",
			need, machine.Bytes(took.DeviceMemoryPeak), machine.Bytes(took.MemoryPeak))
	}
	if u, err := machine.ReadUsage(); err == nil {
		line += fmt.Sprintf("; the whole process holds %s, and %s of mapped files", machine.Bytes(u.Anonymous),
			machine.Bytes(u.File))
	}
	fmt.Fprintln(env.stdout, line)
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
		total.add(countBatch(ld.Arrays(), b))
		if batches == 0 {
			_, digest = b.Digest()
		}
		batches++
	}
	took := time.Since(start)
	fmt.Fprintf(env.stdout, "epoch %d   %d batches in %s: %.0f batches/s, %.1f million edges/s; a batch has about %s "+
		"nodes; batch 0 is %016x\n", epoch, batches, durationText(took), float64(batches)/took.Seconds(),
		float64(total.edges)/took.Seconds()/1e6, humanize.Comma(total.nodes/int64(max(batches, 1))), digest)
	return nil
}

// train trains a model on the batches that were loaded.
func (c *demoCmd) train(env *environment, ds *formats.Dataset) error {
	line := &trainLine{env: env, epochs: demoTrained, began: time.Now()}
	r, err := gnn.Train(env.ctx, ds, gnn.Options{Model: "sage", Fanouts: demoFanouts, BatchSize: demoBatch,
		Epochs: demoTrained, Seed: c.opt.Seed, MaxMemory: env.memory.bytes, Progress: line.step})
	line.end()
	if err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "trained   %s\n", trainedText(r))
	return nil
}
