package main

import (
	"github.com/dustin/go-humanize/english"

	"github.com/khop-gnn/khop/formats/export"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/paths"
)

type exportCmd struct {
	Dataset string `arg:"" help:"Dataset directory, or its address in a store."`
	Target  string `arg:"" help:"Folder or file to write."`

	flagsOf[export.Options] `embed:""`

	jsonFlag `embed:""`
}

// Help lists the formats.
func (exportCmd) Help() string {
	return "The formats are:\n" + helpTable(export.Formats)
}

// exportResult is what "khop export --json" prints. Scripts rely on the names.
type exportResult struct {
	Dataset string `json:"dataset"`
	Target  string `json:"target"`
	To      string `json:"to"`
	*export.Result
	Seconds float64 `json:"seconds"`
}

// Run exports.
func (c *exportCmd) Run(env *environment) (err error) {
	ds, err := c.openDataset(env, c.Dataset)
	if err != nil {
		return err
	}
	defer closing(&err, ds.Close)
	res, took, err := watched(env, func(bar *progress) (*export.Result, error) {
		c.opt.Progress, c.opt.Memory = bar.report(), &env.memory.Ledger
		return export.Run(env.ctx, ds, c.Target, c.opt)
	})
	if err != nil {
		return err
	}
	for _, n := range res.Notes {
		env.note("note: %s", n)
	}
	r := exportResult{paths.Text(c.Dataset), paths.Text(c.Target), c.opt.To, res, took.Seconds()}
	return c.answer(env, r, "%s: %s, %s, in %s\n", r.Target, english.Plural(r.Files, "file", ""),
		machine.Bytes(r.Bytes), durationText(took))
}
