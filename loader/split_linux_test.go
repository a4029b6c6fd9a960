package loader

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// unread is a column of so many rows, whose memory nobody reads.
func unread(t *testing.T, rows, width int64) *tiers.Column {
	t.Helper()
	b, err := unix.Mmap(-1, 0, int(rows*width), unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	expect.OK(t, err)
	t.Cleanup(func() { _ = unix.Munmap(b) })
	x := expect.Must(unified.New(unified.Uint8, b, rows, width))(t)
	s := expect.Must(gather.NewStore(x))(t)
	return &tiers.Column{Store: s}
}

// Small columns are kept whole; the others share the cache by their size, and a quarter of a share, or 16 MiB, is the
// most that a window's asks take, in a power of two. With a pack it is all of the share.
func TestTheCacheIsSharedByColumns(t *testing.T) {
	label, wide, narrow := unread(t, 1<<20, 8), unread(t, 1<<24, 512), unread(t, 1<<25, 128)
	const total = 8<<20 + 8<<30 + 4<<30
	for _, c := range []struct {
		cache, pack int64
		loaders     int
		asks        [2]int64 // of narrow and wide
		early       int64
	}{
		{6 << 30, 0, 1, [2]int64{1 << 24, 1 << 25}, 32 << 20}, {6 << 30, 0, 2, [2]int64{1 << 23, 1 << 24}, 32 << 20},
		{96 << 20, 0, 1, [2]int64{1 << 19, 1 << 19}, 0}, {96 << 20, 1, 1, [2]int64{1 << 20, 1 << 21}, 0},
	} {
		s := tiers.SplitColumns([]*tiers.Column{wide, label, narrow}, total, tiers.DiskOptions{CacheBytes: c.cache,
			PackBytes: c.pack},
			c.loaders, nil)
		expect.Ensure(t, len(s.Whole) == 1 && s.Whole[0] == label && len(s.OnDisk) == 2 && s.Loaders == c.loaders,
			"%+v: %+v", c, s)
		sum := int64(0)
		for i, d := range s.OnDisk {
			of, part := []*tiers.Column{narrow, wide}[i], []int64{1, 2}[i]
			share := (c.cache - 8<<20) * part / 3 / int64(c.loaders)
			row := of.Store.RowBytes()
			early := min(c.early, share/4)
			if c.early == 0 {
				early = share / 4
			}
			if d.Column != of || d.Index != i || d.MostAsks != c.asks[i] || d.Along != int((4<<20)/row) ||
				int64(d.Slots) > share/row || int64(d.Slots) < share/row-1 || d.Early < early-1 || d.Early > early+1 {
				t.Errorf("%+v: column %d has %+v, of a share of %d", c, i, d, share)
			}
			window := d.MostAsks * diskio.AskBytes
			expect.That(t, window <= max(16<<20, share) && (c.pack != 0 || window <= max(16<<20, share/4)),
				"%+v: column %d has a window of %d bytes", c, i, window)
			expect.That(t, d.Pack.Bytes == c.pack*part/3 && (d.Pack.Memory > 0) == (c.pack > 0),
				"%+v: column %d packs %+v", c, i, d.Pack)
			sum += int64(d.Slots) * row
		}
		expect.That(t, s.CacheBytes >= sum && s.CacheBytes <= sum+2*pinned.HugePage,
			"%+v: caches of %d bytes, %d are said", c, sum, s.CacheBytes)
	}
	small := tiers.SplitColumns([]*tiers.Column{wide, label, narrow}, total, tiers.DiskOptions{CacheBytes: total}, 1,
		nil)
	expect.That(t, len(small.Whole) == 3 && len(small.OnDisk) == 0 && small.CacheBytes == 0,
		"what fits is not kept whole: %+v", small)
	none := tiers.SplitColumns([]*tiers.Column{label}, 8<<20, tiers.DiskOptions{CacheBytes: 1 << 20}, 1, nil)
	expect.That(t, len(none.Whole) == 0 && len(none.OnDisk) == 1 && none.OnDisk[0].Slots == 1<<17, "%+v", none)
}
