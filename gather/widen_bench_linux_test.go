package gather

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/unified"
)

// threadTime returns the processor time of this thread.
func threadTime(b *testing.B) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// BenchmarkWiden gathers random rows of 128 numbers out of 1 GiB of float32, and of the same stored narrow, in turn. It
// reports, for each, the median of the processor time of a batch of 8,192 rows by that of float32 just before.
func BenchmarkWiden(b *testing.B) {
	const rows, width, batch = 2 << 20, 128, 8192
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := rand.New(rand.NewPCG(8, 2))
	types := []unified.DType{unified.Float32, unified.Float16, unified.BFloat16, unified.Int8}
	var stores []*Store
	for _, dtype := range types {
		data := mapped(b, rows*width*int(dtype.Size()), unix.MADV_HUGEPAGE)
		column, err := unified.New(dtype, data, rows, width)
		if err != nil {
			b.Fatal(err)
		}
		s, err := NewStore(column)
		if err == nil && dtype != unified.Float32 {
			scales := unified.Tensor{}
			if dtype == unified.Int8 {
				scales = unified.FromSlice(make([]float32, rows))
			}
			s, err = s.Widened(scales)
		}
		if err != nil {
			b.Fatal(err)
		}
		stores = append(stores, s)
	}
	ids, took := make([]int32, batch), make([][]float64, len(types))
	var dst unified.Buffer
	for b.Loop() {
		base := 0.0
		for i, s := range stores {
			for k := range ids {
				ids[k] = r.Int32N(rows)
			}
			before := threadTime(b)
			if _, err := s.Gather(&dst, unified.FromSlice(ids)); err != nil {
				b.Fatal(err)
			}
			t := (threadTime(b) - before).Seconds()
			if i == 0 {
				base = t
				took[i] = append(took[i], 4*width*batch/t/1e9)
			} else {
				took[i] = append(took[i], base/t)
			}
		}
	}
	for i, dtype := range types {
		slices.Sort(took[i])
		unit := "x-" + dtype.String()
		if i == 0 {
			unit = "GB/cpu-s"
		}
		b.ReportMetric(took[i][len(took[i])/2], unit)
	}
}
