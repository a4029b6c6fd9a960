package edgelist

import (
	"context"
	"fmt"

	"github.com/khop-gnn/khop/formats/source"
)

// Reader reads edge lists.
type Reader struct{}

// Info implements source.Reader.
func (Reader) Info() source.Info {
	return source.Info{Name: "edgelist", Title: "an edge list", Options: []string{"columns", "ids", "tables"}}
}

// Find implements source.Reader: any text can be an edge list.
func (Reader) Find(t *source.Tree) (found []string) {
	for _, name := range t.Files() {
		if head, err := t.At(name).Head(); err == nil && Looks(head) {
			found = append(found, name)
		}
	}
	return found
}

// Read implements source.Reader.
func (Reader) Read(ctx context.Context, at source.Place, r *source.Request) (*source.Graph, error) {
	ids, ok := map[string]IDs{"": Auto, "auto": Auto, "numbers": Numbers, "names": Names}[r.IDs]
	if !ok {
		return nil, fmt.Errorf("%w: ids %q is none of auto, numbers, names", source.ErrOptions, r.IDs)
	}
	return Read(ctx, at, Options{IDs: ids, Columns: r.Columns, Nodes: r.Nodes, Budget: r.Budget, Progress: r.Progress})
}
