package dgl

import (
	"cmp"
	"context"
	"fmt"
	"path"

	"go.yaml.in/yaml/v3"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// Reader reads CSVDatasets.
var Reader = source.Reader{Name: "dgl-csv", Title: "a CSVDataset of DGL: meta.yaml and tables of nodes and edges",
	Options: []string{"null"},
	Find:    findGraphs, Read: readGraph}

// meta is meta.yaml.
type meta struct {
	Version   string `yaml:"version"`
	Separator string `yaml:"separator"`
	Nodes     []struct {
		File string `yaml:"file_name"`
		Type string `yaml:"ntype"`
		ID   string `yaml:"node_id_field"`
	} `yaml:"node_data"`
	Edges []struct {
		File string   `yaml:"file_name"`
		Type []string `yaml:"etype"`
		Src  string   `yaml:"src_id_field"`
		Dst  string   `yaml:"dst_id_field"`
	} `yaml:"edge_data"`
	Graphs *struct {
		File string `yaml:"file_name"`
	} `yaml:"graph_data"`
}

// readMeta reads a meta.yaml.
func readMeta(at source.Place) (*meta, error) {
	m := &meta{}
	return m, at.Parse("meta.yaml names node_data and edge_data", func(text []byte) error {
		err := yaml.Unmarshal(text, m)
		if err == nil && len(m.Edges) == 0 {
			err = fmt.Errorf("%w: it has no edge_data", source.ErrUnknown)
		}
		return err
	})
}

func findGraphs(t *source.Tree) (found []string) {
	for _, name := range t.Files() {
		if path.Base(name) != "meta.yaml" {
			continue
		}
		if _, err := readMeta(t.At(name)); err == nil {
			found = append(found, name)
		}
	}
	return found
}

func readGraph(ctx context.Context, at source.Place, r *source.Request) (*source.Graph, error) {
	if !at.Exists() {
		at = at.In("meta.yaml")
	}
	m, err := readMeta(at)
	if err != nil {
		return nil, err
	}
	fail := func(format string, args ...any) error {
		return source.Error(at.Path(), "", -1, "", fmt.Errorf(format, args...))
	}
	if m.Graphs != nil {
		return nil, fail("it is a dataset of many graphs, by %q: one is wanted", m.Graphs.File)
	}
	if m.Version != "" && m.Version != "1.0.0" {
		return nil, fail("version %.20q is not supported: 1.0.0 is", m.Version)
	}
	format := tables.Format{Delimiter: m.Separator}
	mapping := &tables.Mapping{}
	for _, n := range m.Nodes {
		mapping.Nodes = append(mapping.Nodes, tables.NodeTable{Type: node(n.Type), Files: tables.Words{n.File},
			ID: cmp.Or(n.ID, "node_id"), Without: tables.Words{"graph_id"}, Format: format})
	}
	for _, e := range m.Edges {
		t := []string{"node", "edge", "node"}
		if len(e.Type) == 3 {
			t = []string{node(e.Type[0]), e.Type[1], node(e.Type[2])}
			if t[1] == "_E" {
				t[1] = "edge"
			}
		} else if len(e.Type) > 0 {
			return nil, fail("the edge type %q is not source, relation and target", e.Type)
		}
		mapping.Edges = append(mapping.Edges, tables.EdgeTable{Source: t[0], Relation: t[1], Target: t[2],
			Files: tables.Words{e.File}, Src: cmp.Or(e.Src, "src_id"), Dst: cmp.Or(e.Dst, "dst_id"),
			Without: tables.Words{"graph_id"}, Format: format})
	}
	return tables.Read(ctx, at, mapping, r)
}

// node returns the name of a node type; that of the only one is left out in meta.yaml.
func node(name string) string {
	if name == "_V" {
		name = ""
	}
	return cmp.Or(name, "node")
}
