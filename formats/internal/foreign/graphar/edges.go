package graphar

import (
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/unified"
)

// readEdges makes edge types.
func (x *reading) readEdges() error {
	for i, e := range x.edges {
		for _, other := range x.edges[:i] {
			if other.Src == e.Src && other.Edge == e.Edge && other.Dst == e.Dst {
				return source.Error(e.at.Path(), "", -1, remedyYAML, errors.New("the edge type is there twice"))
			}
		}
		for _, name := range []string{e.Src, e.Dst} {
			if x.vertex(name) == nil {
				return source.Error(e.at.Path(), "", -1, "name its YAML under vertices of NAME.graph.yml",
					fmt.Errorf("there is no vertex type %.60q", name))
			}
		}
		p, err := x.list(e)
		if err != nil {
			return err
		}
		wide, err := p.table()
		if err != nil {
			return err
		}
		x.mapping.Edges = append(x.mapping.Edges, tables.EdgeTable{Relation: e.Edge, Source: e.Src, Target: e.Dst,
			Src: srcIndex, Dst: dstIndex, Wide: wide})
	}
	return nil
}

// parts is an adjacency list, cut into a part for each chunk of the vertices that it is aligned by.
type parts struct {
	*reading
	e      *edgeInfo
	l      *adjacent
	folder source.Place
	vertex *vertexInfo
	size   int64   // of a part: vertices
	edges  []int64 // of each part
}

// list returns the adjacency list that is read, with the counts of its parts: the best that is there.
func (x *reading) list(e *edgeInfo) (*parts, error) {
	all := e.lists()
	if all == nil {
		kinds := "none"
		if len(e.Lists) > 0 {
			kinds = e.Lists[0].FileType
		}
		return nil, unread(e.at, "its adjacency lists are", kinds)
	}
	best := 0
	for i := len(all) - 1; i >= 0; i-- {
		if folder := x.folderOf(e, all[i]); folder.In("edge_count0").Exists() || folder.In("vertex_count").Exists() {
			best = i
		}
	}
	p := &parts{reading: x, e: e, l: all[best], folder: x.folderOf(e, all[best]), vertex: x.vertex(e.Src),
		size: e.SrcChunk}
	if p.l.Aligned == "dst" {
		p.vertex, p.size = x.vertex(e.Dst), e.DstChunk
	}
	return p, p.count()
}

// folderOf returns the folder of a list.
func (x *reading) folderOf(e *edgeInfo, l *adjacent) source.Place {
	if l.Prefix == "" {
		return x.data.In(e.Prefix).In(l.name())
	}
	return x.data.In(e.Prefix).In(l.Prefix)
}

// count reads how many edges each part has.
func (p *parts) count() error {
	if at := p.folder.In("vertex_count"); at.Exists() {
		if n, err := countAt(at); err != nil {
			return err
		} else if n != p.vertex.count {
			return source.Error(at.Path(), "", -1, "write the count again",
				fmt.Errorf("there are %d vertices, and %q has %d", n, p.vertex.Type, p.vertex.count))
		}
	}
	for left := p.vertex.count; left > 0; left -= p.size {
		n, err := countAt(p.countFile(len(p.edges)))
		if err != nil {
			return err
		}
		if p.total += n; p.total > most {
			return source.Error(p.countFile(len(p.edges)).Path(), "", -1, "write the count again",
				fmt.Errorf("there are %d edges so far", p.total))
		}
		p.edges = append(p.edges, n)
	}
	if at := p.countFile(len(p.edges)); at.Exists() && len(p.edges) > 0 {
		return source.Error(at.Path(), "", -1, "write vertex_count again, or remove the part",
			fmt.Errorf("the part is beyond the %d that vertex_count asks for", len(p.edges)))
	}
	return nil
}

// countFile returns the file that says how many edges a part has.
func (p *parts) countFile(part int) source.Place { return p.folder.In(fmt.Sprint("edge_count", part)) }

// table lays the ends of the edges and their properties side by side.
func (p *parts) table() (*tables.Wide, error) {
	wide := &tables.Wide{At: p.e.at, Name: p.e.at.Name}
	ends := tables.Group{CSV: p.l.FileType == "csv"}
	for _, name := range []string{srcIndex, dstIndex} {
		ends.Columns = append(ends.Columns, columnar.Field{Name: name, DType: unified.Int64, Width: 1})
	}
	for k, n := range p.edges {
		if p.ctx.Err() != nil {
			return nil, p.ctx.Err()
		}
		next := rowsOf(n, p.e.Chunk, fmt.Sprint("edge_count", k))
		files, err := chunks(p.folder.In(fmt.Sprint("adj_list/part", k)), next)
		if err != nil {
			return nil, err
		}
		ends.Files, wide.Chunks = append(ends.Files, files...), append(wide.Chunks, rowsOfAll(next, len(files))...)
	}
	wide.Groups = append(wide.Groups, ends)
	for i := range p.e.Groups {
		if err := p.addGroup(wide, &p.e.Groups[i], p.e.at, func(t *tables.Group, prefix string) error {
			for k, n := range p.edges {
				files, err := chunks(p.folder.In(prefix).In(fmt.Sprint("part", k)), rowsOf(n, p.e.Chunk,
					fmt.Sprint("edge_count", k)))
				if err != nil {
					return err
				}
				t.Files = append(t.Files, files...)
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return wide, p.checkOffsets()
}

// checkOffsets compares where edges begin with how many there are. Offsets that are missing are not needed.
func (p *parts) checkOffsets() error {
	if !p.l.Ordered {
		return nil
	}
	missing := int64(0)
	for k, n := range p.edges {
		at := p.folder.In(fmt.Sprint("offset/chunk", k))
		files := chunkFiles(at)
		if files == nil {
			missing++
			continue
		}
		rows, last := int64(0), int64(0)
		wrong := func(err error) error {
			return source.Error(at.Path(), offsets, -1, "write the adjacency list again, with its offsets", err)
		}
		if err := tables.Numbers(p.ctx, files, offsets, p.r, func(v int64) error {
			if v < last || rows == 0 && v != 0 || v > n {
				return wrong(fmt.Errorf("offset %d of the part is %d, behind %d, of %d edges", rows, v, last, n))
			}
			rows, last = rows+1, v
			return nil
		}); err != nil {
			return err
		}
		if want := min(p.size, p.vertex.count-int64(k)*p.size) + 1; rows < want || last != n {
			return wrong(fmt.Errorf("there are %d offsets up to %d, for %d vertices and %d edges", rows, last, want-1,
				n))
		}
	}
	if missing > 0 {
		p.said.Note("%s: the offsets of %s are not there, and not needed", p.e.at.Name,
			source.Counted(missing, "part", "parts"))
	}
	return nil
}
