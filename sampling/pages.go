package sampling

import (
	"math"
	"slices"

	"github.com/khop-gnn/khop/unified"
)

// Pages brings parts of a graph's arrays to memory, if their files are larger than memory. A worker says what a hop
// will read, and waits for all of it at once. Other parts can be read too, but slowly: a page at a time, while a
// processor waits. One goroutine uses it.
type Pages interface {
	// Array returns the number of an array; -1 for one in memory.
	Array(t unified.Tensor) int
	// Want says that elements from .. to-1 of an array will be read.
	Want(array int, from, to int64)
	// Bring waits until everything that Want named since the last call is in memory.
	Bring() error
}

const (
	pickWindow = 1 << 15 // picks whose sources are brought together; also the nodes
	listWindow = 1 << 21 // edges whose columns are brought together, about
)

// paged is what an assembly brings from disk, where the graph is there.
type paged struct {
	Pages // nil where it is not

	indptr, indices, types int   // arrays, or -1
	looks                  []int // arrays that the picker looks at for all edges of a destination

	hi      int // destinations of the stage at hand
	reached int // before this one, the columns have been brought; all of them where there is nothing to bring
	err     error
	window  []int64 // picks that are made ahead
}

// openPages finds the graph's arrays among the pages.
func (a *assembly[V]) openPages(env Env) {
	a.pages.Pages = env.Pages
	if p := &a.pages; p.Pages != nil {
		g := env.Graph
		p.indptr, p.indices, p.types = p.Array(unified.FromSlice(g.Indptr())), p.Array(g.Indices()), -1
		if g.Types().Valid() {
			p.types = p.Array(g.Types())
		}
		p.window = make([]int64, pickWindow)
	}
}

// looksAt says that the picker looks at all edges of a destination, in some arrays.
func (p *paged) looksAt(arrays ...unified.Tensor) {
	if p.Pages == nil {
		return
	}
	for _, t := range arrays {
		if at := p.Array(t); at >= 0 {
			p.looks = append(p.looks, at)
		}
	}
}

// want says that elements from .. to-1 of an array will be read, unless it is in memory.
func (p *paged) want(array int, from, to int64) {
	if array >= 0 {
		p.Want(array, from, to)
	}
}

// bringNodes brings the entries of indptr for ids plus an offset; it skips negative ids.
func (a *assembly[V]) bringNodes(ids []V, offset V) error {
	p := &a.pages
	for i, id := range ids {
		if id >= 0 {
			v := int64(id + offset)
			p.want(p.indptr, v, v+2)
		}
		if (i+1)%pickWindow == 0 {
			if err := p.Bring(); err != nil {
				return err
			}
		}
	}
	return p.Bring()
}

// bringAt brings an array's elements at some positions; it skips negative ones.
func (p *paged) bringAt(array int, positions []int64) error {
	if array < 0 {
		return nil
	}
	for part := range slices.Chunk(positions, pickWindow) {
		for _, pos := range part {
			if pos >= 0 {
				p.Want(array, pos, pos+1)
			}
		}
		if err := p.Bring(); err != nil {
			return err
		}
	}
	return nil
}

// bringEdges brings an array's elements for all edges of nodes whose indptr was brought, by ids plus an offset.
func (a *assembly[V]) bringEdges(array int, ids []V, offset V) error {
	p := &a.pages
	if array < 0 {
		return nil
	}
	edges := int64(0)
	for _, id := range ids {
		from, to, err := a.column(id + offset)
		if err != nil {
			return err
		}
		p.Want(array, from, to)
		if edges += to - from; edges > listWindow {
			edges = 0
			if err := p.Bring(); err != nil {
				return err
			}
		}
	}
	return p.Bring()
}

// bringRanges brings the arrays that say where the edges of a stage's destinations lie, from lo on.
func (a *assembly[V]) bringRanges(st *stage[V], lo int) error {
	p, ids := &a.pages, st.dst.ids[min(lo, st.hi):st.hi]
	p.hi = st.hi
	p.again(st.lo)
	if err := a.bringNodes(ids, st.dst.offset); err != nil || len(a.edges) < 2 {
		return err
	}
	return a.bringEdges(p.types, ids, st.dst.offset)
}

// again tells that the picker begins the stage, or begins it anew, at destination lo.
func (p *paged) again(lo int) {
	if len(p.looks) > 0 {
		p.reached = lo
	}
}

// reach brings the columns that the picker looks at, of destination i of the stage and of later ones within a window.
// An error ends the stage.
func (a *assembly[V]) reach(i int) {
	if i >= a.pages.reached {
		a.bringColumns(i)
	}
}

func (a *assembly[V]) bringColumns(i int) {
	p := &a.pages
	if p.Pages == nil {
		p.reached = math.MaxInt
		return
	}
	edges := int64(0)
	for ; i < p.hi && edges < listWindow; i++ {
		for _, array := range p.looks {
			p.Want(array, a.start[i], a.start[i]+a.degree[i])
		}
		edges += a.degree[i] + 16
	}
	if p.reached = i; p.err == nil {
		p.err = p.Bring()
	}
}

// failure returns, once, an error of a function that returns none.
func (p *paged) failure() error {
	err := p.err
	p.err = nil
	return err
}

// aheadPicker is a picker whose picks are made a window at a time, so that the sources of all of them are brought
// together.
type aheadPicker[V nodeID] struct {
	picker[V]
	a *assembly[V]
	keptPicks[V]
}

// fromDisk returns p, or if sources are on disk a picker that makes p's picks ahead.
func (a *assembly[V]) fromDisk(p picker[V]) picker[V] {
	if a.pages.Pages == nil || a.pages.indices < 0 {
		return p
	}
	return &aheadPicker[V]{p, a, keptPicks[V]{sources: a.indices, picks: a.pages.window}}
}

func (p *aheadPicker[V]) fill(c *chunk[V]) {
	if p.done == p.made {
		p.makeWindow()
	}
	p.keptPicks.fill(c)
}

func (p *aheadPicker[V]) makeWindow() {
	g := &p.a.pages
	p.made, p.done = 0, 0
	for g.err == nil && p.made+chunkPicks <= pickWindow {
		some := chunk[V]{pos: g.window[p.made : p.made+chunkPicks]}
		if p.picker.fill(&some); some.n == 0 {
			break
		}
		p.made += some.n
	}
	if g.err == nil {
		g.err = g.bringAt(g.indices, g.window[:p.made])
	}
	if g.err != nil {
		p.made = 0
	}
}
