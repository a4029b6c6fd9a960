package ogb

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/foreign/dgl"
	"github.com/khop-gnn/khop/formats/internal/foreign/torch"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// graphReaders read what lies in the folder "processed", whatever its name is.
var graphReaders = []source.Reader{torch.Reader, dgl.BinReader}

// findProcessed returns the folders that have splits, and one graph in processed/, but nothing in raw/.
func findProcessed(t *source.Tree) (found []string) {
	graphs, splits := map[string]int{}, map[string]bool{}
	for _, r := range graphReaders {
		for _, name := range r.Find(t) {
			if dir := path.Dir(name); path.Base(dir) == "processed" {
				graphs[path.Dir(dir)]++
			}
		}
	}
	for _, name := range t.Files() {
		if root, _, ok := strings.Cut("/"+name, "/split/"); ok {
			splits[strings.TrimPrefix(path.Clean("."+root), "./")] = true
		}
	}
	for dir, n := range graphs {
		if n == 1 && splits[dir] {
			found = append(found, dir)
		}
	}
	return found
}

// readProcessed reads a graph that OGB's classes for PyG or DGL have saved, with the splits beside it. OGB has added
// reverse edges to it already.
func readProcessed(ctx context.Context, at source.Place, r *source.Request) (_ *source.Graph, err error) {
	for _, reader := range graphReaders {
		for _, name := range reader.Find(at.Tree) {
			if path.Dir(name) != at.In("processed").Name {
				continue
			}
			g, err := reader.Read(ctx, at.Tree.At(name), r)
			if err != nil {
				return nil, err
			}
			if len(g.Nodes) > 1 {
				g.Tell(source.LeftOut, "split", int64(len(g.Nodes)),
					"splits of several node types are not read beside a processed graph: convert raw/")
				return g, nil
			}
			d := &dataset{g: g, at: at, r: r, nodes: g.Node().Count}
			if err := source.Steps(ctx, d.splits, d.names); err != nil {
				return nil, errors.Join(err, g.Close())
			}
			return g, nil
		}
	}
	return nil, source.Error(at.Path(), "", -1, "name a folder with raw/ or with one graph in processed/",
		source.ErrUnknown)
}
