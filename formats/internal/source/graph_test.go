package source

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// bytesOf returns the little-endian bytes of numbers.
func bytesOf(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	expect.OK(t, binary.Write(&b, binary.LittleEndian, v))
	return b.Bytes()
}

// partOf has some edges, two at a time, of a type and with one column.
func partOf(t *testing.T, at, reverse int, name string, dtype unified.DType, column any, src, dst []int64) Part {
	p := Part{Type: at, Reverse: reverse}
	p.Count, p.Columns = int64(len(src)), []graph.Column{{Name: name, DType: dtype}}
	p.Each = Pairs(func(yield func(src, dst []int64) error) error {
		for i := 0; i < len(src); i += 2 {
			end := min(i+2, len(src))
			if err := yield(src[i:end], dst[i:end]); err != nil {
				return err
			}
		}
		return nil
	}, [][]byte{bytesOf(t, column)}, []int64{dtype.Size()})
	return p
}

// edge is an edge of joined parts.
type edge struct {
	kind     uint16
	src, dst int64
	columns  string
}

func TestPartsAreJoinedToOneListOfEdges(t *testing.T) {
	g := &Graph{Types: []EdgeType{{Relation: "likes"}, {Relation: "liked by"}, {Relation: "knows"}}}
	nan := math.Float32bits(float32(math.NaN()))
	err := g.Join([]Part{partOf(t, 0, 1, "weight", unified.Float32, []float32{1.5, 2, -3}, []int64{1, 2, 3},
		[]int64{4, 5, 6}), partOf(t, 2, -1, "weight", unified.Int16, []int16{-7, 8}, []int64{7, 8}, []int64{9, 0}),
		partOf(t, 2, -1, "t", unified.Int8, []int8{-1}, []int64{1}, []int64{2}),
		partOf(t, 2, -1, "x", unified.Float32, []float32{6}, []int64{3}, []int64{3})})
	expect.OK(t, err)
	row := func(weight float32, at int8, x uint32) string {
		b := binary.LittleEndian.AppendUint32(nil, math.Float32bits(weight))
		return string(binary.LittleEndian.AppendUint32(append(b, byte(at)), x))
	}
	want := []edge{{0, 1, 4, row(1.5, 0, nan)}, {0, 2, 5, row(2, 0, nan)}, {1, 4, 1, row(1.5, 0, nan)},
		{1, 5, 2, row(2, 0, nan)}, {0, 3, 6, row(-3, 0, nan)}, {1, 6, 3, row(-3, 0, nan)}, {2, 7, 9, row(-7, 0, nan)},
		{2, 8, 0, row(8, 0, nan)}, {2, 1, 2, row(1, -1, nan)}, {2, 3, 3, row(1, 0, math.Float32bits(6))}}
	for range 2 {
		var got []edge
		err = g.Edges.Each(func(b Batch) error {
			for i := range b.Src {
				text := ""
				for k, c := range g.Edges.Columns {
					text += string(b.Columns[k][int64(i)*c.RowBytes() : int64(i+1)*c.RowBytes()])
				}
				got = append(got, edge{b.Types[i], b.Src[i], b.Dst[i], text})
			}
			return nil
		})
		expect.Ensure(t, err == nil && slices.Equal(got, want), "%q, want %q, %v", got, want, err)
	}
	expect.That(t, g.Edges.Count == int64(len(want)) && len(g.Notes) == 8, "%d edges, %d notes: %q", g.Edges.Count,
		len(g.Notes), g.Notes)
	for _, n := range []formats.Note{
		{Name: "weight", Count: 1, Text: `edges "knows" have no column "weight": it is 1 there`},
		{Name: "t", Count: 3, Text: `edges "likes" have no column "t": it is 0 there`},
		{Name: "x", Count: 1, Text: `edges "knows" have no column "x": it is NaN there`},
	} {
		n.Change = Altered
		said := slices.ContainsFunc(g.Notes, func(m Note) bool { return m.Note == n })
		expect.That(t, said, "%+v is not in %+v", n, g.Notes)
	}
	enough := errors.New("enough")
	for stop := range 6 {
		err := g.Edges.Each(func(Batch) error {
			if stop--; stop < 0 {
				return enough
			}
			return nil
		})
		expect.That(t, errors.Is(err, enough), "an error after some batches is lost: %v", err)
	}
}

func TestColumnsThatDoNotGoTogetherAreNotJoined(t *testing.T) {
	g := &Graph{Types: []EdgeType{{Relation: "likes"}, {Relation: "knows"}}}
	expect.OK(t, g.Join([]Part{partOf(t, 0, -1, "weight", unified.Int16, []int16{1}, []int64{0}, []int64{0}),
		partOf(t, 0, -1, "t", unified.Int8, []int8{1}, []int64{0}, []int64{0})}))
	wide := partOf(t, 1, -1, "weight", unified.Float16, []uint16{1}, []int64{0}, []int64{0})
	err := g.Join([]Part{wide})
	expect.That(t, err != nil && strings.Contains(err.Error(), `"weight"`), "numbers of 16 bits beside others: %v", err)
	long := partOf(t, 1, -1, "t", unified.Int8, []int8{1}, []int64{0}, []int64{0})
	long.Columns[0].Shape = []int64{2}
	if err := g.Join([]Part{long}); err == nil || !strings.Contains(err.Error(), `"t"`) {
		t.Errorf("rows of another shape: %v", err)
	}
	one := &Graph{Types: []EdgeType{{}}}
	only := partOf(t, 0, -1, "weight", unified.Float16, []uint16{1}, []int64{0}, []int64{0})
	err = one.Join([]Part{only})
	expect.That(t, err == nil && one.Edges.Count == 1 && len(one.Notes) == 0, "one part: %+v, %v", one, err)
	_ = one.Edges.Each(func(b Batch) error {
		expect.That(t, b.Types == nil, "edges of one type have types")
		return nil
	})
}

// The common type of two holds the numbers of both; floats of 16 bits stand alone.
func TestNumbersKeepTheirValueInTheCommonType(t *testing.T) {
	numbers := map[unified.DType]any{unified.Int8: []int8{-128, 127}, unified.Uint8: []uint8{0, 255},
		unified.Int16: []int16{-32768, 32767}, unified.Uint16: []uint16{0, 65535}, unified.Int32: []int32{-1 << 31,
			1<<31 - 1},
		unified.Uint32: []uint32{0, 1<<32 - 1}, unified.Int64: []int64{-1 << 52, 1 << 52}, unified.Uint64: []uint64{0,
			1 << 52},
		unified.Float32: []float32{-1.5, 3e38}, unified.Float64: []float64{-1e300, 0.1}}
	for a, of := range numbers {
		data := bytesOf(t, of)
		for b := range numbers {
			c := Common(a, b)
			expect.Ensure(t, c == Common(b, a) && (a != b || c == a) && c != unified.Invalid, "%v and %v: %v, %v", a,
				b, c, Common(b, a))
			if a == unified.Uint64 && c == unified.Int64 && b != a && len(data) == 16 {
				continue // up to 2^63 alone
			}
			got := Convert([]byte{9}, a, c, data)
			expect.Ensure(t, got[0] == 9 && int64(len(got)) == 1+2*c.Size(), "%v as %v: %d bytes", a, c, len(got))
			for i := range 2 {
				x, y := a.Float(data[int64(i)*a.Size():]), c.Float(got[1+int64(i)*c.Size():])
				expect.That(t, x == y, "%v as %v, for %v: %v becomes %v", a, c, b, x, y)
			}
		}
		for _, half := range []unified.DType{unified.Float16, unified.BFloat16} {
			expect.That(t, Common(a, half) == unified.Invalid && Common(half, half) == half, "%v and %v: %v", a, half,
				Common(a, half))
		}
	}
	for pair, want := range map[[2]unified.DType]unified.DType{{unified.Float32, unified.Int16}: unified.Float32,
		{unified.Float32, unified.Int32}: unified.Float64, {unified.Float64, unified.Uint8}: unified.Float64,
		{unified.Int8, unified.Uint8}: unified.Int64, {unified.Float32, unified.Float64}: unified.Float64} {
		got := Common(pair[0], pair[1])
		expect.That(t, got == want, "%v: %v, want %v", pair, got, want)
	}
}

// A column that edges do not have is NaN, or 0 of integers, and 1 where it is a weight.
func TestWhatEdgesDoNotHaveIsFilledByItsType(t *testing.T) {
	for dtype, want := range map[unified.DType][2][]byte{
		unified.Float16: {bytesOf(t, uint16(0x7e00)), bytesOf(t, uint16(0x3c00))}, unified.Int8: {{0}, {1}},
		unified.BFloat16: {bytesOf(t, uint16(0x7fc0)), bytesOf(t, uint16(0x3f80))},
		unified.Int64:    {make([]byte, 8), bytesOf(t, int64(1))},
		unified.Float32:  {bytesOf(t, float32(math.NaN())), bytesOf(t, float32(1))},
		unified.Float64:  {bytesOf(t, math.NaN()), bytesOf(t, 1.0)},
	} {
		for i, name := range []string{"x", "weight"} {
			c := &graph.Column{Name: name, DType: dtype, Shape: []int64{3}}
			if got := fill([]byte{7}, c, 2); !bytes.Equal(got[1:], bytes.Repeat(want[i], 6)) || got[0] != 7 {
				t.Errorf("%s of %v: %x, want 6 times %x", name, dtype, got, want[i])
			}
		}
	}
}

// Edges come back in their order and chunks, ids beyond 2^31 among them, from memory and from a file.
func TestEdgesThatAreKeptComeBack(t *testing.T) {
	const seed = 20261124
	r := rand.New(rand.NewPCG(seed, 0))
	for _, memory := range []int64{0, 400} {
		s := EdgeStore{Spool: Spool{Budget: &Budget{Dir: t.TempDir(), Memory: limited(memory)}}}
		if least, greatest := s.Range(); least != 0 || greatest != -1 || s.Len() != 0 {
			t.Errorf("no edges: ids %d to %d, %d edges", least, greatest, s.Len())
		}
		var chunks [][2][]int64
		least, greatest, n := int64(math.MaxInt64), int64(-1), 0
		for i := range 20 {
			most := []int64{100, 1<<31 - 1, 1 << 31, 1 << 40}[i%4]
			var c [2][]int64
			for range r.IntN(50) {
				c[0], c[1] = append(c[0], 5+r.Int64N(most)), append(c[1], 5+r.Int64N(most))
			}
			if len(c[0]) > 1 { // the border itself
				c[0][0], c[1][1] = most, 5+most/2
			}
			expect.OK(t, s.Append(c[0], c[1]))
			if len(c[0]) > 0 {
				chunks = append(chunks, c)
				least = min(least, slices.Min(c[0]), slices.Min(c[1]))
				greatest = max(greatest, slices.Max(c[0]), slices.Max(c[1]))
			}
			n += len(c[0])
		}
		for range 2 {
			at := 0
			err := s.Each(func(src, dst []int64) error {
				if !slices.Equal(src, chunks[at][0]) || !slices.Equal(dst, chunks[at][1]) {
					t.Errorf("seed %d: chunk %d is %v -> %v, want %v", seed, at, src, dst, chunks[at])
				}
				at++
				return nil
			})
			expect.Ensure(t, err == nil && at == len(chunks), "%d chunks of %d: %v", at, len(chunks), err)
		}
		stop := errors.New("stop")
		err := s.Each(func(_, _ []int64) error { return stop })
		expect.That(t, errors.Is(err, stop), "%v", err)
		if a, b := s.Range(); a != least || b != greatest || s.Len() != int64(n) {
			t.Errorf("ids %d to %d of %d edges, want %d to %d of %d", a, b, s.Len(), least, greatest, n)
		}
		err = s.Close()
		expect.That(t, err == nil && s.Len() == 0, "%d edges, %v", s.Len(), err)
	}
}

// Dense rows are what their entries add up to, in any number of rows that go out together.
func TestDenseRowsAreTheSumsOfTheirEntries(t *testing.T) {
	var ledger pinned.Ledger
	for _, size := range [][2]int64{{0, 3}, {1, 1}, {700, 1000}, {3, 1 << 18}, {263, 1000}, {2, 1<<18 + 1}} {
		rows, width := size[0], size[1]
		var out bytes.Buffer
		w := expect.Must(NewRows(t.Context(), &out, rows, width, &ledger))(t)
		expect.That(t, ledger.Total() <= (4*max(width, 1<<18)) && ledger.Total() >= 4*width,
			"%d bytes are taken for rows of %d", ledger.Total(), width)
		want := make([]float32, rows*width)
		for i := int64(0); i < rows; i += 1 + i/3 {
			for _, c := range []int64{0, width - 1, width / 2, 0} {
				expect.OK(t, w.Add(i, c, 1.5))
				want[i*width+c] += 1.5
			}
		}
		for _, bad := range [][2]int64{{rows, 0}, {max(rows-1, 0), width}, {max(rows-1, 0), -1}} {
			if err := w.Add(bad[0], bad[1], 1); err == nil {
				t.Errorf("row %d, column %d of %v is taken", bad[0], bad[1], size)
			}
		}
		if err := w.End(); err != nil || !bytes.Equal(out.Bytes(), unified.FromSlice(want).Bytes()) {
			t.Errorf("%v: %d bytes of %d, or others: %v", size, out.Len(), 4*len(want), err)
		}
		w.Close()
		expect.That(t, ledger.Total() == 0, "%d bytes are left", ledger.Total())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if w, err := NewRows(ctx, io.Discard, 10, 10, nil); err != nil || !errors.Is(w.End(), context.Canceled) {
		t.Errorf("rows go on after their context has ended: %v", err)
	}
	small := limited(100)
	_, err := NewRows(t.Context(), io.Discard, 10, 10, small)
	expect.That(t, errors.Is(err, pinned.ErrLimit) && small.Total() == 0, "rows beyond the limit: %v", err)
	g := &Graph{}
	for _, quiet := range [][3]int64{{1 << 12, 1 << 12, 0}, {1<<12 + 1, 1 << 12, 1 << 20}} {
		g.NoteDense(quiet[0], quiet[1], quiet[2])
	}
	expect.That(t, len(g.Notes) == 0, "%q", g.Notes)
	g.NoteDense(1<<12+1, 1<<12, 5)
	expect.That(t, len(g.Notes) == 1 && strings.Contains(g.Notes[0].Text, "sparse features of 5 entries"), "%q",
		g.Notes)
}

func TestABudgetOfDiskIsKept(t *testing.T) {
	b := &Budget{Dir: "here", Disk: 100}
	for _, step := range []struct {
		take, give, peak int64
		fits             bool
	}{{60, 0, 60, true}, {41, 0, 60, false}, {40, 0, 100, true}, {1, 50, 100, false}, {50, 0, 100, true}} {
		room, took := b.RoomOnDisk(step.take), b.TakeDisk(step.take)
		expect.That(t, (room == nil) == step.fits && (took == nil) == step.fits && b.DiskPeak() == step.peak,
			"%+v: %v, %v, a peak of %d", step, room, took, b.DiskPeak())
		expect.That(t, step.fits || errors.Is(took, formats.ErrSpace) && strings.Contains(took.Error(), "here: "), "%v",
			took)
		b.GiveDisk(step.give)
	}
	b.Moved(3, 4)
	b.Moved(10, 20)
	written, read := b.Traffic()
	expect.That(t, written == 13 && read == 24, "%d written, %d read", written, read)
	var none *Budget
	if none.Moved(1, 1); none.TakeDisk(1<<60) != nil || none.RoomOnDisk(1<<60) != nil || none.DiskPeak() != 0 ||
		none.Ledger() != nil || none.dir() != "" {
		t.Error("no budget has a limit")
	}
	if written, read := none.Traffic(); written != 0 || read != 0 {
		t.Errorf("%d written, %d read", written, read)
	}
	if unlimited := (&Budget{}); unlimited.TakeDisk(1<<60) != nil || unlimited.DiskPeak() != 1<<60 {
		t.Error("a budget without a limit has one")
	}
}

// ownedBy notes that it was closed.
type ownedBy struct {
	list *[]int
	n    int
}

func (c ownedBy) Close() error {
	*c.list = append(*c.list, c.n)
	return errors.New(Counted(int64(c.n), "one", "others"))
}

func TestAGraphClosesWhatItOwnsOnceTheLastFirst(t *testing.T) {
	g, list := Plain(), []int{}
	expect.That(t, g.Node() == &g.Nodes[0] && g.Node().Name == "node" && len(g.Types) == 1 &&
		g.Types[0].Relation == "edge", "%+v", g)
	for i := range 3 {
		g.Own(ownedBy{&list, i + 1})
	}
	err := g.Close()
	expect.That(t, err != nil && err.Error() == "3 others\n2 others\n1 one" && slices.Equal(list, []int{3, 2, 1}),
		"%v closed: %v", list, err)
	err = g.Close()
	expect.That(t, err == nil && len(list) == 3, "closed again: %v, %v", list, err)
}

func TestLinksAndLabelsAreKeptAsTheyAre(t *testing.T) {
	ledger, k := &pinned.Ledger{}, &Link{}
	for i := range int64(1000) {
		expect.OK(t, k.Append(ledger, i, 2*i, i%2))
	}
	for i := range int64(1000) {
		if k.Src[i] != i || k.Dst[i] != 2*i || k.Labels[i] != i%2 {
			t.Fatalf("link %d is %d -> %d, %d", i, k.Src[i], k.Dst[i], k.Labels[i])
		}
	}
	took := ledger.Total()
	expect.That(t, took >= 3*8*1000 && took <= 3*8*2100, "%d bytes are counted", took)
	few := limited(3 * 8 * 500)
	failed := error(nil)
	for i := 0; failed == nil && i < 1000; i++ {
		failed = (&Link{}).Append(few, 1, 1, 1)
	}
	expect.Is(t, failed, pinned.ErrLimit, "beyond the limit")
	for want, labels := range map[int64][]int64{0: {-1, -5}, 1: {0}, 8: {3, 7, -1}} {
		got := Classes(labels)
		expect.That(t, got == want, "%v: %d classes", labels, got)
	}
	stop := errors.New("stop")
	names, got := List("names", []string{"a", "b"}), ""
	err := names.Each(func(s string) error { got += s; return nil })
	expect.That(t, err == nil && got == "ab" && names.Rows == 2, "%q, %d rows, %v", got, names.Rows, err)
	err = names.Each(func(string) error { return stop })
	expect.That(t, errors.Is(err, stop), "%v", err)
}

func TestNotesThatDifferOnlyInANameAreALine(t *testing.T) {
	g := &Graph{}
	for _, name := range []string{"users", "users", `o"d`, "shops"} {
		g.Tell(Renumbered, name, 3, "nodes %q are numbered", name)
	}
	g.Tell(LeftOut, "users", 7, "nodes %q: %d rows are left out", "users", 7)
	g.Tell(LeftOut, "shops", 8, "nodes %q: %d rows are left out", "shops", 8)
	g.Note("ids are names")
	g.Note("ids are names")
	got := Lines(Spell(g.Notes, func(n option.Name) string { return n.Option }))
	expect.Same(t, got, []string{`nodes "users", "o\"d", "shops" are numbered`, `nodes "users": 7 rows are left out`,
		`nodes "shops": 8 rows are left out`, "ids are names", "ids are names"})
}
