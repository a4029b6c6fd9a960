//go:build linux

package gather

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/khop-gnn/khop/internal/expect"
	"golang.org/x/sys/unix"
)

const (
	benchTable = 1 << 30   // far beyond the caches
	benchDst   = 256 << 20 // of all threads together: the features of a large batch
)

// mapped returns n bytes that are touched, on huge pages or on 4 KiB ones.
func mapped(b *testing.B, n, advice int) []byte {
	const huge = 2 << 20
	m := expect.Must(unix.Mmap(-1, 0, n+huge, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE))(b)
	b.Cleanup(func() { _ = unix.Munmap(m) })
	at := int(-uintptr(pointer(m)) % huge)
	t := m[at : at+n]
	expect.OK(b, unix.Madvise(t, advice))
	for i := 0; i < n; i += 4096 {
		t[i] = byte(i >> 12)
	}
	return t
}

// BenchmarkCopyRows gathers random rows, one batch an iteration, with every variant, and copies as many bytes in order
// with copy(), from a far part of the same table, between any two of them. It reports GB/s of the best variant and of
// copy(), and the median ratio to the copies just before and after, for every variant: other load on the machine
// disturbs both alike.
func BenchmarkCopyRows(b *testing.B) {
	for _, pages := range []struct {
		name   string
		advice int
	}{{"huge", unix.MADV_HUGEPAGE}, {"4k", unix.MADV_NOHUGEPAGE}} {
		b.Run("pages="+pages.name, func(b *testing.B) {
			src := mapped(b, benchTable, pages.advice)
			dst := mapped(b, benchDst, unix.MADV_HUGEPAGE)
			for _, w := range []int{1, 4, 8, 12, 40, 64, 132, 256, 400, 512, 640, 1024, 2052, 4096} {
				for _, threads := range []int{1, 2} {
					b.Run(fmt.Sprintf("bytes=%d/threads=%d", w, threads),
						func(b *testing.B) { benchRows(b, dst, src, w, threads) })
				}
			}
		})
	}
}

func benchRows(b *testing.B, dst, src []byte, w, threads int) {
	r := rand.New(rand.NewPCG(1, uint64(w)))
	n := min(benchDst/threads/w, 4<<20) &^ (cacheLine - 1)
	size, rows := n*w, benchTable/w
	ids := make([][]int32, threads)
	for t := range ids {
		ids[t] = make([]int32, n)
	}
	own := func(t int) []byte { return dst[t*benchDst/threads:][:size] }
	together := func(f func(t int)) float64 { // GB/s of all threads
		var wg sync.WaitGroup
		start := time.Now()
		for t := range threads {
			wg.Go(func() { f(t) })
		}
		wg.Wait()
		return float64(threads*size) / float64(time.Since(start).Nanoseconds())
	}
	memcpy := func() float64 {
		far := make([]int, threads)
		for t := range far {
			far[t] = r.IntN(benchTable-size+1) &^ (cacheLine - 1)
		}
		return together(func(t int) { copy(own(t), src[far[t]:]) })
	}
	vs := variants()
	speeds, ratios, base := make([][]float64, len(vs)), make([][]float64, len(vs)), []float64(nil)
	for b.Loop() {
		for t := range ids {
			for i := range ids[t] {
				ids[t][i] = r.Int32N(int32(rows))
			}
		}
		before := memcpy()
		for k, v := range vs {
			speed := together(func(t int) { copyRows(v, own(t), src, ids[t], w) })
			after := memcpy()
			speeds[k] = append(speeds[k], speed)
			ratios[k] = append(ratios[k], 2*speed/(before+after))
			base = append(base, after)
			before = after
		}
	}
	b.ReportMetric(median(speeds[0]), "GB/s")
	b.ReportMetric(median(base), "memcpy-GB/s")
	for k, v := range vs {
		b.ReportMetric(median(ratios[k]), v.String()+"-ratio")
	}
	b.ReportMetric(0, "ns/op")
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

func BenchmarkRangeOK(b *testing.B) {
	ids32, ids64 := make([]int32, 1<<16), make([]int64, 1<<16)
	b.Run("int32", func(b *testing.B) {
		b.SetBytes(4 << 16)
		for b.Loop() {
			rangeOK32(ids32, 5)
		}
	})
	b.Run("int64", func(b *testing.B) {
		b.SetBytes(8 << 16)
		for b.Loop() {
			rangeOK64(ids64, 5)
		}
	})
}
