package loader_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

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
	for b, err := range l.Epoch(background, 0) {
		expect.OK(t, err)
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
