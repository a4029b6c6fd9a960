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

// task is the manifest of a task.
type task struct {
	at source.Place

	Name    string      `yaml:"name"`
	Kind    string      `yaml:"kind"`
	Type    string      `yaml:"task_type"`
	Time    string      `yaml:"time_col"`
	Since   string      `yaml:"time_from_col"`
	Back    string      `yaml:"lookback_col"`
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
		table := tables.TaskTable{Task: t.Name, Nodes: t.Table, ID: t.Column, Time: t.Time, From: t.Since,
			Lookback: t.Back, Label: t.Target}
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
			name, ok := tableBeside(t.at, split)
			if !ok {
				continue
			}
			there = true
			file := path.Join("tasks", path.Base(path.Dir(t.at.Name)), name)
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
