package export

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// output is an array to be written.
type output struct {
	descr string
	shape []int64 // nil for a scalar
	write func(w io.Writer) error
}

// writeTo writes the array as a .npy file.
func (a *output) writeTo(w io.Writer) error {
	if err := array.WriteHeader(w, a.descr, a.shape); err != nil {
		return err
	}
	return a.write(w)
}

// source is the dataset that is exported.
type source struct {
	ctx context.Context
	ds  *formats.Dataset
	g   *graph.Graph
	s   *graph.Schema
	ids func(i int64) int64 // sources of edges, fused
	typ func(i int64) int   // their types
}

func newSource(ctx context.Context, ds *formats.Dataset) (*source, error) {
	g := ds.Graph()
	x := &source{ctx: ctx, ds: ds, g: g, s: g.Schema(), typ: func(int64) int { return 0 }}
	var err error
	if x.ids, err = unified.Integers(g.Indices()); err != nil {
		return nil, err
	}
	if t := g.Types(); t.Valid() {
		at, err := unified.Integers(t)
		if err != nil {
			return nil, err
		}
		x.typ = func(i int64) int { return int(at(i)) }
	}
	return x, nil
}

// stretch is how many rows of arrays that are read side by side are verified at a time.
const stretch = 1 << 16

// verify compares rows lo to below hi of arrays with their checksums: before they are read, always.
func (x *source) verify(lo, hi int64, arrays ...unified.Tensor) error {
	for _, a := range arrays {
		if !a.Valid() || a.Len() == 0 {
			continue
		}
		row := int64(len(a.Bytes())) / a.Len()
		if err := x.ds.Verify(a.Bytes()[lo*row : min(hi, a.Len())*row]); err != nil {
			return err
		}
	}
	return nil
}

// eachEdge calls yield for the edges of a type, with their position and destination (fused). What yield reads of
// columns is verified.
func (x *source) eachEdge(t int, columns []unified.Tensor, yield func(at, dst int64) error) error {
	return x.edgesTo(x.g.Offset(x.s.Edges[t].Dst), x.g.Offset(x.s.Edges[t].Dst+1), 0, t, columns, yield)
}

// edgesTo is eachEdge for the edges to the nodes first to below last, from a position on.
func (x *source) edgesTo(first, last, from int64, t int, columns []unified.Tensor,
	yield func(at, dst int64) error) error {
	indptr, edges, verified := x.g.Indptr(), x.g.NumEdges(), int64(0)
	read := append([]unified.Tensor{x.g.Indices(), x.g.Types()}, columns...)
	for v := first; v < last; v++ {
		if (v-first)%stretch == 0 {
			if x.ctx.Err() != nil {
				return context.Cause(x.ctx)
			}
			if err := x.verify(v, v+stretch+1, unified.FromSlice(indptr)); err != nil {
				return err
			}
		}
		if indptr[v] < 0 || indptr[v+1] > edges {
			return fmt.Errorf("%s: %w: node %d: its edges are not among %d; %s", x.ds.Path(), formats.ErrCorrupt, v,
				edges, x.ds.Remedy())
		}
		for e := max(indptr[v], from); e < indptr[v+1]; e++ {
			if e >= verified {
				verified = e + stretch
				if err := x.verify(e, verified, read...); err != nil {
					return err
				}
			}
			if x.typ(e) == t {
				if err := yield(e, v); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// words gathers int64 for a writer.
type words struct{ *bufio.Writer }

func newWords(w io.Writer) words { return words{bufio.NewWriterSize(w, 1<<18)} }

func (w words) put(v int64) error {
	_, err := w.Write(binary.LittleEndian.AppendUint64(w.AvailableBuffer(), uint64(v)))
	return err
}

// ends writes one end of all edges of a type: their sources (0) or destinations (1), own ids.
func (x *source) ends(t, end int, w io.Writer) error {
	src, dst := x.g.Offset(x.s.Edges[t].Src), x.g.Offset(x.s.Edges[t].Dst)
	out := newWords(w)
	if err := x.eachEdge(t, nil, func(at, v int64) error {
		if end == 1 {
			return out.put(v - dst)
		}
		return out.put(x.ids(at) - src)
	}); err != nil {
		return err
	}
	return out.Flush()
}

// edgeIndex is both ends of the edges of a type.
func (x *source) edgeIndex(t int) *output {
	return &output{"<i8", []int64{2, x.s.Edges[t].Count}, func(w io.Writer) error {
		if err := x.ends(t, 0, w); err != nil {
			return err
		}
		return x.ends(t, 1, w)
	}}
}

// column is a column of nodes.
func (x *source) column(c graph.Column, t unified.Tensor) *output {
	a := &output{c.DType.NumPy(), append([]int64{t.Len()}, c.Shape...), func(w io.Writer) error {
		return x.ds.Each(t.Bytes(), func(part []byte) error { return x.elements(w, part, c.DType) })
	}}
	if a.descr == "" {
		a.descr = "<f4"
	}
	return a
}

// edgeColumn is a column of the edges of a type.
func (x *source) edgeColumn(c graph.Column, edges unified.Tensor, t int) *output {
	a := x.column(c, edges)
	if len(x.s.Edges) == 1 {
		return a
	}
	a.shape[0] = x.s.Edges[t].Count
	row, data := c.RowBytes(), edges.Bytes()
	a.write = func(w io.Writer) error {
		buf := make([]byte, 0, 1<<18+row)
		flush := func() error {
			err := x.elements(w, buf, c.DType)
			buf = buf[:0]
			return err
		}
		if err := x.eachEdge(t, []unified.Tensor{edges}, func(at, _ int64) error {
			if buf = append(buf, data[at*row:][:row]...); len(buf) < 1<<18 {
				return nil
			}
			return flush()
		}); err != nil {
			return err
		}
		return flush()
	}
	return a
}

// elements writes elements as they are, but those that NumPy does not know as float32.
func (x *source) elements(w io.Writer, data []byte, t unified.DType) error {
	const step = 1 << 20
	var wide []float32
	for ; len(data) > 0; data = data[min(step, len(data)):] {
		if x.ctx.Err() != nil {
			return context.Cause(x.ctx)
		}
		part := data[:min(step, len(data))]
		if t.NumPy() == "" {
			wide = slices.Grow(wide[:0], len(part)/int(t.Size()))[:len(part)/int(t.Size())]
			t.Floats(wide, part)
			part = unified.FromSlice(wide).Bytes()
		}
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// numbers are n whole numbers: what read says when they are written.
func numbers(n int64, read func() (at func(i int64) int64, err error)) *output {
	return &output{"<i8", []int64{n}, func(w io.Writer) error {
		at, err := read()
		if err != nil {
			return err
		}
		out := newWords(w)
		for i := range n {
			if err := out.put(at(i)); err != nil {
				return err
			}
		}
		return out.Flush()
	}}
}

// integers reads whole numbers, which it has verified.
func (x *source) integers(t unified.Tensor) (func(i int64) int64, error) {
	at, err := unified.Integers(t)
	if err == nil {
		err = x.verify(0, t.Len(), t)
	}
	return at, err
}

// list is ids, or labels.
func (x *source) list(t unified.Tensor) *output {
	return numbers(t.Len(), func() (func(i int64) int64, error) { return x.integers(t) })
}

// idsOf reads the nodes of a set.
func (x *source) idsOf(s graph.SeedSet) (func(i int64) int64, error) {
	if s.IDs.Valid() {
		return x.integers(s.IDs)
	}
	return func(i int64) int64 { return i }, nil
}

// seeds are the nodes of a split.
func (x *source) seeds(s graph.SeedSet) *output {
	return numbers(s.Len(), func() (func(i int64) int64, error) { return x.idsOf(s) })
}

// maxText is the most bytes that names take as an array, each of whose elements is as long as the longest.
const maxText = 1 << 30

// names is a list of strings; an error where the longest makes them take too much.
func (x *source) names(list *formats.Strings) (*output, error) {
	longest := int64(1)
	for i := range list.Len() {
		name, err := list.At(i)
		if err != nil {
			return nil, err
		}
		longest = max(longest, int64(utf8.RuneCountInString(name)))
	}
	if 4*longest*list.Len() > maxText {
		return nil, fmt.Errorf("%d names of up to %d characters", list.Len(), longest)
	}
	return &output{fmt.Sprintf("<U%d", longest), []int64{list.Len()}, func(w io.Writer) error {
		var buf []byte
		for i := range list.Len() {
			from := len(buf)
			name, err := list.At(i)
			if err != nil {
				return err
			}
			for _, r := range name {
				buf = binary.LittleEndian.AppendUint32(buf, uint32(r))
			}
			buf = append(buf, make([]byte, 4*longest-int64(len(buf)-from))...)
			if len(buf) > 1<<18 || i == list.Len()-1 {
				if _, err := w.Write(buf); err != nil {
					return err
				}
				buf = buf[:0]
			}
		}
		return nil
	}}, nil
}
