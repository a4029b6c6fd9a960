//go:build cuda

package cuda

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/gather/internal/columns"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// TestCacheChangesNoByte gathers with caches of all sizes, by every method, and counts what came out of them.
func TestCacheChangesNoByte(t *testing.T) {
	const seed = 41
	cudatest.EachOrder(t, func(t *testing.T) {
		r, rnd := newRig(t), rand.New(rand.NewPCG(seed, 0))
		for _, width := range []int{1, 3, 33, 130} {
			for _, dtype := range sizedTypes {
				n, rowBytes := 20+rnd.IntN(40), width*int(dtype.Size())
				src := columns.Random(rnd, n*rowBytes)
				s := r.store(dtype, r.host(src, rowBytes%128), int64(n), int64(width))
				list := make([]int64, 60)
				for i := range list {
					list[i] = rnd.Int64N(int64(n))
				}
				want := make([]byte, len(list)*rowBytes)
				copied(want, src, list, rowBytes)
				ids := r.idsOnDevice(idTypes[rnd.IntN(2)], list)
				var expected Traffic
				for _, rows := range []int64{0, 1, int64(n) / 3, int64(n)} {
					hot := make([]uint32, n)
					for i := range hot {
						hot[i] = rnd.Uint32()
					}
					chosen := Hottest(hot, rows)
					r.check(s.Cache(context.Background(), chosen, pinned.Options{}))
					expect.Ensure(t, s.Cached() == rows, "the cache holds %d rows of %d", s.Cached(), rows)
					expect.Ensure(t, bytes.Equal(r.gather(s, ids, 0), want),
						"%v[%d,%d], %d rows cached: differs from copy(); seed %d", dtype, n, width, rows, seed)
					expected.Rows += int64(len(list))
					for _, id := range list {
						if _, hit := slices.BinarySearch(chosen, id); hit {
							expected.Hits++
						}
					}
				}
				expected.Bytes, expected.Saved = expected.Rows*int64(rowBytes), expected.Hits*int64(rowBytes)
				got := must(s.Traffic())(t)
				expect.Ensure(t, got == expected, "counted %+v, want %+v; seed %d", got, expected, seed)
			}
		}
	})
}

// TestCachedRowsAreNotReadFromTheColumn: the column is overwritten after the cache was filled.
func TestCachedRowsAreNotReadFromTheColumn(t *testing.T) {
	r := newRig(t)
	src := r.host(bytes.Repeat([]byte{1}, 40*64), 0)
	s := r.store(unified.Float32, src, 40, 16)
	hot := []int64{0, 7, 39}
	r.check(s.Cache(context.Background(), hot, pinned.Options{}))
	copy(src, bytes.Repeat([]byte{2}, len(src)))
	got := r.gather(s, r.idsOnDevice(unified.Int32, []int64{39, 1, 7, 38, 0}), 0)
	for i, want := range []byte{1, 2, 1, 2, 1} {
		if got[i*64] != want {
			t.Errorf("row %d comes from %d, want %d (1: the cache, 2: the column)", i, got[i*64], want)
		}
	}
	r.check(s.cache.close())
	if got := r.gather(s, r.idsOnDevice(unified.Int32, []int64{39}), 0); got[0] != 2 {
		t.Error("a row still comes out of the cache that was freed")
	}
	r.check(s.Cache(context.Background(), nil, pinned.Options{}))
	copy(src, bytes.Repeat([]byte{3}, len(src)))
	if got := r.gather(s, r.idsOnDevice(unified.Int32, []int64{5}), 0); got[0] != 2 || s.Cached() != 40 {
		t.Error("the whole column is not cached")
	}
}

// TestUsesRankTheRowsOfTheNextEpoch plays two epochs.
func TestUsesRankTheRowsOfTheNextEpoch(t *testing.T) {
	r := newRig(t)
	s := r.store(unified.Float32, r.host(make([]byte, 10*400), 0), 10, 100)
	uses := must(s.Uses())(t)
	expect.That(t, uses == nil, "nobody counts, but uses are %v", uses)
	r.check(s.CountUses(pinned.Options{}))
	r.check(s.Cache(context.Background(), []int64{0, 1}, pinned.Options{}))
	list := []int64{5, 5, 7, 5, 7, 9, 0}
	for range 4 {
		r.gather(s, r.idsOnDevice(unified.Int64, list), 0)
	}
	expect.Same(t, must(s.Uses())(t), []uint32{4, 0, 0, 0, 0, 12, 0, 8, 0, 4}, "uses")
	before := must(s.Traffic())(t)
	r.gather(s, r.idsOnDevice(unified.Int64, list), 0)
	r.check(s.Cache(context.Background(), Hottest(must(s.Uses())(t), 2), pinned.Options{}))
	if uses := must(s.Uses())(t); slices.Max(uses) != 0 {
		t.Errorf("uses begin anew with %v", uses)
	}
	r.gather(s, r.idsOnDevice(unified.Int64, list), 0)
	after := must(s.Traffic())(t)
	expect.That(t, s.Cached() == 2 && after.Rows-before.Rows == 14 && after.Hits-before.Hits == 1+5,
		"%d rows are cached; of 14 rows %d came out of the cache, want 1 before and 5 after", s.Cached(),
		after.Hits-before.Hits)
}

// TestCacheThatCannotBeMadeLeavesAStoreThatWorks refuses memory, cancels, and names rows that do not exist.
func TestCacheThatCannotBeMadeLeavesAStoreThatWorks(t *testing.T) {
	r := newRig(t)
	src := columns.Random(rand.New(rand.NewPCG(1, 0)), 100*64)
	s := r.store(unified.Float32, r.host(src, 0), 100, 16)
	stop := errors.New("stop")
	cancelled, cancel := context.WithCancelCause(context.Background())
	cancel(stop)
	var full, roomy pinned.Ledger
	full.SetDeviceLimit(3*64 + 100)
	for name, c := range map[string]struct {
		ctx    context.Context
		hot    []int64
		memory pinned.Options
		want   error
	}{
		"no memory for the table": {context.Background(), []int64{1, 2, 3}, pinned.Options{Ledger: &full},
			pinned.ErrLimit},
		"no memory for the rows": {context.Background(), nil, pinned.Options{Ledger: &full}, pinned.ErrLimit},
		"cancelled":              {cancelled, nil, pinned.Options{Ledger: &roomy}, stop},
		"a row beyond":           {context.Background(), []int64{1, 100}, pinned.Options{}, gather.ErrRange},
		"a negative row":         {context.Background(), []int64{-1, 1}, pinned.Options{}, gather.ErrRange},
		"a row twice":            {context.Background(), []int64{4, 4}, pinned.Options{}, gather.ErrRange},
	} {
		if err := s.Cache(c.ctx, c.hot, c.memory); !errors.Is(err, c.want) || s.Cached() != 0 {
			t.Errorf("%s: %v, want %v; %d rows are cached", name, err, c.want, s.Cached())
		}
	}
	expect.That(t, full.DeviceTotal() == 0 && roomy.DeviceTotal() == 0, "%d and %d bytes are still taken",
		full.DeviceTotal(), roomy.DeviceTotal())
	got := r.gather(s, r.idsOnDevice(unified.Int32, []int64{99, 3}), 0)
	expect.That(t, bytes.Equal(got[:64], src[99*64:]) && bytes.Equal(got[64:], src[3*64:4*64]),
		"the store without a cache gathers other rows")
}

// TestCacheTakesWhatItsBudgetAllows: the ledger never counts more than CacheRows was given.
func TestCacheTakesWhatItsBudgetAllows(t *testing.T) {
	r := newRig(t)
	s := r.store(unified.Float32, r.host(make([]byte, 1000*400), 0), 1000, 100)
	for _, budget := range []int64{100_000, 402_048} {
		var ledger pinned.Ledger
		ledger.SetDeviceLimit(budget)
		rows := CacheRows(s.column, budget)
		r.check(s.Cache(context.Background(), Hottest(make([]uint32, 1000), rows),
			pinned.Options{Ledger: &ledger, Purpose: pinned.Columns}))
		if got := ledger.DeviceTotal(); got > budget || got < budget-2048-400 {
			t.Errorf("%d bytes for %d rows, the budget is %d", got, rows, budget)
		}
		r.check(s.cache.close())
		expect.That(t, ledger.DeviceTotal() == 0, "%d bytes stay", ledger.DeviceTotal())
	}
}

// TestColumnOnTheDeviceIsNotCached: it would be read from there either way.
func TestColumnOnTheDeviceIsNotCached(t *testing.T) {
	r := newRig(t)
	src := columns.Random(rand.New(rand.NewPCG(2, 0)), 50*12)
	d := r.take(pinned.Device, len(src), 4)
	r.upload(d, src)
	column := r.tensor(pinned.Device, unified.Float32, d, 50, 3)
	s := must(NewStore(r.dev, column, column.Address()))(t)
	defer s.Close()
	r.check(s.Cache(context.Background(), nil, pinned.Options{}))
	expect.That(t, s.Cached() == 0, "it is cached")
	list := []int64{49, 0, 0, 17}
	want := make([]byte, len(list)*12)
	copied(want, src, list, 12)
	expect.That(t, bytes.Equal(r.gather(s, r.idsOnDevice(unified.Int64, list), 8), want), "gathers other rows")
}

// TestLargeCacheIsFilledInParts holds more rows than are copied at a time.
func TestLargeCacheIsFilledInParts(t *testing.T) {
	const seed, n = 43, fillRows + 5000
	r, rnd := newRig(t), rand.New(rand.NewPCG(seed, 0))
	src := columns.Random(rnd, 4*n)
	s := r.store(unified.Float32, r.host(src, 0), n, 1)
	list := []int64{0, n - 1, fillRows - 1, fillRows, fillRows + 1, 7}
	want := make([]byte, 4*len(list))
	copied(want, src, list, 4)
	for _, rows := range []int64{n, n - 1} { // all, and all but the last
		r.check(s.Cache(context.Background(), Hottest(make([]uint32, n), rows), pinned.Options{}))
		expect.That(t, bytes.Equal(r.gather(s, r.idsOnDevice(unified.Int64, list), 0), want),
			"%d rows cached: differs; seed %d", rows, seed)
	}
	got := must(s.Traffic())(t)
	expect.That(t, got.Rows == 12 && got.Hits == 11, "%+v, want 11 hits of 12", got)
}
