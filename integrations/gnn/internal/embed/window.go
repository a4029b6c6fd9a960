package embed

import (
	"errors"
	"math"
	"slices"
	"sync"
)

// window makes rows of a step while the rows of all sources pass by, once for each of a few ranges of nodes: sums begin
// with their first row and end with the last, and so do copies of the nodes' own rows. Nodes whose sources have numbers
// near their own are done soon, and few rows are in memory at a time. Rows are written unit by unit, whole pages of a
// file where they are wide.
type window struct {
	sweeping
	number int // of the step
	unit   int64
	tables []*Table // that pass by: that of the sources first
	kept   []kept   // what is copied of a node's own rows
	own    rows     // these copies
	sums   rows
	there  set   // nodes of all ranges whose rows are made
	made   int64 // how many these are
	lock   sync.Mutex
}

// kept is a table of which a node's own row is kept, and where in the copy.
type kept struct {
	table int // of those that pass by
	at    int64
}

// rows are memory for rows of some nodes of a range.
type rows struct {
	summed
	free []int32
}

// within reports whether a step sums all nodes' edges within a type, of weights that do not depend on rows of the nodes
// themselves.
func (s *Step) within(r *run, of nodes) bool {
	if len(s.Sums) != 1 || of.list != nil || of.count > math.MaxInt32 {
		return false
	}
	rel := &s.Sums[0]
	e := &r.p.Graph.Schema().Edges[rel.Edges]
	return rel.Reduce != Attend && e.Src == e.Dst
}

// windowed reports whether a step can be made in windows: its function may be given any nodes.
func (s *Step) windowed(r *run, of nodes) bool { return s.within(r, of) && s.Rows == 0 }

// windowUnit is how many nodes' rows a window writes at once: those of a page, where they are wide.
func (s *Step) windowUnit() int64 {
	unit := int64(8)
	for _, t := range s.To {
		for unit > 1 && unit*t.rowBytes() > pageBytes {
			unit /= 2
		}
	}
	return unit
}

const pageBytes = 4096

// windowTables returns the tables that pass by in a window, what is kept of a node's own rows, and how many numbers.
func (s *Step) windowTables() (tables []*Table, own []kept, width int64) {
	rel := &s.Sums[0]
	tables = []*Table{rel.Table}
	keep := func(t *Table) {
		at := slices.Index(tables, t)
		if at < 0 {
			at, tables = len(tables), append(tables, t)
		}
		own, width = append(own, kept{at, width}), width+int64(t.Width)
	}
	for _, t := range s.Own {
		keep(t)
	}
	if rel.Loops {
		keep(rel.Table)
	}
	return tables, own, width
}

// window makes the rows of a step that are left.
func (r *run) window(k int, s *Step) error {
	of := r.of[k]
	v, err := r.survey(s, 0, of)
	if err != nil || len(r.left) == 0 {
		return err
	}
	there := newSet(of.count)
	at := int64(0)
	for _, span := range slices.Concat(r.left, [][2]int64{{of.count, 0}}) {
		for ; at < span[0]; at++ {
			there.add(at)
		}
		at = span[1]
	}
	c, err := r.cutEdges(0, &s.Sums[0], of, r.now.cuts[0], nil)
	if err != nil {
		return err
	}
	for n, one := range c.ranges {
		w := &window{number: k, unit: c.unit, there: there, made: there.count()}
		w.sweeping = sweeping{run: r, step: s, of: of, window: w}
		if err := w.open(v, one, int64(n), int64(len(c.ranges))); err != nil {
			return err
		}
		if err := w.pass(c, n, w.tables, true, func(chunk int64) error {
			w.keep(w.rows)
			return w.write(c.unitsOf(n, chunk))
		}); err != nil {
			return err
		}
	}
	return r.finished(k, s)
}

// ranges returns the nodes in as many ranges, of parts.
func (v *survey) ranges(n int64) (all [][2]int64) {
	for i := range n {
		all = append(all, [2]int64{v.part(i * parts / n), v.part((i + 1) * parts / n)})
	}
	return all
}

// open takes memory for range number i of n.
func (w *window) open(v *survey, span [2]int64, i, n int64) (err error) {
	var width int64
	w.tables, w.kept, width = w.step.windowTables()
	if err := w.sweeping.open(span); err != nil {
		return err
	}
	sums, own := v.held(i*parts/n, (i+1)*parts/n)
	if w.sums, err = w.memoryOf("sums", sums, w.width, w.n); err != nil {
		return err
	}
	w.y = w.sums.summed
	w.own, err = w.memoryOf("own rows", own, width, w.n)
	return err
}

// memoryOf returns memory for a number of rows of count nodes.
func (r *run) memoryOf(name string, n, width, count int64) (to rows, err error) {
	to.width = width
	if to.rows, err = room[float32](r, "window of "+name, n*width); err != nil {
		return to, err
	}
	if to.place, err = room[int32](r, "places of "+name, count); err != nil {
		return to, err
	}
	for i := range to.place {
		to.place[i] = -1
	}
	if to.free, err = room[int32](r, "free of "+name, n); err != nil {
		return to, err
	}
	for i := range to.free {
		to.free[i] = int32(n) - 1 - int32(i)
	}
	return to, nil
}

// hold gives a node a row, of what was there before.
func (m *rows) hold(i int64) []float32 {
	last := len(m.free) - 1
	m.place[i], m.free = m.free[last], m.free[:last]
	return m.row(i)
}

// release takes the row of a node back.
func (m *rows) release(i int64) {
	if m.place[i] >= 0 {
		m.free = append(m.free, m.place[i])
		m.place[i] = -1
	}
}

// hold reports whether rows are added to a node, and gives it sums where it has none: it is called by any goroutine
// that has the node.
func (w *window) hold(i int64) bool {
	if w.there.has(w.lo + i) {
		return false
	}
	if w.sums.place[i] < 0 {
		w.lock.Lock()
		row := w.sums.hold(i)
		w.lock.Unlock()
		w.begin(row)
	}
	return true
}

// keep copies those of the rows at hand that nodes of the range need as their own.
func (w *window) keep(rows [][]float32) {
	lo, hi := max(w.first-w.lo, 0), min(w.first+int64(len(rows[0]))/w.width-w.lo, w.n)
	for i := lo; i < hi; i++ {
		if w.there.has(w.lo + i) {
			continue
		}
		row := w.own.hold(i)
		for _, k := range w.kept {
			width := int64(w.tables[k.table].Width)
			copy(row[k.at:k.at+width], rows[k.table][(w.lo+i-w.first)*width:])
		}
	}
}

// write makes the rows of units that are done, some at a time, and gives back what they held.
func (w *window) write(done []uint32) error {
	for n := w.step.applyRows() / w.unit; len(done) > 0; {
		some := done[:min(int64(len(done)), n)]
		done = done[len(some):]
		list, err := room[int32](w.run, "nodes of a window", int64(len(some))*w.unit)
		if err != nil {
			return err
		}
		list = list[:0]
		for _, u := range some {
			for v := int64(u) * w.unit; v < min((int64(u)+1)*w.unit, w.lo+w.n); v++ {
				if !w.there.has(v) {
					list = append(list, int32(v))
				}
			}
		}
		if len(list) == 0 {
			continue
		}
		if err := w.apply(list); err != nil {
			return err
		}
		for _, v := range list {
			w.there.add(int64(v))
			w.sums.release(int64(v) - w.lo)
			w.own.release(int64(v) - w.lo)
		}
		w.made += int64(len(list))
		if err := w.progressed(w.number, w.step, w.made, w.of.count); err != nil {
			return err
		}
	}
	return nil
}

// apply makes the rows of some nodes of the range.
func (w *window) apply(list []int32) error {
	n := int64(len(list))
	y, err := room[float32](w.run, "all sums 0", n*w.width)
	if err != nil {
		return err
	}
	var own [][]float32
	for _, k := range w.kept[:len(w.step.Own)] {
		width := int64(w.tables[k.table].Width)
		to, err := room[float32](w.run, "own of a window "+w.tables[k.table].Name, n*width)
		if err != nil {
			return err
		}
		own = append(own, to)
	}
	if err := w.pool.Split(n, 256, func(lo, hi int64) {
		for at := lo; at < hi; at++ {
			i := int64(list[at]) - w.lo
			w.sumsTo(y[at*w.width:(at+1)*w.width], i)
			row := w.own.row(i)
			for o, k := range w.kept[:len(own)] {
				width := int64(w.tables[k.table].Width)
				copy(own[o][at*width:(at+1)*width], row[k.at:])
			}
		}
	}); err != nil {
		return err
	}
	return errors.Join(w.ctxErr(), w.applyBlock(w.step, nodes{count: n, list: list, byID: true}, 0, 0, n, own,
		[]summed{{rows: y, width: w.width}}))
}

// sumsTo writes the sums of a node that is done.
func (w *window) sumsTo(y []float32, i int64) {
	clear(y)
	if w.sums.place[i] >= 0 {
		copy(y, w.sums.row(i))
	}
	if w.rel.Loops && !w.looped(i) {
		at := w.kept[len(w.step.Own)].at
		w.weigh(y, w.own.row(i)[at:at+w.width], i, w.lo+i, w.sums.place[i] < 0)
	}
	if w.rel.Reduce == Mean && w.sums.place[i] >= 0 {
		w.mean(y, i)
	}
}
