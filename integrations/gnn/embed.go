package gnn

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/gnn/internal/embed"
	"github.com/khop-gnn/khop/internal/names"
	"github.com/khop-gnn/khop/internal/narrow"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// EmbedOptions say what Embed computes, and how. Package internal/option reads the tags.
type EmbedOptions struct {
	Checkpoint string `kind:"path" value:"FILE" help:"Model that khop train --checkpoint saved."`
	Out        string `value:"COLUMN" default:"embedding" help:"Column to write, or a .npy or .parquet file."`
	// Nodes are a range, or a file of ids. Only the rows that they need are computed, and their rows, ascending, go to
	// a file.
	Nodes string `value:"NODES" help:"Write rows of these nodes only: 0-999, or @FILE with an id or range per line."`
	// Layer is the layer whose rows are written, from 1; 0 means the last one, whose rows are scores of classes.
	Layer      int    `default:"0" range:"0,2147483647" help:"..."`
	LayerDType string `name:"layer-dtype" default:"float32" choices:"float32,float16,bfloat16" help:"..."`
	Force      bool   `help:"Replace a column or file of the same name."`
	// Keep leaves the layers' rows in the folder beside the dataset, with a checksum of 8 bytes for each row of
	// features, and for the edges of each node. A later run finds changes by these.
	Keep      bool  `help:"Keep the rows of all layers, so that the next run computes only changes."`
	Plan      bool  `help:"Compute nothing; print the cost of each step, and the effect of other --max-memory."`
	Workers   int   `default:"0" range:"0,32767" help:"Goroutines; 0: one per core. They change no result."`
	MaxMemory int64 `same:"max-memory" kind:"size" help:"...bounded-memory"`
	// NoteEvery is the most computing time that a killed run loses.
	NoteEvery time.Duration `default:"1s" help:"..."`
	// Layers, in place of a checkpoint, are your own layers: for each, how it reduces the previous layer's rows by edge
	// type, and the width of its rows. Rows computes a layer's rows, into y, for some nodes of a type, from their own
	// rows of the previous layer and from the sums by edge type ("a:to:b"); rows are one behind the other. It gets
	// 4,096 nodes at a time, fewer at the end. Name distinguishes layers that give different bytes.
	Layers string `value:"REDUCE:WIDTH,.." help:"..."`
	Name   string `value:"TEXT" help:"With --layers: name that tells a run from others of the same widths."`
	Rows   func(layer int, nodes string, own []float32, sums map[string][]float32, y []float32) error
	Type   string `value:"TYPE" help:"With --layers: node type whose rows are written; default: the first one."`

	// Parquet begins a table of columns for an Out that is a .parquet file, as formats/export.NewTable does: put writes
	// some rows, the elements of each column, and end ends the table.
	Parquet func(w io.Writer, columns []graph.Column) (put func(elements [][]byte) error, end func() error, err error)
	// Tuning says how sparse products are computed; nil is the default. It changes no result.
	Tuning *sparse.Tuning
	// Progress receives how many nodes of a step are done.
	Progress func(step string, done, total int64)
}

// EmbedResult is the result of Embed, or the plan (EmbedOptions.Plan).
type EmbedResult struct {
	Column string `json:"column"`
	Nodes  int64  `json:"nodes"`
	Width  int    `json:"width"`
	// For all steps: bytes read from tables and edges, bytes written to tables, and the time.
	Read    int64   `json:"bytes_read"`
	Written int64   `json:"bytes_written"`
	Seconds float64 `json:"seconds"`
	// The same as planned, and the disk's speed in bytes a second, for a file from one end to the other.
	PlannedRead    int64   `json:"planned_bytes_read"`
	PlannedWritten int64   `json:"planned_bytes_written"`
	PlannedSeconds float64 `json:"planned_seconds"`
	ReadRate       float64 `json:"disk_read_bytes_per_second"`
	WriteRate      float64 `json:"disk_write_bytes_per_second"`

	Steps []struct {
		Step           string  `json:"step"`
		Nodes          int64   `json:"nodes"`
		Way            string  `json:"way"`
		Passes         int     `json:"passes"`
		Memory         int64   `json:"memory_bytes"`
		Read           int64   `json:"bytes_read"`
		Written        int64   `json:"bytes_written"`
		Requests       int64   `json:"requests"`
		Seconds        float64 `json:"seconds"`
		PlannedRead    int64   `json:"planned_bytes_read"`
		PlannedWritten int64   `json:"planned_bytes_written"`
		PlannedSeconds float64 `json:"planned_seconds"`
	} `json:"steps"`
	// Choices are the plans with other limits of memory; only with Plan.
	Choices []struct {
		Memory  int64   `json:"memory_bytes"`
		Passes  int     `json:"passes"`
		Read    int64   `json:"bytes_read"`
		Written int64   `json:"bytes_written"`
		Seconds float64 `json:"seconds"`
	} `json:"choices,omitempty"`
}

// embedding is a run of Embed.
type embedding struct {
	dir    string
	opt    EmbedOptions
	ds     *formats.Dataset
	p      *embed.Program
	x      []*embed.Table // features, by type of nodes; nil: no layer reads them
	folder string
	out    *embed.Table
	of     int // type of the nodes whose rows are written
}

// Embed computes rows for every node of the dataset at dir with the model of a checkpoint, layer by layer and exactly,
// and writes them as a column of a new generation of the dataset. Neither graph nor features nor layers need fit in
// memory. A run that ends early, by an error or a kill, leaves its finished work in a folder beside the dataset, and
// the next run with the same options continues from there. The bytes are the same as those of one complete run, with
// any memory.
func Embed(ctx context.Context, dir string, opt EmbedOptions) (*EmbedResult, error) {
	e := &embedding{dir: dir, opt: opt}
	defer e.close()
	if err := e.prepare(ctx); err != nil {
		return nil, err
	}
	opt = e.opt
	run := embed.Options{Folder: e.folder, Memory: opt.MaxMemory, Workers: opt.Workers, Tuning: opt.Tuning,
		Keep: opt.Keep, SaveEvery: opt.NoteEvery, Progress: opt.Progress}
	if opt.Plan {
		report, err := embed.Plan(ctx, e.p, run)
		if err != nil {
			return nil, err
		}
		return e.result(report), nil
	}
	finish, abort, err := e.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer abort()
	if err := e.verify(ctx); err != nil {
		return nil, err
	}
	report, err := embed.Run(ctx, e.p, run)
	if err != nil {
		return nil, err
	}
	result := e.result(report)
	if err := finish(); err != nil {
		return nil, err
	}
	if !opt.Keep {
		_ = os.RemoveAll(e.folder) // the column is there, and the next run uses the folder for its own
	}
	return result, nil
}

// prepare checks the options, and opens dataset and model.
func (e *embedding) prepare(ctx context.Context) error {
	option.Fill(&e.opt)
	e.opt.LayerDType = cmp.Or(e.opt.LayerDType, unified.Float32.String())
	if err := option.Check(ErrOptions, e.opt); err != nil {
		return err
	}
	e.dir = filepath.Clean(e.dir)
	return e.open(ctx)
}

// verify compares edges, features and their scales with their checksums: rows of what is damaged would be written as
// those of the dataset, with checksums of their own.
func (e *embedding) verify(ctx context.Context) error {
	read := readByModels(e.ds.Graph())
	done, total := int64(0), int64(0)
	for _, x := range read {
		total += int64(len(x.Bytes()))
	}
	for _, x := range read {
		if err := e.ds.Each(x.Bytes(), func(part []byte) error {
			if done += int64(len(part)); e.opt.Progress != nil {
				e.opt.Progress("verify", done, total)
			}
			return ctx.Err()
		}); err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
	}
	return nil
}

// begin takes what the rows go to. finish writes them there; abort, which comes after it in any case, lets go.
func (e *embedding) begin(ctx context.Context) (finish, abort func() error, err error) {
	if e.opt.toFile() {
		return func() error { return e.write(ctx) }, func() error { return nil }, e.file().Check()
	}
	to, err := formats.Extend(e.dir, formats.ExtendOptions{ExpectBytes: e.out.Rows * int64(e.out.Width) * floatBytes,
		Drop: func(owner, name string, _ int) bool {
			return owner == fmt.Sprintf("nodes/%d", e.of) && name == e.opt.Out
		}})
	if err != nil {
		return nil, nil, err
	}
	return func() error { return e.column(ctx, to) }, to.Abort, nil
}

func (e *embedding) close() {
	if e.ds != nil {
		_ = e.ds.Close()
	}
	e.ds = nil
}

// open opens dataset and model, and makes the program.
func (e *embedding) open(ctx context.Context) (err error) {
	if (e.opt.Checkpoint == "") == (e.opt.Layers == "") {
		return option.Errorf(ErrOptions, e.opt, "Checkpoint",
			": name the model, a file of khop train --checkpoint, or %s", option.NameOf(e.opt, "Layers"))
	}
	if e.ds, err = formats.Open(e.dir); err != nil {
		return err
	}
	g := e.ds.Graph()
	if e.of, err = e.opt.nodeType(g.Schema()); err != nil {
		return err
	}
	of, err := e.opt.nodes(ctx, g.Schema().Nodes[e.of].Count)
	if err != nil {
		return err
	}
	if e.opt.toParquet() && e.opt.Parquet == nil {
		return option.Errorf(ErrOptions, e.opt, "Out", " is a Parquet file: say what writes it (EmbedOptions.Parquet)")
	}
	if of != nil && !e.opt.toFile() {
		return option.Errorf(ErrOptions, e.opt, "Out",
			" is a column, which has all nodes: name a file that ends in .npy or .parquet")
	}
	if of != nil && e.opt.Keep {
		return option.Errorf(ErrOptions, e.opt, "Keep", " is for all nodes: leave out %s",
			option.NameOf(e.opt, "Nodes"))
	}
	if _, has := g.NodeColumn(e.of, e.opt.Out); has && !e.opt.Force {
		return option.Textf("%s: %w: column %q; name another one, or replace it (%s)", e.dir, formats.ErrExist,
			e.opt.Out, option.On("Force"))
	}
	if err := names.Check("column", e.opt.Out); err != nil && !e.opt.toFile() {
		return err
	}
	layers, x, name, err := e.layers(g)
	if err != nil {
		return err
	}
	e.x = x
	if e.opt.Layer > len(layers) {
		return option.Errorf(ErrOptions, e.opt, "Layer", " is %d, and the model has %d", e.opt.Layer, len(layers))
	}
	layers = layers[:cmp.Or(e.opt.Layer, len(layers))]
	dtype, err := unified.ParseDType(e.opt.LayerDType)
	if err != nil {
		return err
	}
	e.p = &embed.Program{Graph: g, Steps: steps(g, layers, x, e.of, dtype)}
	if of != nil {
		e.p.Of = make([][]int32, len(x))
		e.p.Of[e.of] = of
	}
	e.out = e.p.Steps[len(e.p.Steps)-1].To[0]
	e.p.Base = fmt.Sprintf("%s layer %d of %d %v", name, len(layers), e.of, dtype)
	e.p.Name = fmt.Sprintf("%x %s %s %x", e.ds.ID(), e.p.Base, e.opt.Out, xxh3.Hash(unified.FromSlice(of).Bytes()))
	e.folder = e.dir + ".khop-embed"
	return nil
}

// layers returns the layers of the model, the features that they read, by type of nodes, and what tells it from others.
func (e *embedding) layers(g *graph.Graph) (all []*rowsLayer, x []*embed.Table, name string, err error) {
	s, first, normalise := g.Schema(), 0, false
	if e.opt.Layers != "" {
		width := int64(0)
		if _, has := g.NodeRole(e.of, graph.Feature); has && len(s.Nodes) == 1 { // other types have other widths
			c := featureColumn(g, e.of)
			width = c.Numbers().Width()
		}
		all, err = e.opt.ownLayers(s, int(width))
		name = fmt.Sprintf("%q %q", e.opt.Layers, e.opt.Name)
	} else {
		var m *network
		if m, normalise, err = readModel(e.opt.Checkpoint); err == nil {
			all, name, first = m.rowsLayers(), m.digest(), m.layers[0].in
		}
		if err == nil && (len(s.Nodes) != 1 || len(s.Edges) != 1) {
			err = fmt.Errorf("%w: the graph has %d types of nodes and %d of edges; the model of a checkpoint takes "+
				"one each", ErrOptions, len(s.Nodes), len(s.Edges))
		}
	}
	if err != nil {
		return nil, nil, "", err
	}
	x = make([]*embed.Table, len(s.Nodes))
	for t, needed := range needed(s, all, e.of)[0] {
		if !needed {
			continue
		}
		if x[t], err = features(g, t, first, normalise); err != nil {
			return nil, nil, "", err
		}
	}
	return all, x, name, nil
}

// digest tells models apart by their parameters, each of which is hashed after its name and length.
func (m *network) digest() string {
	h := xxh3.New()
	_, _ = h.WriteString(m.kind)
	for _, p := range m.params {
		_, _ = fmt.Fprintf(h, "\n%q %d\n", p.Name, len(p.Data))
		_, _ = h.Write(unified.FromSlice(p.Data).Bytes())
	}
	sum := h.Sum128().Bytes()
	return hex.EncodeToString(sum[:])
}

// features returns the table of the features of nodes of a type, with width columns; 0: any.
func features(g *graph.Graph, t, width int, normalise bool) (*embed.Table, error) {
	name := g.Schema().Nodes[t].Name
	column, ok := g.NodeRole(t, graph.Feature)
	if !ok {
		return nil, fmt.Errorf("%w: nodes of type %q have no features, which the layers read; khop add gives them some",
			ErrOptions, name)
	}
	c := featureColumn(g, t)
	if width > 0 && c.Numbers().Width() != int64(width) {
		return nil, fmt.Errorf("%w: the model reads features of %d columns, and the graph's are %v", ErrOptions,
			width, column)
	}
	x := embed.Column(fmt.Sprintf("feature of %s", name), column)
	x.Normalise = normalise
	if c.Code != nil {
		code, numbers := narrow.Of(c.Code.Name), int(c.Numbers().Width())
		x.Width, x.Row = numbers, column.RowBytes()
		x.Decode = func(to []float32, row []byte) { code.Decode(to, row, numbers, 0) }
		return x, nil
	}
	if column.DType() == unified.Int8 {
		var err error
		x.Scale, err = scales(g, t, column)
		return x, err
	}
	if column.DType() != unified.Float32 && !column.DType().IsHalf() {
		return nil, fmt.Errorf("%w: %s, and are %v", ErrOptions, readable, column)
	}
	return x, nil
}

// result says what a run came to, or a plan.
func (e *embedding) result(report *embed.Report) *EmbedResult {
	r := &EmbedResult{Column: e.opt.Out, Nodes: e.out.Rows, Width: e.out.Width, ReadRate: report.Rates.Read,
		WriteRate: report.Rates.Write}
	r.Steps = slices.Grow(r.Steps, len(report.Steps))[:len(report.Steps)]
	for i, s := range report.Steps {
		to := &r.Steps[i]
		to.Step, to.Nodes, to.Way, to.Passes, to.Memory = s.Step, s.Nodes, s.Way, s.Passes, s.Memory
		to.Read, to.Written, to.Requests, to.Seconds = s.Did.Read, s.Did.Written, s.Did.Requests, s.Did.Seconds
		to.PlannedRead, to.PlannedWritten, to.PlannedSeconds = s.Plan.Read, s.Plan.Written, s.Plan.Seconds
		r.Read, r.Written, r.Seconds = r.Read+to.Read, r.Written+to.Written, r.Seconds+to.Seconds
		r.PlannedRead, r.PlannedWritten = r.PlannedRead+to.PlannedRead, r.PlannedWritten+to.PlannedWritten
		r.PlannedSeconds += to.PlannedSeconds
	}
	r.Choices = slices.Grow(r.Choices, len(report.Choices))[:len(report.Choices)]
	for i, c := range report.Choices {
		to := &r.Choices[i]
		to.Memory, to.Passes, to.Read, to.Written, to.Seconds = c.Memory, c.Passes, c.Read, c.Written, c.Seconds
	}
	return r
}

// column writes the rows as a column, and makes it the new generation.
func (e *embedding) column(ctx context.Context, to *formats.Writer) (err error) {
	rows, err := os.Open(filepath.Join(e.folder, e.out.Name))
	if err != nil {
		return err
	}
	defer rows.Close()
	c := graph.Column{Name: e.opt.Out, DType: unified.Float32, Shape: []int64{int64(e.out.Width)}}
	w, err := to.NodeColumn(e.of, c, e.out.Rows)
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, io.LimitReader(rows, e.out.Rows*int64(e.out.Width)*4)); err != nil {
		return err
	}
	if err := errors.Join(w.Close(), context.Cause(ctx)); err != nil {
		return err
	}
	schema := e.ds.SchemaOf()
	columns := &schema.Nodes[e.of].Columns
	*columns = append(slices.DeleteFunc(*columns, func(old graph.Column) bool { return old.Name == c.Name }), c)
	e.close()
	return to.Commit(schema)
}
