// Package seedlist lays out the seeds of an epoch, nodes or edges, for looking up item after item, shuffling and
// hashing.
package seedlist

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader/internal/wide"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// List is the seeds of a loader, laid out for looking up item after item.
type List struct {
	sets    []seedRun
	Count   int64
	ByType  []int64 // items of each node type
	Numbers bool    // the items are not nodes: sampling.Items
	key     uint64  // type key of the shuffle
	From    []int64 // first times of the items; nil: none
	Spans   *Spans  // the items by their times, where batches lie within spans of time; nil: by their places

	// of seeds that are edges, in place of sets; ByType then counts their ends
	links           []linkRun
	schema          *graph.Schema
	ByEdge          []int64 // edges of each type; nil where seeds are nodes
	Timed, labelled bool    // all have times (nodes too), some have labels
	Given           int64   // negatives that come with each

	// OnRequest says that each request brings a list of its own, of which this one, all nodes, is an example.
	OnRequest bool
}

// seedRun is the items begin .. end-1: nodes of one type, or of types.
type seedRun struct {
	nodeType   int
	types      []int32 // nil: all are of nodeType
	begin, end int64
	ids        unified.Tensor
	id         func(i int64) int64 // nil: the id is the item's number within the run
	times      []int64             // nil: none
	labels     unified.Tensor
}

// New lays out seeds of a graph. label and time name the columns of edges that are seeds.
func New(s graph.Seeds, g *graph.Graph, label, time string) (List, error) {
	schema := g.Schema()
	l := List{ByType: make([]int64, len(schema.Nodes)), Timed: len(s.Edges) > 0}
	if len(s.Edges) > 0 {
		return l, l.addLinks(s.Edges, g, label, time)
	}
	for _, set := range s.Sets {
		n := set.Len()
		if n == 0 {
			continue
		}
		r := seedRun{nodeType: set.Type, types: set.Types, begin: l.Count, end: l.Count + n, times: set.Times,
			labels: set.Labels, ids: set.IDs}
		l.Timed = set.Times != nil
		if set.IDs.Valid() {
			var err error
			if r.id, err = unified.Integers(set.IDs); err != nil {
				return l, err
			}
		}
		for _, t := range r.types {
			l.ByType[t]++
		}
		if r.types == nil {
			l.ByType[set.Type] += n
		}
		l.sets, l.Count, l.From = append(l.sets, r), r.end, joined(l.From, set.From)
	}
	if t := slices.Index(l.ByType, l.Count); t >= 0 && l.Count > 0 { // all are of one type
		l.key = schema.Nodes[t].Key
	}
	return l, nil
}

// joined returns two lists, one behind the other; the second itself where the first is empty, as it is for one set.
func joined(a, b []int64) []int64 {
	if len(a) == 0 {
		return b
	}
	return append(slices.Clip(a), b...)
}

// At returns item i, 0 <= i < n.
func (l *List) At(i int64) (nodeType int, id int64) {
	r := &l.sets[sort.Search(len(l.sets), func(k int) bool { return l.sets[k].end > i })]
	i -= r.begin
	if nodeType = r.nodeType; r.types != nil {
		nodeType = int(r.types[i])
	}
	if r.id == nil {
		return nodeType, i
	}
	return nodeType, r.id(i)
}

// TimeAt returns the time of item i, of nodes that have times; of examples the end of time, before which all is.
func (l *List) TimeAt(i int64) int64 {
	r := &l.sets[sort.Search(len(l.sets), func(k int) bool { return l.sets[k].end > i })]
	if r.times == nil {
		return math.MaxInt64
	}
	return r.times[i-r.begin]
}

// The columns of a list of seeds that has labels.
const (
	labelColumn = "label"
	timeColumn  = "time"
	fromColumn  = "from"
)

// Columns returns what batches have of the list itself, for seeds of a node type: labels where there are some, and
// beside them times, and first times.
func (l *List) Columns(nodeType int) (list []graph.Column) {
	if l.ByEdge != nil || l.ByType[nodeType] == 0 || !l.sets[0].labels.Valid() {
		return nil
	}
	labels := l.sets[0].labels
	list = append(list, graph.Column{Name: labelColumn, DType: labels.DType(), Shape: labels.Shape()[1:]})
	if l.Timed {
		list = append(list, graph.Column{Name: timeColumn, DType: unified.Int64})
	}
	if l.From != nil {
		list = append(list, graph.Column{Name: fromColumn, DType: unified.Int64})
	}
	return list
}

// RowAt returns the bytes of item i in a column of Columns. They must not be changed.
func (l *List) RowAt(i int64, column string) []byte {
	r := &l.sets[sort.Search(len(l.sets), func(k int) bool { return l.sets[k].end > i })]
	rows := r.labels
	if column == timeColumn {
		rows = unified.FromSlice(r.times)
	} else if column == fromColumn {
		rows = unified.FromSlice(l.From[r.begin:])
	}
	size := rows.RowBytes()
	return rows.Bytes()[(i-r.begin)*size:][:size]
}

// Hash stands for the list of seeds in states.
func (l *List) Hash() uint64 {
	var h wide.Hash
	var to xxh3.Hasher
	to.Reset()
	run := func(r *seedRun, nodeType int, lo, hi int64) { // of one type
		h.N[0], h.N[1] = int64(nodeType), hi-lo
		h.Numbers(2, &to)
		if r.id != nil {
			some, _ := r.ids.Rows(lo, hi) // there are so many
			h.Tensor(some, true, &to)
		}
		if r.times != nil {
			h.Tensor(unified.FromSlice(r.times[lo:hi]), true, &to)
		}
		if r.labels.Valid() {
			size := r.labels.RowBytes()
			_, _ = to.Write(r.labels.Bytes()[lo*size : hi*size])
		}
	}
	for i := range l.sets {
		r := &l.sets[i]
		n, lo := r.end-r.begin, int64(0)
		for k := range r.types {
			if next := int64(k) + 1; next == n || r.types[next] != r.types[k] {
				run(r, int(r.types[k]), lo, next)
				lo = next
			}
		}
		if r.types == nil {
			run(r, r.nodeType, 0, n)
		}
	}
	if l.hashLinks(&h, &to); l.From != nil {
		h.Tensor(unified.FromSlice(l.From), true, &to)
	}
	return to.Sum64()
}

// Fused returns the seeds of an epoch as ids of all types together, of edges both ends; all nodes where a batch has no
// items.
func (l *List) Fused(g *graph.Graph) []int64 {
	if l.Numbers {
		all := make([]int64, g.NumNodes())
		for v := range all {
			all[v] = int64(v)
		}
		return all
	}
	ids := make([]int64, 0, l.Count)
	for i := range l.Count {
		if l.ByEdge == nil {
			t, id := l.At(i)
			ids = append(ids, g.Offset(t)+id)
			continue
		}
		x, err := l.LinkAt(i, sampling.Rand{})
		if err != nil {
			continue // its batch reports it
		}
		et := &g.Schema().Edges[x.EdgeType]
		ids = append(ids, g.Offset(et.Src)+x.Source, g.Offset(et.Dst)+x.Target)
	}
	return ids
}

// TakeNodes takes the nodes of m in place of l's; false, and nothing is taken, unless they are as many of each type and
// have times and labels where l's have.
func (l *List) TakeNodes(m *List) bool {
	if m.ByEdge != nil || m.Timed != l.Timed || len(m.From) != len(l.From) || !slices.Equal(m.ByType, l.ByType) {
		return false
	}
	for t := range l.ByType {
		if !slices.EqualFunc(m.Columns(t), l.Columns(t), func(a, b graph.Column) bool {
			return a.Name == b.Name && a.DType == b.DType && slices.Equal(a.Shape, b.Shape)
		}) {
			return false
		}
	}
	l.sets, l.From = m.sets, m.From // all else is as it was, and may be read meanwhile
	return true
}

// ColumnNames lists the names of columns, as far as a person reads them.
func ColumnNames(columns []graph.Column) string {
	var names []string
	for _, c := range columns {
		if len(names) == 20 {
			names = append(names, "...")
			break
		}
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}
