package embed

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/khop-gnn/khop/internal/direct"
	"github.com/khop-gnn/khop/internal/prefetch"
	"github.com/khop-gnn/khop/unified"
)

// hubs makes rows of a step in two passes, where few nodes have most edges. While the rows of all sources pass by,
// those of hubs are kept, and so are the sums of nodes with very many edges; a row of neither is spilled to a file for
// each of its edges, in the order of sources, by range of destinations. The cut of this pass has no edges from hubs to
// nodes with few. Then nodes follow each other: their sums are there, or are made of rows of hubs and of those that
// were spilled, in the order of sources.
type hubs struct {
	sweeping
	number  int       // of the step
	l       *links    // of all nodes
	sources rankedSet // whose rows are kept
	kept    []float32
	file    *os.File
	ranges  []*spilled
	ofUnit  []*spilled // [node/spillUnit] its range
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
	spillUnit = 64 // nodes that are in one range
)

// spillBuffer bytes of a range wait before they are written.
var spillBuffer int64 = 64 << 10

// hubbed reports whether a step can be made so.
func (s *Step) hubbed(r *run, of nodes) bool {
	return s.within(r, of) && r.topology.asTheyLie(&s.Sums[0], of)
}

// hubs makes the rows of a step that are left.
func (r *run) hubs(k int, s *Step, of nodes) (err error) {
	if len(r.left) == 0 {
		return nil
	}
	h := &hubs{number: k}
	h.sweeping = sweeping{run: r, step: s, of: of, hubs: h}
	h.l = r.topology.all(&s.Sums[0], of)
	defer func() { err = errors.Join(err, h.close()) }()
	c, err := h.open(r.now.hubs)
	if err != nil {
		return err
	}
	if err := h.collect(c); err != nil {
		return err
	}
	if err := r.giveBack("spilled"); err != nil {
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

// open chooses sources and nodes, cuts the edges for which rows that pass by are added or spilled, and takes memory for
// rows and sums.
func (h *hubs) open(plan *hubsPlan) (*cut, error) {
	if err := h.sweeping.open([2]int64{0, h.of.count}); err != nil {
		return nil, err
	}
	sums, err := h.chooseNodes(plan)
	if err != nil {
		return nil, err
	}
	c, err := h.cutEdges(0, h.rel, h.of, h.now.cuts[0], h)
	if err != nil {
		return nil, err
	}
	h.sources = c.sources
	if h.kept, err = room[float32](h.run, "rows of hubs", h.sources.members()*h.width); err != nil {
		return nil, err
	}
	if h.y.rows, err = room[float32](h.run, "sums 0", sums*h.width); err != nil {
		return nil, err
	}
	h.begin(h.y.rows)
	return c, h.spill(plan, c.spills)
}

// chooseNodes gives nodes with edges enough a place for their sums, and returns how many these are.
func (h *hubs) chooseNodes(plan *hubsPlan) (sums int64, err error) {
	h.y.width = h.width
	if h.y.place, err = room[int32](h.run, "places of sums 0", h.of.count); err != nil {
		return 0, err
	}
	for i := range h.of.count {
		h.y.place[i] = -1
		if classOf(h.l.start[i+1]-h.l.start[i]) >= plan.in {
			h.y.place[i] = int32(sums)
			sums++
		}
	}
	return sums, nil
}

// chooseSources finds the sources with edges enough for a cut.
func (c *cutting) chooseSources() (err error) {
	class := c.r.classed[c.rel.Edges].class
	if c.sources, err = c.r.rankedRoom(lasting+"hubs", int64(len(class))); err != nil {
		return err
	}
	clear(c.sources.set)
	for j, k := range class {
		if int(k) >= c.cutKey.hubs[0] {
			c.sources.add(int64(j))
		}
	}
	c.sources.number()
	c.spills, err = room[uint32](c.r, lasting+"counts of spilled", (c.of.count+spillUnit-1)/spillUnit)
	clear(c.spills)
	return err
}

// hub returns the row of a source that is kept.
func (h *hubs) hub(j int64) []float32 {
	at := h.sources.rank(j)
	return h.kept[at*h.width : (at+1)*h.width]
}

// startBytes are of a node of a range whose spilled rows are in memory.
const startBytes = 4

// messageBytes is what is spilled for an edge.
func messageBytes(width int64) int64 { return 4 + 4*width }

// spill makes the file, with a place for each range of destinations: as many as have room in memory when they are read.
func (h *hubs) spill(plan *hubsPlan, counts []uint32) (err error) {
	size, at := messageBytes(h.width), int64(0)
	h.ofUnit = make([]*spilled, len(counts))
	most, nodes := int64(0), int64(0)
	for u := range counts {
		n, last := int64(counts[u]), len(h.ranges)-1
		if last < 0 || (h.ranges[last].rows+n)*size+startBytes*(int64(u+1)*spillUnit-h.ranges[last].lo) > plan.load {
			h.ranges = append(h.ranges, &spilled{lo: int64(u) * spillUnit, begin: at, at: at})
			last++
		}
		one := h.ranges[last]
		h.ofUnit[u], one.rows, one.hi = one, one.rows+n, min(int64(u+1)*spillUnit, h.of.count)
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

// messages counts the rows that are spilled for a node.
func (h *hubs) messages(i int64) (n int64) {
	if h.y.place[i] >= 0 {
		return 0
	}
	for e := h.l.start[i]; e < h.l.start[i+1]; e++ {
		if !h.sources.has(h.l.source(e)) {
			n++
		}
	}
	return n
}

// collect has the rows of all sources pass by.
func (h *hubs) collect(c *cut) error {
	if err := h.pass(c, 0, h.rel.tables(), false, func(int64) error {
		end := h.first + int64(len(h.rows[0]))/h.width
		for j := h.first; j < end; j++ {
			if h.sources.has(j) {
				copy(h.hub(j), h.rows[0][(j-h.first)*h.width:])
			}
		}
		return h.failed()
	}); err != nil {
		return err
	}
	for _, one := range h.ranges {
		one.err = errors.Join(one.err, one.flush(h))
		h.now.Did.Written, h.now.Did.Scratch = h.now.Did.Written+one.at-one.begin, h.now.Did.Scratch+one.at-one.begin
	}
	return h.failed()
}

// failed returns the error of rows that could not be spilled.
func (h *hubs) failed() error {
	for _, one := range h.ranges {
		if one.err != nil {
			return writeError(h.file.Name(), one.err)
		}
	}
	return nil
}

// put spills a row for node i.
func (h *hubs) put(i int64, row []float32) {
	s := h.ofUnit[i/spillUnit]
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
	h.now.Did.Read += h.topology.indexBytes(h.rel, h.of, span[0], span[1])
	if err := h.scan(tables, span[0], span[1], step, func(first int64, own [][]float32) error {
		n := min(step, span[1]-first)
		y, err := h.sums(first, n, own)
		if err != nil {
			return err
		}
		if err := h.applyBlock(h.step, h.of, first, first, n, own[:len(h.step.Own)], []summed{y}); err != nil {
			return err
		}
		return h.progressed(h.number, h.step, first+n, h.of.count)
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
		one := h.ofUnit[lo/spillUnit]
		hi := min(one.hi, first+n)
		if err := h.load(one); err != nil {
			return y, err
		}
		if err := h.pool.Split(hi-lo, 64, func(a, b int64) {
			for i := lo + a; i < lo+b; i++ {
				if i+1 < lo+b {
					h.prefetchKept(i + 1)
				}
				h.sum(y.row(i-first), i)
				if h.rel.Loops && !h.looped(i) {
					h.weigh(y.row(i-first), own[len(own)-1][(i-first)*h.width:(i-first+1)*h.width], i, i, !h.some(i))
				}
				if h.rel.Reduce == Mean && h.some(i) {
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

// prefetchKept asks the processor for the first rows of hubs that a node sums.
func (h *hubs) prefetchKept(i int64) {
	if h.y.place[i] >= 0 {
		return
	}
	var ids [prefetched]int32
	count := 0
	for e := h.l.start[i]; e < h.l.start[i+1] && count < prefetched; e++ {
		if j := h.l.source(e); h.sources.has(j) {
			ids[count] = int32(h.sources.rank(j))
			count++
		}
	}
	rowBytes := 4 * int(h.width)
	prefetch.Rows32(unsafe.Pointer(unsafe.SliceData(h.kept)), ids[:count], rowBytes, rowBytes/64)
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
		h.starts[i-one.lo+1] = uint32(h.messages(i))
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
	l := r.topology.all(rel, of)
	return out, r.pool.Split(of.count, max(of.count/64, 1), func(lo, hi int64) {
		for e, end := l.start[lo], l.start[hi]; e < end; e++ {
			if (e-l.start[lo])%prefetched == 0 {
				l.prefetch(out, min(e+prefetched, end), min(e+2*prefetched, end))
			}
			atomic.AddUint32(&out[l.source(e)], 1)
		}
	})
}

// prefetch asks the processor for numbers of sources.
func (l *links) prefetch(of []uint32, lo, hi int64) {
	base := unsafe.Pointer(unsafe.SliceData(of))
	if l.narrow != nil {
		prefetch.Node32x4(base, l.narrow[lo:hi])
	} else {
		prefetch.Node64x4(base, l.wide[lo:hi])
	}
}
