package loader_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// onADevice is ids that the host must not read.
func onADevice(t *testing.T) graph.Seeds {
	t.Helper()
	ids := []int64{1, 2}
	x := expect.Must(unified.NewPlaced(pinned.Device, unified.Int64, unified.FromSlice(ids).Bytes(), 2))(t)
	return graph.Seeds{Sets: []graph.SeedSet{{IDs: x}}}
}

// What cannot be the seeds of a loader is refused in words, when it is made or when the epoch begins.
func TestSeedsThatCannotBeAreRefusedInWords(t *testing.T) {
	g := graphs.Typed(t, 20, 10)
	nodes, edges := graph.NodeIDs([]int64{1, 2}), graph.EdgePairs([]int64{1}, []int64{2})
	none := func(uint32) (graph.Seeds, error) { return nodes, nil }
	for says, c := range map[string]struct {
		seeds loader.SeedSource
		is    error
	}{
		`loader options: seeds: no node type "none"`: {loader.AllNodes("user", "none"), loader.ErrOptions},
		`loader options: seeds: `:                    {loader.AllEdges("none"), loader.ErrOptions},
		"epoch must be nodes":                        {loader.EachEpoch(edges, none), loader.ErrOptions},
		"cannot be read by the host":                 {loader.GivenSeeds(onADevice(t)), unified.ErrShape},
		"2 given nodes: seed out of range: ":         {loader.NodeIDs([]int64{1, 99}), graph.ErrSeed},
		`1 given edges: seed out of range: edge 0 `:  {loader.EdgePairs([]int64{1}, []int64{99}), graph.ErrSeed},
		`no such split: "train" (split 7)`:           {loader.SplitIndex("train", 7), graph.ErrNoSplit},
		`no such split: "tarin"`:                     {loader.Split("tarin"), graph.ErrNoSplit},
		"1 given nodes: seed out of range: ":         {loader.NodeIDs([]int32{-1}), graph.ErrSeed},
	} {
		l, err := loader.New(g, loader.Options{Sampler: neighbor, Seeds: c.seeds,
			Device: loader.DeviceOptions{Name: "cpu"}})
		expect.That(t, l == nil && errors.Is(err, c.is) && strings.Contains(err.Error(), says), "%v: %v, want %q",
			c.seeds, err, says)
	}
	timed := graph.NodeIDs([]int64{1, 2})
	timed.Sets[0].Times = []int64{3, 4}
	other := graph.NodeIDs([]int64{1, 2})
	other.Sets[0].Type = 1
	mine := errors.New("mine")
	of := []struct {
		seeds graph.Seeds
		fails error
		is    error
		says  string
	}{
		{seeds: nodes},
		{nodes, mine, mine, "seeds of epoch 1: mine"},
		{graph.NodeIDs([]int64{1, 99}), nil, graph.ErrSeed, "seeds of epoch 2: seed out of range: seed 1 "},
		{onADevice(t), nil, unified.ErrShape, "cannot be read by the host"},
		{edges, nil, loader.ErrOptions, ": seeds of epoch 4: [1 1] of each node type, with times: false; " +
			"the loader was made for [2 0], false"},
		{timed, nil, loader.ErrOptions, ": seeds of epoch 5: [2 0] of each node type, with times: true; " +
			"the loader was made for [2 0], false"},
		{other, nil, loader.ErrOptions, ": seeds of epoch 6: [0 2] of each node type, with times: false; " +
			"the loader was made for [2 0], false"},
		{graph.Seeds{}, nil, loader.ErrOptions, ": seeds of epoch 7: [0 0] of each node type, " +
			"with times: false; the loader was made for [2 0], false"},
		{seeds: graph.NodeIDs([]int32{3, 4})},
	}
	l := open(t, g, loader.Options{Sampler: neighbor, Seeds: loader.EachEpoch(nodes, func(n uint32) (graph.Seeds,
		error) {
		return of[n].seeds, of[n].fails
	})})
	for n, c := range of {
		err := lastError(l.Epoch(background, uint64(n)))
		expect.Says(t, err, c.is, c.says, "epoch %d", n)
	}
}

// splitless is a source whose splits cannot be read.
type splitless struct{ loader.Source }

func (splitless) Split(string, int) (graph.Seeds, error) { return graph.Seeds{}, errFault }

// That a split cannot be read is not that there is none.
func TestASplitThatCannotBeReadIsAnError(t *testing.T) {
	for _, seeds := range []loader.SeedSource{{}, loader.Split("train"), loader.SplitIndex("test", 1)} {
		l, err := loader.New(splitless{graphs.Plain(t, 60, 4)}, loader.Options{Sampler: neighbor, Seeds: seeds,
			Device: loader.DeviceOptions{Name: "cpu"}})
		expect.That(t, l == nil && errors.Is(err, errFault), "%v: %v", seeds, err)
	}
}

// Every way to name seeds says what it is, and a loader says what they turned out to be.
func TestASeedSourceSaysWhatItTurnsOutToBe(t *testing.T) {
	g := graphs.Typed(t, 20, 10)
	times := graph.EdgePairs([]int64{1, 2, 3}, []int64{2, 1, 1})
	for _, c := range []struct {
		seeds     loader.SeedSource
		says, is  string
		inBatches int
	}{
		{loader.SeedSource{}, "split train, or else all nodes", "all nodes", 30},
		{loader.AllNodes("item"), "all nodes of [item]", "all nodes of [item]", 10},
		{loader.AllEdges(), "all edges", "all edges", 150},
		{loader.AllEdges("rates", "friend"), "all edges of [rates friend]", "all edges of [rates friend]", 100},
		{loader.GivenSeeds(times), "3 given edges", "3 given edges", 3},
		{loader.NodeIDs([]int32{4}), "1 given nodes", "1 given nodes", 1},
	} {
		l := open(t, g, loader.Options{Sampler: neighbor, Seeds: c.seeds, BatchSize: 1})
		if is := l.Answer().Seeds.String(); c.seeds.String() != c.says || is != c.is ||
			l.NumSeeds() != int64(c.inBatches) || l.AllBatches() != uint64(c.inBatches) {
			t.Errorf("%s turned out to be %s: %d", c.seeds, is, l.NumSeeds())
		}
	}
	saint := sampling.Saint{Kind: sampling.SaintNodes, Budget: 30}
	items := open(t, graphs.Plain(t, 60, 4), loader.Options{Sampler: saint})
	again := open(t, graphs.Plain(t, 60, 4), items.Options())
	is := again.Answer().Seeds.String()
	expect.That(t, is == "items of the sampler" && again.NumSeeds() == items.NumSeeds(), "the seeds are %s", is)
	is = open(t, graphs.Plain(t, 50, 4), loader.Options{Sampler: neighbor}).Answer().Seeds.String()
	expect.That(t, is == "split train" && loader.Split("test").String() == "split test" &&
		loader.SplitIndex("test", 2).String() == "split test 2", "the seeds are %s", is)
}

// The first of a pair is the source, whatever way the pair is given.
func TestPairsLeadFromTheirFirst(t *testing.T) {
	g := graphs.Typed(t, 20, 10) // edges of type 0 lead from users to items
	for _, seeds := range []loader.SeedSource{loader.EdgePairs([]int32{15, 11}, []int32{3, 4}),
		loader.EdgePairs([]int64{15, 11}, []int64{3, 4}),
		loader.GivenSeeds(graph.EdgePairs([]int64{15, 11}, []int64{3, 4}))} {
		l := open(t, g, loader.Options{Sampler: neighbor, Seeds: seeds})
		for b := range each(t, l.Epoch(background, 0)) {
			if x := b.Links(0); !slices.Equal(x.Sources, []int64{15, 11}) || !slices.Equal(x.Targets, []int64{3, 4}) {
				t.Errorf("from %d to %d", x.Sources, x.Targets)
			}
		}
	}
}

// Types of nodes come in the order in which they are named, or in the schema's.
func TestNodesComeInTheOrderOfTheirTypes(t *testing.T) {
	g := graphs.Typed(t, 20, 10)
	for first, seeds := range map[int]loader.SeedSource{0: loader.AllNodes(), 1: loader.AllNodes("item", "user")} {
		l := open(t, g, loader.Options{Sampler: neighbor, Seeds: seeds, BatchSize: 10})
		for b := range each(t, l.Range(background, 0, 0, 1)) {
			if ids, items := b.Seeds(first); len(ids) != 10 || ids[9] != 9 || items[9] != 9 {
				t.Errorf("%v: nodes %d, numbers %d", seeds, ids, items)
			}
		}
	}
}

// ofItems is a sampler of items of its own.
type ofItems struct {
	cycle
	items sampling.Items
	veto  error
}

func (s ofItems) Describe(schema *graph.Schema, n int) (sampling.Description, error) {
	if s.items.PerBatch == 99 {
		panic("no items")
	}
	d, _ := s.cycle.Describe(schema, n)
	d.Items = &s.items
	return d, s.veto
}

// A sampler that has items of its own takes no other seeds; they come in batches of its size.
func TestItemsOfASamplerStandInForSeeds(t *testing.T) {
	g := graphs.Plain(t, 60, 4)
	mine := errors.New("mine")
	for says, c := range map[string]struct {
		s   ofItems
		opt loader.Options
		is  error
	}{
		"mine": {ofItems{veto: mine}, loader.Options{}, mine},
		": 1 given nodes are set, but this sampler makes batches of items of its own": {
			ofItems{items: sampling.Items{Count: 3, PerBatch: 1}},
			loader.Options{Seeds: loader.NodeIDs([]int64{1})}, loader.ErrOptions},
		": Shuffle is set, but this sampler's batches have an order": {
			ofItems{items: sampling.Items{Count: 3, PerBatch: 1, InOrder: true}}, loader.Options{Shuffle: true},
			loader.ErrOptions},
		"panic: no items": {ofItems{items: sampling.Items{PerBatch: 99}}, loader.Options{}, loader.ErrSampler},
		": -1 items, 1 a batch": {ofItems{items: sampling.Items{Count: -1, PerBatch: 1}}, loader.Options{},
			loader.ErrSampler},
		": 4 items, 0 a batch": {ofItems{items: sampling.Items{Count: 4}}, loader.Options{}, loader.ErrSampler},
		": items of the sampler are not": {ofItems{items: sampling.Items{Count: 4, PerBatch: 1}},
			loader.Options{Links: loader.LinkOptions{Label: "weight"}}, loader.ErrOptions},
	} {
		c.opt.Sampler, c.opt.Device.Name = c.s, "cpu"
		if l, err := loader.New(g, c.opt); l != nil || !errors.Is(err, c.is) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	for _, c := range []struct {
		items, perBatch, batches int
		drop, inOrder            bool
	}{{0, 1, 0, false, false}, {5, 2, 3, false, true}, {5, 2, 2, true, false}, {4, 2, 2, true, true}} {
		l := open(t, g, loader.Options{Sampler: ofItems{items: sampling.Items{Count: int64(c.items),
			PerBatch: c.perBatch, InOrder: c.inOrder}}, BatchSize: 77, DropLast: c.drop, Shuffle: !c.inOrder})
		expect.That(t,
			l.NumSeeds() == int64(c.items) && l.AllBatches() == uint64(c.batches) &&
				l.Answer().BatchSize == c.perBatch, "%+v: %d batches of %d items", c, l.AllBatches(), l.NumSeeds())
	}
}

// Items are found whatever sets they are in: as ids of 32 or 64 bits, or as all of a type.
func TestItemsOfManySetsAreFound(t *testing.T) {
	g := graphs.Typed(t, 40, 30)
	seeds := graph.Seeds{}
	var want []string
	for k := range 40 {
		set := graph.SeedSet{Type: k % 2}
		switch k % 3 {
		case 0:
			ids := []int32{int32(k % 7), 5, int32(k % 11)}[:k%4]
			set.IDs = unified.FromSlice(ids)
			for _, id := range ids {
				want = append(want, fmt.Sprint(k%2, id))
			}
		case 1:
			ids := []int64{int64(k % 5), int64(k % 13)}
			set.IDs, set.Types = unified.FromSlice(ids), []int32{1, 0}
			want = append(want, fmt.Sprint(1, ids[0]), fmt.Sprint(0, ids[1]))
		default:
			set.Count = int64(k % 6)
			for id := range k % 6 {
				want = append(want, fmt.Sprint(k%2, id))
			}
		}
		seeds.Sets = append(seeds.Sets, set)
	}
	l, n := open(t, g, loader.Options{Sampler: neighbor, Seeds: loader.GivenSeeds(seeds), BatchSize: 7}), 0
	got := make([]string, len(want))
	for b := range each(t, l.Epoch(background, 0)) {
		for nodeType := range 2 {
			ids, items := b.Seeds(nodeType)
			for i, id := range ids {
				got[items[i]] = fmt.Sprint(nodeType, id)
				n++
			}
		}
	}
	d := expect.Diff(want, got)
	expect.That(t, d == "" && n == len(want) && slices.Equal(want, got), "%d items of %d: %s", n, len(want), d)
}
