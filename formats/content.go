package formats

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// content checks what was written against the schema and describes it, in an order that depends on nothing else.
func (w *Writer) content(s graph.Schema) (*Content, error) {
	s.Nodes, s.Edges = slices.Clone(s.Nodes), slices.Clone(s.Edges) // Init sets fields in them
	if err := s.Init(); err != nil {
		return nil, fileError(w.dir, "", err)
	}
	c := &Content{ChunkBytes: w.shared.ChunkBytes, NodeTypes: []NodeInfo{}, EdgeTypes: []EdgeInfo{},
		Columns: []ArrayInfo{}, Splits: []SplitInfo{}}
	for _, n := range s.Nodes {
		c.NodeTypes = append(c.NodeTypes, NodeInfo{Name: n.Name, Count: n.Count})
	}
	for _, e := range s.Edges {
		c.EdgeTypes = append(c.EdgeTypes, EdgeInfo{Source: e.Source, Relation: e.Relation, Target: e.Target,
			Count: e.Count, Order: e.Order.String()})
	}
	byKey := make(map[[2]string]*written, len(w.arrays))
	for _, a := range w.arrays {
		if !a.closed {
			return nil, &Error{Path: a.path, Column: a.typ.Name, Row: -1,
				Err: fmt.Errorf("not written whole: its writer was not closed, or failed")}
		}
		if a.info.Owner != "" {
			byKey[[2]string{a.info.Owner, a.info.Name}] = a
		}
	}
	for _, want := range expected(&s) {
		key := [2]string{want.owner, want.name}
		a, ok := byKey[key]
		if !ok && want.optional {
			continue
		}
		if !ok {
			return nil, w.schemaError(want.name, "%v was not written", want)
		}
		delete(byKey, key)
		if a.typ.Strings {
			return nil, w.schemaError(want.name, "%s strings were written; expected %v", humanize.Comma(a.part.Rows),
				want)
		}
		if a.part.Rows != want.rows || a.typ.DType != want.dtype || !slices.Equal(a.typ.Shape, want.shape) {
			return nil, w.schemaError(want.name, "%s rows of %v%v were written; expected %v",
				humanize.Comma(a.part.Rows), a.typ.DType, a.typ.Shape, want)
		}
		a.info.Parts = []Part{a.part}
		c.Columns = append(c.Columns, a.info)
	}
	if err := w.addStrings(c, byKey, len(s.Nodes)); err != nil {
		return nil, err
	}
	w.addSplits(c)
	if err := c.checkNames(); err != nil {
		return nil, fileError(w.dir, "rename it", err)
	}
	if err := c.check(); err != nil {
		return nil, fileError(w.dir, "", fmt.Errorf("%w: %v", graph.ErrSchema, err))
	}
	return c, nil
}

func (w *Writer) schemaError(column, format string, args ...any) error {
	return &Error{Path: w.dir, Column: column, Row: -1, Err: fmt.Errorf("%w: %s", graph.ErrSchema,
		fmt.Sprintf(format, args...))}
}

// expectation is an array that a schema asks for.
type expectation struct {
	owner, name string
	dtype       unified.DType
	shape       []int64
	rows        int64
	optional    bool
}

func (e expectation) String() string {
	return fmt.Sprintf("%s of %s, %s rows of %v%v", e.name, e.owner, humanize.Comma(e.rows), e.dtype, e.shape)
}

// expected lists the arrays of a schema in the order of the manifest.
func expected(s *graph.Schema) []expectation {
	m := s.NumEdges()
	list := []expectation{
		{owner: OwnerGraph, name: nameIndptr, dtype: unified.Int64, rows: s.NumNodes() + 1},
		{owner: OwnerGraph, name: nameIndices, dtype: s.IDType(), rows: m},
	}
	if len(s.Edges) > 1 {
		list = append(list, expectation{owner: OwnerGraph, name: nameType, dtype: typeDType(len(s.Edges)), rows: m})
	}
	list = append(list, expectation{owner: OwnerGraph, name: nameEdgeID, dtype: unified.Int64, rows: m, optional: true})
	for _, c := range s.EdgeColumns {
		list = append(list, expectation{owner: OwnerEdges, name: c.Name, dtype: c.DType, shape: c.Shape, rows: m})
	}
	for t := range s.Nodes {
		for _, c := range s.Nodes[t].Columns {
			list = append(list, expectation{owner: nodeOwner(t), name: c.Name, dtype: c.DType, shape: c.Shape,
				rows: s.Nodes[t].Count})
		}
	}
	return list
}

// typeDType returns the dtype of the edges' types.
func typeDType(edgeTypes int) unified.DType {
	if edgeTypes > 256 {
		return unified.Uint16
	}
	return unified.Uint8
}

// addStrings adds the strings that were written, which no schema lists; anything else that is left is an error.
func (w *Writer) addStrings(c *Content, left map[[2]string]*written, nodeTypes int) error {
	owners := make(map[string]int, nodeTypes)
	for t := range nodeTypes {
		owners[nodeOwner(t)] = t
	}
	var list []*written
	for _, a := range left {
		if _, ok := owners[a.info.Owner]; !ok || !a.typ.Strings {
			return w.schemaError(a.info.Name, "%s of %s was written, but the schema does not have it", a.info.Name,
				a.info.Owner)
		}
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b *written) int {
		return cmp.Or(cmp.Compare(owners[a.info.Owner], owners[b.info.Owner]), cmp.Compare(a.info.Name, b.info.Name))
	})
	for _, a := range list {
		a.info.Parts = []Part{a.part}
		c.Columns = append(c.Columns, a.info)
	}
	return nil
}

// addSplits adds the splits, tables of tasks first, those of nodes before those of links: by index, then train, val,
// test, then others by name.
func (w *Writer) addSplits(c *Content) {
	type key struct {
		task, name string
		index      int
	}
	at := map[key]int{}
	for _, a := range w.arrays {
		if a.info.Owner != "" {
			continue
		}
		k := key{a.split.Task, a.split.Name, a.split.Index}
		i, ok := at[k]
		if !ok {
			i = len(c.Splits)
			at[k] = i
			c.Splits = append(c.Splits, a.split)
		}
		a.set.Parts = []Part{a.part}
		c.Splits[i].Sets = append(c.Splits[i].Sets, a.set)
	}
	rank := func(name string) int {
		_, split := taskOf(name)
		if i := slices.Index([]string{"train", "val", "test"}, split); i >= 0 {
			return i
		}
		return 3
	}
	task := func(name string) string { task, _ := taskOf(name); return task }
	slices.SortStableFunc(c.Splits, func(a, b SplitInfo) int {
		return cmp.Or(-cmp.Compare(a.Task, b.Task), cmp.Compare(a.Index, b.Index),
			cmp.Compare(task(a.Name), task(b.Name)),
			cmp.Compare(rank(a.Name), rank(b.Name)), cmp.Compare(a.Name, b.Name))
	})
}
