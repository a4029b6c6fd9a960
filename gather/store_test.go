package gather_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/pinned/pinnedtest"
	"github.com/khop-gnn/khop/unified"
)

func TestMain(m *testing.M) { expect.NoGoroutines(m) }

// column returns rows of random bytes.
func column(t *testing.T, r *rand.Rand, dtype unified.DType, shape ...int64) unified.Tensor {
	t.Helper()
	n := dtype.Size()
	for _, d := range shape {
		n *= d
	}
	data := make([]byte, n+64)
	const period = 65521 // a prime, so that no two rows at round distances are alike
	for i := range data[:min(len(data), period)] {
		data[i] = byte(r.Uint32())
	}
	for at := period; at < len(data); at *= 2 {
		copy(data[at:], data[:at])
	}
	return expect.Must(unified.New(dtype, data, shape...))(t)
}

func TestGatherCopiesTheRowsOfEveryDType(t *testing.T) {
	const seed = 5
	r := rand.New(rand.NewPCG(seed, 0))
	for dtype := unified.Int8; dtype.Size() > 0; dtype++ {
		for _, shape := range [][]int64{{100}, {100, 1}, {77, 3}, {50, 100}, {9, 2, 5}, {6, 3, 1, 7}, {1, 129}} {
			c := column(t, r, dtype, shape...)
			s := expect.Must(gather.NewStore(c))(t)
			var dst unified.Buffer
			for _, m := range []int{0, 1, 2, 31, 500} {
				ids32, ids64 := make([]int32, m), make([]int64, m)
				for i := range m {
					ids32[i] = r.Int32N(int32(shape[0]))
					ids64[i] = int64(ids32[i])
				}
				for _, ids := range []unified.Tensor{unified.FromSlice(ids32), unified.FromSlice(ids64)} {
					got := expect.Must(s.Gather(&dst, ids, 1))(t)
					var want []byte
					for _, id := range ids64 {
						want = append(want, c.Bytes()[id*c.RowBytes():(id+1)*c.RowBytes()]...)
					}
					if got.DType() != dtype || got.Rank() != len(shape) || got.Len() != int64(m) ||
						got.Width() != c.Width() || !bytes.Equal(got.Bytes(), want) {
						t.Fatalf("seed %d: %v rows of %v by %v: %v", seed, m, c, ids, got)
					}
				}
			}
			expect.OK(t, dst.Close())
		}
	}
}

func TestAnIDThatIsNoRowIsNamed(t *testing.T) {
	c := unified.FromSlice([]int64{1, 2, 3})
	s := expect.Must(gather.NewStore(c))(t)
	var dst unified.Buffer
	defer dst.Close()
	for text, ids := range map[string]unified.Tensor{
		"ids[1] is 3, but the column has 3 rows":     unified.FromSlice([]int32{0, 3}),
		"ids[0] is -1":                               unified.FromSlice([]int32{-1, 3}),
		"ids[39] is 4294967296":                      unified.FromSlice(append(make([]int64, 39), 1<<32)),
		"ids[2] is -9223372036854775808":             unified.FromSlice([]int64{0, 0, -1 << 63}),
		"ids[99] is -2147483648, but the column has": unified.FromSlice(append(make([]int32, 99), -1<<31)),
	} {
		expect.Says(t, expect.Err(s.Gather(&dst, ids, 1)), gather.ErrRange, text, text)
	}
	empty := expect.Must(gather.NewStore(unified.FromSlice([]int64{})))(t)
	expect.Is(t, expect.Err(empty.Gather(&dst, unified.FromSlice([]int32{0}), 1)), gather.ErrRange,
		"a row of an empty column")
	expect.Is(t, expect.Err(s.Gather(&dst, unified.FromSlice([]float32{0}), 1)), unified.ErrShape, "floats as ids")
	for _, ids := range []unified.Tensor{unified.FromSlice([]int32{0, 1}), unified.FromSlice([]int64{0, 1})} {
		wide, _ := ids.Reshape(1, 2)
		expect.Is(t, expect.Err(s.Gather(&dst, wide, 1)), unified.ErrShape, "ids in two dimensions")
		far, _ := unified.NewPlaced(pinned.Device, ids.DType(), ids.Bytes(), 2)
		x, err := s.Gather(&dst, far, 1)
		expect.That(t, err != nil && !x.Valid(), "ids on a device: %v, %v", x, err)
		expect.Is(t, expect.Err(gather.NewStore(far)), unified.ErrShape, "a column on a device")
	}
	x, err := s.Gather(&dst, unified.Tensor{}, 1)
	expect.That(t, err == nil && x.Len() == 0 && x.DType() == unified.Int64, "no ids: %v, %v", x, err)
	expect.Is(t, expect.Err(gather.NewStore(unified.Tensor{})), unified.ErrShape, "a store of nothing")
}

// Kernels count the bytes of a row in int32. A column without rows has any width without memory.
func TestARowOfAGibibyteIsTooWide(t *testing.T) {
	for width, good := range map[int64]bool{1<<30 - 1: true, 1 << 30: false, 0: false} {
		c := expect.Must(unified.New(unified.Uint8, nil, 0, width))(t)
		if s, err := gather.NewStore(c); good && (err != nil || s.RowBytes() != width) ||
			!good && !errors.Is(err, unified.ErrShape) {
			t.Errorf("rows of %d bytes: %v", width, err)
		}
	}
}

func TestGatherAllocatesNothingOnceItsBufferIsLargeEnough(t *testing.T) {
	s := expect.Must(gather.NewStore(unified.FromSlice(make([]float32, 1000))))(t)
	var dst unified.Buffer
	defer dst.Close()
	ids := unified.FromSlice(make([]int32, 500))
	n := testing.AllocsPerRun(100, func() { _, _ = s.Gather(&dst, ids, 1) })
	expect.That(t, n == 0, "%g allocations", n)
}

func TestResidentIsAnEqualCopyThatIsCounted(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 0))
	for _, rows := range []int64{0, 1, 1000, 3 << 20} { // the last is several chunks of huge pages
		c := column(t, r, unified.Float32, rows, 4)
		var ledger pinned.Ledger
		last := int64(0)
		memory := pinned.Options{Ledger: &ledger, Purpose: pinned.Columns}
		got, region := expect.Must2(gather.Resident(context.Background(), c, memory, func(done int64) {
			expect.That(t, done > last && done <= rows*16, "progress %d of %d after %d", done, rows*16, last)
			last = done
		}))(t)
		expect.That(t, got.String() == c.String() && bytes.Equal(got.Bytes(), c.Bytes()) && last == rows*16,
			"a copy of %v is %v, or of other contents; progress to %d", c, got, last)
		n := ledger.Used(pinned.Columns)
		expect.That(t, n >= rows*16 && n <= rows*16+pinned.HugePage, "%v: %d bytes counted", c, n)
		err := region.Close()
		expect.That(t, err == nil && ledger.Total() == 0, "after Close %d bytes, %v", ledger.Total(), err)
	}
}

func TestResidentLeavesNothingWhenItFails(t *testing.T) {
	var ledger pinned.Ledger
	memory := pinned.Options{Ledger: &ledger}
	big := column(t, rand.New(rand.NewPCG(7, 0)), unified.Uint8, 80<<20)

	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	cancelling := func(int64) { cancel(why) }
	_, _, err := gather.Resident(ctx, big, memory, cancelling)
	expect.That(t, errors.Is(err, why) && ledger.Total() == 0, "cancelled: %v, %d bytes held", err, ledger.Total())

	ledger.SetLimit(1 << 20)
	_, _, err = gather.Resident(context.Background(), big, memory, nil)
	expect.That(t, errors.Is(err, pinned.ErrLimit) && ledger.Total() == 0, "beyond the limit: %v, %d bytes held", err,
		ledger.Total())
	ledger.SetLimit(0)

	if runtime.GOOS == "windows" {
		return // Windows refuses to cut a mapped file
	}
	path := filepath.Join(t.TempDir(), "column")
	mapped := expect.Must(unified.New(unified.Uint8, pinnedtest.Map(t, path, 0, big.Bytes()), big.Len()))(t)
	expect.OK(t, os.Truncate(path, 20<<20))
	_, _, err = gather.Resident(context.Background(), mapped, memory, nil)
	expect.That(t, errors.Is(err, pinned.ErrFault) && ledger.Total() == 0, "a file cut short: %v, %d bytes held", err,
		ledger.Total())
}

// TestRowsAreAppendedInTheirOrder of both widths of ids, and an id that is not a row is named.
func TestRowsAreAppendedInTheirOrder(t *testing.T) {
	c := unified.FromSlice([]float32{1, 2, 3, 4})
	s := expect.Must(gather.NewStore(c))(t)
	got := s.Column()
	expect.That(t, &got.Bytes()[0] == &c.Bytes()[0] && got.Len() == 4, "the column is %v, not %v", got, c)
	for _, ids := range []unified.Tensor{unified.FromSlice([]int32{3, 0, 3}), unified.FromSlice([]int64{3, 0, 3})} {
		list, err := s.Rows([]uint32{7}, ids)
		expect.That(t, err == nil && slices.Equal(list, []uint32{7, 3, 0, 3}), "%v: %v, %v", ids, list, err)
	}
	if list, err := s.Rows([]uint32{7}, unified.Tensor{}); err != nil || !slices.Equal(list, []uint32{7}) {
		t.Errorf("no ids: %v, %v", list, err)
	}
	for text, ids := range map[string]unified.Tensor{
		"ids[1] is 4, but the column has 4 rows": unified.FromSlice([]int32{0, 4}),
		"ids[0] is -1":                           unified.FromSlice([]int64{-1, 4}),
	} {
		list, err := s.Rows([]uint32{7}, ids)
		expect.That(t, errors.Is(err, gather.ErrRange) && strings.Contains(err.Error(), text) && len(list) == 1,
			"%s: %v, %v", text, list, err)
	}
	ids := unified.FromSlice([]int32{0, 1})
	far := expect.Must(unified.NewPlaced(pinned.Device, ids.DType(), ids.Bytes(), 2))(t)
	list, err := s.Rows([]uint32{7}, far)
	expect.That(t, err != nil && len(list) == 1, "ids on a device: %v, %v", list, err)
}

// A result for which there is no memory is an error, by one goroutine and by several, and takes none.
func TestAResultThatIsRefusedMemoryIsAnError(t *testing.T) {
	s := expect.Must(gather.NewStore(unified.FromSlice(make([]float64, 100))))(t)
	var ledger pinned.Ledger
	ledger.SetLimit(1000)
	var dst unified.Buffer
	dst.Options.Ledger = &ledger
	ids := unified.FromSlice(make([]int32, 40_000))
	for _, goroutines := range []int{1, 4} {
		x, err := s.Gather(&dst, ids, goroutines)
		expect.That(t, errors.Is(err, pinned.ErrLimit) && !x.Valid(), "%d goroutines: %v, %v", goroutines, x, err)
	}
	n := ledger.Total()
	expect.That(t, n == 0, "%d bytes are taken", n)
}
