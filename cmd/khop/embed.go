package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/khop-gnn/khop/formats/export"
	"github.com/khop-gnn/khop/formats/remote"
	"github.com/khop-gnn/khop/integrations/gnn"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/sparse"
)

type embedCmd struct {
	Dataset string `arg:"" help:"Dataset directory."`

	flagsOf[gnn.EmbedOptions] `embed:""`

	Blocks string `placeholder:"FILE" type:"path" help:"With --layers: file to exchange rows and sums through."`

	jsonFlag `embed:""`
}

// embedResult is what "khop embed --json" prints. Scripts rely on the names.
type embedResult struct {
	Dataset string `json:"dataset"`
	*gnn.EmbedResult
}

// Run embeds.
func (c *embedCmd) Run(env *environment) error {
	if remote.IsAddress(c.Dataset) {
		return usageError("khop embed reads and writes a folder: copy the dataset to one, and name that")
	}
	c.opt.MaxMemory, c.opt.Parquet = env.memory.bytes, export.NewTable
	if path, err := sparse.TuningPath(); err == nil { // without a home there are no choices
		if c.opt.Tuning, _, err = env.tuning(path); err != nil {
			return err
		}
	}
	if c.Blocks != "" {
		blocks, err := openBlocks(c.Blocks, env.stdout)
		if err != nil {
			return err
		}
		defer blocks.file.Close()
		c.opt.Rows = blocks.rows
	}
	result, took, err := watched(env, func(bar *progress) (*gnn.EmbedResult, error) {
		c.opt.Progress = bar.report()
		return gnn.Embed(env.ctx, c.Dataset, c.opt)
	})
	if err != nil {
		return err
	}
	r := embedResult{paths.Text(c.Dataset), result}
	if c.opt.Plan {
		return c.show(env, r, r.print)
	}
	return c.answer(env, r, "%s: column %s of %d nodes, %d numbers each, in %s (%s read, %s written)\n",
		r.Dataset, r.Column, r.Nodes, r.Width, durationText(took), machine.Bytes(r.Read), machine.Bytes(r.Written))
}

// print says what a plan comes to.
func (r embedResult) print(env *environment) error {
	fmt.Fprintf(env.stdout, "%s: column %s of %d nodes, %d numbers each\n", r.Dataset, r.Column, r.Nodes, r.Width)
	if r.ReadRate > 0 {
		fmt.Fprintf(env.stdout, "the disk reads %s a second in order, and writes %s\n",
			machine.Bytes(int64(r.ReadRate)), machine.Bytes(int64(r.WriteRate)))
	}
	t := newTable(env.stdout)
	t.row("step", "way", "passes", "memory", "read", "written", "time")
	seconds := func(s float64) string { return durationText(time.Duration(s * float64(time.Second))) }
	for _, s := range r.Steps {
		t.row(s.Step, cmp.Or(s.Way, "rows alone"), s.Passes, machine.Bytes(s.Memory), machine.Bytes(s.PlannedRead),
			machine.Bytes(s.PlannedWritten), seconds(s.PlannedSeconds))
	}
	t.row("all", "", "", "", machine.Bytes(r.PlannedRead), machine.Bytes(r.PlannedWritten), seconds(r.PlannedSeconds))
	t.section("With other memory")
	t.row("  memory", "passes", "read", "written", "time")
	for _, c := range r.Choices {
		t.row("  "+machine.Bytes(c.Memory), c.Passes, machine.Bytes(c.Read), machine.Bytes(c.Written),
			seconds(c.Seconds))
	}
	return t.flush()
}
