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
	nodes, rows int64      // of a chunk: of the nodes that sum, and of sources
	count, all  int64      // of nodes, and of sources
	needs       [][]uint64 // [chunk of nodes] a bit for each chunk of sources
	// Of each part of the nodes: sums, and rows of its own nodes, that are held while a chunk passes by.
	sums, own [parts][]int64
}

const (
	// parts are the least pieces of the nodes for which windows are planned.
	parts = 24
	// mostChunks bounds the memory of a survey. Chunks are multiples of chunkUnit, and of chunkBytes at least where
	// blocks are.
	mostChunks = 4096
	chunkUnit  = 256
	chunkBytes = 1 << 20
)

// surveyKey tells surveys apart: by edges, nodes, the unit of windows (0: they are not looked at), and chunks.
type surveyKey struct {
	edges int
	list  *int32
	unit  int64
	rows  int64
}

// chunkOf returns how many of n a chunk has, and least at least.
func chunkOf(n, least int64) int64 {
	return max((max(n/mostChunks, least)+chunkUnit-1)/chunkUnit, 1) * chunkUnit
}

// part returns where a part of the nodes begins: at a multiple of group.
func (v *survey) part(i int64) int64 {
	if i == parts {
		return v.count
	}
	return min((v.count*i/parts+group-1)/group*group, v.count)
}

// survey looks at the edges of a step's relation, once for all ways.
func (r *run) survey(s *Step, i int, of nodes) (*survey, error) {
	rel, unit := &s.Sums[i], int64(0)
	if s.windowed(r, of) {
		unit = s.windowUnit()
	}
	rows := chunkOf(rel.Table.Rows, min(r.blockBytes(), chunkBytes)/rel.Table.rowBytes())
	key := surveyKey{rel.Edges, unsafe.SliceData(of.list), unit, rows}
	if v := r.surveys[key]; v != nil {
		return v, nil
	}
	defer func(was *StepReport) { r.now = was }(r.now)
	r.now = &StepReport{} // which none of this is of
	v := &survey{nodes: chunkOf(of.count, 1), rows: rows, count: of.count, all: rel.Table.Rows}
	chunks := (v.all + v.rows - 1) / v.rows
	for i := range v.sums {
		v.sums[i], v.own[i] = make([]int64, chunks+1), make([]int64, chunks+1)
	}
	v.needs = make([][]uint64, (v.count+v.nodes-1)/v.nodes)
	var lock sync.Mutex
	var failed error
	look := func(lo, hi int64) {
		for c := lo; c < hi; c++ {
			l, err := r.passingLinks(rel, of, c*v.nodes, min((c+1)*v.nodes, v.count))
			if err != nil {
				failed = err // in one goroutine alone, see below
				return
			}
			v.needs[c] = make([]uint64, (chunks+63)/64)
			v.mark(v.needs[c], l)
			if unit > 0 {
				lock.Lock()
				v.live(l, c*v.nodes, unit)
				lock.Unlock()
			}
		}
	}
	if r.asTheyLie(rel, of) {
		if err := r.pool.Split(int64(len(v.needs)), 1, look); err != nil {
			return nil, err
		}
	} else {
		look(0, int64(len(v.needs)))
	}
	for i := range v.sums {
		accumulate(v.sums[i])
		accumulate(v.own[i])
	}
	if failed == nil {
		r.surveys[key] = v
	}
	return v, failed
}

func accumulate(x []int64) {
	for i := 1; i < len(x); i++ {
		x[i] += x[i-1]
	}
}

// mark notes which chunks have sources of edges.
func (v *survey) mark(bits []uint64, l *links) {
	for e := l.start[0]; e < l.start[len(l.start)-1]; e++ {
		c := l.source(e) / v.rows
		bits[c/64] |= 1 << (c % 64)
	}
}

// live adds nodes of a window from lo on to what is held: as differences of a chunk to the one before.
func (v *survey) live(l *links, lo, unit int64) {
	n := int64(len(l.start) - 1)
	for begin := int64(0); begin < n; {
		first := lo + begin
		end := min(begin+unit-first%unit, n) // units begin at multiples
		last := lo + end - 1
		for i := begin; i < end; i++ {
			if l.start[i] < l.start[i+1] {
				last = max(last, l.source(l.start[i+1]-1))
			}
		}
		part := v.partOf(first)
		free := last/v.rows + 1
		for i := begin; i < end; i++ {
			if l.start[i] < l.start[i+1] {
				v.sums[part][l.source(l.start[i])/v.rows]++
				v.sums[part][free]--
			}
			v.own[part][(lo+i)/v.rows]++
			v.own[part][free]--
		}
		begin = end
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
	for c := range (v.all + v.rows - 1) / v.rows {
		from, to := c*v.rows, min((c+1)*v.rows, v.all)
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

// asTheyLie reports whether the edges of some nodes can be read in the files as they lie there.
func (r *run) asTheyLie(rel *Relation, of nodes) bool {
	return of.list == nil && !rel.Once && r.topology.views(rel.Edges)
}

// passingLinks returns the edges of some nodes, without those that a relation adds: where they lie in the files as they
// must, at their positions there, so that start does not begin with 0.
func (r *run) passingLinks(rel *Relation, of nodes, lo, hi int64) (*links, error) {
	if !r.asTheyLie(rel, of) {
		return r.links(rel, of, lo, hi, false)
	}
	t := r.topology
	lo, hi = lo+t.g.Offset(t.g.Schema().Edges[rel.Edges].Dst), hi+t.g.Offset(t.g.Schema().Edges[rel.Edges].Dst)
	return &links{start: t.indptr[lo : hi+1], narrow: t.narrow, wide: t.wide}, nil
}
