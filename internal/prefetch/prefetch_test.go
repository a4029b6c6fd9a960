package prefetch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/khop-gnn/khop/internal/expect"
)

// calls is every function in one shape: prefetch the elements that n ids name.
var calls = []struct {
	name string
	call func(base unsafe.Pointer, ids32 []int32, ids64 []int64)
}{
	{"Index4", func(b unsafe.Pointer, _ []int32, i []int64) { Index4(b, i) }},
	{"Index8", func(b unsafe.Pointer, _ []int32, i []int64) { Index8(b, i) }},
	{"Node32x4", func(b unsafe.Pointer, i []int32, _ []int64) { Node32x4(b, i) }},
	{"Node32x8", func(b unsafe.Pointer, i []int32, _ []int64) { Node32x8(b, i) }},
	{"Node64x4", func(b unsafe.Pointer, _ []int32, i []int64) { Node64x4(b, i) }},
	{"Node64x8", func(b unsafe.Pointer, _ []int32, i []int64) { Node64x8(b, i) }},
	{"Rows32", func(b unsafe.Pointer, i []int32, _ []int64) { Rows32(b, i, 4, 0) }},
	{"Rows64", func(b unsafe.Pointer, _ []int32, i []int64) { Rows64(b, i, 4, 3) }},
	{"Hash32x8", func(b unsafe.Pointer, i []int32, _ []int64) { Hash32x8(b, i, 40) }},
	{"Hash64x16", func(b unsafe.Pointer, _ []int32, i []int64) { Hash64x16(b, i, 40) }},
}

// TestAnyAddressIsHarmless: ids and base are not checked, so nothing that they hold may fault or be written to.
func TestAnyAddressIsHarmless(t *testing.T) {
	wild64 := []int64{0, -1, 1, math.MaxInt64, math.MinInt64, 1 << 47, -1 << 47, 1 << 20, 7, 1 << 62, 3}
	wild32 := []int32{0, -1, 1, math.MaxInt32, math.MinInt32, 1 << 20, -1 << 20, 1 << 30, 7, -7, 3}
	table := make([]byte, 4096)
	for _, c := range calls {
		for n := range len(wild64) + 1 {
			for _, base := range []unsafe.Pointer{nil, unsafe.Pointer(&table[0]), unsafe.Pointer(&table[4095])} {
				c.call(base, wild32[:n], wild64[:n])
			}
		}
		c.call(nil, nil, nil)
	}
	for _, p := range []unsafe.Pointer{nil, unsafe.Pointer(&table[0]), unsafe.Pointer(&table[4095])} {
		for _, n := range []int{math.MinInt, -1, 0, 1, 63, 64, 65, 1 << 20} {
			Range(p, n)
		}
	}
	for i, b := range table {
		expect.Ensure(t, b == 0, "byte %d of the table was written", i)
	}
}

// A walk reads random elements of a table far larger than the caches, in blocks of 32, each read waiting for the one
// before, with or without a prefetch of the next block.
type walk struct {
	name  string
	call  func(base unsafe.Pointer, ids32 []int32, ids64 []int64)
	slot  func(id int64) uintptr // byte offset of an element
	limit int64                  // ids are below it
}

const logTable = 28

// walks returns a walk for every function.
func walks() []walk {
	var ws []walk
	for _, c := range calls {
		logSize := 2
		if c.name[len(c.name)-1] == '8' {
			logSize = 3
		}
		ws = append(ws, walk{c.name, c.call, func(id int64) uintptr { return uintptr(id) << logSize },
			1 << (logTable - logSize)})
	}
	const shift8, shift16 = 64 - (logTable - 3), 64 - (logTable - 4)
	h8, h16 := &ws[len(ws)-2], &ws[len(ws)-1]
	h8.call = func(b unsafe.Pointer, i []int32, _ []int64) { Hash32x8(b, i, shift8) }
	h8.slot = func(id int64) uintptr { return uintptr(uint64(id) * Multiplier >> shift8 << 3) }
	h16.call = func(b unsafe.Pointer, _ []int32, i []int64) { Hash64x16(b, i, shift16) }
	h16.slot = func(id int64) uintptr { return uintptr(uint64(id) * Multiplier >> shift16 << 4) }
	h8.limit, h16.limit = math.MaxInt32, math.MaxInt64
	return ws
}

func newTable() []byte {
	table := make([]byte, 1<<logTable)
	for i := 0; i < len(table); i += 4096 {
		table[i] = 1
	}
	return table
}

// run returns the time of n reads.
func (w walk) run(table []byte, r *rand.Rand, n int, ahead bool) time.Duration {
	const block = 32
	ids32, ids64 := make([]int32, n), make([]int64, n)
	for i := range ids64 {
		ids64[i] = r.Int64N(w.limit)
		ids32[i] = int32(ids64[i])
	}
	base := unsafe.Pointer(&table[0])
	next := uintptr(0) // stays 0, but the processor must have read the table to know
	start := time.Now()
	for s := 0; s < n; s += block {
		if ahead {
			e, f := min(s+block, n), min(s+2*block, n)
			w.call(base, ids32[e:f], ids64[e:f])
		}
		for _, id := range ids64[s:min(s+block, n)] {
			next = uintptr(*(*byte)(unsafe.Add(base, w.slot(id)+next)) >> 1)
		}
	}
	d := time.Since(start)
	if next != 0 {
		panic("the table holds zeros and ones")
	}
	return d
}

func BenchmarkRead(b *testing.B) {
	table := newTable()
	for _, w := range walks() {
		for _, mode := range []string{"plain", "prefetch"} {
			b.Run(fmt.Sprintf("%s/%s", w.name, mode), func(b *testing.B) {
				const n = 1 << 14
				r := rand.New(rand.NewPCG(1, 2))
				var d time.Duration
				for b.Loop() {
					d += w.run(table, r, n, mode == "prefetch")
				}
				b.ReportMetric(float64(d.Nanoseconds())/float64(b.N)/n, "ns/read")
			})
		}
	}
}

func BenchmarkCallOnCachedTable(b *testing.B) {
	table := make([]byte, 1<<14)
	ids32, ids64 := make([]int32, 32), make([]int64, 32)
	for i := range ids32 {
		ids32[i], ids64[i] = int32(i*13), int64(i*13)
	}
	for _, c := range calls {
		if c.name == "Hash32x8" || c.name == "Hash64x16" {
			continue // their slots lie anywhere
		}
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				c.call(unsafe.Pointer(&table[0]), ids32, ids64)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/32, "ns/id")
		})
	}
}
