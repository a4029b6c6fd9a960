package relbench

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/option"
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

// file returns the file of a table, or the files of a folder.
func (t *table) file(at source.Place) (string, error) {
	if t.File != "" {
		return t.File, nil
	}
	for _, dir := range []string{"db/", ""} {
		for _, ext := range tables.Extensions {
			if name := dir + t.name + ext; at.Beside(name).Exists() {
				return name, nil
			}
		}
		for _, f := range at.Tree.Files() {
			if rest, ok := strings.CutPrefix(f, at.Beside(dir+t.name).Name+"/"); ok && !strings.Contains(rest, "/") &&
				strings.HasSuffix(rest, ".parquet") {
				return dir + t.name + "/*.parquet", nil
			}
		}
	}
	return "", source.Error(at.Path(), "", -1, `a table lies in db/NAME.parquet, or "file" names it`,
		fmt.Errorf("there is no file of the table %q", t.name))
}

// task is the manifest of a task.
type task struct {
	at source.Place

	Name    string      `yaml:"name"`
	Kind    string      `yaml:"kind"`
	Type    string      `yaml:"task_type"`
	Time    string      `yaml:"time_col"`
	Table   string      `yaml:"entity_table"`
	Column  string      `yaml:"entity_col"`
	Target  string      `yaml:"target_col"`
	From    string      `yaml:"src_entity_table"`
	FromCol string      `yaml:"src_entity_col"`
	To      string      `yaml:"dst_entity_table"`
	ToCol   string      `yaml:"dst_entity_col"`
	Hidden  [][2]string `yaml:"remove_columns"`

	why string // it is not stored
}

// readTasks reads the manifests of all tasks beside that of a database.
func readTasks(at source.Place) (list []*task, err error) {
	dir := at.Beside("tasks").Name + "/"
	for _, f := range at.Tree.Files() {
		if !strings.HasPrefix(f, dir) || path.Base(f) != manifestName || strings.Count(f[len(dir):], "/") != 1 {
			continue
		}
		t := &task{at: at.Tree.At(f)}
		if err := t.at.Parse("a task's manifest is written as RelBench's", func(text []byte) error {
			if err := yaml.Unmarshal(text, t); err != nil {
				return errors.New(strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\n", ""), "yaml: "))
			}
			return nil
		}); err != nil {
			return nil, err
		}
		if t.Name == "" {
			t.Name = path.Base(path.Dir(f))
		}
		list = append(list, t)
	}
	return list, nil
}

// autocompletes reports whether the labels are a column of the table itself, which nobody who predicts it may see.
func (t *task) autocompletes() bool { return t.Kind == "autocomplete" }

// complete fills in what the manifest of such a task leaves to that of the database: the key and the time of the rows.
func (t *task) complete(m *manifest) {
	of := m.table(t.Table)
	if !t.autocompletes() || of == nil {
		return
	}
	t.Column, t.Time = cmp.Or(t.Column, of.Key, rowNumbers), cmp.Or(t.Time, of.Time)
	t.Hidden = append(t.Hidden, [2]string{t.Table, t.Target})
}

// rowNumbers is what a task's table calls the number of a row in a table without a key.
const rowNumbers = "primary_key"

// addTasks adds the tables of the tasks to a mapping, and returns the tasks that are not stored.
func addTasks(m *tables.Mapping, at source.Place, list []*task) (left []*task) {
	for _, t := range list {
		table := tables.TaskTable{Task: t.Name, Nodes: t.Table, ID: t.Column, Time: t.Time, Label: t.Target}
		if t.From != "" {
			table.Nodes, table.ID, table.Label = t.From, t.FromCol, ""
			table.To, table.Targets = t.To, t.ToCol
		}
		if table.ID == "" || table.Nodes == "" {
			t.why = "its manifest names no table and no column with the keys of its rows"
			left = append(left, t)
			continue
		}
		there := false
		for _, split := range []string{"train", "val", "test"} {
			i := slices.IndexFunc(tables.Extensions, func(ext string) bool {
				return t.at.Beside(split + ext).Exists()
			})
			if i < 0 {
				continue
			}
			there = true
			file := path.Join("tasks", path.Base(path.Dir(t.at.Name)), split+tables.Extensions[i])
			table.Split, table.Files, table.Masked = split, tables.Words{file}, split == "test"
			m.Tasks = append(m.Tasks, table)
		}
		if !there {
			t.why = "it has no tables: RelBench makes them when it loads the task"
			left = append(left, t)
		}
	}
	return left
}

// hiddenBy returns the columns, by table, that a task must not see; none without a task.
func hiddenBy(at source.Place, list []*task, name string) ([][2]string, error) {
	var names []string
	for _, t := range list {
		if t.Name == name {
			return t.Hidden, nil
		}
		names = append(names, t.Name)
	}
	if name == "" {
		return nil, nil
	}
	slices.Sort(names)
	return nil, source.Error(at.Path(), "", -1, option.Textf("name one that is there, by %s", option.Named("Task")),
		fmt.Errorf("there is no task %q; there are: %s", name, source.Few(names)))
}
