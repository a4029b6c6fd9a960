package tables

import (
	"context"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/arrow"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/parquet"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/option"
)

// Reader reads tables by a mapping, or a single table of edges.
var Reader = source.Reader{Name: "tables", Title: "tables (Parquet, Arrow, CSV) by a mapping, or a table of edges",
	Options: []string{"ids", "columns", "null"}, Find: findGraphs, Read: readGraph, Plan: plan}

func findGraphs(t *source.Tree) (found []string) {
	for _, name := range t.Files() {
		head, err := t.At(name).Head()
		if err != nil {
			continue
		}
		switch ext := strings.ToLower(path.Ext(name)); {
		case slices.Contains([]string{".yaml", ".yml", ".json"}, ext):
			if h := string(head); !strings.Contains(h, "nodes") && !strings.Contains(h, "edges") &&
				!strings.Contains(h, "keys") {
				continue
			}
			if m, err := readMapping(t.At(name)); err == nil && hasFiles(m) || err != nil &&
				(t.Single() && ext != ".json" || isMeant(t.At(name))) {
				found = append(found, name)
			}
		case t.Single() && isTable(head):
			found = append(found, name)
		}
	}
	if found == nil && !t.Single() {
		found = plainFolders(t)
	}
	return found
}

// IsTable reports whether a file is a table in Parquet or Arrow, by its first bytes.
func IsTable(at source.Place) bool {
	head, err := at.Head()
	return err == nil && isTable(head)
}

// isTable reports whether a file's first bytes are those of Parquet or Arrow.
func isTable(head []byte) bool {
	s := string(head)
	return strings.HasPrefix(s, parquet.Magic) || arrow.Is(head)
}

// isMeant reports whether a text that is no mapping is meant as one: it names nodes or edges, and something of each.
// Then reading it says what is wrong.
func isMeant(at source.Place) (is bool) {
	_ = at.Parse("", func(text []byte) error {
		var parts map[string]map[string]any
		if yaml.Unmarshal(text, &parts) != nil || len(parts) > 3 {
			return nil
		}
		is = len(parts["edges"]) > 0 || len(parts["nodes"]) > 0
		return nil
	})
	return is
}

func hasFiles(m *Mapping) bool {
	return slices.ContainsFunc(m.Edges, func(e EdgeTable) bool { return len(e.Files) > 0 }) ||
		slices.ContainsFunc(m.Nodes, func(n NodeTable) bool { return len(n.Files) > 0 && len(n.Keys) > 0 })
}

// plainFolders returns the tables of edges that lie in a folder with perhaps one of nodes, each a file or a folder of
// parts: edges.parquet, nodes.parquet; else the folder itself, if all that it has is the parts of a table of edges.
func plainFolders(t *source.Tree) (found []string) {
	seen := map[string]bool{}
	for _, name := range t.Files() {
		if isEdges(path.Base(name)) && IsTable(t.At(name)) {
			found = append(found, name)
		}
		for dir := path.Dir(name); dir != "." && !seen[dir]; dir = path.Dir(dir) {
			if seen[dir] = true; isEdges(path.Base(dir)) && edgesIn(t, dir) {
				found = append(found, dir)
			}
		}
	}
	if found == nil && edgesIn(t, ".") {
		return []string{"."}
	}
	return found
}

// isEdges reports whether a file or folder is called edges.
func isEdges(name string) bool {
	stem, _, _ := strings.Cut(name, ".")
	return stem == "edges"
}

// edgesIn reports whether a folder has parts of one table of edges, and nothing else. One CSV is not a folder of parts.
func edgesIn(t *source.Tree, dir string) bool {
	parts, err := partsOf(t, dir)
	if err != nil || len(parts) == 0 || len(parts) == 1 && parts[0].keys == nil && formatOf(parts[0].Place) == "CSV" {
		return false
	}
	first := &table{list: headerOf(parts[0].Place)}
	if first.has(sources...) < 0 || first.has(destinations...) < 0 {
		return false
	}
	for _, p := range parts[1:] {
		if p.keys == nil && shape(p.Name) != shape(parts[0].Name) || !sameNames(headerOf(p.Place), first.list) {
			return false
		}
	}
	return len(parts) == 1 || parts[0].keys != nil || strings.Contains(shape(parts[0].Name), "#")
}

var (
	number    = regexp.MustCompile(`[0-9]+`)
	sparkPart = regexp.MustCompile(`^part-[0-9]+-.*$`)
)

// shape returns the name of a file with # for each number in it: parts of a table differ in numbers alone.
func shape(name string) string {
	return number.ReplaceAllString(sparkPart.ReplaceAllString(path.Base(name), "part-#"), "#")
}

// headerOf returns the columns of a file, of which a text has but names; nil where they cannot be read.
func headerOf(at source.Place) (list []columnar.Field) {
	if !IsTable(at) {
		for _, name := range firstLine(at) {
			list = append(list, columnar.Field{Name: name})
		}
		return list
	}
	p, err := openPart(context.Background(), at, Format{}, &source.Request{Budget: at.Tree.Budget()})
	if err != nil {
		return nil
	}
	return p.Fields()
}

func readGraph(ctx context.Context, at source.Place, r *source.Request) (*source.Graph, error) {
	m, err := mappingOf(at, r)
	if err != nil {
		return nil, err
	}
	return Read(ctx, at, m, r)
}

// mappingOf returns the mapping at a place, or that of a single table, whose columns a request may name.
func mappingOf(at source.Place, r *source.Request) (*Mapping, error) {
	folder := !at.Exists() && isFolder(at.Tree, at.Name)
	var head []byte
	var err error
	if !folder {
		if head, err = at.Head(); err != nil {
			return nil, err
		}
	}
	if ext := strings.ToLower(path.Ext(at.Name)); folder || isTable(head) || ext == ".csv" || ext == ".tsv" {
		m := plainMapping(at)
		if len(r.Columns) > 0 {
			err = m.nameColumns(r.Columns)
		}
		return m, err
	}
	if len(r.Columns) > 0 {
		return nil, option.Textf("%w: %s is for one table of edges: name the columns in the mapping, by src, dst and "+
			"columns", source.ErrOptions, option.Named("Columns"))
	}
	return readMapping(at)
}

// plainMapping is that of a table of edges, with that of nodes beside it, if there is one.
func plainMapping(at source.Place) *Mapping {
	base := path.Base(at.Name)
	m := &Mapping{Edges: Edges{{Relation: "edge", Files: Words{base}}}}
	if nodes := strings.Replace(base, "edges", "nodes", 1); isEdges(base) && Named(at, nodes) {
		m.Nodes = Nodes{{Type: "node", Files: Words{nodes}}}
	}
	return m
}

// Read makes a graph of tables by a mapping, whose files are beside a place. The caller closes the graph. Errors are
// those of source.Reader.Read. The mapping is the callee's from then on.
func Read(ctx context.Context, at source.Place, m *Mapping, r *source.Request) (_ *source.Graph, err error) {
	if err := m.settle(); err != nil {
		return nil, source.Error(at.Path(), "", -1, `a mapping has "nodes" and "edges" (khop docs convert, "Tables")`,
			err)
	}
	x := &graphOf{m: m, at: at, r: r, g: &source.Graph{}, opened: map[string]*table{}}
	defer source.CloseOnError(&err, x.g)
	if r.Slice != nil {
		if err := x.readSlice(ctx, r.Slice); err != nil {
			return nil, err
		}
		return x.g, nil
	}
	steps := []func(context.Context) error{x.readNodes, x.openEdges, x.countEdges, x.describeEdges}
	if m.Whole {
		steps = slices.Insert(steps, 2, x.findGaps)
	}
	if err := source.Steps(ctx, steps...); err != nil {
		return nil, err
	}
	for i := range x.nodes {
		if err := x.describeNodes(ctx, i); err != nil {
			return nil, err
		}
	}
	x.addTargets()
	for i := range m.Tasks {
		if err := x.readTask(ctx, &m.Tasks[i]); err != nil {
			return nil, err
		}
	}
	return x.g, nil
}
