package loader_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// endsOf returns own ids of the ends of an edge type's seeds and negatives, by way of the batch's node lists.
func endsOf(t *testing.T, g *graph.Graph, b *loader.Batch, e int) (sources, targets []int64) {
	t.Helper()
	ends := b.Sample.SeedEdges[e]
	list := func(nodeType int, local unified.Tensor) (ids []int64) {
		if local.Len() == 0 {
			return nil
		}
		for _, i := range view[int32](t, local) {
			ids = append(ids, int64(view[int32](t, b.Sample.Nodes[nodeType])[i]))
		}
		return ids
	}
	et := &g.Schema().Edges[e]
	return list(et.Src, ends.Source), list(et.Dst, ends.Target)
}

// An epoch over all edges has each of them once, with its label and time, whichever types there are.
func TestAnEpochGoesOverAllEdges(t *testing.T) {
	g := graphs.Typed(t, 60, 40)
	s := g.Schema()
	for _, types := range [][]string{nil, {"rates"}, {"friend", "rates"}} {
		l := open(t, g, loader.Options{Sampler: neighbor, BatchSize: 32, Shuffle: true, Times: loader.IgnoreTimes,
			Links: loader.LinkOptions{Label: "stars", Time: "stars"}, Seeds: loader.AllEdges(types...)})
		want, got := map[[4]int64]int{}, map[[4]int64]int{}
		column, _ := g.EdgeColumn("stars")
		stars := view[int8](t, column)
		kinds, sources := view[uint8](t, g.Types()), view[int32](t, g.Indices())
		for v := range g.NumNodes() {
			for pos := g.Indptr()[v]; pos < g.Indptr()[v+1]; pos++ {
				e := int(kinds[pos])
				et := &s.Edges[e]
				if types != nil && !slices.Contains(types, et.Relation) {
					continue
				}
				want[[4]int64{int64(e), int64(sources[pos]) - g.Offset(et.Src), v - g.Offset(et.Dst),
					int64(stars[pos])}]++
			}
		}
		for b := range each(t, l.Epoch(t.Context(), 0)) {
			for e := range s.Edges {
				x := b.Links(e)
				sources, targets := endsOf(t, g, b, e)
				expect.Ensure(t,
					slices.Equal(sources, x.Sources) && slices.Equal(targets, x.Targets) &&
						slices.Equal(x.Labels, x.Times), "%v: ends %v, %v; want %v, %v; labels %v, times %v", types,
					sources, targets, x.Sources, x.Targets, x.Labels, x.Times)
				for i := range x.Sources {
					got[[4]int64{int64(e), x.Sources[i], x.Targets[i], x.Labels[i]}]++
				}
			}
		}
		expect.Same(t, got, want, types)
	}
}

// The edges that a batch is asked about, and their reverses, are in none of its blocks; all others stay.
func TestSeedsThatAreEdgesAreLeftOutOfTheirBatch(t *testing.T) {
	g := reversible(t)
	s := g.Schema()
	all := sampling.Neighbor{Fanouts: []int{-1, -1}}
	for _, how := range []loader.Exclusion{loader.ExcludeNone, loader.ExcludeSeeds, loader.ExcludeReverse} {
		l := open(t, g, loader.Options{Sampler: all, BatchSize: 4, Links: loader.LinkOptions{ExcludeSeeds: how},
			Seeds: loader.AllEdges("likes",
				"friend"), Columns: loader.ColumnOptions{EdgePos: true}})
		var seen, backs int
		for b := range each(t, l.Epoch(t.Context(), 0)) {
			gone := map[[3]int64]bool{}
			back := map[[3]int64]bool{}
			for e := range s.Edges {
				x := b.Links(e)
				for i := range x.Sources {
					gone[[3]int64{int64(e), x.Sources[i], x.Targets[i]}] = true
					r := []int{1, -1, 2}[e] // likes, rev_likes, friend
					back[[3]int64{int64(r), x.Targets[i], x.Sources[i]}] = true
				}
			}
			for e := range s.Edges {
				for ends := range blockEdges(t, b, s, e) {
					if gone[[3]int64{int64(e), ends[0], ends[1]}] {
						seen++
					}
					if back[[3]int64{int64(e), ends[0], ends[1]}] {
						backs++
					}
				}
			}
		}
		expect.That(t, (seen > 0) == (how == loader.ExcludeNone) && (backs > 0) == (how != loader.ExcludeReverse),
			"%v: %d seeds and %d reverses are in blocks", how, seen, backs)
	}
}

// reversible has users that like items, the reverses as rev_likes, and friends both ways, each edge twice.
func reversible(t *testing.T) *graph.Graph {
	t.Helper()
	likes := graph.EdgeData{Source: "user", Relation: "likes", Target: "item"}
	liked := graph.EdgeData{Source: "item", Relation: "rev_likes", Target: "user"}
	friend := graph.EdgeData{Source: "user", Relation: "friend", Target: "user"}
	r := rand.New(rand.NewPCG(5, 5))
	for range 40 {
		u, w, i := r.Int64N(12), r.Int64N(12), r.Int64N(9)
		likes.Src, likes.Dst = append(likes.Src, u, u), append(likes.Dst, i, i)
		liked.Src, liked.Dst = append(liked.Src, i, i), append(liked.Dst, u, u)
		friend.Src, friend.Dst = append(friend.Src, u, w), append(friend.Dst, w, u)
	}
	g := graphs.New(t, graph.Data{Nodes: []graph.NodeData{{Name: "user", Count: 12}, {Name: "item", Count: 9}},
		Edges: []graph.EdgeData{likes, liked, friend}})
	return g
}

// blockEdges returns the edges of a type in a batch, by own ids of their ends.
func blockEdges(t *testing.T, b *loader.Batch, s *graph.Schema, e int) map[[2]int64]bool {
	t.Helper()
	edges, et := map[[2]int64]bool{}, &s.Edges[e]
	for layer := range b.Sample.Blocks {
		block := &b.Sample.Blocks[layer][e]
		if block.Indices.Len() == 0 {
			continue
		}
		indptr, sources := view[int32](t, block.Indptr), view[int32](t, block.Indices)
		for v := range block.NumDst {
			for _, u := range sources[indptr[v]:indptr[v+1]] {
				edges[[2]int64{int64(view[int32](t, b.Sample.Nodes[et.Src])[u]),
					int64(view[int32](t, b.Sample.Nodes[et.Dst])[v])}] = true
			}
		}
	}
	return edges
}

func TestStatisticsCountNegatives(t *testing.T) {
	g := graphs.Plain(t, 200, 6)
	l := open(t, g, loader.Options{Sampler: neighbor, BatchSize: 100, Seeds: loader.AllEdges(),
		Links: loader.LinkOptions{Negatives: sampling.Negatives{Ratio: 2, Strict: true, Tries: 1}}})
	var links, negatives, missed uint64
	for b := range each(t, l.Epoch(t.Context(), 0)) {
		x := b.Links(0)
		links += uint64(len(x.Items))
		negatives, missed = negatives+uint64(len(x.Sources)-len(x.Items)), missed+uint64(x.Missed)
	}
	s := l.Stats()
	expect.That(t,
		s.Links == 1200 && s.Links == links && s.Negatives == negatives && s.NegativesMissed == missed && missed != 0 &&
			negatives+missed == 2400, "%d links, %d negatives, %d missed; statistics %+v", links, negatives, missed, s)
}

// Every type of the seeds has its negatives, which are no edges of the graph, and labels tell them apart.
func TestEveryTypeOfSeedsHasItsNegatives(t *testing.T) {
	g := graphs.Typed(t, 60, 40)
	s := g.Schema()
	of := sampling.Negatives{Ratio: 1.5, Strict: true}
	l := open(t, g, loader.Options{Sampler: neighbor, BatchSize: 90, Shuffle: true, Seeds: loader.AllEdges(),
		Links: loader.LinkOptions{Negatives: of}})
	seen := make([]int, len(s.Edges))
	for b := range each(t, l.Epoch(t.Context(), 0)) {
		for e := range s.Edges {
			x := b.Links(e)
			edges := blockEdges(t, b, s, e)
			sources, targets := endsOf(t, g, b, e)
			trues := len(x.Items)
			negatives := int(of.Of(int64(trues))) - int(x.Missed)
			expect.Ensure(t, len(sources) == trues+negatives && len(targets) == len(sources),
				"batch %d: %d edges of type %d, %d of them true", b.Number, len(sources), e, trues)
			for i := range sources {
				is := edges[[2]int64{sources[i], targets[i]}]
				if i >= trues && is || x.Labels != nil && (x.Labels[i] != 0) != (i < trues) {
					t.Errorf("batch %d, type %d: edge %d of %d true ones: in the graph %v, label %d", b.Number, e, i,
						trues, is,
						x.Labels[i])
				}
			}
			seen[e] += negatives
		}
	}
	for e, n := range seen {
		expect.That(t, n >= 100, "type %d has %d negatives", e, n)
	}
}

func TestSeedsThatAreEdgesAreChecked(t *testing.T) {
	g := graphs.Plain(t, 50, 3)
	pairs := func(s graph.EdgeSet) loader.Options {
		return loader.Options{Seeds: loader.GivenSeeds(graph.Seeds{Edges: []graph.EdgeSet{s}})}
	}
	few := []int64{1}
	one, two := unified.FromSlice([]int64{3}), unified.FromSlice([]int64{3, 4})
	for name, c := range map[string]struct {
		opt  loader.Options
		want error
	}{
		"source out of range": {loader.Options{Seeds: loader.EdgePairs([]int32{50}, []int32{1})}, graph.ErrSeed},
		"negative target":     {loader.Options{Seeds: loader.EdgePairs([]int64{1}, []int64{-1})}, graph.ErrSeed},
		"lengths":             {pairs(graph.EdgeSet{Sources: one, Targets: two}), graph.ErrSeed},
		"no targets":          {pairs(graph.EdgeSet{Sources: one}), graph.ErrSeed},
		"labels missing":      {pairs(graph.EdgeSet{Sources: two, Targets: two, Labels: few}), graph.ErrSeed},
		"times missing":       {pairs(graph.EdgeSet{Sources: two, Targets: two, Times: few}), graph.ErrSeed},
		"no such type":        {loader.Options{Seeds: loader.AllEdges("likes")}, loader.ErrOptions},
		"no such label column": {loader.Options{Seeds: loader.AllEdges(), Links: loader.LinkOptions{Label: "lable"}},
			loader.ErrOptions},
		"times that are not integers": {loader.Options{Seeds: loader.AllEdges(),
			Links: loader.LinkOptions{Time: "weight"}},
			loader.ErrOptions},
		"negatives of nodes": {loader.Options{Links: loader.LinkOptions{Negatives: sampling.Negatives{Ratio: 1}}},
			loader.ErrOptions},
		"exclusion of nodes": {loader.Options{Links: loader.LinkOptions{ExcludeSeeds: loader.ExcludeSeeds}},
			loader.ErrOptions},
		"a sampler that cannot exclude": {loader.Options{Seeds: loader.AllEdges(),
			Links:   loader.LinkOptions{ExcludeSeeds: loader.ExcludeSeeds},
			Sampler: sampling.Induced{}}, loader.ErrOptions},
		"negative ratio": {loader.Options{Seeds: loader.AllEdges(),
			Links: loader.LinkOptions{Negatives: sampling.Negatives{Ratio: -1}}},
			sampling.ErrOptions},
		"history without times": {loader.Options{Seeds: loader.AllEdges(), Links: loader.LinkOptions{
			Negatives: sampling.Negatives{Ratio: 1, Law: sampling.Historical, History: "weight"}}}, loader.ErrOptions},
		"negatives of a list, and drawn": {loader.Options{Seeds: ofLists(2, 3, 4), Links: loader.LinkOptions{
			Negatives: sampling.Negatives{Ratio: 1}}}, loader.ErrOptions},
		"a negative out of range": {loader.Options{Seeds: ofLists(2, 3, 50)}, graph.ErrSeed},
		"a negative below -1":     {loader.Options{Seeds: ofLists(2, 3, -2)}, graph.ErrSeed},
		"negatives of one of two": {loader.Options{Seeds: ofLists(1, 3, 4)}, graph.ErrSeed},
		"negatives by time without times": {loader.Options{Seeds: loader.AllEdges(),
			Links: loader.LinkOptions{Negatives: sampling.Negatives{Ratio: 1, Time: "label"}}}, loader.ErrOptions},
	} {
		if c.opt.Device.Name = "cpu"; c.opt.Sampler == nil {
			c.opt.Sampler = neighbor
		}
		l, err := loader.New(g, c.opt)
		expect.That(t, errors.Is(err, c.want), "%s: %v, %v; want %v", name, l, err, c.want)
	}
}

// ofLists are two pairs with lists of negatives, so many; without pairs those of one only.
func ofLists(rows int64, negatives ...int32) loader.SeedSource {
	set := graph.EdgeSet{Sources: unified.FromSlice([]int64{1, 2}), Targets: unified.FromSlice([]int64{3, 4})}
	set.Negatives, _ = unified.New(unified.Int32, unified.FromSlice(negatives).Bytes(), rows,
		int64(len(negatives))/rows)
	return loader.GivenSeeds(graph.Seeds{Edges: []graph.EdgeSet{set}})
}

// Pairs come with their own negatives: in the order of each list, without what stands for none, at the pair's time.
func TestPairsComeWithTheirNegatives(t *testing.T) {
	g := graphs.Typed(t, 60, 40)
	r := rand.New(rand.NewPCG(expect.Seed(t), 0))
	s, n, k := g.Schema(), 50, int64(4)
	set := graph.EdgeSet{Types: make([]int32, n), Times: make([]int64, n)}
	sources, targets, lists := make([]int32, n), make([]int32, n), make([]int64, int64(n)*k)
	for i := range n {
		set.Types[i], set.Times[i] = int32(r.IntN(len(s.Edges))), int64(r.IntN(9))
		et := &s.Edges[set.Types[i]]
		sources[i], targets[i] = int32(r.Int64N(s.Nodes[et.Src].Count)), int32(r.Int64N(s.Nodes[et.Dst].Count))
		for j := range k {
			lists[int64(i)*k+j] = max(r.Int64N(s.Nodes[et.Dst].Count+20)-20, -1)
		}
	}
	var sets []graph.EdgeSet
	for _, at := range [][2]int{{0, 20}, {20, n}} {
		lo, hi := at[0], at[1]
		sets = append(sets, graph.EdgeSet{Types: set.Types[lo:hi], Times: set.Times[lo:hi],
			Sources: unified.FromSlice(sources[lo:hi]), Targets: unified.FromSlice(targets[lo:hi]),
			Negatives: expect.Must(unified.New(unified.Int64, unified.FromSlice(lists[int64(lo)*k:int64(hi)*k]).Bytes(),
				int64(hi-lo), k))(t)})
	}
	opt := loader.Options{Sampler: neighbor, BatchSize: 16, Shuffle: true, Times: loader.IgnoreTimes,
		Seeds: loader.GivenSeeds(graph.Seeds{Edges: sets})}
	l := open(t, g, opt)
	seen, missed := 0, uint64(0)
	for b := range each(t, l.Epoch(t.Context(), 3)) {
		for e := range s.Edges {
			x := b.Links(e)
			var want [][4]int64 // source, target, time, group
			for i, item := range x.Items {
				want = append(want, [4]int64{int64(sources[item]), int64(targets[item]), set.Times[item], int64(i)})
			}
			for i, item := range x.Items {
				for _, v := range lists[item*k : (item+1)*k] {
					if v < 0 {
						missed++
						continue
					}
					want = append(want, [4]int64{int64(sources[item]), v, set.Times[item], int64(i)})
				}
			}
			u, v := endsOf(t, g, b, e)
			var got [][4]int64
			for i := range u {
				got = append(got, [4]int64{u[i], v[i], x.Times[i], int64(x.Group[i])})
				expect.Ensure(t, (x.Labels[i] == 0) == (i >= len(x.Items)), "edge %d has label %d", i, x.Labels[i])
			}
			expect.Ensure(t, slices.Equal(want, got), "type %d: %v, want %v", e, got, want)
			seen += len(got)
		}
	}
	stats := l.Stats()
	expect.That(t, stats.Links == uint64(n) && stats.Negatives == uint64(seen-n) && stats.NegativesMissed == missed &&
		missed > 20 && seen > 100, "%d seen, %d missed, statistics %+v", seen, missed, stats)
	lists[7] = 1 - min(lists[7], 1)
	expect.Is(t, open(t, g, opt).CheckState(l.State(0, 0)), loader.ErrState, "the state of other negatives")
}

// A state is refused where anything about the links differs that decides what is in a batch.
func TestAStateNamesItsLinks(t *testing.T) {
	g := graphs.Plain(t, 50, 3)
	base := loader.Options{Sampler: neighbor, Seeds: loader.AllEdges(),
		Links: loader.LinkOptions{Negatives: sampling.Negatives{Ratio: 1}}}
	state := open(t, g, base).State(0, 0)
	for name, change := range map[string]func(*loader.Options){
		"seeds":     func(o *loader.Options) { o.Seeds = loader.EdgePairs([]int32{1}, []int32{2}) },
		"negatives": func(o *loader.Options) { o.Links.Negatives.Law = sampling.ByDegree },
		"exclusion": func(o *loader.Options) { o.Links.ExcludeSeeds = loader.ExcludeReverse },
	} {
		opt := base
		change(&opt)
		expect.Is(t, open(t, g, opt).CheckState(state), loader.ErrState, name)
	}
	expect.OK(t, open(t, g, base).CheckState(state))
}

// Labels and times that are given for the edges of one type belong to them by place, and decide what a state fits.
func TestLabelsGivenForEdgesOfATypeAreTheirs(t *testing.T) {
	g := graphs.Typed(t, 60, 40)
	e := expect.Must(g.Schema().EdgeType("rates"))(t)
	seeds := func(first int64) loader.SeedSource {
		all := graph.AllEdges(g.Schema(), e)
		set := &all.Edges[0]
		for i := range set.Count {
			set.Labels, set.Times = append(set.Labels, first+i), append(set.Times, -first-i)
		}
		return loader.GivenSeeds(all)
	}
	opt := loader.Options{Sampler: neighbor, BatchSize: 32, Seeds: seeds(100), Times: loader.IgnoreTimes}
	l := open(t, g, opt)
	for b := range each(t, l.Epoch(t.Context(), 0)) {
		for i, x := 0, b.Links(e); i < len(x.Items); i++ {
			expect.Ensure(t, x.Labels[i] == 100+x.Items[i] && x.Times[i] == -x.Labels[i],
				"edge %d has label %d and time %d", x.Items[i], x.Labels[i], x.Times[i])
		}
	}
	opt.Seeds = seeds(101)
	other := open(t, g, opt)
	expect.Is(t, other.CheckState(l.State(0, 1)), loader.ErrState, "the state of a loader with other labels")
}

// What would not be looked at is an error.
func TestOptionsOfLinksThatDoNothingAreRefused(t *testing.T) {
	g := graphs.Typed(t, 60, 40)
	pairs := graph.EdgePairs([]int64{1}, []int64{2})
	mixed, every := pairs, graph.AllEdges(g.Schema(), 0)
	mixed.Edges = slices.Clone(pairs.Edges)
	mixed.Edges[0].Every = true
	every.Edges[0].Types = make([]int32, every.Edges[0].Count)
	for what, c := range map[string]struct {
		opt  loader.Options
		want error
	}{
		"labels of pairs from a column": {loader.Options{Links: loader.LinkOptions{Label: "stars"}},
			loader.ErrOptions},
		"times of pairs from a column": {loader.Options{Links: loader.LinkOptions{Time: "stars"}},
			loader.ErrOptions},
		"every edge, and a list":              {loader.Options{Seeds: loader.GivenSeeds(mixed)}, graph.ErrSeed},
		"types of edges that are the graph's": {loader.Options{Seeds: loader.GivenSeeds(every)}, graph.ErrSeed},
	} {
		c.opt.Sampler = neighbor
		if c.opt.Links.Label+c.opt.Links.Time != "" {
			c.opt.Seeds = loader.GivenSeeds(pairs)
		}
		l, err := loader.New(g, c.opt)
		expect.Is(t, err, c.want, what)
		if err == nil {
			_ = l.Close()
		}
	}
}

// An edge that damage has changed is named before anything is drawn for it.
func TestDamagedEdgesAsSeedsAreNamed(t *testing.T) {
	for name, damage := range map[string]func(*graph.Graph){
		"source": func(g *graph.Graph) { view[int32](t, g.Indices())[77] = 1 << 20 },
		"type":   func(g *graph.Graph) { view[uint8](t, g.Types())[77] = 250 },
	} {
		g := graphs.Typed(t, 60, 40)
		l := open(t, g, loader.Options{Sampler: neighbor, BatchSize: 1 << 20, Workers: 1, Seeds: loader.AllEdges(),
			Links: loader.LinkOptions{Negatives: sampling.Negatives{Ratio: 1, Strict: true,
				Replace: sampling.TargetEnd}}})
		damage(g)
		for _, err := range l.Epoch(t.Context(), 0) {
			expect.That(t, errors.Is(err, sampling.ErrGraph) && strings.Contains(err.Error(), "edge 77"),
				"%s: %.300v; want %v of edge 77", name, err, sampling.ErrGraph)
		}
	}
}

// A source of several targets is one item. Each epoch has it with one of them, each as likely, and its negatives too.
func TestASourceOfManyTargetsComesWithOneOfThem(t *testing.T) {
	g := graphs.Typed(t, 60, 40)
	e := expect.Must(g.Schema().EdgeType("rates"))(t)
	set := graph.EdgeSet{Type: e, Sources: unified.FromSlice([]int32{3, 1, 3, 7}),
		Targets: unified.FromSlice([]int32{9, 0, 5, 9, 2, 3, 1, 8}), Offsets: []int64{0, 1, 3, 7, 8},
		Times: []int64{10, 20, 30, 40}}
	seeds := graph.Seeds{Edges: []graph.EdgeSet{set}}
	l := open(t, g, loader.Options{Sampler: neighbor, BatchSize: 3, Shuffle: true, Seeds: loader.GivenSeeds(seeds),
		Times: loader.IgnoreTimes, Links: loader.LinkOptions{Negatives: sampling.Negatives{Ratio: 2}}})
	const epochs = 400
	seen := map[[2]int64]int{}
	for epoch := range uint64(epochs) {
		for b := range each(t, l.Epoch(t.Context(), epoch)) {
			x := b.Links(e)
			expect.Ensure(t, len(x.Sources) == 3*len(x.Items), "%d edges of %d items", len(x.Sources), len(x.Items))
			for i, item := range x.Items {
				expect.That(t, x.Sources[i] == int64([]int32{3, 1, 3, 7}[item]) && x.Times[i] == set.Times[item],
					"item %d is of source %d at %d", item, x.Sources[i], x.Times[i])
				seen[[2]int64{item, x.Targets[i]}]++
			}
		}
	}
	targets := expect.Must(unified.View[int32](set.Targets))(t)
	for item := range int64(4) {
		lo, hi := set.Offsets[item], set.Offsets[item+1]
		for _, v := range targets[lo:hi] { // 5 standard deviations
			n, p := seen[[2]int64{item, int64(v)}], 1/float64(hi-lo)
			expect.That(t, math.Abs(float64(n)-epochs*p) <= 5*math.Sqrt(epochs*p*(1-p)),
				"item %d has target %d in %d of %d epochs, one of %d", item, v, n, epochs, hi-lo)
			delete(seen, [2]int64{item, int64(v)})
		}
	}
	expect.That(t, len(seen) == 0, "targets that no row has: %v", seen)
	set.Offsets = []int64{0, 1, 2, 7, 8}
	other := open(t, g, loader.Options{Sampler: neighbor, BatchSize: 3, Shuffle: true, Times: loader.IgnoreTimes,
		Seeds: loader.GivenSeeds(graph.Seeds{Edges: []graph.EdgeSet{set}}),
		Links: loader.LinkOptions{Negatives: sampling.Negatives{Ratio: 2}}})
	expect.Is(t, other.CheckState(l.State(0, 1)), loader.ErrState, "the state of a loader with other targets")
	for _, offsets := range [][]int64{{0, 1, 3, 8}, {0, 1, 1, 7, 8}, {0, 1, 3, 7, 9}, {1, 2, 3, 7, 8},
		{0, 9, 3, 7, 8}} {
		set.Offsets = offsets
		_, err := loader.New(g, loader.Options{Sampler: neighbor, Seeds: loader.GivenSeeds(graph.Seeds{
			Edges: []graph.EdgeSet{set}})})
		expect.Is(t, err, graph.ErrSeed, "offsets %v", offsets)
	}
}
