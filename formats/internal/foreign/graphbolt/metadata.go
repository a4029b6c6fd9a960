package graphbolt

import (
	"fmt"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/khop-gnn/khop/formats/internal/source"
)

// metadata is metadata.yaml.
type metadata struct {
	Graph *struct {
		Nodes []struct {
			Type string `yaml:"type"`
			Num  int64  `yaml:"num"`
		} `yaml:"nodes"`
		Edges []struct {
			Type string `yaml:"type"`
			file `yaml:",inline"`
		} `yaml:"edges"`
		FeatureData []feature `yaml:"feature_data"`
	} `yaml:"graph"`
	Topology *struct {
		Type string `yaml:"type"`
		Path string `yaml:"path"`
	} `yaml:"graph_topology"`
	FeatureData []feature `yaml:"feature_data"`
	Tasks       []struct {
		Name  string `yaml:"name"`
		Train []set  `yaml:"train_set"`
		Valid []set  `yaml:"validation_set"`
		Test  []set  `yaml:"test_set"`
	} `yaml:"tasks"`
}

// file is a file and how it is written.
type file struct {
	Format string `yaml:"format"`
	Path   string `yaml:"path"`
}

// feature is a column of nodes or edges.
type feature struct {
	Domain string `yaml:"domain"`
	Type   string `yaml:"type"`
	Name   string `yaml:"name"`
	file   `yaml:",inline"`
}

// set is items of a task.
type set struct {
	Type string `yaml:"type"`
	Data []struct {
		Name string `yaml:"name"`
		file `yaml:",inline"`
	} `yaml:"data"`
}

// readMetadata reads a metadata.yaml; nil where the file is not one of GraphBolt's.
func readMetadata(at source.Place) (*metadata, error) {
	m := &metadata{}
	if err := at.Parse("metadata.yaml is as GraphBolt writes it", func(text []byte) error {
		return yaml.Unmarshal(text, m)
	}); err != nil {
		return nil, err
	}
	if m.Graph == nil && m.Topology == nil {
		return nil, nil
	}
	return m, nil
}

// triple returns the types that an edge type is between; the one of a plain graph.
func triple(name string) (src, relation, dst string, err error) {
	if name == "" {
		return "node", "edge", "node", nil
	}
	p := strings.Split(name, ":")
	if len(p) != 3 {
		return "", "", "", fmt.Errorf("%w: the edge type %.60q is not source:relation:target", source.ErrUnknown, name)
	}
	return p[0], p[1], p[2], nil
}

// within returns the place of a path within a folder.
func within(at source.Place, name string) (source.Place, error) {
	clean := path.Clean(strings.ReplaceAll(name, "\\", "/"))
	if path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") {
		return at, fmt.Errorf("the path %.80q leads out of the folder", name)
	}
	return at.In(clean), nil
}
