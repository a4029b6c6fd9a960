package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/remote"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/paths"
)

type checkCmd struct {
	Dataset string `arg:"" help:"Dataset directory, or its address in a store."`

	flagsOf[formats.CheckOptions] `embed:""`

	Deep bool `help:"Also print the hints of khop info --deep; they do not change the status."`

	jsonFlag `embed:""`
}

// checkResult is what "khop check --json" prints. Scripts rely on the names.
type checkResult struct {
	Dataset  string         `json:"dataset"`
	OK       bool           `json:"ok"`
	Files    int            `json:"files"`
	Bytes    int64          `json:"bytes"`
	Found    int64          `json:"problems_found"`
	Problems []checkProblem `json:"problems"`        // the first ones
	Hints    []string       `json:"hints,omitempty"` // with --deep
	Seconds  float64        `json:"seconds"`
}

type checkProblem struct {
	Path   string `json:"path"`
	Column string `json:"column,omitempty"`
	Row    int64  `json:"row"` // -1: none
	Text   string `json:"text"`
}

// errProblems is the error of a dataset that is not right.
var errProblems = errors.New("the dataset is damaged")

// Run checks.
func (c *checkCmd) Run(env *environment) (err error) {
	if c.Deep && c.opt.Scrub {
		return usageError("--deep reads more than --scrub: leave out one")
	}
	at := c.Dataset
	if remote.IsAddress(at) {
		ds, err := c.openDataset(env, at)
		if err != nil {
			return err
		}
		defer closing(&err, ds.Close)
		at = ds.Path()
	}
	rep, took, err := watched(env, func(bar *progress) (*formats.Report, error) {
		c.opt.Progress = bar.report()
		return formats.Check(env.ctx, at, c.opt)
	})
	if err != nil {
		return err
	}
	r := checkResult{Dataset: paths.Text(c.Dataset), OK: rep.OK(), Files: rep.Files, Bytes: rep.Bytes, Found: rep.Found,
		Problems: []checkProblem{}, Seconds: took.Seconds()}
	for _, p := range rep.Problems {
		problem := checkProblem{Row: -1, Text: p.Error()}
		if at := (*formats.Error)(nil); errors.As(p, &at) {
			problem.Path, problem.Column, problem.Row = paths.Text(at.Path), at.Column, at.Row
		}
		r.Problems = append(r.Problems, problem)
	}
	if c.Deep && r.OK {
		if r.Hints, err = hints(env, at); err != nil {
			return err
		}
	}
	err = c.show(env, r, func(env *environment) error { return r.print(env, took) })
	if err == nil && !r.OK {
		err = fmt.Errorf("%s: %w: %s", r.Dataset, errProblems, english.Plural(int(r.Found), "problem", ""))
	}
	return err
}

// hints returns what is legal in a dataset but perhaps not meant.
func hints(env *environment, path string) (list []string, err error) {
	ds, err := formats.Open(path)
	if err != nil {
		return nil, err
	}
	defer closing(&err, ds.Close)
	found, err := inspected(env, ds)
	if err != nil {
		return nil, err
	}
	return found.Hints(), nil
}

func (r *checkResult) print(env *environment, took time.Duration) error {
	for _, p := range r.Problems {
		fmt.Fprintln(env.stdout, p.Text)
	}
	if more := r.Found - int64(len(r.Problems)); more > 0 {
		fmt.Fprintf(env.stdout, "... and %s more\n", humanize.Comma(more))
	}
	if !r.OK {
		return nil
	}
	for _, h := range r.Hints {
		fmt.Fprintln(env.stdout, "hint: "+h)
	}
	_, err := fmt.Fprintf(env.stdout, "%s: %d files, %s, are right (%s)\n", r.Dataset, r.Files, machine.Bytes(r.Bytes),
		durationText(took))
	return err
}
