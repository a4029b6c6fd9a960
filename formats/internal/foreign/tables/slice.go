package tables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/parquet"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// sliceFacts are what the reader of a slice must know of all tables.
type sliceFacts struct {
	Keyed []bool // of each node type: its ids are keys, not numbers
	Text  []bool // and these are text
}

// plan finds out whether the edges lie in tables of which groups of rows can be read alone.
func plan(ctx context.Context, at source.Place, r *source.Request) (_ *source.Planned, err error) {
	m, err := mappingOf(at, r)
	if err == nil {
		err = m.settle()
	}
	if err != nil {
		return &source.Planned{Whole: "its mapping is wrong"}, nil // reading it says how
	}
	for _, n := range m.Nodes {
		if n.Kinds != nil || len(n.Keys) > 0 || n.Until != "" {
			return &source.Planned{Whole: fmt.Sprintf("%q is a table of a database", n.Type)}, nil
		}
	}
	if len(m.Tasks) > 0 {
		return &source.Planned{Whole: "it has tasks"}, nil
	}
	x := &graphOf{m: m, at: at, r: r, g: &source.Graph{}, opened: map[string]*table{}}
	defer func() { err = errors.Join(err, x.g.Close()) }()
	for i := range m.Edges {
		whole, err := x.whole(ctx, &m.Edges[i])
		if whole != "" || err != nil {
			return &source.Planned{Whole: whole}, err
		}
	}
	if err := x.openNodes(ctx); err != nil {
		return nil, err
	}
	if err := x.openEdges(ctx); err != nil {
		return nil, err
	}
	return x.planned(ctx)
}

// whole says why edges of a type are not read in slices; "" where they are.
func (x *graphOf) whole(ctx context.Context, e *EdgeTable) (string, error) {
	if e.Until != "" {
		return fmt.Sprintf("edges %q are left out by their times", e.Relation), nil
	}
	inputs, err := find(x.at, e.Files)
	if err != nil {
		return "", err
	}
	for _, p := range inputs {
		head, err := p.Head()
		if err != nil {
			return "", err
		}
		if string(head[:min(len(head), len(parquet.Magic))]) != parquet.Magic {
			return fmt.Sprintf("%s is not Parquet", p.Path()), nil
		}
	}
	return "", ctx.Err()
}

// planned finds out which ids are keys.
func (x *graphOf) planned(ctx context.Context) (*source.Planned, error) {
	known, p := sliceFacts{}, &source.Planned{}
	for _, n := range x.nodes {
		keyed, text := false, false
		switch {
		case n.table != nil && n.id >= 0:
			f := &n.table.list[n.id]
			if f.List {
				return &source.Planned{Whole: "ids are lists"}, nil // reading it says so
			}
			if keyed, text = true, f.Text; !text {
				same, err := n.rowNumbers(ctx, f)
				if err != nil {
					return nil, err
				}
				keyed = !same
			}
		case n.table == nil && !n.fixed:
			for _, e := range x.edges {
				for _, end := range []end{e.src, e.dst} {
					if end.node == n && (e.table.list[end.column].Text || x.r.IDs == "names") {
						keyed, text = true, true
					}
				}
			}
		}
		known.Keyed, known.Text = append(known.Keyed, keyed), append(known.Text, text)
		p.Keys = p.Keys || keyed
	}
	var err error
	p.Facts, err = json.Marshal(known)
	return p, err
}

// readSlice reads what a slice has.
func (x *graphOf) readSlice(ctx context.Context, s *source.Slice) error {
	if s.Nodes {
		return x.readNodesAlone(ctx)
	}
	var known sliceFacts
	if err := json.Unmarshal(s.Facts, &known); err != nil || len(known.Keyed) != len(x.m.Nodes) ||
		len(known.Text) != len(x.m.Nodes) {
		return source.Error(x.at.Path(), "", -1, "plan the tasks again", errors.New("the plan is of other tables"))
	}
	if err := x.openNodes(ctx); err != nil {
		return err
	}
	for i, n := range x.nodes {
		if known.Keyed[i] {
			n.keys, n.text, n.fixed = source.NewNames(x.r.Budget), known.Text[i], false
			x.g.Own(n.keys)
		} else if n.table != nil {
			n.count, n.fixed = n.table.count, true
		}
	}
	if err := x.openEdges(ctx); err != nil {
		return err
	}
	x.limitTo(s)
	if err := x.describeEdges(ctx); err != nil {
		return err
	}
	x.countAfter()
	return nil
}

// readNodesAlone reads all but edges.
func (x *graphOf) readNodesAlone(ctx context.Context) error {
	if err := x.readNodes(ctx); err != nil {
		return err
	}
	if err := source.Steps(ctx, x.openEdges, x.describeEdges); err != nil {
		return err
	}
	for i, n := range x.nodes {
		if err := x.describeNodes(ctx, i); err != nil {
			return err
		}
		node := &x.g.Nodes[i]
		if node.Counted = !n.fixed; n.keys != nil {
			keys := n.keys.Strings("id")
			node.Keys = &keys
		}
	}
	return nil
}

// groupsOf returns the rows of each group of a part, which is Parquet.
func groupsOf(p part) []int64 {
	if f, ok := p.(*foldered); ok {
		p = f.part
	}
	return p.(*parquet.File).Groups()
}

// only returns such a part with groups first up to last alone.
func only(p part, first, last int) part {
	f, ok := p.(*foldered)
	if !ok {
		return p.(*parquet.File).Only(first, last)
	}
	some := *f
	some.part = f.part.(*parquet.File).Only(first, last)
	return &some
}

// limitTo leaves the edges of a slice: of all groups of rows, one behind the other, those that begin in one of equal
// ranges of the rows.
func (x *graphOf) limitTo(s *source.Slice) {
	total, at := int64(0), int64(0)
	for _, e := range x.edges {
		total += e.table.count
	}
	part := func(row int64) int { // rows are below 2^50, as ids are
		return int(min(row*int64(s.Of)/max(total, 1), int64(s.Of)-1))
	}
	for _, e := range x.edges {
		some := *e.table
		some.parts, some.at, some.count = nil, nil, 0
		for i, p := range e.table.parts {
			first, last := 0, 0
			for g, rows := range groupsOf(p) {
				if part(at) == s.Number {
					if last == 0 {
						first = g
					}
					last = g + 1
				}
				at += rows
			}
			if own := only(p, first, last); own.Rows() > 0 {
				some.parts, some.at, some.count = append(some.parts, own), append(some.at, e.table.at[i]),
					some.count+own.Rows()
			}
		}
		e.table, e.count = &some, some.count
	}
}

// countAfter has the nodes counted while edges are read.
func (x *graphOf) countAfter() {
	say := func() {
		for i, n := range x.nodes {
			node := &x.g.Nodes[i]
			if node.Count, node.Counted = n.count, !n.fixed && n.keys == nil; n.keys != nil {
				keys := n.keys.Strings("id")
				node.Keys, node.Count = &keys, keys.Rows
			}
		}
	}
	say()
	each := x.g.Edges.Each
	x.g.Edges.Each = func(yield func(source.Batch) error) error {
		err := each(func(b source.Batch) error {
			for i := range b.Src {
				typ := x.g.Types[source.TypeAt(b.Types, i)]
				x.nodes[typ.Source].see(b.Src[i])
				x.nodes[typ.Target].see(b.Dst[i])
			}
			return yield(b)
		})
		say()
		return err
	}
}
