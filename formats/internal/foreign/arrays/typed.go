package arrays

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// What a set of arrays holds.
const (
	ofBoth = iota
	ofNode
	ofEdge
)

// Nodes is a node type: arrays with a row a node.
type Nodes struct {
	Name  string
	Count int64     // -1: as many as the arrays have rows, or edges name
	Set   array.Set // nil: none
	// Declared says that the source declares the columns: notes name those that get another name.
	Declared bool
}

// Edges is an edge type: its ends under the names that Describe knows, and arrays with a row an edge.
type Edges struct {
	Source, Relation, Target string
	Set                      array.Set // nil: none, if Listed has the ends
	Declared                 bool      // as that of Nodes
	// Listed are the ends, where they do not lie in arrays, with columns perhaps; nil: they do.
	Listed *source.Edges
}

// WithEnds adds the node types that edges name alone: they have as many nodes as their edges need.
func WithEnds(nodes []Nodes, edges []Edges) []Nodes {
	for _, e := range edges {
		for _, end := range []string{e.Source, e.Target} {
			if !slices.ContainsFunc(nodes, func(n Nodes) bool { return n.Name == end }) {
				nodes = append(nodes, Nodes{Name: end, Count: -1})
			}
		}
	}
	return nodes
}

// Typed describes a graph of several types. Every error says which array it is about.
func Typed(ctx context.Context, nodes []Nodes, edges []Edges, r *source.Request) (_ *source.Graph, err error) {
	g := &source.Graph{}
	counted := make([]bool, len(nodes))
	for i, n := range nodes {
		node, known, err := describeNodes(ctx, g, i, n, r)
		if err != nil {
			return nil, err
		}
		counted[i] = known
		g.Nodes = append(g.Nodes, *node)
	}
	find := func(name string) (int, error) {
		if i := slices.IndexFunc(nodes, func(n Nodes) bool { return n.Name == name }); i >= 0 {
			return i, nil
		}
		return 0, fmt.Errorf("%w: edges name the node type %q, which is not there", source.ErrUnknown, name)
	}
	var parts []source.Part
	for _, e := range edges {
		from, err := find(e.Source)
		if err != nil {
			return nil, err
		}
		to, err := find(e.Target)
		if err != nil {
			return nil, err
		}
		p, err := describeEdges(ctx, g, e, r)
		if err != nil {
			return nil, err
		}
		p.Type = len(g.Types)
		g.Types = append(g.Types, source.EdgeType{Source: from, Relation: e.Relation, Target: to})
		if !counted[from] || !counted[to] {
			if err := count(ctx, p, [2]*source.NodeType{&g.Nodes[from], &g.Nodes[to]}, [2]bool{counted[from],
				counted[to]}); err != nil {
				return nil, err
			}
		}
		parts = append(parts, *p)
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("%w: there are no edges", source.ErrUnknown)
	}
	for i := range g.Links {
		if err := checkLink(g, &g.Links[i]); err != nil {
			return nil, err
		}
	}
	return g, g.Join(parts)
}

// describeNodes describes a node type, and reports whether its count is known.
func describeNodes(ctx context.Context, g *source.Graph, index int, n Nodes,
	r *source.Request) (*source.NodeType, bool, error) {
	if n.Set == nil {
		return &source.NodeType{Name: n.Name, Count: max(n.Count, 0)}, n.Count >= 0, nil
	}
	d := &Describer{Set: n.Set, Graph: source.Plain(), R: r, Used: map[string]bool{"num_nodes": true}, of: ofNode,
		declared: n.Declared}
	node := d.Graph.Node()
	node.Name, node.Count, d.Graph.Edges.Count = n.Name, n.Count, -1
	known := n.Count >= 0
	if !known {
		node.Count, known = d.counted()
	}
	for _, name := range n.Set.Names() {
		if known || ofNodes[strings.ToLower(name)] == "" {
			continue
		}
		h, err := d.header(name)
		if err != nil {
			return nil, false, err
		}
		if len(h.Shape) > 0 {
			node.Count, known = h.Shape[0], true
		}
	}
	if err := d.Others(ctx); err != nil {
		return nil, false, err
	}
	for _, s := range d.Graph.Splits {
		s.NodeType = index
		g.Splits = append(g.Splits, s)
	}
	g.Adopt(fmt.Sprintf("nodes %q", n.Name), d.Graph.Notes)
	node.Count = max(node.Count, 0)
	return node, known, nil
}

// describeEdges describes an edge type, the next one of g.
func describeEdges(ctx context.Context, g *source.Graph, e Edges, r *source.Request) (*source.Part, error) {
	if e.Set == nil && e.Listed != nil {
		return &source.Part{Edges: *e.Listed, Reverse: -1}, nil
	}
	d := &Describer{Set: e.Set, Graph: source.Plain(), R: r, Used: map[string]bool{}, of: ofEdge,
		declared: e.Declared}
	d.Graph.Node().Count = -1
	ok, err := true, error(nil)
	if e.Listed != nil {
		d.listed(e.Listed)
	} else if ok, err = d.findEnds(); err == nil && !ok {
		err = errors.New("there is no edge_index, and no src and dst")
	}
	if err == nil {
		err = d.Others(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("edges %q: %w", e.Relation, err)
	}
	g.Adopt(fmt.Sprintf("edges %q", e.Relation), d.Graph.Notes)
	joinLinks(g, len(g.Types), d.Graph.Links)
	return &source.Part{Edges: d.Graph.Edges, Reverse: -1}, nil
}

// listed takes the ends of the edges from elsewhere; their columns are then those of the set behind those of the list.
func (d *Describer) listed(e *source.Edges) {
	own := len(e.Columns)
	d.Graph.Edges.Count, d.Graph.Edges.Columns, d.Graph.Edges.Where = e.Count, slices.Clone(e.Columns), e.Where
	d.Graph.Edges.Each = func(yield func(source.Batch) error) error {
		open := &opened{set: d.Set}
		defer open.close()
		var readers []*array.Reader
		for _, name := range d.columns {
			readers = append(readers, open.array(name))
		}
		if open.err != nil {
			return open.err
		}
		return e.Each(func(b source.Batch) error {
			b.Columns = slices.Clone(b.Columns[:own])
			for i, r := range readers {
				c, err := r.Next(int64(len(b.Src)) * r.RowWidth())
				if err != nil {
					return d.fail(d.columns[i], -1, "%w", err)
				}
				b.Columns = append(b.Columns, c)
			}
			return yield(b)
		})
	}
}

// count counts the nodes that edges name, of types that nothing else counts.
func count(ctx context.Context, p *source.Part, ends [2]*source.NodeType, known [2]bool) error {
	err := p.Each(func(b source.Batch) error {
		for i, ids := range [2][]int64{b.Src, b.Dst} {
			if !known[i] && len(ids) > 0 {
				ends[i].Count = max(ends[i].Count, slices.Max(ids)+1)
			}
		}
		return context.Cause(ctx)
	})
	if err != nil {
		return err
	}
	for i, n := range ends {
		n.Counted = n.Counted || !known[i]
		if !known[i] && source.TooSparse(n.Count, p.Count) {
			return fmt.Errorf("ids of %q reach %d, but there are only %s", n.Name, n.Count-1,
				source.Counted(p.Count, "edge", "edges"))
		}
	}
	return nil
}
