package gather

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// threadTime returns the processor time of this thread.
func threadTime(b *testing.B) time.Duration {
	var t unix.Timespec
	expect.OK(b, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t))
	return time.Duration(t.Nano())
}

// BenchmarkWiden gathers random rows of 128 and of 512 numbers out of 1 GiB of float32, and of the same stored narrow:
// as they are stored, and widened to float32. It reports, for each, the median of float32's processor time by that of
// the narrow type, of batches of 4 MiB of float32 in turn.
func BenchmarkWiden(b *testing.B) {
	for _, width := range []int{128, 512} {
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
	for _, dtype := range []unified.DType{unified.Float32, unified.Float16, unified.BFloat16, unified.Int8} {
		data := mapped(b, rows*width*int(dtype.Size()), unix.MADV_HUGEPAGE)
		column := expect.Must(unified.New(dtype, data, int64(rows), int64(width)))(b)
		s := expect.Must(NewStore(column))(b)
		if stores = append(stores, s); dtype == unified.Float32 {
			continue
		}
		scales := unified.Tensor{}
		if dtype == unified.Int8 {
			scales = unified.FromSlice(make([]float32, rows))
		}
		s = expect.Must(s.Widened(scales))(b)
		stores, names = append(stores, s), append(names, "x-"+dtype.String(), "x-"+dtype.String()+"-widened")
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
