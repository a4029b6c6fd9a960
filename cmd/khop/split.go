package main

import (
	"fmt"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/khop-gnn/khop/formats/convert"
	"github.com/khop-gnn/khop/internal/paths"
)

type splitCmd struct {
	Dataset string `arg:"" help:"Dataset directory, or its address in a store."`

	flagsOf[convert.SplitOptions] `embed:""`

	jsonFlag `embed:""`
}

// splitResult is what "khop split --json" prints. Scripts rely on the names.
type splitResult struct {
	Dataset string `json:"dataset"`
	*convert.SplitResult
	Seconds float64 `json:"seconds"`
}

// Run deals nodes or links into splits.
func (c *splitCmd) Run(env *environment) error {
	c.opt.MemoryLimit = env.memory.bytes
	res, took, err := watched(env, func(bar *progress) (*convert.SplitResult, error) {
		c.opt.Progress = bar.report()
		return convert.Split(env.ctx, c.Dataset, c.opt)
	})
	if err != nil {
		return err
	}
	r := splitResult{paths.Text(c.Dataset), res, took.Seconds()}
	return c.show(env, r, func(env *environment) error {
		what := map[bool]string{false: "nodes", true: "links"}[c.opt.Links]
		if res.NoLabel > 0 {
			env.note("note: %s nodes whose label is below 0 are in no split", humanize.Comma(res.NoLabel))
		}
		text := fmt.Sprintf("%s: of %s %s", r.Dataset, humanize.Comma(res.Items), what)
		for i, n := range res.Counts[0] {
			text += fmt.Sprintf(", %s %s", humanize.Comma(n), c.opt.Names[i])
		}
		_, err := fmt.Fprintf(env.stdout, "%s; drawn %s in %s\n", text,
			english.Plural(len(res.Counts), "time", ""), durationText(took))
		return err
	})
}
