package icebug

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/parquet"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// Reader reads graphs in the form icebug-disk.
var Reader = source.Reader{Name: "icebug", Title: "icebug-disk: schema.cypher and Parquet in CSR, as of Ladybug",
	Options: []string{"ids"}, Find: find, Read: read}

// schemaName is what schemas are called.
const schemaName = "schema.cypher"

// Every file may say in its footer which version of the form it has.
const (
	versionKey = "icebug_disk_version"
	version    = "1"
)

func find(t *source.Tree) []string {
	return t.Where(func(at source.Place) bool {
		if path.Base(at.Name) != schemaName && (!t.Single() || path.Ext(at.Name) != ".cypher") {
			return false
		}
		is := false
		_ = at.Parse("", func(text []byte) error {
			s, err := parse(string(text))
			if err != nil {
				is = strings.Contains(string(text), "icebug-disk") // reading it says what is wrong
				return nil
			}
			for _, r := range s.rels {
				_, there := file(at, "indptr", r.name, r.storage)
				is = is || there
			}
			return nil
		})
		return is
	})
}

func read(ctx context.Context, at source.Place, r *source.Request) (*source.Graph, error) {
	if at.Name == "." {
		at = at.In(schemaName)
	}
	var s *schema
	if err := at.Parse("a schema has CREATE NODE TABLE and CREATE REL TABLE (khop docs convert)",
		func(text []byte) (err error) {
			if s, err = parse(string(text)); err == nil && len(s.rels) == 0 {
				err = errors.New("it has no CREATE REL TABLE, and edges come from those")
			}
			return err
		}); err != nil {
		return nil, err
	}
	m, err := s.mapping(at, r)
	if err != nil {
		return nil, err
	}
	g, err := tables.Read(ctx, at, m, r)
	if err == nil && s.others > 0 {
		g.Tell(source.Said, schemaName, int64(s.others), "%s: %s no table, and left out", at.Path(),
			source.Counted(int64(s.others), "statement creates", "statements create"))
	}
	return g, err
}

// mapping says what the tables are.
func (s *schema) mapping(at source.Place, r *source.Request) (*tables.Mapping, error) {
	m := &tables.Mapping{Whole: true}
	known := map[string]string{} // names of node tables, by how they are written in small letters
	for _, n := range s.nodes {
		name, err := checked(at, "nodes", n.name, n.storage, r)
		if err != nil {
			return nil, err
		}
		known[strings.ToLower(n.name)] = n.name
		m.Nodes = append(m.Nodes, tables.NodeTable{Type: n.name, ID: n.key, ByRow: n.key == "", Files: name})
	}
	for _, e := range s.rels {
		edge := tables.EdgeTable{Relation: e.name, Dst: "target"}
		for end, is := range map[*string]string{&edge.Source: e.from, &edge.Target: e.to} {
			if *end = known[strings.ToLower(is)]; *end == "" {
				return nil, source.Error(at.Path(), "", -1, "add its CREATE NODE TABLE",
					fmt.Errorf("edges %.60q lead between %.60q and %.60q, of which one is no node table", e.name,
						e.from, e.to))
			}
		}
		var err error
		if edge.Files, err = checked(at, "indices", e.name, e.storage, r); err != nil {
			return nil, err
		}
		if edge.Offsets, err = checked(at, "indptr", e.name, e.storage, r); err != nil {
			return nil, err
		}
		m.Edges = append(m.Edges, edge)
	}
	return m, nil
}

// file returns the file of a table, as it is named beside the schema. It lies there, or where the schema says; programs
// write its name in small letters, and older ones something before it.
func file(at source.Place, part, table, storage string) (string, bool) {
	storage = strings.TrimSuffix(strings.TrimPrefix(storage, "./"), "/")
	name := part + "_" + table + ".parquet"
	var names []string
	for _, n := range []string{name, strings.ToLower(name)} {
		if names = append(names, n); storage != "" {
			names = append(names, storage+"/"+n, path.Base(storage)+"_"+n)
		}
	}
	for _, n := range names {
		if at.Beside(n).Exists() {
			return n, true
		}
	}
	return name, false
}

// checked returns the file of a table, when it has been found to be of a version that is known.
func checked(at source.Place, part, table, storage string, r *source.Request) (tables.Words, error) {
	name, there := file(at, part, table, storage)
	if !there {
		where := ""
		if storage != "" {
			where = fmt.Sprintf(", and none in the storage %.100q", storage)
		}
		return nil, source.Error(at.Path(), "", -1, "put the files of all tables beside the schema",
			fmt.Errorf("there is no file %q beside it%s", name, where))
	}
	of := at.Beside(name)
	text, err := parquet.Noted(of, r.Budget, versionKey)
	if err == nil && text != "" && strings.TrimPrefix(text, "v") != version {
		err = fmt.Errorf("it is of version %.20q of icebug-disk, and %q is known", text, "v"+version)
	}
	if err != nil {
		return nil, source.Error(of.Path(), "", -1, "export the graph as that", err)
	}
	return tables.Words{name}, nil
}
