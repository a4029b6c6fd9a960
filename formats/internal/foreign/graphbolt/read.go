package graphbolt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/foreign/arrays"
	"github.com/khop-gnn/khop/formats/internal/foreign/edgelist"
	"github.com/khop-gnn/khop/formats/internal/foreign/torch"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// Reader reads datasets of GraphBolt.
var Reader = source.Reader{Name: "graphbolt", Title: "a dataset of GraphBolt on the disk: metadata.yaml",
	Options: []string{"tables"}, Find: findGraphs, Read: readGraph}

func findGraphs(t *source.Tree) (found []string) {
	for _, name := range t.Files() {
		if path.Base(name) != "metadata.yaml" {
			continue
		}
		m, err := readMetadata(t.At(name))
		if err != nil || m == nil {
			continue
		}
		dir := path.Dir(name)
		if path.Base(dir) == "preprocessed" {
			dir = path.Dir(dir)
		}
		if !slices.Contains(found, dir) {
			found = append(found, dir)
		}
	}
	return found
}

// dataset is one being read.
type dataset struct {
	at    source.Place // its folder
	r     *source.Request
	m     *metadata
	nodes []arrays.Nodes
	edges []arrays.Edges
	sets  map[string]array.Set // by domain and type
	owned []io.Closer
	notes source.Graph // of the parts that are left out
}

func readGraph(ctx context.Context, at source.Place, r *source.Request) (_ *source.Graph, err error) {
	if path.Base(at.Name) == "metadata.yaml" {
		at = at.Beside(".")
	}
	d := &dataset{at: at, r: r, sets: map[string]array.Set{}}
	defer func() {
		if err != nil {
			err = source.Error(at.Path(), "", -1, "", err)
			for _, c := range d.owned {
				err = errors.Join(err, c.Close())
			}
		}
	}()
	if err := d.choose(); err != nil {
		return nil, err
	}
	if err := source.Steps(ctx, d.graph, d.features); err != nil {
		return nil, err
	}
	g, err := arrays.Typed(ctx, d.nodes, d.edges, r)
	if err != nil {
		return nil, err
	}
	if err := d.tasks(ctx, g); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	g.Notes = append(g.Notes, d.notes.Notes...)
	for _, c := range d.owned {
		g.Own(c)
	}
	return g, nil
}

// choose reads the description whose graph is there.
func (d *dataset) choose() error {
	var missing error
	for _, name := range []string{"metadata.yaml", "preprocessed/metadata.yaml"} {
		p := d.at.In(name)
		if !p.Exists() {
			continue
		}
		m, err := readMetadata(p)
		if err != nil {
			return err
		}
		if m == nil {
			continue
		}
		d.m = m
		if missing, err = d.missing(); missing == nil || err != nil {
			return err
		}
	}
	return cmp.Or(missing, fmt.Errorf("%w: it has no metadata.yaml of GraphBolt", source.ErrUnknown))
}

// missing says which file of the graph is not there; nil where all are.
func (d *dataset) missing() (missing, err error) {
	var names []string
	if d.m.Topology != nil {
		names = append(names, d.m.Topology.Path)
	} else {
		for _, e := range d.m.Graph.Edges {
			names = append(names, e.Path)
		}
	}
	for _, n := range names {
		p, err := within(d.at, n)
		if err != nil {
			return nil, err
		}
		if !p.Exists() {
			return fmt.Errorf("there is no file %.80q", n), nil
		}
	}
	return nil, nil
}

// files returns the arrays of a domain and type, a new set for a new one.
func (d *dataset) files(domain, typ string) array.Set {
	key := domain + " " + typ
	if d.sets[key] == nil {
		d.sets[key] = array.Set{}
	}
	return d.sets[key]
}

// graph finds node types and edges.
func (d *dataset) graph(ctx context.Context) error {
	if d.m.Topology != nil {
		return d.sampling(ctx)
	}
	for _, n := range d.m.Graph.Nodes {
		if n.Num < 0 {
			return fmt.Errorf("there are %d nodes of %q", n.Num, n.Type)
		}
		d.nodes = append(d.nodes, arrays.Nodes{Name: trim(n.Type), Count: n.Num, Set: d.files("node", n.Type),
			Declared: true})
	}
	for _, e := range d.m.Graph.Edges {
		src, relation, dst, err := triple(e.Type)
		if err != nil {
			return err
		}
		set := d.files("edge", e.Type)
		edges := arrays.Edges{Source: src, Relation: relation, Target: dst, Set: set, Declared: true}
		switch e.Format {
		case "numpy":
			set["edge_index"] = d.member(e.file)
		case "csv":
			at, err := within(d.at, e.Path)
			if err != nil {
				return err
			}
			g, err := edgelist.Read(ctx, at, edgelist.Options{IDs: edgelist.Numbers, Budget: d.r.Budget,
				Progress: d.r.Progress})
			if err != nil {
				return err
			}
			d.owned = append(d.owned, g)
			edges.Listed = &g.Edges
		default:
			return fmt.Errorf("edges in the format %.40q are not supported", e.Format)
		}
		d.edges = append(d.edges, edges)
	}
	d.m.FeatureData = append(d.m.FeatureData, d.m.Graph.FeatureData...)
	return nil
}

// features adds the columns.
func (d *dataset) features(context.Context) error {
	for _, f := range d.m.FeatureData {
		if f.Domain != "node" && f.Domain != "edge" {
			d.notes.Tell(source.LeftOut, f.Name, 1, "the feature %q of the domain %q is not stored", f.Name, f.Domain)
			continue
		}
		if f.Domain == "edge" && d.m.Topology != nil {
			d.notes.Tell(source.LeftOut, f.Name, 1,
				"the feature %q of edges is not stored: the preprocessed graph does "+
					"not say which edge is which", f.Name)
			continue
		}
		set := d.sets[f.Domain+" "+f.Type]
		if set == nil {
			return fmt.Errorf("the feature %q is of the type %q, which is not there", f.Name, f.Type)
		}
		name := f.Name
		if _, ok := set[name]; ok {
			return fmt.Errorf("the feature %q of %q is there twice", f.Name, f.Type)
		}
		set[name] = d.member(f.file)
	}
	return nil
}

func (d *dataset) member(f file) array.Member {
	return array.Member{Path: d.at.In(f.Path).Path(),
		Open: func() (*array.Reader, io.Closer, error) { return d.open(f) }}
}

// open opens an array.
func (d *dataset) open(f file) (*array.Reader, io.Closer, error) {
	at, err := within(d.at, f.Path)
	if err != nil {
		return nil, nil, err
	}
	switch f.Format {
	case "numpy", "":
		return arrays.OpenFile(at)
	case "torch":
		x, err := torch.Open(at, d.r.Budget)
		if err != nil {
			return nil, nil, err
		}
		t, ok, err := x.Tensor(x.Value)
		if err == nil && !ok {
			err = errors.New("is not a tensor")
		}
		if err == nil {
			var r *array.Reader
			if r, err = t.Reader(false); err == nil {
				return r, x, nil
			}
		}
		return nil, nil, errors.Join(source.Error(at.Path(), "", -1, "", err), x.Close())
	}
	return nil, nil, source.Error(at.Path(), "", -1, "", fmt.Errorf("the format %.40q is not supported", f.Format))
}

// trim returns the name of a type without what a message need not say.
func trim(name string) string { return cmp.Or(strings.TrimSpace(name), "node") }
