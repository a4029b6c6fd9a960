package npz

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/formats/internal/foreign/arrays"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// Reader reads .npz archives.
var Reader = source.Reader{Name: "npz", Title: "a NumPy archive", Options: []string{"tables"},
	ByName: true, Find: func(t *source.Tree) []string { return t.Beginning(Looks) }, Read: Read}

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
	sep := a.separator()
	switch {
	case sep != "":
		err = a.sparse(g, sep)
	case a.has("indptr") && a.has("indices"):
		if g.Node().Count, err = a.rowsOf("", false); err == nil {
			err = a.addMatrix(g, "")
		}
	default:
		var ok bool
		if ok, err = d.Edges(ctx); !ok && err == nil {
			err = fmt.Errorf("the layout of the archive is not known: it holds %s", a.list())
			err = source.Error(a.Path, "", -1, "", err)
		}
		g.Edges.Undirected = d.Used["edges"] && (a.has("node_features") || a.has("node_labels") || a.has("train_masks"))
		clear(a.read)
	}
	if err != nil {
		return nil, err
	}
	for _, name := range d.Set.Names() {
		d.Used[name] = d.Used[name] || a.read[name]
		if _, err = a.header(name); err != nil {
			return nil, err
		}
	}
	if err = d.Others(ctx); err == nil && sep != "" {
		err = a.addNames(g)
	}
	if err != nil {
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
	}
	_, _ = a.has("node_names"), a.has("class_names") // no columns: addNames is last, as it must know the classes
	if err := a.addMatrix(g, adj); err != nil {
		return err
	}
	if a.has(attr + "indptr") {
		m, err := a.matrix(attr)
		if err != nil {
			return err
		}
		return a.addSparseFeatures(g, m)
	}
	return nil
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

// addNames keeps the names of nodes and classes that are plain strings.
func (a *Archive) addNames(g *source.Graph) error {
	for _, n := range []struct {
		member, column string
		rows           int64
		others         bool
	}{{"node_names", "id", g.Node().Count, false}, {"class_names", "class", g.Node().Classes, true}} {
		list, ok, err := a.strings(g, n.member, n.rows)
		if err != nil {
			return err
		}
		if ok {
			names := source.List(n.column, list)
			names.Others = n.others
			g.Node().Strings = append(g.Node().Strings, names)
		}
	}
	return nil
}
