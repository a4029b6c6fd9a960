package embed

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync"
	"sync/atomic"

	"github.com/khop-gnn/khop/internal/direct"
	"github.com/khop-gnn/khop/unified"
)

// hubs makes rows of a step in two passes, where few nodes have most edges. While the rows of all sources pass by,
// those of hubs are kept, and so are the sums of nodes with very many edges; a row of neither is spilled to a file for
// each of its edges, in the order of sources, by range of destinations. Then nodes follow each other: their sums are
// there, or are made of rows of hubs and of those that were spilled, in the order of sources.
type hubs struct {
	sweeping
	step    *Step
	number  int       // of the step
	sources rankedSet // whose rows are kept
	kept    []float32
	file    *os.File
	ranges  []*spilled
	of256   []*spilled // [node/spillUnit] its range
	most    int64      // bytes of the largest, and nodes of the longest
	nodes   int64
	loaded  *spilled // whose rows are in memory
	raw     []byte
	starts  []uint32 // [node of that range] its first row there
}

// spilled is what is spilled for a range of destinations: for each edge the destination and a row.
type spilled struct {
	lo, hi int64 // nodes
	rows   int64
	lock   sync.Mutex
	begin  int64 // where its rows are in the file
	at     int64 // where the next ones are written
	buffer []byte
	err    error
}

const (
	spillFile = "spilled"
	spillUnit = 256 // nodes that are in one range
)

// spillBuffer bytes of a range wait before they are written.
var spillBuffer int64 = 64 << 10

// hubbed reports whether a step can be made so.
func (s *Step) hubbed(r *run, of nodes) bool { return s.within(r, of) && r.asTheyLie(&s.Sums[0], of) }

// hubs makes the rows of a step that are left.
func (r *run) hubs(k int, s *Step, of nodes) (err error) {
	if len(r.left) == 0 {
		return nil
	}
	h := &hubs{step: s, number: k}
	h.sweeping = sweeping{run: r, rel: &s.Sums[0], of: of, width: int64(s.Sums[0].Table.Width), hubs: h}
	defer func() { err = errors.Join(err, h.close()) }()
	if err := h.open(r.now.hubs); err != nil {
		return err
	}
	if err := h.collect(); err != nil {
		return err
	}
	for _, name := range []string{"next", "ahead", "least"} { // whose memory rows that come back take
		err = errors.Join(err, r.rooms[name].Close())
		delete(r.rooms, name)
	}
	if err != nil {
		return err
	}
	for _, span := range r.left {
		if err := h.finishSpan(span); err != nil {
			return err
		}
	}
	return nil
}

func (h *hubs) close() error {
	if h.file == nil {
		return nil
	}
	return errors.Join(h.file.Close(), os.Remove(h.file.Name()))
}

// open chooses sources and nodes, and takes memory for their rows and sums.
func (h *hubs) open(plan *hubsPlan) (err error) {
	if err := h.chooseSources(plan); err != nil {
		return err
	}
	if err := h.sweeping.open(h.of.count); err != nil {
		return err
	}
	if h.y.place, err = room[int32](h.run, "places of sums 0", h.of.count); err != nil {
		return err
	}
	at := int32(0)
	for i := range h.of.count {
		h.y.place[i] = -1
		if classOf(h.l.start[i+1]-h.l.start[i]) >= plan.in {
			h.y.place[i] = at
			at++
		}
	}
	h.y.width = h.width
	if h.y.rows, err = room[float32](h.run, "sums 0", int64(at)*h.width); err != nil {
		return err
	}
	clear(h.y.rows)
	return h.spill(plan)
}

// chooseSources finds the sources with edges enough, and takes memory for their rows.
func (h *hubs) chooseSources(plan *hubsPlan) error {
	out, err := h.outDegrees(h.rel, h.of)
	if err != nil {
		return err
	}
	if h.sources, err = h.rankedRoom("hubs", int64(len(out))); err != nil {
		return err
	}
	clear(h.sources.set)
	for j, d := range out {
		if classOf(int64(d)) >= plan.out {
			h.sources.add(int64(j))
		}
	}
	h.sources.number()
	err = h.rooms[outDegrees].Close()
	delete(h.rooms, outDegrees)
	if err != nil {
		return err
	}
	h.kept, err = room[float32](h.run, "rows of hubs", h.sources.members()*h.width)
	return err
}

// hub returns the row of a source that is kept.
func (h *hubs) hub(j int64) []float32 {
	at := h.sources.rank(j)
	return h.kept[at*h.width : (at+1)*h.width]
}

// messageBytes is what is spilled for an edge.
func messageBytes(width int64) int64 { return 4 + 4*width }

// spill makes the file, with a place for each range of destinations: as many as have room in memory when they are read.
func (h *hubs) spill(plan *hubsPlan) (err error) {
	units := (h.of.count + spillUnit - 1) / spillUnit
	counts, err := room[int64](h.run, "counts of spilled", units)
	if err != nil {
		return err
	}
	if err := h.pool.Split(units, 64, func(lo, hi int64) {
		for u := lo; u < hi; u++ {
			counts[u] = h.messages(u*spillUnit, min((u+1)*spillUnit, h.of.count))
		}
	}); err != nil {
		return err
	}
	size, at := messageBytes(h.width), int64(0)
	h.of256 = make([]*spilled, units)
	most, nodes := int64(0), int64(0)
	for u, n := range counts {
		last := len(h.ranges) - 1
		if last < 0 || (h.ranges[last].rows+n)*size > plan.load {
			h.ranges = append(h.ranges, &spilled{lo: int64(u) * spillUnit, begin: at, at: at})
			last++
		}
		one := h.ranges[last]
		h.of256[u], one.rows, one.hi = one, one.rows+n, min(int64(u+1)*spillUnit, h.of.count)
		most, nodes, at = max(most, one.rows*size), max(nodes, one.hi-one.lo), at+n*size
	}
	buffers, err := room[byte](h.run, "spilled", int64(len(h.ranges))*spillBuffer)
	if err != nil {
		return err
	}
	for _, one := range h.ranges {
		one.buffer, buffers = buffers[:0:spillBuffer], buffers[spillBuffer:]
	}
	h.most, h.nodes = most, nodes
	h.file, err = os.Create(h.path(&Table{Name: spillFile}))
	return err
}

// messages counts the rows that are spilled for some nodes.
func (h *hubs) messages(lo, hi int64) (n int64) {
	for i := lo; i < hi; i++ {
		if h.y.place[i] >= 0 {
			continue
		}
		for e := h.l.start[i]; e < h.l.start[i+1]; e++ {
			if !h.sources.has(h.l.source(e)) {
				n++
			}
		}
	}
	return n
}

// collect has the rows of all sources pass by.
func (h *hubs) collect() error {
	v, err := h.survey(h.step, 0, h.of)
	if err != nil {
		return err
	}
	tables := h.rel.tables()
	for _, span := range v.spans(0, h.of.count, rowBytes(tables), false) {
		if err := h.scan(tables, span[0], span[1], h.blockRows(tables), func(first int64, rows [][]float32) error {
			h.first, h.end, h.rows = first, first+int64(len(rows[0]))/h.width, rows
			for j := h.first; j < h.end; j++ {
				if h.sources.has(j) {
					copy(h.hub(j), rows[0][(j-first)*h.width:])
				}
			}
			return h.pool.Split(h.of.count, h.sweeping.step(), h.add)
		}); err != nil {
			return err
		}
		for _, one := range h.ranges {
			if one.err != nil {
				return writeError(h.file.Name(), one.err)
			}
		}
	}
	for _, one := range h.ranges {
		if err := one.flush(h); err != nil {
			return writeError(h.file.Name(), err)
		}
		h.now.Did.Written += one.at - one.begin
	}
	return nil
}

// put spills the row of source j for node i, unless it is kept.
func (h *hubs) put(i, j int64, row []float32) {
	if h.sources.has(j) {
		return
	}
	s := h.of256[i/spillUnit]
	s.lock.Lock()
	defer s.lock.Unlock()
	if len(s.buffer)+int(messageBytes(h.width)) > cap(s.buffer) {
		s.err = errors.Join(s.err, s.flush(h))
	}
	s.buffer = binary.LittleEndian.AppendUint32(s.buffer, uint32(i))
	s.buffer = append(s.buffer, unified.FromSlice(row).Bytes()...)
}

// flush writes what waits.
func (s *spilled) flush(h *hubs) error {
	n, err := direct.WriteAt(h.file, s.buffer, s.at)
	s.at, s.buffer = s.at+int64(n), s.buffer[:0]
	return err
}

// finishSpan makes the rows of nodes that follow each other.
func (h *hubs) finishSpan(span [2]int64) error {
	tables, step := h.step.hubsOwn(), h.step.applyRows()
	h.now.Did.Read += h.passedBytes(span[0], span[1])
	h.note(h.step, span[0])
	if err := h.scan(tables, span[0], span[1], step, func(first int64, own [][]float32) error {
		n := min(step, span[1]-first)
		y, err := h.sums(first, n, own)
		if err != nil {
			return err
		}
		if err := h.applyBlock(h.step, h.of, first, first, n, own[:len(h.step.Own)], []summed{y}); err != nil {
			return err
		}
		h.to = first + n
		return h.progressed(h.number, h.step, h.to, h.of.count)
	}); err != nil {
		return err
	}
	return h.finished(h.number, h.step)
}

// hubsOwn returns the tables of which the rows of nodes are read as they follow each other: the last one, where a loop
// is added, is that of the sources.
func (s *Step) hubsOwn() []*Table {
	if s.Sums[0].Loops {
		return append(s.Own[:len(s.Own):len(s.Own)], s.Sums[0].Table)
	}
	return s.Own
}

// sums returns those of n nodes.
func (h *hubs) sums(first, n int64, own [][]float32) (y summed, err error) {
	y.width = h.width
	if y.rows, err = room[float32](h.run, "all sums 0", n*h.width); err != nil {
		return y, err
	}
	for lo := first; lo < first+n; { // of one range after the other
		one := h.of256[lo/spillUnit]
		hi := min(one.hi, first+n)
		if err := h.load(one); err != nil {
			return y, err
		}
		if err := h.pool.Split(hi-lo, 64, func(a, b int64) {
			for i := lo + a; i < lo+b; i++ {
				h.sum(y.row(i-first), i)
				if h.rel.Loops && !h.topology.loop(h.rel.Edges, i) {
					h.weigh(y.row(i-first), own[len(own)-1][(i-first)*h.width:(i-first+1)*h.width], i, i,
						h.l.start[i] == h.l.start[i+1])
				}
				if h.rel.Reduce == Mean && h.l.start[i] < h.l.start[i+1] {
					h.mean(y.row(i-first), i)
				}
			}
		}); err != nil {
			return y, err
		}
		lo = hi
	}
	return y, nil
}

// sum writes the sums of a node, without a loop that is added.
func (h *hubs) sum(y []float32, i int64) {
	if h.y.place[i] >= 0 {
		copy(y, h.y.row(i))
		return
	}
	clear(y)
	size := messageBytes(h.width)
	message := int64(h.starts[i-h.loaded.lo]) * size
	for e := h.l.start[i]; e < h.l.start[i+1]; e++ {
		j := h.l.source(e)
		if h.sources.has(j) {
			h.weigh(y, h.hub(j), i, j, e == h.l.start[i])
			continue
		}
		h.weigh(y, floats(h.raw[message+4:message+size]), i, j, e == h.l.start[i])
		message += size
	}
}

// load reads what was spilled for a range, and puts the rows of a node one behind the other.
func (h *hubs) load(one *spilled) error {
	if one == h.loaded {
		return nil
	}
	size := messageBytes(h.width)
	in, err := room[byte](h.run, "read of spilled", max(spillBuffer/size, 1)*size)
	if err != nil {
		return err
	}
	if h.raw, err = room[byte](h.run, "spilled of a range", h.most); err != nil {
		return err
	}
	if h.starts, err = room[uint32](h.run, "starts of spilled", h.nodes+1); err != nil {
		return err
	}
	for i := one.lo; i < one.hi; i++ { // spread moves the starts on to the next node's
		h.starts[i-one.lo+1] = uint32(h.messages(i, i+1))
	}
	h.starts[0] = 0
	for i := range one.hi - one.lo {
		h.starts[i+1] += h.starts[i]
	}
	for from, end := one.begin, one.at; from < end; from += int64(len(in)) {
		in = in[:min(int64(len(in)), end-from)]
		if _, err := h.file.ReadAt(in, from); err != nil {
			return fmt.Errorf("%w; see whether its disk is damaged, and run the same again", err)
		}
		if err := h.spread(in, one); err != nil {
			return err
		}
	}
	copy(h.starts[1:], h.starts[:one.hi-one.lo])
	h.starts[0], h.loaded = 0, one
	h.now.Did.Read += one.at - one.begin
	return nil
}

// spread puts messages of a range behind those of the same nodes.
func (h *hubs) spread(in []byte, one *spilled) error {
	size := messageBytes(h.width)
	for ; int64(len(in)) >= size; in = in[size:] {
		i := int64(binary.LittleEndian.Uint32(in))
		if i < one.lo || i >= one.hi || int64(h.starts[i-one.lo]) >= one.rows {
			return fmt.Errorf("%s is damaged; run the same again", h.file.Name())
		}
		copy(h.raw[int64(h.starts[i-one.lo])*size:], in[:size])
		h.starts[i-one.lo]++
	}
	return nil
}

// Classes of degrees: each up to 15, and then two for each power of two.
const (
	classes    = 16 + 2*(64-4)
	outDegrees = "out-degrees"
)

func classOf(d int64) int {
	if d < 16 {
		return int(d)
	}
	b := bits.Len64(uint64(d)) - 1
	return 16 + 2*(b-4) + int(d>>(b-1)&1)
}

// outDegrees counts the edges of each source.
func (r *run) outDegrees(rel *Relation, of nodes) ([]uint32, error) {
	out, err := room[uint32](r, outDegrees, rel.Table.Rows)
	if err != nil {
		return nil, err
	}
	clear(out)
	l, err := r.passingLinks(rel, of, 0, of.count)
	if err != nil {
		return nil, err
	}
	return out, r.pool.Split(of.count, max(of.count/64, 1), func(lo, hi int64) {
		for e := l.start[lo]; e < l.start[hi]; e++ {
			atomic.AddUint32(&out[l.source(e)], 1)
		}
	})
}
