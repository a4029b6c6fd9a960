package edgesort

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// TestKeysOfEveryLengthAreSorted has keys of which 4 to 8 bytes are kept, with columns and without, in memory and
// through a file.
func TestKeysOfEveryLengthAreSorted(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 3))
	for _, c := range []struct{ nodes, types int64 }{{200, 1}, {60_000, 1}, {60_000, 2}, {1 << 16, 256},
		{1 << 16, 257}, {1 << 16, 1 << 16}, {1 << 17, 1 << 15}} {
		for _, columns := range []bool{false, true} {
			for _, both := range []bool{false, true} {
				opt := Options{Nodes: []source.NodeType{{Count: c.nodes}}, Types: make([]source.EdgeType, c.types),
					ByTime: -1, Workers: 2, Both: both, Edges: 3000}
				if columns {
					opt.Columns = []graph.Column{{Name: "weight", DType: unified.Uint16}, {Name: "time",
						DType: unified.Int64}}
				}
				var edges []edge
				for range opt.Edges {
					edges = append(edges, edge{src: r.Int64N(c.nodes), dst: r.Int64N(c.nodes), typ: r.Int64N(c.types),
						weight: r.Int64N(100), time: r.Int64N(9)})
				}
				edges[0].src, edges[0].dst, edges[0].typ = c.nodes-1, c.nodes-1, c.types-1
				got, _ := sortAll(t, opt, edges, 1000, []int64{0})
				sorted, _ := slow(edges, &opt, c.nodes)
				w := want(sorted, c.nodes, len(opt.Types), columns)
				for i, b := range [][2]*bytes.Buffer{{&got.indptr, &w.indptr}, {&got.indices, &w.indices},
					{&got.types, &w.types}, {&got.weight, &w.weight}, {&got.time, &w.time}} {
					expect.Ensure(t, bytes.Equal(b[0].Bytes(), b[1].Bytes()),
						"%+v, columns %t, both %t: array %d differs", c, columns, both, i)
				}
			}
		}
	}
}

// TestKeysAreKeptAsTheyAre: what a run keeps of a key, and its part, are the key.
func TestKeysAreKeptAsTheyAre(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for bits := 1; bits <= 64; bits++ {
		for _, shift := range []int{max(bits-12, 0), bits} {
			l := &level{bits: bits, shift: shift, width: max(4, int64(shift+7)/8)}
			if bits < 64 {
				l.prefix = 1 << bits
			}
			keys := make([]uint64, 9)
			for i := range keys {
				keys[i] = r.Uint64() & l.mask()
			}
			keys[0], keys[1] = 0, l.mask()
			stored := make([]byte, int64(len(keys))*l.width)
			cursor := make([]uint32, 1<<12)
			for i, k := range keys {
				part := 0
				if shift < 64 {
					part = int(k >> shift)
				}
				var back [1]uint64
				one := make([]byte, l.width)
				putKey(one, k, l.width)
				l.widen(back[:], one, part)
				cursor[part] = uint32(i)
				scatter(stored, []uint64{k}, cursor, l.mask(), shift, l.width)
				if back[0] != l.prefix|k || !bytes.Equal(stored[int64(i)*l.width:int64(i+1)*l.width], one) ||
					cursor[part] != uint32(i)+1 {
					t.Fatalf("%d bits, shift %d: key %x is kept as %x and %x, and read as %x", bits, shift, k, one,
						stored[int64(i)*l.width:int64(i+1)*l.width], back[0])
				}
			}
		}
	}
}

// TestElementsAreComparedAndCombinedAsNumbers, of every type.
func TestElementsAreComparedAndCombinedAsNumbers(t *testing.T) {
	inf := math.Inf(1)
	for _, list := range []any{[]float64{-inf, -1e300, -1, -1e-300, 0, 1e-300, 1, 2, 1e300, inf},
		[]float32{-1e38, -1, -1e-38, 0, 1e-38, 1, 1e38}, []int64{math.MinInt64, -1, 0, 1, math.MaxInt64},
		[]uint64{0, 1, 1 << 63, math.MaxUint64}, []int32{math.MinInt32, -1, 0, 1, math.MaxInt32},
		[]uint32{0, 1, 1 << 31, math.MaxUint32}, []int16{math.MinInt16, -1, 0, 1, math.MaxInt16},
		[]uint16{0, 1, 1 << 15, math.MaxUint16}, []int8{-128, -1, 0, 1, 127}, []uint8{0, 1, 128, 255}} {
		name := strings.TrimPrefix(fmt.Sprintf("%T", list), "[]")
		dtype := expect.Must(unified.ParseDType(name))(t)
		var b bytes.Buffer
		expect.OK(t, binary.Write(&b, binary.LittleEndian, list))
		elements := slices.Collect(slices.Chunk(b.Bytes(), int(dtype.Size())))
		for i, x := range elements {
			for j, y := range elements {
				expect.That(t, (ordered(x, dtype) < ordered(y, dtype)) == (i < j),
					"%s: of %v, number %d is not in order with %d", name, list, i, j)
				most := slices.Clone(x)
				if combine(most, y, dtype, false); !bytes.Equal(most, elements[max(i, j)]) {
					t.Errorf("%s: of %v, the greater of %d and %d is %v", name, list, i, j, most)
				}
			}
			sum, one1 := slices.Clone(x), make([]byte, len(x))
			dtype.Put(one1, 1)
			combine(sum, one1, dtype, true)
			if want := plusOne(t, list, i); !bytes.Equal(sum, want) {
				t.Errorf("%s: of %v, number %d and 1 make %v, not %v", name, list, i, sum, want)
			}
		}
	}
	zeros := [2][]byte{binary.LittleEndian.AppendUint64(nil, 1<<63), make([]byte, 8)}
	expect.That(t, ordered(zeros[0], unified.Float64) == ordered(zeros[1], unified.Float64), "-0 is less than 0")
}

// plusOne returns the bytes of an element of a list and 1.
func plusOne(t *testing.T, list any, i int) []byte {
	t.Helper()
	v := reflect.ValueOf(list).Index(i)
	sum := reflect.New(v.Type()).Elem()
	switch {
	case v.CanFloat():
		sum.SetFloat(v.Float() + 1)
	case v.CanInt():
		sum.SetInt(v.Int() + 1)
	default:
		sum.SetUint(v.Uint() + 1)
	}
	var b bytes.Buffer
	expect.OK(t, binary.Write(&b, binary.LittleEndian, sum.Interface()))
	return b.Bytes()
}

// sorting is a sorter of edges of three types with two columns, of which one is wider than a buffer.
func sorting(t *testing.T, edges int, memory int64) (*Sorter, source.Batch, *pinned.Ledger) {
	t.Helper()
	ledger := sourcetest.Limited(memory)
	opt := Options{Nodes: []source.NodeType{{Count: 50}}, Types: make([]source.EdgeType, 3), ByTime: -1,
		Edges: int64(edges), Workers: 2, Columns: []graph.Column{{Name: "weight", DType: unified.Int32}, {Name: "row",
			DType: unified.Uint8, Shape: []int64{sinkBuffer + 1}}},
		Budget: &source.Budget{Memory: ledger, Dir: t.TempDir()}}
	if edges > 100 {
		opt.Columns = opt.Columns[:1]
	}
	s := expect.Must(New(opt))(t)
	r := rand.New(rand.NewPCG(6, 6))
	var b source.Batch
	for range edges {
		b.Src, b.Dst, b.Types = append(b.Src, r.Int64N(50)), append(b.Dst, r.Int64N(50)), append(b.Types,
			uint16(r.IntN(3)))
	}
	for _, c := range opt.Columns {
		b.Columns = append(b.Columns, make([]byte, int64(edges)*c.RowBytes()))
	}
	return s, b, ledger
}

// refusing takes this number of writes, and then refuses.
type refusing struct{ left int }

var errRefused = errors.New("refused")

func (w *refusing) Write(p []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, errRefused
	}
	return len(p), nil
}

// TestWhatCannotBeWrittenIsAnError: each array in turn, at each of its writes; and nothing more is written then.
func TestWhatCannotBeWrittenIsAnError(t *testing.T) {
	for _, edges := range []int{7, 100_000} {
		for array := range 5 {
			if array == 4 && edges > 100 {
				continue
			}
			for left := 0; ; left++ {
				s, b, ledger := sorting(t, edges, 64<<20)
				expect.OK(t, s.Add(t.Context(), b))
				w := [5]*refusing{{math.MaxInt}, {math.MaxInt}, {math.MaxInt}, {math.MaxInt}, {math.MaxInt}}
				w[array].left = left
				sink := Sink{Indptr: w[0], Indices: w[1], Types: w[2], Columns: []io.Writer{w[3], w[4]}}
				sink.Columns = sink.Columns[:len(s.opt.Columns)]
				err := s.Emit(t.Context(), sink)
				if w[array].left >= 0 {
					expect.That(t, err == nil && left != 0, "%d edges, array %d: %v after %d writes", edges, array, err,
						left)
				} else if !errors.Is(err, errRefused) || w[array].left != -1 {
					t.Errorf("%d edges, array %d, write %d: %v; %d writes more", edges, array, left, err,
						-1-w[array].left)
				}
				if err := s.Close(); err != nil || ledger.Total() != 0 {
					t.Errorf("%d bytes are still counted: %v", ledger.Total(), err)
				}
				if w[array].left >= 0 {
					break
				}
			}
		}
	}
}

// TestSortingStopsWhenItsContextEnds, whenever that is: before edges are taken in, and at each report of progress.
func TestSortingStopsWhenItsContextEnds(t *testing.T) {
	cause := errors.New("enough")
	for at := 0; ; at += 1 + at/4 {
		s, b, _ := sorting(t, 60_000, 1<<19)
		s.opt.Loops = AddLoops
		ctx, cancel := context.WithCancelCause(t.Context())
		calls := 0
		s.opt.Progress = func(string, int64, int64) {
			if calls++; calls == at {
				cancel(cause)
			}
		}
		if at == 0 {
			cancel(cause)
		}
		err := s.Add(ctx, b)
		if err == nil {
			err = s.Emit(ctx, Sink{Indptr: nothing{}, Indices: nothing{}, Types: nothing{}, Columns: []io.Writer{
				nothing{}}})
		}
		cerr := s.Close()
		expect.Ensure(t, cerr == nil, "%v", cerr)
		left, _ := os.ReadDir(s.opt.Budget.Dir)
		expect.Ensure(t, len(left) == 0 && (err == nil || errors.Is(err, cause)),
			"stopped at report %d: %v, left behind %v", at, err, left)
		if err == nil && calls < at {
			break
		}
		if err == nil && calls > at+12 { // the parts that are sorted already are written
			t.Fatalf("stopped at report %d of %d, it went on", at, calls)
		}
		cancel(nil)
	}
}

// TestProgressIsTold of all edges that are taken in, and of all that are written.
func TestProgressIsTold(t *testing.T) {
	s, b, _ := sorting(t, 3000, 8<<20)
	defer s.Close()
	var told []string
	s.opt.Edges = 5000
	s.opt.Progress = func(stage string, done, of int64) { told = append(told, fmt.Sprint(stage, " ", done, " ", of)) }
	for range 2 {
		expect.OK(t, s.Add(t.Context(), b))
	}
	expect.OK(t, s.Emit(t.Context(), Sink{Indptr: nothing{}, Indices: nothing{}, Types: nothing{}, Columns: []io.Writer{
		nothing{}}}))
	want := []string{"place 3000 5000", "place 6000 6000", "sort 6000 6000"}
	expect.That(t, slices.Equal(append(told[:2:2], told[len(told)-1]), want), "told %q", told)
	for i, text := range told[2:] {
		expect.That(t, strings.HasPrefix(text, "sort ") && strings.HasSuffix(text, " 6000"), "report %d is %q", i+2,
			text)
	}
}

// TestATemporaryFileThatFailsIsAnError: when it is made, written and read; what it took is then free.
func TestATemporaryFileThatFailsIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(s *Sorter) error
		late  bool // when all edges were taken in
		want  error
	}{
		"no folder":       {func(s *Sorter) error { return os.Remove(s.opt.Budget.Dir) }, false, os.ErrNotExist},
		"no room":         {func(s *Sorter) error { s.opt.Budget.Disk = 1; return nil }, false, formats.ErrSpace},
		"room for a part": {func(s *Sorter) error { s.opt.Budget.Disk = 1 << 19; return nil }, false, formats.ErrSpace},
		"written":         {func(s *Sorter) error { return s.spill.file.Close() }, true, os.ErrClosed},
	} {
		s, b, ledger := sorting(t, 300_000, 1<<19)
		var err error
		if !c.late {
			err = c.spoil(s)
		}
		if err == nil {
			err = s.Add(t.Context(), b)
		}
		if err == nil && c.late {
			if err = s.settle(); err == nil {
				err = c.spoil(s)
			}
		}
		if err == nil {
			err = s.Emit(t.Context(), Sink{Indptr: nothing{}, Indices: nothing{}, Types: nothing{},
				Columns: []io.Writer{nothing{}}})
		}
		expect.Is(t, err, c.want, name)
		if err := s.Close(); (err != nil) != c.late || ledger.Total() != 0 {
			t.Errorf("%s: closed: %v; %d bytes are still counted", name, err, ledger.Total())
		}
		err = s.opt.Budget.RoomOnDisk(1)
		expect.That(t, c.want == formats.ErrSpace || err == nil, "%s: %v", name, err)
		left, _ := os.ReadDir(s.opt.Budget.Dir)
		expect.That(t, len(left) == 0, "%s: left behind: %v", name, left)
	}
}

// TestASorterTakesWhatItSays: its memory to the byte, and no more of the disk than announced.
func TestASorterTakesWhatItSays(t *testing.T) {
	weight := []graph.Column{{Name: "weight", DType: unified.Float64}}
	for _, c := range []struct {
		opt        Options
		all, least int64
	}{
		{Options{Edges: 1 << 20, ByTime: -1}, 24<<20 + 6<<20 + 1<<18, 1 << 18},
		{Options{Edges: 1 << 20, ByTime: -1, Both: true}, 60<<20 + 1<<18, 1 << 18},
		{Options{Edges: 1 << 20, ByTime: -1, Columns: weight}, 60<<20 + 1<<18, 1<<18 + 512},
		{Options{Edges: 1 << 20, ByTime: 0, Columns: weight}, 85<<20 + 1<<18, 1<<18 + 512},
		{Options{ByTime: -1}, 1 << 18, 1 << 18},
	} {
		if all, least := Need(c.opt); all != c.all || least != c.least {
			t.Errorf("%+v needs %d bytes, at least %d, not %d and %d", c.opt, all, least, c.all, c.least)
		}
	}
	for _, c := range []struct {
		limit, want int64
	}{{0, 24<<14 + 6<<14 + 1<<18}, {1 << 20, 24<<14 + 6<<14 + 1<<18}, {600_000, 525_000 &^ 63}, {1 << 18, 1 << 18},
		{1<<18 - 1, 0}} {
		ledger := sourcetest.Limited(c.limit)
		opt := Options{Nodes: []source.NodeType{{Count: 3}}, Types: make([]source.EdgeType, 1), ByTime: -1,
			Edges: 1 << 14, Budget: &source.Budget{Memory: ledger}}
		s, err := New(opt)
		if c.want == 0 {
			expect.That(t, errors.Is(err, pinned.ErrLimit) && strings.HasPrefix(err.Error(), "sort 16384 edges: ") &&
				ledger.Total() == 0, "within %d bytes: %v, %d bytes are counted", c.limit, err, ledger.Total())
			continue
		}
		expect.OK(t, err)
		if got := ledger.Used(pinned.Building); got != c.want || int64(len(s.mem)) != c.want {
			t.Errorf("within %d bytes it takes %d, not %d", c.limit, got, c.want)
		}
		err = s.Close()
		expect.That(t, err == nil && ledger.Total() == 0, "%v, %d bytes are still counted", err, ledger.Total())
	}
	for _, c := range []struct{ memory, want int64 }{{0, 8 << 20}, {8 << 20, 8 << 20}, {9 << 20, 8 << 20},
		{9<<20*8/7 - 1, 8 << 20}, {9 << 20 * 8 / 7, 0}, {1 << 40, 0}} {
		got := Spill(Options{Edges: 1 << 20, ByTime: -1}, c.memory)
		expect.That(t, got == c.want, "with %d bytes of memory temporary files take %d, not %d", c.memory, got, c.want)
	}
}

// TestASorterOfMuchMemoryPassesThePageCacheBy, and one of a byte less does not.
func TestASorterOfMuchMemoryPassesThePageCacheBy(t *testing.T) {
	for _, c := range []struct {
		limit int64
		want  bool
	}{{64 << 20 * 8 / 7, true}, {64<<20*8/7 - 128, false}} {
		ledger := sourcetest.Limited(c.limit + 2)
		s, err := New(Options{Nodes: []source.NodeType{{Count: 3}}, Types: make([]source.EdgeType, 1), ByTime: -1,
			Edges: 1 << 30, Budget: &source.Budget{Memory: ledger}})
		expect.OK(t, err)
		expect.That(t, s.spill.large == c.want, "of %d bytes: %t", len(s.mem), s.spill.large)
		expect.OK(t, s.Close())
	}
}

// TestWhatASorterRefusesItNames.
func TestWhatASorterRefusesItNames(t *testing.T) {
	node := []source.NodeType{{Count: 3}, {Count: 5}}
	types := []source.EdgeType{{Source: 0, Target: 1}, {Source: 1, Target: 0}}
	weight := []graph.Column{{Name: "weight", DType: unified.Float64}}
	for _, c := range []struct {
		opt  Options
		b    source.Batch
		want string
	}{
		{Options{Nodes: []source.NodeType{{Count: 1 << 30}, {Count: 1}}, Types: make([]source.EdgeType, 5)},
			source.Batch{}, "too many nodes and edge types: 1073741825 nodes, 5 edge types: of 64 bits they take 65"},
		{Options{Nodes: node, Types: types}, source.Batch{Src: []int64{1, 2}, Dst: []int64{1}, Types: []uint16{0}},
			"a batch of 2 sources, 1 destinations, 1 types, 0 columns"},
		{Options{Nodes: node, Types: types}, source.Batch{Src: []int64{1}, Dst: []int64{1}, Types: []uint16{0, 1}},
			"a batch of 1 sources, 1 destinations, 2 types, 0 columns"},
		{Options{Nodes: node, Types: types, Columns: weight}, source.Batch{Src: []int64{1}, Dst: []int64{1}},
			"a batch of 1 sources, 1 destinations, 0 types, 0 columns"},
		{Options{Nodes: node, Types: types, Columns: weight}, source.Batch{Src: []int64{1, 1}, Dst: []int64{1, 1},
			Columns: [][]byte{make([]byte, 15)}}, `column "weight": 15 bytes for 2 edges`},
		{Options{Nodes: node, Types: types}, source.Batch{Src: []int64{1, 3}, Dst: []int64{1, 1},
			Types: []uint16{0, 0}}, "edge 3: source 3 is not in 0 .. 2"},
		{Options{Nodes: node, Types: types}, source.Batch{Src: []int64{2, 4}, Dst: []int64{4, 3},
			Types: []uint16{0, 1}}, "edge 3: destination 3 is not in 0 .. 2"},
		{Options{Nodes: node, Types: types}, source.Batch{Src: []int64{2, 4}, Dst: []int64{4, 2},
			Types: []uint16{0, 2}}, "edge 3: type 2 is not in 0 .. 1"},
		{Options{Nodes: node, Types: types[:1]}, source.Batch{Src: []int64{2, 3}, Dst: []int64{4, 4}},
			"edge 3: source 3 is not in 0 .. 2"},
		{Options{Nodes: node, Types: types[:1]}, source.Batch{Src: []int64{2, 2}, Dst: []int64{4, 5}},
			"edge 3: destination 5 is not in 0 .. 4"},
	} {
		c.opt.ByTime = -1
		s, err := New(c.opt)
		if err == nil {
			two := source.Batch{Src: []int64{0, 0}, Dst: []int64{0, 0}}
			for _, col := range c.opt.Columns {
				two.Columns = append(two.Columns, make([]byte, 2*col.RowBytes()))
			}
			expect.OK(t, s.Add(t.Context(), two))
			err = s.Add(t.Context(), c.b)
			expect.OK(t, s.Close())
		}
		expect.That(t, err != nil && err.Error() == c.want, "got  %v\nwant %s", err, c.want)
	}
}

// Shares cover all segments in order, and are equal to the record.
func TestSharesAreEqual(t *testing.T) {
	r := rand.New(rand.NewPCG(20261123, 4))
	for range 300 {
		var segs []segment
		var want []int64
		at := int64(0)
		for range r.IntN(6) {
			at += r.Int64N(50)
			g := segment{at, 1 + r.Int64N(40)}
			for i := range g.n {
				want = append(want, at+i)
			}
			segs, at = append(segs, g), at+g.n
		}
		n := 1 + r.IntN(5)
		var got []int64
		pieces := 0
		for _, list := range share(segs, n) {
			records := int64(0)
			pieces += len(list)
			for _, g := range list {
				records += g.n
				for i := range g.n {
					got = append(got, g.at+i)
				}
			}
			if most := (int64(len(want)) + int64(n) - 1) / int64(n); records > most || records < most-2 && records > 0 {
				t.Fatalf("%v in %d shares: one has %d of %d", segs, n, records, len(want))
			}
		}
		expect.Ensure(t, slices.Equal(got, want) && pieces <= len(segs)+n,
			"%v in %d shares: %d pieces of %v, not of %v", segs, n, pieces, got, want)
	}
}
