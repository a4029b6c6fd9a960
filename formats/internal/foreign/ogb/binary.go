package ogb

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/foreign/arrays"
	"github.com/khop-gnn/khop/formats/internal/foreign/npz"
	"github.com/khop-gnn/khop/formats/internal/source"
)

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
