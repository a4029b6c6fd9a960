package ogb

import (
	"context"
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/formats/internal/foreign/arrays"
	"github.com/khop-gnn/khop/formats/internal/foreign/edgelist"
	"github.com/khop-gnn/khop/formats/internal/source"
)

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
