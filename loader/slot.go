package loader

import (
	"errors"
	"time"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// slot is all the memory of one batch. It has one owner at a time: the list of free slots, the worker that fills it, the
// reorder window, the loop body, or who kept the batch.
type slot struct {
	loader  *Loader
	batch   *Batch
	seedIDs []unified.Buffer // [node type]
	request sampling.Request // Seeds are views of seedIDs
	sample  graph.Sample
	node    [][]gathered   // [node type][column]
	seed    [][]gathered   // [node type][column]
	edge    [][][]gathered // [layer][edge type][column]
	digest  *digester      // of the first Digest on

	err     error     // in place of a batch
	readyAt time.Time // when the worker was done
	inBody  bool      // guarded by Loader.mu
}

// newSlot returns a slot that holds no memory yet.
func (l *Loader) newSlot() *slot {
	schema := l.graph.Schema()
	mem := pinned.Options{Ledger: &l.ledger, Purpose: pinned.Batches}
	s := &slot{loader: l}
	s.batch = newBatch(s)
	s.seedIDs = make([]unified.Buffer, len(schema.Nodes))
	s.request.Seeds = make([][]int64, len(schema.Nodes))
	s.sample.Init(schema, l.bound.Layers, mem)
	slots := func(cols []column) []gathered {
		g := make([]gathered, len(cols))
		for i := range g {
			g[i].column = cols[i]
			g[i].buf.Options = mem
		}
		return g
	}
	s.node, s.seed = make([][]gathered, len(schema.Nodes)), make([][]gathered, len(schema.Nodes))
	for t := range schema.Nodes {
		s.seedIDs[t].Options = mem
		s.node[t], s.seed[t] = slots(l.cols.node[t]), slots(l.cols.seed[t])
	}
	if len(l.cols.edge) > 0 {
		s.edge = make([][][]gathered, l.bound.Layers)
		for layer := range s.edge {
			s.edge[layer] = make([][]gathered, len(schema.Edges))
			for e := range s.edge[layer] {
				s.edge[layer][e] = slots(l.cols.edge)
			}
		}
	}
	return s
}

// each calls f for every buffer of the slot, in a fixed order, with the most bytes that the sampler's bound lets it need, and
// the bytes that the sample in the slot needs.
func (s *slot) each(f func(b *unified.Buffer, most, used int64)) {
	l, schema, p := s.loader, s.loader.graph.Schema(), &s.sample
	idSize, posSize := schema.IDType().Size(), schema.PosType().Size()
	for t := range schema.Nodes {
		nodes, seeds := l.mostNodes(t), l.mostSeeds(t)
		f(p.NodeBuffer(t), satMul(satAdd(nodes, writeAhead), idSize), p.Nodes[t].Len()*idSize)
		f(p.SeedBuffer(t), seeds*4, p.SeedLocal[t].Len()*4)
		f(&s.seedIDs[t], seeds*8, seeds*8)
		for c := range s.node[t] {
			row := s.node[t][c].store.RowBytes()
			f(&s.node[t][c].buf, satMul(nodes, row), p.Nodes[t].Len()*row)
		}
		for c := range s.seed[t] {
			row := s.seed[t][c].store.RowBytes()
			f(&s.seed[t][c].buf, satMul(min(nodes, seeds), row), p.NumNodes[0][t]*row)
		}
	}
	for layer := range l.bound.Layers {
		for e := range schema.Edges {
			b, edges := &p.Blocks[layer][e], l.mostEdges(layer, e)
			f(p.IndptrBuffer(layer, e), satMul(l.mostNodes(schema.Edges[e].Dst)+1, 4), b.Indptr.Len()*4)
			f(p.IndicesBuffer(layer, e), satMul(edges, 4), b.Indices.Len()*4)
			if l.cols.edgePos {
				f(p.EdgePosBuffer(layer, e), satMul(edges, posSize), b.EdgePos.Len()*posSize)
			}
			for c := range l.cols.edge {
				row := l.cols.edge[c].store.RowBytes()
				f(&s.edge[layer][e][c].buf, satMul(edges, row), b.EdgePos.Len()*row)
			}
		}
	}
}

// close frees the slot's memory.
func (s *slot) close() error {
	var errs []error
	s.each(func(b *unified.Buffer, _, _ int64) { errs = append(errs, b.Close()) })
	errs = append(errs, s.sample.Close()) // a sampler may have used what the options did not ask for
	return errors.Join(errs...)
}

// deliver makes a slot the batch of a loop body; false if the loader was closed meanwhile.
func (l *Loader) deliver(s *slot) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	s.inBody = true
	return true
}

// leave ends a loop body.
func (l *Loader) leave(s *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.inBody = false
	if !s.batch.kept {
		l.recycle(s)
	}
}

// recycle makes a delivered slot free for another batch, or frees its memory if there will be none. l.mu is held.
func (l *Loader) recycle(s *slot) {
	if s.batch.shared { // its pointer must never come to mean another batch
		s.batch.slot, s.batch.Sample = nil, nil
		s.batch = newBatch(s)
	}
	if l.closed {
		l.closeErr = errors.Join(l.closeErr, s.close())
		return
	}
	l.free <- s // never blocks: there is room for all slots
}
