package gather

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/gather/internal/columns"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// rowWidths are those of real columns (labels, float16 to float64 features) and their neighbours, where code paths
// change.
var rowWidths = []int{
	1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 40, 63, 64, 65, 95, 96, 97, 100, 127, 128, 129, 132, 159,
	160, 161,
	191, 192, 193, 255, 256, 257, 319, 320, 321, 383, 384, 385, 400, 401, 512, 513, 516, 575, 576, 640, 1000, 1024,
	2052, 4096,
	4100, 8191, giantRow, giantRow + 1,
}

func narrowed(ids []int64) []int32 {
	out := make([]int32, len(ids))
	for i, id := range ids {
		out[i] = int32(id)
	}
	return out
}

// A way is a function that copies rows as copyRows does.
type way struct {
	name  string
	least int // bytes a row, below which it may not be called
	most  int
	rows  func(dst, src []byte, ids32 []int32, ids64 []int64, rowBytes int)
}

// ways returns every path through the package, for both types of id: also those that the size of dst would not choose.
func ways() []way {
	var ws []way
	for _, v := range variants() {
		ws = append(ws,
			way{v.String() + "/int32", 1, math.MaxInt,
				func(dst, src []byte, ids []int32, _ []int64, w int) { copyRows(v, dst, src, ids, w) }},
			way{v.String() + "/int64", 1, math.MaxInt,
				func(dst, src []byte, _ []int32, ids []int64, w int) { copyRows(v, dst, src, ids, w) }})
		if v >= avx2 {
			ws = append(ws,
				way{v.String() + "/stream/int32", narrowRow, giantRow,
					func(dst, src []byte, ids []int32, _ []int64, w int) { stream(v, dst, src, ids, w) }},
				way{v.String() + "/stream/int64", narrowRow, giantRow,
					func(dst, src []byte, _ []int32, ids []int64, w int) { stream(v, dst, src, ids, w) }})
		}
	}
	return ws
}

// stream streams to a line of its own and copies that to dst, which may have any alignment.
func stream[I rowID](v variant, dst, src []byte, ids []I, rowBytes int) {
	if len(ids) == 0 {
		return
	}
	room := aligned(len(dst)+cacheLine, 0)
	mark := room[len(ids)*rowBytes:]
	copy(mark, bytes.Repeat([]byte{0xA5}, len(mark)))
	streamRows(v, room[:len(ids)*rowBytes], pointer(src), ids, rowBytes)
	if bytes.Count(mark, []byte{0xA5}) != len(mark) {
		panic("written past the last row")
	}
	copy(dst, room[:len(ids)*rowBytes])
}

// compare copies rows in every way and compares the bytes with the specification's, and those around dst with what they
// were.
func compare(t *testing.T, src []byte, ids []int64, rowBytes, shift int) {
	t.Helper()
	size := len(ids) * rowBytes
	want := make([]byte, size)
	copyPlain(want, src, ids, rowBytes)
	ids32, mark := narrowed(ids), bytes.Repeat([]byte{0x5A}, cacheLine)
	for _, w := range ways() {
		if rowBytes < w.least || rowBytes > w.most {
			continue
		}
		room := aligned(size+2*cacheLine, shift)
		before, dst, after := room[:cacheLine], room[cacheLine:cacheLine+size], room[cacheLine+size:]
		copy(before, mark)
		copy(after, mark)
		w.rows(dst, src, ids32, ids, rowBytes)
		expect.Ensure(t, bytes.Equal(dst, want), "%s: %d rows of %d bytes, dst shifted by %d: differ from copy()",
			w.name, len(ids), rowBytes, shift)
		expect.Ensure(t, bytes.Equal(before, mark) && bytes.Equal(after, mark),
			"%s: %d rows of %d bytes, dst shifted by %d: bytes beside dst are written", w.name, len(ids), rowBytes,
			shift)
	}
}

func TestEveryVariantCopiesTheSameBytes(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, 0))
	for _, w := range rowWidths {
		rows := min(131, max(3, 1<<17/w))
		for _, shift := range []int{0, 1, 4, 16, 63} {
			if raceEnabled && shift&1 != 0 {
				continue
			}
			src := columns.Random(r, rows*w+shift)[shift:]
			for _, p := range columns.Lists {
				compare(t, src, p.IDs(r, rows), w, shift)
				expect.Ensure(t, !t.Failed(), "pattern %s, seed %d", p.Name, seed)
			}
		}
	}
}

// TestManyRowsInSeveralCalls covers what spans calls into assembly, and the choice by the size of dst.
func TestManyRowsInSeveralCalls(t *testing.T) {
	const seed = 8
	r := rand.New(rand.NewPCG(seed, 0))
	for _, w := range []int{4, 40, 64, 401, 1028} {
		src := columns.Random(r, 1000*w)
		n := streamBytes/w + 77
		if raceEnabled {
			n = 5000
		}
		ids := make([]int64, n)
		for i := range ids {
			ids[i] = r.Int64N(1000)
		}
		compare(t, src, ids, w, 0)
		compare(t, src, ids, w, 4) // not at a line, so that nothing is streamed
	}
}

func FuzzCopyRows(f *testing.F) {
	f.Add(uint16(400), uint8(0), uint64(1), []byte{0, 1, 2, 255})
	f.Add(uint16(1), uint8(3), uint64(2), []byte{9})
	f.Add(uint16(67), uint8(63), uint64(3), []byte{})
	f.Fuzz(func(t *testing.T, width uint16, shift uint8, seed uint64, picks []byte) {
		w, rows := int(width)%5000+1, 256
		src := columns.Random(rand.New(rand.NewPCG(seed, 0)), rows*w)
		ids := make([]int64, len(picks))
		for i, p := range picks {
			ids[i] = int64(p)
		}
		compare(t, src, ids, w, int(shift)%cacheLine)
	})
}

func TestRangeIsChecked(t *testing.T) {
	for _, c := range []struct {
		id   int64
		n    int64
		want bool
	}{
		{0, 0, false}, {0, 1, true}, {1, 1, false}, {-1, 1, false}, {-1, math.MaxInt32, false},
		{math.MaxInt32, math.MaxInt32, false},
		{math.MaxInt32, 1 << 31, true}, {math.MaxInt32, 1 << 40, true}, {-1, 1 << 40, false},
		{math.MinInt32, 1 << 40, false},
		{math.MinInt32, 5, false}, {1 << 40, 1 << 40, false}, {1<<40 - 1, 1 << 40, true},
		{math.MaxInt64, math.MaxInt64, false},
		{math.MinInt64, math.MaxInt64, false}, {math.MinInt64, 0, false}, {-5, 3, false}, {1 << 32, 5, false},
	} {
		for _, length := range []int{1, 2, 9, 40} {
			for at := range length {
				ids := make([]int64, length)
				ids[at] = c.id
				want := c.want && c.n > 0
				if got := rangeOK64(ids, c.n); got != want {
					t.Errorf("id %d at %d of %d, %d rows, int64: %v, want %v", c.id, at, length, c.n, got, want)
				}
				if c.id != int64(int32(c.id)) {
					continue
				}
				if got := rangeOK32(narrowed(ids), c.n); got != want {
					t.Errorf("id %d at %d of %d, %d rows, int32: %v, want %v", c.id, at, length, c.n, got, want)
				}
			}
		}
	}
	expect.That(t, rangeOK32(nil, 0) && rangeOK64(nil, 0), "no ids at all are in range of any table")
}

func TestCopyingAllocatesNothing(t *testing.T) {
	for _, w := range []int{4, 400} {
		src := make([]byte, 100*w)
		ids32, ids64 := make([]int32, streamBytes/w+1), make([]int64, streamBytes/w+1)
		dst := aligned(len(ids32)*w, 0)
		n := testing.AllocsPerRun(1, func() {
			copyRows(best, dst, src, ids32, w)
			copyRows(best, dst, src, ids64, w)
			copyRows(best, dst, src, ids64[:50], w)
		})
		expect.That(t, n == 0, "rows of %d bytes: %v allocations", w, n)
	}
}

// However many goroutines copy, the rows are those that one copies, and the first id that is no row is named.
func TestGatherParallelEqualsGather(t *testing.T) {
	const rows, width = 5000, 61
	column := make([]float32, rows*width)
	for i := range column {
		column[i] = float32(i)
	}
	x := expect.Must(unified.New(unified.Float32, unified.FromSlice(column).Bytes(), rows, width))(t)
	s := expect.Must(NewStore(x))(t)
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 500, 3001} {
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = int32(r.IntN(rows))
		}
		var one, several unified.Buffer
		want := expect.Must(s.Gather(&one, unified.FromSlice(ids), 1))(t)
		for _, goroutines := range []int{1, 2, 7} {
			got, err := s.Gather(&several, unified.FromSlice(ids), goroutines)
			expect.That(t, err == nil && got.Len() == int64(n) && bytes.Equal(got.Bytes(), want.Bytes()),
				"%d rows by %d goroutines are not those of one: %v, %v", n, goroutines, got, err)
		}
		if n > 1000 {
			ids[n-2], ids[n-900] = rows, -1
			_, err := s.Gather(&several, unified.FromSlice(ids), 7)
			expect.That(t, errors.Is(err, ErrRange) && strings.Contains(err.Error(), "ids[2101] is -1"),
				"%v; want the first id that is no row", err)
		}
		one.Close()
		several.Close()
	}
}
