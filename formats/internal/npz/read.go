package npz

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/arrays"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// Reader reads .npz archives.
var Reader = source.Reader{Name: "npz", Title: "a NumPy archive", Options: []string{"tables"},
	Find: func(t *source.Tree) []string { return t.Beginning(Looks) }, Read: Read}

// maxWidth is the greatest width of features that is taken.
const maxWidth = 1 << 24

// Read describes the graph in an archive. The caller closes the graph, which keeps the file open. The shapes
// of all arrays are compared with each other and with what the ledger has left before any is expanded. Memory, which
// the ledger counts: labels and the nodes of masks; edges and features are streamed.
func Read(ctx context.Context, at source.Place, r *source.Request) (_ *source.Graph, err error) {
	ledger := r.Budget.Ledger()
	a, err := Open(at, ledger)
	if err != nil {
		return nil, err
	}
	g := source.Plain()
	g.Own(a)
	defer source.CloseOnError(&err, g)
	d := &arrays.Describer{Set: a.Set(), Graph: g, R: r,
		Used: map[string]bool{}}
	known := true
	switch sep := a.separator(); {
	case sep != "":
		err = a.sparse(g, sep)
	case a.has("edges"):
		err = a.dense(g, d)
	case a.has("indptr") && a.has("indices"):
		err = a.bare(g)
	default:
		known = false // what is looked at is not part of a layout
		var ok bool
		if ok, err = d.Edges(ctx); !ok && err == nil {
			err = fmt.Errorf("the layout of the archive is not known: it holds %s", a.list())
			err = source.Error(a.Path, "", -1, "", err)
		}
	}
	if err != nil {
		return nil, err
	}
	if known {
		for name := range a.members {
			d.Used[name] = d.Used[name] || a.read[name]
		}
	}
	a.noteObjects(g, d.Used)
	if err = d.Others(ctx); err != nil {
		return nil, err
	}
	a.edgeColumns = d.EdgeArrays()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return g, nil
}

func (a *Archive) list() string {
	var names []string
	for name := range a.members {
		names = append(names, fmt.Sprintf("%.40q", name))
	}
	slices.Sort(names)
	return cmp.Or(source.Few(names), "no arrays")
}

// separator returns what stands before a matrix's parts: "adj_matrix." or "adj_"; "" if there is none.
func (a *Archive) separator() string {
	for _, s := range []string{"matrix.", "matrix_", ""} {
		if a.has("adj_" + s + "indptr") {
			return "_" + s
		}
	}
	return ""
}

// sparse reads the sparse layout.
func (a *Archive) sparse(g *source.Graph, sep string) error {
	adj, attr := "adj"+sep, "attr"+sep
	var err error
	if g.Node().Count, err = a.rowsOf(adj, false); err != nil {
		return err
	}
	if a.has(attr + "indptr") {
		rows, err := a.rowsOf(attr, true)
		if err == nil && rows != g.Node().Count {
			err = a.fail(attr+"shape", -1, "has %d rows, but there are %d nodes", rows, g.Node().Count)
		}
		if err != nil {
			return err
		}
	} else if err := a.addDenseFeatures(g, "attr_matrix"); err != nil {
		return err
	}
	if err := a.checkTables(g, "labels"); err != nil {
		return err
	}
	if err := a.addMatrix(g, adj); err != nil {
		return err
	}
	if a.has(attr + "indptr") {
		m, err := a.matrix(attr)
		if err != nil {
			return err
		}
		if err := a.addSparseFeatures(g, m); err != nil {
			return err
		}
	}
	if err := a.addLabels(g, "labels"); err != nil {
		return err
	}
	if err := a.addMasks(g); err != nil {
		return err
	}
	return a.addNames(g)
}

// addMatrix makes the adjacency matrix of that prefix the graph's edges.
func (a *Archive) addMatrix(g *source.Graph, prefix string) error {
	adj, err := a.matrix(prefix)
	if err != nil {
		return err
	}
	if !a.has(prefix + "shape") {
		adj.cols = adj.rows
		if err := adj.checkColumns(); err != nil {
			return err
		}
	}
	if adj.rows != adj.cols {
		return a.fail(prefix+"shape", -1, "is %d x %d: an adjacency matrix is square", adj.rows, adj.cols)
	}
	a.setEdges(g, adj)
	return nil
}

// bare reads one CSR matrix.
func (a *Archive) bare(g *source.Graph) (err error) {
	if g.Node().Count, err = a.rowsOf("", false); err != nil {
		return err
	}
	return a.addMatrix(g, "")
}

// dense reads the dense layout.
func (a *Archive) dense(g *source.Graph, d *arrays.Describer) error {
	h, err := a.header("edges")
	if err != nil {
		return err
	}
	if len(h.Shape) != 2 {
		return a.fail("edges", -1, "is %v, an array of 2 dimensions is wanted", &h)
	}
	if h.Shape[1] != 2 && h.Shape[0] != 2 {
		return a.fail("edges", -1, "has the shape %v, not (edges, 2)", h.Shape)
	}
	m := h.Elements() / 2
	if err := a.countNodes(g, m); err != nil {
		return err
	}
	if err := a.addDenseFeatures(g, "node_features"); err != nil {
		return err
	}
	if err := a.checkTables(g, "node_labels"); err != nil {
		return err
	}
	if err := d.SetEdges("edges"); err != nil {
		return err
	}
	g.Edges.Undirected = true
	if err := a.checkEdges(g); err != nil {
		return err
	}
	if err := a.addLabels(g, "node_labels"); err != nil {
		return err
	}
	return a.addMasks(g)
}

// checkEdges compares the ends of all edges with the number of nodes, and the member's checksum.
func (a *Archive) checkEdges(g *source.Graph) error {
	nodes, at := g.Node().Count, int64(0)
	if err := g.Edges.Each(func(b source.Batch) error {
		for i := range b.Src {
			for _, v := range []int64{b.Src[i], b.Dst[i]} {
				if v < 0 || v >= nodes {
					return a.fail("edges", at+int64(i), "node %d is not in 0 .. %d", v, nodes-1)
				}
			}
		}
		at += int64(len(b.Src))
		return nil
	}); err != nil {
		return err
	}
	return a.scanInts("edges", func([]int64, int64) error { return nil })
}

// countNodes takes the number of nodes from the features or labels, else from the m edges.
func (a *Archive) countNodes(g *source.Graph, m int64) error {
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
		g.Node().Count = h.Shape[0]
		if h.Bytes() == 0 && source.TooSparse(g.Node().Count, m) {
			return a.fail(name, -1, "is %v: it has nothing for each of %d nodes, and there are only %d edges", &h,
				g.Node().Count, m)
		}
		return nil
	}
	return a.elements("edges", func(r io.Reader, h array.Header) error {
		return array.EachInts(r, h, func(block []int64, _ int64) error {
			g.Node().Count = max(g.Node().Count, slices.Max(block)+1)
			return nil
		})
	})
}

// checkTables compares the shapes of labels and masks with the number of nodes. It expands none of them.
func (a *Archive) checkTables(g *source.Graph, labels string) error {
	if a.has(labels) {
		h, err := a.header(labels)
		switch {
		case err != nil:
			return err
		case h.Kind == array.Object: // noted with the others
		case len(h.Shape) != 1:
			return a.fail(labels, -1, "is %v, an array of 1 dimension is wanted", &h)
		case h.Elements() != g.Node().Count:
			return a.fail(labels, -1, "has %d labels, but there are %d nodes", h.Elements(), g.Node().Count)
		}
	}
	for _, split := range splitNames {
		name := a.mask(split)
		if name == "" {
			continue
		}
		h, err := a.header(name)
		if err == nil {
			_, err = a.maskShape(name, &h, g.Node().Count)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *Archive) addDenseFeatures(g *source.Graph, name string) error {
	if !a.has(name) {
		return nil
	}
	h, err := a.header(name)
	if err != nil {
		return err
	}
	if h.Kind == array.Object {
		return nil // noted with the others
	}
	if h.DType == unified.Invalid || len(h.Shape) != 2 || h.Shape[0] != g.Node().Count || h.Shape[1] > maxWidth {
		return a.fail(name, -1, "is %v, but features are numbers of the shape (%d, width)", &h, g.Node().Count)
	}
	if h.Shape[1] == 0 {
		g.Note("%s has no columns and is not stored", name)
		return nil
	}
	c := graph.Column{Name: "feature", DType: h.DType, Shape: []int64{h.Shape[1]}}
	g.Node().Columns = append(g.Node().Columns, source.Column{Column: c, Write: func(ctx context.Context,
		w io.Writer) error {
		return a.stream(ctx, w, name)
	}})
	return nil
}

func (a *Archive) addLabels(g *source.Graph, name string) error {
	if !a.has(name) {
		return nil
	}
	if h, err := a.header(name); err != nil || h.Kind == array.Object {
		return err // objects are noted with the others
	}
	labels, err := a.ints(name)
	if err != nil {
		return err
	}
	g.Node().SetLabels(labels)
	return nil
}

var splitNames = []string{"train", "val", "test"}

// mask returns the name of a split's mask; empty where there is none.
func (a *Archive) mask(split string) string {
	for _, name := range []string{split + "_masks", split + "_mask"} {
		if a.has(name) {
			return name
		}
	}
	return ""
}

// maxSplits is how many splits of a name are taken. Each is a file.
const maxSplits = 1 << 12

// maskShape is how the elements of a mask lie in the file.
type maskShape struct {
	splits, nodes int64
	byNode        bool // the elements of a node lie together, else those of a split
}

// maskShape compares the shape of a mask, [n], [splits, n] or [n, splits], with the number of nodes.
func (a *Archive) maskShape(name string, h *array.Header, nodes int64) (m maskShape, err error) {
	s := h.Shape
	switch {
	case len(s) == 1 && s[0] == nodes:
		m = maskShape{1, nodes, false}
	case len(s) == 2 && s[1] == nodes:
		m = maskShape{s[0], nodes, h.Fortran}
	case len(s) == 2 && s[0] == nodes:
		m = maskShape{s[1], nodes, !h.Fortran}
	default:
		return m, a.fail(name, -1, "has the shape %v, but masks have (splits, %d)", s, nodes)
	}
	if m.splits > maxSplits {
		return m, a.fail(name, -1, "has %d splits, at most %d are possible", m.splits, maxSplits)
	}
	return m, nil
}

// addMasks makes a split of each mask of train, val and test.
func (a *Archive) addMasks(g *source.Graph) error {
	for _, split := range splitNames {
		name := a.mask(split)
		if name == "" {
			continue
		}
		var splits []source.Split
		err := a.elements(name, func(r io.Reader, h array.Header) error {
			m, err := a.maskShape(name, &h, g.Node().Count)
			if err != nil {
				return err
			}
			for k := range m.splits {
				splits = append(splits, source.Split{Name: split, Index: int(k), IDs: []int64{}})
			}
			return array.EachInts(r, h, func(block []int64, at int64) error {
				return a.readMask(name, splits, m, block, at)
			})
		})
		if err != nil {
			return err
		}
		g.Splits = append(g.Splits, splits...)
	}
	return nil
}

// readMask adds the nodes of a block of a mask, whose first element is number at, to the splits.
func (a *Archive) readMask(name string, splits []source.Split, m maskShape, block []int64, at int64) (err error) {
	for i, x := range block {
		e := at + int64(i)
		v, k := e%m.nodes, e/m.nodes
		if m.byNode {
			v, k = e/m.splits, e%m.splits
		}
		switch s := &splits[k]; x {
		case 0:
		case 1:
			if s.IDs, err = source.Grow(a.ledger, s.IDs, 1); err != nil {
				return a.fail(name, v, "%w", err)
			}
			s.IDs = append(s.IDs, v)
		default:
			return a.fail(name, v, "a mask holds 0 and 1, not %d", x)
		}
	}
	return nil
}

// addNames keeps the names of nodes and classes that are plain strings.
func (a *Archive) addNames(g *source.Graph) error {
	for _, n := range []struct {
		member, column string
		rows           int64
	}{{"node_names", "id", g.Node().Count}, {"class_names", "class", g.Node().Classes}} {
		list, ok, err := a.strings(g, n.member, n.rows)
		if err != nil {
			return err
		}
		if ok {
			g.Node().Strings = append(g.Node().Strings, source.List(n.column, list))
		}
	}
	return nil
}
