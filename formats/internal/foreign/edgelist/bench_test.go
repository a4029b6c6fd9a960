package edgelist

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/machine"
)

// BenchmarkRead reads 4 million lines: of two ids, with columns, and with names. MB/cpu-s is what a core does.
func BenchmarkRead(b *testing.B) {
	for _, c := range []struct {
		name string
		line func(b *bytes.Buffer, r *rand.Rand)
		opt  Options
	}{
		{"ids", func(b *bytes.Buffer, r *rand.Rand) {
			fmt.Fprintf(b, "%d\t%d\n", r.Int64N(2_449_029), r.Int64N(2_449_029))
		}, Options{}},
		{"time and weight", func(b *bytes.Buffer, r *rand.Rand) {
			fmt.Fprintf(b, "%d %d %d %.3f\n", r.Int64N(2_449_029), r.Int64N(2_449_029), 1_500_000_000+r.Int64N(1e8),
				r.Float64())
		}, Options{Columns: []string{"src", "dst", "time", "weight"}}},
		{"names", func(b *bytes.Buffer, r *rand.Rand) {
			fmt.Fprintf(b, "user%d,item%d\n", r.Int64N(200_000), r.Int64N(200_000))
		}, Options{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var text bytes.Buffer
			r := rand.New(rand.NewPCG(1, 2))
			for range 4_000_000 {
				c.line(&text, r)
			}
			at := local(b, "edges.txt", text.Bytes())
			benchmarkRead(b, at, int64(text.Len()), c.opt)
		})
	}
}

// BenchmarkReadFile reads KHOP_BENCH_TEXT.
func BenchmarkReadFile(b *testing.B) {
	path := os.Getenv("KHOP_BENCH_TEXT")
	if path == "" {
		b.Skip("KHOP_BENCH_TEXT is not set")
	}
	st := expect.Must(os.Stat(path))(b)
	benchmarkRead(b, source.Local(path), st.Size(), Options{})
}

func benchmarkRead(b *testing.B, at source.Place, size int64, opt Options) {
	b.SetBytes(size)
	opt.Budget = &source.Budget{Dir: b.TempDir()}
	before, _ := machine.ProcessorTime()
	for b.Loop() {
		g := expect.Must(Read(context.Background(), at, opt))(b)
		expect.OK(b, g.Close())
	}
	after, _ := machine.ProcessorTime()
	b.ReportMetric(float64(b.N)*float64(size)/1e6/(after-before).Seconds(), "MB/cpu-s")
}
