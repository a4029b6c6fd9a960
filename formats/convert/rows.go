package convert

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/formats/internal/edgesort"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/transaction"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/csc"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// keysKey is what provenance calls the columns of keys: a JSON object of their names by table. loopsKey is what it
// calls Options.Loops, where self-loops were not kept.
const (
	keysKey  = "keys"
	loopsKey = "loops"
)

// putKeys says in a provenance which columns have the keys of a database's tables. A key that was left out is not
// named: new rows could not be told from those that are stored.
func putKeys(provenance map[string]string, nodes []source.NodeType) {
	keys := map[string]string{}
	for _, n := range nodes {
		kept := slices.ContainsFunc(n.Columns, func(c source.Column) bool { return c.Name == "id" }) ||
			slices.ContainsFunc(n.Strings, func(s source.Strings) bool { return s.Name == "id" })
		if n.Key != "" && (kept || !n.Named) {
			keys[n.Name] = n.Key
		}
	}
	if len(keys) > 0 {
		text, _ := json.Marshal(keys) // texts can always be written
		provenance[keysKey] = string(text)
	}
}

// moreRows are new rows of a database's tables, on their way to a dataset.
type moreRows struct {
	c      *conversion
	ds     *formats.Dataset
	graph  *source.Graph
	sorted edgesort.Sorted // the new edges
	files  [3]source.Spool // of them
	counts []int64         // of the new edges of each type
	inputs map[string]fs.FileInfo
}

// Close frees temporary room.
func (m *moreRows) Close() error {
	errs := []error{m.graph.Close()}
	for i := range m.files {
		errs = append(errs, m.files[i].Close())
	}
	return errors.Join(errs...)
}

// openRows reads new rows, and puts them into the schema.
func (c *conversion) openRows(ctx context.Context, ds *formats.Dataset, o *AddOptions, s *graph.Schema,
	given func(int, string) bool) (_ *moreRows, err error) {
	keys, err := c.keysOfDataset(ds)
	if err != nil {
		return nil, err
	}
	m := &moreRows{c: c, ds: ds, graph: &source.Graph{}, inputs: map[string]fs.FileInfo{}}
	defer source.CloseOnError(&err, m)
	more := &tables.More{Dataset: ds, Keys: keys, Given: given}
	for _, a := range o.Rows {
		if a.Type != "" {
			return nil, option.Errorf(ErrOptions, *o, "Rows", ": %q: write TABLE=FILE", a.Type+":"+a.Name)
		}
		more.Rows = append(more.Rows, tables.NewRows{Table: a.Name, Path: a.Path})
		if m.inputs[a.Path], err = os.Stat(a.Path); err != nil {
			return nil, source.Error(a.Path, "", -1, "", err)
		}
	}
	g, err := more.Read(ctx, &source.Request{Budget: &c.budget, Progress: o.Progress, IDs: "names",
		TimesIn: o.TimesIn, Null: o.Null})
	if err != nil {
		return nil, err
	}
	m.graph = g
	unit, _ := unitOfDataset(ds.Graph().Schema())
	c.graph, c.opt.TimeUnit = m.graph, unit
	if err := c.times(ctx); err != nil {
		return nil, err
	}
	c.graph = &source.Graph{}
	if err := m.fit(s); err != nil {
		return nil, err
	}
	if err := m.say(s); err != nil {
		return nil, err
	}
	if err := m.sort(ctx, s); err != nil {
		return nil, err
	}
	return m, nil
}

// keysOfDataset returns the column of the keys of each table, if the dataset is one that rows can be added to.
func (c *conversion) keysOfDataset(ds *formats.Dataset) (keys map[string]string, err error) {
	about, s, why := ds.Manifest().Provenance, ds.Graph().Schema(), ""
	switch {
	case about["kind"] != "relbench":
		why = "is not of a database"
	case len(s.EdgeColumns) > 0:
		why = fmt.Sprintf("has columns of edges, such as %q, which new edges have not", s.EdgeColumns[0].Name)
	case ds.Graph().EdgeIDs().Valid() || !strings.HasPrefix(about["direction"], "directed") ||
		slices.ContainsFunc(s.Edges, func(e graph.EdgeType) bool { return e.Order != graph.BySource }):
		why = "has edges in an order that a database has not"
	case about[loopsKey] != "":
		why = fmt.Sprintf("has other self-loops than its database (%s)", about[loopsKey])
	}
	if why != "" {
		return nil, source.Error(ds.Path(), "", -1, "convert the whole database again", fmt.Errorf(
			"%w: rows are added to datasets of databases, and this one %s", ErrOptions, why))
	}
	if text := about[keysKey]; text != "" {
		if err := json.Unmarshal([]byte(text), &keys); err != nil {
			return nil, source.Error(ds.Path(), "", -1, ds.Remedy(), fmt.Errorf("%w: provenance %q", formats.ErrCorrupt,
				keysKey))
		}
	}
	return keys, nil
}

// fit makes the columns of the new rows those of the dataset, and the schema that of all rows.
func (m *moreRows) fit(s *graph.Schema) error {
	for t := range m.graph.Nodes {
		n := &m.graph.Nodes[t]
		s.Nodes[t].Count = n.Count
		for i := range n.Columns {
			if err := m.fitColumn(t, i, &s.Nodes[t]); err != nil {
				return err
			}
		}
	}
	return nil
}

// fitColumn makes a column that which the dataset has; one that it does not have it gets.
func (m *moreRows) fitColumn(t, i int, to *graph.NodeType) error {
	n := &m.graph.Nodes[t]
	col := n.Columns[i]
	k := slices.IndexFunc(to.Columns, func(o graph.Column) bool { return o.Name == col.Name })
	if k < 0 {
		to.Columns = append(to.Columns, col.Column)
		return nil
	}
	have := to.Columns[k]
	if !slices.Equal(have.Shape, col.Shape) {
		return source.Error(m.ds.Path(), col.Name, -1, "", fmt.Errorf("new rows of %q are %v, and the dataset has %v",
			n.Name, col.Shape, have.Shape))
	}
	to.Columns[k].Fields, to.Columns[k].Ascending = col.Fields, false // whoever writes it sees whether it ascends
	as := source.Column{Column: to.Columns[k], Write: recast(col, have.DType)}
	if have.DType.IsHalf() || have.DType == unified.Int8 && col.DType.IsFloat() {
		as.Write = m.c.narrowWriter(col, have)
	}
	n.Columns[i] = as
	scale := graph.ScaleOf(col.Name)
	if k := slices.IndexFunc(to.Columns, func(o graph.Column) bool { return o.Name == scale }); k >= 0 &&
		have.DType == unified.Int8 && col.DType.IsFloat() {
		n.Columns = append(n.Columns, source.Column{Column: to.Columns[k],
			Write: m.c.narrowWriter(col, to.Columns[k])})
	}
	return nil
}

// recast writes a column as another type, which must hold its numbers.
func recast(col source.Column, into unified.DType) func(context.Context, io.Writer) error {
	if col.DType == into {
		return col.Write
	}
	return func(ctx context.Context, w io.Writer) error {
		var out []byte
		return col.Write(ctx, &arrayfile.WholeRows{Row: col.DType.Size(), Take: func(data []byte) (err error) {
			if out, err = recastTo(out[:0], col.DType, into, data); err == nil {
				_, err = w.Write(out)
			}
			return err
		}})
	}
}

// recastTo appends numbers as those of another type.
func recastTo(to []byte, from, into unified.DType, data []byte) ([]byte, error) {
	var row [8]byte
	for size := from.Size(); int64(len(data)) >= size; data = data[size:] {
		x := from.Float(data)
		if into.IsFloat() || from.IsFloat() {
			into.Put(row[:], x)
		} else {
			binary.LittleEndian.PutUint64(row[:], uint64(from.Integer(data)))
		}
		if !into.IsFloat() && into.Float(row[:]) != x {
			return nil, fmt.Errorf("%v is not one of %v, as those of the dataset are", x, into)
		}
		to = append(to, row[:into.Size()]...)
	}
	return to, nil
}

// say says what is written, what stays and what it takes.
func (m *moreRows) say(s *graph.Schema) error {
	rows, was, listed := int64(0), m.ds.Graph().Schema(), []string{}
	for t := range s.Nodes {
		if n := s.Nodes[t].Count - was.Nodes[t].Count; m.hasRows(t) {
			rows += n
			listed = append(listed, fmt.Sprintf("%d of %q", n, s.Nodes[t].Name))
		}
	}
	edges := m.graph.Edges.Count
	all, _ := edgesort.Need(m.edges())
	memory := m.c.ledger.Total() + min(all, m.c.ledger.Left()-m.c.ledger.Left()/8)
	written, kept := m.bytes(s, edges), m.ds.FileBytes()
	for _, a := range m.ds.Manifest().Columns {
		if m.drops(a.Owner, a.Name) {
			kept -= a.Parts[0].FileBytes
		}
	}
	m.c.opt.Log(fmt.Sprintf("%s (%s) and %s come to %d nodes and %d edges: about %s are written, %s stay as they are; "+
		"it takes at most %s of memory, and about %v", source.Counted(rows, "new row", "new rows"),
		strings.Join(listed, ", "), source.Counted(edges, "new edge", "new edges"), was.NumNodes(), was.NumEdges(),
		machine.Bytes(written), machine.Bytes(kept), machine.Bytes(memory),
		time.Duration(1+written/200e6+was.NumEdges()/50e6)*time.Second))
	return nil
}

// hasRows reports whether a node type gets rows.
func (m *moreRows) hasRows(t int) bool {
	n := &m.graph.Nodes[t]
	return n.Columns != nil || n.Strings != nil || n.Count != m.ds.Graph().Schema().Nodes[t].Count
}

// edges says what edges are sorted.
func (m *moreRows) edges() edgesort.Options {
	return edgesort.Options{Nodes: m.graph.Nodes, Types: m.graph.Types, ByTime: -1, Edges: m.graph.Edges.Count,
		Budget: &m.c.budget, Progress: m.c.opt.Progress}
}

// bytes returns what is written, about.
func (m *moreRows) bytes(s *graph.Schema, edges int64) int64 {
	edges += m.ds.Graph().NumEdges()
	n := 8*(s.NumNodes()+1) + edges*(s.IDType().Size()+csc.TypeBytes(len(s.Edges)))
	for t := range m.graph.Nodes {
		for _, col := range m.graph.Nodes[t].Columns {
			n += s.Nodes[t].Count * col.RowBytes()
		}
	}
	for _, a := range m.ds.Manifest().Columns {
		if a.DType == "utf8" && m.drops(a.Owner, a.Name) {
			n += a.Parts[0].FileBytes
		}
	}
	return n
}

// drops reports whether an array of the dataset is written again.
func (m *moreRows) drops(owner, name string) bool {
	if owner == formats.OwnerGraph {
		return true
	}
	for t := range m.graph.Nodes {
		if owner != fmt.Sprint("nodes/", t) {
			continue
		}
		n := &m.graph.Nodes[t]
		return slices.ContainsFunc(n.Columns, func(c source.Column) bool { return c.Name == name }) ||
			slices.ContainsFunc(n.Strings, func(l source.Strings) bool { return l.Name == name && m.grows(t, l) })
	}
	return false
}

// grows reports whether a list of strings gets more.
func (m *moreRows) grows(t int, l source.Strings) bool {
	list, err := m.ds.Strings(t, l.Name)
	return err != nil || list.Len() != l.Rows
}

// sort sorts the new edges, and counts those of each type.
func (m *moreRows) sort(ctx context.Context, s *graph.Schema) (err error) {
	opt, c := m.edges(), m.c
	sorter, err := edgesort.New(opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sorter.Close()) }()
	if err := m.graph.Edges.Each(func(b source.Batch) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return sorter.Add(ctx, b)
	}); err != nil {
		return err
	}
	for i := range m.files {
		m.files[i].Budget = &c.budget
	}
	m.counts = make([]int64, len(opt.Types))
	sink := edgesort.Sink{Indptr: &m.files[0], Indices: &m.files[1], Types: &m.files[2]}
	if len(opt.Types) > 1 {
		sink.Types = &typeCounter{&m.files[2], m.counts, csc.TypeBytes(len(opt.Types)) == 2}
	}
	if err := sorter.Emit(ctx, sink); err != nil {
		return err
	}
	m.sorted = edgesort.Sorted{Offsets: []int64{0}, EdgeTypes: len(opt.Types)}
	for t, n := range m.graph.Nodes {
		m.sorted.Offsets = append(m.sorted.Offsets, m.sorted.Offsets[t]+n.Count)
	}
	for i, to := range []*[]byte{&m.sorted.Indptr, &m.sorted.Indices, &m.sorted.Types} {
		if *to, err = m.files[i].Bytes(); err != nil {
			return err
		}
	}
	for i := range s.Edges {
		s.Edges[i].Count += m.counts[i]
	}
	return nil
}

// write writes the arrays that change.
func (m *moreRows) write(ctx context.Context, w *formats.Writer, s *graph.Schema) error {
	if err := m.writeEdges(ctx, w, s); err != nil {
		return err
	}
	for t := range m.graph.Nodes {
		n := &m.graph.Nodes[t]
		for _, col := range n.Columns {
			cw, err := w.NodeColumn(t, col.Column, n.Count)
			if err := fill(cw, err, func() error { return m.writeColumn(ctx, t, col, cw) }); err != nil {
				return err
			}
		}
		for _, list := range n.Strings {
			if !m.grows(t, list) {
				continue
			}
			sw, err := w.NodeStrings(t, list.Name, list.Rows)
			if err := fill(sw, err, func() error {
				return list.Each(func(text string) error {
					if ctx.Err() != nil {
						return context.Cause(ctx)
					}
					return sw.Write(text)
				})
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeColumn writes the rows that the dataset has of a column, and the new ones.
func (m *moreRows) writeColumn(ctx context.Context, t int, col source.Column, w io.Writer) error {
	if old, ok := m.ds.Graph().NodeColumn(t, col.Name); ok {
		if err := source.CopyRows(ctx, m.ds, old.Bytes(), w); err != nil {
			return err
		}
	}
	return col.Write(ctx, w)
}

// writeEdges writes the structure.
func (m *moreRows) writeEdges(ctx context.Context, w *formats.Writer, s *graph.Schema) error {
	g := m.ds.Graph()
	if err := m.ds.VerifyTopology(); err != nil {
		return err
	}
	o := &order{c: &conversion{graph: m.graph}, most: s.NumEdges(), exact: true}
	sink, done, err := o.sink(w, s)
	if err != nil {
		return err
	}
	if err := pinned.Guard(func() error {
		return edgesort.Weave(ctx, g, &m.sorted, sink)
	}); err != nil {
		return err
	}
	return done()
}

// unchanged refuses files of rows that were written to meanwhile.
func (m *moreRows) unchanged() error {
	for path, was := range m.inputs {
		if err := source.Unchanged(path, was); err != nil {
			return err
		}
	}
	return nil
}

// prepareRows sets what temporary files of new rows may take.
func (c *conversion) prepareRows() {
	c.budget.Dir, c.budget.Memory = filepath.Dir(filepath.Clean(c.src)), &c.ledger
	c.budget.Disk, _ = transaction.FreeSpace(c.budget.Dir)
}
