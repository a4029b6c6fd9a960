package sampling

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/unified"
)

// togetherPicker lets another picker choose among all in-edges of a destination, whatever their types, and deals the
// picks out to the edge types.
type togetherPicker[V nodeID] struct {
	a    *assembly[V]
	all  *assembly[V] // in whose schema each node type has one edge type, of all edges into it
	each picker[V]    // over all
	sort bool         // picks of a destination do not ascend

	dealt []dealt[V] // [node type]
	keptPicks[V]
	chunk chunk[V]
}

// dealt is the picks of the destinations of one node type at a hop.
type dealt[V nodeID] struct {
	st    stage[V]
	known bool    // they are those of the hop at hand
	picks []int64 // destination by destination
	ends  []int32 // [destination] of the list, from st.lo on
	next  []int32 // [destination] of its picks, the first that no edge type has had

	pickMem, endMem, nextMem unified.Buffer
}

// checkTogether refuses options that do not go with a fan-out over all edge types.
func (n Neighbor) checkTogether() error {
	switch {
	case !n.Together:
		return nil
	case n.PerType != nil:
		return fmt.Errorf("%w: a fan-out over all edge types together, and fan-outs of single ones", ErrOptions)
	case n.Time.RulesPerType != nil || n.Time.WindowPerType != nil:
		return fmt.Errorf("%w: a fan-out over all edge types together, and rules or windows of time of single ones",
			ErrOptions)
	case n.Time.Node != "":
		return fmt.Errorf("%w: times of nodes with a fan-out over all edge types together, whose sources have "+
			"different types: name times of edges", ErrOptions)
	}
	return nil
}

// ofNodeTypes returns the fan-outs by node type of the destination.
func (p hopFanouts) ofNodeTypes(s *graph.Schema, all []int) hopFanouts {
	by := make(hopFanouts, len(p))
	for h := range by {
		by[h] = slices.Repeat([]int{all[h]}, len(s.Nodes))
	}
	return by
}

// allEdgesOf returns a schema of the same graph where each node type has one edge type.
func allEdgesOf(of *graph.Schema) *graph.Schema {
	s := &graph.Schema{Nodes: of.Nodes, EdgeColumns: of.EdgeColumns}
	for t := range s.Nodes {
		in := graph.EdgeType{Relation: "all", Target: s.Nodes[t].Name, Dst: t, Key: s.Nodes[t].Key,
			Count: of.NumEdges()}
		if len(of.Edges) == 1 {
			in.Order = of.Edges[0].Order
		}
		s.Edges = append(s.Edges, in)
	}
	return s
}

// allEdges returns an assembly of the same graph, for a picker alone, where each node type has one edge type.
func (a *assembly[V]) allEdges() *assembly[V] {
	s := allEdgesOf(a.schema)
	b := &assembly[V]{scratch: a.scratch, graph: a.graph, schema: s, indptr: a.indptr, indices: a.indices,
		lists: a.lists, forest: a.forest, pages: a.pages}
	b.own(&b.starts, &b.counts)
	return b
}

func newTogetherPicker[V nodeID](a *assembly[V], opt Neighbor, p hopFanouts, env Env) (picker[V], error) {
	w := &togetherPicker[V]{a: a, all: a.allEdges(), sort: opt.Replace, dealt: make([]dealt[V], len(a.lists)),
		chunk: newChunk[V]()}
	w.sources = a.indices
	var err error
	w.each, err = newPicker(w.all, opt, p.ofNodeTypes(a.schema, opt.Fanouts), env)
	a.own(&w.picksMem)
	for t := range w.dealt {
		a.own(&w.dealt[t].pickMem, &w.dealt[t].endMem, &w.dealt[t].nextMem)
	}
	return w, err
}

// capTogether bounds what a hop reaches, by node type, by all picks of its destinations together.
func (n Neighbor) capTogether(s *graph.Schema, fanouts []int, lists, fresh, reached []int64) {
	if !n.Together || len(fanouts) == 0 || fanouts[0] < 0 {
		return
	}
	if n.Frontier == NewNodes {
		lists = fresh
	}
	total := int64(0)
	for t := range s.Nodes {
		total = sat.Add(total, sat.Mul(lists[t], int64(fanouts[0])))
	}
	for t := range reached {
		reached[t] = min(reached[t], total)
	}
}

// togetherBytes is the memory of a togetherPicker beyond the assembly.
func (n Neighbor) togetherBytes(s *graph.Schema, p hopFanouts, b Bound) int64 {
	most := int64(0) // picks of a hop
	for _, layer := range b.Blocks {
		sum := int64(0)
		for _, edges := range layer {
			sum = sat.Add(sum, edges)
		}
		most = max(most, sum)
	}
	all := *s
	all.Edges = []graph.EdgeType{{Count: s.NumEdges()}}
	ranges := sat.Mul(2*4+2*8, sat.Add(b.Nodes, int64(len(s.Nodes)))) // of columns
	bytes := sat.Add(sat.Mul(16, most), ranges)
	by := p.ofNodeTypes(s, n.Fanouts)
	if n.chooses() {
		return sat.Add(bytes, n.chooseBytes(&all, by, [][]int64{{most}}))
	}
	if !n.Replace {
		by = hopFanouts{slices.Repeat([]int{slices.Max(n.Fanouts)}, 1)}
		bytes = sat.Add(bytes, 8*by.manyPicks(&all))
	}
	return bytes
}

func (p *togetherPicker[V]) hop(r Rand, frontiers []stage[V]) error {
	for t := range p.dealt {
		p.dealt[t].known = false
	}
	return p.each.hop(r, frontiers)
}

// deal makes all picks of the destinations of a stage.
func (p *togetherPicker[V]) deal(st *stage[V], d *dealt[V]) (err error) {
	d.st = *st
	d.st.edgeType, d.st.have, d.known = st.dstType, 0, true
	n := int64(st.hi) + 1
	if err := cmp.Or(grow(&d.ends, &d.endMem, n, 0), grow(&d.next, &d.nextMem, n, 0)); err != nil {
		return err
	}
	d.next[st.lo] = 0
	total, err := p.each.count(&d.st, d.ends[:st.hi])
	if err != nil {
		return err
	}
	if total > maxBlockEdges {
		return errTooManyEdges(total)
	}
	if st.lo < st.hi {
		copy(d.next[st.lo+1:st.hi], d.ends[st.lo:st.hi-1])
	}
	if err := grow(&d.picks, &d.pickMem, total, 0); err != nil {
		return err
	}
	for n := int64(0); n < total; n += int64(p.chunk.n) {
		p.each.fill(&p.chunk)
		copy(d.picks[n:], p.chunk.pos[:p.chunk.n])
	}
	g := &p.all.pages
	if err := g.failure(); err != nil {
		return err
	}
	if g.Pages != nil {
		if err := g.bringAt(g.types, d.picks[:total]); err != nil {
			return err
		}
	}
	if p.sort {
		for i := st.lo; i < st.hi; i++ {
			slices.Sort(d.picks[d.next[i]:d.ends[i]])
		}
	}
	return nil
}

func (p *togetherPicker[V]) count(st *stage[V], ends []int32) (int64, error) {
	d := &p.dealt[st.dstType]
	if !d.known {
		if err := p.deal(st, d); err != nil {
			return 0, err
		}
	}
	p.made, p.done = 0, 0
	if err := need(&p.picks, &p.picksMem, len(d.picks), 0); err != nil {
		return 0, err
	}
	several := len(p.a.schema.Edges) > 1
	for i := st.lo; i < st.hi; i++ {
		at := d.next[i]
		for ; at < d.ends[i] && (!several || p.a.types.at(d.picks[at]) == st.edgeType); at++ {
			p.picks[p.made] = d.picks[at]
			p.made++
		}
		d.next[i] = at
		ends[i] = int32(st.have + p.made)
	}
	return int64(st.have + p.made), nil
}
