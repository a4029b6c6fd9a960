//go:build !race

package gnn

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
)

// TestEmbeddingSaysWhichCallFailed: each call about a file fails in turn. Then there is the column, or an error that
// says so and the dataset as it was, and the same works when the disk does.
func TestEmbeddingSaysWhichCallFailed(t *testing.T) {
	g, model := communities(t, 300, false), filepath.Join(t.TempDir(), "model")
	expect.OK(t, expect.Err(Train(t.Context(), g, Options{Model: "gin", Epochs: 1, Checkpoint: model})))
	expect.FailingCalls(t, t.TempDir(), expect.Attempt{
		Before: func(dir string) error {
			return formats.WriteGraph(context.Background(), dir, g, formats.WriterOptions{})
		},
		Do: func(dir string) error {
			_, err := Embed(context.Background(), dir, EmbedOptions{Checkpoint: model, MaxMemory: 64 << 20, Workers: 1})
			return err
		},
		State: func(dir string) (string, int) {
			ds, err := formats.Open(dir)
			if err != nil {
				return err.Error(), 0
			}
			defer ds.Close()
			_, beside := os.Stat(dir + ".khop-embed")
			return fmt.Sprintf("%x", ds.ID()), map[bool]int{true: 1}[beside == nil]
		},
		Only: "write pwrite64 ftruncate",
	})
}
