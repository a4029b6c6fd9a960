package torch

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/foreign/arrays"
	"github.com/khop-gnn/khop/formats/internal/foreign/pickle"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// Reader reads graphs of PyTorch Geometric.
var Reader = source.Reader{Name: "pyg", Title: "a Data, HeteroData or InMemoryDataset of PyTorch Geometric (.pt)",
	Options: []string{"tables"}, ByName: true, Find: findGraphs, Read: readGraph}

func findGraphs(t *source.Tree) []string {
	return t.Where(func(at source.Place) bool {
		if head, err := at.Head(); err != nil || !Looks(head) {
			return false
		}
		f, err := Open(at, nil)
		if err != nil {
			return errors.Is(err, pickle.ErrForbidden) && t.Single() // so that it is reported
		}
		defer f.Close()
		_, ok := f.stores()
		return ok
	})
}

// store is a part of a graph: the attributes of a node type, of an edge type, or of a plain graph.
type store struct {
	key    any // nil: of a plain graph
	values *pickle.Dict
}

func readGraph(ctx context.Context, at source.Place, r *source.Request) (_ *source.Graph, err error) {
	f, err := Open(at, r.Budget)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(source.Error(f.Path, "", -1, "", err), f.Close())
		}
	}()
	stores, ok := f.stores()
	if !ok {
		return nil, source.Error(f.Path, "", -1, "save a Data or HeteroData by torch.save",
			fmt.Errorf("%w: it is %s", source.ErrUnknown, pickle.Describe(f.Value)))
	}
	g, err := f.graph(ctx, stores, r)
	if err != nil {
		return nil, err
	}
	g.Own(f)
	return g, nil
}

// graph describes the graph in stores.
func (f *File) graph(ctx context.Context, stores []store, r *source.Request) (*source.Graph, error) {
	if stores[0].key == nil {
		set := f.set(stores[0])
		g, ok, err := arrays.Describe(ctx, set.Set, r)
		if err == nil && !ok {
			err = fmt.Errorf("%w: there is no edge_index: it has %s", source.ErrUnknown,
				strings.Join(append(set.Names(), set.others...), ", "))
		}
		if err == nil {
			set.note(g, "")
		}
		return g, err
	}
	var nodes []arrays.Nodes
	var edges []arrays.Edges
	var sets []*set
	for _, s := range stores {
		x := f.set(s)
		sets = append(sets, x)
		if name, ok := s.key.(string); ok {
			nodes = append(nodes, arrays.Nodes{Name: name, Count: x.nodes, Set: x.Set})
			continue
		}
		t := s.key.(pickle.Tuple)
		e := arrays.Edges{Source: pickle.Text(t[0]), Relation: pickle.Text(t[1]), Target: pickle.Text(t[2]), Set: x.Set}
		edges = append(edges, e)
	}
	g, err := arrays.Typed(ctx, arrays.WithEnds(nodes, edges), edges, r)
	if err == nil {
		for i, s := range stores {
			sets[i].note(g, fmt.Sprintf("%v: ", s.key))
		}
	}
	return g, err
}

// stores finds the parts of a graph in the value: of a Data, of a HeteroData, or of the tuple that an InMemoryDataset
// has saved, with a graph as an object or as a dictionary.
func (f *File) stores() ([]store, bool) {
	v := f.Value
	if t, ok := v.(pickle.Tuple); ok && len(t) >= 2 && len(t) <= 4 {
		if v = t[0]; !f.oneGraph(t[1]) {
			return nil, false
		}
	}
	if d, ok := v.(*pickle.Dict); ok {
		return fromDict(d)
	}
	state, ok := stateOf(v)
	if !ok {
		return nil, false
	}
	if s, ok := state.Get("_store"); ok {
		values, ok := mapping(s)
		return []store{{nil, values}}, ok
	}
	if _, ok := state.Get("_node_store_dict"); !ok {
		_, old := state.Get("edge_index") // of PyTorch Geometric before 2.0
		return []store{{nil, state}}, old
	}
	var list []store
	for _, part := range []string{"_node_store_dict", "_edge_store_dict"} {
		v, _ := state.Get(part)
		d, ok := v.(*pickle.Dict)
		if !ok {
			return nil, false
		}
		for i, k := range d.Keys {
			values, ok := mapping(d.Values[i])
			if !ok || !isKey(k) {
				return nil, false
			}
			list = append(list, store{k, values})
		}
	}
	return list, len(list) > 0
}

// oneGraph reports whether slices cut a dataset into one graph.
func (f *File) oneGraph(slices any) bool {
	d, ok := slices.(*pickle.Dict)
	if !ok {
		return slices == nil
	}
	for _, v := range d.Values {
		if inner, ok := v.(*pickle.Dict); ok {
			if !f.oneGraph(inner) {
				return false
			}
			continue
		}
		if t, ok, err := f.Tensor(v); err == nil && ok && t.Len() > 2 {
			return false
		}
	}
	return true
}

// fromDict reads what to_dict of a graph returns.
func fromDict(d *pickle.Dict) ([]store, bool) {
	if _, ok := d.Get("edge_index"); ok {
		return []store{{nil, d}}, true
	}
	if _, typed := d.Get("_global_store"); !typed {
		return nil, false
	}
	var list []store
	for i, k := range d.Keys {
		if k == "_global_store" {
			continue
		}
		values, ok := d.Values[i].(*pickle.Dict)
		if !ok || !isKey(k) {
			return nil, false
		}
		list = append(list, store{k, values})
	}
	return list, len(list) > 0
}

// isKey reports whether a key is that of a node type or of an edge type.
func isKey(k any) bool {
	if t, ok := k.(pickle.Tuple); ok {
		return len(t) == 3 && pickle.Text(t[0]) != "" && pickle.Text(t[1]) != "" && pickle.Text(t[2]) != ""
	}
	_, ok := k.(string)
	return ok
}

// stateOf returns the attributes of an object.
func stateOf(v any) (*pickle.Dict, bool) {
	o, ok := v.(*pickle.Object)
	if !ok {
		return nil, false
	}
	state := o.State
	if t, ok := state.(pickle.Tuple); ok && len(t) > 0 {
		state = t[0]
	}
	d, ok := state.(*pickle.Dict)
	return d, ok
}

// mapping returns the attributes that a store keeps.
func mapping(v any) (*pickle.Dict, bool) {
	state, ok := stateOf(v)
	if !ok {
		return nil, false
	}
	inner, _ := state.Get("_mapping")
	d, ok := inner.(*pickle.Dict)
	return d, ok
}

// set is the tensors of a store, by their names.
type set struct {
	array.Set
	nodes  int64    // num_nodes; -1: it is not there
	odd    int64    // num_nodes that is below 0, and not believed
	others []string // attributes that are not tensors
}

func (f *File) set(s store) *set {
	x, prefix := &set{Set: array.Set{}, nodes: -1}, f.Path+": "
	if s.key != nil {
		prefix += strings.Trim(fmt.Sprint(s.key), "[]") + " "
	}
	for i, k := range s.values.Keys {
		name, ok := k.(string)
		if !ok {
			continue
		}
		v := s.values.Values[i]
		if n, ok := v.(int64); ok && name == "num_nodes" {
			x.nodes, x.odd = max(n, -1), min(n, 0)
			continue
		}
		t, ok, err := f.Tensor(v)
		switch {
		case err != nil:
			x.others = append(x.others, fmt.Sprintf("%s (%v)", name, err))
		case ok && len(t.Shape) > 0:
			x.Add(name, prefix+name, t, t.Shape[0] == 2)
		case v != nil && !strings.HasPrefix(name, "_"):
			x.others = append(x.others, fmt.Sprintf("%s (%s)", name, pickle.Describe(v)))
		}
	}
	if _, ok := x.Set["num_nodes"]; !ok && x.nodes >= 0 && s.key == nil {
		x.Add("num_nodes", prefix+"num_nodes", array.One(x.nodes), false)
	}
	return x
}

// note names what is not believed, and what is not stored.
func (x *set) note(g *source.Graph, prefix string) {
	if x.odd < 0 {
		g.Tell(source.Altered, "num_nodes", 1,
			"%snum_nodes is %d, which is no number of nodes: they are counted by edges and columns", prefix, x.odd)
	}
	if len(x.others) > 0 {
		g.Tell(source.LeftOut, "attributes", int64(len(x.others)),
			"%snot stored, since they are not tensors with a row a "+
				"node or an edge: %s", prefix, source.Few(x.others))
	}
}
