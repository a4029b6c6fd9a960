package loader

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// diskMemory is what a loader takes for columns and a topology on disk, of a slot and a sampler of so many bytes.
func diskMemory(r *recipe, slot, scratch int64) int64 {
	if len(r.split.Columns()) == 0 {
		return r.pagedMemory()
	}
	return sat.Add(r.pagedMemory(), r.split.Cost(tier.Bound{Columns: r.describe(r.split.Columns()),
		Loaders: r.split.Loaders, Workers: r.opt.Workers, Slots: r.opt.Workers + r.opt.Tuning.Prefetch, Sampled: slot,
		Worker: scratch}).Scratch)
}

// What columns and a topology on disk take is counted to the byte.
func TestWhatADiskTakesIsCountedToTheByte(t *testing.T) {
	const mib, staging, asker = 1 << 20, 8 << 20, 1 << 15 * 68
	wide, narrow := unread(t, 1000, 512), unread(t, 70_000, 16)
	wide.Name, narrow.Name, narrow.NodeType = "x", "y", -1
	arrays := []Array{{Kind: ArrayNodes, Most: 1 << 20}, {Kind: ArrayNodeColumn, Column: "x", Most: 300},
		{Kind: ArraySeedColumn, Column: "x", Most: 212}, {Kind: ArrayNodeColumn, Type: 1, Column: "x", Most: 1 << 20},
		{Kind: ArrayEdgeColumn, Column: "y", Most: 1<<20 - 5}, {Kind: ArrayEdgeColumn, Type: 1, Column: "y", Most: 5}}
	onDisk := []tiers.ColumnOnDisk{{Column: wide, Slots: 40, MostAsks: 1 << 12, Early: 777},
		{Column: narrow, Slots: 9, MostAsks: 1 << 9, Early: 10, Pack: diskio.PackOptions{Memory: 3 * mib}}}
	ofWide := int64(1000*5 + 40*12 + 1<<12*20 + 777 + 8*4*mib) // 512 rows are asked for
	ofNarrow := int64(70_000*5 + 9*12 + 1<<20*20 + 10 + 3*mib + 8*4*mib)
	endless := []tiers.ColumnOnDisk{{Column: wide, MostAsks: 1}}
	paged := &pagedTopology{bytes: 4096 * 126, loaders: 2}
	ofPages := int64(2*8*3+staging) / 2 // 128 pages, in words of 64
	for name, c := range map[string]struct {
		split *tiers.DiskTier
		paged *pagedTopology
		want  int64
	}{
		"nothing":  {nil, nil, 0},
		"no rows":  {&tiers.DiskTier{Loaders: 2}, nil, 0},
		"rows":     {&tiers.DiskTier{Loaders: 4, OnDisk: onDisk[:1]}, nil, 3*(100+30) + ofWide + staging/4},
		"both":     {&tiers.DiskTier{Loaders: 1, OnDisk: onDisk}, nil, 3*(100+30) + ofWide + ofNarrow + staging},
		"topology": {nil, paged, ofPages + 5*asker},
		"whole":    {&tiers.DiskTier{Loaders: 2}, paged, ofPages + 5*asker},
		"all": {&tiers.DiskTier{Loaders: 1, OnDisk: onDisk[:1]}, paged,
			ofPages + 8*asker + 3*130 + ofWide + staging},
	} {
		r := &recipe{opt: Options{Workers: 5, Tuning: TuningOptions{Prefetch: 3}},
			arrays: arrays, split: c.split, paged: c.paged}
		n := diskMemory(r, 100, 30)
		expect.That(t, n == c.want, "%s: %d bytes, want %d", name, n, c.want)
	}
	r := &recipe{opt: Options{Workers: 1, Tuning: TuningOptions{Prefetch: 1}},
		split: &tiers.DiskTier{Loaders: 1, OnDisk: endless}, arrays: []Array{
			{Kind: ArrayNodeColumn, Column: "x", Most: 1 << 60}}}
	n, want := diskMemory(r, 1, 2), int64(3+1000*5+1<<40*20+2*4*mib+staging)
	expect.That(t, n == want, "batches without end: %d bytes, want %d", n, want)
	s := &tiers.DiskTier{OnDisk: onDisk[:1]}
	expect.That(t, s.Has(wide) && !s.Has(narrow) && !(*tiers.DiskTier)(nil).Has(wide), "which columns are on disk")
}

// A column of an eighth of the cache is kept whole, and one a byte larger is not. A window is of the power of two that
// is more than half of what it may have.
func TestTheBordersOfWhatIsKeptWhole(t *testing.T) {
	const cache = 167_772_160 // a quarter is 2^21 asks
	fits, large, rest := unread(t, cache/8, 1), unread(t, cache/8+1, 1), unread(t, 1<<22, 512)
	for c, whole := range map[*tiers.Column]int{fits: 1, large: 0} {
		total := c.Store.Column().Len() + 1<<31
		s := tiers.SplitColumns([]*tiers.Column{rest, c}, total, tiers.DiskOptions{CacheBytes: cache},
			1, nil)
		expect.That(t, len(s.Whole) == whole && len(s.OnDisk) == 2-whole, "a column of %d bytes in a cache of %d: %+v",
			total-1<<31, cache, s)
	}
	s := tiers.SplitColumns([]*tiers.Column{rest}, 1<<31, tiers.DiskOptions{CacheBytes: cache}, 1, nil)
	d := s.OnDisk[0]
	expect.That(t, d.MostAsks == 1<<21 && d.Slots == cache/512, "%+v", d)
	s = tiers.SplitColumns([]*tiers.Column{rest}, 1<<31, tiers.DiskOptions{CacheBytes: cache - 200}, 1, nil)
	if d := s.OnDisk[0]; d.MostAsks != 1<<20 {
		t.Errorf("%+v", d)
	}
	a := Array{Kind: ArrayNodes, DType: unified.Int32, Most: 5}
	b := Array{Kind: ArrayNodeColumn, DType: unified.Int64, Most: 5, Row: []int64{3, 7}}
	expect.That(t, a.mostBytes() == (5+1024)*4 && b.mostBytes() == 5*8*21 && b.rowBytes() == 168, "%d and %d bytes",
		a.mostBytes(), b.mostBytes())
}

// An outlook of a share looks as far ahead as the window of all would.
func TestAnOutlookOfAShareLooksAsFarAhead(t *testing.T) {
	const one, width = 20_000, 64
	c := unread(t, 1<<24, width)
	layout := diskio.Layout{RowBytes: width, Rows: 4000, Shape: disk.Shape{Page: 4096, Most: 1 << 16, Sector: 4096}}
	r := rand.New(rand.NewPCG(1, 2))
	var asks [][]uint32
	for i := range 40 {
		var rows []uint32
		for len(rows) < 13 || i < 4 && len(rows) < 14 { // 524 in all
			if row := uint32(r.IntN(4000)); !slices.Contains(rows, row) {
				rows = append(rows, row)
			}
		}
		asks = append(asks, rows)
	}
	const ahead = 1<<19/(524*one/40) + 1 // one more row, and it would be less
	tr := &rowTrace{recipe: &recipe{opt: Options{Disk: DiskOptions{Lookahead: 64, CacheBytes: 5}}, batches: 20},
		columns: []*tiers.Column{c},
		one:     one, asks: map[*tiers.Column][][]uint32{c: asks}}
	o := &Outlook{ColumnBytes: 1 << 30, Batches: 20}
	to := &OutlookPolicy{Policy: disk.Ahead}
	expect.OK(t, tr.simulateOne(o, map[*tiers.Column]diskio.Layout{c: layout}, one*width*50, to))
	want, err := diskio.Simulate(disk.Ahead, layout, diskio.PlannerOptions{Slots: 50, Lookahead: ahead,
		Along: 4 << 20 / width / one}, asks, 20)
	want = want.Times(one)
	expect.That(t, err == nil && to.Misses == want.Misses && to.Requests == want.Requests && to.Batches == 20,
		"%+v, want %+v: %v", to.Counts, want, err)
}

// Rows of a column are verified up to its last piece, however many it has.
func TestTheLastPieceOfALargeColumnIsVerified(t *testing.T) {
	x := unread(t, 1<<21, 1<<10).Store.Column()
	p := &pieces{whole: x.Bytes(), times: make([]int, 1<<11), rotten: 1<<11 - 1}
	v := tiers.NewVerifiedRows(p, x)
	for _, c := range []struct {
		row  int64
		fits bool
	}{{-1, true}, {0, true}, {1 << 21, true}, {1<<21 - 1, false}, {1<<21 - 1025, true}} {
		err := v.Check(unified.FromSlice([]int64{c.row}))
		expect.That(t, (err == nil) == c.fits, "row %d: %v", c.row, err)
	}
	expect.That(t, p.times[0] == 1 && p.times[1<<11-1] == 1 && p.times[1<<11-2] == 1, "%v", p.times)
}

// A trace has the rows of two epochs, batch by batch; packing it keeps neighbours, and makes no others.
func TestATraceIsPackedWithoutNewNeighbours(t *testing.T) {
	opt := Options{Sampler: sampling.Neighbor{Fanouts: []int{2}}, Device: DeviceOptions{Name: "cpu"}, BatchSize: 10}
	r, on := expect.Must2(settle(ring(t, 35), opt))(t)
	c := unread(t, 35, 64)
	tr := &rowTrace{recipe: r, columns: []*tiers.Column{c}}
	err := tr.sample(t.Context())
	expect.Ensure(t, err == nil && r.closeShared() == nil && on.close() == nil, "%v", err)
	expect.That(t, len(tr.asks[c]) == 8 && tr.one == 1 && tr.sampled == 8, "%d batches, one of %d", len(tr.asks[c]),
		tr.one)
	tr.asks[c] = [][]uint32{{9000, 9001, 500}, {1024 * 3, 501, 9001}, nil}
	rows := tr.pack(c)
	expect.That(t, c.Together() == 1024 && rows == 2*3*1024, "places of %d rows, %d in all", c.Together(), rows)
	expect.Same(t, tr.asks[c],
		[][]uint32{{9000 - 8*1024, 9001 - 8*1024, 2*1024 + 500}, {4 * 1024, 2*1024 + 501, 9001 - 8*1024}, nil})
	one := unread(t, 4, 1<<20)
	expect.That(t, one.Together() == 1, "%d rows of a megabyte are neighbours", one.Together())
}

// A sampler's scratch has room for buffers that move, and for huge pages where it needs such.
func TestScratchHasRoomForBuffersThatMove(t *testing.T) {
	const more = 64 << 10
	for says, want := range map[int64]int64{-9: more, 0: more, 4: 7 + more, 5: 8 + more, 1198372: 1<<21 - 1 + more,
		1198373: 1<<21 + 4<<21 + more, 1 << 62: 1<<63 - 1} {
		r := &recipe{bound: sampling.Bound{Scratch: says}}
		if got := r.mostScratch(); got != want && (says < 1<<62 || got < 1<<60) {
			t.Errorf("%d bytes of a sampler that says %d, want %d", got, says, want)
		}
	}
}

// A slot that is only sampled into has no rows of columns.
func TestASlotWithoutColumnsIsCountedByPages(t *testing.T) {
	opt := Options{Sampler: sampling.Neighbor{Fanouts: []int{2}}, BatchSize: 600,
		Columns: ColumnOptions{EdgePos: true}, Device: DeviceOptions{Name: "cpu"}}
	r := expect.Must(newRecipe(ring(t, 5000), *opt.EnsureDefaults()))(t)
	page := func(n int64) int64 { return (n + 4095) / 4096 * 4096 }
	// nodes, seeds as they are in the batch and as they were asked for, indptr, indices, positions
	want := page((1800+1024)*4) + page(600*4) + page(600*8) + page(1801*4) + 2*page(1200*4)
	got := r.withoutColumns()
	expect.That(t, os.Getpagesize() != 4096 || got == want, "%d bytes, want %d", got, want)
	r.arrays = append(r.arrays, Array{Kind: ArrayNodeColumn, DType: unified.Float32, Most: 1 << 20})
	r.arrays = append(r.arrays, Array{Kind: ArrayIndices, DType: unified.Int32, Most: 1 << 61})
	if got := r.withoutColumns(); os.Getpagesize() == 4096 && got != want+1<<60 {
		t.Errorf("%d bytes, want %d", got, want+1<<60)
	}
}

// The cache has by default half of the room there is, and at least a byte.
func TestTheDefaultCacheIsHalfOfTheRoom(t *testing.T) {
	for _, c := range []struct{ limit, room, available, want int64 }{{0, 0, 1000, 500}, {600, 0, 1000, 300},
		{0, 400, 1000, 200}, {600, 400, 1000, 300}, {0, 0, 1, 1}, {0, 0, 3, 1}, {0, 0, 4, 2}} {
		AvailableMemory(t, c.available)
		r := &recipe{opt: Options{MaxMemory: c.limit}, room: c.room}
		got := r.defaultCache()
		expect.That(t, got == c.want, "%+v: %d bytes", c, got)
	}
}

// sparseColumn is a column of a byte a row in a file that has no blocks.
func sparseColumn(t *testing.T, rows int64) *tiers.Column {
	t.Helper()
	path := filepath.Join(t.TempDir(), "column")
	f := expect.Must(os.Create(path))(t)
	defer f.Close()
	if err := f.Truncate(rows); err != nil {
		t.Skip("a sparse file: ", err)
	}
	m := expect.Must(pinned.Map(f))(t)
	t.Cleanup(func() { _ = m.Close() })
	x := expect.Must(unified.New(unified.Uint8, m.Bytes(), rows))(t)
	s := expect.Must(gather.NewStore(x))(t)
	return &tiers.Column{Name: "many", Store: s}
}

// A column that has more rows than can be numbered is read as a mapped one.
func TestAColumnOfTooManyRowsIsNotReadFromDisk(t *testing.T) {
	few, many := sparseColumn(t, diskio.MaxRows-1), sparseColumn(t, diskio.MaxRows)
	log := &bytes.Buffer{}
	r := &recipe{opt: Options{Hooks: Hooks{Logger: slog.New(slog.NewTextHandler(log, nil))}}}
	mapped, total := r.inFiles([]*tiers.Column{many, few})
	expect.That(t, len(mapped) == 1 && mapped[0] == few && total == diskio.MaxRows-1, "%d columns of %d bytes",
		len(mapped), total)
	want := "level=WARN msg=\"a column has too many rows to be read from disk\" column=many rows=2147483647\n"
	text := log.String()
	expect.That(t, strings.HasSuffix(text, want) && strings.Count(text, "\n") == 1, "the log says %s", text)
}

// A topology that the cache has room for, and one that a device reads, stay as they are.
func TestATopologyIsPagedWhereTheCacheHasNoRoom(t *testing.T) {
	x := sparseColumn(t, 8*5001).Store.Column()
	indptr := expect.Must(unified.New(unified.Int64, x.Bytes(), 5001))(t)
	g, err := graph.FromArrays(graph.Arrays{Schema: graph.Schema{Nodes: []graph.NodeType{{Name: "n", Count: 5000}},
		Edges: []graph.EdgeType{{Source: "n", Relation: "e", Target: "n"}}}, Indptr: indptr,
		Indices: unified.FromSlice([]int32{})})
	expect.OK(t, err)
	r := &recipe{graph: g, opt: Options{Sampler: sampling.Neighbor{}}}
	size := int64(8 * 5001)
	for _, c := range []struct {
		device string
		cache  int64
		paged  bool
	}{{"cpu", size - 1, true}, {"cpu", size, false}, {"cuda:0", 1, false}} {
		r.opt.Device.Name = c.device
		p := r.pageTopology(c.cache, 3)
		if (p != nil) != c.paged || p != nil && (p.bytes != size || p.cache != c.cache || p.loaders != 3 ||
			len(p.arrays) != 1 || p.stats() != nil) {
			t.Errorf("%+v: %+v", c, p)
		}
	}
	if asker, err := (*pagedTopology)(nil).ask(); asker != nil || err != nil {
		t.Errorf("%v, %v", asker, err)
	}
	expect.That(t, pagedWorkers() == 2*machine.Workers()+2, "%d workers", pagedWorkers())
}
