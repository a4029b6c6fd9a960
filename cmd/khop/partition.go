package main

import (
	"fmt"
	"path/filepath"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/wholefile"
	"github.com/khop-gnn/khop/pinned"
)

type partitionCmd struct {
	Dataset string     `arg:"" help:"Dataset directory, or its address in a store."`
	Config  configFile `placeholder:"FILE" help:"${config_help}"`

	flagsOf[graph.PartitionOptions] `embed:""`

	Out   string `placeholder:"FILE" help:"File to write; default: DATASET.part.N."`
	Force bool   `help:"Replace a file that is there."`

	jsonFlag `embed:""`
}

// partitionResult is what "khop partition --json" prints. Scripts rely on the names.
type partitionResult struct {
	Dataset string `json:"dataset"`
	File    string `json:"file"`
	Parts   int    `json:"parts"`
	graph.PartitionQuality
	Seconds float64 `json:"seconds"`
}

// Run divides the nodes.
func (c *partitionCmd) Run(env *environment) (err error) {
	out := c.Out
	if out == "" {
		out = fmt.Sprintf("%s.part.%d", filepath.Clean(c.Dataset), c.opt.Parts)
	}
	file := wholefile.Output{Path: out, Mode: 0o644, Force: c.Force,
		Else: "name another (--out), or replace it (--force)", From: []string{c.Dataset}}
	if err := file.Check(); err != nil {
		return err
	}
	ds, err := c.openDataset(env, c.Dataset)
	if err != nil {
		return err
	}
	defer closing(&err, ds.Close)
	q, took, err := watched(env, func(bar *progress) (q graph.PartitionQuality, err error) {
		var p *graph.Partition
		err = pinned.Guard(func() (err error) {
			if err := ds.VerifyTopology(); err != nil {
				return err
			}
			c.opt.Progress = bar.of("partition")
			p, q, err = graph.StreamPartition(env.ctx, ds.Graph(), c.opt)
			return err
		})
		if err != nil {
			return q, fmt.Errorf("%s: %w", paths.Text(c.Dataset), err)
		}
		return q, file.Write(env.ctx, p.Write)
	})
	if err != nil {
		return err
	}
	r := partitionResult{paths.Text(c.Dataset), paths.Text(out), c.opt.Parts, q, took.Seconds()}
	return c.answer(env, r, "%s: %d parts of at most %s nodes (%.3f of the mean), %s of %s edges cut (%s), "+
		"%s in %s\n", r.File, r.Parts, humanize.Comma(r.Largest), r.Balance, humanize.Comma(r.Cut),
		humanize.Comma(r.Edges), percent(r.Cut, r.Edges), english.Plural(r.Passes, "pass", ""), durationText(took))
}
