package sampling

import "github.com/khop-gnn/khop/unified"

// keptPicks are the picks of a stage, for pickers that make them while they count.
type keptPicks struct {
	picks      []int64
	made, done int // picks that were made, and delivered
	picksMem   unified.Buffer
}

// fillKept delivers the next picks.
func fillKept[V nodeID](k *keptPicks, indices []V, c *chunk[V]) {
	c.n = copy(c.pos, k.picks[k.done:k.made])
	k.done += c.n
	prefetchPicks(indices, c.pos[:c.n], 0, int64(len(indices)))
}

// takeNone ends a stage of which no destination takes an edge.
func (st *stage[V]) takeNone(ends []int32) int64 {
	for i := st.lo; i < st.hi; i++ {
		ends[i] = int32(st.have)
	}
	return int64(st.have)
}
