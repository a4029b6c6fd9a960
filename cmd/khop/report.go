package main

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/runreport"
	"github.com/khop-gnn/khop/internal/wholefile"
	"github.com/khop-gnn/khop/loader"
)

type reportCmd struct {
	Target string   `arg:"" type:"path" help:"HTML file to write."`
	Runs   []string `arg:"" help:"What bench, train, plan, info, convert and others printed by --json or --jsonl."`
	Force  bool     `help:"Replace a file that is not a report of khop's."`
}

// mostReported is how many bytes of a run are read.
const mostReported = 16 << 20

// Run writes the report.
func (c *reportCmd) Run(env *environment) error {
	out := runreport.Output(c.Target, c.Force, "name another, or replace it (--force)", c.Runs...)
	if err := out.Check(); err != nil {
		return err
	}
	var runs []*runreport.Run
	for _, path := range c.Runs {
		text, err := wholefile.Read(path, mostReported)
		if err != nil {
			return err
		}
		r, err := runreport.Read(paths.Text(filepath.Base(path)), text, saidOf)
		if err != nil {
			return fmt.Errorf("%s: %w", paths.Text(path), err)
		}
		runs = append(runs, r)
	}
	return out.Write(env.ctx, func(w io.Writer) error { return runreport.Write(w, runs) })
}

// saidOf is the sentence of a report.
func saidOf(text json.RawMessage) string {
	var r loader.Report
	if json.Unmarshal(text, &r) != nil {
		return ""
	}
	return sentence(r)
}
