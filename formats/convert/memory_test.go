package convert

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

// adjacency writes an archive with a ring of nodes as a sparse matrix.
func adjacency(t *testing.T, nodes int) string {
	t.Helper()
	f := expect.Must(os.Create(filepath.Join(t.TempDir(), "ring.npz")))(t)
	defer f.Close()
	indptr, indices := make([]int64, nodes+1), make([]int32, nodes)
	for i := range nodes {
		indptr[i+1], indices[i] = int64(i+1), int32((i+1)%nodes)
	}
	z := zip.NewWriter(f)
	for name, v := range map[string]any{"indptr": indptr, "indices": indices} {
		w, err := z.Create(name + ".npy")
		if err == nil {
			_, err = w.Write(expect.NPY(v))
		}
		expect.OK(t, err)
	}
	expect.OK(t, z.Close())
	return f.Name()
}

// collection writes a MUSAE collection of that many nodes, each with three features.
func collection(t *testing.T, nodes int) string {
	t.Helper()
	var edges, features, targets strings.Builder
	edges.WriteString("id_1,id_2\n0,1\n")
	targets.WriteString("id,page_name,page_type\n")
	for i := range nodes {
		sep := ","
		if i == 0 {
			sep = "{"
		}
		fmt.Fprintf(&features, "%s\"%d\": [1, 5, %d]", sep, i, i%7)
		fmt.Fprintf(&targets, "%d,page %d,class %d\n", i, i, i%3)
	}
	path := write(t, "x_edges.csv", edges.String())
	for name, text := range map[string]string{"x_features.json": features.String() + "}",
		"x_target.csv": targets.String()} {
		expect.OK(t, os.WriteFile(filepath.Join(filepath.Dir(path), name), []byte(text), 0o600))
	}
	return filepath.Dir(path)
}

// TestTheMemoryLimitHoldsForReadersToo reads sources of each kind that take more than the structure that is built.
func TestTheMemoryLimitHoldsForReadersToo(t *testing.T) {
	const n = 200_000 // names take the most time, and the most memory
	var names strings.Builder
	for i := range n / 3 {
		fmt.Fprintf(&names, "node-%d node-%d\n", i, i+1)
	}
	if res, _ := convert(t, adjacency(t, 2*n), Options{MemoryLimit: 2 << 20}); res.MemoryPeak > 2<<20 ||
		res.TempPeak == 0 {
		t.Errorf("an archive: a peak of %d bytes, %d of temporary files", res.MemoryPeak, res.TempPeak)
	}
	for _, c := range []struct {
		name, src, where string
		opt              Options
		fits             int64
	}{
		{"names", write(t, "names.txt", names.String()), "names.txt: row", Options{}, 32 << 20},
		{"npy", write(t, "edges.txt", "0 1\n"), "table.npy", Options{Labels: npyFile(t, make([]int32, 2*n))}, 8 << 20},
		{"musae", collection(t, n/10), "x_target.csv: row", Options{}, 8 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.opt.MemoryLimit = 2 << 20
			_, err := Run(context.Background(), c.src, filepath.Join(t.TempDir(), "x"), c.opt)
			if !errors.Is(err, pinned.ErrLimit) || !strings.Contains(err.Error(), c.where) ||
				!strings.Contains(err.Error(), "and of the limit of 2.10 MB (2.00 MiB)") {
				t.Errorf("a limit of 2 MiB: %v", err)
			}
			c.opt.MemoryLimit = c.fits
			if res, _ := convert(t, c.src, c.opt); res.MemoryPeak < 2<<20 || res.MemoryPeak > c.fits {
				t.Errorf("a peak of %d bytes under a limit of %d", res.MemoryPeak, c.fits)
			}
		})
	}
}
