package convert

import (
	"archive/zip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
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
	return files(t, map[string]string{"x_edges.csv": edges.String(), "x_features.json": features.String() + "}",
		"x_target.csv": targets.String()})
}

// BenchmarkConvert converts KHOP_BENCH_SOURCE within 1.4 GB.
func BenchmarkConvert(b *testing.B) {
	src := os.Getenv("KHOP_BENCH_SOURCE")
	if src == "" {
		b.Skip("KHOP_BENCH_SOURCE is not set")
	}
	for b.Loop() {
		dst := filepath.Join(b.TempDir(), "x")
		res := expect.Must(Run(context.Background(), src, dst, Options{MemoryLimit: 1_368_000_000}))(b)
		b.ReportMetric(float64(res.Edges)/1e6/b.Elapsed().Seconds()*float64(b.N), "Medges/s")
		b.ReportMetric(float64(res.MemoryPeak), "peak-B")
	}
}
