package loader

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sort"
	"unsafe"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// arrayKind says which array of a batch an entry of the digest is.
type arrayKind uint8

const (
	numNodesArray arrayKind = iota
	nodesArray
	seedsArray
	indptrArray
	indicesArray
	edgePosArray
	nodeColumnArray // the first of the columns: these are in the full digest only
	seedColumnArray
	edgeColumnArray
)

// digestEntry is one named array. t is a node or edge type, c a column.
type digestEntry struct {
	name        string
	header      []byte // name and dtype as they are hashed
	kind        arrayKind
	layer, t, c int
}

// newDigestEntries lists the arrays of every batch, in the order in which they are hashed.
func newDigestEntries(s *graph.Schema, layers int, cols *columns) []digestEntry {
	var list []digestEntry
	add := func(kind arrayKind, layer, t, c int, dtype unified.DType, format string, args ...any) {
		name := fmt.Sprintf(format, args...)
		var h bytes.Buffer
		for _, text := range []string{name, dtype.String()} {
			h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(text))))
			h.WriteString(text)
		}
		list = append(list, digestEntry{name, h.Bytes(), kind, layer, t, c})
	}
	add(numNodesArray, 0, 0, 0, unified.Int64, "num_nodes")
	for t := range s.Nodes {
		name := s.Nodes[t].Name
		add(nodesArray, 0, t, 0, unified.Int64, "nodes/%s", name)
		add(seedsArray, 0, t, 0, unified.Int64, "seeds/%s", name)
		for c, col := range cols.node[t] {
			add(nodeColumnArray, 0, t, c, col.store.Column().DType(), "node/%s/%s", name, col.name)
		}
		for c, col := range cols.seed[t] {
			add(seedColumnArray, 0, t, c, col.store.Column().DType(), "seed/%s/%s", name, col.name)
		}
	}
	for l := range layers {
		for e := range s.Edges {
			name := s.Edges[e].String()
			add(indptrArray, l, e, 0, unified.Int64, "block/%d/%s/indptr", l, name)
			add(indicesArray, l, e, 0, unified.Int64, "block/%d/%s/indices", l, name)
			if cols.edgePos {
				add(edgePosArray, l, e, 0, unified.Int64, "block/%d/%s/edge_pos", l, name)
			}
			for c, col := range cols.edge {
				add(edgeColumnArray, l, e, c, col.store.Column().DType(), "edge/%d/%s/%s", l, name, col.name)
			}
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].name < list[j].name })
	return list
}

// digester hashes one batch after another.
type digester struct {
	topology, full xxh3.Hasher
	wide           [1024]int64 // ids on their way from 32 to 64 bits
}

// Digest returns the batch's digests (docs/digest.md): topology covers what was sampled, full also the columns. It
// reads the whole batch, from a device through the host. One goroutine at a time may call it. 0, 0 of a released batch,
// and of one that a device failed to make: Sync says why.
func (b *Batch) Digest() (topology, full uint64) {
	if b.slot == nil {
		return 0, 0
	}
	s := b.slot
	if s.digest == nil {
		s.digest = new(digester)
	}
	d := s.digest
	if b.Sync() != nil {
		return 0, 0
	}
	d.topology.Reset()
	d.full.Reset()
	for i := range s.loader.digestEntries {
		e := &s.loader.digestEntries[i]
		d.write(e, e.header)
		switch e.kind {
		case numNodesArray:
			d.numNodes(e, s.sample.NumNodes)
		case nodesArray:
			d.ids(e, s.down.tensor(s, s.sample.Nodes[e.t]))
		case seedsArray:
			d.ids(e, s.down.tensor(s, s.sample.SeedLocal[e.t]))
		case indptrArray:
			d.ids(e, s.down.tensor(s, s.sample.Blocks[e.layer][e.t].Indptr))
		case indicesArray:
			d.ids(e, s.down.tensor(s, s.sample.Blocks[e.layer][e.t].Indices))
		case edgePosArray:
			d.ids(e, s.down.tensor(s, s.sample.Blocks[e.layer][e.t].EdgePos))
		case nodeColumnArray:
			d.rows(e, s.down.tensor(s, s.node[e.t][e.c].rows))
		case seedColumnArray:
			d.rows(e, s.down.tensor(s, s.seed[e.t][e.c].rows))
		case edgeColumnArray:
			d.rows(e, s.down.tensor(s, s.edge[e.layer][e.t][e.c].rows))
		}
	}
	if s.down.err != nil {
		return 0, 0
	}
	return d.topology.Sum64(), d.full.Sum64()
}

func (d *digester) write(e *digestEntry, p []byte) {
	_, _ = d.full.Write(p) // a hash takes everything
	if e.kind < nodeColumnArray {
		_, _ = d.topology.Write(p)
	}
}

// int64s hashes the first n numbers of d.wide.
func (d *digester) int64s(e *digestEntry, n int) {
	d.write(e, unsafe.Slice((*byte)(unsafe.Pointer(&d.wide)), 8*n))
}

func (d *digester) numNodes(e *digestEntry, counts [][]int64) {
	d.wide[0], d.wide[1], d.wide[2] = 2, int64(len(counts)), int64(len(counts[0]))
	d.int64s(e, 3)
	for _, row := range counts {
		for len(row) > 0 {
			n := copy(d.wide[:], row)
			d.int64s(e, n)
			row = row[n:]
		}
	}
}

// ids hashes dimensions and numbers of a list of int32 or int64; no tensor is an empty list.
func (d *digester) ids(e *digestEntry, t unified.Tensor) {
	d.wide[0], d.wide[1] = 1, t.Len()
	d.int64s(e, 2)
	if t.DType() != unified.Int32 {
		d.write(e, t.Bytes())
		return
	}
	v, _ := unified.View[int32](t)
	for len(v) > 0 {
		n := min(len(v), len(d.wide))
		for i, x := range v[:n] {
			d.wide[i] = int64(x)
		}
		d.int64s(e, n)
		v = v[n:]
	}
}

func (d *digester) rows(e *digestEntry, t unified.Tensor) {
	d.wide[0] = int64(t.Rank())
	for i := range t.Rank() {
		d.wide[1+i] = t.Dim(i)
	}
	d.int64s(e, 1+t.Rank())
	d.write(e, t.Bytes())
}

// hash stands for the list of seeds in states.
func (l *seedList) hash() uint64 {
	d := new(digester)
	e := &digestEntry{kind: nodeColumnArray} // one hash is enough
	d.full.Reset()
	for i := range l.sets {
		r := &l.sets[i]
		d.wide[0], d.wide[1] = int64(r.nodeType), r.end-r.begin
		d.int64s(e, 2)
		switch {
		case r.ids32 != nil:
			d.ids(e, unified.FromSlice(r.ids32))
		case r.ids64 != nil:
			d.ids(e, unified.FromSlice(r.ids64))
		}
	}
	return d.full.Sum64()
}
