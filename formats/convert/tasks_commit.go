package convert

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/depot"
	"github.com/khop-gnn/khop/formats/internal/edgesort"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/remote"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/underway"
	"github.com/khop-gnn/khop/unified"
)

// planKey is what the provenance of a dataset that tasks have made calls their plan.
const planKey = "plan"

// piece is the in-edges of a range of nodes.
type piece struct {
	*rangeMade
	dir depot.Depot
}

// commit makes the dataset of what all tasks have made.
func (t *task) commit(ctx context.Context) (res *Result, err error) {
	c := t.c
	done := &Result{Kind: t.plan.Kind, Notes: []formats.Note{}}
	if t.committed(ctx) {
		return done, nil
	}
	u, err := t.unite()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.graph.Close()) }()
	if err := u.placed(); err != nil {
		return nil, err
	}
	pieces, stats, err := u.pieces()
	if err != nil {
		return nil, err
	}
	nodes, err := remote.Open(ctx, u.dir.Path(nodesName), c.opt.Remote)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, nodes.Close()) }()
	if err := u.takeNodes(ctx, nodes); err != nil {
		return nil, err
	}
	if err := t.sameSource(); err != nil {
		return nil, err
	}
	o, err := c.plan()
	if err != nil {
		return nil, err
	}
	o.stats, o.counts = stats, make([]int64, max(len(c.graph.Types), 1))
	for _, p := range pieces {
		for i, n := range p.Counts {
			o.counts[i] += n
		}
	}
	o.most = stats.Edges
	schema, err := c.schema(o)
	if err != nil {
		return nil, err
	}
	for i := range schema.Edges {
		schema.Edges[i].Count = o.counts[i]
	}
	res = c.result(schema, o)
	c.opt.shared = true
	if err := to(ctx, t.plan.Dataset, c.opt, func(dst string) error {
		return t.write(ctx, dst, nodes, schema, o, pieces, res)
	}); errors.Is(err, errCommitted) {
		return done, nil
	} else if err != nil {
		return nil, err
	}
	c.finish(res, o, schema)
	res.Notes = append(t.plan.Notes, append(u.nodes.Notes, res.Notes...)...)
	return res, nil
}

// errCommitted is of a dataset that another process has made of the plan meanwhile.
var errCommitted = errors.New("the dataset has been made")

// lookAgain is how long to wait before looking again whether another process that makes the dataset has done so, or has
// died.
const lookAgain = 200 * time.Millisecond

// claim begins the dataset, and waits for another process that makes it: errCommitted where that has done it.
func (t *task) claim(ctx context.Context, dst string, opt formats.WriterOptions) (*formats.Writer, error) {
	defer underway.Waits("the process that writes " + paths.Text(dst))()
	for {
		w, err := formats.Create(dst, opt)
		if t.committed(ctx) {
			if err == nil {
				err = w.Abort()
			}
			return nil, errors.Join(errCommitted, err)
		}
		if !errors.Is(err, formats.ErrBusy) {
			return w, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lookAgain):
		}
	}
}

// committed reports whether the plan has made the dataset: that says so itself, since nothing else tells a commit that
// died behind its end.
func (t *task) committed(ctx context.Context) bool {
	var is struct{ Provenance map[string]string }
	at, err := depot.Of(ctx, t.plan.Dataset)
	return err == nil && readJSON(at, "dataset.json", &is) == nil && is.Provenance[planKey] == t.plan.ID
}

// pieces returns what range tasks have made.
func (u *united) pieces() (list []piece, stats edgesort.Stats, err error) {
	at, columns := int64(0), len(u.common)
	arrays := 2 + columns
	if len(u.t.c.graph.Types) > 1 {
		arrays++
	}
	for i := range u.t.plan.Tasks {
		m, dir, err := u.t.look(taskRange, i)
		if err != nil {
			return nil, stats, err
		}
		p := piece{m.Range, dir}
		if p.rangeMade == nil || p.First != at || p.Last < p.First || len(p.Counts) != max(len(u.t.c.graph.Types), 1) ||
			len(p.Arrays) != arrays && p.Last > p.First {
			return nil, stats, u.wrong("the ranges do not go together")
		}
		at = p.Last
		stats.Add(p.Stats)
		list = append(list, p)
	}
	nodes := int64(0)
	for i := range u.t.c.graph.Nodes {
		nodes += u.t.c.graph.Nodes[i].Count
	}
	if at != nodes {
		return nil, stats, u.wrong("the ranges do not have all nodes")
	}
	return list, stats, nil
}

// takeNodes adds what there is beside edges to the graph of the conversion.
func (u *united) takeNodes(ctx context.Context, ds *formats.Dataset) error {
	c := u.t.c
	g := c.graph
	from, err := graphOf(ds)
	if err != nil {
		return err
	}
	if len(from.Nodes) != len(g.Nodes) {
		return u.wrong("the dataset of the nodes has other types")
	}
	for i := range g.Nodes {
		g.Nodes[i].Columns, g.Nodes[i].Strings = from.Nodes[i].Columns, from.Nodes[i].Strings
		for k := range g.Nodes[i].Strings {
			list := &g.Nodes[i].Strings[k]
			list.Others = slices.Contains(u.nodes.Nodes[i].Others, list.Name)
		}
	}
	g.Splits, g.Links = from.Splits, from.Links
	if u.number != nil {
		_, dir, err := u.t.look(taskNumber, 0)
		if err != nil {
			return err
		}
		for i := range g.Nodes {
			if list := u.number.Nodes[i].Keys; list != nil {
				g.Nodes[i].Strings = append(g.Nodes[i].Strings, list.strings(dir))
			}
		}
	}
	if err := u.times(ctx); err != nil {
		return err
	}
	order, err := u.numbering()
	if err != nil || order == nil {
		return err
	}
	return c.renumber(order)
}

// strings returns keys as the names of nodes.
func (k *keys) strings(dir depot.Depot) source.Strings {
	return source.Strings{Name: "id", Rows: k.Count, Each: func(yield func(string) error) error {
		return k.eachKey(dir, func(key []byte) error { return yield(string(key)) })
	}}
}

// graphOf returns the nodes of a dataset, with its splits and links, as a source's.
func graphOf(ds *formats.Dataset) (*source.Graph, error) {
	g, s := &source.Graph{}, ds.Graph().Schema()
	for t, n := range s.Nodes {
		node := source.NodeType{Name: n.Name, Count: n.Count}
		for _, c := range n.Columns {
			rows, _ := ds.Graph().NodeColumn(t, c.Name)
			c.Ascending = false
			copied := func(ctx context.Context, w io.Writer) error { return source.CopyRows(ctx, ds, rows.Bytes(), w) }
			node.Columns = append(node.Columns, source.Column{Column: c, Write: copied})
		}
		for _, name := range source.ListsOf(ds, t) {
			list, err := ds.Strings(t, name)
			if err != nil {
				return nil, err
			}
			node.Strings = append(node.Strings, source.Strings{Name: name, Rows: list.Len(),
				Each: func(yield func(string) error) error { return source.EachString(ds, list, yield) }})
		}
		g.Nodes = append(g.Nodes, node)
	}
	if err := addSplits(ds, g); err != nil {
		return nil, err
	}
	return g, addLinks(ds, g)
}

// addSplits adds the splits and tables of tasks of a dataset.
func addSplits(ds *formats.Dataset, g *source.Graph) error {
	for _, split := range ds.Graph().Splits() {
		is := source.Split{Name: split.Name, Index: split.Index}
		if is.Task = split.Task(); is.Task != "" {
			is.Name = split.Name[len(is.Task)+1:]
		}
		for _, set := range split.Seeds.Sets {
			ids, err := idsOf(ds, set.IDs)
			if err != nil {
				return err
			}
			part := is
			part.NodeType, part.IDs, part.Times, part.From = set.Type, ids, set.Times, set.From
			if set.Labels.Valid() {
				part.Label = graph.Column{Name: graph.Label.String(), DType: set.Labels.DType(),
					Shape: set.Labels.Shape()[1:]}
				part.Labels = set.Labels.Bytes()
			}
			if err := verifyAll(ds, unified.FromSlice(part.Times).Bytes(), unified.FromSlice(part.From).Bytes(),
				part.Labels); err != nil {
				return err
			}
			g.Splits = append(g.Splits, part)
		}
		for _, set := range split.Seeds.Edges {
			from, err := idsOf(ds, set.Sources)
			if err != nil {
				return err
			}
			to, err := idsOf(ds, set.Targets)
			if err != nil {
				return err
			}
			if err := verifyAll(ds, unified.FromSlice(set.Times).Bytes(), unified.FromSlice(set.From).Bytes(),
				unified.FromSlice(set.Offsets).Bytes()); err != nil {
				return err
			}
			is.NodeType, is.IDs, is.Times = ds.Graph().Schema().Edges[set.Type].Src, from, set.Times
			is.From = set.From
			is.Targets = &source.Targets{EdgeType: set.Type, IDs: to, Offsets: set.Offsets}
			g.Splits = append(g.Splits, is)
		}
	}
	return nil
}

func verifyAll(ds *formats.Dataset, elements ...[]byte) error {
	for _, e := range elements {
		if err := ds.Verify(e); err != nil {
			return err
		}
	}
	return nil
}

// idsOf returns ids of a dataset.
func idsOf(ds *formats.Dataset, t unified.Tensor) ([]int64, error) {
	if !t.Valid() {
		return nil, nil
	}
	if err := ds.Verify(t.Bytes()); err != nil {
		return nil, err
	}
	at, err := unified.Integers(t)
	if err != nil {
		return nil, err
	}
	list := make([]int64, t.Len())
	for i := range list {
		list[i] = at(int64(i))
	}
	return list, nil
}

// addLinks adds the links of a dataset.
func addLinks(ds *formats.Dataset, g *source.Graph) error {
	for _, k := range ds.LinkSplits() {
		is := source.Link{Name: k.Name, Index: k.Index}
		for _, set := range k.Sets {
			var ends [3][]int64
			for i, of := range []unified.Tensor{set.Sources, set.Targets, set.Labels} {
				list, err := idsOf(ds, of)
				if err != nil {
					return err
				}
				ends[i] = list
			}
			is.Src, is.Dst = append(is.Src, ends[0]...), append(is.Dst, ends[1]...)
			is.Labels = append(is.Labels, ends[2]...)
			for range ends[0] {
				is.Types = append(is.Types, int64(set.EdgeType))
			}
		}
		g.Links = append(g.Links, is)
	}
	return nil
}

// write writes the dataset.
func (t *task) write(ctx context.Context, dst string, nodes *formats.Dataset, s *graph.Schema, o *order, pieces []piece,
	res *Result) (err error) {
	c := t.c
	p := maps.Clone(nodes.Manifest().Provenance)
	p["source_edges"], p["direction"], p[planKey] = strconv.FormatInt(res.SourceEdges, 10), o.direction, t.plan.ID
	w, err := t.claim(ctx, dst, formats.WriterOptions{Force: c.opt.Force, Progress: c.opt.Progress,
		ExpectBytes: res.Bytes, Provenance: p, Inputs: append(c.inputs(), t.work.Path(""))})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Abort()) }() // where a mapped file faults, err is not set yet
	if err := t.writePieces(ctx, w, s, pieces); err != nil {
		return err
	}
	return c.commitColumns(ctx, w, s)
}

// writePieces writes the structure and the columns of the edges, one piece behind the other.
func (t *task) writePieces(ctx context.Context, w *formats.Writer, s *graph.Schema, pieces []piece) error {
	at := 0
	next := func(cw *formats.ColumnWriter, err error, row int64, copy func(p *piece, rows []byte) error) error {
		err = fill(cw, err, func() error {
			for i := range pieces {
				p := &pieces[i]
				if p.First == p.Last {
					continue
				}
				if err := p.Arrays[at].each(p.dir, int(row), func(rows []byte) error {
					if ctx.Err() != nil {
						return context.Cause(ctx)
					}
					if copy != nil {
						return copy(p, rows)
					}
					_, err := cw.Write(rows)
					return err
				}); err != nil {
					return err
				}
			}
			return nil
		})
		at++
		return err
	}
	if err := t.writeIndptr(w, s, next); err != nil {
		return err
	}
	m := s.NumEdges()
	cw, err := w.Topology("indices", s.IDType(), m)
	if err := next(cw, err, s.IDType().Size(), nil); err != nil {
		return err
	}
	if len(s.Edges) > 1 {
		dtype := typeOf(len(s.Edges))
		cw, err := w.Topology("type", dtype, m)
		if err := next(cw, err, dtype.Size(), nil); err != nil {
			return err
		}
	}
	for _, c := range s.EdgeColumns {
		cw, err := w.EdgeColumn(c, m)
		if err := next(cw, err, c.RowBytes(), nil); err != nil {
			return err
		}
	}
	return nil
}

// writeIndptr writes where the edges of each node begin: those of a piece begin behind all of the pieces before. The
// last entry of a piece is the first of the next.
func (t *task) writeIndptr(w *formats.Writer, s *graph.Schema, next func(*formats.ColumnWriter, error, int64,
	func(*piece, []byte) error) error) error {
	cw, err := w.Topology("indptr", unified.Int64, s.NumNodes()+1)
	var of *piece
	base, behind, rows, buf := int64(0), int64(0), int64(0), []byte(nil)
	end := func() []byte { return binary.LittleEndian.AppendUint64(nil, uint64(behind)) }
	if s.NumNodes() == 0 {
		return fill(cw, err, func() error { _, err := cw.Write(end()); return err })
	}
	return next(cw, err, 8, func(p *piece, entries []byte) error {
		if p != of {
			of, base, rows = p, behind, 0
			behind += p.Edges
		}
		buf = buf[:0]
		for ; len(entries) > 0; entries = entries[8:] {
			n := int64(binary.LittleEndian.Uint64(entries))
			if rows++; rows > p.Last-p.First {
				if rows > p.Last-p.First+1 || n != p.Edges {
					return fmt.Errorf("%w: a range has more edges than it says", formats.ErrCorrupt)
				}
				if p.Last == s.NumNodes() {
					buf = append(buf, end()...)
				}
				continue
			}
			buf = binary.LittleEndian.AppendUint64(buf, uint64(base+n))
		}
		_, err := cw.Write(buf)
		return err
	})
}
