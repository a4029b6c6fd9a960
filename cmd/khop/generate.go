package main

import (
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/formats/synthetic"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/paths"
)

type generateCmd struct {
	Kind    string `arg:"" enum:"sbm,rmat,products,typed" help:"sbm, rmat, products or typed."`
	Dataset string `arg:"" help:"Directory to write; it must not exist."`

	Nodes    int64  `default:"0" placeholder:"N" help:"Nodes; 0: the kind's default."`
	Edges    int64  `default:"0" placeholder:"N" help:"Directed edges; 0: the kind's mean degree times the nodes."`
	Features int    `default:"0" placeholder:"N" help:"Width of the float32 features; 0: the kind's default, -1: none."`
	Classes  int    `default:"0" placeholder:"N" help:"Classes of the labels; 0: the kind's default, -1: no labels."`
	Seed     uint64 `default:"0" placeholder:"N" help:"Equal seeds make equal files."`
	Workers  int    `default:"0" placeholder:"N" help:"Goroutines; 0: one a core. They do not change what is written."`
	Force    bool   `help:"Replace a dataset that is there."`

	jsonFlag `embed:""`
}

// Help lists the kinds.
func (generateCmd) Help() string {
	text := ""
	for _, k := range synthetic.Kinds() {
		text += fmt.Sprintf("%-9s %s\n\n", k[0], k[1])
	}
	return text
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
		return synthetic.Generate(env.ctx, c.Kind, c.Dataset, synthetic.Options{
			Nodes: c.Nodes, Edges: c.Edges, Features: c.Features, Classes: c.Classes, Seed: c.Seed, Force: c.Force,
			Workers: c.Workers, Progress: bar.report(),
		})
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
