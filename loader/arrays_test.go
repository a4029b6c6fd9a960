package loader_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// The list says of every array of every batch what it is: name, dtype, shape, and of which it may be a view.
func TestTheListOfArraysIsWhatBatchesHave(t *testing.T) {
	for name, opt := range map[string]loader.Options{
		"default": {Sampler: neighbor},
		"edge columns": {Sampler: neighbor, Columns: loader.ColumnOptions{Edges: []string{"stars"},
			Nodes: []string{"label", "feature"}}},
		"views": {Sampler: sampling.Neighbor{Fanouts: []int{3, 2, 2}, Frontier: sampling.NewNodes},
			Columns: loader.ColumnOptions{Edges: []string{"stars"}}},
		"no columns": {Sampler: neighbor, Columns: loader.ColumnOptions{Nodes: []string{}, Seeds: []string{},
			EdgePos: true}},
	} {
		opt.BatchSize, opt.Seeds = 20, loader.AllNodes()
		g := graphs.Typed(t, 60, 40)
		l := open(t, g, opt)
		views := 0
		for b := range each(t, l.Epoch(background, 0)) {
			hashed := []array{}
			for i, a := range l.Arrays() {
				x := b.Array(i)
				expect.That(t, !x.Valid() || x.DType() == a.DType && slices.Equal(x.Shape()[1:], a.Row),
					"%s: %s is %v, its description %+v", name, a.Name, x, a)
				if !b.IsView(i) && x.Len() > a.Most {
					t.Errorf("%s: %s has %d rows, at most %d", name, a.Name, x.Len(), a.Most)
				}
				if base := b.Array(a.Base); b.IsView(i) {
					views++
					if n := len(x.Bytes()); &x.Bytes()[0] != &base.Bytes()[0] || n > len(base.Bytes()) {
						t.Errorf("%s: %s is not the beginning of %s", name, a.Name, l.Arrays()[a.Base].Name)
					}
				}
				switch {
				case a.InFull() && a.IsColumn():
					hashed = append(hashed, array{a.Name, x.DType().String(), x.Shape(), x.Bytes()})
				case a.InFull():
					hashed = append(hashed, wide(a, x))
				}
			}
			_, full := b.Digest()
			if want := hashArrays(arraysOf(g, b, true)); hashArrays(hashed) != want || full != want {
				t.Errorf("%s: the listed arrays have another digest", name)
			}
		}
		expect.That(t, (views > 0) == (name == "views"), "%s: %d views", name, views)
	}
}

// wide is ids, of any shape.
func wide(a layout.Array, x unified.Tensor) array {
	if len(a.Row) == 0 {
		return ids(a.Name, x)
	}
	return array{a.Name, "int64", x.Shape(), x.Bytes()}
}

func TestDefaultColumnsAreListedWhereTheGraphHasThem(t *testing.T) {
	var names []string
	for _, a := range open(t, graphs.Typed(t, 60, 40), loader.Options{Sampler: neighbor}).Arrays() {
		if a.IsColumn() {
			names = append(names, a.Name)
		}
	}
	expect.Same(t, names, []string{"node/user/feature", "seed/user/label", "node/item/feature"})
}

func TestAColumnThatBatchesDoNotHaveIsSaid(t *testing.T) {
	l := open(t, graphs.Plain(t, 100, 3), loader.Options{Sampler: neighbor})
	i, err := l.Find("node/node/feature")
	expect.That(t, err == nil && l.Arrays()[i].Column == "feature", "array %d, %v", i, err)
	_, err = l.Find("node/node/featuer")
	expect.That(t, errors.Is(err, loader.ErrOptions) && strings.Contains(err.Error(), "node/node/feature, "), "%v", err)
	bare := graphs.New(t, graph.Data{Nodes: []graph.NodeData{{Count: 4}},
		Edges: []graph.EdgeData{{Src: []int64{1, 2, 3, 0}, Dst: []int64{0, 1, 2, 3}}}})
	var said strings.Builder
	open(t, bare, loader.Options{Sampler: neighbor, Columns: loader.ColumnOptions{Seeds: []string{}},
		Hooks: loader.Hooks{Logger: slog.New(slog.NewTextHandler(&said, nil))}})
	if text := said.String(); !strings.Contains(text, "batches have no feature") ||
		strings.Contains(text, "batches have no label") {
		t.Errorf("a loader of a graph without columns says %s", text)
	}
	if text := said.String(); !strings.Contains(text, " device=cpu workers=") ||
		!strings.Contains(text, `msg="loader ready"`) {
		t.Errorf("the loader's line of what it is: %s", text)
	}
}

// withNorms adds an array of norms [n, 2] to cycle, one row a seed, and spoils it as asked.
func withNorms(rows int64, spoil func(*graph.Sample)) cycle {
	norms := sampling.ArrayBound{Column: graph.Column{Name: "norm", DType: unified.Float32, Shape: []int64{2}},
		Rows: rows}
	return cycle{
		bound: func(b *sampling.Bound) { b.Arrays = []sampling.ArrayBound{norms} },
		spoil: func(s *graph.Sample) {
			n := s.SeedLocal[0].Len()
			v, err := unified.Grow[float32](&s.Buffers.Arrays[0], 2*n, 0)
			if err != nil {
				panic(err)
			}
			for i := range 2 * n {
				v[i] = float32(i)
			}
			s.Arrays[0].Rows, _ = s.Buffers.Arrays[0].Tensor(unified.Float32, n, 2)
			spoil(s)
		},
	}
}

func TestArraysOfASamplersOwnAreInEveryBatchAndBothDigests(t *testing.T) {
	g := graphs.Plain(t, 100, 3)
	l := open(t, g, loader.Options{Sampler: withNorms(7, func(*graph.Sample) {}), BatchSize: 7})
	at := -1
	for i, a := range l.Arrays() {
		if a.Name == "sample/norm" {
			at = i
			expect.That(t,
				a.Kind == layout.Own && a.DType == unified.Float32 && slices.Equal(a.Row, []int64{2}) && a.Most == 7,
				"%+v", a)
		}
	}
	expect.Ensure(t, at >= 0, "the list has no array sample/norm")
	for b := range each(t, l.Epoch(background, 0)) {
		norms := b.Array(at)
		seeds, _ := b.Seeds(0)
		expect.Ensure(t, norms.Len() == int64(len(seeds)) && norms.Dim(1) == 2, "norms %v", norms)
		topology, full := b.Digest()
		norms.Bytes()[3] ^= 1
		if topology2, full2 := b.Digest(); topology2 == topology || full2 == full {
			t.Errorf("digests %016x %016x do not see a changed norm", topology2, full2)
		}
	}
}

// weighing is Neighbor as a sampler that reads a column of the edges.
type weighing struct {
	sampling.Neighbor
	column string
	opened func(*graph.Graph)
}

func (w weighing) Describe(s *graph.Schema, n int) (sampling.Description, error) {
	d, err := w.Neighbor.Describe(s, n)
	d.EdgeColumns = []string{w.column}
	return d, err
}

func (w weighing) Open(env sampling.Env) (sampling.Worker, error) {
	w.opened(env.Graph)
	return w.Neighbor.Open(env)
}

func TestColumnsThatASamplerReadsAreKeptWithTheTopology(t *testing.T) {
	g := graphs.Plain(t, 2000, 3)
	source, _ := g.EdgeColumn("weight")
	held := map[loader.Residence]int64{}
	for _, r := range []loader.Residence{loader.Mapped, loader.Resident} {
		s := weighing{sampling.Neighbor{Fanouts: []int{2}}, "weight", func(have *graph.Graph) {
			c, _ := have.EdgeColumn("weight")
			copied := &c.Bytes()[0] != &source.Bytes()[0]
			expect.That(t, copied == (r == loader.Resident) && c.Len() == source.Len(),
				"%v: the sampler's column was copied: %v", r, copied)
		}}
		held[r] = open(t, g, loader.Options{Sampler: s, BatchSize: 8, Residence: r}).Stats().Memory.Topology
	}
	plain := open(t, g, loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{2}}, BatchSize: 8,
		Residence: loader.Resident}).Stats().Memory.Topology
	expect.That(t, held[loader.Mapped] == 0 && held[loader.Resident] >= plain+int64(len(source.Bytes())),
		"topology holds %v bytes, %d without the column", held, plain)
	_, err := loader.New(g, loader.Options{Sampler: weighing{column: "price"},
		Device: loader.DeviceOptions{Name: "cpu"}})
	expect.That(t, errors.Is(err, sampling.ErrOptions), "%v, want ErrOptions", err)
	opt := loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{2}}, Device: loader.DeviceOptions{Name: "cpu"}}
	placed := expect.Must(loader.Place(background, g, opt, 1))(t)
	defer placed.Close()
	opt.Sampler = weighing{Neighbor: sampling.Neighbor{Fanouts: []int{2}}, column: "weight"}
	expect.Is(t, expect.Err(loader.New(placed, opt)), loader.ErrOptions, "a sampler that reads what was not placed")
}
