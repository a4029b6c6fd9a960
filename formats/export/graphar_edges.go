package export

import (
	"errors"
	"fmt"
	"io"

	"github.com/khop-gnn/khop/formats/internal/parquetrows"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// garPart is the edges of a type to the vertices of a chunk, being written.
type garPart struct {
	*job
	t           int
	first, last int64 // the vertices, fused
	prefix      string
	part        int64
}

// garEdges writes the edges of a type, ordered by destination, and describes them.
func (j *job) garEdges(t int) (*garEdge, error) {
	e := &j.s.Edges[t]
	is := &garEdge{Src: e.Source, Edge: e.Relation, Dst: e.Target, Chunk: edgeChunk, SrcChunk: vertexChunk,
		DstChunk: vertexChunk, Directed: true, Prefix: "edge/" + edgeFolder(e) + "/", Version: garVersion,
		Lists: []garAdjacent{{Ordered: true, Aligned: "dst", Prefix: garList, FileType: "parquet"}}}
	if e.Order == graph.ByTime {
		j.note("edges %v are ordered by time, and GraphAr's by destination alone: khop convert --by-time orders them "+
			"again", e)
	}
	var fields []parquetrows.Field
	for _, c := range j.s.EdgeColumns {
		fields = append(fields, parquetrows.Field{Column: c})
	}
	groups := garFields(fields)
	for i := range groups {
		is.Groups = append(is.Groups, groups[i].group())
	}
	n := j.s.Nodes[e.Dst].Count
	if err := j.count(is.Prefix+garList+"vertex_count", n); err != nil {
		return nil, err
	}
	for k := int64(0); k*vertexChunk < n; k++ {
		p := &garPart{job: j, t: t, first: j.g.Offset(e.Dst) + k*vertexChunk, prefix: is.Prefix + garList, part: k}
		p.last = min(p.first+vertexChunk, j.g.Offset(e.Dst)+n)
		if err := p.write(groups); err != nil {
			return nil, err
		}
	}
	return is, nil
}

// write writes a part: where the edges of each vertex begin, how many there are, and their ends and columns.
func (p *garPart) write(groups []garColumns) error {
	held := 8 * (p.last - p.first + 1)
	if err := p.opt.Memory.Take(pinned.Scratch, held); err != nil {
		return err
	}
	defer p.opt.Memory.Give(pinned.Scratch, held)
	begin := make([]int64, p.last-p.first+1)
	if err := p.edgesTo(p.first, p.last, 0, p.t, nil, func(_, v int64) error {
		begin[v-p.first+1]++
		return nil
	}); err != nil {
		return err
	}
	for i := range begin[1:] {
		begin[i+1] += begin[i]
	}
	n := begin[len(begin)-1]
	if err := p.count(fmt.Sprintf("%sedge_count%d", p.prefix, p.part), n); err != nil {
		return err
	}
	if err := p.file(fmt.Sprintf("%soffset/chunk%d", p.prefix, p.part), func(w io.Writer) error {
		return p.gathered(w, []parquetrows.Field{parquetrows.Number("_graphArOffset")}, int64(len(begin)),
			func(r *rows) error {
				for _, v := range begin {
					r.number(0, v)
					if err := r.next(); err != nil {
						return err
					}
				}
				return nil
			})
	}); err != nil {
		return err
	}
	for c, from := int64(0), (garPlace{v: p.first}); c*edgeChunk < n; c++ {
		next, err := p.chunk(c, from, min(n-c*edgeChunk, edgeChunk), groups)
		if err != nil {
			return err
		}
		from = next
	}
	return nil
}

// garPlace is where edges begin: the vertex that they lead to, and a position.
type garPlace struct{ v, at int64 }

// chunk writes n edges, and returns where the next begin.
func (p *garPart) chunk(c int64, from garPlace, n int64, groups []garColumns) (next garPlace, err error) {
	e := &p.s.Edges[p.t]
	name := fmt.Sprintf("part%d/chunk%d", p.part, c)
	ends := []parquetrows.Field{parquetrows.Number("_graphArSrcIndex"), parquetrows.Number("_graphArDstIndex")}
	if err := p.file(p.prefix+"adj_list/"+name, func(w io.Writer) error {
		return p.gathered(w, ends, n, func(r *rows) (err error) {
			next, err = p.each(from, n, nil, func(at, v int64) error {
				r.number(0, p.ids(at)-p.g.Offset(e.Src))
				r.number(1, v-p.g.Offset(e.Dst))
				return r.next()
			})
			return err
		})
	}); err != nil {
		return next, err
	}
	for _, g := range groups {
		var columns []unified.Tensor
		for _, f := range g.fields {
			col, _ := p.g.EdgeColumn(f.Name)
			columns = append(columns, col)
		}
		if err := p.file(p.prefix+g.prefix+name, func(w io.Writer) error {
			return p.gathered(w, g.fields, n, func(r *rows) error {
				_, err := p.each(from, n, columns, func(at, _ int64) error {
					for i, col := range columns {
						r.copy(i, col, at)
					}
					return r.next()
				})
				return err
			})
		}); err != nil {
			return next, err
		}
	}
	return next, nil
}

// each calls yield for n edges from a place on, and returns where the next begin.
func (p *garPart) each(from garPlace, n int64, columns []unified.Tensor,
	yield func(at, v int64) error) (next garPlace, err error) {
	enough := errors.New("enough")
	err = p.edgesTo(from.v, p.last, from.at, p.t, columns, func(at, v int64) error {
		if n--; n < 0 {
			next = garPlace{v, at}
			return enough
		}
		return yield(at, v)
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return next, err
}
