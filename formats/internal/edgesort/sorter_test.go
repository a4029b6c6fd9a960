package edgesort

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/invariants"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

func TestMain(m *testing.M) { expect.NoGoroutines(m) }

// edge is an edge among all nodes.
type edge struct {
	src, dst, typ int64
	back          bool
	weight, time  int64
}

// slow is what the sorter promises, spelt out, and what it says of it.
func slow(edges []edge, opt *Options, nodes int64) ([]edge, Stats) {
	var all []edge
	var stats Stats
	for _, e := range edges {
		if e.src == e.dst && opt.Loops == DropLoops {
			stats.Loops++
			continue
		}
		all = append(all, e)
		if opt.Both && e.src != e.dst {
			all = append(all, edge{e.dst, e.src, e.typ, true, e.weight, e.time})
		}
	}
	if opt.Loops == AddLoops {
		loops := map[int64]bool{}
		for _, e := range all {
			loops[e.src] = loops[e.src] || e.src == e.dst && e.typ == 0
		}
		for v := range nodes {
			if !loops[v] {
				all = append(all, edge{v, v, 0, true, 1, 0})
				if opt.Last == 0 || v >= opt.First && v < opt.Last {
					stats.Loops++
				}
			}
		}
	}
	all = slices.DeleteFunc(all, func(e edge) bool { return opt.Last > 0 && (e.dst < opt.First || e.dst >= opt.Last) })
	order := func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.dst, b.dst), cmp.Compare(a.typ, b.typ), cmp.Compare(a.src, b.src))
	}
	slices.SortStableFunc(all, func(a, b edge) int {
		return cmp.Or(order(a, b), cmp.Compare(map[bool]int{true: 1}[a.back], map[bool]int{true: 1}[b.back]))
	})
	kept := merged(all, opt, order, &stats)
	if opt.ByTime >= 0 {
		slices.SortStableFunc(kept, func(a, b edge) int {
			return cmp.Or(cmp.Compare(a.dst, b.dst), cmp.Compare(a.typ, b.typ), cmp.Compare(a.time, b.time))
		})
	}
	stats.Edges = int64(len(kept))
	return kept, stats
}

// merged makes of equal edges what the options say.
func merged(all []edge, opt *Options, order func(a, b edge) int, stats *Stats) (kept []edge) {
	for lo := 0; lo < len(all); {
		hi, back := lo, 0
		for hi < len(all) && order(all[lo], all[hi]) == 0 {
			if all[hi].back {
				back++
			}
			hi++
		}
		n := hi - lo
		switch e := &all[lo]; opt.Merge {
		case MostOfTwo:
			stats.Reversed += int64(min(back, n-back))
			n = max(back, n-back)
		case First, Sum, Max:
			for _, o := range all[lo+1 : hi] {
				switch opt.Merge {
				case Sum:
					e.weight, e.time = e.weight+o.weight, max(e.time, o.time)
				case Max:
					e.weight, e.time = max(e.weight, o.weight), max(e.time, o.time)
				}
			}
			stats.Merged += int64(n - 1)
			n = 1
		}
		stats.Parallel += int64(n - 1)
		kept = append(kept, all[lo:lo+n]...)
		lo = hi
	}
	return kept
}

// result is what a sorter writes.
type result struct{ indptr, indices, types, weight, time bytes.Buffer }

func sortAll(t *testing.T, opt Options, edges []edge, batch int, offset []int64) (*result, *Sorter) {
	t.Helper()
	s := expect.Must(New(opt))(t)
	for part := range slices.Chunk(edges, batch) {
		var b source.Batch
		b.Columns = make([][]byte, len(opt.Columns))
		for _, e := range part {
			typ := opt.Types[e.typ]
			b.Src, b.Dst = append(b.Src, e.src-offset[typ.Source]), append(b.Dst, e.dst-offset[typ.Target])
			b.Types = append(b.Types, uint16(e.typ))
			if len(opt.Columns) > 0 {
				time := timeColumn(&opt)
				b.Columns[1-time] = binary.LittleEndian.AppendUint16(b.Columns[1-time], uint16(e.weight))
				b.Columns[time] = binary.LittleEndian.AppendUint64(b.Columns[time], uint64(e.time))
			}
		}
		expect.OK(t, s.Add(context.Background(), b))
	}
	var r result
	sink := Sink{Indptr: &r.indptr, Indices: &r.indices, Types: &r.types}
	if len(opt.Columns) > 0 {
		sink.Columns = append(sink.Columns, &r.weight, &r.time)
		if timeColumn(&opt) == 0 {
			slices.Reverse(sink.Columns)
		}
	}
	err := s.Emit(context.Background(), sink)
	cerr := s.Close()
	expect.Ensure(t, cerr == nil, "%v", cerr)
	if errors.Is(err, pinned.ErrLimit) && largestAtOnce(edges, &opt) > 5_000 {
		return nil, s
	}
	expect.OK(t, err)
	return &r, s
}

// timeColumn is which of the two columns has the times.
func timeColumn(opt *Options) int {
	return slices.IndexFunc(opt.Columns, func(c graph.Column) bool { return c.Name == "time" })
}

// largestAtOnce counts the edges that no sorter can divide: those of a node by time, those between two nodes to merge.
func largestAtOnce(edges []edge, opt *Options) (most int) {
	type key struct{ dst, src int64 }
	counts := map[key]int{}
	for _, e := range edges {
		for range 2 {
			k := key{e.dst, e.src}
			if opt.ByTime >= 0 {
				k.src = 0
			}
			counts[k]++
			most = max(most, counts[k])
			if !opt.Both {
				break
			}
			e.src, e.dst = e.dst, e.src
		}
	}
	return most
}

// want spells edges as a sorter writes them.
func want(edges []edge, nodes int64, types int, columns bool) *result {
	var r result
	u64 := func(b *bytes.Buffer, v int64) { b.Write(binary.LittleEndian.AppendUint64(nil, uint64(v))) }
	at := int64(0)
	for v := range nodes {
		u64(&r.indptr, at)
		for ; at < int64(len(edges)) && edges[at].dst == v; at++ {
		}
	}
	u64(&r.indptr, at)
	for _, e := range edges {
		r.indices.Write(binary.LittleEndian.AppendUint32(nil, uint32(e.src)))
		if types > 1 {
			r.types.WriteByte(byte(e.typ))
		}
		if types > 256 {
			r.types.WriteByte(byte(e.typ >> 8))
		}
		if columns {
			r.weight.Write(binary.LittleEndian.AppendUint16(nil, uint16(e.weight)))
			u64(&r.time, e.time)
		}
	}
	return &r
}

// randomGraph draws a graph and what is to be done with it.
func randomGraph(r *rand.Rand) (opt Options, edges []edge, offset []int64, nodes int64) {
	few := int64(300)
	if r.IntN(6) == 0 {
		few = 1 << (10 + r.IntN(8))
	}
	opt = Options{Nodes: []source.NodeType{{Count: 1 + r.Int64N(few)}}, Types: []source.EdgeType{{}}, ByTime: -1,
		Workers: 1 + r.IntN(3), Both: r.IntN(2) == 0, Loops: Loops(r.IntN(3))}
	if r.IntN(3) == 0 {
		opt.Nodes = append(opt.Nodes, source.NodeType{Count: 1 + r.Int64N(300)})
		opt.Types = append(opt.Types, source.EdgeType{Source: 0, Target: 1}, source.EdgeType{Source: 1, Target: 0})
		opt.Both, opt.Loops = false, Loops(r.IntN(2))
	} else if r.IntN(4) == 0 {
		opt.Types = make([]source.EdgeType, 1<<[]int{1, 8, 9, 16}[r.IntN(4)]-r.IntN(2))
	}
	columns := r.IntN(3) > 0
	if columns {
		opt.Columns = []graph.Column{{Name: "weight", DType: unified.Uint16}, {Name: "time", DType: unified.Int64}}
		opt.Merge = []Merge{Keep, First, Sum, Max}[r.IntN(4)]
		opt.ByTime = r.IntN(2)*2 - 1
		if r.IntN(2) == 0 {
			slices.Reverse(opt.Columns)
			opt.ByTime = min(opt.ByTime, 0)
		}
	} else {
		opt.Merge = []Merge{Keep, MostOfTwo, First}[r.IntN(3)]
	}
	for _, n := range opt.Nodes {
		offset, nodes = append(offset, nodes), nodes+n.Count
	}
	if r.IntN(4) == 0 {
		opt.First = r.Int64N(nodes)
		opt.Last = opt.First + 1 + r.Int64N(nodes-opt.First)
	}
	skew := 1 + r.Int64N(5)
	for range 1 + r.IntN(60_000) {
		typ := r.IntN(len(opt.Types))
		id := func(n int) int64 {
			v := opt.Nodes[n].Count
			for range skew {
				v = min(v, 1+r.Int64N(v))
			}
			return offset[n] + v - 1
		}
		edges = append(edges, edge{src: id(opt.Types[typ].Source), dst: id(opt.Types[typ].Target), typ: int64(typ),
			weight: r.Int64N(100), time: r.Int64N(50) - 25})
	}
	return opt, edges, offset, nodes
}

// TestEdgesAreSortedInAnyMemory compares random graphs under random options with the slow function.
func TestEdgesAreSortedInAnyMemory(t *testing.T) {
	seed := expect.Seed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	spilt := 0
	defer func(n int) { directMemory = n }(directMemory)
	graphs := 30
	if invariants.Enabled {
		graphs = 8 // the race detector makes each take ten times as long; the eighth goes past the page cache
	}
	for i := range graphs {
		opt, edges, offset, nodes := randomGraph(r)
		directMemory = (i + 1) % 8 << 40 // every eighth graph goes past the page cache
		opt.Edges = int64(len(edges))
		ledger := sourcetest.Limited(1<<19 + r.Int64N(1<<18))
		opt.Budget = &source.Budget{Memory: ledger, Dir: t.TempDir()}
		got, s := sortAll(t, opt, edges, 1+r.IntN(20_000), offset)
		if got == nil {
			continue
		}
		sorted, stats := slow(edges, &opt, nodes)
		w := want(sorted, nodes, len(opt.Types), len(opt.Columns) > 0)
		if opt.Last > 0 { // of these nodes alone
			w.indptr.Truncate(int(8 * (opt.Last + 1)))
			w.indptr.Next(int(8 * opt.First))
		}
		for _, b := range [][2]*bytes.Buffer{{&got.indptr, &w.indptr}, {&got.indices, &w.indices},
			{&got.types, &w.types}, {&got.weight, &w.weight}, {&got.time, &w.time}} {
			if !bytes.Equal(b[0].Bytes(), b[1].Bytes()) {
				t.Fatalf("graph %d: %+v: %d bytes differ from %d", i, opt, b[0].Len(), b[1].Len())
			}
		}
		expect.That(t, s.Stats == stats, "graph %d: %+v: %+v, not %+v", i, opt, s.Stats, stats)
		if written, _ := opt.Budget.Traffic(); written > 0 {
			spilt++
		}
		if left, _ := os.ReadDir(opt.Budget.Dir); len(left) > 0 || ledger.Total() != 0 || s.opt.Budget.DiskPeak() < 0 {
			t.Fatalf("left behind: %v, %d bytes", left, ledger.Total())
		}
	}
	expect.That(t, spilt >= max(1, graphs/10), "only %d graphs of %d went through a file", spilt, graphs)
}

// TestMoreDroppedLoopsThanTheMemoryHolds: what is dropped takes no room, so that the sorter does not wait for room.
func TestMoreDroppedLoopsThanTheMemoryHolds(t *testing.T) {
	const n = 1 << 16
	var edges []edge
	for v := range int64(n) {
		edges = append(edges, edge{src: v, dst: v})
	}
	edges = append(edges, edge{src: 1, dst: 0})
	ledger := sourcetest.Limited(1 << 19)
	opt := Options{Nodes: []source.NodeType{{Count: n}}, Types: []source.EdgeType{{}}, ByTime: -1, Loops: DropLoops,
		Edges: n, Budget: &source.Budget{Memory: ledger, Dir: t.TempDir()}}
	got, s := sortAll(t, opt, edges, 1<<14, []int64{0})
	sorted, _ := slow(edges, &opt, n)
	w := want(sorted, n, 1, false)
	expect.That(t, bytes.Equal(got.indices.Bytes(), w.indices.Bytes()) && s.Stats.Loops == n,
		"%d bytes of indices, %d loops were dropped", got.indices.Len(), s.Stats.Loops)
}

// TestAPartThatFillsTheMemoryIsSorted: all edges lie between the same two nodes, and sorting an odd number of them
// takes the memory but for 4 bytes.
func TestAPartThatFillsTheMemoryIsSorted(t *testing.T) {
	const n, memory = 9609, 28*9609 + 4
	ledger := sourcetest.Limited(memory + memory/7 + 1)
	opt := Options{Nodes: []source.NodeType{{Count: 2}}, Types: []source.EdgeType{{}}, ByTime: -1, Edges: n, Workers: 1,
		Columns: []graph.Column{{Name: "weight", DType: unified.Uint32}},
		Budget:  &source.Budget{Memory: ledger, Dir: t.TempDir()}}
	s := expect.Must(New(opt))(t)
	defer s.Close()
	expect.Ensure(t, len(s.mem) == memory, "the sorter took %d bytes, not %d", len(s.mem), memory)
	b := source.Batch{Src: make([]int64, n), Dst: make([]int64, n), Columns: [][]byte{nil}}
	for i := range uint32(n) {
		b.Columns[0] = binary.LittleEndian.AppendUint32(b.Columns[0], i)
	}
	var indptr, indices, weight bytes.Buffer
	expect.OK(t, errors.Join(s.Add(context.Background(), b), s.Emit(context.Background(), Sink{Indptr: &indptr,
		Indices: &indices, Columns: []io.Writer{&weight}})))
	if written, _ := opt.Budget.Traffic(); written == 0 || !bytes.Equal(weight.Bytes(), b.Columns[0]) {
		t.Errorf("%d bytes went through a file, %d came out", written, weight.Len())
	}
}

// TestNodesMayBeCountedWhileEdgesAreTakenIn: a sorter that gets a bound of the nodes first, and their number later,
// writes the same as one that gets the number first.
func TestNodesMayBeCountedWhileEdgesAreTakenIn(t *testing.T) {
	seed := expect.Seed(t)
	r := rand.New(rand.NewPCG(seed, 5))
	for _, nodes := range []int64{1, 2, 1000, 1024, 1025} {
		var b source.Batch
		b.Src, b.Dst = []int64{0}, []int64{nodes - 1}
		for range 5000 {
			b.Src, b.Dst = append(b.Src, r.Int64N(nodes)), append(b.Dst, r.Int64N(nodes))
		}
		var written [2][2]bytes.Buffer
		for i, count := range []int64{nodes, 4096} {
			s, err := New(Options{Nodes: []source.NodeType{{Count: count}}, Types: []source.EdgeType{{}}, ByTime: -1,
				Edges: int64(len(b.Src)), Both: nodes == 1024})
			if err == nil {
				err = s.Add(context.Background(), b)
			}
			expect.OK(t, err)
			expect.That(t, s.Greatest() == nodes-1, "the greatest of %d ids is %d", nodes, s.Greatest())
			s.SetNodes(nodes)
			err = s.Emit(context.Background(), Sink{Indptr: &written[i][0], Indices: &written[i][1]})
			err = errors.Join(err, s.Close())
			expect.OK(t, err)
		}
		for k := range written[0] {
			if !bytes.Equal(written[0][k].Bytes(), written[1][k].Bytes()) {
				t.Errorf("%d nodes: array %d differs: %d and %d bytes", nodes, k, written[0][k].Len(),
					written[1][k].Len())
			}
		}
	}
}

func TestWhatCannotBeSortedIsAnError(t *testing.T) {
	one := func(opt Options, b source.Batch) error {
		opt.ByTime = -1
		s, err := New(opt)
		if err != nil {
			return err
		}
		defer s.Close()
		if err := s.Add(context.Background(), b); err != nil {
			return err
		}
		return s.Emit(context.Background(), Sink{Indptr: &bytes.Buffer{}, Indices: &bytes.Buffer{}})
	}
	node := []source.NodeType{{Count: 3}}
	plain := []source.EdgeType{{}}
	var bad *RangeError
	err := one(Options{Nodes: node, Types: plain, Edges: 2}, source.Batch{Src: []int64{0, 3}, Dst: []int64{0, 0}})
	expect.That(t, errors.As(err, &bad) && bad.Edge == 1 && bad.What == "source", "a source out of range: %v", err)
	if err := one(Options{Nodes: node, Types: plain, Edges: 1}, source.Batch{Src: []int64{0},
		Dst: []int64{-1}}); !errors.As(err, &bad) {
		t.Errorf("a destination out of range: %v", err)
	}
	expect.Is(t, one(Options{Nodes: []source.NodeType{{Count: 1 << 33}}, Types: plain}, source.Batch{}), ErrTooLarge,
		"2^33 nodes")
	ledger := sourcetest.Limited(1 << 10)
	expect.Is(t,
		one(Options{Nodes: node, Types: plain, Edges: 1, Budget: &source.Budget{Memory: ledger}}, source.Batch{}),
		pinned.ErrLimit, "a limit of 1 KiB")
	ledger = sourcetest.Limited(1 << 19)
	many := source.Batch{Src: make([]int64, 200_000), Dst: make([]int64, 200_000)}
	err = one(Options{Nodes: node, Types: plain, Edges: 200_000, Budget: &source.Budget{Memory: ledger,
		Dir: t.TempDir(), Disk: 1 << 20}}, many)
	expect.That(t, errors.Is(err, formats.ErrSpace) || errors.Is(err, pinned.ErrLimit), "a disk of 1 MiB: %v", err)
}

func BenchmarkSort(b *testing.B) {
	const nodes, edges = 400_000, 20_000_000
	r := rand.New(rand.NewPCG(1, 2))
	src, dst := make([]int64, edges), make([]int64, edges)
	for i := range src {
		x := r.Float64()
		src[i], dst[i] = r.Int64N(nodes), int64(nodes*x*x)
	}
	for _, limit := range []int64{0, 128 << 20} {
		b.Run(fmt.Sprint(limit), func(b *testing.B) {
			for b.Loop() {
				ledger := sourcetest.Limited(limit)
				s, err := New(Options{Nodes: []source.NodeType{{Count: nodes}}, Types: []source.EdgeType{{}},
					ByTime: -1,
					Edges:  edges, Budget: &source.Budget{Memory: ledger, Dir: b.TempDir()}})
				for lo := 0; lo < edges && err == nil; lo += 1 << 20 {
					hi := min(lo+1<<20, edges)
					err = s.Add(context.Background(), source.Batch{Src: src[lo:hi], Dst: dst[lo:hi]})
				}
				if err == nil {
					err = s.Emit(context.Background(), Sink{Indptr: nothing{}, Indices: nothing{}})
				}
				err = errors.Join(err, s.Close())
				expect.OK(b, err)
			}
			b.ReportMetric(edges*float64(b.N)/b.Elapsed().Seconds()/1e6, "Medges/s")
		})
	}
}

type nothing struct{}

func (nothing) Write(p []byte) (int, error) { return len(p), nil }

// TestTimesOfOneByteOrderEdges: a node's edge from the greatest source has the least time, in one byte a record.
func TestTimesOfOneByteOrderEdges(t *testing.T) {
	for _, n := range []int{2, 3, 200, 1001, 70_001} { // numbers may lie in either half of the memory in the end
		opt := Options{Nodes: []source.NodeType{{Count: int64(n)}}, Types: []source.EdgeType{{}}, Edges: int64(n),
			Columns: []graph.Column{{Name: "time", DType: unified.Int8}}}
		s := expect.Must(New(opt))(t)
		b, times := source.Batch{Dst: make([]int64, n), Columns: [][]byte{nil}}, make([]byte, n)
		for i := range n {
			src := i * 97 % n // in no order: 97 divides none of them
			time := byte(100 - src*200/n)
			b.Src, b.Columns[0], times[n-1-src] = append(b.Src, int64(src)), append(b.Columns[0], time), time
		}
		var time bytes.Buffer
		expect.OK(t, errors.Join(s.Add(context.Background(), b), s.Emit(context.Background(), Sink{Indptr: io.Discard,
			Indices: io.Discard, Columns: []io.Writer{&time}}), s.Close()))
		expect.That(t, bytes.Equal(time.Bytes(), times), "%d edges: times %v", n, time.Bytes()[:min(n, 20)])
	}
}
