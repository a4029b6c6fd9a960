package main

import (
	"github.com/dustin/go-humanize/english"

	"github.com/khop-gnn/khop/formats/convert"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/paths"
)

type addCmd struct {
	Dataset string `arg:"" help:"Dataset directory, or its address in a store."`

	flagsOf[convert.AddOptions] `embed:""`

	jsonFlag `embed:""`
}

// addResult is what "khop add --json" prints. Scripts rely on the names.
type addResult struct {
	Dataset string  `json:"dataset"`
	Added   int     `json:"added"`  // arrays
	Tables  int     `json:"tables"` // that got rows
	Seconds float64 `json:"seconds"`
}

// Run adds.
func (c *addCmd) Run(env *environment) error {
	c.opt.MemoryLimit, c.opt.Remote = env.memory.bytes, c.elsewhere
	_, took, err := watched(env, func(bar *progress) (*graph.Schema, error) {
		c.opt.Progress = bar.report()
		c.opt.Log = func(line string) {
			bar.finish()
			env.note("%s", line)
		}
		return convert.Add(env.ctx, c.Dataset, c.opt)
	})
	if err != nil {
		return err
	}
	r := addResult{paths.Text(c.Dataset), len(c.opt.Columns) + len(c.opt.EdgeColumns) + len(c.opt.Splits),
		c.tables(), took.Seconds()}
	what := english.Plural(r.Added, "array", "")
	if r.Tables > 0 {
		what += " and rows of " + english.Plural(r.Tables, "table", "")
	}
	return c.answer(env, r, "%s: added %s, in %s\n", r.Dataset, what, durationText(took))
}

// tables returns how many tables get rows.
func (c *addCmd) tables() int {
	names := map[string]bool{}
	for _, a := range c.opt.Rows {
		names[a.Name] = true
	}
	return len(names)
}
