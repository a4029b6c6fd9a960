package tables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// The edge types of a foreign key are called so, before its column.
const (
	ForwardKey  = "f2p_"
	BackwardKey = "rev_f2p_"
)

// NewRows are rows of a table that a dataset does not have yet: a file, or a folder of files.
type NewRows struct{ Table, Path string }

// More is new rows of tables of a database that is a dataset already.
type More struct {
	Dataset *formats.Dataset
	Keys    map[string]string // the column of the keys of each table that has one
	Rows    []NewRows         // rows of a table follow one another as they are listed
	// Given says that a column of a node type comes from elsewhere, and need not be in the rows.
	Given func(nodeType int, column string) bool
}

// Read makes a graph of the new rows. Its nodes and edge types are those of the dataset, the new nodes behind them. Its
// columns write the new rows alone; lists of strings yield those that were there, too. Its edges are new. Node types
// without new rows have neither columns nor strings. Errors are those of source.Reader.Read.
func (m *More) Read(ctx context.Context, r *source.Request) (_ *source.Graph, err error) {
	x := &graphOf{m: &Mapping{}, at: source.Local(m.Dataset.Path()), r: r, g: &source.Graph{},
		opened: map[string]*table{}}
	defer source.CloseOnError(&err, x.g)
	opened, err := m.open(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := m.describe(x, opened); err != nil {
		return nil, err
	}
	for t := range x.nodes {
		if err := m.readKeys(ctx, x, t); err != nil {
			return nil, err
		}
	}
	x.readAsKeys()
	if err := source.Steps(ctx, x.openEdges, x.countEdges, x.describeEdges); err != nil {
		return nil, err
	}
	for t, n := range x.nodes {
		x.g.Nodes[t].Count = n.count
		if n.table != nil {
			if err := m.columns(ctx, x, t); err != nil {
				return nil, err
			}
		}
	}
	return x.g, nil
}

// open opens the files of each table that gets rows, by node type; those without a row say nothing of columns.
func (m *More) open(ctx context.Context, r *source.Request) (map[int]*table, error) {
	opened, schema := map[int]*table{}, m.Dataset.Graph().Schema()
	for _, rows := range m.Rows {
		t := schema.NodeType(rows.Table)
		if t < 0 {
			var names []string
			for _, n := range schema.Nodes {
				names = append(names, n.Name)
			}
			return nil, source.Error(rows.Path, "", -1, "", fmt.Errorf("%w: there is no table %q; there are: %s",
				source.ErrOptions, rows.Table, source.Few(names)))
		}
		if opened[t] == nil {
			opened[t] = &table{name: rows.Path}
		}
		inputs, err := rows.inputs()
		if err != nil {
			return nil, err
		}
		if err := opened[t].open(ctx, inputs, Format{}, r); err != nil {
			return nil, err
		}
	}
	for _, t := range opened {
		for i := range t.list {
			t.list[i].Gaps = false // the dataset has a type
		}
	}
	maps.DeleteFunc(opened, func(_ int, t *table) bool { return t.count == 0 })
	return opened, nil
}

// inputs returns the file, or the parts of the folder.
func (rows *NewRows) inputs() (list []input, err error) {
	st, err := os.Stat(rows.Path)
	switch {
	case err != nil:
		return nil, source.Error(rows.Path, "", -1, "", err)
	case !st.IsDir():
		return []input{{Place: source.Local(rows.Path)}}, nil
	}
	return localParts(source.Local(rows.Path).Tree, rows.Path)
}

// describe makes the mapping: of all tables names and keys, and foreign keys of those that get rows.
func (m *More) describe(x *graphOf, opened map[int]*table) error {
	schema := m.Dataset.Graph().Schema()
	for _, e := range schema.Edges {
		x.g.Types = append(x.g.Types, source.EdgeType{Source: e.Src, Relation: e.Relation, Target: e.Dst})
	}
	for t, n := range schema.Nodes {
		spec := NodeTable{Type: n.Name, ID: m.Keys[n.Name], Kinds: map[string]string{}}
		if opened[t] != nil {
			spec.Files = Words{fmt.Sprint(t)}
			for _, e := range x.g.Types {
				if column, ok := strings.CutPrefix(e.Relation, ForwardKey); ok && e.Source == t {
					spec.Keys = append(spec.Keys, Key{Column: column, To: schema.Nodes[e.Target].Name,
						Relation: e.Relation, Reverse: BackwardKey + column, Dangling: true})
				}
			}
		}
		x.m.Nodes = append(x.m.Nodes, spec)
		x.g.Nodes = append(x.g.Nodes, source.NodeType{Name: n.Name})
	}
	for t := range x.m.Nodes {
		spec := &x.m.Nodes[t]
		n := &nodeType{spec: spec, table: opened[t], id: -1, first: schema.Nodes[t].Count}
		n.count, n.fixed = n.first, true
		x.nodes = append(x.nodes, n)
		if n.table != nil {
			x.opened[spec.rows().key()] = n.table
		}
	}
	return x.m.addKeys()
}

// readKeys numbers the keys of a table where new rows need them.
func (m *More) readKeys(ctx context.Context, x *graphOf, t int) (err error) {
	n := x.nodes[t]
	named := slices.ContainsFunc(x.g.Types, func(e source.EdgeType) bool {
		return e.Target == t && strings.HasPrefix(e.Relation, ForwardKey) && (n.table != nil ||
			x.nodes[e.Source].table != nil)
	})
	if n.table == nil && !named {
		return nil
	}
	stored := false
	if n.before, n.text, stored, err = m.keysOf(t); err != nil {
		return err
	}
	if n.spec.ID == "" && (named || stored) && (n.table != nil || !stored) {
		return source.Error(m.Dataset.Path(), "", -1, "convert the database again, and keep all of its columns",
			fmt.Errorf("the dataset does not say which column is the key of the table %q", n.spec.Type))
	}
	if n.table == nil {
		if n.before == nil {
			return nil
		}
		n.keys = source.NewNames(x.r.Budget)
		x.g.Own(n.keys)
		n.fixed = false
		defer func() { n.fixed = true }()
		return n.takeBefore()
	}
	if n.spec.ID != "" {
		if n.id, err = n.table.column(n.spec.ID); err != nil {
			return err
		}
		if err := n.sameKeys(); err != nil {
			return err
		}
	}
	return n.readKeys(ctx, x.r, x.g)
}

// keysOf returns the keys that a dataset has of a table; nil where they are the numbers of the nodes. Where nodes have
// been numbered anew, and the keys are not stored, they are the numbers that the nodes had.
func (m *More) keysOf(t int) (each func(func([]byte) error) error, text, stored bool, err error) {
	if list, err := m.Dataset.Strings(t, "id"); err == nil {
		return func(yield func([]byte) error) error {
			return source.EachString(m.Dataset, list, func(s string) error { return yield([]byte(s)) })
		}, true, true, nil
	} else if !errors.Is(err, formats.ErrNoStrings) {
		return nil, false, false, err
	}
	col, stored := m.Dataset.Graph().NodeColumn(t, "id")
	if !stored {
		var anew bool
		if col, anew = m.Dataset.Graph().NodeColumn(t, FormerIDs); !anew {
			return nil, false, false, nil
		}
	}
	if err := m.Dataset.Verify(col.Bytes()); err != nil {
		return nil, false, false, err
	}
	at, err := unified.Integers(col)
	if err != nil {
		return nil, false, false, source.Error(m.Dataset.Path(), "id", -1, "", err)
	}
	return func(yield func([]byte) error) error {
		return pinned.Guard(func() error {
			var text []byte
			for i := range col.Len() {
				text = strconv.AppendInt(text[:0], at(i), 10)
				if err := yield(text); err != nil {
					return err
				}
			}
			return nil
		})
	}, false, stored, nil
}

// takeBefore numbers the keys of the nodes that a dataset has.
func (n *nodeType) takeBefore() error {
	each := n.before
	if each == nil {
		each = func(yield func([]byte) error) error {
			for i := range n.first {
				if err := yield(strconv.AppendInt(nil, i, 10)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	next := int64(0)
	if err := each(func(key []byte) error {
		id, err := n.keys.Number(key)
		if err == nil && id != next {
			err = fmt.Errorf("the key %.60q is there twice", key)
		}
		next++
		return err
	}); err != nil {
		return fmt.Errorf("keys of %q: %w", n.spec.Type, err)
	}
	if next != n.first {
		return fmt.Errorf("%w: %q has %d nodes and %d keys", formats.ErrCorrupt, n.spec.Type, n.first, next)
	}
	return nil
}

// sameKeys refuses new keys of another type than those that are there. A CSV does not say that numbers are text.
func (n *nodeType) sameKeys() error {
	f := &n.table.list[n.id]
	switch {
	case n.first == 0 || n.text == f.Text:
		return nil
	case n.text && n.table.isText():
		n.table.readAsText(n.id)
		return nil
	case n.text:
		return source.Error(n.table.at[0].Path(), f.Name, -1, "write the column as text",
			fmt.Errorf("is %v, and the keys of %q are text", f, n.spec.Type))
	}
	row, cell := int64(-1), ""
	if f.Odd.Cell != "" {
		row, cell = f.Odd.Line, fmt.Sprintf(", as %.40q", f.Odd.Cell)
	}
	return source.Error(n.table.at[0].Path(), f.Name, row, "write the column as whole numbers",
		fmt.Errorf("is text%s, and the keys of %q are numbers", cell, n.spec.Type))
}

// readAsKeys has the foreign keys of a CSV read as text where the keys are text.
func (x *graphOf) readAsKeys() {
	for _, e := range x.m.Edges {
		from, to := x.nodes[x.m.node(e.Source)], x.nodes[x.m.node(e.Target)]
		if i := from.table.find(e.Dst); i >= 0 && to.text && from.table.isText() {
			from.table.readAsText(i)
		}
	}
}

// find returns the column of exactly a name; -1 for none.
func (t *table) find(name string) int {
	return slices.IndexFunc(t.list, func(f columnar.Field) bool { return f.Name == name })
}

// readAsText has a column of a CSV read as it is written.
func (t *table) readAsText(column int) {
	t.list[column] = columnar.Field{Name: t.list[column].Name, Text: true, Width: 1}
	for _, p := range t.parts {
		p.Fields()[column] = t.list[column]
	}
}
