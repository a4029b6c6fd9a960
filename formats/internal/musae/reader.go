package musae

import (
	"context"
	"path"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/source"
)

// Reader reads MUSAE collections.
var Reader = source.Reader{Name: "musae", Title: "a MUSAE collection: edges, ragged features and a target table",
	Options: []string{"tables"}, Find: findGraphs, Read: readGraph}

func findGraphs(t *source.Tree) (found []string) {
	for _, name := range t.Files() {
		if dir := path.Dir(name); !t.Single() && prefix(t.At(dir), name) != "" {
			found = append(found, dir)
		}
	}
	return found
}

// prefix returns what the names of a collection's files begin with, such as "facebook", if a file is one of its edges.
func prefix(dir source.Place, edges string) string {
	p, ok := strings.CutSuffix(path.Base(edges), "_edges.csv")
	if ok && path.Dir(edges) == dir.Name && dir.In(p+"_target.csv").Exists() && dir.In(p+"_features.json").Exists() {
		return p
	}
	return ""
}

func readGraph(ctx context.Context, at source.Place, r *source.Request) (*source.Graph, error) {
	for _, name := range at.Tree.Files() {
		if p := prefix(at, name); p != "" {
			return Read(ctx, at, p, r)
		}
	}
	return nil, source.Error(at.Path(), "", -1, "name a directory with X_edges.csv, X_features.json and X_target.csv",
		source.ErrUnknown)
}
