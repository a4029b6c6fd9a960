package plan

import (
	"testing"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/internal/disk"
	"github.com/khop-gnn/khop/loader/internal/placed"
	"github.com/khop-gnn/khop/loader/internal/presamplers"
	"github.com/khop-gnn/khop/loader/internal/recipe"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/unified"
)

// unreadColumn is a column of this number of rows, whose memory is never read.
func unreadColumn(t *testing.T, rows, width int64) *placed.Column {
	t.Helper()
	x := expect.Must(unified.New(unified.Uint8, expect.Unread(t, rows*width), rows, width))(t)
	return &placed.Column{Store: expect.Must(gather.NewStore(x))(t)}
}

// diskMemory is what a loader takes for columns and a topology on disk, where a slot and a sampler take these numbers
// of bytes.
func diskMemory(p *Plan, slot, scratch int64) int64 {
	disk := p.Set.Disk
	if len(disk.Columns()) == 0 {
		return p.pagedMemory()
	}
	return sat.Add(p.pagedMemory(), disk.Cost(tier.Bound{Columns: placed.Describe(p.Recipe, disk.Columns()),
		Loaders: disk.Loaders, Workers: p.Workers, Slots: p.Workers + p.Prefetch, Sampled: slot,
		Worker: scratch}).Scratch)
}

// What columns and a topology on disk take is counted to the byte.
func TestWhatADiskTakesIsCountedToTheByte(t *testing.T) {
	const mib, staging, asker = 1 << 20, 8 << 20, 1 << 15 * 68
	wide, narrow := unreadColumn(t, 1000, 512), unreadColumn(t, 70_000, 16)
	wide.Name, narrow.Name, narrow.NodeType = "x", "y", -1
	arrays := []layout.Array{{Kind: layout.Nodes, Most: 1 << 20}, {Kind: layout.NodeColumn, Column: "x", Most: 300},
		{Kind: layout.SeedColumn, Column: "x", Most: 212},
		{Kind: layout.NodeColumn, Type: 1, Column: "x", Most: 1 << 20},
		{Kind: layout.EdgeColumn, Column: "y", Most: 1<<20 - 5},
		{Kind: layout.EdgeColumn, Type: 1, Column: "y", Most: 5}}
	onDisk := []disk.Column{{Column: wide, Slots: 40, Lookahead: 3, MostAsks: 1 << 12, Early: 777},
		{Column: narrow, Slots: 9, Lookahead: 64, MostAsks: 1 << 9, Early: 10,
			Pack: diskio.PackOptions{Memory: 3 * mib, Bytes: 1 << 30}}}
	const slotOfWide = 64<<10 + 1000*512 + 512*128                                           // 512 rows are asked for
	ofWide := int64(1000*5 + 40*12 + 3*512*8 + 777 + 8*slotOfWide)                           // of three batches
	ofNarrow := int64(70_000*5 + 9*12 + 1<<20*8 + 10 + 4*mib + 8*4*mib + 4<<20 + 3*mib/16*4) // in pages of 2 MiB
	endless := []disk.Column{{Column: wide, Lookahead: 1, MostAsks: 1}}
	paged := &disk.Paged{Bytes: 4096 * 126, Loaders: 2}
	ofPages := int64(2*8*3+staging) / 2 // 128 pages, in words of 64
	for name, c := range map[string]struct {
		split *disk.Tier
		paged *disk.Paged
		want  int64
	}{
		"nothing":  {nil, nil, 0},
		"no rows":  {&disk.Tier{Loaders: 2}, nil, 0},
		"rows":     {&disk.Tier{Loaders: 4, OnDisk: onDisk[:1]}, nil, 3*(100+30) + ofWide + staging/4},
		"both":     {&disk.Tier{Loaders: 1, OnDisk: onDisk}, nil, 3*(100+30) + ofWide + ofNarrow + staging},
		"topology": {nil, paged, ofPages + 5*asker},
		"whole":    {&disk.Tier{Loaders: 2}, paged, ofPages + 5*asker},
		"all": {&disk.Tier{Loaders: 1, OnDisk: onDisk[:1]}, paged,
			ofPages + 8*asker + 3*130 + ofWide + staging},
	} {
		p := &Plan{Kit: &presamplers.Kit{Recipe: &recipe.Recipe{Arrays: arrays}, Paged: c.paged},
			Set:      &tiers.Set{Disk: c.split},
			Workers:  5,
			Prefetch: 3}
		n := diskMemory(p, 100, 30)
		expect.That(t, n == c.want, "%s: %d bytes, want %d", name, n, c.want)
	}
	endlessArrays := []layout.Array{{Kind: layout.NodeColumn, Column: "x", Most: 1 << 60}}
	p := &Plan{Kit: &presamplers.Kit{Recipe: &recipe.Recipe{Arrays: endlessArrays}},
		Set: &tiers.Set{Disk: &disk.Tier{Loaders: 1, OnDisk: endless}}, Workers: 1, Prefetch: 1}
	n, want := diskMemory(p, 1, 2), int64(3+1000*5+diskio.MaxAsks*8+2*4*mib+staging)
	expect.That(t, n == want, "batches without end: %d bytes, want %d", n, want)
	onDisk[1].Pack.Bytes = 10 << 10
	p.Recipe.Arrays, p.Set.Disk.OnDisk = arrays, onDisk[1:]
	n, want = diskMemory(p, 1, 2), int64(3+70_000*5+9*12+1<<20*8+10+12<<10+2*4*mib+10<<10/16*4+staging)
	expect.That(t, n == want, "few packed rows: %d bytes, want %d", n, want)
	s := &disk.Tier{OnDisk: onDisk[:1]}
	expect.That(t, s.Has(wide) && !s.Has(narrow) && !(*disk.Tier)(nil).Has(wide), "which columns are on disk")
}

// The cache has by default half of the room there is, and at least a byte.
func TestTheDefaultCacheIsHalfOfTheRoom(t *testing.T) {
	for _, c := range []struct{ limit, room, available, want int64 }{{0, 0, 1000, 500}, {600, 0, 1000, 300},
		{0, 400, 1000, 200}, {600, 400, 1000, 300}, {0, 0, 1, 1}, {0, 0, 3, 1}, {0, 0, 4, 2}} {
		p := &Plan{MaxMemory: c.limit, Room: c.room, Free: c.available}
		got := p.defaultCache()
		expect.That(t, got == c.want, "%+v: %d bytes", c, got)
	}
	expect.That(t, PagedWorkers() == 2*machine.Workers()+2, "%d workers", PagedWorkers())
}
