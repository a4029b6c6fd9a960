package convert

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/expect"
)

// TestASourceThatIsChangedWhileItIsReadIsAnError writes to it, cuts it, removes and replaces it when edges are first
// placed, and does so to a table.
func TestASourceThatIsChangedWhileItIsReadIsAnError(t *testing.T) {
	const n = 40_000
	pairs := make([]int64, 2*n)
	for i := range pairs {
		pairs[i] = int64(i % 1000)
	}
	for name, change := range map[string]func(path string) error{
		"written to": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteAt(make([]byte, 8), 4096)
			}
			return errors.Join(err, f.Close())
		},
		"cut":     func(path string) error { return os.Truncate(path, 4096) },
		"removed": os.Remove,
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, nil, 0o600))
		},
	} {
		for _, what := range []string{"pairs", "rows", "table"} {
			src := write(t, "edges.npy", string(expect.NPY(pairs, n, 2)))
			labels, victim := npyFile(t, make([]int32, 1000)), src
			switch what {
			case "rows": // which all workers read where they are mapped
				src = write(t, "edges.npy", string(expect.NPY(pairs, 2, n)))
				victim = src
			case "table":
				victim = labels
			}
			dir, done := t.TempDir(), false
			_, err := Run(context.Background(), src, filepath.Join(dir, "out.khop"), Options{Labels: labels,
				Progress: func(stage string, _, _ int64) {
					if stage == "place" && !done {
						done = true
						expect.OK(t, change(victim))
					}
				}})
			expect.That(t, errors.Is(err, source.ErrChanged) && done, "%s, %s: %v", name, what, err)
			left, _ := os.ReadDir(dir)
			expect.That(t, len(left) <= 0, "%s, %s: left behind: %v", name, what, left)
		}
	}
}
