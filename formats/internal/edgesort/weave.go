package edgesort

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/csc"
	"github.com/khop-gnn/khop/unified"
)

// Sorted is in-edges as Emit writes them, of a graph whose node types begin at Offsets; the last is the number of
// nodes.
type Sorted struct {
	Offsets                []int64
	Indptr, Indices, Types []byte
	EdgeTypes              int
}

// Weave writes the in-edges of a graph and more edges, in the order that all of them have together. The others are of
// the same edge types, and of node types that go on behind the nodes of the graph. Errors are formats.ErrCorrupt for an
// invalid graph, those of the sink, and context.Cause(ctx).
func Weave(ctx context.Context, g *graph.Graph, more *Sorted, to Sink) error {
	v := &weaver{old: streamOf(g), ids: more.Offsets[len(more.Offsets)-1],
		indptr: newColumn(to.Indptr), indices: newColumn(to.Indices), types: newColumn(to.Types)}
	v.idBytes, v.typeBytes = csc.IDBytes(v.ids), csc.TypeBytes(more.EdgeTypes)
	v.more = v.streamOf(more)
	s := g.Schema()
	for _, e := range s.Edges {
		v.shift = append(v.shift, more.Offsets[e.Src]-g.Offset(e.Src))
	}
	for t := range s.Nodes {
		for k := range more.Offsets[t+1] - more.Offsets[t] {
			if k&0xFFFF == 0 && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			v.indptr.number(v.edges)
			v.old.lo, v.old.hi = 0, 0
			if k < s.Nodes[t].Count {
				v.old.at(g.Offset(t) + k)
			}
			v.more.at(more.Offsets[t] + k)
			if err := v.node(); err != nil {
				return err
			}
		}
	}
	v.indptr.number(v.edges)
	return flush(v.indptr, v.indices, v.types) // without a writer types has nothing to flush
}

// weaver is one run of Weave.
type weaver struct {
	old, more              *stream
	shift                  []int64 // of the sources of each edge type of the graph
	ids                    int64
	idBytes, typeBytes     int64
	indptr, indices, types *column
	edges                  int64
}

// stream is in-edges, of one node at a time.
type stream struct {
	indptr       func(i int64) int64
	source, kind func(i int64) int64
	edges        int64
	lo, hi       int64
}

// at makes the edges those of a node.
func (s *stream) at(node int64) { s.lo, s.hi = s.indptr(node), s.indptr(node+1) }

func streamOf(g *graph.Graph) *stream {
	indptr := g.Indptr()
	s := &stream{edges: g.NumEdges(), indptr: func(i int64) int64 { return indptr[i] },
		kind: func(int64) int64 { return 0 }}
	s.source, _ = unified.Integers(g.Indices()) // a graph's are integers
	if g.Types().Valid() {
		s.kind, _ = unified.Integers(g.Types())
	}
	return s
}

func (v *weaver) streamOf(more *Sorted) *stream {
	number := func(b []byte, size int64) func(int64) int64 {
		dtype := map[int64]unified.DType{1: unified.Uint8, 2: unified.Uint16, 4: unified.Int32, 8: unified.Int64}[size]
		return func(i int64) int64 { return dtype.Integer(b[i*size:]) }
	}
	s := &stream{edges: int64(len(more.Indices)) / v.idBytes, indptr: number(more.Indptr, 8),
		source: number(more.Indices, v.idBytes), kind: func(int64) int64 { return 0 }}
	if v.typeBytes > 0 {
		s.kind = number(more.Types, v.typeBytes)
	}
	return s
}

// node writes the edges of a node.
func (v *weaver) node() error {
	a, b := v.old, v.more
	if a.lo < 0 || a.hi < a.lo || a.hi > a.edges {
		return fmt.Errorf("%w: the edges of a node are %d to %d of %d", formats.ErrCorrupt, a.lo, a.hi, a.edges)
	}
	for a.lo < a.hi || b.lo < b.hi {
		kind, source := int64(0), int64(-1)
		if a.lo < a.hi {
			if kind = a.kind(a.lo); kind >= int64(len(v.shift)) {
				return fmt.Errorf("%w: edge %d is of type %d", formats.ErrCorrupt, a.lo, kind)
			}
			source = a.source(a.lo) + v.shift[kind]
		}
		if b.lo < b.hi {
			k, s := b.kind(b.lo), b.source(b.lo)
			if a.lo == a.hi || k < kind || k == kind && s < source {
				v.put(k, s)
				b.lo++
				continue
			}
		}
		if source < 0 || source >= v.ids {
			return fmt.Errorf("%w: edge %d comes from node %d of %d", formats.ErrCorrupt, a.lo, source, v.ids)
		}
		v.put(kind, source)
		a.lo++
	}
	return nil
}

// put writes an edge.
func (v *weaver) put(kind, source int64) {
	v.edges++
	if v.idBytes == 8 {
		v.indices.number(source)
	} else {
		v.indices.room(4)
		v.indices.buf = binary.LittleEndian.AppendUint32(v.indices.buf, uint32(source))
	}
	if v.typeBytes == 0 {
		return
	}
	if v.types.room(2); v.typeBytes == 1 {
		v.types.buf = append(v.types.buf, byte(kind))
	} else {
		v.types.buf = binary.LittleEndian.AppendUint16(v.types.buf, uint16(kind))
	}
}
