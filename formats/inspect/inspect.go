package inspect

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/names"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Result is what Dataset finds: facts that are valid in a dataset, but may be mistakes.
type Result struct {
	Degrees    []degreeBin  `json:"degrees"`  // of in-edges; none above the greatest
	Isolated   int64        `json:"isolated"` // nodes without edges
	SelfLoops  int64        `json:"self_loops"`
	Duplicates int64        `json:"duplicate_edges"` // of one type, and between the same nodes as one before
	NotFinite  []notFinite  `json:"not_finite"`
	Late       []lateSplit  `json:"late"`
	Leaked     []leakedLink `json:"leaked"`

	Shared []SharedNodes `json:"shared"`
}

// degreeBin counts the nodes that have From to To in-edges: 0, 1, 2 to 3, 4 to 7, and so on.
type degreeBin struct {
	From  int64 `json:"from"`
	To    int64 `json:"to"`
	Nodes int64 `json:"nodes"`
}

// notFinite counts the rows of a column that hold NaN or an infinity.
type notFinite struct {
	Owner  string `json:"owner"` // a node type, or "edges"
	Column string `json:"column"`
	Rows   int64  `json:"rows"`
	First  int64  `json:"first"` // the first of them
}

// lateSplit counts the nodes of the split "train" whose time is later than the first of the split "test".
type lateSplit struct {
	Type   string `json:"type"`
	Column string `json:"column"`
	Index  int    `json:"index"`
	Nodes  int64  `json:"nodes"`
	Of     int64  `json:"of"`
}

// leakedLink counts the links of a split, other than train, that are edges of the graph which the split follows, and
// those that such an edge reverses: one from the link's target to its source, of the same type or of another.
type leakedLink struct {
	Split    string `json:"split"`
	Index    int    `json:"index"`
	Links    int64  `json:"links"`
	Reversed int64  `json:"reversed"`
	Of       int64  `json:"of"`
}

// Dataset reads all arrays of a dataset. It takes one bit of memory a node, and 8 bytes for each in-edge of the node
// that has most. progress may be nil. Errors: formats.ErrCorrupt, in a *formats.Error, for damage that formats.Check
// finds too, context.Cause(ctx).
func Dataset(ctx context.Context, ds *formats.Dataset, progress formats.Progress) (*Result, error) {
	x := &inspector{ctx: ctx, ds: ds, g: ds.Graph(), s: ds.Graph().Schema(), Result: &Result{
		NotFinite: []notFinite{}, Late: []lateSplit{}, Leaked: []leakedLink{}, Shared: []SharedNodes{}}}
	shared := func() error {
		x.Shared = append(x.Shared, Shared(x.s, x.g.Splits())...)
		return x.ctx.Err()
	}
	err := pinned.Guard(func() error {
		for i, step := range []func() error{x.edges, x.columns, x.times, shared, x.links} {
			if err := step(); err != nil {
				return err
			}
			if progress != nil {
				progress("inspect", int64(i+1), 5)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return x.Result, nil
}

type inspector struct {
	*Result
	ctx context.Context
	ds  *formats.Dataset
	g   *graph.Graph
	s   *graph.Schema

	source, typ func(edge int64) int64
}

func (x *inspector) corrupt(format string, args ...any) error {
	return &formats.Error{Path: x.ds.Path(), Row: -1, Remedy: x.ds.Remedy(),
		Err: fmt.Errorf("%w: %s", formats.ErrCorrupt, fmt.Sprintf(format, args...))}
}

// edges looks at the structure.
func (x *inspector) edges() error {
	indptr, n, m := x.g.Indptr(), x.g.NumNodes(), x.g.NumEdges()
	var err error
	if x.source, err = unified.Integers(x.g.Indices()); err != nil {
		return err
	}
	x.typ = func(int64) int64 { return 0 }
	if t := x.g.Types(); t.Valid() {
		if x.typ, err = unified.Integers(t); err != nil {
			return err
		}
	}
	seen, bins := make([]uint64, n/64+1), make([]int64, 65)
	var keys []int64
	for v := range n {
		if v&0xFFFF == 0 && x.ctx.Err() != nil {
			return context.Cause(x.ctx)
		}
		lo, hi := indptr[v], indptr[v+1]
		if lo < 0 || hi < lo || hi > m {
			return x.corrupt("node %d has the edges %d to %d of %d", v, lo, hi, m)
		}
		bins[bits.Len64(uint64(hi-lo))]++
		if hi > lo {
			seen[v>>6] |= 1 << (v & 63)
		}
		keys = keys[:0]
		for e := lo; e < hi; e++ {
			u := x.source(e)
			if u < 0 || u >= n {
				return x.corrupt("edge %d has the source %d of %d nodes", e, u, n)
			}
			seen[u>>6] |= 1 << (u & 63)
			if u == v {
				x.SelfLoops++
			}
			keys = append(keys, x.typ(e)*n+u)
		}
		if !slices.IsSorted(keys) { // ordered by time
			slices.Sort(keys)
		}
		for i := 1; i < len(keys); i++ {
			if keys[i] == keys[i-1] {
				x.Duplicates++
			}
		}
	}
	x.Isolated = n
	for _, w := range seen {
		x.Isolated -= int64(bits.OnesCount64(w))
	}
	for i, nodes := range bins {
		if nodes > 0 || i == 0 {
			x.addBin(i, nodes)
		}
	}
	return nil
}

func (x *inspector) addBin(i int, nodes int64) {
	for k := len(x.Degrees); k <= i; k++ {
		b := degreeBin{}
		if k > 0 {
			b.From, b.To = 1<<(k-1), 1<<(k-1)*2-1
		}
		x.Degrees = append(x.Degrees, b)
	}
	x.Degrees[i].Nodes = nodes
}

// columns looks for numbers that are not finite.
func (x *inspector) columns() error {
	for t, n := range x.s.Nodes {
		for _, c := range n.Columns {
			col, _ := x.g.NodeColumn(t, c.Name)
			if err := x.finite(n.Name, c, col); err != nil {
				return err
			}
		}
	}
	for _, c := range x.s.EdgeColumns {
		col, _ := x.g.EdgeColumn(c.Name)
		if err := x.finite("edges", c, col); err != nil {
			return err
		}
	}
	return nil
}

func (x *inspector) finite(owner string, c graph.Column, t unified.Tensor) error {
	at, ok := floatAt(t)
	if !ok {
		return nil
	}
	found, width := notFinite{Owner: owner, Column: c.Name}, c.Width()
	for row := range t.Len() {
		if row*width&0xFFFFF < width && x.ctx.Err() != nil {
			return context.Cause(x.ctx)
		}
		for i := row * width; i < (row+1)*width; i++ {
			if v := at(i); math.IsNaN(v) || math.IsInf(v, 0) {
				if found.Rows++; found.Rows == 1 {
					found.First = row
				}
				break
			}
		}
	}
	if found.Rows > 0 {
		x.NotFinite = append(x.NotFinite, found)
	}
	return nil
}

// floatAt returns a reader of a floating-point tensor's elements; ok is false for other dtypes.
func floatAt(t unified.Tensor) (at func(i int64) float64, ok bool) {
	b, d, size := t.Bytes(), t.DType(), t.DType().Size()
	return func(i int64) float64 { return d.Float(b[i*size:]) }, d.IsFloat()
}

// times looks for nodes of train that are later than the first of test.
func (x *inspector) times() error {
	for t, n := range x.s.Nodes {
		for _, c := range n.Columns {
			if c.Role() != graph.Time && c.Name != "year" || len(c.Shape) > 0 {
				continue
			}
			col, _ := x.g.NodeColumn(t, c.Name)
			at, ok := floatAt(col)
			if whole, err := unified.Integers(col); !ok && err == nil {
				at = func(i int64) float64 { return float64(whole(i)) }
			} else if !ok {
				continue
			}
			for _, s := range x.g.Splits() {
				if s.Name == "train" {
					x.late(t, s.Index, c.Name, at)
				}
			}
		}
	}
	return x.ctx.Err()
}

func (x *inspector) late(t, index int, column string, at func(int64) float64) {
	found := lateSplit{Type: x.s.Nodes[t].Name, Column: column, Index: index}
	first := math.Inf(1)
	x.eachSeed("test", index, t, func(v int64) { first = min(first, at(v)) })
	x.eachSeed("train", index, t, func(v int64) {
		if found.Of++; at(v) > first {
			found.Nodes++
		}
	})
	if found.Nodes > 0 {
		x.Late = append(x.Late, found)
	}
}

// eachSeed yields the nodes of a type in a split.
func (x *inspector) eachSeed(name string, index, t int, yield func(v int64)) {
	seeds, err := x.g.Split(name, index)
	if err != nil {
		return
	}
	for _, set := range seeds.Sets {
		if set.Type != t {
			continue
		}
		at := func(i int64) int64 { return i }
		if set.IDs.Valid() {
			if at, err = unified.Integers(set.IDs); err != nil {
				return
			}
		}
		for i := range set.Len() {
			if v := at(i); v >= 0 && v < x.s.Nodes[t].Count {
				yield(v)
			}
		}
	}
}

// links looks for links to predict that are edges.
func (x *inspector) links() error {
	for _, k := range x.ds.LinkSplits() {
		if k.Name == "train" {
			continue
		}
		found := leakedLink{Split: k.Name, Index: k.Index}
		follow := func(int64) int64 { return 1 }
		if column, ok := x.g.EdgeColumn(names.Follow(k.Name, k.Index)); ok {
			if by, err := unified.Integers(column); err == nil {
				follow = by
			}
		}
		for _, set := range k.Sets {
			if err := x.leaked(&found, set, follow); err != nil {
				return err
			}
		}
		if found.Links+found.Reversed > 0 {
			x.Leaked = append(x.Leaked, found)
		}
	}
	return nil
}

// leaked counts the links of a set that are edges which the split follows.
func (x *inspector) leaked(found *leakedLink, set formats.LinkSet, follow func(edge int64) int64) error {
	src, err1 := unified.Integers(set.Sources)
	dst, err2 := unified.Integers(set.Targets)
	if err1 != nil || err2 != nil {
		return x.corrupt("links %q", found.Split)
	}
	e, back := x.s.Edges[set.EdgeType], []int{}
	for t := range x.s.Edges {
		if x.s.Edges[t].Src == e.Dst && x.s.Edges[t].Dst == e.Src {
			back = append(back, t)
		}
	}
	label := func(int64) int64 { return 1 }
	if set.Labels.Valid() {
		label, _ = unified.Integers(set.Labels)
		for i := range set.Labels.Len() {
			if label(i) > 1 { // relations: two nodes may have several
				return nil
			}
		}
	}
	for i := range set.Sources.Len() {
		if i&0xFFFF == 0 && x.ctx.Err() != nil {
			return context.Cause(x.ctx)
		}
		u, v := src(i), dst(i)
		if u < 0 || u >= x.s.Nodes[e.Src].Count || v < 0 || v >= x.s.Nodes[e.Dst].Count {
			return x.corrupt("links %q: link %d is between nodes that are not there", found.Split, i)
		}
		if label(i) == 0 {
			continue
		}
		found.Of++
		u, v = u+x.g.Offset(e.Src), v+x.g.Offset(e.Dst)
		if x.hasEdge(set.EdgeType, u, v, follow) {
			found.Links++
		}
		if u != v && slices.ContainsFunc(back, func(t int) bool { return x.hasEdge(t, v, u, follow) }) {
			found.Reversed++
		}
	}
	return nil
}

// hasEdge reports whether there is an edge of a type between two nodes (fused ids) that is followed.
func (x *inspector) hasEdge(t int, u, v int64, follow func(edge int64) int64) bool {
	n, lo := x.g.NumNodes(), x.g.Indptr()[v]
	key := func(i int) int64 { return x.typ(lo+int64(i))*n + x.source(lo+int64(i)) }
	degree, want, first := int(x.g.Indptr()[v+1]-lo), int64(t)*n+u, 0
	sorted := x.s.Edges[t].Order == graph.BySource && len(x.s.Edges) == 1
	if sorted {
		first = sort.Search(degree, func(i int) bool { return key(i) >= want })
	}
	for i := first; i < degree && !(sorted && key(i) != want); i++ {
		if key(i) == want && follow(lo+int64(i)) != 0 {
			return true
		}
	}
	return false
}

// Hints describes, in sentences, facts that may be mistakes.
func (x *Result) Hints() []string {
	hints := []string{}
	add := func(format string, args ...any) { hints = append(hints, fmt.Sprintf(format, args...)) }
	many := func(n int64, what string) string { return english.Plural(int(n), what, "") }
	if x.Isolated > 0 {
		add("%s without edges: sampling finds nothing around them", many(x.Isolated, "node"))
	}
	if x.Duplicates > 0 {
		add("%s between the same nodes as another: \"khop convert --dedupe\" makes one of them",
			many(x.Duplicates, "edge"))
	}
	for _, c := range x.NotFinite {
		add("column %q of %s: %s with NaN or an infinity, the first is row %s", c.Column, c.Owner, many(c.Rows, "row"),
			humanize.Comma(c.First))
	}
	for _, s := range x.Shared {
		add("%v", s)
	}
	for _, l := range x.Late {
		add("%s of %s in the split train (index %d) are later, by %q, than the first of test: the past "+
			"learns from the future", humanize.Comma(l.Nodes), many(l.Of, l.Type), l.Index, l.Column)
	}
	for _, l := range x.Leaked {
		if l.Reversed > 0 {
			add("%s of %s to predict in the split %s (index %d) are reversed by an edge of the graph: a model sees "+
				"the answer; \"khop split --links\" keeps both ways together", humanize.Comma(l.Reversed),
				many(l.Of, "link"), l.Split, l.Index)
		}
		if l.Links == 0 {
			continue
		}
		add("%s of %s to predict in the split %s (index %d) are edges of the graph: a model sees them",
			humanize.Comma(l.Links), many(l.Of, "link"), l.Split, l.Index)
	}
	return hints
}
