package relbench

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/khop-gnn/khop/formats/internal/source"
)

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
	return nil, source.Error(at.Path(), "", -1, "name one that is there, by --task",
		fmt.Errorf("there is no task %q; there are: %s", name, source.Few(sorted(names))))
}
