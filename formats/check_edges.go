package formats

import (
	"cmp"
	"math"
	"sort"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// edgeChecker checks destinations and their edges. T is the dtype of ids, U of edge types.
type edgeChecker[T int32 | int64, U uint8 | uint16] struct {
	schema  *graph.Schema
	offsets []int64 // of node types, one more at the end
	indptr  []int64
	indices []T
	types   []U     // nil with one edge type
	ids     []int64 // nil where an edge's id is its position
	time    timeColumn

	indptrFile, indicesFile, typeFile, idFile, timeFile *checkedFile
}

// addEdges adds the tasks that check indptr, and the edges of each destination as far as the files for that are there.
func (c *checker) addEdges() {
	indptr := c.topology(nameIndptr)
	if indptr == nil {
		return
	}
	if c.schema.IDType() == unified.Int32 {
		addEdgesOf[int32](c, indptr)
	} else {
		addEdgesOf[int64](c, indptr)
	}
}

func addEdgesOf[T int32 | int64](c *checker, indptr *checkedFile) {
	if typeDType(len(c.schema.Edges)) == unified.Uint8 {
		addTypedEdges[T, uint8](c, indptr)
	} else {
		addTypedEdges[T, uint16](c, indptr)
	}
}

func addTypedEdges[T int32 | int64, U uint8 | uint16](c *checker, indptr *checkedFile) {
	e := &edgeChecker[T, U]{schema: &c.schema, indptrFile: indptr, offsets: []int64{0}}
	for t := range c.schema.Nodes {
		e.offsets = append(e.offsets, e.offsets[t]+c.schema.Nodes[t].Count)
	}
	e.indptr, _ = unified.View[int64](indptr.tensor())
	complete := e.openEdges(c)
	c.edges.checked = complete
	n := c.schema.NumNodes()
	for lo := int64(0); lo < n || lo == 0; lo += checkRows {
		hi := min(lo+checkRows, n)
		c.tasks = append(c.tasks, task{file: indptr, at: indptr.l.BodyOffset + 8*lo, bytes: 8 * (hi - lo),
			run: func(*scratch) error { return e.checkIndptr(lo, hi) }})
		if complete {
			share := float64(e.indicesFile.l.Bytes) * float64(hi-lo) / float64(max(n, 1)) // about what a task looks at
			c.tasks = append(c.tasks, task{file: e.indicesFile, at: e.indicesFile.l.BodyOffset, bytes: int64(share),
				run: func(s *scratch) error {
					err := e.checkDestinations(lo, hi, s.counts)
					if err != nil {
						c.edges.spoil()
					}
					return err
				}})
		}
	}
}

// openEdges takes the views of the edges' arrays. It reports whether all that are needed are there and have the right
// dtypes; where they have not, that has been reported.
func (e *edgeChecker[T, U]) openEdges(c *checker) bool {
	var err error
	if e.indicesFile = c.topology(nameIndices); e.indicesFile == nil {
		return false
	}
	if e.indices, err = unified.View[T](e.indicesFile.tensor()); err != nil {
		return false
	}
	if len(c.schema.Edges) > 1 {
		if e.typeFile = c.topology(nameType); e.typeFile == nil {
			return false
		}
		if e.types, err = unified.View[U](e.typeFile.tensor()); err != nil {
			return false
		}
	}
	if e.idFile = c.topology(nameEdgeID); e.idFile != nil {
		if e.ids, err = unified.View[int64](e.idFile.tensor()); err != nil {
			return false
		}
	}
	for _, f := range c.files {
		if f.owner == OwnerEdges && graph.RoleOf(f.typ.Name) == graph.Time && f.region != nil {
			e.timeFile, e.time = f, newTimeColumn(f.tensor())
		}
	}
	return true
}

// checkIndptr checks nodes lo to hi, and the ends.
func (e *edgeChecker[T, U]) checkIndptr(lo, hi int64) error {
	m, n := e.schema.NumEdges(), e.schema.NumNodes()
	if lo == 0 && (e.indptr[0] != 0 || e.indptr[n] != m) {
		return e.indptrFile.rowError("node", 0, remedyForeign, "indptr runs from %s to %s, not from 0 to %s edges",
			humanize.Comma(e.indptr[0]), humanize.Comma(e.indptr[n]), humanize.Comma(m))
	}
	for v := lo; v < hi; v++ {
		if e.indptr[v+1] < e.indptr[v] {
			return e.indptrFile.rowError("node", v, remedyForeign, "indptr descends from %s to %s",
				humanize.Comma(e.indptr[v]), humanize.Comma(e.indptr[v+1]))
		}
	}
	return nil
}

// checkDestinations checks the edges into nodes lo to hi and counts them by type. Where indptr itself is wrong it
// stops: that is reported elsewhere.
func (e *edgeChecker[T, U]) checkDestinations(lo, hi int64, counts []int64) error {
	nodeType := sort.Search(len(e.schema.Nodes), func(t int) bool { return e.offsets[t+1] > lo })
	m := int64(len(e.indices))
	for v := lo; v < hi; v++ {
		for nodeType < len(e.schema.Nodes) && v >= e.offsets[nodeType+1] {
			nodeType++
		}
		from, to := e.indptr[v], e.indptr[v+1]
		if from < 0 || to < from || to > m {
			return e.indptrFile.rowError("node", v, remedyForeign, "its edges run from %s to %s of %s",
				humanize.Comma(from), humanize.Comma(to), humanize.Comma(m))
		}
		var err error
		if e.types == nil && e.schema.Edges[0].Order == graph.BySource {
			err = e.checkPlain(from, to, nodeType)
			counts[0] += to - from
		} else {
			err = e.checkTyped(v, from, to, nodeType, counts)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkPlain checks the edges of one destination of a graph with one edge type, ordered by source.
func (e *edgeChecker[T, U]) checkPlain(from, to int64, nodeType int) error {
	et := &e.schema.Edges[0]
	if nodeType != et.Dst && from < to {
		return e.wrongTarget(from, 0, nodeType)
	}
	first, end := e.offsets[et.Src], e.offsets[et.Src+1]
	last := int64(-1)
	for i := from; i < to; i++ {
		src := int64(e.indices[i])
		if src < first || src >= end {
			return e.sourceError(i, 0)
		}
		if src < last || src == last && e.ids != nil && e.ids[i] <= e.ids[i-1] {
			return e.orderError(i)
		}
		last = src
	}
	return nil
}

// checkTyped checks the edges of destination v, whatever their types and orders.
func (e *edgeChecker[T, U]) checkTyped(v, from, to int64, nodeType int, counts []int64) error {
	for i := from; i < to; i++ {
		t := e.typeOf(i)
		if t >= len(e.schema.Edges) {
			return e.typeFile.rowError("edge", i, remedyForeign, "%s",
				describe(int64(t), "type", int64(len(e.schema.Edges))))
		}
		et := &e.schema.Edges[t]
		if et.Dst != nodeType {
			return e.wrongTarget(i, t, nodeType)
		}
		if src := int64(e.indices[i]); src < e.offsets[et.Src] || src >= e.offsets[et.Src+1] {
			return e.sourceError(i, t)
		}
		if et.Order == graph.ByTime && e.time.isNaN != nil && e.time.isNaN(i) {
			return e.timeFile.rowError("edge", i, "mend the times and convert again", "its time is not a number")
		}
		if i > from && !e.ascends(i) {
			return e.orderError(i)
		}
		counts[t]++
	}
	return nil
}

func (e *edgeChecker[T, U]) typeOf(i int64) int {
	if e.types == nil {
		return 0
	}
	return int(e.types[i])
}

// ascends reports whether edge i comes after edge i-1 of the same destination.
func (e *edgeChecker[T, U]) ascends(i int64) bool {
	t := e.typeOf(i)
	c := cmp.Compare(e.typeOf(i-1), t)
	if c == 0 && e.schema.Edges[t].Order == graph.ByTime && e.time.compare != nil {
		c = e.time.compare(i-1, i)
	}
	if c == 0 {
		c = cmp.Compare(e.indices[i-1], e.indices[i])
	}
	if c == 0 && e.ids != nil {
		return e.ids[i-1] < e.ids[i]
	}
	return c <= 0
}

func (e *edgeChecker[T, U]) wrongTarget(i int64, t, nodeType int) error {
	f := e.typeFile
	if f == nil {
		f = e.indptrFile
	}
	return f.rowError("edge", i, remedyForeign, "it has type %v, but leads to a node of type %q", &e.schema.Edges[t],
		e.schema.Nodes[nodeType].Name)
}

func (e *edgeChecker[T, U]) sourceError(i int64, t int) error {
	et := &e.schema.Edges[t]
	src := int64(e.indices[i])
	first, end := e.offsets[et.Src], e.offsets[et.Src+1]
	switch {
	case src < 0:
		return e.indicesFile.rowError("edge", i, remedyForeign, "source %s is negative", humanize.Comma(src))
	case src >= e.schema.NumNodes():
		return e.indicesFile.rowError("edge", i, remedyForeign, "%s nodes",
			describe(src, "source", e.schema.NumNodes()))
	}
	return e.indicesFile.rowError("edge", i, remedyForeign,
		"source %s is not among nodes %s to %s, which are of type %q, as edges of type %v need",
		humanize.Comma(src), humanize.Comma(first), humanize.Comma(end-1), et.Source, et)
}

func (e *edgeChecker[T, U]) orderError(i int64) error {
	return e.indicesFile.rowError("edge", i, remedyConvert,
		"it does not come after the edge before it: edges of a destination ascend by type, source and id, or by "+
			"type, time, source and id")
}

// timeColumn compares the times of edges. Its functions are nil where there is no such column.
type timeColumn struct {
	compare func(i, j int64) int
	isNaN   func(i int64) bool // nil where times are integers
}

func newTimeColumn(t unified.Tensor) timeColumn {
	if at, ok := floatAt(t); ok {
		return timeColumn{
			compare: func(i, j int64) int { return cmp.Compare(at(i), at(j)) },
			isNaN:   func(i int64) bool { return math.IsNaN(at(i)) },
		}
	}
	if v, err := unified.View[uint64](t); err == nil {
		return timeColumn{compare: func(i, j int64) int { return cmp.Compare(v[i], v[j]) }}
	}
	if at, err := unified.Integers(t); err == nil {
		return timeColumn{compare: func(i, j int64) int { return cmp.Compare(at(i), at(j)) }}
	}
	return timeColumn{}
}
