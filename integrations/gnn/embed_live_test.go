package gnn

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/unified"
)

// liveState is what a graph and its features should be: a list of edges by type, and rows by type of nodes.
type liveState struct {
	types  []string // of nodes: one letter each, or "" for the only one
	widths []int
	edges  []string // types: source, relation, target, a letter each, or "" for the only one
	rows   [][]float32
	lists  [][][2]int64
}

func (s *liveState) count(t int) int64 { return int64(len(s.rows[t]) / s.widths[t]) }

// ends returns the types of the nodes that edges of a type lead from and to.
func (s *liveState) ends(e int) (src, dst int) {
	if s.edges[e] == "" {
		return 0, 0
	}
	return slices.Index(s.types, s.edges[e][:1]), slices.Index(s.types, s.edges[e][2:])
}

func (s *liveState) name(e int) string {
	if s.edges[e] == "" {
		return ""
	}
	return s.edges[e][:1] + ":" + s.edges[e][1:2] + ":" + s.edges[e][2:]
}

func (s *liveState) clone() *liveState {
	c := *s
	c.rows, c.lists = nil, nil
	for _, x := range s.rows {
		c.rows = append(c.rows, slices.Clone(x))
	}
	for _, x := range s.lists {
		c.lists = append(c.lists, slices.Clone(x))
	}
	return &c
}

// graph returns the graph of a state, from its lists alone.
func (s *liveState) graph(t testing.TB) *graph.Graph {
	t.Helper()
	var data graph.Data
	for i, name := range s.types {
		data.Nodes = append(data.Nodes, graph.NodeData{Name: name, Columns: map[string]unified.Tensor{
			"feature": expect.Must(unified.FromRows(s.rows[i], int64(s.widths[i])))(t)}})
	}
	for e, name := range s.edges {
		var one graph.EdgeData
		if name != "" {
			one = graph.EdgeData{Source: name[:1], Relation: name[1:2], Target: name[2:]}
		}
		for _, ends := range s.lists[e] {
			one.Src, one.Dst = append(one.Src, ends[0]), append(one.Dst, ends[1])
		}
		data.Edges = append(data.Edges, one)
	}
	return graphs.New(t, data)
}

// drawnState draws a graph, small or with some thousand nodes, with several equal edges, edges from nodes to
// themselves, and a node that many edges have.
func drawnState(r *rand.Rand, types []string, widths []int, edges []string) *liveState {
	s := &liveState{types: types, widths: widths, edges: edges, rows: make([][]float32, len(types)),
		lists: make([][][2]int64, len(edges))}
	times := 1
	if r.IntN(6) == 0 { // more than a block of nodes
		times = 60
	}
	for t := range types {
		for range times * (20 + r.IntN(80)) * widths[t] {
			s.rows[t] = append(s.rows[t], float32(r.NormFloat64()))
		}
	}
	for e := range edges {
		for range times * (30 + r.IntN(300)) {
			s.lists[e] = append(s.lists[e], s.edge(r, e))
		}
	}
	return s
}

func (s *liveState) edge(r *rand.Rand, e int) (ends [2]int64) {
	src, dst := s.ends(e)
	ends = [2]int64{r.Int64N(s.count(src)), r.Int64N(s.count(dst))}
	switch r.IntN(8) {
	case 0:
		ends[0] = 3
	case 1:
		ends[1] = 4
	case 2:
		if src == dst {
			ends[1] = ends[0]
		}
	case 3:
		if n := len(s.lists[e]); n > 0 {
			ends = s.lists[e][r.IntN(n)]
		}
	}
	return ends
}

// changes draws changes, and makes them in the state.
func (s *liveState) changes(r *rand.Rand) *Changes {
	c := &Changes{}
	many := []int{0, 1, 3, 40}[r.IntN(4)]
	for t, name := range s.types {
		one, count := NodeRows{Type: name}, s.count(t)
		for _, id := range r.Perm(int(count))[:min(r.IntN(many+1), int(count))] {
			one.IDs = append(one.IDs, int64(id))
		}
		for n := range r.IntN(3) * r.IntN(2) {
			one.IDs = slices.Insert(one.IDs, r.IntN(len(one.IDs)+1), count+int64(n))
			s.rows[t] = append(s.rows[t], make([]float32, s.widths[t])...)
		}
		for _, id := range one.IDs {
			row := s.rows[t][id*int64(s.widths[t]):][:s.widths[t]]
			zero := id >= count && r.IntN(2) == 0 // as memory that nobody has written
			for k := range row {
				if row[k] = float32(r.NormFloat64()); zero {
					row[k] = 0
				}
			}
			one.Rows = append(one.Rows, row...)
		}
		c.Features = append(c.Features, one)
	}
	for e := range s.edges {
		less, more := EdgeList{Edges: s.name(e)}, EdgeList{Edges: s.name(e)}
		for range min(r.IntN(many+1), len(s.lists[e])) {
			at := r.IntN(len(s.lists[e]))
			less.Src, less.Dst = append(less.Src, s.lists[e][at][0]), append(less.Dst, s.lists[e][at][1])
			s.lists[e] = slices.Delete(s.lists[e], at, at+1)
		}
		for range r.IntN(many + 1) {
			ends := s.edge(r, e)
			more.Src, more.Dst = append(more.Src, ends[0]), append(more.Dst, ends[1])
			s.lists[e] = append(s.lists[e], ends)
		}
		c.Remove, c.Add = append(c.Remove, less), append(c.Add, more)
	}
	return c
}

// followed is a Live, and what its rows should be.
type followed struct {
	*Live
	dir   string
	opt   LiveOptions
	want  func(t testing.TB, s *liveState) []float32
	state *liveState
	left  int // calls of Progress until the Apply in hand is cancelled; less than 0: none
	stop  context.CancelFunc
}

// follow opens a state that is on disk.
func follow(t testing.TB, s *liveState, opt LiveOptions, want func(testing.TB, *liveState) []float32) *followed {
	t.Helper()
	f := &followed{dir: filepath.Join(t.TempDir(), "data"), want: want, state: s, left: -1, opt: opt}
	expect.OK(t, formats.WriteGraph(t.Context(), f.dir, s.graph(t), formats.WriterOptions{}))
	f.opt.Progress = func(string, int64, int64) {
		if f.left--; f.left == 0 {
			f.stop()
		}
	}
	f.opt.MaxMemory, f.opt.files = 1<<30, len(s.lists[0])%4 == 0
	f.open(t)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func (f *followed) open(t testing.TB) {
	t.Helper()
	f.Live = expect.Must(OpenLive(t.Context(), f.dir, f.opt))(t)
}

func (f *followed) all(t testing.TB) []float32 {
	t.Helper()
	ids := make([]int64, f.Nodes())
	for i := range ids {
		ids[i] = int64(i)
	}
	rows := make([]float32, len(ids)*f.Width())
	expect.OK(t, expect.Err(f.Rows(rows, ids)))
	return rows
}

// same compares all rows with those of a run from scratch over the state.
func (f *followed) same(t testing.TB, name string) {
	t.Helper()
	expect.Same(t, bitsOfAll(f.all(t)), bitsOfAll(f.want(t, f.state)), name)
}

// step draws what happens next: changes that are made, that cannot be made, or that end in the middle and may then be
// made; before them all is opened again, or the journal becomes one record.
func (f *followed) step(t testing.TB, r *rand.Rand, name string) {
	t.Helper()
	before, was := f.Generation(), f.state
	next := was.clone()
	c := next.changes(r)
	switch r.IntN(6) {
	case 0:
		expect.OK(t, f.Close())
		f.open(t)
		expect.Same(t, f.Generation(), before, "generation of "+name)
	case 1:
		expect.OK(t, f.Compact(t.Context()))
	case 2:
		spoil(r, c, was)
		expect.Is(t, expect.Err(f.Apply(t.Context(), c)), ErrChanges, name)
		expect.Same(t, f.Generation(), before, "generation of "+name)
		f.same(t, name+", refused")
		return
	case 3:
		ctx, cancel := context.WithCancel(t.Context())
		f.stop, f.left = cancel, 1+r.IntN(4)
		err := expect.Err(f.Apply(ctx, c))
		f.left = -1
		cancel()
		if err == nil {
			f.state = next
			f.same(t, name+", too late to cancel")
			return
		}
		expect.Is(t, err, context.Canceled, name)
		expect.Same(t, f.Generation(), before, "generation of "+name)
		f.same(t, name+", cancelled")
		if r.IntN(2) == 0 {
			return
		}
	}
	report := expect.Must(f.Apply(t.Context(), c))(t)
	f.state = next
	expect.Same(t, []uint64{report.Generation, f.Generation()}, []uint64{before + 1, before + 1}, name)
	f.same(t, name)
}

// spoil makes changes that cannot be made of a state.
func spoil(r *rand.Rand, c *Changes, s *liveState) {
	t, e := r.IntN(len(s.types)), r.IntN(len(s.edges))
	one, less, more := &c.Features[t], &c.Remove[e], &c.Add[e]
	src, dst := s.ends(e)
	whole := func(id int64) {
		one.IDs, one.Rows = append(one.IDs, id), append(one.Rows, make([]float32, s.widths[t])...)
	}
	switch r.IntN(9) {
	case 0: // one time too many
		ends := [2]int64{r.Int64N(s.count(src)), r.Int64N(s.count(dst))}
		for range 400 {
			less.Src, less.Dst = append(less.Src, ends[0]), append(less.Dst, ends[1])
		}
	case 1:
		more.Src, more.Dst = append(more.Src, s.count(src)+9), append(more.Dst, 0)
	case 2:
		more.Src, more.Dst = append(more.Src, 0), append(more.Dst, -1)
	case 3:
		more.Src = append(more.Src, 0)
	case 4:
		whole(s.count(t) + 9)
	case 5:
		whole(5)
		whole(5)
	case 6:
		one.Rows = append(one.Rows, 1)
	case 7:
		whole(-1)
	default:
		whole(s.count(t) + int64(len(one.IDs)))
		one.IDs[len(one.IDs)-1] = 2
		one.Rows[len(one.Rows)-1] = []float32{float32(math.Inf(1)), float32(math.NaN())}[r.IntN(2)]
	}
}

// modelFile trains a model a bit, and returns its checkpoint.
func modelFile(t testing.TB, model string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), model)
	expect.OK(t, expect.Err(Train(t.Context(), communities(t, 70, false), Options{Model: model, Hidden: 12, Heads: 2,
		Layers: 3, Epochs: 1, Seed: 4, Checkpoint: path})))
	return path
}

// liveOfModel follows a drawn graph with a model.
func liveOfModel(t testing.TB, r *rand.Rand, checkpoint string) *followed {
	t.Helper()
	m, _, err := readModel(checkpoint)
	expect.OK(t, err)
	return follow(t, drawnState(r, []string{""}, []int{40}, []string{""}), LiveOptions{Checkpoint: checkpoint},
		func(t testing.TB, s *liveState) []float32 { return embedded(t, s.graph(t), m, nil, ways[0]) })
}

// liveOfLayers follows a drawn typed graph with layers of one's own.
func liveOfLayers(t testing.TB, r *rand.Rand) *followed {
	t.Helper()
	edges := [][]string{{"axb", "bya", "aza"}, {"aza", "awa"}, {"axb", "bya"}}[r.IntN(3)]
	slots := 8 * len(edges)
	layers, widths := fmt.Sprintf("gcn:6,rows:%d,attend2:3,max:4", slots), []int{6, slots, 3, 4}
	if r.IntN(2) == 0 {
		layers, widths = fmt.Sprintf("sum:6,mean:%d,attend2bare:3", slots), []int{6, slots, 3}
	}
	s := drawnState(r, []string{"a", "b"}, []int{12, 7}, edges)
	own := ownOptions(s.graph(t).Schema(), layers, widths)
	mixed := own.Rows
	own.Rows = func(layer int, nodes string, x []float32, sums map[string][]float32, y []float32) error {
		err := mixed(layer, nodes, x, sums, y)
		for i := range y { // also where there are no edges
			y[i] += 0.5
		}
		return err
	}
	of := r.IntN(2)
	if !slices.Contains(edges, "axb") {
		of = 0
	}
	opt := LiveOptions{Layers: layers, Rows: own.Rows, Type: s.types[of]}
	return follow(t, s, opt, func(t testing.TB, s *liveState) []float32 {
		raw := ownRowsOf(t, s.graph(t), own, of, nil, ways[0])
		rows := make([]float32, len(raw)/4)
		unified.Float32.Floats(rows, raw)
		return rows
	})
}

// TestLiveRowsAreThoseOfARunFromScratch makes drawn changes one after the other, of graphs with one type and several,
// and compares all rows, after each of them, with a run over a graph that was built from a list of its own. Some
// changes are refused or cancelled, and now and then all is closed and opened again. KHOP_DRAWS says how many are
// drawn.
func TestLiveRowsAreThoseOfARunFromScratch(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 12))
	var files []string
	for _, model := range models {
		files = append(files, modelFile(t, model))
	}
	for n := range expect.Draws(t, expect.DayOrNight(15, 60)) {
		var f *followed
		if at := n % (len(files) + 1); at < len(files) {
			f = liveOfModel(t, r, files[at])
		} else {
			f = liveOfLayers(t, r)
		}
		f.same(t, "opened")
		for i := range 3 + r.IntN(4) {
			f.step(t, r, fmt.Sprintf("draw %d, step %d, %s", n, i, f.opt.Layers+filepath.Base(f.opt.Checkpoint)))
		}
		expect.OK(t, f.Close())
		if t.Failed() {
			return
		}
	}
}
