package embed

import (
	"errors"
	"fmt"
	"math"

	"github.com/khop-gnn/khop/internal/direct/ahead"
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

// sweep adds up the sums of a range while the rows of all sources that it needs pass by, once.
func (r *run) sweep(step *Step, number int, of nodes, lo, hi int64, at state) (y summed, err error) {
	rel := &step.Sums[number]
	v, err := r.survey(step, number, of)
	if err != nil {
		return y, err
	}
	s := &sweeping{run: r, rel: rel, of: of, lo: lo, width: int64(rel.Table.Width), state: at}
	if err := s.open(hi - lo); err != nil {
		return y, err
	}
	n, err := s.places(number, hi-lo)
	if err != nil {
		return y, err
	}
	if y, err = r.sumsRoom(number, rel, n); err != nil {
		return y, err
	}
	clear(y.rows)
	y.place, s.y = s.y.place, summed{y.rows, y.width, s.y.place}
	if s.whole, err = room[float32](r, "whole", n*int64(rel.Heads)); err != nil {
		return y, err
	}
	clear(s.whole)
	tables := rel.tables()
	for _, span := range v.spans(lo, hi, rowBytes(tables), false) {
		if err := r.scan(tables, span[0], span[1], r.blockRows(tables), func(first int64, rows [][]float32) error {
			s.first, s.end, s.rows = first, first+int64(len(rows[0]))/s.width, rows
			return r.pool.Split(hi-lo, s.step(), s.add)
		}); err != nil {
			return y, err
		}
	}
	if rel.Loops {
		if err := s.loops(); err != nil {
			return y, err
		}
	}
	return y, s.finish()
}

// open reads the edges of n nodes, and their norms.
func (s *sweeping) open(n int64) (err error) {
	if s.l, err = s.passingLinks(s.rel, s.of, s.lo, s.lo+n); err != nil {
		return err
	}
	if s.asTheyLie(s.rel, s.of) {
		s.now.Did.Read += s.passedBytes(0, n)
	}
	if s.rel.Reduce.normed() {
		if s.norms, err = s.degreesOf(s.rel); err != nil {
			return err
		}
	}
	return s.begin()
}

// passedBytes returns the bytes of the edges of some nodes of the range, in files.
func (s *sweeping) passedBytes(lo, hi int64) int64 {
	return 8*(hi-lo) + (s.l.start[hi]-s.l.start[lo])*s.p.Graph.Indices().DType().Size()
}

// places gives each of n nodes that sums any rows a place among the sums, and returns how many there are.
func (s *sweeping) places(number int, n int64) (count int64, err error) {
	if s.rel.Loops {
		return n, nil
	}
	for i := range n {
		count += min(s.l.start[i+1]-s.l.start[i], 1)
	}
	if count == n {
		return n, nil
	}
	if s.y.place, err = room[int32](s.run, fmt.Sprintf("places of sums %d", number), n); err != nil {
		return 0, err
	}
	at := int32(0)
	for i := range n {
		if s.y.place[i] = -1; s.l.start[i] < s.l.start[i+1] {
			s.y.place[i] = at
			at++
		}
	}
	return count, nil
}

// sweeping is a sweep for a range of nodes.
type sweeping struct {
	*run
	rel   *Relation
	of    nodes
	lo    int64 // number of the first node
	l     *links
	next  []int64 // [node] edge
	ahead links   // the source of that edge, by node
	least links   // the least of these, by group of nodes
	y     summed
	whole []float32 // [row of y][head] sum of weights
	width int64
	norms *degrees
	state

	first, end int64 // of the rows at hand
	rows       [][]float32
	window     *window // that the sums are of, or hubs; nil: none
	hubs       *hubs
}

// group is how many nodes have one number that tells whether some of them have an edge to the rows at hand: to few
// blocks of rows do they, and a pass looks at all nodes for each block.
const group = 16

// step is how many nodes are looked at in one go, a multiple of group.
func (s *sweeping) step() int64 { return (int64(len(s.next))>>20 + 1) * 256 }

// begin takes the first edge of each node as the next. The sources of these edges have a list of their own, since most
// nodes have no edge to most blocks of rows: to see that takes a few bytes that follow each other.
func (s *sweeping) begin() (err error) {
	n := int64(len(s.l.start) - 1)
	if s.next, err = room[int64](s.run, "next", n); err != nil {
		return err
	}
	copy(s.next, s.l.start)
	groups := (n + group - 1) / group
	if s.l.narrow != nil {
		if s.ahead.narrow, err = room[int32](s.run, "ahead", n); err == nil {
			s.least.narrow, err = room[int32](s.run, "least", groups)
		}
	} else if s.ahead.wide, err = room[int64](s.run, "ahead", n); err == nil {
		s.least.wide, err = room[int64](s.run, "least", groups)
	}
	if err != nil {
		return err
	}
	s.unseen()
	return s.pool.Split(n, s.step(), func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			if s.l.narrow != nil {
				s.ahead.narrow[i] = sourceOf(s, s.l.narrow, i, math.MaxInt32)
			} else {
				s.ahead.wide[i] = sourceOf(s, s.l.wide, i, math.MaxInt64)
			}
		}
	})
}

// unseen has all nodes be looked at for the next block.
func (s *sweeping) unseen() {
	for g := range s.least.narrow {
		s.least.narrow[g] = -1
	}
	for g := range s.least.wide {
		s.least.wide[g] = -1
	}
}

// sourceOf returns the source of a node's next edge, or none where it has had them all.
func sourceOf[I int32 | int64](s *sweeping, sources []I, i int64, none I) I {
	if e := s.next[i]; e < s.l.start[i+1] {
		return sources[e]
	}
	return none
}

// add adds the rows at hand to the sums of some nodes.
func (s *sweeping) add(lo, hi int64) {
	if s.l.narrow != nil {
		addRows(s, s.l.narrow, s.ahead.narrow, s.least.narrow, lo, hi, math.MaxInt32)
	} else {
		addRows(s, s.l.wide, s.ahead.wide, s.least.wide, lo, hi, math.MaxInt64)
	}
}

func addRows[I int32 | int64](s *sweeping, sources, ahead, least []I, lo, hi int64, none I) {
	end := I(s.end)
	for ; lo < hi; lo += group {
		if least[lo/group] >= end {
			continue
		}
		to := none
		for i := lo; i < min(lo+group, hi); i++ {
			if ahead[i] < end {
				if s.window != nil {
					s.window.hold(i)
				}
				e, last := s.next[i], s.l.start[i+1]
				for ; e < last && sources[e] < end; e++ {
					s.edge(i, int64(sources[e]), int64(sources[e])-s.first, e == s.l.start[i])
				}
				s.next[i] = e
				ahead[i] = sourceOf(s, sources, i, none)
			}
			to = min(to, ahead[i])
		}
		if least[lo/group] = to; s.window != nil {
			s.window.touched(lo)
		}
	}
}

// edge adds a row at hand, of source j, to the sums of node i.
func (s *sweeping) edge(i, j, at int64, first bool) {
	x := s.rows[0][at*s.width : (at+1)*s.width]
	if s.hubs != nil && s.y.place[i] < 0 {
		s.hubs.put(i, j, x)
		return
	}
	y := s.y.row(i)
	if s.rel.Reduce != Attend {
		s.weigh(y, x, i, j, first)
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
		vector.Add(y, x, s.norms.norm(s.degree(i), j))
	default:
		vector.Add(y, x, 1)
	}
}

// degree returns how many edges a node has, with the loop that is added.
func (s *sweeping) degree(i int64) int64 {
	d := s.l.start[i+1] - s.l.start[i]
	if s.rel.Loops && !s.topology.loop(s.rel.Edges, s.of.at(s.lo+i)) {
		d++
	}
	return d
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
	n := int64(len(s.next))
	tables, step := s.rel.tables(), s.blockRows(s.rel.tables())
	return s.of.runs(s.lo, s.lo+n, func(at, first, count int64) error {
		return s.scan(tables, first, first+count, step, func(row int64, rows [][]float32) error {
			s.rows = rows
			return s.pool.Split(int64(len(rows[0]))/s.width, 256, func(lo, hi int64) {
				for k := lo; k < hi; k++ {
					i := at - s.lo + row - first + k
					if !s.topology.loop(s.rel.Edges, row+k) {
						s.edge(i, row+k, k, s.l.start[i] == s.l.start[i+1])
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
		return s.pool.Split(int64(len(s.next)), 256, func(lo, hi int64) {
			for i := lo; i < hi; i++ {
				if s.l.start[i] < s.l.start[i+1] {
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
	by := 1 / float32(s.l.start[i+1]-s.l.start[i])
	for k := range y {
		y[k] *= by
	}
}
