package loader_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

func TestAnEpochGoesOverEverySeedOnceInTheOrderGiven(t *testing.T) {
	g := graphs.Plain(t, 230, 5)
	for _, shuffle := range []bool{false, true} {
		for _, batchSize := range []int{1, 7, 23, 115, 1000} {
			l := open(t, g, loader.Options{Sampler: neighbor, BatchSize: batchSize, Shuffle: shuffle, Seed: 9,
				Workers: 3})
			for epoch := range uint64(3) {
				perm := rng.NewPermutation(rng.Stream(rng.StageKey(rng.BatchKey(9, uint32(epoch), 0, 0), 0, rng.Shuffle,
					0), 0), 115)
				var want, got []int32
				for i := range 115 {
					item := i
					if shuffle {
						item = int(perm.At(uint64(i)))
					}
					want = append(want, int32(114-item))
				}
				number := uint64(0)
				for b := range each(t, l.Epoch(background, epoch)) {
					seeds := seedsOf(t, b)
					expect.Ensure(t,
						len(seeds) == min(batchSize, 115-len(got)) && b.Number == number && b.Epoch == epoch &&
							!b.Padded, "batch size %d: batch %d of epoch %d has %d seeds", batchSize, b.Number, b.Epoch,
						len(seeds))
					got = append(got, seeds...)
					number++
				}
				expect.That(t, number == l.NumBatches(), "%d batches, NumBatches says %d", number, l.NumBatches())
				d := expect.Diff(want, got)
				expect.Ensure(t, d == "", "shuffle %t, batch size %d, epoch %d: %s", shuffle, batchSize, epoch, d)
			}
		}
	}
}

// docs/sampling.md, "Order of an epoch": the key is that of the seeds' node type, 0 where they are of several.
func TestTheOrderOfAnEpochIsKeyedByTheTypeOfItsSeeds(t *testing.T) {
	const seed, epoch, instance = 9, 2, 4
	g := graphs.Typed(t, 60, 40)
	nodes := g.Schema().Nodes
	for _, c := range []struct {
		types []string
		items uint64
		key   uint64
	}{
		{[]string{"user"}, 60, nodes[0].Key}, {[]string{"item"}, 40, nodes[1].Key},
		{[]string{"item", "item"}, 80, nodes[1].Key}, {[]string{"user", "item"}, 100, 0},
		{[]string{"item", "user"}, 100, 0},
	} {
		l := open(t, g, loader.Options{Sampler: neighbor, BatchSize: 1, Shuffle: true, Seed: seed, Instance: instance,
			Seeds: loader.AllNodes(c.types...)})
		order := rng.NewPermutation(rng.Stream(rng.StageKey(rng.BatchKey(seed, epoch, instance, 0), c.key, rng.Shuffle,
			0), 0), c.items)
		for b := range each(t, l.Epoch(background, epoch)) {
			_, users := b.Seeds(0)
			_, items := b.Seeds(1)
			if got := append(slices.Clone(users), items...); len(got) != 1 || got[0] != int64(order.At(b.Number)) {
				t.Fatalf("seeds of %v: batch %d has item %d, want %d", c.types, b.Number, got, order.At(b.Number))
			}
		}
	}
}

func TestColumnsComeWithTheirNodes(t *testing.T) {
	g := graphs.Plain(t, 200, 6)
	l := open(t, g, loader.Options{Sampler: neighbor, BatchSize: 16, Shuffle: true,
		Columns: loader.ColumnOptions{Edges: []string{"weight"}}})
	weights, _ := g.EdgeColumn("weight")
	all := view[float32](t, weights)
	for b := range each(t, l.Epoch(background, 0)) {
		nodes, x, y := view[int32](t, b.Sample.Nodes[0]), view[float32](t, b.X()), view[int64](t, b.Y())
		if b.X().Dim(0) != int64(len(nodes)) || b.X().Dim(1) != 3 || int64(len(y)) != b.Sample.NumNodes[0][0] {
			t.Fatalf("%d nodes, features %v, labels %v", len(nodes), b.X(), b.Y())
		}
		for i, v := range nodes {
			if x[3*i] != float32(v) || x[3*i+2] != float32(v)+0.5 {
				t.Fatalf("batch %d: node %d at %d has features %v", b.Number, v, i, x[3*i:3*i+3])
			}
			if i < len(y) && y[i] != int64(v)*10 {
				t.Fatalf("batch %d: seed %d has label %d", b.Number, v, y[i])
			}
		}
		for layer := range b.Sample.Blocks {
			w := view[float32](t, b.Edge(layer, 0, "weight"))
			for i, p := range view[int32](t, b.Sample.Blocks[layer][0].EdgePos) {
				expect.Ensure(t, w[i] == all[p], "batch %d, layer %d: edge %d at position %d has weight %g, want %g",
					b.Number, layer, i, p, w[i], all[p])
			}
		}
	}
	if s := l.Stats(); s.Batches != 7 || s.Rows == 0 || s.Sample.Count != 7 || s.Wait.P99 > s.Wait.Max {
		t.Errorf("statistics: %+v", s)
	}
}

func TestColumnsAreTheDefaultOnesUnlessNamed(t *testing.T) {
	g := graphs.Typed(t, 60, 40)
	none := []string{}
	for _, c := range []struct {
		what             string
		node, seed, edge []string
		want             [4]bool // user feature, item feature, user label (of seeds), stars
	}{
		{"default", nil, nil, nil, [4]bool{true, true, true, false}},
		{"none", none, none, none, [4]bool{}},
		{"named", []string{"label"}, []string{"feature"}, []string{"stars"}, [4]bool{false, false, false, true}},
		{"feature alone", []string{"feature"}, none, nil, [4]bool{true, true, false, false}},
	} {
		l := open(t, g, loader.Options{Sampler: neighbor, BatchSize: 64, Columns: loader.ColumnOptions{Nodes: c.node,
			Seeds: c.seed, Edges: c.edge}})
		for b := range each(t, l.Epoch(background, 0)) {
			got := [4]bool{b.Node(0, "feature").Valid(), b.Node(1, "feature").Valid(), b.Seed(0, "label").Valid(),
				b.Edge(0, 0, "stars").Valid()}
			expect.That(t, got == c.want, "%s: columns there %v, want %v", c.what, got, c.want)
		}
	}
	for _, opt := range []loader.Options{
		{Columns: loader.ColumnOptions{Nodes: []string{"faeture"}}},
		{Columns: loader.ColumnOptions{Seeds: []string{"label", "label"}}},
		{Columns: loader.ColumnOptions{Edges: []string{"weight"}}},
	} {
		opt.Sampler = neighbor
		if l, err := loader.New(g, opt); !errors.Is(err, loader.ErrOptions) {
			t.Errorf("columns %v %v %v: %v, %v", opt.Columns.Nodes, opt.Columns.Seeds, opt.Columns.Edges, l, err)
		}
	}
}

func TestSeedsMayBeFewRepeatedOrOfSeveralTypes(t *testing.T) {
	plain, typed := graphs.Plain(t, 50, 4), graphs.Typed(t, 60, 40)
	run := func(g *graph.Graph, seeds loader.SeedSource, opt loader.Options) (list [][]int64) {
		t.Helper()
		opt.Sampler, opt.Seeds = neighbor, seeds
		for b := range each(t, open(t, g, opt).Epoch(background, 0)) {
			list = append(list, slices.Clone(b.Sample.NumNodes[0]))
			for ty := range b.Sample.SeedLocal {
				list = append(list, []int64{b.Sample.SeedLocal[ty].Len()})
			}
		}
		return list
	}
	for _, c := range []struct {
		what string
		got  [][]int64
		want [][]int64 // per batch: distinct seeds by type, then requested ones of each type
	}{
		{"an empty split has no batches", run(plain, loader.Split("test"), loader.Options{}), nil},
		{"no seeds", run(plain, loader.NodeIDs([]int64{}), loader.Options{}), nil},
		{"a batch larger than the split", run(plain, loader.Split("train"), loader.Options{BatchSize: 4096}),
			[][]int64{{25}, {25}}},
		{"dropped if it is the last too", run(plain, loader.Split("train"),
			loader.Options{BatchSize: 4096, DropLast: true}), nil},
		{"repeated seeds", run(plain, loader.NodeIDs([]int64{3, 3, 5, 3}), loader.Options{BatchSize: 3}),
			[][]int64{{2}, {3}, {1}, {1}}},
		{"all nodes of one type", run(typed, loader.AllNodes("item"), loader.Options{BatchSize: 30}),
			[][]int64{{0, 30}, {0}, {30}, {0, 10}, {0}, {10}}},
		{"all nodes of all types", run(typed, loader.SeedSource{}, loader.Options{BatchSize: 50}),
			[][]int64{{50, 0}, {50}, {0}, {10, 40}, {10}, {40}}},
	} {
		expect.Same(t, c.got, c.want, c.what)
	}
}

// rotten is a dataset of which a file is damaged.
type rotten struct{ loader.Source }

func (rotten) Path() string   { return "/data/rotten.khop" }
func (rotten) Remedy() string { return "run khop check /data/rotten.khop" }

// What a file of the dataset says wrongly is the dataset's fault, and what the caller gives is not.
func TestASplitOutOfRangeNamesTheDatasetAndARemedy(t *testing.T) {
	g := graphs.Plain(t, 50, 4)
	bare := graph.Schema{Nodes: []graph.NodeType{{Name: "n", Count: 50}},
		Edges: []graph.EdgeType{{Source: "n", Relation: "e", Target: "n", Count: g.Schema().NumEdges()}}}
	g, err := graph.FromArrays(graph.Arrays{Schema: bare, Indptr: unified.FromSlice(g.Indptr()), Indices: g.Indices(),
		Splits: []graph.Split{{Name: "train", Seeds: graph.NodeIDs([]int32{3, 50})}}})
	expect.OK(t, err)
	for i, seeds := range []loader.SeedSource{loader.Split("train"), loader.SplitIndex("train", 0),
		loader.NodeIDs([]int32{50})} {
		_, err := loader.New(rotten{g}, loader.Options{Sampler: neighbor, Seeds: seeds})
		blamed := err != nil && strings.Contains(err.Error(), "; run khop check /data/rotten.khop")
		expect.That(t, errors.Is(err, graph.ErrSeed) && blamed == (i < 2), "%v: %v", seeds, err)
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	g := graphs.Plain(t, 50, 4)
	for name, opt := range map[string]loader.Options{
		"no sampler":         {},
		"negative batch":     {Sampler: neighbor, BatchSize: -1},
		"unknown device":     {Sampler: neighbor, Device: loader.DeviceOptions{Name: "tpu"}},
		"sampler's own veto": {Sampler: sampling.Neighbor{}},
	} {
		_, err := loader.New(g, opt)
		expect.That(t, errors.Is(err, loader.ErrOptions) || errors.Is(err, sampling.ErrOptions), "%s: %v", name, err)
	}
	expect.Is(t,
		expect.Err(loader.New(g, loader.Options{Sampler: neighbor, Device: loader.DeviceOptions{Name: "cuda:65535"}})),
		loader.ErrDevice, "a device that is not there")
	l := open(t, g, loader.Options{Sampler: neighbor})
	for _, err := range l.Epoch(background, 1<<32) {
		expect.Is(t, err, loader.ErrOptions, "epoch 2^32")
	}
}

func TestCancellingYieldsItsCauseOnceAndLast(t *testing.T) {
	g := graphs.Plain(t, 200, 5)
	l := open(t, g, loader.Options{Sampler: neighbor, BatchSize: 5, Workers: 2})
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(background)
	defer cancel(nil)
	batches, errs := 0, 0
	for b, err := range l.Epoch(ctx, 0) {
		if err != nil {
			errs++
			expect.That(t, errors.Is(err, why) && b == nil, "%v, %v", b, err)
			continue
		}
		if batches++; batches == 3 {
			cancel(why)
		}
	}
	expect.That(t, batches == 3 && errs == 1, "%d batches and %d errors, want 3 and 1", batches, errs)
	for b, err := range l.Epoch(ctx, 0) {
		expect.That(t, b == nil && errors.Is(err, why), "an epoch that was cancelled before: %v, %v", b, err)
	}
}

func TestBreakingOutLeavesTheLoaderReady(t *testing.T) {
	l := open(t, graphs.Plain(t, 200, 5), loader.Options{Sampler: neighbor, BatchSize: 5, Workers: 3})
	want := digests(t, l.Epoch(background, 0))
	for stop := range len(want) {
		var got []string
		for b := range each(t, l.Epoch(background, 0)) {
			if got = append(got, digestOf(b)); len(got) > stop {
				break
			}
		}
		d := expect.Diff(want[:stop+1], got)
		expect.Ensure(t, d == "", "%v", d)
	}
}

func TestAPanicInTheBodyPassesAndLeavesTheLoaderReady(t *testing.T) {
	l := open(t, graphs.Plain(t, 200, 5), loader.Options{Sampler: neighbor, BatchSize: 5, Workers: 3})
	want := digests(t, l.Epoch(background, 0))
	for range 20 {
		func() {
			defer func() {
				p := recover()
				expect.That(t, p == "mine", "recovered %v", p)
			}()
			for range l.Epoch(background, 0) {
				panic("mine")
			}
		}()
	}
	expect.Same(t, digests(t, l.Epoch(background, 0)), want)
}

func TestASecondEpochMeanwhileIsRefused(t *testing.T) {
	l := open(t, graphs.Plain(t, 200, 5), loader.Options{Sampler: neighbor, BatchSize: 50})
	for range each(t, l.Epoch(background, 0)) {
		n := 0
		for b, err := range l.Epoch(background, 1) {
			n++
			expect.That(t, b == nil && errors.Is(err, loader.ErrBusy), "%v, %v", b, err)
		}
		expect.That(t, n == 1, "the second epoch yielded %d times", n)
	}
}

func TestTwoLoadersShareASource(t *testing.T) {
	g := graphs.Plain(t, 300, 5)
	opt := loader.Options{Sampler: neighbor, BatchSize: 10, Shuffle: true, Residence: loader.Resident}
	a, b := open(t, g, opt), open(t, g, opt)
	list := make(chan []string)
	go func() { list <- digests(t, a.Epoch(background, 0)) }()
	got := digests(t, b.Epoch(background, 0))
	expect.Same(t, <-list, got)
}
