package main

import (
	"encoding/json"
	"path/filepath"

	"github.com/khop-gnn/khop/cmd/khop/internal/runreport"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/wholefile"
	"github.com/khop-gnn/khop/loader"
)

type reportCmd struct {
	Target string   `arg:"" type:"path" help:"HTML file to write."`
	Runs   []string `arg:"" help:"Files with what khop commands printed by --json or --jsonl."`
	Force  bool     `help:"Replace a file that is not a khop report."`
}

// mostReported is how many bytes of a run are read.
const mostReported = 16 << 20

// Run writes the report.
func (c *reportCmd) Run(env *environment) error {
	out := runreport.Output(c.Target, c.Force, orForce, c.Runs...)
	read := func(path string) ([]byte, error) { return wholefile.Read(path, mostReported) }
	parse := func(path string, text []byte) (*runreport.Run, error) {
		return runreport.Read(paths.Text(filepath.Base(path)), text, saidOf)
	}
	return combine(env, out, read, parse, runreport.Write)
}

// saidOf is the sentence of a report.
func saidOf(text json.RawMessage) string {
	var r loader.Report
	if json.Unmarshal(text, &r) != nil {
		return ""
	}
	return sentence(r)
}
