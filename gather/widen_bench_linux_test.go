package gather

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/gather/internal/columns"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// threadTime returns the processor time of this thread.
func threadTime(b *testing.B) time.Duration {
	var t unix.Timespec
	expect.OK(b, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t))
	return time.Duration(t.Nano())
}

// BenchmarkWiden gathers random rows of 100 and of 512 numbers out of 1 GiB of float32, and of the same stored narrow:
// as they are stored, and widened to float32 and to float16. It reports, for each, the median of float32's processor
// time by that of the narrow type, of batches of 4 MiB of float32 in turn.
func BenchmarkWiden(b *testing.B) {
	for _, width := range []int{100, 512} {
		b.Run(strconv.Itoa(width), func(b *testing.B) { benchmarkWiden(b, width) })
	}
}

func benchmarkWiden(b *testing.B, width int) {
	rows, batch := 1<<28/width, 1<<20/width
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := rand.New(rand.NewPCG(8, 2))
	var stores []*Store
	names := []string{"GB/cpu-s"}
	store := func(c graph.Column) *Store {
		data := mapped(b, rows*int(c.RowBytes()), unix.MADV_HUGEPAGE)
		return expect.Must(NewStore(expect.Must(unified.New(c.DType, data, int64(rows), c.Shape[0]))(b)))(b)
	}
	wide := graph.Column{DType: unified.Float32, Shape: []int64{int64(width)}}
	stores = append(stores, store(wide))
	for _, kind := range columns.Kinds {
		c, scales := wide, unified.Tensor{}
		if c.DType, _ = unified.ParseDType(kind); c.DType == unified.Invalid {
			c = expect.Must(wide.Coded(kind))(b)
		}
		if c.DType == unified.Int8 {
			scales = unified.FromSlice(make([]float32, rows))
		}
		s := store(c)
		stores, names = append(stores, s), append(names, "x-"+kind)
		for _, to := range []unified.DType{unified.Float32, unified.Float16} {
			stores = append(stores, expect.Must(s.Widened(to, c.Code, scales))(b))
			names = append(names, "x-"+kind+"-as-"+to.String())
		}
	}
	ids, took := make([]int32, batch), make([][]float64, len(stores))
	var dst unified.Buffer
	for b.Loop() {
		base := 0.0
		for i, s := range stores {
			for k := range ids {
				ids[k] = r.Int32N(int32(rows))
			}
			before := threadTime(b)
			expect.Must(s.Gather(&dst, unified.FromSlice(ids), 1))(b)
			t := (threadTime(b) - before).Seconds()
			if i == 0 {
				base = t
				took[i] = append(took[i], float64(4*width*batch)/t/1e9)
			} else {
				took[i] = append(took[i], base/t)
			}
		}
	}
	for i := range stores {
		slices.Sort(took[i])
		b.ReportMetric(took[i][len(took[i])/2], names[i])
	}
}
