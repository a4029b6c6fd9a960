package main

import (
	"context"
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/formats/convert"
	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/unified"
)

type convertCmd struct {
	Source  string `arg:"" help:"File or directory to convert."`
	Dataset string `arg:"" help:"Directory to write; it must not exist."`

	Config configFile `placeholder:"FILE" help:"${config_help}"`

	From       string   `placeholder:"KIND" help:"Kind of the source; recognised without it."`
	Directed   bool     `xor:"direction" help:"Store edges as they are listed."`
	Symmetrise bool     `xor:"direction" help:"Store both directions of every edge, self-loops once."`
	Dedupe     string   `enum:"no,first,sum,max" default:"no" help:"Merge edges between the same two nodes: ${enum}."`
	SelfLoops  string   `enum:"keep,drop,add" default:"keep" help:"Self-loops: ${enum}."`
	ByTime     bool     `help:"Order the edges of a node by their column time."`
	Reorder    string   `enum:"no,degree,bfs,rcm,hot" default:"no" help:"Renumber the nodes: ${enum}."`
	Relations  bool     `name:"relations-as-types" help:"Make an edge type of each relation of a knowledge graph."`
	Features   string   `placeholder:"FILE" help:".npy file with a row of features a node."`
	Labels     string   `placeholder:"FILE" help:".npy file with a label a node."`
	FeatureDT  string   `name:"feature-dtype" enum:"as-is,float16,bfloat16,int8" default:"as-is" help:"Store: ${enum}."`
	RowStride  int64    `placeholder:"BYTES" help:"Pad rows of node columns with zeros to a multiple of BYTES."`
	Columns    []string `placeholder:"NAME" help:"Names of an edge list's fields, in order."`
	IDs        string   `name:"ids" enum:"auto,numbers,names" default:"auto" help:"Ids of an edge list: ${enum}."`
	SkipBad    int64    `placeholder:"N" help:"Leave out up to N bad lines of an edge list, and list them."`
	Partition  string   `placeholder:"I/N" help:"Write share I of N of the dataset; khop merge joins shares."`
	MaxMemory  byteSize `placeholder:"SIZE" help:"The most memory to take; default: a quarter of what is free."`
	DryRun     bool     `help:"Say what would be written and taken, and write nothing."`
	Force      bool     `help:"Replace a dataset that is there."`

	jsonFlag `embed:""`
}

// Help lists the kinds.
func (convertCmd) Help() string {
	text := "The kind of the source is recognised by its contents:\n\n"
	for _, k := range convert.Kinds() {
		text += fmt.Sprintf("%-22s %s\n\n", k[0], k[1])
	}
	return text
}

// convertResult is what "khop convert --json" prints. Scripts rely on the names.
type convertResult struct {
	Source  string `json:"source"`
	Dataset string `json:"dataset"`
	*convert.Result
	Seconds float64 `json:"seconds"`
}

// heat scores nodes as the cache of hot rows does.
func heat(ctx context.Context, indptr []int64, indices unified.Tensor, seeds []int64) ([]float64, error) {
	return gather.PageRank{Indptr: indptr, Indices: indices, Seeds: seeds}.Scores(ctx)
}

// options returns what the options say, and bounds the heap.
func (c *convertCmd) options() (opt convert.Options, err error) {
	opt = convert.Options{
		From: c.From, Features: c.Features, Labels: c.Labels, Columns: c.Columns, IDs: c.IDs,
		Force: c.Force, DryRun: c.DryRun, ByTime: c.ByTime, RelationsAsTypes: c.Relations, SkipBad: c.SkipBad,
		RowStride: c.RowStride, Heat: heat, Reorder: map[string]convert.Reorder{"degree": convert.ByDegree,
			"bfs": convert.BreadthFirst, "rcm": convert.ReverseCuthillMcKee, "hot": convert.ByHeat}[c.Reorder],
		Merge: map[string]convert.Merge{"first": convert.MergeFirst, "sum": convert.MergeSum,
			"max": convert.MergeMax}[c.Dedupe],
		Loops: map[string]convert.Loops{"drop": convert.DropLoops, "add": convert.AddLoops}[c.SelfLoops],
	}
	if c.FeatureDT != "as-is" {
		opt.FeatureDType, _ = unified.ParseDType(c.FeatureDT)
	}
	if c.Partition != "" {
		if opt.Share, err = convert.ParseShare(c.Partition); err != nil {
			return opt, err
		}
	}
	if opt.MemoryLimit, err = c.MaxMemory.forData(); err == nil {
		err = opt.Settle()
	}
	if err != nil {
		return opt, err
	}
	_, grouped := machine.Probe().GroupRoom()
	limitHeap(opt.MemoryLimit, c.MaxMemory > 0 || grouped)
	switch {
	case c.Directed:
		opt.Direction = convert.Directed
	case c.Symmetrise:
		opt.Direction = convert.Symmetrise
	}
	return opt, nil
}

// Run converts.
func (c *convertCmd) Run(env *environment) error {
	opt, err := c.options()
	if err != nil {
		return err
	}
	res, took, err := watched(env, func(bar *progress) (*convert.Result, error) {
		opt.Progress = bar.report()
		opt.Log = func(line string) {
			bar.finish()
			env.note("%s", line)
		}
		return convert.Run(env.ctx, c.Source, c.Dataset, opt)
	})
	if err != nil {
		return err
	}
	r := convertResult{paths.Text(c.Source), paths.Text(c.Dataset), res, took.Seconds()}
	if c.DryRun {
		return c.answer(env, r, "%s would be: %s; %s nodes, at most %s edges (%s), %s; at most %s of memory and "+
			"%s of temporary files\n", r.Dataset, r.Kind, humanize.Comma(r.Nodes), humanize.Comma(r.Edges), r.Direction,
			machine.Bytes(r.Bytes), machine.Bytes(r.MemoryPeak), machine.Bytes(r.TempPeak))
	}
	return c.answer(env, r,
		"%s: %s; %s nodes, %s edges (%s; %s in the source), %d features, %d classes, %d splits, %s in %s\n",
		r.Dataset, r.Kind, humanize.Comma(r.Nodes), humanize.Comma(r.Edges), r.Direction, humanize.Comma(r.SourceEdges),
		r.FeatureDim, r.Classes, r.Splits, machine.Bytes(r.Bytes), durationText(took))
}
