package edgelist

import (
	"bytes"
	"context"
	"fmt"

	"github.com/khop-gnn/khop/formats/internal/source"
)

// Reader reads edge lists.
type Reader struct{}

// Info implements source.Reader.
func (Reader) Info() source.Info {
	return source.Info{Name: "edgelist", Title: "an edge list",
		Options: []string{"columns", "ids", "skip-bad", "tables"}}
}

// Find implements source.Reader: any text that is named can be an edge list; among other files its first lines must be
// rows of as many fields.
func (Reader) Find(t *source.Tree) (found []string) {
	for _, name := range t.Files() {
		if head, err := t.At(name).Head(); err == nil && Looks(head) && (t.Single() || even(head)) {
			found = append(found, name)
		}
	}
	return found
}

// even reports whether the first lines have equally many fields, two or more.
func even(head []byte) bool {
	fields, delim, cut := 0, byte(0), cutFields{}
	lines := bytes.Split(head, []byte("\n"))
	for i, line := range lines {
		if skippable(line) || i == len(lines)-1 && i > 0 {
			continue
		}
		if delim == 0 {
			delim = delimiter(line)
		}
		f, err := cut.split(line, delim)
		if fields == 0 {
			fields = len(f)
		}
		if err != nil || len(f) != fields || len(f) < 2 {
			return false
		}
	}
	return fields > 0
}

// Read implements source.Reader.
func (Reader) Read(ctx context.Context, at source.Place, r *source.Request) (*source.Graph, error) {
	ids, ok := map[string]IDs{"": Auto, "auto": Auto, "numbers": Numbers, "names": Names}[r.IDs]
	if !ok {
		return nil, fmt.Errorf("%w: ids %q: must be auto, numbers or names", source.ErrOptions, r.IDs)
	}
	return Read(ctx, at, Options{IDs: ids, Columns: r.Columns, Nodes: r.Nodes, Budget: r.Budget, Progress: r.Progress,
		Skips: r.Skips})
}
