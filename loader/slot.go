package loader

import (
	"errors"
	"time"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// slot is all the memory of one batch. It has one owner at a time: the list of free slots, the worker that fills it,
// the reorder window, the loop body, or who kept the batch.
type slot struct {
	loader  *Loader
	index   int // in Loader.slots
	batch   *Batch
	seedIDs []unified.Buffer // [node type]
	items   [][]int64        // [node type] the seeds' numbers in the list of seeds
	request sampling.Request // Seeds are views of seedIDs
	sample  graph.Sample
	node    [][]gathered   // [node type][column]
	seed    [][]gathered   // [node type][column]
	edge    [][][]gathered // [layer][edge type][column]
	digest  *digester      // of the first Digest on
	down    download       // of the first Digest or CopyTo on
	onDevice

	err     error     // in place of a batch
	readyAt time.Time // when the worker was done
	inBody  bool      // guarded by Loader.mu
}

// newSlot returns a slot that holds no memory yet.
func (l *Loader) newSlot() *slot {
	schema := l.graph.Schema()
	mem := l.slotMemory()
	rows := mem
	rows.From = l.opt.RowMemory
	s := &slot{loader: l, items: make([][]int64, len(schema.Nodes))}
	s.batch = newBatch(s)
	seeds := mem
	seeds.Device, seeds.From = nil, nil // the host looks them up
	s.seedIDs = make([]unified.Buffer, len(schema.Nodes))
	s.request.Seeds = make([][]int64, len(schema.Nodes))
	s.sample.Init(schema, l.bound.Layers, mem)
	slots := func(cols []column) []gathered {
		g := make([]gathered, len(cols))
		for i := range g {
			g[i].column = cols[i]
			g[i].buf.Options = rows
		}
		return g
	}
	s.node, s.seed = make([][]gathered, len(schema.Nodes)), make([][]gathered, len(schema.Nodes))
	for t := range schema.Nodes {
		s.seedIDs[t].Options = seeds
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

func (l *Loader) slotMemory() pinned.Options {
	o := pinned.Options{Ledger: &l.ledger, Purpose: pinned.Batches}
	if l.device != nil {
		o.Device, o.From = l.device.Device, l.opt.RowMemory
	}
	return o
}

// repair gives the slot a new sample where a sampler may have broken the old one's shape.
func (s *slot) repair() error {
	err := s.sample.Close()
	s.sample = graph.Sample{}
	s.sample.Init(s.loader.graph.Schema(), s.loader.bound.Layers, s.loader.slotMemory())
	return err
}

// each calls f for every buffer of the slot, in a fixed order, with the most bytes that the sampler's bound lets it
// need.
func (s *slot) each(f func(b *unified.Buffer, most int64)) {
	s.eachUsed(func(b *unified.Buffer, most int64, _ func() int64) { f(b, most) })
}

// eachUsed is each, with the bytes that the sample in the slot needs, which may be asked for if checkSample approved of
// it.
func (s *slot) eachUsed(f func(b *unified.Buffer, most int64, used func() int64)) {
	l, schema, p := s.loader, s.loader.graph.Schema(), &s.sample
	idSize, posSize := schema.IDType().Size(), schema.PosType().Size()
	for t := range schema.Nodes {
		nodes, seeds := l.mostNodes(t), l.mostSeeds(t)
		f(p.NodeBuffer(t), satMul(satAdd(nodes, writeAhead), idSize), func() int64 { return p.Nodes[t].Len() * idSize })
		f(p.SeedBuffer(t), seeds*4, func() int64 { return p.SeedLocal[t].Len() * 4 })
		f(&s.seedIDs[t], seeds*8, func() int64 { return seeds * 8 })
		for c := range s.node[t] {
			row := s.node[t][c].store.RowBytes()
			f(&s.node[t][c].buf, satMul(nodes, row), func() int64 { return p.Nodes[t].Len() * row })
		}
		for c := range s.seed[t] {
			row := s.seed[t][c].store.RowBytes()
			f(&s.seed[t][c].buf, satMul(min(nodes, seeds), row), func() int64 { return p.NumNodes[0][t] * row })
		}
	}
	for layer := range l.bound.Layers {
		for e := range schema.Edges {
			edges := l.mostEdges(layer, e)
			numEdges := func(size int64) func() int64 {
				return func() int64 { return p.Blocks[layer][e].NumEdges() * size }
			}
			f(p.IndptrBuffer(layer, e), satMul(l.mostNodes(schema.Edges[e].Dst)+1, 4),
				func() int64 { return p.Blocks[layer][e].Indptr.Len() * 4 })
			f(p.IndicesBuffer(layer, e), satMul(edges, 4), numEdges(4))
			if l.cols.edgePos {
				f(p.EdgePosBuffer(layer, e), satMul(edges, posSize), numEdges(posSize))
			}
			for c := range l.cols.edge {
				row := l.cols.edge[c].store.RowBytes()
				f(&s.edge[layer][e][c].buf, satMul(edges, row), numEdges(row))
			}
		}
	}
}

// isView reports whether a block is a prefix of layer 0's of the same type, in the same memory (sampling.NewNodes).
func (s *slot) isView(layer, e int) bool {
	b := s.sample.Blocks
	p := firstByte(b[layer][e].Indices)
	return layer > 0 && p != nil && p == firstByte(b[0][e].Indices)
}

// close frees the slot's memory.
func (s *slot) close() error {
	var errs []error
	if s.loader.opt.RowMemory != nil {
		errs = append(errs, s.outwaitReaders())
	}
	s.each(func(b *unified.Buffer, _ int64) { errs = append(errs, b.Close()) })
	errs = append(errs, s.sample.Close()) // a sampler may have used what the options did not ask for
	if s.joined {
		errs = append(errs, s.down.close(), s.closeEvents(), s.loader.device.release())
	}
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
	l.free.put(s)
}
