package embed

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/khop-gnn/khop/internal/direct/ahead"
	"github.com/khop-gnn/khop/internal/prefetch"
	"github.com/khop-gnn/khop/internal/vector"
	"github.com/khop-gnn/khop/pinned"
)

// scan calls f with rows lo to hi of tables, in order, step rows at a time, as float32 and valid until f returns.
// Tables that are not near are read past the page cache, the next rows while f works.
func (r *run) scan(tables []*Table, lo, hi, step int64, f func(first int64, rows [][]float32) error) error {
	rows := make([][]float32, len(tables))
	return r.pass(tables, lo, hi, step, func(first int64, raw [][]byte) (err error) {
		for k, t := range tables {
			if t.plain() {
				rows[k] = floats(raw[k])
				continue
			}
			n := int64(len(raw[k])) / t.rowBytes() * int64(t.Width)
			if rows[k], err = room[float32](r, "wide "+t.Name, n); err != nil {
				return err
			}
			if err := r.widen(rows[k], raw[k], t, first); err != nil {
				return err
			}
		}
		return f(first, rows)
	})
}

// pass is scan of rows as they lie in the tables.
func (r *run) pass(tables []*Table, lo, hi, step int64, f func(first int64, raw [][]byte) error) (err error) {
	readers := make([]*ahead.Reader, len(tables))
	offsets := make([]int64, len(tables))
	defer func() {
		for _, a := range readers {
			if a != nil {
				err = errors.Join(err, a.Close())
			}
		}
	}()
	for k, t := range tables {
		if t.near || lo >= hi {
			continue
		}
		if readers[k], offsets[k], err = r.ahead(t, lo, hi, step); err != nil {
			return err
		}
	}
	raw := make([][]byte, len(tables))
	for first := lo; first < hi; first += step {
		if err := r.ctxErr(); err != nil {
			return err
		}
		end := min(first+step, hi)
		for k, t := range tables {
			if raw[k], err = r.block(readers[k], offsets[k], t, first, end); err != nil {
				return err
			}
		}
		if err := f(first, raw); err != nil {
			return err
		}
	}
	return nil
}

// ahead returns a reader of rows of a table's file; nil where the file can only be read through the page cache.
func (r *run) ahead(t *Table, lo, hi, step int64) (*ahead.Reader, int64, error) {
	f, offset, err := pinned.OpenMapped(t.bytes)
	if errors.Is(err, pinned.ErrNotMapped) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	row := t.rowBytes()
	a, err := ahead.New(f, offset+lo*row, offset+hi*row, int(step*row))
	if err != nil {
		return nil, 0, nil
	}
	return a, offset, nil
}

// block returns rows of a table as they lie there.
func (r *run) block(from *ahead.Reader, offset int64, t *Table, lo, hi int64) ([]byte, error) {
	n := (hi - lo) * t.rowBytes()
	if !t.near {
		r.now.Did.Read += n
	}
	if from == nil {
		return t.rows(lo, hi), nil
	}
	raw, err := from.From(offset + lo*t.rowBytes())
	if err != nil {
		return nil, r.readError(t, lo, err)
	}
	return raw[:n], nil
}

// widen is Table.widen on all goroutines.
func (r *run) widen(to []float32, raw []byte, t *Table, first int64) error {
	width, row := int64(t.Width), t.rowBytes()
	return r.pool.Split(int64(len(raw))/row, 1024, func(lo, hi int64) {
		t.widen(to[lo*width:hi*width], raw[lo*row:hi*row], first+lo)
	})
}

// sweeps makes the rows of a step that are left, range by range.
func (r *run) sweeps(k int, s *Step, of nodes) error {
	if len(r.left) == 0 {
		return nil
	}
	span := [2]int64{r.left[0][0], r.left[len(r.left)-1][1]} // each of them would be a sweep of its own
	ranges := r.ranges(s, of, span)
	for i := range s.Sums {
		if _, err := r.cutEdges(i, &s.Sums[i], of, r.cutKey(s, i, of, ranges), nil); err != nil {
			return err
		}
	}
	for n, one := range ranges {
		if err := r.rangeOf(k, s, of, one[0], one[1], func(i int, at state) (summed, error) {
			return r.sweep(s, i, of, n, at)
		}); err != nil {
			return fmt.Errorf("nodes %d to %d: %w", of.at(one[0]), of.at(one[1]-1), err)
		}
	}
	return r.finished(k, s)
}

// sweep adds up the sums of a range of relation i's cut while the rows of all sources that it needs pass by, once.
func (r *run) sweep(step *Step, i int, of nodes, number int, at state) (y summed, err error) {
	c := r.cuts[i]
	s := &sweeping{run: r, step: step, relation: i, of: of, state: at}
	if err := s.open(c.ranges[number]); err != nil {
		return y, err
	}
	rows, err := s.places()
	if err != nil {
		return y, err
	}
	place := s.y.place
	if s.y, err = r.sumsRoom(i, s.rel, rows); err != nil {
		return y, err
	}
	s.y.place = place
	s.begin(s.y.rows)
	if s.whole, err = room[float32](r, "whole", rows*int64(s.rel.Heads)); err != nil {
		return y, err
	}
	clear(s.whole)
	if err := s.pass(c, number, s.rel.tables(), false, func(int64) error { return nil }); err != nil {
		return y, err
	}
	if s.rel.Loops {
		if err := s.loops(); err != nil {
			return y, err
		}
	}
	return s.y, s.finish()
}

// sweeping is rows that pass by, and what they are added to: sums of a range of nodes.
type sweeping struct {
	*run
	step     *Step
	relation int // of the step
	rel      *Relation
	of       nodes
	lo, n    int64 // number of the first node, and how many
	y        summed
	whole    []float32 // [row of y][head] sum of weights
	width    int64
	norms    *degrees
	in       []uint32 // [node] edges, with a loop that is added: where edges weigh GCN's norm
	state

	first  int64 // of the rows at hand
	rows   [][]float32
	window *window // that the sums are of, or hubs; nil: none
	hubs   *hubs
	broken atomic.Bool // edges that cannot be
}

// open begins a range of nodes: it counts what norms are of.
func (s *sweeping) open(span [2]int64) (err error) {
	s.rel, s.lo, s.n = &s.step.Sums[s.relation], span[0], span[1]-span[0]
	s.width = int64(s.rel.Table.Width)
	s.now.Did.Read += 8 * s.n // where edges begin
	if !s.rel.Reduce.normed() {
		return nil
	}
	if s.norms, err = s.degreesOf(s.rel); err != nil {
		return err
	}
	if s.in, err = room[uint32](s.run, "degrees of a range", s.n); err != nil {
		return err
	}
	return s.pool.Split(s.n, 1<<14, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			s.in[i] = uint32(s.topology.length(s.rel, s.of.at(s.lo+i), s.rel.Loops))
		}
	})
}

// some reports whether a node has edges, without a loop that is added.
func (s *sweeping) some(i int64) bool {
	lo, hi := s.topology.between(s.rel.Edges, s.of.at(s.lo+i))
	return lo < hi
}

// looped reports whether a node has an edge to itself.
func (s *sweeping) looped(i int64) bool {
	node := s.of.at(s.lo + i)
	if s.in != nil { // which says so without the edges
		return int64(s.in[i]) == s.topology.length(s.rel, node, false)
	}
	return s.topology.loop(s.rel.Edges, node)
}

// places gives each node that sums any rows a place among the sums, and returns how many there are.
func (s *sweeping) places() (count int64, err error) {
	if s.rel.Loops {
		return s.n, nil
	}
	if count = s.topology.some(s.rel.Edges, s.of, s.lo, s.lo+s.n); count == s.n {
		return count, nil
	}
	if s.y.place, err = room[int32](s.run, fmt.Sprintf("places of sums %d", s.relation), s.n); err != nil {
		return 0, err
	}
	at := int32(0)
	for i := range s.n {
		if s.y.place[i] = -1; s.some(i) {
			s.y.place[i] = at
			at++
		}
	}
	return count, nil
}

// begin writes sums of nothing: less than any number, of which the greatest is taken.
func (s *sweeping) begin(y []float32) {
	if s.rel.Reduce != Max {
		clear(y)
		return
	}
	for k := range y {
		y[k] = float32(math.Inf(-1))
	}
}

// pass has the rows of tables pass by that a range of a cut needs, and its own ones where own is set, chunk by chunk.
// The first table is that of the sources. It adds them to the sums, and calls done then.
func (s *sweeping) pass(c *cut, number int, tables []*Table, own bool, done func(chunk int64) error) (err error) {
	v, err := s.survey(s.step, s.relation, s.of)
	if err != nil {
		return err
	}
	edges, err := s.readCut(c, number)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, edges.close()) }()
	for _, span := range v.spans(s.lo, s.lo+s.n, rowBytes(tables), own) {
		if err := s.scan(tables, span[0], span[1], 1<<c.shift, func(first int64, rows [][]float32) error {
			s.first, s.rows = first, rows
			if err := edges.chunk(first>>c.shift, s.add); err != nil {
				return err
			}
			return done(first >> c.shift)
		}); err != nil {
			return err
		}
	}
	return nil
}

// add adds the rows at hand to the sums of nodes, by edges of a cut.
func (s *sweeping) add(edges []edge) error {
	n := int64(len(edges))
	s.now.Did.Read += n * cutBytes
	err := s.pool.Split(n, max(n/(4*int64(s.pool.Workers())), 256), func(lo, hi int64) {
		s.addSome(edges[nodeBegin(edges, lo):nodeBegin(edges, hi)])
	})
	if s.broken.Load() {
		return fmt.Errorf("%s%d in %s is damaged; run the same again", cutFile, s.relation, s.opt.Folder)
	}
	return err
}

// nodeBegin returns the number of the first edge from one on of another node than the edge before has.
func nodeBegin(edges []edge, at int64) int64 {
	for n := int64(len(edges)); 0 < at && at < n && edges[at].node == edges[at-1].node; {
		at++
	}
	return min(at, int64(len(edges)))
}

// addSome adds rows to sums, of nodes that nobody else adds to. These sums lie all over memory: without asking for them
// before, an edge waits for its sums longer than it adds.
func (s *sweeping) addSome(edges []edge) {
	for ; len(edges) > prefetched; edges = edges[prefetched:] {
		s.prefetch(edges[prefetched:min(2*prefetched, len(edges))])
		s.addBlock(edges[:prefetched])
	}
	s.addBlock(edges)
}

// prefetched is how many rows the processor is asked for at a time.
const prefetched = 32

// prefetch asks for the sums of the next edges.
func (s *sweeping) prefetch(edges []edge) {
	var ids [prefetched]int32
	for k, e := range edges {
		if int64(e.node) < s.n {
			ids[k] = int32(max(s.y.at(int64(e.node)), 0))
		}
	}
	rowBytes := 4 * int(s.width)
	prefetch.Rows32(unsafe.Pointer(unsafe.SliceData(s.y.rows)), ids[:len(edges)], rowBytes, rowBytes/64)
}

// addBlock adds some edges' rows.
func (s *sweeping) addBlock(edges []edge) {
	rows := int64(len(s.rows[0])) / s.width
	last, left := int64(-1), false // the node before, and whether its edges are left out
	for _, e := range edges {
		i := int64(e.node)
		if i >= s.n || int64(e.source) >= rows {
			s.broken.Store(true)
			return
		}
		if i != last {
			last, left = i, s.window != nil && !s.window.hold(i)
		}
		if !left {
			s.edge(i, int64(e.source))
		}
	}
}

// edge adds a row at hand to the sums of node i.
func (s *sweeping) edge(i, at int64) {
	x := s.rows[0][at*s.width : (at+1)*s.width]
	if s.hubs != nil && s.y.place[i] < 0 {
		s.hubs.put(i, x)
		return
	}
	y := s.y.row(i)
	if s.rel.Reduce != Attend {
		s.weigh(y, x, i, s.first+at, false)
		return
	}
	heads := int64(s.rel.Heads)
	part, whole := s.width/heads, s.whole[s.y.at(i)*heads:]
	for h := range heads {
		w := weight(s.target[i*heads+h], s.rows[1][at*heads+h], s.greatest[i*heads+h])
		whole[h] += w
		vector.Add(y[h*part:(h+1)*part], x[h*part:(h+1)*part], w)
	}
}

// weigh adds the row of source j to the sums y of node i, without attention. first says that it is the first one.
func (s *sweeping) weigh(y, x []float32, i, j int64, first bool) {
	switch s.rel.Reduce {
	case Max:
		greatest(y, x, first)
	case Norm, NormIn:
		vector.Add(y, x, s.norms.norm(int64(s.in[i]), j))
	default:
		vector.Add(y, x, 1)
	}
}

// greatest takes the greater elements of x, and its NaN.
func greatest(y, x []float32, first bool) {
	if first {
		copy(y, x)
		return
	}
	for k, v := range x {
		if v > y[k] || v != v {
			y[k] = v
		}
	}
}

// loops adds the nodes' own rows, where they have no edge to themselves.
func (s *sweeping) loops() error {
	tables := s.rel.tables()
	return s.of.runs(s.lo, s.lo+s.n, func(at, first, count int64) error {
		return s.scan(tables, first, first+count, s.blockRows(tables), func(row int64, rows [][]float32) error {
			s.first, s.rows = row, rows
			return s.pool.Split(int64(len(rows[0]))/s.width, 256, func(lo, hi int64) {
				for k := lo; k < hi; k++ {
					if i := at - s.lo + row - first + k; !s.looped(i) {
						s.edge(i, k)
					}
				}
			})
		})
	})
}

// finish makes means of sums, or divides them by what weighed.
func (s *sweeping) finish() error {
	switch s.rel.Reduce {
	case Mean:
		return s.pool.Split(s.n, 256, func(lo, hi int64) {
			for i := lo; i < hi; i++ {
				if s.some(i) {
					s.mean(s.y.row(i), i)
				}
			}
		})
	case Attend:
		return s.divide(s.y.rows, s.whole, s.rel)
	}
	return nil
}

// mean makes a mean of the sums of node i, which has edges.
func (s *sweeping) mean(y []float32, i int64) {
	by := 1 / float32(s.topology.length(s.rel, s.of.at(s.lo+i), false))
	for k := range y {
		y[k] *= by
	}
}
