package seedlist

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/loader/internal/errs"
	"github.com/khop-gnn/khop/loader/internal/wide"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// Link is a seed that is an edge.
type Link struct {
	EdgeType       int
	Source, Target int64 // own ids
	Label, Time    int64
}

// linkRun is the items begin .. end-1: edges of one type, or of types.
type linkRun struct {
	begin, end       int64
	edgeType         int
	types            []int32
	sources, targets func(i int64) int64 // nil: edges of the graph
	offsets          []int64             // where the targets of each source begin, among all; nil: it has one
	all              unified.Tensor
	labels, times    linkValues
	negatives        func(i int64) int64 // of place i / List.Given; nil: none
	table            unified.Tensor      // of them, flat
	where            *edgeIndex
}

// linkValues are a number for each link: a list by place, a column by the position of the edge, or none.
type linkValues struct {
	list   []int64
	column func(pos int64) int64
}

func (v *linkValues) some() bool { return v.list != nil || v.column != nil }

func (v *linkValues) at(place, pos int64) int64 {
	if v.list != nil {
		return v.list[place]
	}
	return v.column(pos)
}

// edgeIndex finds the edges of a graph by number: all, or those of one type.
type edgeIndex struct {
	graph  *graph.Graph
	source func(pos int64) int64 // fused
	typeOf func(pos int64) int   // nil where there is one edge type
	// With only one type of several asked for: how many of it come before each stretch of typeStretch positions, once
	// count was called.
	only   int // else -1
	before []int64
}

const typeStretch = 512

func newEdgeIndex(g *graph.Graph, every bool, edgeType int) (x *edgeIndex, err error) {
	x = &edgeIndex{graph: g, only: -1}
	if x.source, err = unified.Integers(g.Indices()); err != nil {
		return nil, err
	}
	if !g.Types().Valid() {
		return x, nil
	}
	types, err := unified.Integers(g.Types())
	if err != nil {
		return nil, err
	}
	x.typeOf = func(pos int64) int { return int(types(pos)) }
	if every {
		return x, nil
	}
	x.only = edgeType
	return x, nil
}

// bytes returns what count takes.
func (x *edgeIndex) bytes() int64 {
	if x == nil || x.only < 0 {
		return 0
	}
	return 8 * (x.graph.NumEdges()/typeStretch + 1)
}

// count goes over the types of all edges.
func (x *edgeIndex) count(ctx context.Context, progress func(done, total int64)) error {
	g, n := x.graph, int64(0)
	x.before = make([]int64, 0, x.bytes()/8)
	for pos := range g.NumEdges() {
		if pos%typeStretch == 0 {
			x.before = append(x.before, n)
		}
		if pos%(1<<20) == 0 {
			if progress(pos, g.NumEdges()); ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		if x.typeOf(pos) == x.only {
			n++
		}
	}
	if want := g.Schema().Edges[x.only].Count; n != want {
		return fmt.Errorf("%w: %d edges of type %v, where the schema has %d", sampling.ErrGraph, n,
			&g.Schema().Edges[x.only], want)
	}
	return nil
}

// IndexBytes returns what CountLinks takes, and Spans.
func (l *List) IndexBytes() (bytes int64) {
	bytes = l.Spans.bytes()
	for i := range l.links {
		bytes += l.links[i].where.bytes()
	}
	return bytes
}

// CountLinks finds where the edges of the seeds' types lie in a graph that has other types as well.
func (l *List) CountLinks(ctx context.Context, progress func(done, total int64)) error {
	for i := range l.links {
		if x := l.links[i].where; x.bytes() > 0 {
			if err := x.count(ctx, progress); err != nil {
				return err
			}
		}
	}
	return nil
}

// position returns where edge i lies.
func (x *edgeIndex) position(i int64) int64 {
	if x.only < 0 {
		return i
	}
	k := sort.Search(len(x.before), func(k int) bool { return x.before[k] > i }) - 1
	pos, left := int64(k)*typeStretch, i-x.before[k]
	for ; ; pos++ {
		if x.typeOf(pos) == x.only {
			if left == 0 {
				return pos
			}
			left--
		}
	}
}

// at returns the edge at a position. ErrGraph for one that is damaged.
func (x *edgeIndex) at(pos int64) (l Link, err error) {
	g := x.graph
	s, indptr := g.Schema(), g.Indptr()
	if x.typeOf != nil {
		l.EdgeType = x.typeOf(pos)
	}
	if l.EdgeType >= len(s.Edges) {
		return l, fmt.Errorf("%w: edge %d: edge type %d of %d", sampling.ErrGraph, pos, l.EdgeType, len(s.Edges))
	}
	et := &s.Edges[l.EdgeType]
	v := int64(sort.Search(len(indptr), func(v int) bool { return indptr[v] > pos })) - 1
	l.Source, l.Target = x.source(pos)-g.Offset(et.Src), v-g.Offset(et.Dst)
	if uint64(l.Source) >= uint64(s.Nodes[et.Src].Count) || uint64(l.Target) >= uint64(s.Nodes[et.Dst].Count) {
		return l, fmt.Errorf("%w: edge %d: from node %d to %d, which type %v does not join", sampling.ErrGraph, pos,
			x.source(pos), v, et)
	}
	return l, nil
}

// addLinks lays out sets of edges.
func (l *List) addLinks(sets []graph.EdgeSet, g *graph.Graph, label, time string) error {
	s := g.Schema()
	l.schema = s
	l.ByEdge = make([]int64, len(s.Edges))
	for k := range sets {
		set := &sets[k]
		n := set.Len()
		if n == 0 {
			continue
		}
		r := linkRun{edgeType: set.Type, types: set.Types, offsets: set.Offsets, all: set.Targets,
			begin: l.Count, end: l.Count + n,
			labels: linkValues{list: set.Labels}, times: linkValues{list: set.Times}}
		var err error
		if !set.Sources.Valid() && !set.Targets.Valid() {
			err = r.ofGraph(g, set, label, time)
		} else if r.sources, err = unified.Integers(set.Sources); err == nil {
			r.targets, err = unified.Integers(set.Targets)
		}
		if l.Given = set.Negated(); err == nil && l.Given > 0 {
			n := set.Negatives
			if r.table, err = unified.New(n.DType(), n.Bytes(), n.Len()*l.Given); err == nil {
				r.negatives, err = unified.Integers(r.table)
			}
		}
		if err != nil {
			return err
		}
		switch {
		case set.Every:
			for e := range s.Edges {
				l.ByEdge[e] += s.Edges[e].Count
			}
		case set.Types == nil:
			l.ByEdge[set.Type] += n
		}
		for _, e := range set.Types {
			l.ByEdge[e]++
		}
		l.links, l.Count, l.From = append(l.links, r), r.end, joined(l.From, set.From)
		l.Timed = l.Timed && r.times.some()
		l.labelled = l.labelled || r.labels.some()
	}
	if e := slices.Index(l.ByEdge, l.Count); e >= 0 && l.Count > 0 { // all are of one type
		l.key = s.Edges[e].Key
	}
	for e, n := range l.ByEdge {
		l.ByType[s.Edges[e].Src] += n
		l.ByType[s.Edges[e].Dst] += n
	}
	return nil
}

// ofGraph finds the edges of the graph, and the columns with their labels and times.
func (r *linkRun) ofGraph(g *graph.Graph, set *graph.EdgeSet, label, time string) (err error) {
	if r.where, err = newEdgeIndex(g, set.Every, set.Type); err != nil {
		return err
	}
	for _, c := range []struct {
		option, name string
		to           *linkValues
	}{{"LinkLabel", label, &r.labels}, {"LinkTime", time, &r.times}} {
		if c.name == "" || c.to.some() {
			continue
		}
		t, ok := g.EdgeColumn(c.name)
		if !ok {
			return fmt.Errorf("%w: %s: the edges have no column %q; they have: %s", errs.ErrOptions, c.option, c.name,
				ColumnNames(g.Schema().EdgeColumns))
		}
		if c.to.column, err = unified.Integers(t); err != nil {
			return fmt.Errorf("%w: %s: column %q: %w", errs.ErrOptions, c.option, c.name, err)
		}
	}
	return nil
}

// target returns which of the targets is that of the edge at a place: of several a drawn one.
func (r *linkRun) target(g *graph.Schema, place, item int64, draws sampling.Rand) int64 {
	if r.offsets == nil {
		return place
	}
	first, n := r.offsets[place], r.offsets[place+1]-r.offsets[place]
	stage := draws.Stage(g.Edges[r.edgeType].Key, sampling.Purpose(rng.Target), 0)
	return first + int64(stage.Stream(uint64(item)).IntN(0, uint64(n)))
}

// LinkAt returns item i, which is an edge. The draws are those of its batch.
func (l *List) LinkAt(i int64, draws sampling.Rand) (x Link, err error) {
	item := i
	r := &l.links[sort.Search(len(l.links), func(k int) bool { return l.links[k].end > i })]
	i -= r.begin
	pos := i
	if r.where != nil {
		pos = r.where.position(i)
		if x, err = r.where.at(pos); err != nil {
			return x, err
		}
	} else {
		x = Link{EdgeType: r.edgeType, Source: r.sources(i), Target: r.targets(r.target(l.schema, i, item, draws))}
		if r.types != nil {
			x.EdgeType = int(r.types[i])
		}
	}
	if x.Label = 1; r.labels.some() {
		x.Label = r.labels.at(i, pos)
	}
	if r.times.some() {
		x.Time = r.times.at(i, pos)
	}
	return x, nil
}

// AddNegatives appends the negatives that come with the edges of a type in a batch; -1 is one that is missed.
func (l *List) AddNegatives(to *sampling.LinkSeeds) {
	if l.Given == 0 {
		return
	}
	for i, item := range to.Items {
		r := &l.links[sort.Search(len(l.links), func(k int) bool { return l.links[k].end > item })]
		for j := range l.Given {
			if id := r.negatives((item-r.begin)*l.Given + j); id >= 0 {
				to.Add(i, to.Sources[i], id)
			} else {
				to.Missed++
			}
		}
	}
}

// hashLinks goes on with the hash of a list of seeds.
func (l *List) hashLinks(h *wide.Hash, to *xxh3.Hasher) {
	for k := range l.links {
		r := &l.links[k]
		ofGraph := int64(0)
		if r.where != nil {
			ofGraph = 1 + int64(r.where.only+1)
		}
		h.N[0], h.N[1], h.N[2] = -1, r.end-r.begin, ofGraph
		h.Numbers(3, to)
		if r.where != nil {
			h.Tensor(unified.FromSlice(r.labels.list), true, to)
			h.Tensor(unified.FromSlice(r.times.list), true, to)
		}
		for i := r.begin; r.where == nil && i < r.end; i++ {
			x, _ := l.LinkAt(i, sampling.Rand{}) // edges that are listed are sound
			h.N[0], h.N[1], h.N[2], h.N[3], h.N[4] = int64(x.EdgeType), x.Source, x.Target, x.Label, x.Time
			h.Numbers(5, to)
		}
		if r.negatives != nil {
			h.Tensor(r.table, true, to)
		}
		if r.offsets != nil {
			h.Tensor(unified.FromSlice(r.offsets), true, to)
			h.Tensor(r.all, true, to)
		}
	}
}

// OfGraph reports whether some of the seeds are edges of the graph.
func (l *List) OfGraph() bool {
	return slices.ContainsFunc(l.links, func(x linkRun) bool { return x.where != nil })
}

// Reverses returns the edge types that hold the reverses of each, as ExcludeReverse names them.
func Reverses(s *graph.Schema) [][]int {
	names := make(map[string]int, len(s.Edges))
	for e := range s.Edges {
		names[s.Edges[e].String()] = e
	}
	list := make([][]int, len(s.Edges))
	for e := range s.Edges {
		et := s.Edges[e]
		if et.Src == et.Dst {
			list[e] = append(list[e], e)
		}
		back := graph.EdgeType{Source: et.Target, Relation: "rev_" + et.Relation, Target: et.Source}
		if r, ok := names[back.String()]; ok {
			list[e] = append(list[e], r)
		}
	}
	return list
}
