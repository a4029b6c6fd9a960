package renumber

import (
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/unified"
)

// Model is what is asked for where: rows by their numbers, sources of edges by their positions, and a table of local
// ids, 4 bytes a node. Its caches forget the line used least recently.
type Model struct {
	RowBytes int64 // of all columns of a node together
	Cache    int64 // bytes of the cache of rows and sources
	Table    int64 // bytes of the cache of local ids
}

// Usual is caches as a core of a server has them.
func Usual(rowBytes int64) Model { return Model{RowBytes: rowBytes, Cache: 32 << 20, Table: 1 << 19} }

// Batch is what a batch of a graph with one node type asks for, in the order in which it is made.
type Batch struct {
	Edges []Edge
	Nodes []uint32
}

// Edge is a sampled edge: its position among all, and its ends.
type Edge struct {
	At             int64
	Source, Target uint32
}

// NewBatch begins a batch of nodes. Add follows, for each hop, the first out of the seeds.
func NewBatch(nodes unified.Tensor) *Batch {
	b := &Batch{}
	for i := range nodes.Len() {
		b.Nodes = append(b.Nodes, uint32(number(nodes, i)))
	}
	return b
}

// Add adds the edges of a block: as graph.Block has them, with their positions.
func (b *Batch) Add(indptr, indices, positions unified.Tensor) {
	for target := range indptr.Len() - 1 {
		for i := number(indptr, target); i < number(indptr, target+1); i++ {
			b.Edges = append(b.Edges, Edge{number(positions, i), b.Nodes[number(indices, i)], b.Nodes[target]})
		}
	}
}

// number returns an element of a list of ids.
func number(t unified.Tensor, i int64) int64 {
	return t.DType().Integer(t.Bytes()[i*t.DType().Size():])
}

// Counts are means over batches.
type Counts struct {
	Edges, Nodes          int64
	Sources, Locals, Rows int64 // lines that missed the caches: of sources, of local ids, of rows
	Pages                 int64 // of 4 KiB in which rows lie: what a disk is asked for
}

// Misses are the lines of all arrays that missed.
func (c Counts) Misses() int64 { return c.Sources + c.Locals + c.Rows }

const (
	ways  = 16
	page  = 4096
	idLen = 4 // bytes of a source
)

// Count says what batches ask for where the nodes are in an order; nil: in that which they have. indptr is the graph's.
func (m Model) Count(batches []*Batch, indptr []int64, order []uint32) (c Counts) {
	places := placesOf(indptr, order)
	large, small := newCache(m.Cache), newCache(m.Table)
	for _, b := range batches {
		m.count(&c, b, places, large, small)
	}
	n := int64(max(len(batches), 1))
	for _, of := range []*int64{&c.Edges, &c.Nodes, &c.Sources, &c.Locals, &c.Rows, &c.Pages} {
		*of /= n
	}
	return c
}

func (m Model) count(c *Counts, b *Batch, p *places, large, small cache) {
	const sources, locals = 1 << 40, 1 << 41 // lines of other arrays than the rows
	for _, e := range b.Edges {
		if large.miss(sources + p.position(e)*idLen/machine.Line) {
			c.Sources++
		}
		if small.miss(locals + p.number(e.Source)*idLen/machine.Line) {
			c.Locals++
		}
	}
	pages := map[int64]bool{}
	for _, v := range b.Nodes {
		first := p.number(v) * m.RowBytes
		for at := first / machine.Line; at <= (first+m.RowBytes-1)/machine.Line; at++ {
			if large.miss(at) {
				c.Rows++
			}
			pages[at*machine.Line/page] = true
		}
	}
	c.Edges, c.Nodes, c.Pages = c.Edges+int64(len(b.Edges)), c.Nodes+int64(len(b.Nodes)), c.Pages+int64(len(pages))
}

// places say where nodes and edges are in an order.
type places struct {
	numbers []uint32 // nil: their own
	moved   []int64  // by how much the edges of each node are
}

func placesOf(indptr []int64, order []uint32) *places {
	if order == nil {
		return &places{}
	}
	p := &places{numbers: make([]uint32, len(order)), moved: make([]int64, len(order))}
	at := int64(0)
	for i, v := range order {
		p.numbers[v] = uint32(i)
		p.moved[v] = at - indptr[v]
		at += indptr[v+1] - indptr[v]
	}
	return p
}

func (p *places) number(v uint32) int64 {
	if p.numbers == nil {
		return int64(v)
	}
	return int64(p.numbers[v])
}

func (p *places) position(e Edge) int64 {
	if p.moved == nil {
		return e.At
	}
	return e.At + p.moved[e.Target]
}

// cache is a set-associative cache of lines that forgets the one used least recently.
type cache [][]int64

func newCache(bytes int64) cache { return make(cache, max(bytes/machine.Line/ways, 1)) }

// miss brings a line, and reports whether it was not there.
func (c cache) miss(at int64) bool {
	set := &c[uint64(at)*0x9E3779B97F4A7C15>>20%uint64(len(c))]
	place := 0
	for place < len(*set) && (*set)[place] != at {
		place++
	}
	there := place < len(*set)
	if !there && place < ways {
		*set = append(*set, 0)
	} else if !there {
		place--
	}
	copy((*set)[1:place+1], *set)
	(*set)[0] = at
	return !there
}
