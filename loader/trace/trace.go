// Package trace writes what loaders do when, as a Chrome trace, which Perfetto opens: loader.Options.Tuning.Trace.
package trace

import (
	"context"
	"io"

	"github.com/khop-gnn/khop/internal/tracefile"
)

// Open is for loader.Hooks.Trace. Loaders of one path share a file, which the last one that closes writes. It replaces
// a trace of khop's alone. "-" is the standard output, and a pipe waits for its reader until ctx ends.
func Open(ctx context.Context, path string) (io.Closer, error) {
	f, err := tracefile.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	return f, nil
}
