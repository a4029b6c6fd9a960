package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/khop-gnn/khop/formats/export"
	"github.com/khop-gnn/khop/formats/remote"
	"github.com/khop-gnn/khop/integrations/gnn"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

type embedCmd struct {
	Dataset string `arg:"" help:"Dataset directory."`

	flagsOf[gnn.EmbedOptions] `embed:""`

	Blocks string `placeholder:"FILE" type:"path" help:"With --layers: file to exchange rows and sums through."`

	liveFlags `embed:""`
	jsonFlag  `embed:""`
}

// embedResult is what "khop embed --json" prints. Scripts rely on the names.
type embedResult struct {
	Dataset string `json:"dataset"`
	*gnn.EmbedResult
}

// Run embeds.
func (c *embedCmd) Run(env *environment) error {
	if remote.IsAddress(c.Dataset) {
		return usageError("khop embed reads and writes a folder: copy the dataset to one, and name that")
	}
	if err := c.check(); err != nil {
		return err
	}
	c.opt.MaxMemory, c.opt.Parquet = env.memory.bytes, export.NewTable
	if path, err := sparse.TuningPath(); err == nil { // without a home there are no choices
		if c.opt.Tuning, _, err = env.tuning(path); err != nil {
			return err
		}
	}
	in := bufio.NewReader(os.Stdin)
	if c.Blocks != "" {
		blocks, err := openBlocks(c.Blocks, in, env.stdout)
		if err != nil {
			return err
		}
		defer blocks.file.Close()
		c.opt.Rows = blocks.rows
	}
	if c.Live {
		return c.serveLive(env, in)
	}
	result, took, err := watched(env, func(bar *progress) (*gnn.EmbedResult, error) {
		c.opt.Progress = bar.report()
		return gnn.Embed(env.ctx, c.Dataset, c.opt)
	})
	if err != nil {
		return err
	}
	r := embedResult{paths.Text(c.Dataset), result}
	if c.opt.Plan {
		return c.show(env, r, r.print)
	}
	return c.answer(env, r, "%s: column %s of %d nodes, %d numbers each, in %s (%s read, %s written)\n",
		r.Dataset, r.Column, r.Nodes, r.Width, durationText(took), machine.Bytes(r.Read), machine.Bytes(r.Written))
}

// print says what a plan comes to.
func (r embedResult) print(env *environment) error {
	fmt.Fprintf(env.stdout, "%s: column %s of %d nodes, %d numbers each\n", r.Dataset, r.Column, r.Nodes, r.Width)
	if r.ReadRate > 0 {
		fmt.Fprintf(env.stdout, "the disk reads %s a second in order, and writes %s\n",
			machine.Bytes(int64(r.ReadRate)), machine.Bytes(int64(r.WriteRate)))
	}
	t := newTable(env.stdout)
	t.row("step", "way", "passes", "memory", "read", "written", "time")
	seconds := func(s float64) string { return durationText(time.Duration(s * float64(time.Second))) }
	for _, s := range r.Steps {
		t.row(s.Step, cmp.Or(s.Way, "rows alone"), s.Passes, machine.Bytes(s.Memory), machine.Bytes(s.PlannedRead),
			machine.Bytes(s.PlannedWritten), seconds(s.PlannedSeconds))
	}
	t.row("all", "", "", "", machine.Bytes(r.PlannedRead), machine.Bytes(r.PlannedWritten), seconds(r.PlannedSeconds))
	t.section("With other memory")
	t.row("  memory", "passes", "read", "written", "time")
	for _, c := range r.Choices {
		t.row("  "+machine.Bytes(c.Memory), c.Passes, machine.Bytes(c.Read), machine.Bytes(c.Written),
			seconds(c.Seconds))
	}
	return t.flush()
}

// blocks has another process compute rows: own rows and sums of some nodes are in a file, one behind the
// other, and a line says so. The other process writes the rows behind them, and answers with a line: empty, or an
// error's text. docs/embed.md describes it.
type blocks struct {
	file    *os.File
	say     *json.Encoder
	answers *bufio.Reader
}

// blockLine describes a block. Scripts rely on the names.
type blockLine struct {
	Layer int        `json:"layer"` // from 0
	Nodes string     `json:"nodes"` // their type
	Own   int        `json:"own_floats"`
	Sums  []blockSum `json:"sums"`
	To    int        `json:"row_floats"`
}

// blockSum is the sums over edges of a type.
type blockSum struct {
	Edges  string `json:"edges"`
	Floats int    `json:"floats"`
}

func openBlocks(path string, in *bufio.Reader, out io.Writer) (*blocks, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &blocks{f, json.NewEncoder(out), in}, nil
}

// errRows is what the other process answers.
var errRows = errors.New("rows were not computed")

func (b *blocks) rows(layer int, nodes string, own []float32, sums map[string][]float32, y []float32) error {
	at, parts := int64(0), [][]float32{own}
	line := blockLine{layer, nodes, len(own), []blockSum{}, len(y)}
	for _, edges := range slices.Sorted(maps.Keys(sums)) {
		parts = append(parts, sums[edges])
		line.Sums = append(line.Sums, blockSum{edges, len(sums[edges])})
	}
	for _, part := range parts {
		n, err := b.file.WriteAt(unified.FromSlice(part).Bytes(), at)
		if at += int64(n); err != nil {
			return err
		}
	}
	if err := b.say.Encode(line); err != nil {
		return err
	}
	answer, err := b.answers.ReadString('\n')
	if err != nil {
		return fmt.Errorf("%w: no answer: %w", errRows, err)
	}
	if answer != "\n" {
		return fmt.Errorf("%w: %s", errRows, answer[:len(answer)-1])
	}
	_, err = b.file.ReadAt(unified.FromSlice(y).Bytes(), at)
	return err
}
