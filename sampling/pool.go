package sampling

import (
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/unified"
)

// pool numbers nodes of the graph, by fused id, in the order in which they come.
type pool[V nodeID] struct {
	table  hashMap[V]
	nodes  list[V] // fused ids
	behind unified.Buffer
}

// poolBytes is the memory of a pool of n nodes.
func poolBytes(nodes int64) int64 {
	nodes = sat.Add(nodes, chunkPicks) // which may all be there already
	return sat.Add(sat.Mul(16, hashSlots(nodes)), sat.Mul(8, nodes))
}

// init makes the pool one of some nodes at most, in memory of a scratch.
func (p *pool[V]) init(most int64, memory *scratch) {
	p.table.most = hashSlots(sat.Add(most, chunkPicks))
	memory.own(&p.table.buf, &p.behind)
}

// begin empties the pool.
func (p *pool[V]) begin() error {
	p.nodes.n = 0
	return p.table.begin()
}

// add writes the number of each id to at; ids that are new get the next ones.
func (p *pool[V]) add(ids []V, at []int32) error {
	want := p.nodes.n + len(ids) + 1
	if 2*want > len(p.table.tab) {
		if err := p.table.grow(len(ids), []list[V]{p.nodes}); err != nil {
			return err
		}
	}
	if err := need(&p.nodes.ids, &p.behind, want, p.nodes.n); err != nil {
		return err
	}
	p.table.prefetch(ids)
	p.table.relabel(ids, at, &p.nodes)
	return nil
}

// find writes the number of each id to at, -1 for those that are not in the pool.
func (p *pool[V]) find(ids []V, at []int32) {
	p.table.prefetch(ids)
	p.table.find(ids, at)
}
