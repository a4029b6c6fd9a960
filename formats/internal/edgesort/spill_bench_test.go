package edgesort

import (
	"context"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

// BenchmarkSpillCompressed shows what compressing the temporary file would save and take: pairs of 2^26 nodes, of which
// few have most edges, with ids scrambled and not.
func BenchmarkSpillCompressed(b *testing.B) {
	const nodes, edges = 1 << 26, 1 << 24
	for _, name := range []string{"scrambled", "ordered"} {
		var ledger pinned.Ledger
		ledger.SetLimit(96 << 20)
		s := expect.Must(New(Options{Nodes: []source.NodeType{{Count: nodes}}, Types: []source.EdgeType{{}}, ByTime: -1,
			Edges: edges, Budget: &source.Budget{Memory: &ledger, Dir: b.TempDir()}}))(b)
		r := rand.New(rand.NewPCG(1, 2))
		draw := func() int64 {
			x := r.Float64()
			v := uint64(x * x * x * nodes)
			if name == "scrambled" {
				v = bits.Reverse64(v*0x9E3779B97F4A7C15&(nodes-1)) >> (64 - 26)
			}
			return int64(v)
		}
		src, dst := make([]int64, 1<<16), make([]int64, 1<<16)
		for range edges / len(src) {
			for i := range src {
				src[i], dst[i] = draw(), draw()
			}
			expect.OK(b, s.Add(context.Background(), source.Batch{Src: src, Dst: dst}))
		}
		expect.Must(s.top.end(context.Background()))(b)
		data := make([]byte, s.spill.size)
		expect.OK(b, s.spill.read(data, 0))
		z, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
		u, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
		compress(b, name+"/s2", data, func(p []byte) []byte { return s2.Encode(nil, p) },
			func(p []byte) ([]byte, error) { return s2.Decode(nil, p) })
		compress(b, name+"/zstd", data, func(p []byte) []byte { return z.EncodeAll(p, nil) },
			func(p []byte) ([]byte, error) { return u.DecodeAll(p, nil) })
		u.Close()
		expect.OK(b, s.Close())
	}
}

func compress(b *testing.B, name string, data []byte, pack func([]byte) []byte, unpack func([]byte) ([]byte, error)) {
	b.Run(name, func(b *testing.B) {
		const block = 1 << 18
		var packing, unpacking time.Duration
		small, all := 0, 0
		for b.Loop() {
			for at := 0; at+block <= len(data); at += block {
				begin := time.Now()
				packed := pack(data[at : at+block])
				packing += time.Since(begin)
				begin = time.Now()
				if got, err := unpack(packed); err != nil || len(got) != block {
					b.Fatal(len(got), err)
				}
				unpacking += time.Since(begin)
				small, all = small+len(packed), all+block
			}
		}
		b.ReportMetric(float64(small)/float64(all), "of-the-bytes")
		b.ReportMetric(float64(all)/1e6/packing.Seconds(), "packed-MB/s")
		b.ReportMetric(float64(all)/1e6/unpacking.Seconds(), "unpacked-MB/s")
	})
}
