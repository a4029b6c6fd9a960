package convert

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/runs"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/csc"
	"github.com/khop-gnn/khop/internal/names"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// made is what a task has made. Each kind of task fills in its own.
type made struct {
	Nodes      []nodesMade       `json:"nodes,omitempty"`
	Types      []source.EdgeType `json:"types,omitempty"`
	Columns    []columnMade      `json:"columns,omitempty"` // of edges
	Edges      int64             `json:"edges,omitempty"`   // as the source lists them; or those of a range
	Undirected bool              `json:"undirected,omitempty"`
	TimeUnit   string            `json:"time_unit,omitempty"`
	Read       int64             `json:"source_bytes,omitempty"`
	// Files are edges by their targets, and by their sources where both directions are stored.
	Files []*runs.File   `json:"files,omitempty"`
	Maps  [][]stored     `json:"maps,omitempty"` // of node types, of read tasks: the numbers of their keys
	Range *rangeMade     `json:"range,omitempty"`
	Notes []formats.Note `json:"notes,omitempty"`
}

// nodesMade is a node type.
type nodesMade struct {
	Name    string       `json:"name"`
	Count   int64        `json:"count"`
	Counted bool         `json:"counted,omitempty"` // as many as edges name
	Keys    *keys        `json:"keys,omitempty"`
	Degrees *stored      `json:"degrees,omitempty"` // edges of each, int64
	Order   *stored      `json:"order,omitempty"`   // its nodes in a new order, uint32
	Times   []columnMade `json:"times,omitempty"`   // columns
	Classes int64        `json:"classes,omitempty"`
	Others  []string     `json:"others,omitempty"` // lists of strings that are not of nodes
}

// columnMade is a column.
type columnMade struct {
	Name   string             `json:"name"`
	DType  string             `json:"dtype"`
	Shape  []int64            `json:"shape,omitempty"`
	Unit   string             `json:"unit,omitempty"`
	Fields []byte             `json:"fields,omitempty"`
	Code   *graph.Code        `json:"code,omitempty"`
	Found  *source.TimesFound `json:"found,omitempty"` // in a column of times
}

func newColumnMade(c *graph.Column) columnMade {
	return columnMade{Name: c.Name, DType: c.DType.String(), Shape: c.Shape, Unit: c.Unit, Fields: c.Fields,
		Code: c.Code}
}

// column returns the column in the form that graphs have.
func (m *columnMade) column() (graph.Column, error) {
	dtype, err := unified.ParseDType(m.DType)
	c := graph.Column{Name: m.Name, DType: dtype, Shape: m.Shape, Unit: m.Unit, Fields: m.Fields,
		Code: m.Code}
	if err == nil {
		err = names.Check("column", c.Name)
	}
	return c, err
}

func columnsOf(list []columnMade) (columns []graph.Column, err error) {
	for i := range list {
		c, err := list[i].column()
		if err != nil {
			return nil, fmt.Errorf("%w: column %.80q: %w", formats.ErrCorrupt, list[i].Name, err)
		}
		columns = append(columns, c)
	}
	return columns, nil
}

// openSource opens the source, which is brought if it has an address. One is refused that is not what it was when tasks
// were planned.
func (t *task) openSource(ctx context.Context) error {
	content, err := t.c.come(ctx, t.plan.Whole != "")
	if err == nil && content != t.plan.Content {
		err = source.Error(t.plan.Source, "", -1, "plan the tasks again",
			fmt.Errorf("%w: since the tasks were planned", source.ErrChanged))
	}
	if err != nil {
		return err
	}
	if t.c.tree, err = t.c.open(); err != nil {
		return err
	}
	return t.sameSource()
}

// openPart opens a part of the source.
func (t *task) openPart(ctx context.Context, part source.Slice) error {
	c := t.c
	if err := t.openSource(ctx); err != nil {
		return err
	}
	r, at, err := recognise(c.tree, t.plan.Kind)
	if err != nil {
		return err
	}
	c.kind = r.Name
	nodes, err := c.openTables()
	if err != nil {
		return err
	}
	request := c.request(nodes)
	part.Facts = t.plan.Facts
	request.Slice = &part
	c.graph, err = r.Read(ctx, at, request)
	return err
}

// reading runs a task that reads the source, closes it, and says that the task is done.
func (t *task) reading(ctx context.Context, read func(ctx context.Context, m *made) error) (err error) {
	var m made
	whole := false
	defer func() {
		if err = t.closeSource(err); err == nil && whole { // where a mapped file faults, err is not set yet
			err = t.finish(m)
		}
	}()
	if err = read(ctx, &m); err == nil {
		m.Read, whole = t.c.tree.Read(), true
	}
	return err
}

// sameSource compares the files of the source with what they were when tasks were planned.
func (t *task) sameSource() error {
	for _, f := range t.plan.Files {
		st, err := os.Stat(f.Path)
		if err == nil && (st.Size() != f.Size || st.ModTime().UnixNano() != f.Time) {
			err = fmt.Errorf("%w: since the tasks were planned", source.ErrChanged)
		}
		if err != nil {
			return source.Error(f.Path, "", -1, "plan the tasks again", err)
		}
	}
	return nil
}

// closeSource says that the source was the same all the time, and closes it.
func (t *task) closeSource(err error) error {
	c := t.c
	if c.tree == nil {
		return errors.Join(err, c.leave())
	}
	if err != nil {
		err = c.tree.ExplainText(err)
	}
	if changed := c.unchanged(); changed != nil {
		err = changed
	} else if changed = t.sameSource(); changed != nil && err == nil {
		err = changed
	}
	if c.graph != nil {
		err = errors.Join(err, c.graph.Close())
	}
	return errors.Join(err, c.tree.Close(), c.leave())
}

// readPart writes the edges of a part of the source.
func (t *task) readPart(ctx context.Context, m *made) error {
	c := t.c
	if err := t.openPart(ctx, source.Slice{Number: t.Number, Of: t.plan.Reads}); err != nil {
		return err
	}
	c.keepOfEdges()
	o, err := c.plan()
	if err != nil {
		return err
	}
	times, degrees := c.timeColumns(), t.newDegrees()
	m.Files, err = t.writeEdges(ctx, o.both, t.plan.Numbers, func(yield func(source.Batch) error) error {
		return c.graph.Edges.Each(func(b source.Batch) error {
			for i := range times {
				times[i].found.LookAtTimes(times[i].Column, c.opt.TimeUnit, b.Columns[times[i].at])
			}
			if err := degrees.add(b); err != nil {
				return err
			}
			m.Edges += int64(len(b.Src))
			return yield(b)
		})
	})
	if err != nil {
		return err
	}
	if err := t.describe(m, times); err != nil {
		return err
	}
	return degrees.write(m)
}

// describe says what the graph is.
func (t *task) describe(m *made, times []timed) (err error) {
	g := t.c.graph
	m.Types, m.Undirected, m.TimeUnit = g.Types, g.Edges.Undirected, g.TimeUnit
	for i := range g.Nodes {
		n := &g.Nodes[i]
		is := nodesMade{Name: n.Name, Count: n.Count, Counted: n.Counted, Classes: n.Classes}
		if n.Keys != nil {
			if is.Keys, err = t.writeKeys(fmt.Sprintf("keys-%d", i), n.Keys); err != nil {
				return err
			}
		}
		for _, list := range n.Strings {
			if list.Others {
				is.Others = append(is.Others, list.Name)
			}
		}
		m.Nodes = append(m.Nodes, is)
	}
	for i := range g.Edges.Columns {
		m.Columns = append(m.Columns, newColumnMade(&g.Edges.Columns[i]))
	}
	for i := range times {
		col := newColumnMade(&times[i].Column)
		if col.Found = &times[i].found; times[i].node < 0 {
			m.Columns[times[i].at] = col
		} else {
			m.Nodes[times[i].node].Times = append(m.Nodes[times[i].node].Times, col)
		}
	}
	m.Notes = t.c.spell(g.Notes)
	return nil
}

// writeEdges writes edges in the orders that the tasks behind ask for.
func (t *task) writeEdges(ctx context.Context, both, listed bool,
	each func(yield func(source.Batch) error) error) (files []*runs.File, err error) {
	g := t.c.graph
	orders := []runs.By{runs.ByTarget}
	switch {
	case listed:
		orders[0] = runs.AsListed
	case both:
		orders = append(orders, runs.BySource)
	}
	var all []*runs.Writer
	defer func() {
		for _, w := range all {
			err = errors.Join(err, w.Close())
		}
	}()
	for i, by := range orders {
		w, err := runs.Create(filepath.Join(t.dir(), fmt.Sprintf("edges-%d", i)),
			runs.Layout{Types: g.Types, Widths: runs.Widths(g.Edges.Columns), By: by}, &t.c.budget)
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	if err := each(func(b source.Batch) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for _, w := range all {
			if err := w.Add(b); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return nil, t.c.explainBeyond(err)
	}
	for _, w := range all {
		f, err := w.Finish()
		if err != nil {
			return nil, t.c.explainBeyond(err)
		}
		files = append(files, f)
	}
	return files, nil
}

// explainBeyond says what to do about an id that no node can have.
func (c *conversion) explainBeyond(err error) error {
	if beyond := new(source.BeyondError); errors.As(err, &beyond) {
		return source.Error(c.src, "", -1, "number the nodes from 0, or take the ids as names", err)
	}
	return err
}

// degrees counts the edges of each node, where nodes get numbers by them.
type degrees struct {
	t     *task
	count [][]int64 // of each node type; nil: they do not
}

func (t *task) newDegrees() *degrees {
	d := &degrees{t: t}
	if t.c.opt.Reorder == ByDegree && t.plan.Whole == "" {
		d.count = make([][]int64, len(t.c.graph.Nodes))
	}
	return d
}

func (d *degrees) add(b source.Batch) error {
	if d.count == nil {
		return nil
	}
	types := d.t.c.graph.Types
	see := func(t int, id int64) error {
		if uint64(id) >= maxNodes {
			return &source.BeyondError{ID: id}
		}
		if more := id + 1 - int64(len(d.count[t])); more > 0 {
			grown, err := source.Grow(&d.t.c.ledger, d.count[t], int(more))
			if err != nil {
				return err
			}
			d.count[t] = grown[:id+1]
		}
		d.count[t][id]++
		return nil
	}
	for i := range b.Src {
		typ := types[source.TypeAt(b.Types, i)]
		if err := errors.Join(see(typ.Source, b.Src[i]), see(typ.Target, b.Dst[i])); err != nil {
			return d.t.c.explainBeyond(err)
		}
	}
	return nil
}

func (d *degrees) write(m *made) error {
	for t, count := range d.count {
		s, err := d.t.store(fmt.Sprintf("degrees-%d", t), unified.FromSlice(count).Bytes())
		if err != nil {
			return err
		}
		m.Nodes[t].Degrees = &s
		d.t.c.ledger.Give(pinned.Sources, 8*int64(cap(count)))
	}
	return nil
}

// store writes a file.
func (t *task) store(name string, data []byte) (stored, error) {
	out, err := t.create(name)
	if err != nil {
		return stored{}, err
	}
	if _, err := out.Write(data); err != nil {
		return stored{}, errors.Join(err, out.file.Close())
	}
	return out.finish()
}

// readNodes writes what the source has beside edges: a dataset of its nodes, without edges.
func (t *task) readNodes(ctx context.Context, m *made) error {
	c := t.c
	if err := t.openPart(ctx, source.Slice{Nodes: true}); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{c.addTables, c.choose} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	o, err := c.plan()
	if err != nil {
		return err
	}
	times := slices.DeleteFunc(c.timeColumns(), func(x timed) bool { return x.node < 0 })
	if err := c.lookAtTimes(ctx, times); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{c.narrow, c.pad} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := t.describe(m, times); err != nil {
		return err
	}
	return t.writeNodes(ctx, o)
}

// nodesName is the dataset of nodes in the folder of data.
const nodesName = "nodes"

// writeNodes writes a dataset of all that the graph has beside edges.
func (t *task) writeNodes(ctx context.Context, o *order) (err error) {
	c := t.c
	s, err := c.schema(o)
	if err != nil {
		return err
	}
	res := c.result(s, o)
	s.EdgeColumns = nil
	for i := range s.Edges {
		s.Edges[i].Order = graph.BySource
	}
	w, err := formats.Create(filepath.Join(t.dir(), nodesName), formats.WriterOptions{Progress: c.opt.Progress,
		Provenance: c.provenance(res), Inputs: c.inputs()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	if err := writeNoEdges(w, s); err != nil {
		return err
	}
	return c.commitColumns(ctx, w, s)
}

// writeNoEdges writes the structure of a graph without edges.
func writeNoEdges(w *formats.Writer, s *graph.Schema) error {
	cw, err := w.Topology("indptr", unified.Int64, s.NumNodes()+1)
	if err := fill(cw, err, func() error {
		zeros := make([]byte, fileBuffer)
		for left := 8 * (s.NumNodes() + 1); left > 0; left -= int64(len(zeros)) {
			if _, err := cw.Write(zeros[:min(left, int64(len(zeros)))]); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	cw, err = w.Topology("indices", s.IDType(), 0)
	if err := fill(cw, err, func() error { return nil }); err != nil || len(s.Edges) < 2 {
		return err
	}
	cw, err = w.Topology("type", typeOf(len(s.Edges)), 0)
	return fill(cw, err, func() error { return nil })
}

// typeOf returns the dtype of edge types.
func typeOf(types int) unified.DType {
	if csc.TypeBytes(types) == 2 {
		return unified.Uint16
	}
	return unified.Uint8
}

// readWhole reads the source as Run does, and writes edges and nodes.
func (t *task) readWhole(ctx context.Context, m *made) error {
	c := t.c
	if err := t.openSource(ctx); err != nil {
		return err
	}
	if err := c.read(ctx, c.tree); err != nil {
		return err
	}
	o, err := c.prepare(ctx, false)
	if err != nil {
		return err
	}
	schema, err := c.schema(o)
	if err != nil {
		return err
	}
	c.noteShared(schema, c.splits())
	if _, err = c.judge(schema, o); err != nil {
		return err
	}
	gaps := &gaps{c: c}
	if c.watch {
		gaps = c.newGaps(c.graph.Nodes)
		defer gaps.close()
	}
	m.Files, err = t.writeEdges(ctx, o.both, false, gaps.watch(c.graph.Edges.Each))
	if err != nil {
		return err
	}
	gaps.say()
	m.Edges = c.graph.Edges.Count
	if err := t.describe(m, nil); err != nil {
		return err
	}
	return t.writeNodes(ctx, o)
}
