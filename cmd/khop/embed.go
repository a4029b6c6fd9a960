package main

import (
	"github.com/khop-gnn/khop/integrations/gnn"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/sparse"
)

type embedCmd struct {
	Dataset string `arg:"" help:"Dataset: a directory that khop has written."`

	flagsOf[gnn.EmbedOptions] `embed:""`

	jsonFlag `embed:""`
}

// embedResult is what "khop embed --json" prints. Scripts rely on the names.
type embedResult struct {
	Dataset string `json:"dataset"`
	*gnn.EmbedResult
}

// Run embeds.
func (c *embedCmd) Run(env *environment) error {
	c.opt.MaxMemory = env.memory.bytes
	if path, err := sparse.TuningPath(); err == nil { // without a home there are no choices
		if c.opt.Tuning, _, err = env.tuning(path); err != nil {
			return err
		}
	}
	result, took, err := watched(env, func(bar *progress) (*gnn.EmbedResult, error) {
		c.opt.Progress = bar.report()
		return gnn.Embed(env.ctx, c.Dataset, c.opt)
	})
	if err != nil {
		return err
	}
	r := embedResult{paths.Text(c.Dataset), result}
	return c.answer(env, r, "%s: column %s of %d nodes, %d numbers each, in %s (%s read, %s written)\n",
		r.Dataset, r.Column, r.Nodes, r.Width, durationText(took), machine.Bytes(r.Read), machine.Bytes(r.Written))
}
