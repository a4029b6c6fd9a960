package gnn

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/convert"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// TestADamagedJournalIsAnErrorOrWhatWasAcknowledged cuts a journal, changes a bit of it, or has zeros at its end. A bit
// is an error, wherever it is. What is cut leaves the changes before.
func TestADamagedJournalIsAnErrorOrWhatWasAcknowledged(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 13))
	f := liveOfModel(t, r, modelFile(t, "sage"))
	states := []*liveState{f.state}
	path := filepath.Join(f.dir+".khop-live", "changes")
	ends := []int64{expect.Must(os.Stat(path))(t).Size()}
	for range 4 {
		next := f.state.clone()
		report := expect.Must(f.Apply(t.Context(), next.changes(r)))(t)
		f.state = next
		states, ends = append(states, next), append(ends, report.Journal)
	}
	expect.OK(t, f.Close())
	whole := expect.Must(os.ReadFile(path))(t)
	expect.Same(t, int64(len(whole)), ends[4], "bytes of the journal")
	for n := range expect.Draws(t, expect.DayOrNight(80, 320)) {
		at := r.IntN(len(whole))
		if n%2 == 0 { // near the border of a record
			at = max(0, min(len(whole)-1, int(ends[r.IntN(5)])+r.IntN(80)-40))
		}
		text, how := bytes.Clone(whole), ""
		switch n % 3 {
		case 0:
			text[at] ^= 1 << r.IntN(8)
			how = "flipped"
		case 1:
			text, how = text[:at], "cut"
		default:
			clear(text[at:])
			how = "zeros"
		}
		expect.OK(t, os.WriteFile(path, text, 0o600))
		l, err := OpenLive(t.Context(), f.dir, f.opt)
		if err != nil {
			expect.Is(t, err, ErrJournal, "%s at %d", how, at)
			whole := how == "cut" && at >= int(ends[0])
			expect.That(t, !whole, "%s at %d, behind byte %d: %v", how, at, ends[0], err)
			continue
		}
		g := l.Generation()
		same := bytes.Equal(text, whole)
		expect.That(t, same || how != "flipped", "a bit at %d is no error", at)
		expect.That(t, g < 5 && (g == 4) == same && ends[g] <= int64(len(text)), "%s at %d: generation %d", how, at, g)
		f.Live, f.state = l, states[g]
		f.same(t, fmt.Sprintf("%s at %d, generation %d", how, at, g))
		next := f.state.clone()
		report := expect.Must(f.Apply(t.Context(), next.changes(r)))(t)
		f.state = next
		expect.Same(t, report.Generation, g+1, "generation behind what was cut")
		expect.OK(t, f.Close())
		f.open(t)
		f.same(t, "behind what was cut")
		expect.OK(t, f.Close())
	}
}

// readRows is rows as a reader saw them.
type readRows struct {
	generation uint64
	ids        []int64
	rows       []float32
}

// readers read rows of drawn nodes until they are stopped. They keep what the first of them saw.
func (f *followed) readers(t *testing.T, seed uint64, nodes int64) (stop func() []readRows) {
	var all []readRows
	var mu sync.Mutex
	var group sync.WaitGroup
	done := make(chan struct{})
	for n := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, n))
		group.Go(func() {
			for i := 0; ; i++ {
				one := readRows{ids: make([]int64, 30), rows: make([]float32, 30*f.Width())}
				for k := range one.ids {
					one.ids[k] = r.Int64N(nodes)
				}
				var err error
				one.generation, err = f.Rows(one.rows, one.ids)
				expect.That(t, err == nil && f.Generation() >= one.generation, "%v", err)
				mu.Lock()
				if last := len(all) - 1; last < 0 || one.generation != all[last].generation || i%64 == 0 {
					all = append(all, one)
				}
				mu.Unlock()
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	return func() []readRows {
		close(done)
		group.Wait()
		return all
	}
}

// TestReadersSeeRowsOfOneGeneration reads rows of drawn nodes while changes are made.
func TestReadersSeeRowsOfOneGeneration(t *testing.T) {
	seed := expect.Seed(t)
	r := rand.New(rand.NewPCG(seed, 14))
	f := liveOfModel(t, r, modelFile(t, "gcn"))
	rows := map[uint64][]float32{0: f.all(t)}
	stop := f.readers(t, seed, f.Nodes())
	for range expect.Draws(t, 40) {
		next := f.state.clone()
		report := expect.Must(f.Apply(t.Context(), next.changes(r)))(t)
		f.state = next
		rows[report.Generation] = f.all(t)
	}
	seen, width := map[uint64]bool{}, f.Width()
	for _, one := range stop() {
		seen[one.generation] = true
		for i, id := range one.ids {
			expect.Same(t, bitsOfAll(one.rows[i*width:(i+1)*width]),
				bitsOfAll(rows[one.generation][int(id)*width:][:width]), "node %d, generation %d", id, one.generation)
		}
	}
	f.same(t, "at the end")
	expect.That(t, len(seen) > 2, "reads saw generations %v", seen)
}

// TestLiveFeaturesKeepTheirType: changes of features in 16 bits are numbers of these, and those of narrower ones are
// refused. Edges change in any case, and rows are those of a run from scratch.
func TestLiveFeaturesKeepTheirType(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 15))
	model := modelFile(t, "gin")
	m, _, err := readModel(model)
	expect.OK(t, err)
	for _, dtype := range []string{"float16", "int8", "int4"} {
		convertTo := func(t testing.TB, s *liveState) string {
			dir := filepath.Join(t.TempDir(), "data")
			expect.OK(t, formats.WriteGraph(t.Context(), dir, s.graph(t), formats.WriterOptions{}))
			expect.OK(t, expect.Err(convert.Add(t.Context(), dir, convert.AddOptions{FeatureDType: []string{dtype}})))
			return dir
		}
		s := drawnState(r, []string{""}, []int{40}, []string{""})
		for i, v := range s.rows[0] {
			s.rows[0][i] = float32(int(v*64)) / 64
		}
		f := &followed{dir: convertTo(t, s), state: s, opt: LiveOptions{Checkpoint: model, MaxMemory: 1 << 30}}
		f.want = func(t testing.TB, s *liveState) []float32 {
			ds := expect.Must(formats.Open(convertTo(t, s)))(t)
			defer ds.Close()
			return embedded(t, ds.Graph(), m, nil, ways[0])
		}
		f.open(t)
		f.same(t, dtype+", opened")
		ends := s.lists[0][0]
		s.lists[0] = append(s.lists[0][1:], [2]int64{1, 2})
		row := make([]float32, 40)
		for k := range row {
			row[k] = float32(k) / 8
		}
		c := &Changes{Add: []EdgeList{{Src: []int64{1}, Dst: []int64{2}}},
			Remove: []EdgeList{{Src: ends[:1], Dst: ends[1:]}}}
		expect.OK(t, expect.Err(f.Apply(t.Context(), c)))
		f.same(t, dtype+", edges")
		c = &Changes{Features: []NodeRows{{IDs: []int64{5}, Rows: row}}}
		_, err := f.Apply(t.Context(), c)
		if dtype != "float16" {
			expect.Says(t, err, ErrChanges, "stored as "+dtype, dtype)
		} else {
			expect.OK(t, err)
			copy(s.rows[0][5*40:], row)
		}
		f.same(t, dtype+", features")
		row[3] = 0.1
		expect.Is(t, expect.Err(f.Apply(t.Context(), c)), ErrChanges, dtype)
		f.same(t, dtype+", refused")
		expect.OK(t, f.Close())
	}
}

// TestLiveTakesFilesWhereMemoryIsTooLittle opens rows in the least memory in which it can, and compares them.
func TestLiveTakesFilesWhereMemoryIsTooLittle(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 17))
	f := liveOfModel(t, r, modelFile(t, "gat"))
	f.opt.files = false
	expect.OK(t, f.Close())
	low, high := int64(1<<20), int64(1<<30) // too little, and enough
	for high-low > 1 {
		f.opt.MaxMemory = (low + high) / 2
		l, err := OpenLive(t.Context(), f.dir, f.opt)
		if err != nil {
			expect.Is(t, err, pinned.ErrLimit)
			low = f.opt.MaxMemory
			continue
		}
		high = f.opt.MaxMemory
		expect.OK(t, l.Close())
	}
	for memory, files := range map[int64]bool{high: true, 1 << 30: false} {
		f.opt.MaxMemory = memory
		f.open(t)
		expect.Same(t, f.InFiles(), files, "in files with %d bytes", memory)
		f.same(t, "opened")
		next := f.state.clone()
		expect.OK(t, expect.Err(f.Apply(t.Context(), next.changes(r))))
		f.state = next
		f.same(t, "changed")
		expect.OK(t, f.Close())
	}
}

// TestNodesWithoutFeaturesAreAddedByIdsAlone, which edges may then have. At first there are none of them.
func TestNodesWithoutFeaturesAreAddedByIdsAlone(t *testing.T) {
	x := expect.Must(unified.FromRows([]float32{1, 2, 3, 4}, 2))(t)
	state := func(targets, more []int64) *graph.Graph {
		return graphs.New(t, graph.Data{
			Nodes: []graph.NodeData{{Name: "a", Columns: map[string]unified.Tensor{"feature": x}},
				{Name: "b", Count: int64(len(targets))}},
			Edges: []graph.EdgeData{{Source: "a", Relation: "x", Target: "a", Src: append([]int64{0}, more...),
				Dst: append([]int64{1}, more...)},
				{Source: "a", Relation: "y", Target: "b", Src: make([]int64, len(targets)), Dst: targets}}})
	}
	before := state(nil, nil)
	own := ownOptions(before.Schema(), "gcn:2,max:2", []int{2, 2})
	f := &followed{dir: filepath.Join(t.TempDir(), "data"), opt: LiveOptions{Layers: own.Layers, Rows: own.Rows}}
	expect.OK(t, formats.WriteGraph(t.Context(), f.dir, before, formats.WriterOptions{}))
	f.open(t)
	c := &Changes{Features: []NodeRows{{Type: "b", IDs: []int64{1, 0}}}, Add: []EdgeList{
		{Edges: "y", Src: []int64{0, 0}, Dst: []int64{0, 1}}, {Edges: "x", Src: []int64{1}, Dst: []int64{1}}}}
	expect.OK(t, expect.Err(f.Apply(t.Context(), c)))
	want := ownRowsOf(t, state([]int64{0, 1}, []int64{1}), own, 0, nil, ways[0])
	for range 2 {
		expect.That(t, bytes.Equal(unified.FromSlice(f.all(t)).Bytes(), want), "rows")
		expect.OK(t, f.Close())
		f.open(t)
	}
	expect.OK(t, f.Close())
}

// TestLiveSaysWhatItRefuses: errors name the place and the remedy.
func TestLiveSaysWhatItRefuses(t *testing.T) {
	s := &liveState{types: []string{"a", "b"}, widths: []int{2, 3}, edges: []string{"axb"},
		rows: [][]float32{make([]float32, 8), make([]float32, 9)}, lists: [][][2]int64{{{0, 1}, {0, 1}, {3, 2}}}}
	fails := error(nil)
	opt := LiveOptions{Layers: "sum:2", Type: "b", Rows: func(_ int, _ string, _ []float32, sums map[string][]float32,
		y []float32) error {
		copy(y, sums["a:x:b"])
		return fails
	}}
	f := follow(t, s, opt, func(t testing.TB, s *liveState) []float32 { return make([]float32, 6) })
	f.same(t, "opened")
	edges := func(src, dst int64) []EdgeList { return []EdgeList{{Src: []int64{src}, Dst: []int64{dst}}} }
	features := func(of string, id int64, row ...float32) *Changes {
		return &Changes{Features: []NodeRows{{Type: of, IDs: []int64{id}, Rows: row}}}
	}
	twice := features("a", 1, 1, 2, 3, 4)
	twice.Features[0].IDs = []int64{1, 1}
	for text, c := range map[string]*Changes{
		"remove a:x:b: there is no edge from 1 to 1":         {Remove: edges(1, 1)},
		"from 4 to 0, and there are 4 nodes of type \"a\"":   {Add: edges(4, 0)},
		"1 sources and 0 destinations":                       {Add: []EdgeList{{Src: []int64{1}}}},
		"no edge type":                                       {Add: []EdgeList{{Edges: "y"}}},
		"no nodes of type \"c\": name one of [\"a\" \"b\"]":  features("c", 0),
		"id 6, and there are 4 nodes; new ones have the ids": features("a", 6, 1, 2),
		"ids begin at 0":                                     features("a", -1, 1, 2),
		"1 numbers for 1 rows; a row has 2":                  features("a", 1, 1),
		"id 1 is there twice":                                twice,
	} {
		_, err := f.Apply(t.Context(), c)
		expect.Says(t, err, ErrChanges, text)
	}
	fails = errors.New("torch has no memory")
	_, err := f.Apply(t.Context(), &Changes{Remove: edges(3, 2)})
	expect.Is(t, err, fails, "a layer that fails")
	fails = nil
	_, err = f.Apply(t.Context(), features("a", 0, 3e38, 1))
	expect.Says(t, err, ErrRows, "0-rows of node 1 has +Inf")
	f.same(t, "after all of these")
	expect.Same(t, f.Generation(), uint64(0), "generation after all of these")
	_, err = f.Rows(make([]float32, 2), []int64{3})
	expect.Says(t, err, ErrRows, "node 3, and there are 3 in generation 0")
	_, err = OpenLive(t.Context(), f.dir, f.opt)
	expect.Says(t, err, ErrJournal, "another process has it open")
	f.opt.Journal, f.opt.Name = f.dir+".khop-live", "another"
	expect.OK(t, f.Close())
	_, err = OpenLive(t.Context(), f.dir, f.opt)
	expect.Says(t, err, ErrJournal, "another model or other layers")
	f.opt.MaxMemory = 4 << 20
	_, err = OpenLive(t.Context(), f.dir, f.opt)
	expect.Says(t, err, pinned.ErrLimit, "allow more")
	_, err = f.Rows(nil, nil)
	expect.That(t, err != nil && expect.Err(f.Apply(t.Context(), &Changes{})) != nil, "a Live that is closed: %v", err)
}
