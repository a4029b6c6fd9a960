package graphar

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/khop-gnn/khop/formats/internal/source"
)

// graphInfo is what NAME.graph.yml says.
type graphInfo struct {
	Name     string    `yaml:"name"`
	Prefix   string    `yaml:"prefix"` // the folder of all data
	Vertices []string  `yaml:"vertices"`
	Edges    []string  `yaml:"edges"`
	Labels   []string  `yaml:"labels"`
	Extra    yaml.Node `yaml:"extra_info"`
	Version  string    `yaml:"version"`
}

// vertexInfo is what the YAML of a vertex type says.
type vertexInfo struct {
	Type    string   `yaml:"type"`
	Label   string   `yaml:"label"` // what older writers call the type
	Chunk   int64    `yaml:"chunk_size"`
	Prefix  string   `yaml:"prefix"`
	Groups  []group  `yaml:"property_groups"`
	Labels  []string `yaml:"labels"`
	Version string   `yaml:"version"`

	at    source.Place
	count int64
}

// edgeInfo is what the YAML of an edge type says.
type edgeInfo struct {
	Src      string     `yaml:"src_type"`
	Edge     string     `yaml:"edge_type"`
	Dst      string     `yaml:"dst_type"`
	SrcLabel string     `yaml:"src_label"` // what older writers call them
	Label    string     `yaml:"edge_label"`
	DstLabel string     `yaml:"dst_label"`
	Chunk    int64      `yaml:"chunk_size"`
	SrcChunk int64      `yaml:"src_chunk_size"`
	DstChunk int64      `yaml:"dst_chunk_size"`
	Directed *bool      `yaml:"directed"`
	Prefix   string     `yaml:"prefix"`
	Lists    []adjacent `yaml:"adj_lists"`
	Groups   []group    `yaml:"property_groups"`
	Version  string     `yaml:"version"`

	at source.Place
}

// adjacent is an adjacency list: all edges of the type.
type adjacent struct {
	Ordered  bool   `yaml:"ordered"`
	Aligned  string `yaml:"aligned_by"`
	Prefix   string `yaml:"prefix"`
	FileType string `yaml:"file_type"`
	// Groups are where older writers have those of the edge type.
	Groups []group `yaml:"property_groups"`
}

// group is properties that lie in the same files.
type group struct {
	Prefix     string     `yaml:"prefix"`
	FileType   string     `yaml:"file_type"`
	Properties []property `yaml:"properties"`
}

type property struct {
	Name        string `yaml:"name"`
	Type        string `yaml:"data_type"`
	Primary     bool   `yaml:"is_primary"`
	Nullable    *bool  `yaml:"is_nullable"`
	Cardinality string `yaml:"cardinality"`
}

const remedyYAML = "the YAMLs are those of GraphAr, version gar/v1"

// parse reads a YAML, and notes the fields that nobody knows.
func parse(at source.Place, to any, version *string, notes *source.Graph) error {
	if !at.Exists() {
		return source.Error(at.Path(), "", -1, "put it there, or correct NAME.graph.yml",
			errors.New("there is no such file, and NAME.graph.yml names it"))
	}
	return at.Parse(remedyYAML, func(text []byte) error {
		var n yaml.Node
		err := yaml.Unmarshal(text, &n)
		if err == nil {
			err = n.Decode(to)
		}
		if err != nil {
			return errors.New(strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\n", ""), "yaml: "))
		}
		if *version != "" && !known.MatchString(*version) {
			return fmt.Errorf("it is of the version %.40q, and gar/v1 is read", *version)
		}
		if list := unknown(&n, reflect.TypeOf(to).Elem()); list != nil {
			slices.Sort(list)
			list = slices.Compact(list)
			notes.Tell(source.LeftOut, at.Name, int64(len(list)), "%s: fields that are not known are left out: %s",
				at.Name, source.Few(list))
		}
		return nil
	})
}

// known is version 1, perhaps with types of the user's.
var known = regexp.MustCompile(`^gar/v1(\D|$)`)

// unknown returns the fields of a YAML that a type has not.
func unknown(n *yaml.Node, t reflect.Type) (list []string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case n.Kind == yaml.DocumentNode || n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		for _, c := range n.Content {
			list = append(list, unknown(c, t)...)
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct && t != reflect.TypeFor[yaml.Node]():
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i].Value
			f, ok := t.FieldByNameFunc(func(name string) bool {
				f, _ := t.FieldByName(name)
				return f.Tag.Get("yaml") == key
			})
			if !ok || key == "" {
				list = append(list, fmt.Sprintf("%.40q", key))
				continue
			}
			list = append(list, unknown(n.Content[i+1], f.Type)...)
		}
	}
	return list
}

// settle checks what a vertex type is, and fills in defaults.
func (v *vertexInfo) settle() error {
	v.Type = cmp.Or(v.Type, v.Label)
	switch {
	case v.Type == "":
		return errors.New("the vertex type has no name")
	case v.Chunk <= 0 || v.Chunk > most:
		return fmt.Errorf("a chunk_size of %d", v.Chunk)
	}
	v.Prefix = cmp.Or(v.Prefix, v.Type)
	return settleGroups(v.Groups)
}

// settle checks what an edge type is, and fills in defaults.
func (e *edgeInfo) settle() error {
	e.Src, e.Edge, e.Dst = cmp.Or(e.Src, e.SrcLabel), cmp.Or(e.Edge, e.Label), cmp.Or(e.Dst, e.DstLabel)
	switch {
	case e.Src == "" || e.Edge == "" || e.Dst == "":
		return errors.New("the edge type lacks src_type, edge_type or dst_type")
	case min(e.Chunk, e.SrcChunk, e.DstChunk) <= 0 || max(e.Chunk, e.SrcChunk, e.DstChunk) > most:
		return fmt.Errorf("chunks of %d edges, %d and %d vertices", e.Chunk, e.SrcChunk, e.DstChunk)
	}
	e.Prefix = cmp.Or(e.Prefix, e.Src+"_"+e.Edge+"_"+e.Dst)
	for i := range e.Lists {
		l := &e.Lists[i]
		if l.Aligned != "src" && l.Aligned != "dst" {
			return fmt.Errorf("an adjacency list is aligned by %.40q; by src or dst is known", l.Aligned)
		}
		if len(e.Groups) == 0 {
			e.Groups = l.Groups
		}
	}
	return settleGroups(e.Groups)
}

// settleGroups checks properties, whose names differ.
func settleGroups(groups []group) error {
	seen := map[string]bool{}
	for i := range groups {
		g := &groups[i]
		var names []string
		for _, p := range g.Properties {
			if p.Name == "" || seen[p.Name] {
				return fmt.Errorf("the property %q is there twice, or has no name", p.Name)
			}
			seen[p.Name], names = true, append(names, p.Name)
		}
		if names == nil {
			return errors.New("a property group has no properties")
		}
		g.Prefix = cmp.Or(g.Prefix, strings.Join(names, "_"))
	}
	return nil
}

// name is what a list is called, and where it lies unless its prefix says otherwise.
func (l *adjacent) name() string {
	order, end := "unordered", "source"
	if l.Ordered {
		order = "ordered"
	}
	if l.Aligned == "dst" {
		end = "dest"
	}
	return order + "_by_" + end
}

// lists returns the lists of which one is read, the best first: in files that are read, ordered, by destination.
func (e *edgeInfo) lists() (list []*adjacent) {
	for i := range e.Lists {
		if readable(e.Lists[i].FileType) {
			list = append(list, &e.Lists[i])
		}
	}
	order := []string{"ordered_by_dest", "ordered_by_source", "unordered_by_dest", "unordered_by_source"}
	slices.SortStableFunc(list, func(a, b *adjacent) int {
		return cmp.Compare(slices.Index(order, a.name()), slices.Index(order, b.name()))
	})
	return list
}

// readable reports whether files of a type are read.
func readable(fileType string) bool { return fileType == "parquet" || fileType == "csv" }
