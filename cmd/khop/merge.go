package main

import (
	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/formats/convert"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/paths"
)

type mergeCmd struct {
	Dataset string   `arg:"" help:"Directory to write; it must not exist."`
	Shares  []string `arg:"" help:"All shares of a conversion, in any order."`

	flagsOf[convert.MergeOptions] `embed:""`

	jsonFlag `embed:""`
}

// mergeResult is what "khop merge --json" prints. Scripts rely on the names.
type mergeResult struct {
	Dataset string  `json:"dataset"`
	Shares  int     `json:"shares"`
	Nodes   int64   `json:"nodes"`
	Edges   int64   `json:"edges"`
	Seconds float64 `json:"seconds"`
}

// Run joins shares.
func (c *mergeCmd) Run(env *environment) error {
	s, took, err := watched(env, func(bar *progress) (*graph.Schema, error) {
		c.opt.Progress = bar.report()
		return convert.JoinShares(env.ctx, c.Shares, c.Dataset, c.opt)
	})
	if err != nil {
		return err
	}
	r := mergeResult{paths.Text(c.Dataset), len(c.Shares), s.NumNodes(), s.NumEdges(), took.Seconds()}
	return c.answer(env, r, "%s: %d shares, %s nodes, %s edges, in %s\n", r.Dataset, r.Shares,
		humanize.Comma(r.Nodes), humanize.Comma(r.Edges), durationText(took))
}
