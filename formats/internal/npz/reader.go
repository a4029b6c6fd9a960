package npz

import (
	"context"

	"github.com/khop-gnn/khop/formats/internal/source"
)

// Reader reads .npz archives.
type Reader struct{}

// Info implements source.Reader.
func (Reader) Info() source.Info {
	return source.Info{Name: "npz", Title: "a NumPy archive", Options: []string{"tables"}}
}

// Find implements source.Reader.
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
	return Read(ctx, at, r)
}
