package graphbolt

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/foreign/arrays"
	"github.com/khop-gnn/khop/formats/internal/foreign/pickle"
	"github.com/khop-gnn/khop/formats/internal/foreign/rows"
	"github.com/khop-gnn/khop/formats/internal/foreign/torch"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/pinned"
)

// fused is a sampling graph: the in-edges of all nodes of all types.
type fused struct {
	f       *torch.File
	tensors *pickle.Dict
	indptr  []int64
	offset  []int64 // of the node types, and the number of all nodes
	types   []string
	edges   []string // by their numbers
}

// sampling reads the preprocessed graph.
func (d *dataset) sampling(ctx context.Context) error {
	at, err := within(d.at, d.m.Topology.Path)
	if err != nil {
		return err
	}
	x := &fused{}
	if x.f, err = torch.Open(at, d.r.Budget); err != nil {
		return err
	}
	d.owned = append(d.owned, x.f)
	if err := x.describe(d.r.Budget.Ledger()); err != nil {
		return source.Error(at.Path(), "", -1, "it is as GraphBolt writes it", err)
	}
	for i, name := range x.types {
		typ := name
		if len(x.edges) == 0 {
			typ = ""
		}
		d.nodes = append(d.nodes, arrays.Nodes{Name: name, Count: x.offset[i+1] - x.offset[i],
			Set: d.files("node", typ), Declared: true})
	}
	if len(x.edges) == 0 {
		x.edges = []string{""}
	}
	counts, err := x.count(ctx)
	if err != nil {
		return source.Error(at.Path(), "", -1, "", err)
	}
	for i, name := range x.edges {
		src, relation, dst, err := triple(name)
		if err != nil {
			return err
		}
		from, to := slices.Index(x.types, src), slices.Index(x.types, dst)
		if from < 0 || to < 0 {
			return fmt.Errorf("the edge type %q is between types that are not there", name)
		}
		d.edges = append(d.edges, arrays.Edges{Source: src, Relation: relation, Target: dst,
			Listed: &source.Edges{Count: counts[i], Each: func(yield func(source.Batch) error) error {
				return x.each(ctx, func(src, dst, types []int64) error {
					return x.some(src, dst, types, i, from, to, yield)
				})
			}}})
	}
	return nil
}

// describe finds the parts of the graph.
func (x *fused) describe(l *pinned.Ledger) error {
	state := func(v any) *pickle.Dict {
		o, _ := v.(*pickle.Object)
		if o == nil {
			return nil
		}
		if t, ok := o.State.(pickle.Tuple); ok && len(t) > 0 {
			d, _ := t[0].(*pickle.Dict)
			return d
		}
		d, _ := o.State.(*pickle.Dict)
		return d
	}
	get := func(d *pickle.Dict, key string) *pickle.Dict {
		if d == nil {
			return nil
		}
		v, _ := d.Get(key)
		inner, _ := v.(*pickle.Dict)
		return inner
	}
	outer := state(x.f.Value)
	if outer == nil {
		return fmt.Errorf("it is %s, not a sampling graph", pickle.Describe(x.f.Value))
	}
	v, _ := outer.Get("_c_csc_graph")
	parts := state(v)
	if x.tensors = get(parts, "independent_tensors"); x.tensors == nil {
		return errors.New("it has no tensors of a sampling graph")
	}
	var err error
	if x.indptr, err = x.ints("indptr", l); err != nil {
		return err
	}
	n := int64(len(x.indptr) - 1)
	if n < 0 || x.indptr[0] != 0 || !slices.IsSorted(x.indptr) {
		return errors.New("indptr does not ascend from 0")
	}
	x.types, x.offset = []string{"node"}, []int64{0, n}
	if names := get(parts, "node_type_to_id"); names != nil {
		if x.types, err = x.byNumber(names); err != nil {
			return err
		}
		if x.edges, err = x.byNumber(get(parts, "edge_type_to_id")); err != nil {
			return err
		}
		if x.offset, err = x.ints("node_type_offset", l); err != nil {
			return err
		}
	}
	if k := len(x.types); len(x.offset) != k+1 || x.offset[0] != 0 || !slices.IsSorted(x.offset) || x.offset[k] != n {
		return fmt.Errorf("the types %v begin at %v of %d nodes", x.types, x.offset, n)
	}
	return nil
}

// byNumber returns names by the numbers that a dictionary gives them.
func (x *fused) byNumber(d *pickle.Dict) ([]string, error) {
	if d == nil || len(d.Keys) > 1<<16 {
		return nil, errors.New("it does not name its types")
	}
	list := make([]string, len(d.Keys))
	for i, k := range d.Keys {
		t, ok, err := x.f.Tensor(d.Values[i])
		if err != nil || !ok || t.Len() != 1 {
			return nil, errors.Join(errors.New("the number of a type is not one"), err)
		}
		r, err := t.Reader(false)
		if err != nil {
			return nil, err
		}
		v, err := r.Ints(1)
		name, isText := k.(string)
		if err != nil || !isText || v[0] < 0 || v[0] >= int64(len(list)) || list[v[0]] != "" {
			return nil, errors.Join(errors.New("types are not numbered from 0 on"), err)
		}
		list[v[0]] = name
	}
	return list, nil
}

// reader returns a reader of a tensor.
func (x *fused) reader(name string) (*array.Reader, error) {
	v, ok := x.tensors.Get(name)
	if !ok {
		return nil, fmt.Errorf("it has no %s", name)
	}
	t, ok, err := x.f.Tensor(v)
	if err != nil || !ok || len(t.Shape) != 1 {
		return nil, errors.Join(fmt.Errorf("%s is not a list of numbers", name), err)
	}
	return t.Reader(false)
}

// ints reads a tensor. Its memory stays counted as long as the graph.
func (x *fused) ints(name string, l *pinned.Ledger) (all []int64, err error) {
	r, err := x.reader(name)
	if err != nil {
		return nil, err
	}
	if all, err = r.AllInts(l); err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return all, err
}

// chunk is how many edges are looked at at a time.
const chunk = 1 << 16

// each yields all edges by fused ids; types is nil in a graph of one type.
func (x *fused) each(ctx context.Context, yield func(src, dst, types []int64) error) error {
	indices, err := x.reader("indices")
	if err != nil {
		return err
	}
	m := x.indptr[len(x.indptr)-1]
	if indices.Left() != m {
		return x.fail("there are %d indices, and indptr says %d", indices.Left(), m)
	}
	var kinds *array.Reader
	if x.edges[0] != "" {
		if kinds, err = x.reader("type_per_edge"); err != nil {
			return err
		}
		if kinds.Left() != m {
			return x.fail("there are %d types of edges, and indptr says %d", kinds.Left(), m)
		}
	}
	n, ends := x.offset[len(x.types)], rows.List(x.indptr)
	var dst, types []int64
	for at := int64(0); at < m; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		src, err := indices.Ints(chunk)
		if err != nil {
			return x.fail("indices: %w", err)
		}
		if i := slices.IndexFunc(src, func(u int64) bool { return u < 0 || u >= n }); i >= 0 {
			return x.fail("edge %d comes from %d, which is not one of %d nodes", at+int64(i), src[i], n)
		}
		if dst, err = ends.Of(dst[:0], at, len(src)); err != nil {
			return x.fail("indptr: %w", err)
		}
		if kinds != nil {
			if types, err = kinds.Ints(int64(len(src))); err != nil {
				return err
			}
		}
		at += int64(len(src))
		if err := yield(src, dst, types); err != nil {
			return err
		}
	}
	return nil
}

// count counts the edges of each type.
func (x *fused) count(ctx context.Context) ([]int64, error) {
	counts, seen := make([]int64, len(x.edges)), int64(0)
	return counts, x.each(ctx, func(src, _, types []int64) error {
		if types == nil {
			counts[0] += int64(len(src))
		}
		for i, t := range types {
			if t < 0 || t >= int64(len(counts)) {
				return x.fail("edge %d is of the type %d of %d", seen+int64(i), t, len(counts))
			}
			counts[t]++
		}
		seen += int64(len(src))
		return nil
	})
}

// some yields the edges of one type, by the ids of its node types.
func (x *fused) some(src, dst, types []int64, typ, from, to int, yield func(source.Batch) error) error {
	b := source.Batch{Src: make([]int64, 0, len(src)), Dst: make([]int64, 0, len(src))}
	for i := range src {
		if types != nil && types[i] != int64(typ) {
			continue
		}
		s, t := src[i]-x.offset[from], dst[i]-x.offset[to]
		if s < 0 || src[i] >= x.offset[from+1] || t < 0 || dst[i] >= x.offset[to+1] {
			return x.fail("an edge of the type %q leads from node %d to node %d, which are of other types",
				x.edges[typ], src[i], dst[i])
		}
		b.Src, b.Dst = append(b.Src, s), append(b.Dst, t)
	}
	if len(b.Src) == 0 {
		return nil
	}
	return yield(b)
}

// fail is an error of the file.
func (x *fused) fail(format string, args ...any) error {
	return source.Error(x.f.Path, "", -1, "it is as GraphBolt writes it", fmt.Errorf(format, args...))
}
