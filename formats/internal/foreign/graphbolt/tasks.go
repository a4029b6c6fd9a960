package graphbolt

import (
	"context"
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// tasks adds the sets of all tasks: splits and labels, or links. Those of a task have its place in the list as index.
func (d *dataset) tasks(ctx context.Context, g *source.Graph) error {
	all := make([][][]int64, len(d.m.Tasks)) // labels, by task and node type
	for i := range all {
		if i > 0 {
			g.Note("the sets of the task %q are the splits of index %d", d.m.Tasks[i].Name, i)
		}
		all[i] = make([][]int64, len(g.Nodes))
		if err := d.task(ctx, g, i, all[i]); err != nil {
			return err
		}
	}
	for n := range g.Nodes {
		addLabels(&g.Nodes[n], func(task int) []int64 { return all[task][n] }, len(all))
	}
	return nil
}

// task adds the splits and links of a task, and sets the labels of node types that have some.
func (d *dataset) task(ctx context.Context, g *source.Graph, index int, labels [][]int64) error {
	t := &d.m.Tasks[index]
	for _, part := range []struct {
		name string
		sets []set
	}{{"train", t.Train}, {"val", t.Valid}, {"test", t.Test}} {
		link := source.Link{Name: part.name, Index: index}
		for _, s := range part.sets {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := d.items(g, s, labels, &link); err != nil {
				return err
			}
		}
		if link.Src != nil {
			g.Links = append(g.Links, link)
		}
	}
	return nil
}

// addLabels makes the labels of tasks columns of a node type: "label" for the first that has some and for those that
// agree with it, "label_2" for the task of index 2 that does not.
func addLabels(n *source.NodeType, of func(task int) []int64, tasks int) {
	if slices.ContainsFunc(n.Columns, func(c source.Column) bool { return c.Name == "label" }) {
		return
	}
	var first []int64
	add := func(name string, list []int64) {
		n.Columns = append(n.Columns, source.Bytes(graph.Column{Name: name, DType: unified.Int64},
			unified.FromSlice(list).Bytes()))
	}
	for i := range tasks {
		switch list := of(i); {
		case list == nil:
		case first == nil:
			first = list
			add("label", list)
		case !unite(first, list):
			add(fmt.Sprintf("label_%d", i), list)
		}
	}
	n.Classes = source.Classes(first)
}

// unite adds labels to others, unless a node has two that differ.
func unite(to, from []int64) bool {
	for i, v := range from {
		if v >= 0 && to[i] >= 0 && v != to[i] {
			return false
		}
	}
	for i, v := range from {
		to[i] = max(to[i], v)
	}
	return true
}

// items adds the items of a set: nodes, perhaps with labels, or pairs, perhaps with negative targets.
func (d *dataset) items(g *source.Graph, s set, labels [][]int64, link *source.Link) error {
	name := link.Name
	var nodes, pairs, values, negatives []int64
	for _, x := range s.Data {
		v, h, err := d.numbers(x.file)
		if err != nil {
			return err
		}
		switch {
		case v == nil:
			g.Tell(source.LeftOut, x.Name, 1, "%s of %s is not stored: it is %v", x.Name, name, h)
		case (x.Name == "seed_nodes" || x.Name == "seeds") && len(h.Shape) == 1:
			nodes = v
		case (x.Name == "node_pairs" || x.Name == "seeds") && len(h.Shape) == 2 && h.Shape[1] == 2 && !h.Fortran:
			pairs = v
		case x.Name == "labels" && len(h.Shape) == 1:
			values = v
		case x.Name == "negative_dsts" && len(h.Shape) == 2 && !h.Fortran:
			negatives = v
		default:
			g.Tell(source.LeftOut, x.Name, 1, "%s of %s, %v, is not stored", x.Name, name, h)
		}
	}
	if nodes != nil {
		return d.split(g, link, s.Type, nodes, values, labels)
	}
	return d.links(g, s.Type, pairs, values, negatives, link)
}

// numbers reads an array of integers; nil where it is not one.
func (d *dataset) numbers(f file) ([]int64, *array.Header, error) {
	r, c, err := d.open(f)
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	all := []int64{}
	for r.Left() > 0 {
		v, err := r.Ints(chunk)
		if err != nil {
			return nil, &r.Header, nil
		}
		if err := source.Append(d.r.Budget.Ledger(), &all, v...); err != nil {
			return nil, nil, err
		}
	}
	return all, &r.Header, nil
}

// split adds nodes, as a split of the name and index of the links that could be in their place, and their labels.
func (d *dataset) split(g *source.Graph, of *source.Link, typ string, nodes, values []int64, labels [][]int64) error {
	name := of.Name
	at := slices.IndexFunc(g.Nodes, func(n source.NodeType) bool { return n.Name == trim(typ) })
	if at < 0 {
		return fmt.Errorf("%s has nodes of the type %q, which is not there", name, typ)
	}
	n := g.Nodes[at].Count
	if i := slices.IndexFunc(nodes, func(v int64) bool { return v < 0 || v >= n }); i >= 0 {
		return fmt.Errorf("%s: item %d is node %d, and there are %d", name, i, nodes[i], n)
	}
	g.Splits = append(g.Splits, source.Split{Name: name, Index: of.Index, NodeType: at, IDs: nodes})
	if values == nil {
		return nil
	}
	if len(values) != len(nodes) {
		return fmt.Errorf("%s has %d nodes and %d labels", name, len(nodes), len(values))
	}
	if labels[at] == nil {
		list, err := source.Grow(d.r.Budget.Ledger(), []int64(nil), int(n))
		if err != nil {
			return err
		}
		for range n {
			list = append(list, -1)
		}
		labels[at] = list
	}
	for i, v := range nodes {
		labels[at][v] = values[i]
	}
	return nil
}

// links adds pairs, and behind each of them its negatives.
func (d *dataset) links(g *source.Graph, typ string, pairs, values, negatives []int64, link *source.Link) error {
	if pairs == nil {
		return nil
	}
	src, relation, dst, err := triple(typ)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(g.Types, func(e source.EdgeType) bool {
		return e.Relation == relation && g.Nodes[e.Source].Name == src && g.Nodes[e.Target].Name == dst
	})
	if at < 0 {
		return fmt.Errorf("%s has pairs of the type %q, which is not there", link.Name, typ)
	}
	from, to := g.Nodes[g.Types[at].Source].Count, g.Nodes[g.Types[at].Target].Count
	n := len(pairs) / 2
	if values != nil && len(values) != n || negatives != nil && (n == 0 || len(negatives)%n != 0) {
		return fmt.Errorf("%s has %d pairs, %d labels and %d negative targets", link.Name, n, len(values),
			len(negatives))
	}
	add := func(s, t, label int64) error {
		if s < 0 || s >= from || t < 0 || t >= to {
			return fmt.Errorf("%s: the pair %d, %d is not of %d and %d nodes", link.Name, s, t, from, to)
		}
		if err := source.Append(d.r.Budget.Ledger(), &link.Types, int64(at)); err != nil {
			return err
		}
		return link.Append(d.r.Budget.Ledger(), s, t, label)
	}
	for i := range n {
		label := int64(1)
		if values != nil {
			label = values[i]
		}
		if err := add(pairs[2*i], pairs[2*i+1], label); err != nil {
			return err
		}
		k := len(negatives) / max(n, 1)
		for _, t := range negatives[i*k : (i+1)*k] {
			if err := add(pairs[2*i], t, 0); err != nil {
				return err
			}
		}
	}
	return nil
}
