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
		c.noteReverses(env, res)
		text := fmt.Sprintf("%s: of %s %s", r.Dataset, humanize.Comma(res.Items), what)
		for i, n := range res.Counts[0] {
			text += fmt.Sprintf(", %s %s", humanize.Comma(n), c.opt.Names[i])
		}
		_, err := fmt.Fprintf(env.stdout, "%s; drawn %s in %s\n", text,
			english.Plural(len(res.Counts), "time", ""), durationText(took))
		return err
	})
}

// noteReverses says which edges go with the links that they reverse, and which do not.
func (c *splitCmd) noteReverses(env *environment, res *convert.SplitResult) {
	for _, r := range res.Reverses {
		env.note("note: edges %q reverse the links, and go with them", r)
	}
	for _, b := range res.Back {
		env.note("note: %d of %d edges %q reverse a link, and are followed: --reverse %s keeps both together",
			b.Edges, b.Of, b.Type, b.Type)
	}
	if res.Both && !c.opt.Undirected {
		env.note("note: both directions of each link are stored, and in the same split: --undirected takes one of them")
	}
}
