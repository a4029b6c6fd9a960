package main

import (
	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/formats/synthetic"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/paths"
)

type generateCmd struct {
	Kind    string `arg:"" enum:"sbm,rmat,products,typed" help:"sbm, rmat, products or typed."`
	Dataset string `arg:"" help:"Dataset directory to write."`

	flagsOf[synthetic.Options] `embed:""`

	jsonFlag `embed:""`
}

// Help lists the kinds.
func (generateCmd) Help() string {
	return "The kinds are:\n" + helpTable(synthetic.Kinds())
}

// generateResult is what "khop generate --json" prints. Scripts rely on the names.
type generateResult struct {
	Dataset     string  `json:"dataset"`
	Kind        string  `json:"kind"`
	Nodes       int64   `json:"nodes"`
	Edges       int64   `json:"edges"`
	Features    int     `json:"features"`
	Classes     int     `json:"classes"`
	Seed        uint64  `json:"seed"`
	MaxInDegree int64   `json:"max_in_degree"`
	Bytes       int64   `json:"bytes"`
	Seconds     float64 `json:"seconds"`
}

// Run generates.
func (c *generateCmd) Run(env *environment) error {
	res, took, err := watched(env, func(bar *progress) (*synthetic.Result, error) {
		c.opt.Progress = bar.report()
		return synthetic.Generate(env.ctx, c.Kind, c.Dataset, c.opt)
	})
	if err != nil {
		return err
	}
	o := res.Options
	r := generateResult{Dataset: paths.Text(c.Dataset), Kind: c.Kind, Nodes: o.Nodes, Edges: o.Edges,
		Features: o.Features, Classes: o.Classes, Seed: o.Seed, MaxInDegree: res.MaxInDegree, Bytes: res.Bytes,
		Seconds: took.Seconds()}
	return c.answer(env, r, "%s: %s nodes, %s edges, %d features, %d classes, seed %d: %s in %s\n", r.Dataset,
		humanize.Comma(r.Nodes), humanize.Comma(r.Edges), r.Features, r.Classes, r.Seed, machine.Bytes(r.Bytes),
		durationText(took))
}
