package formats

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

type schema = graph.Schema

// checkRows is how many rows a task looks at.
const checkRows = 1 << 16

// scratch belongs to one worker.
type scratch struct{ counts []int64 }

// edgeCounts counts edges by type over all workers.
type edgeCounts struct {
	mu      sync.Mutex
	counts  []int64
	checked bool // every destination was looked at
}

func (e *edgeCounts) merge(counts []int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.counts == nil {
		e.counts = make([]int64, len(counts))
	}
	for i, n := range counts {
		e.counts[i] += n
	}
}

// spoil says that the counts are not those of all edges.
func (e *edgeCounts) spoil() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.checked = false
}

// addRules adds the tasks that look at elements.
func (c *checker) addRules() {
	for _, f := range c.files {
		switch {
		case f.region == nil:
		case f.set != nil:
			c.addSeeds(f)
		case f.typ.Strings:
			c.addStrings(f)
		case f.ascend:
			c.addAscending(f)
		case f.owner == OwnerEdges && graph.RoleOf(f.typ.Name) == graph.Weight:
			c.addWeights(f)
		case f.owner == OwnerGraph && f.typ.Name == nameEdgeID:
			c.addRows(f, func(lo, hi int64) error { return f.checkRange("edge id", "edge", lo, hi, math.MaxInt64) })
		}
	}
	c.addEdges()
}

// addRows adds tasks over stretches of a file's rows.
func (c *checker) addRows(f *checkedFile, check func(lo, hi int64) error) {
	width := f.l.RowBytes()
	for lo := int64(0); lo < f.l.Rows; lo += checkRows {
		hi := min(lo+checkRows, f.l.Rows)
		c.tasks = append(c.tasks, task{file: f, at: f.l.BodyOffset + lo*width, bytes: (hi - lo) * width,
			run: func(*scratch) error { return check(lo, hi) }})
	}
}

// rowError is a rule that a row breaks.
func (f *checkedFile) rowError(unit string, row int64, remedy, format string, args ...any) error {
	return &Error{Path: f.path, Row: row, Remedy: remedy, unit: unit, Err: corruptf(format, args...)}
}

func (f *checkedFile) tensor() unified.Tensor {
	t, err := f.l.Tensor(f.body)
	if err != nil {
		return unified.Tensor{}
	}
	return t
}

// checkRange checks that rows lo to hi hold integers from 0 to below end.
func (f *checkedFile) checkRange(what, unit string, lo, hi, end int64) error {
	at := int64(-1)
	var v int64
	if x, err := unified.View[int32](f.tensor()); err == nil {
		if i := slices.IndexFunc(x[lo:hi], func(v int32) bool { return v < 0 || int64(v) >= end }); i >= 0 {
			at, v = lo+int64(i), int64(x[lo+int64(i)])
		}
	} else if x, err := unified.View[int64](f.tensor()); err == nil {
		if i := slices.IndexFunc(x[lo:hi], func(v int64) bool { return v < 0 || v >= end }); i >= 0 {
			at, v = lo+int64(i), x[lo+int64(i)]
		}
	}
	if at < 0 {
		return nil
	}
	if v < 0 {
		return f.rowError(unit, at, remedyForeign, "%s %s is negative", what, humanize.Comma(v))
	}
	return f.rowError(unit, at, remedyForeign, "%s %s is not below %s nodes", what, humanize.Comma(v),
		humanize.Comma(end))
}

func (c *checker) addSeeds(f *checkedFile) {
	switch f.set.End {
	case tableLabel, tableTime, tableFrom:
		return // labels and times are any numbers
	case tableOffset:
		c.addOffsets(f, c.files[f.index-1].l.Rows)
		return
	}
	n := c.schema.Nodes[f.set.NodeType].Count
	c.addRows(f, func(lo, hi int64) error { return f.checkRange("node", "seed", lo, hi, n) })
}

// addOffsets checks that each row of a table has a target, of so many.
func (c *checker) addOffsets(f *checkedFile, targets int64) {
	at, err := unified.View[int64](f.tensor())
	if err != nil {
		return
	}
	last := int64(len(at)) - 1
	c.addRows(f, func(lo, hi int64) error {
		if lo == 0 && at[0] != 0 || hi > last && at[last] != targets {
			return f.rowError("row", lo, remedyForeign, "rows run from %d to %d of %d targets", at[0], at[last],
				targets)
		}
		for i := max(lo, 1); i < hi; i++ {
			if at[i] <= at[i-1] {
				return f.rowError("row", i-1, remedyForeign, "its targets run from %d to %d", at[i-1], at[i])
			}
		}
		return nil
	})
}

// addAscending checks that no row is less than the one before.
func (c *checker) addAscending(f *checkedFile) {
	at, err := unified.Integers(f.tensor())
	if err != nil {
		return
	}
	c.addRows(f, func(lo, hi int64) error {
		for i := max(lo, 1); i < hi; i++ {
			if at(i) < at(i-1) {
				return f.rowError("row", i, "convert again", "%d follows %d, where the manifest says that rows ascend",
					at(i), at(i-1))
			}
		}
		return nil
	})
}

// addWeights checks that weights are finite and not negative.
func (c *checker) addWeights(f *checkedFile) {
	at, ok := floatAt(f.tensor())
	if !ok {
		return
	}
	width := f.tensor().Width()
	c.addRows(f, func(lo, hi int64) error {
		for i := lo * width; i < hi*width; i++ {
			if v := at(i); !(v >= 0) || math.IsInf(v, 0) {
				return f.rowError("edge", i/width, "mend the weights and convert again",
					"weight %v is not a finite number from 0", v)
			}
		}
		return nil
	})
}

// floatAt returns a reader of a floating-point tensor's elements; ok is false for other dtypes.
func floatAt(t unified.Tensor) (at func(i int64) float64, ok bool) {
	b, d, size := t.Bytes(), t.DType(), t.DType().Size()
	return func(i int64) float64 { return d.Float(b[i*size:]) }, d.IsFloat()
}

func (c *checker) addStrings(f *checkedFile) {
	s := &Strings{path: f.path, name: f.typ.Name, body: f.body, l: f.l}
	chars := f.l.Bytes - f.l.Data
	for lo := int64(0); lo <= f.l.Rows; lo += checkRows {
		hi := min(lo+checkRows, f.l.Rows)
		c.tasks = append(c.tasks, task{file: f, at: f.l.BodyOffset + 8*lo, bytes: 8 * (hi - lo),
			run: func(*scratch) error {
				if first, last := s.offset(0), s.offset(f.l.Rows); lo == 0 && (first != 0 || last != chars) {
					return f.rowError("string", 0, remedyConvert, "strings run from %d to %d of %d bytes", first, last,
						chars)
				}
				for i := lo; i < hi; i++ {
					from, to := s.offset(i), s.offset(i+1)
					if from < 0 || to < from || to > chars || !utf8.Valid(f.body[f.l.Data+from:f.l.Data+to]) {
						return f.rowError("string", i, remedyConvert, "it runs from %d to %d of %d bytes, or is not "+
							"UTF-8", from, to, chars)
					}
				}
				return nil
			}})
	}
}

// checkEdgeCounts compares the numbers of edges of each type with the manifest, if all edges could be read.
func (c *checker) checkEdgeCounts() {
	if !c.edges.checked {
		return
	}
	f := c.topology(nameType)
	if f == nil {
		f = c.topology(nameIndptr)
	}
	for t := range c.schema.Edges {
		e := &c.schema.Edges[t]
		if n := c.edges.counts[t]; n != e.Count {
			c.add(f.index, math.MaxInt64, corrupt(f.path, "there are %s edges of type %v, there must be %s",
				humanize.Comma(n), e, humanize.Comma(e.Count)))
		}
	}
}

// topology returns an array of the graph's structure; nil if it is not there or could not be opened.
func (c *checker) topology(name string) *checkedFile {
	for _, f := range c.files {
		if f.owner == OwnerGraph && f.typ.Name == name && f.region != nil {
			return f
		}
	}
	return nil
}

func describe(v int64, what string, n int64) string {
	return fmt.Sprintf("%s %s is not below %s", what, humanize.Comma(v), humanize.Comma(n))
}
