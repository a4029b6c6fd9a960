package embed

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"os"
	"reflect"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/khop-gnn/khop/internal/direct"
	"github.com/khop-gnn/khop/internal/direct/ahead"
)

// cut is the edges of a relation as rows that pass by need them: of each range of nodes, by the chunk of their sources,
// then by node, then by source. So a node sums in the order of its sources, a pass reads its edges from one end to the
// other, and no memory says where a node goes on. A cut is a file beside the tables. Steps that sum the same edges in
// the same ranges share it.
type cut struct {
	cutKey
	file   *os.File
	strips []strip  // in order
	counts []uint32 // [strip x chunks + chunk] edges
	begin  []int64  // [range x chunks + chunk] number of the first edge; behind them how many there are
	// Of windows: units by range and chunk, and where they begin.
	units []uint32
	done  []int64
	// Of hubs: whose rows are kept, and how many rows are spilled, by spillUnit nodes.
	sources rankedSet
	spills  []uint32
}

// cutKey says what is in a cut.
type cutKey struct {
	edges  int
	list   *int32 // of nodes
	once   bool
	shift  int   // a chunk has 1<<shift sources
	chunks int64 // that there are
	ranges [][2]int64
	unit   int64  // of windows: units of as many nodes are listed by the last chunk that they need; 0: they are not
	hubs   [2]int // classes of sources and nodes from which on they are hubs: see cutting.someOnly; 0: none
}

// An edge is 4 bytes of a cut: its node, counted from the first of the strip, and its source, from that of the chunk.
const (
	cutBytes   = 4
	mostBits   = 16 // of a source in its chunk
	stripNodes = 1 << 16
	cutFile    = "cut"
	cutPiece   = 1 << 17 // edges that are read at a time, at most
)

// strip is nodes of a range whose edges one goroutine cuts, or some of the edges of one node.
type strip struct {
	of     int // number of its range
	lo, hi int64
	part   [2]int64 // of the edges of the only node; nothing: all
	edges  int64
}

// A sheet is strips that are cut in memory at once.
const sheetStrips = 8

// sheetEdges bounds the edges of a sheet, beside memory.
var sheetEdges int64 = math.MaxInt64

// stripSources returns the sources of a node that a strip has.
func stripSources[I int32 | int64](s *strip, all []I) []I {
	if s.part[1] == 0 {
		return all
	}
	return all[s.part[0]:s.part[1]]
}

// mostChunks bounds how many chunks there are, where rows are not more than 1<<mostBits times as many.
const mostChunks = 1 << 13

// chunkShift returns how many rows pass by at a time, as a power of two: they take no more than a block, where there
// are not very many. It is the same for all steps that sum edges of a type, which can share a cut then.
func (r *run) chunkShift(edges int) int {
	bytes, all := int64(1), int64(0)
	for _, s := range r.p.Steps {
		for i := range s.Sums {
			if s.Sums[i].Edges != edges {
				continue
			}
			all = s.Sums[i].Table.Rows
			for _, t := range slices.Concat(s.Sums[i].tables(), s.Own) {
				bytes = max(bytes, t.rowBytes(), 2*int64(t.Width)) // they may become float32
			}
		}
	}
	return min(bits.Len64(uint64(max(r.blockBytes()/bytes, all/mostChunks, 1)))-1, mostBits)
}

// pieceEdges returns how many edges of a cut are read at a time.
func (r *run) pieceEdges() int64 { return min(cutPiece, r.blockBytes()/4/cutBytes) }

// cutMemory returns what a cut of some nodes takes of memory, and what is read of it.
func (r *run) cutMemory(rel *Relation, nodes int64) int64 {
	strips := nodes/stripNodes + 2*sheetStrips
	return strips*(rel.Table.Rows>>r.chunkShift(rel.Edges)+1)*4 + r.pieceEdges()*int64(unsafe.Sizeof(edge{})) +
		ahead.Memory(int(cutBytes*r.pieceEdges()))
}

// cutKey returns what a step's relation needs of a cut for ranges of nodes.
func (r *run) cutKey(s *Step, i int, of nodes, ranges [][2]int64) cutKey {
	rel, shift := &s.Sums[i], r.chunkShift(s.Sums[i].Edges)
	return cutKey{edges: rel.Edges, list: unsafe.SliceData(of.list), once: rel.Once, shift: shift,
		chunks: (rel.Table.Rows + 1<<shift - 1) >> shift, ranges: ranges}
}

// cutting is a cut that is made.
type cutting struct {
	r *run
	*cut
	number int // of the relation
	rel    *Relation
	of     nodes
	kept   *hubs    // which need some edges alone: see someOnly; nil: all are there
	next   []int64  // [range x chunks + chunk] where its next edges go in the file
	last   []uint32 // [unit of nodes] the last chunk that they need
}

// cutEdges returns the cut of a step's relation, number i of these, and makes it where there is none.
func (r *run) cutEdges(i int, rel *Relation, of nodes, key cutKey, h *hubs) (_ *cut, err error) {
	if was := r.cuts[i]; was != nil && reflect.DeepEqual(was.cutKey, key) {
		return was, nil
	}
	if err := r.dropCut(i); err != nil {
		return nil, err
	}
	c := &cutting{r: r, cut: &cut{cutKey: key}, number: i, rel: rel, of: of, kept: h}
	if h != nil {
		if err := c.chooseSources(); err != nil {
			return nil, err
		}
	}
	if c.file, err = os.Create(r.path(&Table{Name: fmt.Sprint(cutFile, i)})); err != nil {
		return nil, err
	}
	r.cuts[i] = c.cut
	if r.topology.narrow != nil {
		err = makeCut(c, r.topology.narrow)
	} else {
		err = makeCut(c, r.topology.wide)
	}
	return c.cut, errors.Join(err, r.giveBack("sheet"), r.giveBack("places in a sheet"))
}

// dropCut removes the cut of relations number i, if there is one.
func (r *run) dropCut(i int) error {
	c := r.cuts[i]
	if c == nil {
		return nil
	}
	delete(r.cuts, i)
	return errors.Join(c.file.Close(), os.Remove(c.file.Name()))
}

// makeCut counts edges, and then brings them into order, a sheet at a time.
func makeCut[I int32 | int64](c *cutting, all []I) error {
	for _, one := range c.ranges {
		c.r.now.Did.Read += 2 * c.r.topology.indexBytes(c.rel, c.of, one[0], one[1]) // to count, and to cut
	}
	if c.unit > 0 {
		c.last = make([]uint32, (c.of.count+c.unit-1)/c.unit)
	}
	most := max(min(c.r.now.room/cutBytes, sheetEdges), sheetStrips)
	if err := count(c, most/sheetStrips, all); err != nil {
		return err
	}
	c.listUnits()
	for first := 0; first < len(c.strips); {
		edges, end := c.strips[first].edges, first+1
		for ; end < len(c.strips) && edges+c.strips[end].edges <= most; end++ {
			edges += c.strips[end].edges
		}
		sheet, extents, err := makeSheet(c, first, end, edges, all)
		if err == nil {
			err = c.write(sheet, extents)
		}
		if err != nil {
			return err
		}
		first = end
	}
	return nil
}

// trySheet cuts all edges in memory.
func trySheet[I int32 | int64](c *cutting, all []I) ([]byte, error) {
	c.strips = c.strips[:0]
	if err := count(c, tryEdges/sheetStrips, all); err != nil {
		return nil, err
	}
	sheet, _, err := makeSheet(c, 0, len(c.strips), c.begin[len(c.begin)-1], all)
	return sheet, err
}

// count cuts nodes into strips of as many edges at most, and gives each chunk of a range its place in the file.
func count[I int32 | int64](c *cutting, most int64, all []I) error {
	c.split(most)
	counts, err := room[uint32](c.r, fmt.Sprint(lasting, cutFile, c.number), int64(len(c.strips))*c.chunks)
	if c.counts = counts; err != nil {
		return err
	}
	clear(c.counts)
	if err := c.r.pool.Split(int64(len(c.strips)), 1, func(lo, hi int64) {
		for k := lo; k < hi; k++ {
			countStrip(c, int(k), all)
		}
	}); err != nil {
		return err
	}
	c.begin = make([]int64, int64(len(c.ranges))*c.chunks+1)
	for k := range c.strips {
		for chunk, n := range c.countsOf(k) {
			c.begin[int64(c.strips[k].of)*c.chunks+int64(chunk)+1] += int64(n)
		}
	}
	accumulate(c.begin)
	c.next = slices.Clone(c.begin)
	return nil
}

// countsOf returns the edges of a strip by chunk.
func (c *cut) countsOf(strip int) []uint32 {
	return c.counts[int64(strip)*c.chunks : int64(strip+1)*c.chunks]
}

// split makes strips of as many edges at most.
func (c *cutting) split(most int64) {
	for g, one := range c.ranges {
		for lo := one[0]; lo < one[1]; {
			hi, edges := c.stripEnd(lo, one[1], partUnit, most)
			if edges > most {
				hi, edges = c.stripEnd(lo, one[1], 1, most)
			}
			if edges <= most {
				c.strips = append(c.strips, strip{of: g, lo: lo, hi: hi})
			}
			for at := int64(0); edges > most && at < edges; at += most {
				c.strips = append(c.strips, strip{of: g, lo: lo, hi: hi, part: [2]int64{at, min(at+most, edges)}})
			}
			lo = hi
		}
	}
}

// stripEnd returns the end of a strip, and its edges: whole units of nodes that have most edges together, or one unit
// that has more.
func (c *cutting) stripEnd(lo, end, unit, most int64) (hi, edges int64) {
	for hi, end = lo, min(end, lo+stripNodes); hi < end; {
		next := min(hi+unit, end)
		n := int64(0)
		for i := hi; i < next; i++ {
			n += c.r.topology.length(c.rel, c.of.at(i), false)
		}
		if edges+n > most && hi > lo {
			break
		}
		hi, edges = next, edges+n
	}
	return hi, edges
}

// eachRow calls f with the sources of nodes lo to hi, without those that a relation adds. They are valid until f
// returns.
func eachRow[I int32 | int64](t *topology, rel *Relation, of nodes, lo, hi int64, all []I,
	f func(i int64, sources []I)) {
	var room []I
	lie := t.asTheyLie(rel, of)
	for i := lo; i < hi; i++ {
		if lie {
			from, to := t.between(rel.Edges, i)
			f(i, all[from:to])
			continue
		}
		n := int(t.length(rel, of.at(i), false))
		room = slices.Grow(room[:0], n)[:n]
		copyRow(room, t, rel, of.at(i), false)
		f(i, room)
	}
}

// countStrip counts the edges of a strip by chunk, and notes which chunks its units need.
func countStrip[I int32 | int64](c *cutting, number int, all []I) {
	s, counts := &c.strips[number], c.countsOf(number)
	eachRow(c.r.topology, c.rel, c.of, s.lo, s.hi, all, func(i int64, sources []I) {
		sources = stripSources(s, sources)
		some, n := c.someOnly(i), int64(len(sources))
		for _, j := range sources {
			if some && c.sources.has(int64(j)) {
				n--
				continue
			}
			counts[j>>c.shift]++
		}
		if s.edges += n; some {
			atomic.AddUint32(&c.spills[i/spillUnit], uint32(n))
		}
		if c.unit > 0 {
			last := i
			if len(sources) > 0 {
				last = max(last, int64(sources[len(sources)-1]))
			}
			c.needs(i/c.unit, uint32(last>>c.shift))
		}
	})
}

// needs notes that a unit of a window needs a chunk. Several strips may have nodes of it.
func (c *cutting) needs(unit int64, chunk uint32) {
	for was := atomic.LoadUint32(&c.last[unit]); was < chunk; was = atomic.LoadUint32(&c.last[unit]) {
		if atomic.CompareAndSwapUint32(&c.last[unit], was, chunk) {
			return
		}
	}
}

// someOnly reports whether edges from hubs to a node are left out: its sums are not kept, so that the second pass sums
// rows of hubs.
func (c *cutting) someOnly(i int64) bool { return c.kept != nil && c.kept.y.place[i] < 0 }

// listUnits sorts the units of windows by range and chunk.
func (c *cutting) listUnits() {
	if c.unit == 0 {
		return
	}
	c.done, c.units = make([]int64, len(c.begin)), make([]uint32, len(c.last))
	each := func(f func(u, at int64)) {
		for g, one := range c.ranges {
			for u := one[0] / c.unit; u*c.unit < one[1]; u++ {
				f(u, int64(g)*c.chunks+int64(c.last[u]))
			}
		}
	}
	each(func(_, at int64) { c.done[at+1]++ })
	accumulate(c.done)
	next := slices.Clone(c.done)
	each(func(u, at int64) {
		c.units[next[at]] = uint32(u)
		next[at]++
	})
}

// makeSheet brings the edges of some strips into order, and says where they go in the file.
func makeSheet[I int32 | int64](c *cutting, first, end int, edges int64, all []I) ([]byte, []extent, error) {
	sheet, err := room[byte](c.r, "sheet", edges*cutBytes)
	if err != nil {
		return nil, nil, err
	}
	places, err := room[int64](c.r, "places in a sheet", int64(end-first)*c.chunks)
	if err != nil {
		return nil, nil, err
	}
	extents := c.order(first, end, places)
	return sheet, extents, c.r.pool.Split(int64(end-first), 1, func(lo, hi int64) {
		for k := lo; k < hi; k++ {
			cutStrip(c, &c.strips[first+int(k)], places[k*c.chunks:(k+1)*c.chunks], all, sheet)
		}
	})
}

// write writes a sheet, each chunk behind what it has of sheets before.
func (c *cutting) write(sheet []byte, extents []extent) error {
	for _, p := range extents {
		n, err := direct.WriteAt(c.file, sheet[p.from*cutBytes:p.to*cutBytes], p.at*cutBytes)
		c.r.now.Did.Scratch += int64(n)
		if c.r.now.Did.Written += int64(n); err != nil {
			return writeError(c.file.Name(), err)
		}
	}
	return c.r.ctxErr()
}

// extent is edges of a sheet that follow each other in the file, and the number of the first one there.
type extent struct{ from, to, at int64 }

// order finds the places of strips in a sheet, by strip and chunk: in order of ranges, chunks and strips. In the file a
// chunk goes on where the sheet before has ended.
func (c *cutting) order(first, end int, places []int64) (all []extent) {
	n := int64(0)
	for lo, hi := first, first; lo < end; lo = hi {
		for hi = lo; hi < end && c.strips[hi].of == c.strips[lo].of; hi++ {
		}
		for k := range c.chunks {
			from, to := n, &c.next[int64(c.strips[lo].of)*c.chunks+k]
			for i := lo; i < hi; i++ {
				places[int64(i-first)*c.chunks+k] = n
				n += int64(c.countsOf(i)[k])
			}
			if last := len(all) - 1; last >= 0 && all[last].at+all[last].to-all[last].from == *to {
				all[last].to = n
			} else if n > from {
				all = append(all, extent{from, n, *to})
			}
			*to += n - from
		}
	}
	return all
}

// cutStrip puts the edges of a strip into their places of a sheet.
func cutStrip[I int32 | int64](c *cutting, s *strip, places []int64, all []I, sheet []byte) {
	mask := I(1)<<c.shift - 1
	eachRow(c.r.topology, c.rel, c.of, s.lo, s.hi, all, func(i int64, sources []I) {
		some := c.someOnly(i)
		for _, j := range stripSources(s, sources) {
			if some && c.sources.has(int64(j)) {
				continue
			}
			place := &places[j>>c.shift]
			binary.LittleEndian.PutUint32(sheet[*place*cutBytes:], uint32(i-s.lo)<<16|uint32(j&mask))
			*place++
		}
	})
}
