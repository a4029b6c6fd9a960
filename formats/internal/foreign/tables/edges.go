package tables

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/unified"
)

// edgeType is an edge type being read.
type edgeType struct {
	spec     *EdgeTable
	table    *table
	src, dst end
	ids      ids   // of the second end, which counts those that are left out
	types    []int // its number, and that of its reverse
	count    int64
	columns  []edgeColumn
	offsets  *offsets // of edges that are listed by their sources; nil: Src is a column, or the row
}

// end is where an edge begins or ends.
type end struct {
	node   *nodeType
	column int // -1: the number of the row
}

// edgeColumn is a column of edges in a table.
type edgeColumn struct {
	name  string
	parts []int
	dtype unified.DType
	unit  string
	width int64
	list  bool
}

// sources and destinations are what the columns of the ends are usually called.
var (
	sources      = []string{"src", "source", "from", "head", "row"}
	destinations = []string{"dst", "target", "to", "tail", "col", "destination"}
)

// openEdges opens the tables of edges, and finds the columns of their ends.
func (x *graphOf) openEdges(ctx context.Context) (err error) {
	for i := range x.m.Edges {
		e := &edgeType{spec: &x.m.Edges[i]}
		x.edges = append(x.edges, e)
		if e.table, err = x.table(ctx, e.spec.rows()); err != nil {
			return err
		}
		if e.spec.names != nil {
			if err := e.table.rename(e.spec.names); err != nil {
				return err
			}
		}
		from, to := x.m.node(e.spec.Source), x.m.node(e.spec.Target)
		e.src, e.dst = end{x.nodes[from], -1}, end{x.nodes[to], -1}
		if e.spec.nodes == nil && e.spec.Offsets == nil {
			e.src.column, err = e.table.endColumn(e.spec.Src, append(slices.Clip(sources), e.spec.Source,
				e.spec.Source+"_id")...)
			if err != nil {
				return err
			}
		}
		if e.dst.column, err = e.table.endColumn(e.spec.Dst, append(slices.Clip(destinations), e.spec.Target,
			e.spec.Target+"_id")...); err != nil {
			return err
		}
		for _, end := range []end{e.src, e.dst} {
			if end.column >= 0 {
				if err := e.table.checkID(end.column, x.r); err != nil {
					return err
				}
			}
		}
		if e.spec.Offsets != nil {
			if err := x.readOffsets(ctx, e); err != nil {
				return err
			}
		}
		x.addType(e, from, to, e.spec.Relation)
		if e.spec.Reverse != "" {
			x.addType(e, to, from, e.spec.Reverse)
		}
	}
	if len(x.g.Types) > math.MaxUint16 {
		return fmt.Errorf("%w: %d edge types", source.ErrOptions, len(x.g.Types))
	}
	return nil
}

func (x *graphOf) addType(e *edgeType, from, to int, relation string) {
	t := source.EdgeType{Source: from, Relation: relation, Target: to}
	if k := slices.Index(x.g.Types, t); k >= 0 { // a dataset has it
		e.types = append(e.types, k)
		return
	}
	e.types = append(e.types, len(x.g.Types))
	x.g.Types = append(x.g.Types, t)
}

// endColumn returns the column of ids.
func (t *table) endColumn(name string, usual ...string) (int, error) {
	if name == "" {
		if i := t.has(usual...); i >= 0 && !t.list[i].List {
			return i, nil
		}
		return 0, t.fail("", fmt.Errorf("say by %q which column has the ids; there are: %s", usual[0], t.names()))
	}
	i, err := t.column(name)
	if err == nil && t.list[i].List {
		err = t.fail(name, errors.New("is a list, not an id"))
	}
	return i, err
}

// countEdges numbers the nodes that edges alone name, and counts the edges of foreign keys.
func (x *graphOf) countEdges(ctx context.Context) error {
	for _, e := range x.edges {
		for _, end := range []end{e.src, e.dst} {
			n := end.node
			if n.table != nil || end.column < 0 || n.fixed || n.keys != nil {
				continue
			}
			if n.text = e.table.list[end.column].Text; n.text || x.r.IDs == "names" {
				n.keys = source.NewNames(x.r.Budget)
				x.g.Own(n.keys)
				n.text = true
			}
		}
	}
	for _, e := range x.edges {
		e.count = e.table.count
		if e.src.node.fixed && e.dst.node.fixed && e.spec.nodes == nil {
			continue
		}
		e.count = 0
		if err := e.scan(ctx, nil, func(src, dst []int64, _ *columnar.Batch) error {
			e.count += int64(len(src))
			for i := range src {
				e.src.node.see(src[i])
				e.dst.node.see(dst[i])
			}
			x.r.Report("read ids", e.count, e.table.count)
			return nil
		}); err != nil {
			return err
		}
		if f := &e.table.list[e.dst.column]; e.count == 0 && e.ids.lost > 0 && e.dst.node.text && !f.Text {
			return e.table.fail(f.Name, fmt.Errorf("is %v, and the ids of %q are text, of which none is called so: "+
				"name another column, or write either as the other", f, e.spec.Target))
		}
		x.tellKeys(e)
	}
	return x.closeNodes()
}

// tellKeys notes the foreign keys that make no edge.
func (x *graphOf) tellKeys(e *edgeType) {
	if n := e.ids.lost; n > 0 {
		x.g.Tell(source.LeftOut, e.spec.Relation, n, "edges %q of %q: %s no row of %q, and no edge", e.spec.Relation,
			e.spec.Source, source.Counted(n, "key has", "keys have"), e.spec.Target)
	}
	if n := e.ids.absent; n > 0 {
		x.g.Tell(source.Said, e.spec.Relation, n, "edges %q of %q: %s, and no edge", e.spec.Relation, e.spec.Source,
			source.Counted(n, "row has no key", "rows have no key"))
	}
}

// see counts a node of a type that has no table.
func (n *nodeType) see(id int64) {
	if !n.fixed && n.keys == nil {
		n.count = max(n.count, id+1)
	}
}

// closeNodes fixes the counts.
func (x *graphOf) closeNodes() error {
	edges := int64(0)
	for _, e := range x.edges {
		edges += e.count
	}
	for i, n := range x.nodes {
		switch {
		case n.fixed:
		case n.keys != nil:
			n.count = n.keys.Len()
		case source.TooSparse(n.count, edges):
			return source.Error(x.at.Path(), "", -1,
				option.Textf("say by \"count\" how many nodes there are, or take ids as names by %s names",
					option.Named("IDs")),
				fmt.Errorf("ids of %q reach %d, but there are only %s", n.spec.Type, n.count-1,
					source.Counted(edges, "edge", "edges")))
		default:
			x.g.Nodes[i].Counted = true
		}
		n.fixed = true
	}
	return nil
}

// scan yields the ends of the edges of a table that are there, with a batch of other columns.
func (e *edgeType) scan(ctx context.Context, others []int,
	yield func(src, dst []int64, b *columnar.Batch) error) error {
	want := others
	if e.src.column >= 0 {
		want = append(slices.Clip(want), e.src.column)
	}
	want = append(slices.Clip(want), e.dst.column)
	var src, dst []int64
	var from ids
	to, row := &e.ids, e.src.node.first
	*to = ids{dangling: e.spec.dangling, rows: e.offsets != nil}
	begun := int64(0) // the source of the last row, of those that offsets tell
	return e.table.scan(ctx, want, func(b *columnar.Batch) error {
		if err := e.set(e.dst, b, len(want)-1, to); err != nil {
			return err
		}
		if e.src.column >= 0 {
			if err := e.set(e.src, b, len(want)-2, &from); err != nil {
				return err
			}
		}
		src, dst = src[:0], dst[:0]
		for i := range b.Rows {
			s, d := row+int64(i), int64(0)
			var err error
			if e.offsets != nil {
				begun = e.offsets.sourceOf(s, begun)
				s = begun
			} else if e.src.column >= 0 {
				if s, err = from.at(i); err == nil && s == missing {
					err = errMissing
				}
				if err != nil {
					return b.Fail(e.table.list[e.src.column].Name, columnar.AtRow(i, err))
				}
			}
			if d, err = to.at(i); err == nil && d == missing {
				if e.spec.nodes != nil {
					continue
				}
				err = errMissing
			}
			if err != nil {
				return b.Fail(e.table.list[e.dst.column].Name, columnar.AtRow(i, err))
			}
			src, dst = append(src, s), append(dst, d)
		}
		row += int64(b.Rows)
		if len(src) == 0 {
			return nil
		}
		return yield(src, dst, b)
	})
}

var errMissing = errors.New("the id is missing")

// set takes the ids of an end out of column k of a batch.
func (e *edgeType) set(at end, b *columnar.Batch, k int, to *ids) error {
	f := &e.table.list[at.column]
	if err := to.set(at.node, f, &b.Columns[k]); err != nil {
		return b.Fail(f.Name, err)
	}
	return nil
}

// describeEdges finds the columns of all edge types, and joins their edges.
func (x *graphOf) describeEdges(ctx context.Context) error {
	var parts []source.Part
	for _, e := range x.edges {
		if err := x.columns(ctx, e); err != nil {
			return err
		}
		p := source.Part{Type: e.types[0], Reverse: -1}
		if len(e.types) > 1 {
			p.Reverse = e.types[1]
		}
		p.Count, p.Each = e.count, func(yield func(source.Batch) error) error { return e.each(ctx, yield) }
		for _, c := range e.columns {
			col := graph.Column{Name: c.name, DType: c.dtype, Unit: c.unit}
			x.r.Timed(&col)
			if c.list {
				col.Shape = []int64{c.width}
			}
			p.Columns = append(p.Columns, col)
		}
		parts = append(parts, p)
	}
	if err := x.g.Join(parts); err != nil {
		return source.Error(x.at.Path(), "", -1, "", err)
	}
	return nil
}

// add adds columns of the table, side by side, as a column of the edges.
func (x *graphOf) add(ctx context.Context, e *edgeType, name string, parts []int, used map[int]bool) error {
	for _, p := range parts {
		used[p] = true
		if err := x.tell(ctx, e.table, p); err != nil {
			return err
		}
	}
	dtype, unit, width, err := e.table.pack(name, parts)
	if err != nil {
		return err
	}
	if dtype == unified.Uint64 {
		dtype = unified.Int64
	}
	e.columns = append(e.columns, edgeColumn{name, parts, dtype, unit, width, e.table.list[parts[0]].List ||
		len(parts) > 1})
	return nil
}

// columns finds the columns of an edge type.
func (x *graphOf) columns(ctx context.Context, e *edgeType) error {
	t, s := e.table, e.spec
	used := map[int]bool{e.dst.column: true, e.src.column: true}
	t.leave(s.Without, used)
	for _, c := range []struct {
		name  string
		from  Words
		usual []string
	}{
		{"weight", one(s.Weight), []string{"weight", "edge_weight"}},
		{"time", one(s.Time), []string{"time", "timestamp", "edge_time"}}, {"label", one(s.Label), nil},
		{"feature", s.Features, nil},
	} {
		var parts []int
		for _, name := range c.from {
			i, err := t.column(name)
			if err != nil {
				return err
			}
			parts = append(parts, i)
		}
		i := t.has(c.usual...)
		if parts == nil && s.Columns == nil && s.Wide == nil && i >= 0 && !used[i] && !t.list[i].List &&
			(!t.list[i].Text || t.list[i].Unit != "") {
			parts = []int{i}
		}
		if parts != nil {
			if err := x.add(ctx, e, c.name, parts, used); err != nil {
				return err
			}
		}
	}
	if s.Columns != nil {
		for _, name := range *s.Columns {
			i, err := t.column(name)
			if err == nil {
				err = x.add(ctx, e, name, []int{i}, used)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	rest, err := x.rest(ctx, t, used, false)
	if err != nil {
		return err
	}
	for _, i := range rest {
		if name := t.list[i].Name; e.has(name) {
			x.g.Tell(source.LeftOut, name, 1, "%s: the column %q is not stored: another has its name", t.name, name)
		} else if err := x.add(ctx, e, name, []int{i}, used); err != nil {
			return err
		}
	}
	return nil
}

func one(name string) Words {
	if name == "" {
		return nil
	}
	return Words{name}
}

// has reports whether there is a column of a name.
func (e *edgeType) has(name string) bool {
	return slices.ContainsFunc(e.columns, func(c edgeColumn) bool { return c.name == name })
}

// each yields the edges with their columns.
func (e *edgeType) each(ctx context.Context, yield func(source.Batch) error) error {
	var want []int
	for _, c := range e.columns {
		want = append(want, c.parts...)
	}
	out := source.Batch{Columns: make([][]byte, len(e.columns))}
	return e.scan(ctx, want, func(src, dst []int64, b *columnar.Batch) (err error) {
		at := 0
		for i, c := range e.columns {
			part := *b
			part.Columns = b.Columns[at : at+len(c.parts)]
			at += len(c.parts)
			if out.Columns[i], err = e.table.rows(&part, c.name, c.parts, c.dtype, out.Columns[i][:0]); err != nil {
				return err
			}
			if c.name == "weight" {
				if err := checkWeights(e.table.list[c.parts[0]].Name, c.dtype, &part, out.Columns[i]); err != nil {
					return err
				}
			}
		}
		out.Src, out.Dst = src, dst
		return yield(out)
	})
}

// checkWeights refuses weights that samplers would.
func checkWeights(name string, d unified.DType, b *columnar.Batch, data []byte) error {
	size := d.Size()
	for i := 0; int64(len(data)) >= size && d != unified.Float16; i, data = i+1, data[size:] {
		if v := d.Float(data); !(v >= 0) || math.IsInf(v, 1) {
			return b.Fail(name, columnar.AtRow(i, fmt.Errorf("%v is not a weight, which is finite and not negative: "+
				"give the column another name", v)))
		}
	}
	return nil
}
