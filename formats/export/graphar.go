package export

import (
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/khop-gnn/khop/formats/internal/parquetrows"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// How many vertices and edges a chunk has, as GraphAr recommends. Tests change them.
var (
	vertexChunk int64 = 1 << 18
	edgeChunk   int64 = 1 << 22
)

// What the YAMLs of GraphAr hold.
type (
	garGraph struct {
		Name     string   `yaml:"name"`
		Vertices []string `yaml:"vertices"`
		Edges    []string `yaml:"edges"`
		Version  string   `yaml:"version"`
	}
	garVertex struct {
		Type    string     `yaml:"type"`
		Chunk   int64      `yaml:"chunk_size"`
		Prefix  string     `yaml:"prefix"`
		Groups  []garGroup `yaml:"property_groups,omitempty"`
		Version string     `yaml:"version"`
	}
	garEdge struct {
		Src      string        `yaml:"src_type"`
		Edge     string        `yaml:"edge_type"`
		Dst      string        `yaml:"dst_type"`
		Chunk    int64         `yaml:"chunk_size"`
		SrcChunk int64         `yaml:"src_chunk_size"`
		DstChunk int64         `yaml:"dst_chunk_size"`
		Directed bool          `yaml:"directed"`
		Prefix   string        `yaml:"prefix"`
		Lists    []garAdjacent `yaml:"adj_lists"`
		Groups   []garGroup    `yaml:"property_groups,omitempty"`
		Version  string        `yaml:"version"`
	}
	garAdjacent struct {
		Ordered  bool   `yaml:"ordered"`
		Aligned  string `yaml:"aligned_by"`
		Prefix   string `yaml:"prefix"`
		FileType string `yaml:"file_type"`
	}
	garGroup struct {
		Prefix     string        `yaml:"prefix"`
		FileType   string        `yaml:"file_type"`
		Properties []garProperty `yaml:"properties"`
	}
	garProperty struct {
		Name     string `yaml:"name"`
		Type     string `yaml:"data_type"`
		Primary  bool   `yaml:"is_primary"`
		Nullable bool   `yaml:"is_nullable"`
	}
)

const (
	garVersion = "gar/v1"
	garList    = "ordered_by_dest/"
)

// garColumns is columns that lie in the same files.
type garColumns struct {
	prefix string
	fields []parquetrows.Field
	from   []int // which of the columns that are given they are
}

// graphar writes a folder in GraphAr's format, in Parquet: vertices by type, and edges ordered by destination.
func graphar(j *job) error {
	if err := j.opt.Memory.Take(pinned.Scratch, parquetrows.WriterBytes); err != nil {
		return err
	}
	defer j.opt.Memory.Give(pinned.Scratch, parquetrows.WriterBytes)
	g := garGraph{Name: safe(strings.TrimSuffix(filepath.Base(j.ds.Path()), ".khop")), Version: garVersion}
	for t := range j.s.Nodes {
		v, err := j.garVertices(t)
		if err != nil {
			return err
		}
		name := safe(v.Type) + ".vertex.yml"
		if err := j.yaml(name, v); err != nil {
			return err
		}
		g.Vertices = append(g.Vertices, name)
	}
	j.tellGarColumns("edges", j.s.EdgeColumns)
	for t := range j.s.Edges {
		e, err := j.garEdges(t)
		if err != nil {
			return err
		}
		name := edgeFolder(&j.s.Edges[t]) + ".edge.yml"
		if err := j.yaml(name, e); err != nil {
			return err
		}
		g.Edges = append(g.Edges, name)
	}
	for _, k := range j.ds.LinkSplits() {
		j.note("links %q are left out: GraphAr has none", k.Name)
	}
	if err := j.yaml(g.Name+".graph.yml", g); err != nil {
		return err
	}
	return j.sign()
}

// yaml writes a value as YAML.
func (j *job) yaml(name string, value any) error {
	return j.file(name, func(w io.Writer) error {
		text, err := yaml.Marshal(value)
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	})
}

// count writes a count: 8 bytes.
func (j *job) count(name string, n int64) error {
	return j.file(name, func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, n) })
}

// garFields lays single values in one group, and each column of lists in one of its own, so that others are read
// without it.
func garFields(fields []parquetrows.Field) (groups []garColumns) {
	single := garColumns{prefix: "properties/"}
	for i, f := range fields {
		f.Plain = true
		if f.Times = f.Unit != "" && len(f.Shape) == 0 && f.DType == unified.Int64; len(f.Shape) == 0 {
			single.fields, single.from = append(single.fields, f), append(single.from, i)
			continue
		}
		groups = append(groups, garColumns{"lists/" + safe(f.Name) + "/", []parquetrows.Field{f}, []int{i}})
	}
	if single.fields != nil {
		groups = append([]garColumns{single}, groups...)
	}
	return groups
}

// group describes columns.
func (c *garColumns) group() garGroup {
	g := garGroup{Prefix: c.prefix, FileType: "parquet"}
	for _, f := range c.fields {
		primary := f.Name == "id"
		g.Properties = append(g.Properties, garProperty{f.Name, garType(&f), primary, f.Times && !primary})
	}
	return g
}

// garType is what GraphAr calls the type of a column.
func garType(f *parquetrows.Field) string {
	kind := "int32"
	switch {
	case f.Text:
		kind = "string"
	case f.Mask:
		kind = "bool"
	case f.Times:
		kind = "timestamp"
	case f.DType == unified.Float64:
		kind = "double"
	case f.DType.IsFloat():
		kind = "float"
	case f.DType.Size() == 8:
		kind = "int64"
	}
	if len(f.Shape) > 0 {
		return "list<" + kind + ">"
	}
	return kind
}

// tellGarColumns notes the columns that come back as others.
func (j *job) tellGarColumns(of string, columns []graph.Column) {
	for _, c := range columns {
		switch name := fmt.Sprintf("%q of %s", c.Name, of); {
		case c.DType == unified.Uint64:
			j.note("%s is int64: numbers from 2^63 on are negative", name)
		case !c.DType.IsFloat() && c.DType.Size() < 4:
			j.note("%s is int32, and was %v", name, c.DType)
		case c.DType.IsHalf():
			j.note("%s is float, and was %v", name, c.DType)
		}
		if c.Unit != "" && (len(c.Shape) > 0 || c.DType != unified.Int64) {
			j.note("%q of %s are times in %s, which are written as numbers", c.Name, of, c.Unit)
		}
		if len(c.Shape) > 1 {
			j.note("%q of %s has rows of the shape %v, which are lists", c.Name, of, c.Shape)
		}
		if c.Fields != nil {
			j.note("%q of %s: what its elements mean is left out", c.Name, of)
		}
	}
}

// garTexts returns the lists of strings that have one for each node of a type, and notes the others.
func (j *job) garTexts(t int) (names []string, err error) {
	names, others, err := NodeTexts(j.ds, t)
	for _, name := range others {
		list, err := j.ds.Strings(t, name)
		if err != nil {
			return nil, err
		}
		j.note("the %d strings %q of %q are left out: they are not of its nodes", list.Len(), name, j.s.Nodes[t].Name)
	}
	return names, err
}
