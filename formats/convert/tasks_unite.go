package convert

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/formats/internal/depot"
	"github.com/khop-gnn/khop/formats/internal/runs"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/unified"
)

// share is the edges of a read task, as they are before they are sorted.
type share struct {
	made
	dir     depot.Depot    // of its files
	columns []graph.Column // as they are stored there
}

// united is what read tasks have found together.
type united struct {
	t      *task
	reads  []share
	nodes  made           // what there is beside edges
	dir    depot.Depot    // of nodes
	number *made          // of the number task; nil: there is none
	edges  int64          // as the source lists them
	common []graph.Column // of the edges of all read tasks
}

// unite reads what tasks have made, and makes the graph of the conversion that of all of them.
func (t *task) unite() (u *united, err error) {
	u = &united{t: t}
	for i := range t.plan.Reads {
		m, dir, err := t.look(taskRead, i)
		if err != nil {
			return nil, err
		}
		s := share{made: m, dir: dir}
		if s.columns, err = columnsOf(m.Columns); err != nil {
			return nil, err
		}
		u.edges += m.Edges
		u.reads = append(u.reads, s)
	}
	of, number := taskNodes, 0
	if t.plan.Whole != "" {
		of = taskRead
	}
	if u.nodes, u.dir, err = t.look(of, number); err != nil {
		return nil, err
	}
	return u, u.graph()
}

// placed takes what the number and place tasks have made in place of what the read tasks have, where there are such.
func (u *united) placed() error {
	if !u.t.plan.Numbers {
		return nil
	}
	m, _, err := u.t.look(taskNumber, 0)
	if err != nil {
		return err
	}
	u.number = &m
	if len(m.Nodes) != len(u.t.c.graph.Nodes) {
		return u.wrong("the number task knows other node types")
	}
	for i := range m.Nodes {
		n := &u.t.c.graph.Nodes[i]
		n.Count, n.Counted = m.Nodes[i].Count, false
	}
	for i := range u.reads {
		m, dir, err := u.t.look(taskPlace, i)
		if err != nil {
			return err
		}
		u.reads[i].Files, u.reads[i].dir = m.Files, dir
	}
	return nil
}

// wrong is what tasks have made that does not go together.
func (u *united) wrong(what string) error {
	return depot.Damaged(u.t.work.Path(""), "%s", what)
}

// graph makes the graph of the conversion.
func (u *united) graph() error {
	c := u.t.c
	c.kind, c.found = u.t.plan.Kind, map[string]source.TimesFound{}
	g := &source.Graph{Types: u.nodes.Types, TimeUnit: u.nodes.TimeUnit}
	c.graph = g
	for i := range u.nodes.Nodes {
		n := &u.nodes.Nodes[i]
		node := source.NodeType{Name: n.Name, Count: n.Count, Counted: n.Counted, Classes: n.Classes}
		for r := range u.reads {
			if len(u.reads[r].Nodes) != len(u.nodes.Nodes) {
				return u.wrong("read tasks know other node types")
			}
			if n.Counted {
				node.Count = max(node.Count, u.reads[r].Nodes[i].Count)
			}
		}
		for k := range n.Times {
			col, err := n.Times[k].column()
			if err != nil {
				return err
			}
			node.Columns = append(node.Columns, source.Column{Column: col})
			c.found[fmt.Sprintf("%q of nodes %q", col.Name, n.Name)] = *n.Times[k].Found
		}
		g.Nodes = append(g.Nodes, node)
	}
	for _, t := range g.Types {
		if uint(t.Source) >= uint(len(g.Nodes)) || uint(t.Target) >= uint(len(g.Nodes)) {
			return u.wrong("edges are between nodes of no type")
		}
	}
	g.Edges.Count = u.edges
	for i := range u.reads {
		r := &u.reads[i]
		if !slices.Equal(r.Types, g.Types) {
			return u.wrong("read tasks know other edge types")
		}
		g.Edges.Undirected = g.Edges.Undirected || r.Undirected
	}
	if err := u.columns(); err != nil {
		return err
	}
	return u.sparse()
}

// columns finds the columns that edges have: those that the edges of all read tasks have, with numbers of each.
func (u *united) columns() error {
	c := u.t.c
	all, err := columnsOf(u.nodes.Columns)
	if err != nil {
		return err
	}
	for _, col := range all {
		there, found := true, source.TimesFound{}
		first := true
		for i := range u.reads {
			r := &u.reads[i]
			at := slices.IndexFunc(r.columns, func(o graph.Column) bool { return o.Name == col.Name })
			if r.Edges == 0 {
				continue
			}
			if at < 0 {
				there = false
				break
			}
			has := r.columns[at]
			if first {
				col, first = has, false
			} else if col.DType = source.Common(col.DType, has.DType); col.DType == unified.Invalid ||
				!slices.Equal(col.Shape, has.Shape) || col.Unit != has.Unit {
				return u.wrong(fmt.Sprintf("read tasks have other rows of %q", col.Name))
			}
			if f := r.Columns[at].Found; f != nil {
				found.Rows, found.Missing = found.Rows+f.Rows, found.Missing+f.Missing
				found.Rounded, found.Fractions = found.Rounded+f.Rounded, found.Fractions+f.Fractions
				found.Unit, found.Far = source.Finer(found.Unit, f.Unit), found.Far+f.Far
			}
		}
		if there {
			c.graph.Edges.Columns = append(c.graph.Edges.Columns, col)
			c.found[fmt.Sprintf("%q of edges", col.Name)] = found
		}
	}
	u.common = slices.Clone(c.graph.Edges.Columns)
	return nil
}

// sparse refuses ids that so few edges do not make believable.
func (u *united) sparse() error {
	c := u.t.c
	for i := range c.graph.Nodes {
		n := &c.graph.Nodes[i]
		if n.Counted && (c.opt.IDs == "" || c.opt.IDs == "auto") && u.t.plan.Whole == "" &&
			source.TooSparse(n.Count-1, u.edges) {
			return source.Error(c.src, "", -1, option.Textf("number them in order of appearance by %s names, or keep "+
				"all these nodes by %[1]s numbers", option.NameOf(c.opt, "IDs")),
				fmt.Errorf("ids of %q reach %d, but there are only %s", n.Name, n.Count-1,
					source.Counted(u.edges, "edge", "edges")))
		}
	}
	return nil
}

// times makes the times of edges and nodes those of one unit.
func (u *united) times(ctx context.Context) error {
	if u.t.plan.Whole != "" { // they are
		return nil
	}
	return u.t.c.times(ctx)
}

// file opens the i-th file of a read task.
func (u *united) file(r *share, i int, by runs.By) (*runs.Reader, error) {
	if i >= len(r.Files) || r.Files[i] == nil {
		return nil, u.wrong("a read task lacks edges")
	}
	return runs.Open(r.dir, r.Files[i], runs.Layout{Types: u.t.c.graph.Types, Widths: runs.Widths(r.columns), By: by})
}

// each yields edges of a file of a read task, with the columns that all have.
func (u *united) each(r *share, i int, by runs.By, from, to runs.Key, skip func(runs.Key) bool,
	yield func(source.Batch) error) (err error) {
	in, err := u.file(r, i, by)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	g := u.t.c.graph
	widths := runs.Widths(r.columns)
	out := make([][]byte, len(u.common))
	return in.Each(from, to, func(b source.Batch) error {
		if skip != nil {
			runs.Keep(&b, widths, func(i int) bool {
				return !skip(runs.KeyOf(g.Types[source.TypeAt(b.Types, i)].Target, b.Dst[i]))
			})
		}
		for k, col := range u.common {
			at := slices.IndexFunc(r.columns, func(o graph.Column) bool { return o.Name == col.Name })
			if r.columns[at].DType == col.DType {
				out[k] = b.Columns[at]
			} else {
				out[k] = source.Convert(out[k][:0], r.columns[at].DType, col.DType, b.Columns[at])
			}
		}
		b.Columns = out
		return yield(b)
	})
}
