package main

import (
	"fmt"

	"github.com/dustin/go-humanize/english"

	"github.com/khop-gnn/khop/formats/export"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/paths"
)

type exportCmd struct {
	Dataset string `arg:"" help:"Dataset: a directory that khop has written."`
	Target  string `arg:"" help:"Folder or file to write; it must not exist."`

	flagsOf[export.Options] `embed:""`

	jsonFlag `embed:""`
}

// Help lists the formats.
func (exportCmd) Help() string {
	text := "The formats are:\n\n"
	for _, f := range export.Formats {
		text += fmt.Sprintf("%-22s %s\n\n", f[0], f[1])
	}
	return text
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
