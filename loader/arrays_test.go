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
		for b, err := range l.Epoch(background, 0) {
			expect.OK(t, err)
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
