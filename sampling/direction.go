package sampling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/enum"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/unified"
)

// Direction says which edges of a node Neighbor follows.
type Direction uint8

const (
	// In follows the edges that lead into a node: to their sources.
	In Direction = iota
	// Out follows those that lead out of it: to their targets.
	Out
	// Both follows both. A self-loop counts once.
	Both
)

var directions = []string{"in", "out", "both"}

// String returns the direction's name on the command line.
func (d Direction) String() string { return enum.Name(directions, d) }

// checkDirection refuses edge types whose blocks cannot hold the edges that are followed.
func (n Neighbor) checkDirection(s *graph.Schema, p hopFanouts) error {
	if n.Direction > Both {
		return fmt.Errorf("%w: %v of edges", ErrOptions, n.Direction)
	}
	for e := range s.Edges {
		et := &s.Edges[e]
		if n.Direction == In || et.Src == et.Dst || !p.follows(e) {
			continue
		}
		return fmt.Errorf("%w: direction %v: edges %v turned round lead from %s to %s, which is another edge type: "+
			"give the dataset reverses (khop convert --symmetrise) and follow those, or give %v the fan-out 0",
			ErrOptions, n.Direction, et, et.Target, et.Source, et)
	}
	return nil
}

// follows reports whether any hop follows edges of a type.
func (p hopFanouts) follows(e int) bool {
	return slices.ContainsFunc(p, func(fanouts []int) bool { return fanouts[e] != 0 })
}

// reversedSchema returns the schema of the graph whose in-edges are those that are followed.
func (n Neighbor) reversedSchema(s *graph.Schema) *graph.Schema {
	if n.Direction == In {
		return s
	}
	reversed := *s
	reversed.Nodes, reversed.Edges, reversed.EdgeColumns = slices.Clone(s.Nodes), slices.Clone(s.Edges), nil
	for e := range reversed.Edges {
		et := &reversed.Edges[e]
		switch et.Order = graph.BySource; {
		case et.Src != et.Dst:
			et.Count = 0
		case n.Direction == Both:
			et.Count *= 2
		}
	}
	for t := range reversed.Nodes { // edges that lead in and edges that lead out are not in one order
		if n.Direction == Both {
			reversed.Nodes[t].Columns = slices.Clone(s.Nodes[t].Columns)
			for i := range reversed.Nodes[t].Columns {
				reversed.Nodes[t].Columns[i].Ascending = false
			}
		}
	}
	for _, c := range s.EdgeColumns {
		if slices.Contains(n.edgeColumns(), c.Name) {
			reversed.EdgeColumns = append(reversed.EdgeColumns, c)
		}
	}
	return &reversed
}

// reversedBytes is the memory of a reversed graph.
func (n Neighbor) reversedBytes(s *graph.Schema) int64 {
	if n.Direction == In {
		return 0
	}
	reversed := n.reversedSchema(s)
	row := s.IDType().Size() + s.PosType().Size()
	if len(s.Edges) > 1 {
		row += 2
	}
	for _, c := range reversed.EdgeColumns {
		row += c.DType.Size()
	}
	return sat.Add(sat.Mul(row, reversed.NumEdges()), sat.Mul(8, s.NumNodes()+1))
}

// reverse makes an index of the edges by source, for directions other than In.
func (n Neighbor) reverse(ctx context.Context, env Env) (*reversed, error) {
	if _, err := n.check(env.Graph.Schema()); err != nil {
		return nil, err
	}
	t := &reversed{Neighbor: n, scratch: scratch{options: env.Scratch}}
	var err error
	t.graph, err = openByWidth(t, env,
		func(t *reversed, env Env, ids []int32) (*graph.Graph, error) { return reverse(ctx, t, env, ids) },
		func(t *reversed, env Env, ids []int64) (*graph.Graph, error) { return reverse(ctx, t, env, ids) })
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// reversed is a Neighbor with the graph whose in-edges are those that it follows.
type reversed struct {
	Neighbor
	scratch
	graph *graph.Graph
	at    []int64 // positions in the graph itself: one of the two
	at32  []int32
}

// checkPositions refuses to deliver positions of another width.
func (t *reversed) checkPositions(env Env) error {
	if env.EdgePos && t.graph.Schema().PosType() != env.Graph.Schema().PosType() {
		return fmt.Errorf("%w: positions of %d edges, counted in both directions, need another width: follow one "+
			"direction, or do without EdgePos and EdgeColumns", ErrOptions, t.graph.NumEdges())
	}
	return nil
}

func (t *reversed) Open(env Env) (Worker, error) {
	if err := t.checkPositions(env); err != nil {
		return nil, err
	}
	inner := t.Neighbor
	inner.Direction = In
	env.Graph = t.graph
	w, err := inner.Open(env)
	if err != nil {
		return nil, err
	}
	return &reversedWorker{w, t}, nil
}

// reversedWorker translates positions to those of the graph itself.
type reversedWorker struct {
	Worker
	of *reversed
}

func (w *reversedWorker) Sample(ctx context.Context, req *Request, out *graph.Sample) error {
	if err := w.Worker.Sample(ctx, req, out); err != nil {
		return err
	}
	for l := range out.Blocks {
		for e := range out.Blocks[l] {
			b := &out.Blocks[l][e]
			if !b.EdgePos.Valid() || out.ViewOf[l] != l {
				continue
			}
			if pos, err := unified.View[int32](b.EdgePos); err == nil {
				for i, p := range pos {
					pos[i] = w.of.at32[p]
				}
				continue
			}
			pos, err := unified.View[int64](b.EdgePos)
			if err != nil {
				return err
			}
			for i, p := range pos {
				pos[i] = w.of.at[p]
			}
		}
	}
	return nil
}

// take returns n elements of memory that the reversed graph keeps.
func take[T unified.Element](t *reversed, n int64) ([]T, error) {
	b := new(unified.Buffer)
	t.own(b)
	return exactly[T](b, n)
}

// reversing makes a reversed graph.
type reversing[V nodeID] struct {
	*reversed
	a      *assembly[V] // of the graph itself
	edges  []graph.EdgeType
	indptr []int64
	ids    []V
	types  []uint16

	progress     func(done, total int64)
	pass, passes int64 // over the edges: done, and in all
}

// reverse makes the graph whose in-edges are those that t follows.
func reverse[V nodeID](ctx context.Context, t *reversed, env Env, indices []V) (*graph.Graph, error) {
	g := env.Graph
	s := t.reversedSchema(g.Schema())
	w := &reversing[V]{reversed: t, a: &assembly[V]{schema: g.Schema(), indptr: g.Indptr(), indices: indices}}
	var err error
	if w.a.types, err = newTypeColumn(g.Types()); err != nil {
		return nil, err
	}
	if w.indptr, err = take[int64](t, g.NumNodes()+1); err != nil {
		return nil, err
	}
	for e := range s.Edges {
		s.Edges[e].Count = 0
	}
	clear(w.indptr)
	w.edges = s.Edges
	w.progress, w.passes = env.Progress, int64(1+t.Direction)
	if err := w.each(ctx, w.count); err != nil {
		return nil, err
	}
	for v := range g.NumNodes() {
		w.indptr[v+1] += w.indptr[v]
	}
	m := s.NumEdges()
	if w.ids, err = take[V](t, m); err != nil {
		return nil, err
	}
	if g.Schema().PosType() == unified.Int32 {
		t.at32, err = take[int32](t, m)
	} else {
		t.at, err = take[int64](t, m)
	}
	if err != nil {
		return nil, err
	}
	if len(s.Edges) > 1 {
		if w.types, err = take[uint16](t, m); err != nil {
			return nil, err
		}
	}
	if err := w.fill(ctx); err != nil {
		return nil, err
	}
	return w.finish(env, s)
}

// each calls f for every edge that may be followed out of its source u into v, of type e, by position.
func (w *reversing[V]) each(ctx context.Context, f func(u, v V, e int, pos int64)) error {
	n := int64(len(w.a.indptr) - 1)
	for v := range n {
		if v%(1<<14) == 0 {
			if report(w.progress, w.pass*n+v, w.passes*n); ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		from, to, err := w.a.column(V(v))
		if err != nil {
			return err
		}
		for pos := from; pos < to; pos++ {
			u, e := w.a.indices[pos], w.a.types.at(pos)
			if uint64(u) >= uint64(n) || e >= len(w.a.schema.Edges) {
				return w.a.errNode(pos, u)
			}
			if et := &w.a.schema.Edges[e]; et.Src == et.Dst {
				f(u, V(v), e, pos)
			}
		}
	}
	w.pass++
	return nil
}

// count counts an edge where it is followed.
func (w *reversing[V]) count(u, v V, e int, _ int64) {
	w.indptr[u+1]++
	w.edges[e].Count++
	if w.Direction == Both && u != v {
		w.indptr[v+1]++
		w.edges[e].Count++
	}
}

// fill puts every edge where it is followed: for each node those that lead in before those that lead out.
func (w *reversing[V]) fill(ctx context.Context) error {
	put := func(at, to V, e int, pos int64) {
		i := w.indptr[at]
		w.indptr[at]++
		w.ids[i] = to
		if w.types != nil {
			w.types[i] = uint16(e)
		}
		if w.at32 != nil {
			w.at32[i] = int32(pos)
		} else {
			w.at[i] = pos
		}
	}
	if w.Direction == Both {
		if err := w.each(ctx, func(u, v V, e int, pos int64) { put(v, u, e, pos) }); err != nil {
			return err
		}
	}
	err := w.each(ctx, func(u, v V, e int, pos int64) {
		if w.Direction == Out || u != v {
			put(u, v, e, pos)
		}
	})
	if err != nil {
		return err
	}
	copy(w.indptr[1:], w.indptr) // each had come to where the next begins
	w.indptr[0] = 0
	if w.types == nil {
		return nil
	}
	for v := range len(w.indptr) - 1 {
		column := &reversedColumn[V]{w, w.indptr[v], w.indptr[v+1]}
		sort.Stable(column)
	}
	return nil
}

// reversedColumn puts the edges of a node in the order of their types.
type reversedColumn[V nodeID] struct {
	*reversing[V]
	from, to int64
}

func (c *reversedColumn[V]) Len() int { return int(c.to - c.from) }
func (c *reversedColumn[V]) Less(i, j int) bool {
	return c.types[c.from+int64(i)] < c.types[c.from+int64(j)]
}
func (c *reversedColumn[V]) Swap(i, j int) {
	a, b := c.from+int64(i), c.from+int64(j)
	c.ids[a], c.ids[b] = c.ids[b], c.ids[a]
	c.types[a], c.types[b] = c.types[b], c.types[a]
	if c.at32 != nil {
		c.at32[a], c.at32[b] = c.at32[b], c.at32[a]
	} else {
		c.at[a], c.at[b] = c.at[b], c.at[a]
	}
}

// finish makes a graph of the arrays, with the columns that the sampler reads.
func (w *reversing[V]) finish(env Env, s *graph.Schema) (*graph.Graph, error) {
	g := env.Graph
	a := graph.Arrays{Schema: *s, ID: g.ID(), Indptr: unified.FromSlice(w.indptr), Indices: unified.FromSlice(w.ids),
		NodeColumns: make([]map[string]unified.Tensor, len(s.Nodes)), EdgeColumns: map[string]unified.Tensor{}}
	switch {
	case len(s.Edges) > 256:
		a.Types = unified.FromSlice(w.types)
	case len(s.Edges) > 1:
		bytes, err := take[uint8](w.reversed, int64(len(w.types)))
		if err != nil {
			return nil, err
		}
		for i, e := range w.types {
			bytes[i] = uint8(e)
		}
		a.Types = unified.FromSlice(bytes)
	}
	for t := range s.Nodes {
		a.NodeColumns[t] = map[string]unified.Tensor{}
		for _, c := range s.Nodes[t].Columns {
			a.NodeColumns[t][c.Name], _ = g.NodeColumn(t, c.Name)
		}
	}
	for _, c := range s.EdgeColumns {
		of, _ := g.EdgeColumn(c.Name)
		var err error
		switch c.DType.Size() {
		case 1:
			a.EdgeColumns[c.Name], err = moved[uint8](w.reversed, of)
		case 4:
			a.EdgeColumns[c.Name], err = moved[int32](w.reversed, of)
		default:
			a.EdgeColumns[c.Name], err = moved[int64](w.reversed, of)
		}
		if err != nil {
			return nil, err
		}
	}
	return graph.FromArrays(a)
}

// moved returns a column of the edges in the order of the reversed graph. T is as large as its elements.
func moved[T uint8 | int32 | int64](t *reversed, column unified.Tensor) (unified.Tensor, error) {
	n := int64(max(len(t.at), len(t.at32)))
	to, err := take[T](t, n)
	if err != nil {
		return unified.Tensor{}, err
	}
	raw, err := unified.New(unified.Of[T](), column.Bytes(), column.Len())
	if err != nil {
		return unified.Tensor{}, err
	}
	from, err := unified.View[T](raw)
	if err != nil {
		return unified.Tensor{}, err
	}
	for i := range to {
		if t.at32 != nil {
			to[i] = from[t.at32[i]]
		} else {
			to[i] = from[t.at[i]]
		}
	}
	return unified.New(column.DType(), unified.FromSlice(to).Bytes(), n)
}
