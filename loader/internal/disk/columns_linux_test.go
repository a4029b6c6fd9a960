package disk

import (
	"bytes"
	"cmp"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader/internal/placed"
	"github.com/khop-gnn/khop/loader/internal/recipe"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// unread is a column of this number of rows, whose memory is never read.
func unread(t *testing.T, rows, width int64) *placed.Column {
	t.Helper()
	x := expect.Must(unified.New(unified.Uint8, expect.Unread(t, rows*width), rows, width))(t)
	return &placed.Column{Store: expect.Must(gather.NewStore(x))(t)}
}

// Small columns are kept whole; the others share the cache by their size, and a quarter of a share, or 16 MiB, is the
// most that a window's asks take, in a power of two. With a pack it is all of the share.
func TestTheCacheIsSharedByColumns(t *testing.T) {
	label, wide, narrow := unread(t, 1<<20, 8), unread(t, 1<<24, 512), unread(t, 1<<25, 128)
	const total = 8<<20 + 8<<30 + 4<<30
	for _, c := range []struct {
		cache, pack int64
		loaders     int
		asks        [2]int64 // of narrow and wide; 0: a window takes the share
		early       int64
	}{
		{6 << 30, 0, 1, [2]int64{0, 0}, 32 << 20}, {6 << 30, 0, 2, [2]int64{0, 0}, 32 << 20},
		{96 << 20, 0, 1, [2]int64{1 << 20, 1 << 20}, 0}, {96 << 20, 1, 1, [2]int64{64 << 20 / 12, 64 << 20 / 12}, 0},
		{6 << 30, 1, 1, [2]int64{0, 0}, 32 << 20},
	} {
		s := Split([]*placed.Column{wide, label, narrow}, total, Options{CacheBytes: c.cache,
			PackBytes: c.pack},
			c.loaders, nil)
		expect.Ensure(t, len(s.Whole) == 1 && s.Whole[0] == label && len(s.OnDisk) == 2 && s.Loaders == c.loaders,
			"%+v: %+v", c, s)
		sum := int64(0)
		for i, d := range s.OnDisk {
			of, part := []*placed.Column{narrow, wide}[i], []int64{1, 2}[i]
			share := (c.cache - 8<<20) * part / 3 / int64(c.loaders)
			row := of.Store.RowBytes()
			early := min(c.early, share/4)
			if c.early == 0 {
				early = share / 4
			}
			asks := cmp.Or(c.asks[i], share/64)
			if c.asks[i] == 0 && c.pack > 0 {
				asks = share / 12
			}
			if d.Column != of || d.Index != i || d.MostAsks < asks-1 || d.MostAsks > asks ||
				d.Along != int((4<<20)/row) ||
				int64(d.Slots) > share/row || int64(d.Slots) < share/row-1 || d.Early < early-1 || d.Early > early+1 {
				t.Errorf("%+v: column %d has %+v, of a share of %d", c, i, d, share)
			}
			expect.That(t, d.Pack.Bytes == c.pack*part/3 && (d.Pack.Memory > 0) == (c.pack > 0),
				"%+v: column %d packs %+v", c, i, d.Pack)
			sum += int64(d.Slots) * row
		}
		expect.That(t, s.CacheBytes >= sum && s.CacheBytes <= sum+2*pinned.HugePage,
			"%+v: caches of %d bytes, %d are said", c, sum, s.CacheBytes)
	}
	small := Split([]*placed.Column{wide, label, narrow}, total, Options{CacheBytes: total}, 1, nil)
	expect.That(t, len(small.Whole) == 3 && len(small.OnDisk) == 0 && small.CacheBytes == 0,
		"what fits is not kept whole: %+v", small)
	none := Split([]*placed.Column{label}, 8<<20, Options{CacheBytes: 1 << 20}, 1, nil)
	expect.That(t, len(none.Whole) == 0 && len(none.OnDisk) == 1 && none.OnDisk[0].Slots == 1<<17, "%+v", none)
}

// A column of an eighth of the cache is kept whole, and one a byte larger is not.
func TestTheBordersOfWhatIsKeptWhole(t *testing.T) {
	const cache = 167_772_160 // an eighth is 2,621,440 asks
	fits, large, rest := unread(t, cache/8, 1), unread(t, cache/8+1, 1), unread(t, 1<<22, 512)
	for c, whole := range map[*placed.Column]int{fits: 1, large: 0} {
		total := c.Store.Column().Len() + 1<<31
		s := Split([]*placed.Column{rest, c}, total, Options{CacheBytes: cache}, 1, nil)
		expect.That(t, len(s.Whole) == whole && len(s.OnDisk) == 2-whole, "a column of %d bytes in a cache of %d: %+v",
			total-1<<31, cache, s)
	}
	s := Split([]*placed.Column{rest}, 1<<31, Options{CacheBytes: cache}, 1, nil)
	d := s.OnDisk[0]
	expect.That(t, d.MostAsks == 2_621_440 && d.Slots == cache/512, "%+v", d)
	huge := unread(t, 1<<27, 512)
	s = Split([]*placed.Column{huge}, 1<<36, Options{CacheBytes: 1<<36 - 1, PackBytes: 1}, 1, nil)
	d = s.OnDisk[0]
	expect.That(t, d.MostAsks == diskio.MaxAsks, "%+v", d)
}

// sparseColumn is a column of a byte a row in a file that has no blocks.
func sparseColumn(t *testing.T, rows int64) *placed.Column {
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
	return &placed.Column{ColumnKey: recipe.ColumnKey{Name: "many"}, Store: s}
}

// A column that has more rows than can be numbered is read as a mapped one.
func TestAColumnOfTooManyRowsIsNotReadFromDisk(t *testing.T) {
	few, many := sparseColumn(t, diskio.MaxRows-1), sparseColumn(t, diskio.MaxRows)
	log := &bytes.Buffer{}
	mapped, total := InFiles([]*placed.Column{many, few}, slog.New(slog.NewTextHandler(log, nil)))
	expect.That(t, len(mapped) == 1 && mapped[0] == few && total == diskio.MaxRows-1, "%d columns of %d bytes",
		len(mapped), total)
	want := "level=WARN msg=\"a column has too many rows to be read from disk\" column=many rows=2147483647\n"
	text := log.String()
	expect.That(t, strings.HasSuffix(text, want) && strings.Count(text, "\n") == 1, "the log says %s", text)
}

// A topology that the cache has room for stays as it is.
func TestATopologyIsPagedWhereTheCacheHasNoRoom(t *testing.T) {
	x := sparseColumn(t, 8*5001).Store.Column()
	indptr := expect.Must(unified.New(unified.Int64, x.Bytes(), 5001))(t)
	g, err := graph.FromArrays(graph.Arrays{Schema: graph.Schema{Nodes: []graph.NodeType{{Name: "n", Count: 5000}},
		Edges: []graph.EdgeType{{Source: "n", Relation: "e", Target: "n"}}}, Indptr: indptr,
		Indices: unified.FromSlice([]int32{})})
	expect.OK(t, err)
	r := &recipe.Recipe{Spec: recipe.Spec{Graph: g, Sampler: sampling.Neighbor{}}}
	size := int64(8 * 5001)
	for _, c := range []struct {
		cache int64
		paged bool
	}{{size - 1, true}, {size, false}} {
		p := PageTopology(r, c.cache, 3)
		if (p != nil) != c.paged || p != nil && (p.Bytes != size || p.cache != c.cache || p.Loaders != 3 ||
			len(p.arrays) != 1 || p.Stats() != nil) {
			t.Errorf("%+v: %+v", c, p)
		}
	}
	asker, err := (*Paged)(nil).Ask()
	expect.That(t, asker == nil && err == nil, "%v, %v", asker, err)
}
