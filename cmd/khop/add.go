package main

import (
	"github.com/dustin/go-humanize/english"

	"github.com/khop-gnn/khop/formats/convert"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/paths"
)

type addCmd struct {
	Dataset string `arg:"" help:"Dataset: a directory that khop has written."`

	Column     []string `sep:"none" placeholder:"NAME=FILE" help:"Add a column of nodes from a .npy file."`
	EdgeColumn []string `sep:"none" placeholder:"NAME=FILE" help:"Add a column of edges."`
	Split      []string `sep:"none" placeholder:"NAME=FILE" help:"Add a split: ids, or a boolean a node."`
	MaxMemory  byteSize `placeholder:"SIZE" help:"The most memory to take; default: a quarter of what is free."`
	Force      bool     `help:"Replace columns and splits of the same names."`

	jsonFlag `embed:""`
}

// addResult is what "khop add --json" prints. Scripts rely on the names.
type addResult struct {
	Dataset string  `json:"dataset"`
	Added   int     `json:"added"`
	Seconds float64 `json:"seconds"`
}

// Run adds.
func (c *addCmd) Run(env *environment) error {
	var list []convert.Addition
	for _, of := range []struct {
		kind convert.Kind
		args []string
	}{{convert.NodeColumn, c.Column}, {convert.EdgeColumn, c.EdgeColumn}, {convert.Split, c.Split}} {
		for _, text := range of.args {
			a, err := convert.ParseAddition(of.kind, text)
			if err != nil {
				return err
			}
			list = append(list, a)
		}
	}
	if len(list) == 0 {
		return usageError("name what to add: --column, --edge-column, --split")
	}
	limit := convert.Options{MemoryLimit: env.memory.bytes}
	if err := limit.Settle(); err != nil {
		return err
	}
	_, took, err := watched(env, func(bar *progress) (*graph.Schema, error) {
		return convert.Add(env.ctx, c.Dataset, list, convert.AddOptions{Force: c.Force, Memory: limit.MemoryLimit,
			Progress: bar.report()})
	})
	if err != nil {
		return err
	}
	r := addResult{paths.Text(c.Dataset), len(list), took.Seconds()}
	return c.answer(env, r, "%s: added %s, in %s\n", r.Dataset, english.Plural(r.Added, "array", ""),
		durationText(took))
}
