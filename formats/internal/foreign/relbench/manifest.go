package relbench

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// manifestName is what manifests are called, of a database and of a task.
const manifestName = "manifest.yaml"

// manifest is that of a database.
type manifest struct {
	Version int       `yaml:"manifest_version"`
	Val     string    `yaml:"val_timestamp"`
	Test    string    `yaml:"test_timestamp"`
	Tables  yaml.Node `yaml:"tables"` // in their order

	list []table
}

// table says what a table's columns are.
type table struct {
	name  string
	Key   string    `yaml:"pkey"`
	Time  string    `yaml:"time_col"`
	FKeys yaml.Node `yaml:"fkeys"` // column: table, in their order
	File  string    `yaml:"file"`  // of a folder that has its tables elsewhere; "": db/NAME.parquet
	// Kinds says what columns mean, where it should not be found out.
	Kinds map[string]string `yaml:"kinds"`

	keys []tables.Key
}

// newest is the version of manifests that is known.
const newest = 1

// parse reads a manifest. An error is about what it says.
func parse(text []byte) (*manifest, error) {
	var m manifest
	if err := yaml.Unmarshal(text, &m); err != nil {
		return nil, errors.New(strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\n", ""), "yaml: "))
	}
	if m.Version > newest {
		return nil, fmt.Errorf("the manifest is of version %d, and %d is known", m.Version, newest)
	}
	if m.Tables.Kind != yaml.MappingNode || len(m.Tables.Content) == 0 {
		return nil, errors.New(`the manifest has no "tables" by name`)
	}
	for i := 0; i+1 < len(m.Tables.Content); i += 2 {
		t := table{name: m.Tables.Content[i].Value}
		if err := m.Tables.Content[i+1].Decode(&t); err != nil {
			return nil, fmt.Errorf("the table %.40q: %.200s", t.name, err)
		}
		if err := t.readKeys(); err != nil {
			return nil, err
		}
		m.list = append(m.list, t)
	}
	for _, t := range m.list {
		for _, k := range t.keys {
			if m.table(k.To) == nil {
				return nil, fmt.Errorf("the key %q of table %q is to table %q, which the manifest does not have",
					k.Column, t.name, k.To)
			}
		}
	}
	return &m, nil
}

func (m *manifest) table(name string) *table {
	i := slices.IndexFunc(m.list, func(t table) bool { return t.name == name })
	if i < 0 {
		return nil
	}
	return &m.list[i]
}

// readKeys reads the foreign keys of a table.
func (t *table) readKeys() error {
	switch t.FKeys.Kind {
	case 0, yaml.ScalarNode: // none
		return nil
	case yaml.MappingNode:
	default:
		return fmt.Errorf("the table %q: fkeys are wanted as column: table", t.name)
	}
	for i := 0; i+1 < len(t.FKeys.Content); i += 2 {
		column, to := t.FKeys.Content[i].Value, t.FKeys.Content[i+1].Value
		t.keys = append(t.keys, tables.Key{Column: column, To: to, Relation: tables.ForwardKey + column,
			Reverse: tables.BackwardKey + column, Dangling: true})
	}
	return nil
}

// all is the request to take rows of any time.
const all = "all"

// mapping says what the tables are, without columns that a task hides.
func (m *manifest) mapping(at source.Place, r *source.Request, hidden [][2]string) (*tables.Mapping, error) {
	until := cmp.Or(r.UpTo, m.Test)
	if until == all {
		until = ""
	}
	mapping := &tables.Mapping{Asked: r.UpTo != ""}
	for _, t := range m.list {
		n := tables.NodeTable{Type: t.name, ID: t.Key, ByRow: t.Key == "", Time: t.Time, Keys: t.keys,
			Kinds: t.Kinds}
		if n.Kinds == nil {
			n.Kinds = map[string]string{}
		}
		if t.Time != "" {
			n.Until = until
		}
		file, err := t.file(at)
		if err != nil {
			return nil, err
		}
		n.Files = tables.Words{file}
		for _, h := range hidden {
			if h[0] == t.name {
				n.Without = append(n.Without, h[1])
			}
		}
		mapping.Nodes = append(mapping.Nodes, n)
	}
	return mapping, nil
}

// file returns the file or folder of a table.
func (t *table) file(at source.Place) (string, error) {
	if t.File != "" {
		return t.File, nil
	}
	for _, dir := range []string{"db/", ""} {
		if name, ok := tableBeside(at, dir+t.name); ok {
			return name, nil
		}
	}
	return "", source.Error(at.Path(), "", -1, `a table lies in db/NAME.parquet, or "file" names it`,
		fmt.Errorf("there is no file of the table %q", t.name))
}

// tableBeside returns the file or folder of a table, by its name without an extension or with one.
func tableBeside(at source.Place, name string) (string, bool) {
	for _, ext := range append(slices.Clip(tables.Extensions), "") {
		if tables.Named(at, name+ext) {
			return name + ext, true
		}
	}
	return "", false
}
