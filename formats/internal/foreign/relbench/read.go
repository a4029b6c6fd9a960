package relbench

import (
	"context"
	"errors"
	"path"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/option"
)

// Reader reads databases.
var Reader = source.Reader{Name: "relbench", Title: "a database in RelBench's folder form: manifest.yaml and tables",
	Options: []string{"ids", "upto", "task", "null"}, Find: find, Read: read}

func find(t *source.Tree) []string {
	return t.Where(func(at source.Place) bool {
		ext := path.Ext(at.Name)
		return (path.Base(at.Name) == manifestName || t.Single() && (ext == ".yaml" || ext == ".yml")) && isDatabase(at)
	})
}

// isDatabase reports whether a text is meant as the manifest of a database: tables of which one has a key.
func isDatabase(at source.Place) (is bool) {
	_ = at.Parse("", func(text []byte) error {
		var m struct {
			Tables map[string]map[string]any `yaml:"tables"`
		}
		if yaml.Unmarshal(text, &m) != nil {
			return nil
		}
		for _, t := range m.Tables {
			_, key := t["pkey"]
			_, keys := t["fkeys"]
			is = is || key || keys
		}
		return nil
	})
	return is
}

func read(ctx context.Context, at source.Place, r *source.Request) (*source.Graph, error) {
	if at.Name == "." {
		at = at.In(manifestName)
	}
	var m *manifest
	if err := at.Parse("a manifest is written as RelBench's (khop docs database)",
		func(text []byte) (err error) {
			m, err = parse(text)
			return err
		}); err != nil {
		return nil, err
	}
	all, err := readTasks(at)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		t.complete(m)
	}
	hidden, err := hiddenBy(at, all, r.Task)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(m.list, func(t table) bool { return len(t.keys) > 0 }) {
		return nil, source.Error(at.Path(), "", -1,
			`name foreign keys under "fkeys" of a table, as in fkeys: {user: users}`,
			errors.New("no table has a foreign key, and edges come from them"))
	}
	mapping, err := m.mapping(at, r, hidden)
	if err != nil {
		return nil, err
	}
	left := addTasks(mapping, at, all)
	g, err := tables.Read(ctx, at, mapping, r)
	if err != nil {
		return nil, err
	}
	g.TimeUnit = "s" // as RelBench counts
	for _, t := range left {
		g.Tell(source.LeftOut, t.Name, 1, "the task %q is not stored: %s", t.Name, t.why)
	}
	for _, t := range all {
		if t.autocompletes() && t.why == "" && t.Name != r.Task {
			g.Tell(source.Said, t.Name, 1, "the task %q predicts the column %q of %q, which is stored: leave "+
				"it out by %s %s", t.Name, t.Target, t.Table, option.Named("Task"), t.Name)
		}
	}
	if len(hidden) > 0 {
		g.Tell(source.Said, r.Task, int64(len(hidden)), "hidden, for the task %q must not see them: %v", r.Task, hidden)
	}
	return g, nil
}
