package loader_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// place is loader.Place on the CPU; what it took must be back at the end.
func place(t *testing.T, src loader.Source, opt loader.Options, loaders int) *loader.Placed {
	t.Helper()
	if opt.Device.Name == "" {
		opt.Device.Name = "cpu"
	}
	p := expect.Must(loader.Place(background, src, opt, loaders))(t)
	t.Cleanup(func() {
		expect.OK(t, p.Close())
		n := p.Ledger().Total() + p.Ledger().DeviceTotal()
		expect.That(t, n == 0, "%d bytes are held after Close", n)
	})
	return p
}

func TestLoadersShareOneCopyOfAPlacedSource(t *testing.T) {
	g := graphs.Plain(t, 3000, 6)
	opt := loader.Options{Sampler: neighbor, BatchSize: 100, Shuffle: true, Residence: loader.Resident, Workers: 1,
		MaxMemory: 40 << 20}
	var want []string
	for rank := range 2 {
		alone := opt
		alone.Rank, alone.WorldSize = rank, 2
		want = append(want, digests(t, open(t, g, alone).Epoch(background, 1))...)
	}
	p := place(t, g, opt, 2)
	copies := p.Ledger().Total()
	var got []string
	for rank := range 2 {
		opt.Rank, opt.WorldSize = rank, 2
		l := open(t, p, opt)
		got = append(got, digests(t, l.Epoch(background, 1))...)
		m := l.Stats().Memory
		expect.That(t, m.Topology == 0 && m.Columns == 0, "rank %d copied the source again: %+v", rank, m)
	}
	expect.That(t, slices.Equal(got, want), "got %q, want %q", got, want)
	held := p.Ledger().Used(pinned.Topology) + p.Ledger().Used(pinned.Columns)
	expect.That(t, held == copies && copies != 0, "%d bytes of copies, %d when the source was placed", held, copies)
	peak := p.Ledger().Peak()
	expect.That(t, peak <= opt.MaxMemory, "both took %d bytes, MaxMemory is %d", peak, opt.MaxMemory)
}

func TestMaxMemoryBoundsAllLoadersOfAPlacedSource(t *testing.T) {
	g := graphs.Plain(t, 3000, 6)
	opt := loader.Options{Sampler: neighbor, BatchSize: 100, Workers: 4, Tuning: loader.TuningOptions{Prefetch: 4},
		MaxMemory: 1_200_000}
	one := open(t, g, opt).Estimate()
	p := place(t, g, opt, 2)
	a, b := open(t, p, opt), open(t, p, opt)
	for _, l := range []*loader.Loader{a, b} {
		if e := l.Estimate(); e.Slots >= one.Slots || 2*e.Bound.Total() > opt.MaxMemory {
			t.Errorf("each of two has %d slots of at most %d bytes, one alone has %d of %d", e.Slots, e.Bound.Total(),
				one.Slots, one.Bound.Total())
		}
		digests(t, l.Epoch(background, 0))
	}
	if sum := a.Stats().Memory.Total() + b.Stats().Memory.Total(); p.Ledger().Total() != sum {
		t.Errorf("the placed source counts %d bytes, its loaders %d", p.Ledger().Total(), sum)
	}
	more := opt
	more.Hooks.PerSlot = 50 << 10
	c := open(t, p, more)
	expect.That(t, c.Estimate().Slots < a.Estimate().Slots,
		"50 KiB beside each slot leave %d slots, where there were %d", c.Estimate().Slots, a.Estimate().Slots)
	opt.MaxMemory = 100 << 10
	expect.Is(t, expect.Err(loader.Place(background, g, opt, 100)), loader.ErrMemory, "a hundred loaders in 100 KiB")
}

// telling is a source that has all that a source may have, and counts what it is asked.
type telling struct {
	loader.Source
	changed  error
	verified int
}

func (*telling) Path() string   { return "/data/told.khop" }
func (*telling) Remedy() string { return "ask for another" }

func (s *telling) Unchanged() error { return s.changed }

func (s *telling) Verify(b []byte) error {
	s.verified += len(b)
	return nil
}

// A placed source stands in for its source.
func TestAPlacedSourceSaysWhatItsSourceSays(t *testing.T) {
	src := &telling{Source: graphs.Plain(t, 60, 4)}
	opt := loader.Options{Sampler: neighbor, BatchSize: 10}
	p := place(t, src, opt, 1)
	if p.ID() != src.ID() || p.Graph() != src.Graph() || p.Path() != src.Path() || p.Remedy() != src.Remedy() ||
		p.Device() != "cpu" || p.Arrays() != nil {
		t.Errorf("%x, %s, %s, %s, %v", p.ID(), p.Path(), p.Remedy(), p.Device(), p.Arrays())
	}
	l := open(t, p, opt)
	var want, got []string
	for _, a := range l.Arrays() {
		want = append(want, a.Name)
	}
	for _, a := range p.BatchArrays() {
		got = append(got, a.Name)
	}
	expect.That(t, slices.Equal(got, want) && len(got) != 0 && l.Placed() == nil && l.Graph() == src.Graph(),
		"arrays %q, those of a loader are %q", got, want)
	seeds, err := p.Split("train", 0)
	if _, none := p.Split("train", 1); err != nil || seeds.Len() != 30 || !errors.Is(none, graph.ErrNoSplit) {
		t.Errorf("a split: %v, %v; of another number: %v", seeds, err, none)
	}
	err = p.Verify(make([]byte, 17))
	expect.That(t, err == nil && src.verified == 17, "%d bytes were verified: %v", src.verified, err)
	src.changed = errors.New("it has changed")
	expect.Is(t, lastError(l.Epoch(background, 0)), src.changed, "an epoch of what has changed")
	src.changed = nil
	n := len(digests(t, l.Epoch(background, 0)))
	expect.That(t, n == 3, "%d batches", n)
	bare := place(t, graphs.Plain(t, 60, 4), opt, 1)
	id := bare.ID()
	err = bare.Verify([]byte{1})
	expect.That(t, err == nil && bare.Path() == fmt.Sprintf("dataset %x", id) && bare.Remedy() == "", "%v, %q, %q", err,
		bare.Path(), bare.Remedy())
}

// What was decided as a source was placed holds for each of its loaders, whatever its own options say; the rest of its
// options is its own.
func TestLoadersTakeOverWhatWasPlaced(t *testing.T) {
	g := graphs.Plain(t, 60, 4)
	own := loader.Options{Sampler: neighbor, BatchSize: 9, Residence: loader.Mapped,
		Device: loader.DeviceOptions{Name: "cpu", Memory: 12, Cache: 13, HotRows: loader.RankUses}, Workers: 2,
		Verify: false, Columns: loader.ColumnOptions{Widen: []string{"float32"}},
		Tuning: loader.TuningOptions{Carry: loader.CarryCopies, HostPages: loader.PagesMeasured},
		Disk:   loader.DiskOptions{CacheBytes: 5000, Lookahead: 7, PackBytes: 11}, MaxMemory: 1 << 40}
	p := place(t, &telling{Source: g}, own, 3)
	asked := loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{2}}, BatchSize: 5,
		Tuning: loader.TuningOptions{Prefetch: 3, Carry: loader.CarryMeasured}, Workers: 3,
		Residence: loader.Resident, Verify: true, Disk: loader.DiskOptions{CacheBytes: 1, Lookahead: 2, PackBytes: 3},
		MaxMemory: 4, Device: loader.DeviceOptions{Name: "cpu", Memory: 5, Cache: 6, HotRows: loader.RankNone}, Seed: 5,
		Instance: 2}
	l := open(t, p, asked)
	expect.That(t, reflect.DeepEqual(l.Options(), *asked.EnsureDefaults()), "the options became %+v", l.Options())
	want := loader.Answer{Sampler: asked.Sampler, Seeds: loader.Split("train"), BatchSize: 5, Workers: 3, Prefetch: 3,
		Residence: loader.Mapped, CacheBytes: 5000, MaxMemory: 1 << 40, Device: "cpu"}
	expect.That(t, reflect.DeepEqual(l.Answer(), want), "%+v, want %+v", l.Answer(), want)
	for says, change := range map[string]func(o *loader.Options){
		"BatchSize is -1: must be 1 to 1073741824":       func(o *loader.Options) { o.BatchSize = -1 },
		"Device.Name is cuda:0, but /data/told.khop was": func(o *loader.Options) { o.Device.Name = "cuda" },
		"Device.Name is cuda:3, but /data/told.khop was": func(o *loader.Options) { o.Device.Name = "cuda:3" },
		" was placed for cpu":                            func(o *loader.Options) { o.Device.Name = "cuda:1" },
		"no column \"none\"": func(o *loader.Options) {
			o.Columns.Nodes = []string{"none"}
		},
		"the column was not placed: name it in the opt": func(o *loader.Options) {
			o.Columns.Edges = []string{"weight"}
		},
		`reads columns ["weight"] of the edges, but /data/told.khop was placed for one that reads []`: func(
			o *loader.Options) {
			o.Sampler = weighing{neighbor, "weight", func(*graph.Graph) {}}
		},
	} {
		o := asked
		change(&o)
		l, err := loader.New(p, o)
		expect.That(t, l == nil && errors.Is(err, loader.ErrOptions) && strings.Contains(err.Error(), says),
			"%v, want %s", err, says)
	}
	asked.Sampler, asked.Hooks.PerSlot = neighbor, 1<<40
	l, err := loader.New(p, asked)
	expect.That(t, l == nil && errors.Is(err, loader.ErrMemory), "no room for a slot: %v", err)
	_, err = loader.Place(background, g, own, 0)
	expect.That(t, err != nil && strings.HasSuffix(err.Error(), ": 0 loaders share a placed source: must be 1 or more"),
		"%v", err)
	_, err = loader.Place(background, p, own, 1)
	expect.That(t, err != nil && strings.HasSuffix(err.Error(), ": /data/told.khop is placed already"), "%v", err)
}

// A loader's sampler may read columns of the edges that were placed, all of them, or none.
func TestASamplerReadsColumnsThatWerePlaced(t *testing.T) {
	g := graphs.Plain(t, 60, 4)
	reads := func(column string) loader.Options {
		return loader.Options{Sampler: weighing{neighbor, column, func(*graph.Graph) {}}, BatchSize: 10}
	}
	p := place(t, g, reads("weight"), 2)
	for _, opt := range []loader.Options{reads("weight"), {Sampler: neighbor, BatchSize: 10}} {
		n := len(digests(t, open(t, p, opt).Epoch(background, 0)))
		expect.That(t, n == 3, "%d batches", n)
	}
}

// A placed source that is closed takes no further loader, and is freed with the last that it has.
func TestAPlacedSourceEndsWithItsLastLoader(t *testing.T) {
	opt := loader.Options{Sampler: neighbor, BatchSize: 10, Residence: loader.Resident,
		Device: loader.DeviceOptions{Name: "cpu"}, Workers: 1}
	p := expect.Must(loader.Place(background, graphs.Plain(t, 60, 4), opt, 2))(t)
	a, b := open(t, p, opt), open(t, p, opt)
	copies := func() int64 { return p.Ledger().Total() - a.Stats().Memory.Total() - b.Stats().Memory.Total() }
	held := copies()
	for i, end := range []func() error{p.Close, p.Close, a.Close, a.Close} {
		if err := end(); err != nil || copies() != held || held == 0 {
			t.Fatalf("%d: %v, copies of %d bytes, there were %d", i, err, copies(), held)
		}
		l, err := loader.New(p, opt)
		expect.That(t, l == nil && errors.Is(err, loader.ErrClosed) && strings.HasPrefix(err.Error(), p.Path()+": "),
			"%v", err)
	}
	n := len(digests(t, b.Epoch(background, 0)))
	expect.That(t, n == 3, "%d batches", n)
	err := b.Close()
	expect.That(t, err == nil && p.Ledger().Total() == 0, "%v, %d bytes are held", err, p.Ledger().Total())
}

// A resident graph is the source's, but for what is read: that is copied, once, whoever reads it.
func TestAResidentGraphHasCopiesOfWhatIsRead(t *testing.T) {
	g := graphs.Columns(t, 2, 30, 150)
	s := weighing{sampling.Neighbor{Fanouts: []int{2}}, "weight", func(*graph.Graph) {}}
	opt := loader.Options{Sampler: s, BatchSize: 10, Residence: loader.Resident, Seeds: loader.AllNodes("n1"),
		Columns: loader.ColumnOptions{Nodes: []string{"feature"}, Seeds: []string{"feature"},
			Edges: []string{"weight", "mask"}}}
	l := open(t, g, opt)
	got, want := l.Graph(), digests(t, l.Epoch(background, 0))
	same := func(name string, copied bool, a, b unified.Tensor) {
		t.Helper()
		at, bt := unsafe.SliceData(a.Bytes()), unsafe.SliceData(b.Bytes())
		expect.That(t, (at != bt) == copied && slices.Equal(a.Bytes(), b.Bytes()) && a.String() == b.String(),
			"%s: copied: %v, want %v; %v of %v", name, at != bt, copied, b, a)
	}
	same("indptr", true, unified.FromSlice(g.Indptr()), unified.FromSlice(got.Indptr()))
	same("indices", true, g.Indices(), got.Indices())
	same("types", true, g.Types(), got.Types())
	same("ids", false, g.EdgeIDs(), got.EdgeIDs())
	for _, c := range g.Schema().EdgeColumns {
		a, _ := g.EdgeColumn(c.Name)
		b, _ := got.EdgeColumn(c.Name)
		same(c.Name, c.Name != "time", a, b)
	}
	for i := range g.Schema().Nodes {
		for _, c := range g.Schema().Nodes[i].Columns {
			a, _ := g.NodeColumn(i, c.Name)
			b, _ := got.NodeColumn(i, c.Name)
			same(c.Name, c.Name == "feature", a, b)
		}
	}
	if d := expect.Diff(*g.Schema(), *got.Schema()); d != "" || g.ID() != got.ID() || &g.Schema().Nodes[0] ==
		&got.Schema().Nodes[0] || &g.Schema().Edges[0] == &got.Schema().Edges[0] {
		t.Errorf("the schema: %s", d)
	}
	for _, name := range []string{"weight", "mask"} {
		x, _ := g.EdgeColumn(name)
		clear(x.Bytes())
	}
	for i := range 2 {
		x, _ := g.NodeColumn(i, "feature")
		clear(x.Bytes())
	}
	clear(g.Indices().Bytes())
	expect.Same(t, digests(t, l.Epoch(background, 0)), want, "batches are of the source's own memory")
	page := pinned.Options{}.Size
	m, edges := l.Stats().Memory, g.NumEdges()
	topology := page(61*8) + page(4*edges) + page(edges) + page(4*edges)
	expect.That(t, m.Topology == topology, "the topology takes %d bytes, want %d", m.Topology, topology)
	columns := 2*page(30*20) + page(edges)
	expect.That(t, m.Columns == columns, "columns take %d bytes, want %d", m.Columns, columns)
}
