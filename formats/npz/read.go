package npz

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/khop-gnn/khop/formats/npy"
	"github.com/khop-gnn/khop/formats/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// maxWidth is the greatest width of features that is taken.
const maxWidth = 1 << 24

// Read describes the graph in the archive at path. The caller closes the graph, which keeps the file open. Memory: the
// edges, 8 or 16 bytes each, labels and masks, and, of features in a sparse matrix, its entries; dense features are
// streamed. budget is charged for it.
func Read(ctx context.Context, path string, budget *source.Budget) (_ *source.Graph, err error) {
	a, err := open(path, budget)
	if err != nil {
		return nil, err
	}
	g := &source.Graph{}
	g.Own(a)
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	switch sep := a.separator(); {
	case sep != "":
		err = a.sparse(g, sep)
	case a.has("edges"):
		err = a.dense(g)
	case a.has("indptr") && a.has("indices"):
		err = a.bare(g)
	default:
		err = source.Error(path, "", -1, "", fmt.Errorf("an archive of no known layout: it holds %s", a.list()))
	}
	if err != nil {
		return nil, err
	}
	a.noteObjects(g)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return g, nil
}

func (a *archive) list() string {
	var names []string
	for name := range a.members {
		names = append(names, fmt.Sprintf("%.40q", name))
	}
	sort.Strings(names)
	if len(names) > 12 {
		names = append(names[:12], "..")
	}
	if len(names) == 0 {
		return "no arrays"
	}
	return strings.Join(names, ", ")
}

// separator returns what stands before a matrix's parts: "adj_matrix." or "adj_"; "" if there is none.
func (a *archive) separator() string {
	for _, s := range []string{"matrix.", "matrix_", ""} {
		if a.has("adj_" + s + "indptr") {
			return "_" + s
		}
	}
	return ""
}

// sparse reads the sparse layout.
func (a *archive) sparse(g *source.Graph, sep string) error {
	adj, err := a.matrix("adj"+sep, false)
	if err != nil {
		return err
	}
	if adj.rows != adj.cols {
		return a.fail("adj"+sep+"shape", -1, "is %d x %d: an adjacency matrix is square", adj.rows, adj.cols)
	}
	g.Nodes = adj.rows
	if err := a.setEdges(g, adj); err != nil {
		return err
	}
	if a.has("attr" + sep + "indptr") {
		attr, err := a.matrix("attr"+sep, true)
		if err != nil {
			return err
		}
		if attr.rows != g.Nodes {
			return a.fail("attr"+sep+"shape", -1, "has %d rows, but there are %d nodes", attr.rows, g.Nodes)
		}
		if err := a.addSparseFeatures(g, attr); err != nil {
			return err
		}
	} else if err := a.addDenseFeatures(g, "attr_matrix"); err != nil {
		return err
	}
	if err := a.addLabels(g, "labels"); err != nil {
		return err
	}
	if err := a.addMasks(g); err != nil {
		return err
	}
	return a.addNames(g)
}

// bare reads one CSR matrix.
func (a *archive) bare(g *source.Graph) error {
	adj, err := a.matrix("", false)
	if err != nil {
		return err
	}
	if !a.has("shape") {
		adj.cols = adj.rows
		if err := adj.checkColumns(a); err != nil {
			return err
		}
	}
	if adj.rows != adj.cols {
		return a.fail("shape", -1, "is %d x %d: an adjacency matrix is square", adj.rows, adj.cols)
	}
	g.Nodes = adj.rows
	return a.setEdges(g, adj)
}

// dense reads the dense layout.
func (a *archive) dense(g *source.Graph) error {
	edges, shape, err := a.ints("edges", 2)
	if err != nil {
		return err
	}
	m := shape[0]
	at := func(i, end int64) int64 { return 2*i + end }
	switch {
	case shape[1] == 2:
	case shape[0] == 2:
		m = shape[1]
		at = func(i, end int64) int64 { return end*m + i }
	default:
		return a.fail("edges", -1, "has the shape %v, not (edges, 2)", shape)
	}
	if err := a.countNodes(g, edges); err != nil {
		return err
	}
	for i := range m {
		for end := range int64(2) {
			if v := edges[at(i, end)]; v < 0 || v >= g.Nodes {
				return a.fail("edges", i, "node %d is not in 0 .. %d", v, g.Nodes-1)
			}
		}
	}
	g.Edges = source.Edges{Count: m, Undirected: true, Each: func(yield func(src, dst []int64) error) error {
		var src, dst []int64
		for i := int64(0); i < m; {
			src, dst = src[:0], dst[:0]
			for ; i < m && len(src) < chunkEdges; i++ {
				src, dst = append(src, edges[at(i, 0)]), append(dst, edges[at(i, 1)])
			}
			if err := yield(src, dst); err != nil {
				return err
			}
		}
		return nil
	}}
	if err := a.addDenseFeatures(g, "node_features"); err != nil {
		return err
	}
	if err := a.addLabels(g, "node_labels"); err != nil {
		return err
	}
	return a.addMasks(g)
}

// countNodes takes the number of nodes from the features or labels, else from the edges.
func (a *archive) countNodes(g *source.Graph, edges []int64) error {
	for _, name := range []string{"node_features", "node_labels"} {
		if !a.has(name) {
			continue
		}
		h, err := a.header(name)
		if err != nil {
			return err
		}
		if len(h.Shape) == 0 {
			return a.fail(name, -1, "is a single number")
		}
		g.Nodes = h.Shape[0]
		return nil
	}
	for _, v := range edges {
		g.Nodes = max(g.Nodes, v+1)
	}
	return nil
}

func (a *archive) addDenseFeatures(g *source.Graph, name string) error {
	if !a.has(name) {
		return nil
	}
	h, err := a.header(name)
	if err != nil {
		return err
	}
	if h.Kind == npy.Object {
		return nil // noted with the others
	}
	if h.DType == unified.Invalid || len(h.Shape) != 2 || h.Shape[0] != g.Nodes || h.Shape[1] > maxWidth {
		return a.fail(name, -1, "is %v, but features are numbers of the shape (%d, width)", &h, g.Nodes)
	}
	if h.Shape[1] == 0 {
		g.Note("%s has no columns and is not stored", name)
		return nil
	}
	c := graph.Column{Name: "feature", DType: h.DType, Shape: []int64{h.Shape[1]}}
	g.Columns = append(g.Columns, source.Column{Column: c, Write: func(ctx context.Context,
		w writer) error {
		return a.stream(ctx, w, name)
	}})
	return nil
}

func (a *archive) addLabels(g *source.Graph, name string) error {
	if !a.has(name) {
		return nil
	}
	if h, err := a.header(name); err != nil || h.Kind == npy.Object {
		return err // objects are noted with the others
	}
	labels, _, err := a.ints(name, 1)
	if err != nil {
		return err
	}
	if int64(len(labels)) != g.Nodes {
		return a.fail(name, -1, "has %d labels, but there are %d nodes", len(labels), g.Nodes)
	}
	g.Classes = source.Classes(labels)
	g.Columns = append(g.Columns, source.Bytes(graph.Column{Name: "label", DType: unified.Int64},
		unified.FromSlice(labels).Bytes()))
	return nil
}

// addMasks makes a split of each mask of train, val and test, [n], [splits, n] or [n, splits].
func (a *archive) addMasks(g *source.Graph) error {
	for _, split := range []string{"train", "val", "test"} {
		name := split + "_masks"
		if !a.has(name) {
			name = split + "_mask"
		}
		if !a.has(name) {
			continue
		}
		mask, s, err := a.ints(name, 0)
		if err != nil {
			return err
		}
		// of splits; steps in the array to the next node, the next split
		count, node, index := int64(1), int64(1), int64(0)
		switch {
		case len(s) == 1 && s[0] == g.Nodes:
		case len(s) == 2 && s[1] == g.Nodes:
			count, index = s[0], s[1]
		case len(s) == 2 && s[0] == g.Nodes:
			count, node, index = s[1], s[1], 1
		default:
			return a.fail(name, -1, "has the shape %v, but masks have (splits, %d)", s, g.Nodes)
		}
		if count > 1<<16 {
			return a.fail(name, -1, "has %d splits", count)
		}
		for k := range count {
			s := source.Split{Name: split, Index: int(k), IDs: []int64{}}
			for v := range g.Nodes {
				switch mask[k*index+v*node] {
				case 0:
				case 1:
					if s.IDs, err = source.Grow(a.budget, s.IDs, 1); err != nil {
						return a.fail(name, v, "%w", err)
					}
					s.IDs = append(s.IDs, v)
				default:
					return a.fail(name, v, "a mask holds 0 and 1, not %d", mask[k*index+v*node])
				}
			}
			g.Splits = append(g.Splits, s)
		}
		a.budget.Give(8 * int64(len(mask)))
	}
	return nil
}

// addNames keeps the names of nodes and classes that are plain strings.
func (a *archive) addNames(g *source.Graph) error {
	for _, n := range []struct {
		member, column string
		rows           int64
	}{{"node_names", "id", g.Nodes}, {"class_names", "class", g.Classes}} {
		list, ok, err := a.strings(n.member)
		if err != nil {
			return err
		}
		if ok && int64(len(list)) == n.rows {
			g.Strings = append(g.Strings, source.List(n.column, list))
		} else if ok {
			g.Note("%s is not stored: it has %d names for %d", n.member, len(list), n.rows)
		}
	}
	return nil
}
