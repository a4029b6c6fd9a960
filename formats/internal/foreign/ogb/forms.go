package ogb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/foreign/arrays"
	"github.com/khop-gnn/khop/formats/internal/foreign/dgl"
	"github.com/khop-gnn/khop/formats/internal/foreign/edgelist"
	"github.com/khop-gnn/khop/formats/internal/foreign/npz"
	"github.com/khop-gnn/khop/formats/internal/foreign/torch"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// graphReaders read what lies in the folder "processed", whatever its name is.
var graphReaders = []source.Reader{torch.Reader, dgl.BinReader}

// findProcessed returns the folders that have splits, and one graph in processed/, but nothing in raw/.
func findProcessed(t *source.Tree) (found []string) {
	graphs, splits := map[string]int{}, map[string]bool{}
	for _, r := range graphReaders {
		for _, name := range r.Find(t) {
			if dir := path.Dir(name); path.Base(dir) == "processed" {
				graphs[path.Dir(dir)]++
			}
		}
	}
	for _, name := range t.Files() {
		if root, _, ok := strings.Cut("/"+name, "/split/"); ok {
			splits[strings.TrimPrefix(path.Clean("."+root), "./")] = true
		}
	}
	for dir, n := range graphs {
		if n == 1 && splits[dir] {
			found = append(found, dir)
		}
	}
	return found
}

// readProcessed reads a graph that OGB's classes for PyG or DGL have saved, with the splits beside it. OGB has added
// reverse edges to it already.
func readProcessed(ctx context.Context, at source.Place, r *source.Request) (_ *source.Graph, err error) {
	for _, reader := range graphReaders {
		for _, name := range reader.Find(at.Tree) {
			if path.Dir(name) != at.In("processed").Name {
				continue
			}
			g, err := reader.Read(ctx, at.Tree.At(name), r)
			if err != nil {
				return nil, err
			}
			if len(g.Nodes) > 1 {
				g.Tell(source.LeftOut, "split", int64(len(g.Nodes)),
					"splits of several node types are not read beside a processed graph: convert raw/")
				return g, nil
			}
			d := &dataset{g: g, at: at, r: r, nodes: g.Node().Count}
			if err := source.Steps(ctx, d.splits, d.names); err != nil {
				return nil, errors.Join(err, g.Close())
			}
			return g, nil
		}
	}
	return nil, source.Error(at.Path(), "", -1, "name a folder with raw/ or with one graph in processed/",
		source.ErrUnknown)
}

// binaryGraph is the archive of a dataset that OGB calls binary.
const binaryGraph = "data.npz"

// readBinary reads a dataset of one graph in archives: raw/data.npz and raw/node-label.npz.
func readBinary(ctx context.Context, at source.Place, r *source.Request) (_ *source.Graph, err error) {
	set := &archives{Set: array.Set{}}
	defer source.CloseOnError(&err, set)
	for _, name := range []string{binaryGraph, "node-label.npz", "edge-label.npz"} {
		p := at.In("raw/" + name)
		if !p.Exists() {
			continue
		}
		a, err := npz.Open(p, r.Budget.Ledger())
		if err != nil {
			return nil, err
		}
		set.all = append(set.all, a)
		maps.Copy(set.Set, a.Set())
	}
	nodes, err := set.one("num_nodes_list")
	if err != nil {
		return nil, err
	}
	for _, counts := range []string{"num_nodes_list", "num_edges_list"} { // of each graph
		delete(set.Set, counts)
	}
	request := *r
	request.Nodes = nodes
	g, ok, err := arrays.Describe(ctx, set.Set, &request)
	if err == nil && !ok {
		err = source.Error(at.In("raw/"+binaryGraph).Path(), "", -1, "", fmt.Errorf("there is no edge_index: it has %v",
			set.Names()))
	}
	if err != nil {
		return nil, err
	}
	g.Own(set)
	d := &dataset{g: g, at: at, r: r, nodes: nodes}
	d.direction()
	if err := source.Steps(ctx, d.splits, d.names); err != nil {
		g.Notes = nil
		return nil, err
	}
	return g, nil
}

// archives are the arrays of several archives.
type archives struct {
	array.Set
	all []*npz.Archive
}

// Close closes the archives.
func (s *archives) Close() error {
	var errs []error
	for _, a := range s.all {
		errs = append(errs, a.Close())
	}
	s.all = nil
	return errors.Join(errs...)
}

// one reads the only number of an array.
func (s *archives) one(name string) (int64, error) {
	member, ok := s.Set[name]
	if !ok {
		return 0, source.Error(s.all[0].Path+": "+name, "", -1, "", errors.New("is not there"))
	}
	r, c, err := member.Open()
	if err != nil {
		return 0, err
	}
	v, err := r.Ints(2)
	if err = errors.Join(err, c.Close()); err == nil && (len(v) != 1 || v[0] < 0) {
		err = errors.New("there are several graphs in it: one is wanted")
	}
	if err != nil {
		return 0, source.Error(member.Path, member.Column, -1, "convert datasets of one graph", err)
	}
	return v[0], nil
}

// triplets is the table of edge types.
const triplets = "raw/triplet-type-list.csv"

// readTyped reads a dataset of several types: num-node-dict, triplet-type-list, and a folder for each edge type.
func readTyped(ctx context.Context, at source.Place, r *source.Request) (_ *source.Graph, err error) {
	nodes, err := counts(ctx, table(at, "raw/num-node-dict.csv"), r)
	if err != nil {
		return nil, err
	}
	var edges []arrays.Edges
	var owned []*source.Graph
	defer func() {
		if err != nil {
			for _, g := range owned {
				err = errors.Join(err, g.Close())
			}
		}
	}()
	if err := rows(ctx, table(at, triplets), r, func(_ int64, f [][]byte) error {
		if len(f) != 3 {
			return fmt.Errorf("there are %d names, not source, relation and target", len(f))
		}
		e := arrays.Edges{Source: string(f[0]), Relation: string(f[1]), Target: string(f[2])}
		p := table(at, fmt.Sprintf("raw/relations/%s___%s___%s/edge.csv", f[0], f[1], f[2]))
		g, err := edgelist.Read(ctx, p, edgelist.Options{IDs: edgelist.Numbers, Budget: r.Budget, Progress: r.Progress})
		if err != nil {
			return err
		}
		owned = append(owned, g)
		e.Listed = &g.Edges
		edges = append(edges, e)
		return nil
	}); err != nil {
		return nil, err
	}
	g, err := arrays.Typed(ctx, nodes, edges, r)
	if err != nil {
		return nil, source.Error(at.Path(), "", -1, "", err)
	}
	for _, o := range owned {
		g.Own(o)
	}
	owned = nil
	for i, n := range nodes {
		d := &dataset{g: g, at: at, r: r, nodes: n.Count, node: i, typ: n.Name}
		if err := source.Steps(ctx, d.features, d.labels, d.splits); err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	return g, nil
}

// counts reads the numbers of nodes: a line of names, a line of numbers.
func counts(ctx context.Context, at source.Place, r *source.Request) (list []arrays.Nodes, err error) {
	var names []string
	err = rows(ctx, at, r, func(_ int64, f [][]byte) error {
		if names == nil {
			for _, name := range f {
				names = append(names, string(name))
			}
			return nil
		}
		if list != nil {
			return errors.New("there are several graphs in it: one is wanted")
		}
		if len(f) != len(names) {
			return fmt.Errorf("there are %d numbers for %d names", len(f), len(names))
		}
		for i, x := range f {
			n, err := integer(x)
			if err == nil && n < 0 {
				err = fmt.Errorf("there are %d nodes of %q", n, names[i])
			}
			if err != nil {
				return err
			}
			list = append(list, arrays.Nodes{Name: names[i], Count: n})
		}
		return nil
	})
	if err == nil && list == nil {
		err = source.Error(at.Path(), "", -1, "", errors.New("it does not say how many nodes there are"))
	}
	return list, err
}
