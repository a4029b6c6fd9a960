package convert

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

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
