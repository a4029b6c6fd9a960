package graphar

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// Reader reads graphs.
var Reader = source.Reader{Name: "graphar", Find: find, Read: read,
	Title: "a graph in GraphAr's format: NAME.graph.yml and chunks in Parquet or CSV"}

// suffixes are those of what names the parts of a graph.
var suffixes = []string{".graph.yml", ".graph.yaml"}

func isGraphFile(name string) bool {
	return slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) })
}

func find(t *source.Tree) []string {
	return t.Where(func(at source.Place) (is bool) {
		ext := path.Ext(at.Name)
		if !isGraphFile(at.Name) && (!t.Single() || ext != ".yml" && ext != ".yaml") {
			return false
		}
		_ = at.Parse("", func(text []byte) error {
			var m struct {
				Vertices []string `yaml:"vertices"`
				Edges    []string `yaml:"edges"`
				Version  string   `yaml:"version"`
			}
			is = yaml.Unmarshal(text, &m) == nil && (m.Vertices != nil || m.Edges != nil && isGraphFile(at.Name)) ||
				isGraphFile(at.Name) && strings.HasPrefix(m.Version, "gar/")
			return nil
		})
		return is
	})
}

// reading is a graph being read.
type reading struct {
	ctx      context.Context
	at, data source.Place // the YAML of the graph, and the folder of the data
	r        *source.Request
	vertices []*vertexInfo
	edges    []*edgeInfo
	said     *source.Graph // has the notes until there is a graph
	mapping  tables.Mapping
	total    int64 // edges of all types
}

func read(ctx context.Context, at source.Place, r *source.Request) (_ *source.Graph, err error) {
	if at.Name == "." {
		return nil, source.Error(at.Path(), "", -1, "name the folder that has it, or the file",
			errors.New("there is no NAME.graph.yml"))
	}
	x := &reading{ctx: ctx, at: at, r: r, said: &source.Graph{}}
	for _, step := range []func() error{x.readInfo, x.readVertices, x.readEdges, x.checkSparse} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	g, err := tables.Read(ctx, at, &x.mapping, r)
	if err != nil {
		return nil, err
	}
	g.Notes = append(x.said.Notes, g.Notes...)
	x.direct(g)
	return g, nil
}

// readInfo reads the YAMLs.
func (x *reading) readInfo() error {
	var g graphInfo
	if err := parse(x.at, &g, &g.Version, x.said); err != nil {
		return err
	}
	x.data = x.at.Beside(".")
	if strings.Contains(g.Prefix, ":") || path.IsAbs(g.Prefix) {
		x.said.Note("the prefix %.80q is of another place: files are looked for beside %s", g.Prefix, x.at.Name)
	} else {
		x.data = x.data.In(g.Prefix)
	}
	if !g.Extra.IsZero() {
		x.said.Tell(source.LeftOut, "extra_info", 1, "%q is not stored", "extra_info")
	}
	if len(g.Vertices) == 0 || len(g.Edges) == 0 {
		return source.Error(x.at.Path(), "", -1, remedyYAML, errors.New("it names no vertices, or no edges"))
	}
	for _, name := range g.Vertices {
		v := &vertexInfo{at: x.at.Beside(name)}
		if err := x.settled(v.at, v, &v.Version, v.settle); err != nil {
			return err
		}
		x.vertices = append(x.vertices, v)
	}
	for _, name := range g.Edges {
		e := &edgeInfo{at: x.at.Beside(name)}
		if err := x.settled(e.at, e, &e.Version, e.settle); err != nil {
			return err
		}
		x.edges = append(x.edges, e)
	}
	return nil
}

// settled reads the YAML of a type, which must make sense.
func (x *reading) settled(at source.Place, to any, version *string, settle func() error) error {
	if err := parse(at, to, version, x.said); err != nil {
		return err
	}
	if err := settle(); err != nil {
		return source.Error(at.Path(), "", -1, remedyYAML, err)
	}
	return nil
}

// vertex returns a vertex type by its name; nil for none.
func (x *reading) vertex(name string) *vertexInfo {
	i := slices.IndexFunc(x.vertices, func(v *vertexInfo) bool { return v.Type == name })
	if i < 0 {
		return nil
	}
	return x.vertices[i]
}

// readVertices makes node types of the vertex types.
func (x *reading) readVertices() (err error) {
	for _, v := range x.vertices {
		if x.vertex(v.Type) != v {
			return source.Error(v.at.Path(), "", -1, remedyYAML,
				fmt.Errorf("the vertex type %q is there twice", v.Type))
		}
		folder := x.data.In(v.Prefix)
		if v.count, err = countAt(folder.In("vertex_count")); err != nil {
			return err
		}
		wide, next := &tables.Wide{At: v.at, Name: v.at.Name}, rowsOf(v.count, v.Chunk, "vertex_count")
		for i := range v.Groups {
			if err := x.addGroup(wide, &v.Groups[i], v.at, func(g *tables.Group, prefix string) (err error) {
				g.Index = vertexIndex
				g.Files, err = chunks(folder.In(prefix), next)
				return err
			}); err != nil {
				return err
			}
		}
		if err := x.addLabels(wide, v, folder.In("labels"), next); err != nil {
			return err
		}
		if wide.Chunks = []tables.Chunk{{Rows: v.count, By: "vertex_count"}}; len(wide.Groups) > 0 {
			wide.Chunks = rowsOfAll(next, len(wide.Groups[0].Files))
		}
		x.mapping.Nodes = append(x.mapping.Nodes, tables.NodeTable{Type: v.Type, ByRow: true, Wide: wide})
	}
	return nil
}

// addLabels adds the labels that a vertex may have, several at a time: a column of booleans each.
func (x *reading) addLabels(to *tables.Wide, v *vertexInfo, folder source.Place,
	next func(int64) (tables.Chunk, bool)) (err error) {
	if len(v.Labels) == 0 {
		return nil
	}
	if chunkFiles(folder.In("chunk0")) == nil {
		x.said.Tell(source.LeftOut, v.Type, int64(len(v.Labels)),
			"%s: its labels are left out: there is no chunk of them", v.at.Name)
		return nil
	}
	g := group{Prefix: "labels", FileType: "parquet"}
	for _, name := range v.Labels {
		g.Properties = append(g.Properties, property{Name: name, Type: "bool"})
	}
	if err := settleGroups(append(slices.Clone(v.Groups), g)); err != nil {
		return source.Error(v.at.Path(), "", -1, remedyYAML, fmt.Errorf("labels: %w", err))
	}
	return x.addGroup(to, &g, v.at, func(t *tables.Group, _ string) (err error) {
		t.Index = vertexIndex
		t.Files, err = chunks(folder, next)
		return err
	})
}

// addGroup adds the table of a property group, whose files are found.
func (x *reading) addGroup(to *tables.Wide, g *group, at source.Place,
	find func(t *tables.Group, prefix string) error) error {
	if !readable(g.FileType) {
		return unread(at, fmt.Sprintf("the property group %.80q is", g.Prefix), g.FileType)
	}
	t := tables.Group{CSV: g.FileType == "csv"}
	for i := range g.Properties {
		p := &g.Properties[i]
		f, known := p.field()
		if !known {
			x.said.Tell(source.LeftOut, p.Name, 1, "%s: %q is left out: it is of the type %.40q, which is not known",
				at.Name, p.Name, p.Type)
			continue
		}
		t.Columns = append(t.Columns, f)
	}
	if err := find(&t, g.Prefix); err != nil {
		return err
	}
	to.Groups = append(to.Groups, t)
	return nil
}

// unread is the error of files that no reader is for.
func unread(at source.Place, what, fileType string) error {
	return source.Error(at.Path(), "", -1, "write the graph by GraphAr with the file type parquet or csv",
		fmt.Errorf("%s in files of the type %.40q, and parquet and csv are read", what, fileType))
}

// checkSparse refuses more vertices than the source has bytes for.
func (x *reading) checkSparse() error {
	for i, v := range x.vertices {
		if len(x.mapping.Nodes[i].Wide.Groups) == 0 && source.TooSparse(v.count, x.total) {
			return source.Error(x.data.In(v.Prefix).In("vertex_count").Path(), "", -1, "write the count again",
				fmt.Errorf("there are %d vertices without a property, but only %s", v.count,
					source.Counted(x.total, "edge", "edges")))
		}
	}
	return nil
}

// direct says which way edges go. The format lists an undirected edge once.
func (x *reading) direct(g *source.Graph) {
	var both, unsaid []string
	for _, e := range x.edges {
		switch name := fmt.Sprintf("%q", e.Edge); {
		case e.Directed == nil:
			unsaid = append(unsaid, name)
		case !*e.Directed:
			both = append(both, name)
		}
	}
	if len(unsaid) > 0 {
		g.Note("nothing says whether the edges %s are directed: they are taken to be", source.Few(unsaid))
	}
	if g.Edges.Undirected = len(both) == len(x.edges) && !slices.ContainsFunc(x.edges, func(e *edgeInfo) bool {
		return e.Src != e.Dst
	}); !g.Edges.Undirected && len(both) > 0 {
		g.Note("the edges %s are undirected, and stored as listed: others are directed, or lead to other types",
			source.Few(both))
	}
}
