package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"strconv"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// ErrOptions is returned for options that make no sense, or none for the source at hand.
var ErrOptions = errors.New("invalid options")

// ErrUnknown is returned for a source of no known kind.
var ErrUnknown = errors.New("not recognised")

// Direction says which directions of an edge are stored.
type Direction uint8

const (
	// AsGiven stores both directions where the format is undirected by definition, else the edges as listed.
	AsGiven Direction = iota
	// Directed stores the edges as listed.
	Directed
	// Symmetrise stores both directions.
	Symmetrise
)

// Options say how to convert. The zero value recognises everything.
type Options struct {
	// From names the kind of the source (see Kinds); "" recognises it.
	From      string
	Direction Direction
	// Features and Labels are .npy files with a row a node: features [n, width] of any number type, labels [n] of
	// integers. They go beside, or in place of, what the source has.
	Features, Labels string
	// Columns name the fields of an edge list, see edgelist.Options.
	Columns []string
	// IDs says what the ids of an edge list are: "auto" (or ""), "numbers", "names".
	IDs string
	// Force replaces a dataset that is there.
	Force bool
	// MemoryLimit bounds, in bytes, what reading the source and building the structure take together, beside some
	// megabytes of buffers; 0: half of what the machine has free. Settle lowers it to what the control group leaves.
	MemoryLimit int64
	Progress    formats.Progress
	// Log, if set, is told what is understood and what is about to happen, a line at a time.
	Log func(line string)
}

// Result says what was converted. "khop convert --json" prints it.
type Result struct {
	Kind        string   `json:"kind"` // of the source
	Nodes       int64    `json:"nodes"`
	Edges       int64    `json:"edges"`        // stored
	SourceEdges int64    `json:"source_edges"` // listed in the source
	Direction   string   `json:"direction"`
	FeatureDim  int64    `json:"feature_dim"`
	Classes     int64    `json:"classes"`
	Splits      int      `json:"splits"`
	Bytes       int64    `json:"bytes"` // of all arrays, about
	Notes       []string `json:"notes"`
	MemoryPeak  int64    `json:"memory_peak"` // the most that counted against MemoryLimit at a time; 0 without a limit
}

// Run converts the file or directory src to a new dataset at dst.
//
// Errors: *formats.Error with file, row and remedy for what is wrong with the source; ErrUnknown, ErrOptions;
// pinned.ErrLimit, which says what is needed; formats.ErrExist and formats.ErrSpace for the target;
// context.Cause(ctx). After an error dst is as it was: it holds no dataset, or the one that Force was to replace.
func Run(ctx context.Context, src, dst string, opt Options) (res *Result, err error) {
	if opt.Log == nil {
		opt.Log = func(string) {}
	}
	if err := opt.Settle(); err != nil {
		return nil, err
	}
	// say at once, not after an hour of reading, that the target cannot be
	w, err := formats.Create(dst, formats.WriterOptions{Force: opt.Force})
	if err != nil {
		return nil, err
	}
	if err := w.Abort(); err != nil {
		return nil, err
	}
	c := &conversion{src: src, dst: dst, opt: opt, temp: filepath.Dir(filepath.Clean(dst))}
	c.ledger.SetLimit(opt.MemoryLimit)
	err = pinned.Guard(func() error { // temporary files are mapped
		res, err = c.run(ctx)
		return err
	})
	if errors.Is(err, pinned.ErrFault) {
		err = source.Error(c.temp, "", -1, "see whether the disk is damaged, or choose a target on another one",
			fmt.Errorf("a temporary file of the edges: %w", err))
	}
	if err != nil {
		return nil, err
	}
	return res, nil
}

// Settle sets MemoryLimit to the limit that Run keeps: the default where it is 0, and no more than what the control
// group leaves. pinned.ErrLimit where that is nothing. Run calls it.
func (o *Options) Settle() error {
	m := machine.Probe()
	if o.MemoryLimit == 0 {
		o.MemoryLimit = m.Room() / 2
	}
	room, ok := m.GroupRoom()
	if !ok {
		return nil
	}
	if room <= 0 {
		return fmt.Errorf("%w: the control group allows %s, of which %s are in use, and converting takes %s and more; "+
			"allow more, or end others in the group", pinned.ErrLimit, machine.Bytes(m.MemoryLimit),
			machine.Bytes(m.MemoryInGroup), machine.Bytes(machine.Own))
	}
	o.MemoryLimit = min(o.MemoryLimit, room)
	return nil
}

// conversion is one run.
type conversion struct {
	src, dst string
	opt      Options
	temp     string // directory for temporary files
	ledger   pinned.Ledger

	kind   string
	graph  *source.Graph
	tables []*table
}

func (c *conversion) run(ctx context.Context) (res *Result, err error) {
	if err := c.read(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.graph.Close()) }()
	debug.FreeOSMemory() // what the reader has given back makes room for the structure
	return c.write(ctx)
}

// read recognises the source and reads it, with the tables beside it.
func (c *conversion) read(ctx context.Context) (err error) {
	k, err := recognise(c.src, c.opt.From)
	if err != nil {
		return err
	}
	c.kind = k.name
	if !k.text && (c.opt.Columns != nil || c.opt.IDs != "" && c.opt.IDs != "auto") {
		return fmt.Errorf("%w: columns and ids are for edge lists, %s is: %s", ErrOptions, c.src, k.name)
	}
	nodes, err := c.openTables()
	if err != nil {
		return err
	}
	c.opt.Log(fmt.Sprintf("%s: %s", c.src, k.title))
	if c.graph, err = k.read(ctx, c, nodes); err != nil {
		return err
	}
	if err = c.addTables(ctx); err != nil {
		err = errors.Join(err, c.graph.Close())
	}
	return err
}

// write writes the dataset.
func (c *conversion) write(ctx context.Context) (res *Result, err error) {
	g := c.graph
	t, err := c.plan(ctx)
	if err != nil {
		return nil, err
	}
	defer t.close()
	schema := graph.Schema{
		Nodes: []graph.NodeType{{Name: "node", Count: g.Nodes}},
		Edges: []graph.EdgeType{{Source: "node", Relation: "edge", Target: "node", Count: t.edges}},
	}
	for _, col := range g.Columns {
		schema.Nodes[0].Columns = append(schema.Nodes[0].Columns, col.Column)
	}
	for _, col := range g.Edges.Columns {
		schema.EdgeColumns = append(schema.EdgeColumns, col.Column)
	}
	if err := schema.Init(); err != nil {
		return nil, err
	}
	res = c.result(&schema, t)
	c.opt.Log(fmt.Sprintf("writing %s: %d nodes, %d edges (%s), about %s", c.dst, res.Nodes, res.Edges, res.Direction,
		machine.Bytes(res.Bytes)))
	w, err := formats.Create(c.dst, formats.WriterOptions{
		Force: c.opt.Force, Progress: c.opt.Progress, ExpectBytes: res.Bytes,
		Provenance: map[string]string{
			"source":       paths.Text(filepath.Base(filepath.Clean(c.src))),
			"kind":         c.kind,
			"source_edges": strconv.FormatInt(res.SourceEdges, 10),
			"direction":    res.Direction,
			"classes":      strconv.FormatInt(res.Classes, 10),
		}})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Abort())
		}
	}()
	if err = t.write(ctx, w, &schema); err != nil {
		return nil, err
	}
	t.close()
	if err = c.writeColumns(ctx, w); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err = w.Commit(schema); err != nil {
		return nil, err
	}
	res.Notes = append(res.Notes, t.notes()...)
	res.MemoryPeak = c.ledger.Peak()
	for _, n := range res.Notes {
		c.opt.Log("note: " + n)
	}
	return res, nil
}

func (c *conversion) result(s *graph.Schema, t *topology) *Result {
	g := c.graph
	r := &Result{
		Kind: c.kind, Nodes: g.Nodes, Edges: t.edges, SourceEdges: g.Edges.Count, Direction: t.direction,
		Classes: g.Classes,
		Splits:  len(g.Splits), Notes: append([]string{}, g.Notes...),
	}
	r.Bytes = 8*(r.Nodes+1) + r.Edges*s.IDType().Size()
	for _, col := range s.EdgeColumns {
		r.Bytes += r.Edges * col.RowBytes()
	}
	for _, col := range s.Nodes[0].Columns {
		r.Bytes += r.Nodes * col.RowBytes()
		if col.Name == "feature" {
			r.FeatureDim = col.Width()
		}
	}
	for _, split := range g.Splits {
		r.Bytes += int64(len(split.IDs)) * s.IDType().Size()
	}
	return r
}

// writeColumns writes node columns, names and splits.
func (c *conversion) writeColumns(ctx context.Context, w *formats.Writer) error {
	for _, col := range c.graph.Columns {
		cw, err := w.NodeColumn(0, col.Column, c.graph.Nodes)
		if err := fill(cw, err, func() error { return col.Write(ctx, cw) }); err != nil {
			return err
		}
	}
	for _, list := range c.graph.Strings {
		sw, err := w.NodeStrings(0, list.Name, list.Rows)
		if err := fill(sw, err, func() error { return list.Each(sw.Write) }); err != nil {
			return err
		}
	}
	for _, split := range c.graph.Splits {
		dtype, width := unified.Int64, int64(8)
		if c.graph.Nodes < 1<<31 {
			dtype, width = unified.Int32, 4
		}
		cw, err := w.Split(split.Name, split.Index, 0, dtype, int64(len(split.IDs)))
		a, err := newArray(cw, err)
		if err != nil {
			return err
		}
		for _, id := range split.IDs {
			a.put(id, width)
		}
		if err := a.close(); err != nil {
			return err
		}
	}
	return nil
}

// fill writes what an open writer is for, and closes it.
func fill(w io.Closer, err error, write func() error) error {
	if err == nil {
		err = write()
	}
	if err == nil {
		err = w.Close()
	}
	return err
}
