package edgesort

import (
	"context"
	"encoding/binary"
	"io"

	"github.com/khop-gnn/khop/internal/csc"
)

// Sink takes the sorted edges, little-endian.
type Sink struct {
	Indptr  io.Writer   // int64: the first edge of each node that edges are kept of, and the number of edges
	Indices io.Writer   // sources among all nodes, int32 while these number below 2^31, else int64
	Types   io.Writer   // uint8 up to 256 types, else uint16; nil for one
	Columns []io.Writer // a row an edge
}

const sinkBuffer = 1 << 18

// column gathers bytes for a writer. The first error stays.
type column struct {
	w   io.Writer
	buf []byte
	err error
}

func newColumn(w io.Writer) *column { return &column{w: w} }

func (c *column) flush() {
	if c.err == nil && len(c.buf) > 0 {
		_, c.err = c.w.Write(c.buf)
	}
	c.buf = c.buf[:0]
}

// flush flushes those columns that are there, and returns their first error.
func flush(columns ...*column) error {
	for _, c := range columns {
		if c == nil {
			continue
		}
		if c.flush(); c.err != nil {
			return c.err
		}
	}
	return nil
}

// room makes room for n bytes, at most sinkBuffer.
func (c *column) room(n int) {
	if len(c.buf)+n > sinkBuffer {
		c.flush()
	}
	if room := len(c.buf) + n; room > cap(c.buf) {
		c.buf = append(make([]byte, 0, min(max(room, 2*cap(c.buf)), sinkBuffer)), c.buf...)
	}
}

// number takes a number of 8 bytes.
func (c *column) number(v int64) {
	c.room(8)
	c.buf = binary.LittleEndian.AppendUint64(c.buf, uint64(v))
}

// emitter writes sorted leaves.
type emitter struct {
	s               *Sorter
	sink            *Sink
	indptr, indices *column
	types           *column
	columns         []*column
	node            int64 // whose edges begin next, counted from the sorter's first
	edges           int64
}

// Emit sorts what was added and writes it. It is called once. Errors are those of the sink, pinned.ErrLimit,
// formats.ErrSpace and context.Cause(ctx).
func (s *Sorter) Emit(ctx context.Context, sink Sink) error {
	if s.opt.Loops == AddLoops {
		if err := s.addLoops(ctx); err != nil {
			return err
		}
	}
	e := &emitter{s: s, sink: &sink, indptr: newColumn(sink.Indptr), indices: newColumn(sink.Indices)}
	if len(s.opt.Types) > 1 {
		e.types = newColumn(sink.Types)
	}
	for _, w := range sink.Columns {
		e.columns = append(e.columns, newColumn(w))
	}
	if err := s.top.emit(ctx, e); err != nil {
		return err
	}
	for ; e.node <= s.last-s.first; e.node++ {
		e.indptr.number(e.edges)
	}
	s.Stats.Edges = e.edges
	return flush(append([]*column{e.indptr, e.indices, e.types}, e.columns...)...)
}

// leaf writes a sorted leaf.
func (e *emitter) leaf(f *leaf) error {
	s := e.s
	shift, idShift := s.dirBits+s.idBits+s.typeBits, s.dirBits
	idMask := uint64(1)<<s.idBits - 1
	wide := csc.IDBytes(s.nodes) == 8
	for lo := 0; lo < len(f.keys); {
		hi := min(lo+sinkBuffer/8, len(f.keys))
		e.indices.room(8 * (hi - lo))
		e.writeIndptr(f.keys[lo:hi], shift)
		if wide {
			for _, k := range f.keys[lo:hi] {
				e.indices.buf = binary.LittleEndian.AppendUint64(e.indices.buf, k>>idShift&idMask)
			}
		} else {
			at := len(e.indices.buf)
			buf := e.indices.buf[at : at+4*(hi-lo)]
			for i, k := range f.keys[lo:hi] {
				binary.LittleEndian.PutUint32(buf[4*i:], uint32(k>>idShift&idMask))
			}
			e.indices.buf = e.indices.buf[:at+4*(hi-lo)]
		}
		e.writeTypes(f.keys[lo:hi])
		lo = hi
	}
	e.writeColumns(f)
	s.Stats.Add(f.stats)
	if s.opt.Progress != nil {
		s.opt.Progress("sort", e.edges, max(e.edges, s.top.total))
	}
	for _, c := range append([]*column{e.indptr, e.indices}, e.columns...) {
		if c.err != nil {
			return c.err
		}
	}
	return nil
}

// writeIndptr says where the edges of the nodes begin of which these keys are the first.
func (e *emitter) writeIndptr(keys []uint64, shift int) {
	next := uint64(e.node) << shift // the least key of the next node; where it has no bits for that, 0 does no harm
	for i, k := range keys {
		if k < next {
			continue
		}
		for d := int64(k >> shift); e.node <= d; e.node++ {
			e.indptr.number(e.edges + int64(i))
		}
		next = uint64(e.node) << shift
	}
	e.edges += int64(len(keys))
}

func (e *emitter) writeTypes(keys []uint64) {
	if e.types == nil {
		return
	}
	s := e.s
	shift, mask := s.dirBits+s.idBits, uint64(1)<<s.typeBits-1
	e.types.room(2 * len(keys))
	for _, k := range keys {
		t := k >> shift & mask
		if len(s.opt.Types) <= 256 {
			e.types.buf = append(e.types.buf, byte(t))
		} else {
			e.types.buf = binary.LittleEndian.AppendUint16(e.types.buf, uint16(t))
		}
	}
}

func (e *emitter) writeColumns(f *leaf) {
	for c, w := range e.s.widths {
		col, at, record := e.columns[c], e.s.places[c], e.s.record
		if w > sinkBuffer {
			for _, i := range f.numbers {
				col.flush()
				if col.err == nil {
					_, col.err = col.w.Write(f.rows[int64(i)*record+at:][:w])
				}
			}
			continue
		}
		for _, i := range f.numbers {
			col.room(int(w))
			col.buf = append(col.buf, f.rows[int64(i)*record+at:][:w]...)
		}
	}
}
