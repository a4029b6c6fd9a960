package tables

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/khop-gnn/khop/formats/internal/source"
)

// Mapping says what of tables is nodes and what is edges.
type Mapping struct {
	Nodes Nodes `yaml:"nodes"`
	Edges Edges `yaml:"edges"`
	// Tasks are tables of what is to be predicted.
	Tasks []TaskTable `yaml:"-"`
	// Whole says that no person has written the mapping: all columns are wanted that a dataset can have. Text of nodes
	// becomes strings, and whole numbers of which some are missing are float64.
	Whole bool `yaml:"-"`
	// Asked says that a person has named what NodeTable.Until leaves out.
	Asked bool `yaml:"-"`
}

// Nodes are the node types by their order.
type Nodes []NodeTable

// Edges are the edge types by their order.
type Edges []EdgeTable

// NodeTable is a node type. A row of the table is a node.
type NodeTable struct {
	Type string `yaml:"-"`
	// Files are paths beside the mapping, which may have * and ? in them; none for a type without a table.
	Files Words `yaml:"file"`
	// Count is the number of nodes of a type without a table; 0: those that edges name.
	Count int64 `yaml:"count"`
	// ID is the column of the ids; "": one called id, node_id or TYPE_id, else the number of the row.
	ID string `yaml:"id"`
	// Features are columns that are laid side by side as "feature".
	Features Words  `yaml:"features"`
	Label    string `yaml:"label"`
	// Split is a column of train, val and test.
	Split string `yaml:"split"`
	Time  string `yaml:"time"`
	// Until is a date or a time: rows whose Time is later, or that have none, are left out; "": none is.
	Until string `yaml:"until"`
	// Columns are stored under their own names; nil: all numbers that have no other part.
	Columns *Words `yaml:"columns"`
	// Without are columns that are left out.
	Without Words `yaml:"without"`
	// Kinds, if not nil, makes the columns those of a table of a database, by what they mean (docs/database.md): of
	// the columns that it names the kind is given, of all others it is found out. Features, Label, Split and Columns do
	// not go with it.
	Kinds map[string]string `yaml:"kinds"`
	// ByRow says that there is no column of ids, whatever columns are called.
	ByRow bool `yaml:"-"`
	// Keys are columns with ids of nodes, each of which makes an edge type, from this type to the other.
	Keys Keys `yaml:"keys"`
	// Wide is the table in place of files; nil: it is not.
	Wide *Wide `yaml:"-"`

	Format `yaml:",inline"`
}

// EdgeTable is an edge type. A row of the table is an edge.
type EdgeTable struct {
	// Relation is the name of the edge type, or source:relation:target.
	Relation string `yaml:"-"`
	Files    Words  `yaml:"file"`
	// Source and Target are node types; "": the only one.
	Source string `yaml:"source"`
	Target string `yaml:"target"`
	// Src and Dst are the columns of the ids.
	Src  string `yaml:"src"`
	Dst  string `yaml:"dst"`
	Time string `yaml:"time"`
	// Until is as that of nodes.
	Until  string `yaml:"until"`
	Weight string `yaml:"weight"`
	Label  string `yaml:"label"`
	// Features are columns that are laid side by side as "feature".
	Features Words `yaml:"features"`
	// Columns are stored under their own names; nil: all numbers that have no other part.
	Columns *Words `yaml:"columns"`
	// Without are columns that are left out.
	Without Words `yaml:"without"`
	// Reverse is the name of an edge type with the same edges the other way round; "": none.
	Reverse string `yaml:"reverse"`
	// Offsets, if set, are files with a column of whole numbers, ptr or the only one: where the edges of each source
	// begin, and the end of the last (CSR). The table has no column of sources then, and its targets are rows.
	Offsets Words `yaml:"-"`
	// Wide is the table in place of files; nil: it is not.
	Wide *Wide `yaml:"-"`

	Format `yaml:",inline"`

	// of foreign keys: the node type whose column Dst is the key; and whether those that no node has are left out
	nodes    *NodeTable
	dangling bool
	names    []string // of the table's columns, in order; nil: their own
}

// TaskTable is a table whose rows are nodes of a type, with a time and what is to be predicted of each. A node may be
// there many times.
type TaskTable struct {
	Task, Split string
	Files       Words
	Nodes       string // a node type
	ID          string // the column of the nodes' ids
	Time, Label string // columns; "": it has none
	From        string // likewise; the first times beside those of Time, in their unit; a row without one has none
	Lookback    string // in place of From: how long before its time that is, in seconds, or the unit of plain numbers
	Masked      bool   // it may lack the labels or targets, which somebody keeps
	// Targets is, in place of labels, a column with lists of ids of nodes of another type, To, which are recommended.
	Targets, To string
}

// Format says how texts are written.
type Format struct {
	Delimiter string `yaml:"delimiter"` // of CSV; "": as its first line tells
	// Header names the columns of a CSV whose first line does not.
	Header Words `yaml:"header"`
	// Null are cells of a CSV that stand for missing values, as an empty one does; nil: those of the request.
	Null Words `yaml:"null"`
}

// Key is a foreign key: a column with the ids of nodes of another type.
type Key struct {
	Column   string `yaml:"-"`
	To       string `yaml:"to"`
	Relation string `yaml:"relation"` // "": the column's name
	Reverse  string `yaml:"reverse"`
	// Dangling says that keys that no node has make no edge, as missing ones do.
	Dangling bool `yaml:"dangling"`
}

// Keys are foreign keys by their order.
type Keys []Key

// Words is one word or a list of them.
type Words []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (w *Words) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		var s string
		err := n.Decode(&s)
		*w = Words{s}
		if n.Tag == "!!null" || s == "" {
			*w = nil
		}
		return err
	}
	var list []string
	err := n.Decode(&list)
	*w = append(Words{}, list...)
	return err
}

// eachKey calls take for the keys of a mapping in their order.
func eachKey(n *yaml.Node, what string, take func(key string, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: %s are wanted by name", n.Line, what)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		value := n.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if err := take(n.Content[i].Value, value); err != nil {
			return err
		}
	}
	return nil
}

// fields decodes a mapping of known keys; the word of a scalar goes to short.
func fields(n *yaml.Node, to any, short func(string)) error {
	switch {
	case n.Kind == yaml.MappingNode:
		known := keysOf(reflect.TypeOf(to).Elem())
		for i := 0; i < len(n.Content); i += 2 {
			if k := n.Content[i]; k.Value == "null" { // a key, and cells that are called so, not nothing
				for _, v := range append([]*yaml.Node{k, n.Content[i+1]}, n.Content[i+1].Content...) {
					if v.Tag == "!!null" {
						v.Tag = "!!str"
					}
				}
			}
		}
		if err := eachKey(n, "", func(key string, v *yaml.Node) error {
			if !slices.Contains(known, key) {
				return fmt.Errorf("line %d: %.40q is not known here; there are: %s", v.Line, key,
					strings.Join(known, ", "))
			}
			return nil
		}); err != nil {
			return err
		}
		return n.Decode(to)
	case n.Kind == yaml.ScalarNode:
		if n.Tag != "!!null" {
			short(n.Value)
		}
		return nil
	case n.Kind == yaml.SequenceNode:
		return fmt.Errorf("line %d: a list, where a file or named fields are wanted", n.Line)
	}
	return fmt.Errorf("line %d: a file or named fields are wanted", n.Line)
}

// keysOf returns the names of the fields of a struct.
func keysOf(t reflect.Type) (list []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		switch name := strings.Split(f.Tag.Get("yaml"), ",")[0]; {
		case f.Anonymous:
			list = append(list, keysOf(f.Type)...)
		case name != "" && name != "-":
			list = append(list, name)
		}
	}
	return list
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (l *Nodes) UnmarshalYAML(n *yaml.Node) error {
	return eachKey(n, "node types", func(name string, v *yaml.Node) error {
		var f NodeTable
		err := fields(v, &f, func(file string) { f.Files = Words{file} })
		f.Type = name
		*l = append(*l, f)
		return err
	})
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (l *Edges) UnmarshalYAML(n *yaml.Node) error {
	return eachKey(n, "edge types", func(name string, v *yaml.Node) error {
		var f EdgeTable
		err := fields(v, &f, func(file string) { f.Files = Words{file} })
		f.Relation = name
		*l = append(*l, f)
		return err
	})
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (l *Keys) UnmarshalYAML(n *yaml.Node) error {
	return eachKey(n, "foreign keys", func(name string, v *yaml.Node) error {
		var f Key
		err := fields(v, &f, func(to string) { f.To = to })
		f.Column = name
		*l = append(*l, f)
		return err
	})
}

// Parse reads a mapping, in YAML or JSON.
func Parse(text []byte) (*Mapping, error) {
	var m Mapping
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&m); err != nil {
		return nil, fmt.Errorf("the mapping: %w", plain(err))
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("the mapping goes on after its end")
	}
	return &m, nil
}

// plain takes the name of the library out of an error.
func plain(err error) error {
	return errors.New(strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "\n", ""))
}

// settle checks a mapping, and fills in what follows from the rest. It is called once.
func (m *Mapping) settle() error {
	if err := m.addKeys(); err != nil {
		return err
	}
	for i := range m.Edges {
		e := &m.Edges[i]
		if part := strings.Split(e.Relation, ":"); len(part) == 3 && e.Source == "" && e.Target == "" {
			e.Source, e.Relation, e.Target = part[0], part[1], part[2]
		}
		if len(e.Files) == 0 && e.nodes == nil && e.Wide == nil {
			return fmt.Errorf("edges %q have no file", e.Relation)
		}
		for _, end := range []*string{&e.Source, &e.Target} {
			switch {
			case *end == "" && len(m.Nodes) > 1:
				return fmt.Errorf("edges %q: say which of the %d node types are their source and target", e.Relation,
					len(m.Nodes))
			case *end == "" && len(m.Nodes) == 1:
				*end = m.Nodes[0].Type
			}
			if *end = cmp.Or(*end, "node"); m.node(*end) < 0 {
				m.Nodes = append(m.Nodes, NodeTable{Type: *end})
			}
		}
	}
	if len(m.Edges) == 0 {
		return errors.New("the mapping has no edges, and no keys that make some: name a table under \"edges\", or " +
			"a column with ids of other rows under \"keys\"")
	}
	return m.checkNames()
}

// addKeys makes edge types of the foreign keys.
func (m *Mapping) addKeys() error {
	for i := range m.Nodes {
		n := &m.Nodes[i]
		if len(n.Keys) > 0 && len(n.Files) == 0 {
			return fmt.Errorf("nodes %q have keys, but no file", n.Type)
		}
		for _, k := range n.Keys {
			m.Edges = append(m.Edges, EdgeTable{Relation: cmp.Or(k.Relation, k.Column), Files: n.Files,
				Source: n.Type, Target: cmp.Or(k.To, n.Type), Dst: k.Column, Columns: &Words{}, Reverse: k.Reverse,
				dangling: k.Dangling, nodes: n})
		}
	}
	return nil
}

// node returns the index of a node type; -1 for none.
func (m *Mapping) node(name string) int {
	return slices.IndexFunc(m.Nodes, func(n NodeTable) bool { return n.Type == name })
}

// checkNames refuses types that are there twice.
func (m *Mapping) checkNames() error {
	seen := map[string]bool{}
	for _, n := range m.Nodes {
		if seen[n.Type] {
			return fmt.Errorf("the node type %q is there twice", n.Type)
		}
		seen[n.Type] = true
	}
	for _, e := range m.Edges {
		names := []string{e.Source + ":" + e.Relation + ":" + e.Target}
		if e.Reverse != "" {
			names = append(names, e.Target+":"+e.Reverse+":"+e.Source)
		}
		for _, name := range names {
			if seen["edge "+name] {
				return fmt.Errorf("the edge type %s is there twice: name one of them otherwise", name)
			}
			seen["edge "+name] = true
		}
	}
	return nil
}

// readMapping reads the mapping in a file.
func readMapping(at source.Place) (m *Mapping, err error) {
	err = at.Parse(`a mapping has "nodes" and "edges" (khop docs convert, "Tables")`, func(text []byte) (err error) {
		m, err = Parse(text)
		return err
	})
	return m, err
}
