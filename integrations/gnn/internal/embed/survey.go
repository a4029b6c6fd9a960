package embed

import (
	"math"
	"sync"
	"unsafe"
)

// survey is what a look at the edges of a relation tells of passes over the rows of its sources: which of these nodes
// need, and how many sums there are at a time where each begins with its first row, and ends when rows of its unit are
// whole. Rows of sources are cut into chunks, and nodes into as many.
type survey struct {
	nodes      int64      // of a chunk of those that sum
	shift      int        // a chunk has 1<<shift sources
	chunks     int64      // that there are
	count, all int64      // of nodes, and of sources
	needs      [][]uint64 // [chunk of nodes] a bit for each chunk of sources
	unit       int64      // of windows
	lock       sync.Mutex // of these:
	// Of each part of the nodes: sums, and rows of its own nodes, that are held while a chunk passes by.
	sums, own [parts][]int64
}

const (
	// parts are the least pieces of the nodes for which windows are planned.
	parts    = 24
	partUnit = 16
	// Chunks of nodes are multiples of chunkUnit. 1<<surveyBits bits say which of them need which chunk of sources.
	chunkUnit  = 256
	surveyBits = 24
)

// surveyKey tells surveys apart: by edges, nodes, the unit of windows (0: they are not looked at), and chunks.
type surveyKey struct {
	edges int
	list  *int32
	unit  int64
	shift int
}

// part returns where a part of the nodes begins: at a multiple of the units of windows.
func (v *survey) part(i int64) int64 {
	if i == parts {
		return v.count
	}
	return min((v.count*i/parts+partUnit-1)/partUnit*partUnit, v.count)
}

// survey looks at the edges of a step's relation, once for all ways.
func (r *run) survey(s *Step, i int, of nodes) (*survey, error) {
	rel, unit, shift := &s.Sums[i], int64(0), r.chunkShift(s.Sums[i].Edges)
	if s.windowed(r, of) {
		unit = s.windowUnit()
	}
	key := surveyKey{rel.Edges, unsafe.SliceData(of.list), unit, shift}
	if v := r.surveys[key]; v != nil {
		return v, nil
	}
	v := &survey{count: of.count, all: rel.Table.Rows, shift: shift, unit: unit}
	v.chunks = (v.all + 1<<shift - 1) >> shift
	v.nodes = max((of.count*v.chunks>>surveyBits+chunkUnit-1)/chunkUnit, 1) * chunkUnit
	for i := range v.sums {
		v.sums[i], v.own[i] = make([]int64, v.chunks+1), make([]int64, v.chunks+1)
	}
	v.needs = make([][]uint64, (v.count+v.nodes-1)/v.nodes)
	if err := r.pool.Split(int64(len(v.needs)), 1, func(lo, hi int64) {
		for c := lo; c < hi; c++ {
			if r.topology.narrow != nil {
				lookAt(v, c, r.topology, rel, of, r.topology.narrow)
			} else {
				lookAt(v, c, r.topology, rel, of, r.topology.wide)
			}
		}
	}); err != nil {
		return nil, err
	}
	for i := range v.sums {
		accumulate(v.sums[i])
		accumulate(v.own[i])
	}
	r.surveys[key] = v
	return v, nil
}

func accumulate(x []int64) {
	for i := 1; i < len(x); i++ {
		x[i] += x[i-1]
	}
}

// lookAt looks at the edges of a chunk of nodes.
func lookAt[I int32 | int64](v *survey, c int64, t *topology, rel *Relation, of nodes, all []I) {
	bits := make([]uint64, (v.chunks+63)/64)
	v.needs[c] = bits
	var unit []live
	eachRow(t, rel, of, c*v.nodes, min((c+1)*v.nodes, v.count), all, func(i int64, sources []I) {
		for _, j := range sources {
			if bit := uint64(1) << (j >> v.shift % 64); bits[j>>v.shift/64]&bit == 0 { // which few are
				bits[j>>v.shift/64] |= bit
			}
		}
		if v.unit == 0 {
			return
		}
		one := live{own: i >> v.shift, first: -1, last: i >> v.shift}
		if n := len(sources); n > 0 {
			one.first, one.last = int64(sources[0]>>v.shift), max(one.last, int64(sources[n-1]>>v.shift))
		}
		if unit = append(unit, one); (i+1)%v.unit == 0 || i == v.count-1 {
			v.hold(i, unit)
			unit = unit[:0]
		}
	})
}

// live is the chunks of a node of a window: its own, and the first and the last that it needs.
type live struct{ own, first, last int64 }

// hold adds the nodes of a unit, which ends with one, to what is held: as differences of a chunk to the one before.
func (v *survey) hold(end int64, unit []live) {
	v.lock.Lock()
	defer v.lock.Unlock()
	part, free := v.partOf(end), int64(0)
	for _, one := range unit {
		free = max(free, one.last+1)
	}
	for _, one := range unit {
		if one.first >= 0 {
			v.sums[part][one.first]++
			v.sums[part][free]--
		}
		v.own[part][one.own]++
		v.own[part][free]--
	}
}

// partOf returns the part that a node is in.
func (v *survey) partOf(node int64) int64 {
	i := min(node*parts/max(v.count, 1), parts-1)
	for node < v.part(i) {
		i--
	}
	for node >= v.part(i+1) {
		i++
	}
	return i
}

// held returns how many sums, and rows of its own nodes, parts from to to hold at most.
func (v *survey) held(from, to int64) (sums, own int64) {
	for c := range v.sums[0] {
		s, o := int64(0), int64(0)
		for i := from; i < to; i++ {
			s, o = s+v.sums[i][c], o+v.own[i][c]
		}
		sums, own = max(sums, s), max(own, o)
	}
	return sums, own
}

// spans returns which rows of sources nodes lo to hi need, and their own where these pass by with them, as ranges.
// Ranges with few bytes between them are one.
func (v *survey) spans(lo, hi, rowBytes int64, own bool) (all [][2]int64) {
	last := int64(math.MinInt64)
	for c := range v.chunks {
		from, to := c<<v.shift, min((c+1)<<v.shift, v.all)
		if !(own && from < hi && to > lo) && !v.need(c, lo, hi) {
			continue
		}
		if n := len(all); n > 0 && (from-last)*rowBytes <= spanGap {
			all[n-1][1] = to
		} else {
			all = append(all, [2]int64{from, to})
		}
		last = to
	}
	return all
}

// spanGap bytes are read rather than passed by.
const spanGap = 1 << 20

// need reports whether some of nodes lo to hi have an edge from a chunk of sources.
func (v *survey) need(c, lo, hi int64) bool {
	for at := lo / v.nodes; at*v.nodes < hi; at++ {
		if v.needs[at][c/64]>>(c%64)&1 != 0 {
			return true
		}
	}
	return false
}

// rowsOf counts the rows of spans.
func rowsOf(spans [][2]int64) (n int64) {
	for _, s := range spans {
		n += s[1] - s[0]
	}
	return n
}
