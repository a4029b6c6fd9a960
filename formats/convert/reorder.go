package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/khop-gnn/khop/formats/internal/edgesort"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/csc"
	"github.com/khop-gnn/khop/internal/enum"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/renumber"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Reorder says how nodes are numbered anew, each type for itself. The zero value is ByNodeTime for rows of a database's
// tables that have no primary key, which nobody names, and AsListed for all others.
type Reorder uint8

const (
	// AsListed keeps the numbers of the source.
	AsListed Reorder = iota + 1
	// ByDegree numbers nodes by how many edges they have, the most first.
	ByDegree
	// BreadthFirst numbers nodes as a search finds them that goes along edges both ways, from the node of the most
	// edges of each component on.
	BreadthFirst
	// ReverseCuthillMcKee numbers nodes so that neighbours have near numbers: E. Cuthill, J. McKee, "Reducing the
	// bandwidth of sparse symmetric matrices", 1969; reversed as by A. George, 1971.
	ReverseCuthillMcKee
	// ByHeat numbers nodes by how often batches ask for their rows, as Options.Heat says, the most often first.
	ByHeat
	// ByNodeTime numbers nodes of a type that has times, and is not in their order, by their time.
	ByNodeTime
	// ByCommunity numbers nodes so that those with many edges between them have near numbers, and communities of
	// communities likewise: J. Arai and others, "Rabbit Order", 2016.
	ByCommunity
)

// Heat scores nodes by how often batches need their rows. indptr and indices are the in-edges of each node; seeds
// are the nodes of the split train, or all nodes.
type Heat func(ctx context.Context, indptr []int64, indices unified.Tensor, seeds []int64) ([]float64, error)

// oldIDs is the column of the numbers that nodes had before they were numbered anew.
const oldIDs = tables.FormerIDs

// numbering is new numbers of nodes. Until each type has its own, nodes of all types are numbered through ("fused").
type numbering struct {
	offset []int64 // of each node type
	n      int64   // nodes
	types  []anew
	ledger *pinned.Ledger
	taken  int64
}

// anew is the numbers of a node type: of none that keeps its own.
type anew struct {
	order  []uint32 // its nodes in their new order
	number []uint32 // the new number of each
}

// Close gives the memory back.
func (m *numbering) Close() error {
	m.ledger.Give(pinned.Sources, m.taken)
	m.taken = 0
	return nil
}

// take counts memory for each bytes of n nodes, until the function that it returns is called.
func (m *numbering) take(each, n int64) (give func(), err error) {
	if err := m.ledger.Take(pinned.Sources, each*n); err != nil {
		return nil, fmt.Errorf("number %d nodes anew: %w", n, err)
	}
	return func() { m.ledger.Give(pinned.Sources, each*n) }, nil
}

// keep is take until Close.
func (m *numbering) keep(each, n int64) error {
	_, err := m.take(each, n)
	if err == nil {
		m.taken += each * n
	}
	return err
}

// reorder numbers the nodes anew.
func (c *conversion) reorder(ctx context.Context, o *order) error {
	if c.opt.Reorder == AsListed {
		return nil
	}
	m := c.newNumbering()
	c.graph.Own(m)
	if c.opt.Reorder == ByNodeTime || c.opt.Reorder == 0 {
		if err := c.byTimes(ctx, m); err != nil {
			return err
		}
		return c.renumber(m)
	}
	for t := range c.graph.Nodes {
		if err := c.mayRenumber(t); err != nil {
			return err
		}
	}
	if m.n > math.MaxUint32 {
		return fmt.Errorf("%w: %d nodes cannot be numbered anew: at most %d", ErrOptions, m.n, uint32(math.MaxUint32))
	}
	if err := m.keep(8, m.n); err != nil {
		return err
	}
	visited, err := c.visits(ctx, o, m)
	if err != nil {
		return o.explain(err)
	}
	m.byType(visited)
	c.graph.Note("nodes are numbered anew (%s); %q has their numbers in the source", c.opt.Reorder, oldIDs)
	return c.renumber(m)
}

// mayRenumber refuses a node type that has a column of the name that its old numbers get.
func (c *conversion) mayRenumber(t int) error {
	if c.columnOf(t, oldIDs) >= 0 {
		return option.Textf("%w: there is a column %q already: rename it, or leave out %s", ErrOptions, oldIDs,
			option.NameOf(c.opt, "Reorder"))
	}
	return nil
}

// columnOf returns which column of a node type has a name, or -1.
func (c *conversion) columnOf(t int, name string) int {
	return slices.IndexFunc(c.graph.Nodes[t].Columns, func(col source.Column) bool { return col.Name == name })
}

var reorders = []string{"auto", "no", "degree", "bfs", "rcm", "hot", "time", "community"}

// String returns the name on the command line.
func (r Reorder) String() string { return enum.Name(reorders, r) }

// byType puts the nodes of each type, visited in an order, together, and numbers them.
func (m *numbering) byType(visited []uint32) {
	number, next := make([]uint32, m.n), slices.Clone(m.offset)
	order := make([]uint32, len(visited))
	for _, v := range visited {
		t := m.typeOf(int64(v))
		order[next[t]] = v - uint32(m.offset[t])
		number[v] = uint32(next[t] - m.offset[t])
		next[t]++
	}
	for t := range m.types {
		m.types[t] = anew{order[m.offset[t]:next[t]], number[m.offset[t]:next[t]]}
	}
}

func (m *numbering) typeOf(v int64) int {
	t, found := slices.BinarySearch(m.offset, v)
	if !found {
		return t - 1
	}
	for t+1 < len(m.offset) && m.offset[t+1] == v { // types without nodes
		t++
	}
	return t
}

// visits returns all nodes, in the order in which they are numbered.
func (c *conversion) visits(ctx context.Context, o *order, m *numbering) ([]uint32, error) {
	if c.opt.Reorder == ByDegree {
		return c.byDegree(ctx, m)
	}
	a, err := c.neighbours(ctx, o, m)
	if err != nil {
		return nil, err
	}
	defer func() { _ = a.Close() }()
	if c.opt.Reorder == ByHeat {
		return c.byHeat(ctx, m, a)
	}
	bytes := renumber.SearchBytes * m.n
	if c.opt.Reorder == ByCommunity {
		bytes = renumber.CommunityBytes(m.n, a.indices.Len())
	}
	give, err := m.take(bytes, 1)
	if err != nil {
		return nil, err
	}
	defer give()
	if a.indices.DType() == unified.Int32 {
		return found(ctx, c.opt.Reorder, adjacencyOf[int32](a))
	}
	return found(ctx, c.opt.Reorder, adjacencyOf[int64](a))
}

func adjacencyOf[I interface {
	unified.Element
	renumber.ID
}](a *neighbours) *renumber.Adjacency[I] {
	return &renumber.Adjacency[I]{Indptr: a.indptr, Indices: mustView[I](a.indices)}
}

// found finds an order by neighbours.
func found[I renumber.ID](ctx context.Context, how Reorder, a *renumber.Adjacency[I]) ([]uint32, error) {
	if how == ByCommunity {
		return renumber.Communities(ctx, a)
	}
	return renumber.Search(ctx, a, how == ReverseCuthillMcKee)
}

func mustView[T unified.Element](t unified.Tensor) []T {
	v, err := unified.View[T](t)
	if err != nil {
		panic(err) // the dtype has been looked at
	}
	return v
}

// fused yields the edges with fused ids.
func (c *conversion) fused(ctx context.Context, m *numbering, yield func(source.Batch) error) error {
	return c.renamed(func(t int, id int64) int64 {
		if uint64(id) >= uint64(c.graph.Nodes[t].Count) {
			return -1
		}
		return id + m.offset[t]
	})(func(b source.Batch) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return yield(source.Batch{Src: b.Src, Dst: b.Dst})
	})
}

// renamed returns what yields the edges as they are listed now with other ids, by node type: -1 for what is no node.
func (c *conversion) renamed(name func(t int, id int64) int64) func(yield func(source.Batch) error) error {
	types, each := c.graph.Types, c.graph.Edges.Each
	return func(yield func(source.Batch) error) error {
		var src, dst []int64
		at := int64(0)
		return each(func(b source.Batch) error {
			src, dst = src[:0], dst[:0]
			for i, v := range b.Src {
				typ := &types[source.TypeAt(b.Types, i)]
				from, to := name(typ.Source, v), name(typ.Target, b.Dst[i])
				if from < 0 {
					return c.beyond(at+int64(i), "source", v, typ.Source)
				}
				if to < 0 {
					return c.beyond(at+int64(i), "destination", b.Dst[i], typ.Target)
				}
				src, dst = append(src, from), append(dst, to)
			}
			at += int64(len(src))
			b.Src, b.Dst = src, dst
			return yield(b)
		})
	}
}

func (c *conversion) byDegree(ctx context.Context, m *numbering) ([]uint32, error) {
	give, err := m.take(8, m.n)
	if err != nil {
		return nil, err
	}
	defer give()
	degree := make([]int64, m.n)
	if err := c.fused(ctx, m, func(b source.Batch) error {
		for i, v := range b.Src {
			degree[v]++
			degree[b.Dst[i]]++
		}
		return nil
	}); err != nil {
		return nil, err
	}
	return renumber.Descending(degree), nil
}

func (c *conversion) byHeat(ctx context.Context, m *numbering, a *neighbours) ([]uint32, error) {
	if c.opt.Heat == nil {
		return nil, fmt.Errorf("%w: nothing says which nodes are hot", ErrOptions)
	}
	give, err := m.take(24, m.n)
	if err != nil {
		return nil, err
	}
	defer give()
	var seeds []int64
	for _, s := range c.graph.Splits {
		if s.Name == "train" && s.Index == 0 {
			for _, v := range s.IDs {
				seeds = append(seeds, v+m.offset[s.NodeType])
			}
		}
	}
	if seeds == nil {
		seeds = make([]int64, 0, m.n)
		for v := range m.n {
			seeds = append(seeds, v)
		}
	}
	scores, err := c.opt.Heat(ctx, a.indptr, a.indices, seeds)
	if err != nil {
		return nil, err
	}
	return renumber.Descending(scores), nil
}

// neighbours is the in-edges of all nodes, in temporary files.
type neighbours struct {
	files   [2]source.Spool
	indptr  []int64
	indices unified.Tensor
}

// Close removes the files.
func (a *neighbours) Close() error { return errors.Join(a.files[0].Close(), a.files[1].Close()) }

// neighbours sorts the edges: as they are stored for heat, else both ways and without repeats.
func (c *conversion) neighbours(ctx context.Context, o *order, m *numbering) (_ *neighbours, err error) {
	opt := edgesort.Options{Nodes: []source.NodeType{{Count: m.n}}, Types: []source.EdgeType{{}}, ByTime: -1,
		Both: o.both || c.opt.Reorder != ByHeat, Edges: c.graph.Edges.Count, Budget: &c.budget,
		Progress: c.opt.Progress}
	if opt.Both {
		opt.Merge = edgesort.MostOfTwo
	}
	a := &neighbours{}
	for i := range a.files {
		a.files[i].Budget = &c.budget
	}
	defer source.CloseOnError(&err, a)
	sorter, err := edgesort.New(opt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sorter.Close()) }()
	if err := c.fused(ctx, m, func(b source.Batch) error { return sorter.Add(ctx, b) }); err != nil {
		return nil, err
	}
	if err := sorter.Emit(ctx, edgesort.Sink{Indptr: &a.files[0], Indices: &a.files[1]}); err != nil {
		return nil, err
	}
	var data [2][]byte
	for i := range a.files {
		if data[i], err = a.files[i].Bytes(); err != nil {
			return nil, err
		}
	}
	dtype := unified.Int32
	if csc.IDBytes(m.n) == 8 {
		dtype = unified.Int64
	}
	indptr, err := unified.New(unified.Int64, data[0], m.n+1)
	if err != nil {
		return nil, err
	}
	a.indptr = mustView[int64](indptr)
	a.indices, err = unified.New(dtype, data[1], int64(len(data[1]))/dtype.Size())
	return a, err
}

// beyond is the error of an end of an edge that is no node of its type.
func (c *conversion) beyond(edge int64, what string, id int64, t int) error {
	return &edgesort.RangeError{Edge: edge, What: what, Value: id, Limit: c.graph.Nodes[t].Count}
}

// renumber makes everything in the graph follow the new numbers.
func (c *conversion) renumber(m *numbering) error {
	g := c.graph
	if !slices.ContainsFunc(m.types, func(a anew) bool { return a.order != nil }) {
		return nil
	}
	g.Edges.Each = c.renamed(m.of)
	for i := range g.Splits {
		s := &g.Splits[i]
		for j, v := range s.IDs {
			if uint64(v) >= uint64(g.Nodes[s.NodeType].Count) {
				return source.Error(c.src, "", -1, "", fmt.Errorf("split %q: node %d is not below %d", s.Name, v,
					g.Nodes[s.NodeType].Count))
			}
			s.IDs[j] = m.of(s.NodeType, v)
		}
		if to := s.Targets; to != nil { // which the reader has looked up
			for j, v := range to.IDs {
				to.IDs[j] = m.of(g.Types[to.EdgeType].Target, v)
			}
		}
	}
	if err := c.renumberLinks(m); err != nil {
		return err
	}
	for t := range g.Nodes {
		if err := c.renumberNodes(m, t); err != nil {
			return err
		}
	}
	return nil
}

func (c *conversion) renumberLinks(m *numbering) error {
	g := c.graph
	for i := range g.Links {
		k := &g.Links[i]
		for j := range k.Src {
			typ := g.Types[source.TypeAt(k.Types, j)]
			if uint64(k.Src[j]) >= uint64(g.Nodes[typ.Source].Count) ||
				uint64(k.Dst[j]) >= uint64(g.Nodes[typ.Target].Count) {
				return source.Error(c.src, "", -1, "", fmt.Errorf("links %q: link %d is between nodes %d and %d, "+
					"which are not there", k.Name, j, k.Src[j], k.Dst[j]))
			}
			k.Src[j], k.Dst[j] = m.of(typ.Source, k.Src[j]), m.of(typ.Target, k.Dst[j])
		}
	}
	return nil
}

// of returns the new number of a node; -1 where a type that is numbered anew has none of the old one.
func (m *numbering) of(t int, v int64) int64 {
	number := m.types[t].number
	if number == nil {
		return v
	}
	if uint64(v) >= uint64(len(number)) {
		return -1
	}
	return int64(number[v])
}

// renumberNodes orders the columns and names of a node type, and adds the column of the old numbers.
func (c *conversion) renumberNodes(m *numbering, t int) error {
	n, old := &c.graph.Nodes[t], m.types[t].order
	if old == nil {
		return nil
	}
	together := map[*source.Together]*source.Together{}
	for i := range n.Columns {
		col := &n.Columns[i]
		col.Write = c.permuted(old, *col)
		if was := col.Together; was != nil {
			if together[was] == nil {
				together[was] = &source.Together{Write: c.permutedTogether(old, was, slices.Clone(n.Columns))}
			}
			col.Together = together[was]
		}
	}
	for i, list := range n.Strings {
		if list.Others {
			continue
		}
		texts := &source.Texts{Budget: &c.budget}
		c.graph.Own(texts)
		if err := list.Each(func(s string) error { return texts.Append([]byte(s)) }); err != nil {
			return err
		}
		n.Strings[i].Each = func(yield func(string) error) error {
			for _, v := range old {
				if err := yield(string(texts.At(int64(v)))); err != nil {
					return err
				}
			}
			return nil
		}
	}
	n.Columns = append(n.Columns, source.Column{Column: graph.Column{Name: oldIDs, DType: unified.Int64},
		Write: func(_ context.Context, w io.Writer) error {
			ids := make([]int64, 0, 1<<16)
			for left := old; len(left) > 0; left = left[len(ids):] {
				ids = ids[:0]
				for _, v := range left[:min(len(left), cap(ids))] {
					ids = append(ids, int64(v))
				}
				if _, err := w.Write(unified.FromSlice(ids).Bytes()); err != nil {
					return err
				}
			}
			return nil
		}})
	return nil
}

// permuted writes a column's rows in their new order, by way of a temporary file.
func (c *conversion) permuted(old []uint32, col source.Column) func(context.Context, io.Writer) error {
	return func(ctx context.Context, w io.Writer) (err error) {
		spool := &source.Spool{Budget: &c.budget}
		defer func() { err = errors.Join(err, spool.Close()) }()
		if err := col.Write(ctx, spool); err != nil {
			return err
		}
		return permute(ctx, old, &col.Column, spool, w)
	}
}

// permutedTogether does so for columns that are read together, which are among those of their node type.
func (c *conversion) permutedTogether(old []uint32, of *source.Together,
	columns []source.Column) func(context.Context, []int, []io.Writer) error {
	return func(ctx context.Context, numbers []int, to []io.Writer) (err error) {
		spools, first := make([]*source.Spool, len(numbers)), make([]io.Writer, len(numbers))
		for i := range spools {
			spools[i] = &source.Spool{Budget: &c.budget}
			first[i] = spools[i]
			defer func() { err = errors.Join(err, spools[i].Close()) }()
		}
		if err := of.Write(ctx, numbers, first); err != nil {
			return err
		}
		for i, number := range numbers {
			is := func(x source.Column) bool { return x.Together == of && x.Number == number }
			at := slices.IndexFunc(columns, is)
			if err := permute(ctx, old, &columns[at].Column, spools[i], to[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

// permute writes the rows of a temporary file in their new order.
func permute(ctx context.Context, old []uint32, col *graph.Column, spool *source.Spool, w io.Writer) error {
	row := col.RowBytes()
	data, err := spool.Bytes()
	if err != nil {
		return err
	}
	if int64(len(data)) != int64(len(old))*row {
		return fmt.Errorf("column %q has %d bytes for %d nodes", col.Name, len(data), len(old))
	}
	for i, v := range old {
		if i&0xFFFF == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		at := int64(v) * row
		if _, err := w.Write(data[at : at+row]); err != nil {
			return err
		}
	}
	return nil
}
