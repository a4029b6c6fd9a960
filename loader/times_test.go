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
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// Each node of a list of seeds is looked at as of its own time, in any order, and the list with other times is another.
func TestNodesAreLookedAtAsOfTheirOwnTimes(t *testing.T) {
	g := graphs.Columns(t, 2, 30, 150)
	ids, times, types := []int64{3, 3, 1, 0, 5, 3, 6}, []int64{10, 20, -5, 40, 40, 10, 7}, []int32{0, 1, 1, 0, 0, 0, 1}
	set := graph.NodeIDs(ids[:5])
	set.Sets[0].Times, set.Sets[0].Types = times[:5], types[:5]
	rest := graph.NodeIDs(ids[5:]) // a second set: its items go on from those of the first
	rest.Sets[0].Times, rest.Sets[0].Types = times[5:], types[5:]
	set.Sets = append(set.Sets, rest.Sets...)
	opt := loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{3}, Time: sampling.Temporal{Edge: "time"}},
		BatchSize: 3, Shuffle: true, Seeds: loader.GivenSeeds(set)}
	l, seen := open(t, g, opt), 0
	for b := range each(t, l.Epoch(background, 0)) {
		for nodeType := range 2 {
			own, items := b.Seeds(nodeType)
			as := view[int64](t, b.Sample.Arrays[nodeType].Rows)
			for i, local := range view[int32](t, b.Sample.SeedLocal[nodeType]) {
				seen++
				if item := items[i]; as[local] != times[item] || own[i] != ids[item] || int(types[item]) != nodeType {
					t.Errorf("seed %d: node %d as of %d", item, own[i], as[local])
				}
			}
		}
	}
	expect.That(t, seen == len(ids), "%d seeds of %d", seen, len(ids))
	state := l.State(0, 0)
	set.Sets[1].Times = []int64{10, 8}
	opt.Seeds = loader.GivenSeeds(set)
	other := open(t, g, opt).State(0, 0)
	expect.That(t, other.Seeds != state.Seeds, "a list with other times has the same state")
}

// windowed is nodes, or edges, of which each has a window of time from w before it.
func windowed(edges bool, w int64) graph.Seeds {
	ids, times := []int64{3, 3, 1, 0, 5, 3, 6}, []int64{10, 90, 35, 40, 41, 10, 70}
	from := slices.Clone(times)
	for i := range from {
		from[i] -= w
	}
	if edges {
		s := graph.EdgePairs(ids, times[:7])
		s.Edges[0].Targets, s.Edges[0].Times, s.Edges[0].From = unified.FromSlice(ids), times, from
		return s
	}
	s := graph.NodeIDs(ids)
	s.Sets[0].Times, s.Sets[0].From = times, from
	s.Sets[0].Labels = unified.FromSlice([]int32{1, 2, 3, 4, 5, 6, 7})
	return s
}

// A window for each seed, as long before it as that of the sampler, gives the sampler's batches; batches have the first
// times of their seeds, of negatives too; a list with others is another.
func TestSeedsHaveWindowsOfTheirOwn(t *testing.T) {
	g := graphs.Columns(t, 1, 30, 150)
	for _, edges := range []bool{false, true} {
		n := sampling.Neighbor{Fanouts: []int{3, 2}, Disjoint: true, Time: sampling.Temporal{Edge: "time"}}
		opt := loader.Options{Sampler: n, BatchSize: 3, Shuffle: true, Seeds: loader.GivenSeeds(windowed(edges, 12))}
		name := "task/" + g.Schema().Nodes[0].Name
		if edges {
			opt.Links.Negatives.Ratio, name = 1, "link/"+g.Schema().Edges[0].String()
		}
		l := open(t, g, opt)
		from, time := expect.Must(l.Find(name+"/from"))(t), expect.Must(l.Find(name+"/time"))(t)
		found, edgesFound := 0, int64(0)
		for b := range each(t, l.Epoch(background, 0)) {
			first, last := view[int64](t, b.Array(from)), view[int64](t, b.Array(time))
			for i := range first {
				found++
				expect.That(t, first[i] == last[i]-12, "seed %d is from %d to %d", i, first[i], last[i])
			}
			edgesFound += b.Sample.Blocks[0][0].NumEdges()
		}
		expect.That(t, found == 7 || edges && found == 14, "%d seeds have windows", found)
		expect.That(t, edgesFound > 20, "%d edges in all: the test says little", edgesFound)

		same := windowed(edges, 12)
		if edges {
			same.Edges[0].From = nil
		} else {
			same.Sets[0].From = nil
		}
		n.Time.Window = []int64{12}
		opt.Sampler, opt.Seeds = n, loader.GivenSeeds(same)
		all := open(t, g, opt)
		var got, want []string
		for i, of := range []*loader.Loader{l, all} {
			for b := range each(t, of.Epoch(background, 1)) {
				text := fmt.Sprint(view[int32](t, b.Sample.Nodes[0]), view[int32](t, b.Sample.Blocks[0][0].Indices))
				if i == 0 {
					got = append(got, text)
				} else {
					want = append(want, text)
				}
			}
		}
		expect.That(t, slices.Equal(got, want), "windows of seeds give\n%v, one of the sampler\n%v", got, want)
		n.Time.Window = nil
		opt.Sampler, opt.Seeds = n, loader.GivenSeeds(windowed(edges, 13))
		expect.Is(t, open(t, g, opt).CheckState(l.State(0, 1)), loader.ErrState, "a state of other first times")
	}
}

func TestFirstTimesThatNobodyReadsAreRefused(t *testing.T) {
	g := graphs.Columns(t, 1, 30, 150)
	past := sampling.Neighbor{Fanouts: []int{3}, Time: sampling.Temporal{Edge: "time"}}
	some := windowed(false, 5)
	some.Sets = append(some.Sets, windowed(false, 5).Sets...)
	some.Sets[1].From = nil
	short, alone := windowed(true, 5), windowed(false, 5)
	short.Edges[0].From = short.Edges[0].From[:2]
	alone.Sets[0].Times = nil
	for says, c := range map[string]struct {
		opt  loader.Options
		want error
	}{
		"Disjoint": {loader.Options{Sampler: past, Seeds: loader.GivenSeeds(windowed(false, 5))},
			loader.ErrOptions},
		"does not look at the times": {loader.Options{Sampler: neighbor, Seeds: loader.GivenSeeds(windowed(true, 5))},
			loader.ErrOptions},
		"0 first times beside 7 times": {loader.Options{Sampler: past, Seeds: loader.GivenSeeds(some)}, graph.ErrSeed},
		"2 first times beside 7 times": {loader.Options{Sampler: past, Seeds: loader.GivenSeeds(short)}, graph.ErrSeed},
		"7 first times beside 0 times": {loader.Options{Sampler: past, Seeds: loader.GivenSeeds(alone)}, graph.ErrSeed},
	} {
		_, err := loader.New(g, c.opt)
		expect.Says(t, err, c.want, says, "%s", says)
	}
	ask := asking(t, g, loader.Options{Sampler: past, BatchSize: 9})
	_, err := ask.Sample(background, loader.Request{Seeds: windowed(false, 5)})
	expect.Says(t, err, loader.ErrOptions, "Disjoint", "a request without trees")
	open(t, g, loader.Options{Sampler: neighbor, Times: loader.IgnoreTimes,
		Seeds: loader.GivenSeeds(windowed(true, 5))})
}

func TestTimesOfSomeSeedsAreRefused(t *testing.T) {
	g := graphs.Columns(t, 1, 30, 150)
	some := graph.NodeIDs([]int64{1, 2})
	some.Sets[0].Times = []int64{1, 2}
	some.Sets = append(some.Sets, graph.NodeIDs([]int64{3}).Sets...)
	short := graph.NodeIDs([]int64{1, 2})
	short.Sets[0].Times = []int64{1}
	for says, seeds := range map[string]graph.Seeds{"1 of 2 sets have times": some, "1 times of 2 nodes": short} {
		_, err := loader.New(g, loader.Options{Device: loader.DeviceOptions{Name: "cpu"}, Sampler: neighbor,
			Seeds: loader.GivenSeeds(seeds)})
		expect.That(t, errors.Is(err, graph.ErrSeed) && strings.Contains(err.Error(), says), "%v, want %s", err, says)
	}
}

// With EachEpoch the seeds of an epoch are those that its function returns, and nothing else of the loader changes.
func TestEachEpochHasItsOwnSeeds(t *testing.T) {
	g := graphs.Columns(t, 1, 30, 150)
	lists := [][]int64{{1, 2, 3, 4, 5}, {9, 9, 8, 7, 6}, {1, 2}}
	opt := loader.Options{Device: loader.DeviceOptions{Name: "cpu"}, Sampler: neighbor, BatchSize: 2, Shuffle: true,
		Seed: 5}
	each := opt
	each.Seeds = loader.EachEpoch(graph.NodeIDs(lists[0]), func(epoch uint32) (graph.Seeds, error) {
		if epoch == 3 {
			return graph.Seeds{}, errors.New("no list")
		}
		return graph.NodeIDs(lists[epoch]), nil
	})
	l := open(t, g, each)
	for epoch := range uint64(2) {
		opt.Seeds = loader.NodeIDs(lists[epoch])
		var want, got []uint64
		for b, err := range open(t, g, opt).Epoch(background, epoch) {
			want = append(want, digest(t, b, err))
		}
		for b, err := range l.Epoch(background, epoch) {
			got = append(got, digest(t, b, err))
		}
		expect.That(t, slices.Equal(got, want) && len(got) == 3, "epoch %d has %x, a loader of its list %x", epoch, got,
			want)
	}
	for epoch, says := range map[uint64]string{2: "[2] of each node type", 3: "epoch 3: no list"} {
		for _, err := range l.Epoch(background, epoch) {
			expect.That(t, err != nil && strings.Contains(err.Error(), says), "epoch %d: %v, want %q", epoch, err, says)
		}
	}
}

// digest returns the full digest of a batch.
func digest(t *testing.T, b *loader.Batch, err error) uint64 {
	t.Helper()
	expect.OK(t, err)
	_, full := b.Digest()
	return full
}

// Each seed has its label and time beside it, of the row that it was asked for in, also where a node is there twice;
// the list with other labels is another.
func TestSeedsComeWithTheirLabelsAndTimes(t *testing.T) {
	g := graphs.Columns(t, 2, 30, 150)
	ids, times := []int64{3, 3, 1, 0, 5, 3, 6}, []int64{10, 20, -5, 40, 40, 10, 7}
	labels := []float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13} // two a row
	seeds := func() graph.Seeds {
		s := graph.NodeIDs(ids)
		s.Sets[0].Type, s.Sets[0].Times = 1, times
		s.Sets[0].Labels = expect.Must(unified.FromSlice(labels).Reshape(7, 2))(t)
		return s
	}
	opt := loader.Options{Sampler: neighbor, BatchSize: 3, Shuffle: true, Seeds: loader.GivenSeeds(seeds()),
		Times: loader.IgnoreTimes}
	l, seen := open(t, g, opt), 0
	name := g.Schema().Nodes[1].Name
	label, time := expect.Must(l.Find("task/"+name+"/label"))(t), expect.Must(l.Find("task/"+name+"/time"))(t)
	for b := range each(t, l.Epoch(background, 0)) {
		_, items := b.Seeds(1)
		at, rows := view[int64](t, b.Array(time)), view[float32](t, b.Array(label))
		expect.Ensure(t, len(at) == len(items) && len(rows) == 2*len(items), "%d times, %d labels of %d seeds", len(at),
			len(rows), len(items))
		for i, item := range items {
			seen++
			expect.That(t, at[i] == times[item] && rows[2*i] == labels[2*item] && rows[2*i+1] == labels[2*item+1],
				"row %d has the time %d and the labels %v", item, at[i], rows[2*i:2*i+2])
		}
	}
	expect.That(t, seen == len(ids), "%d seeds of %d", seen, len(ids))
	state, full := l.State(0, 0), digests(t, l.Epoch(background, 0))
	labels[13]++
	opt.Seeds = loader.GivenSeeds(seeds())
	other := open(t, g, opt)
	expect.That(t, other.State(0, 0).Seeds != state.Seeds, "a list with other labels has the same state")
	expect.That(t, !slices.Equal(full, digests(t, other.Epoch(background, 0))),
		"batches with other labels have the same digests")

	next := seeds() // of an epoch, with labels of another shape
	next.Sets[0].Labels = unified.FromSlice(labels[:7])
	each := open(t, g, loader.Options{Sampler: neighbor, Times: loader.IgnoreTimes, Seeds: loader.EachEpoch(seeds(),
		func(uint32) (graph.Seeds, error) { return next, nil })})
	for _, err := range each.Epoch(background, 0) {
		expect.That(t, errors.Is(err, loader.ErrOptions), "labels of another shape: %v", err)
	}
	few := seeds()
	few.Sets[0].Labels = unified.FromSlice(labels[:3])
	_, err := loader.New(g, loader.Options{Sampler: neighbor, Seeds: loader.GivenSeeds(few)})
	expect.That(t, errors.Is(err, graph.ErrSeed), "3 labels of 7 nodes: %v", err)
}

// A batch of more edges than a block can hold is refused before memory is taken; one that is not is made.
func TestABatchOfTooManyNegativesIsRefused(t *testing.T) {
	g := graphs.Typed(t, 60, 40)
	ends := make([]int64, 600)
	opt := loader.Options{Sampler: neighbor, BatchSize: 600, Seeds: loader.EdgePairs(ends, ends),
		Links: loader.LinkOptions{Negatives: sampling.Negatives{Law: sampling.Uniform, Ratio: 1 << 20}}}
	_, err := loader.New(g, opt)
	expect.That(t, errors.Is(err, loader.ErrOptions) && strings.Contains(err.Error(), "2^29"), "%v", err)
	opt.Links.Negatives.Ratio = 2
	open(t, g, opt)
}

// An epoch in which no seed has reached an edge says so, once, with the column.
func TestAnEpochWithoutAnEdgeOfThePastIsSaid(t *testing.T) {
	g := graphs.Columns(t, 1, 30, 150)
	seeds := graph.NodeIDs([]int64{1, 2, 3})
	for i, column := range []string{"time", "time", "born", "born"} {
		early := i%2 == 0
		seeds.Sets[0].Times = []int64{-1 << 62, -1 << 62, 1 << 62}
		if early {
			seeds.Sets[0].Times[2] = -1 << 62
		}
		said := lines{}
		past := sampling.Neighbor{Fanouts: []int{3}, Time: sampling.Temporal{Edge: "time"}}
		if column == "born" {
			past.Time = sampling.Temporal{Node: column}
		}
		l := open(t, g, loader.Options{Sampler: past, Seeds: loader.GivenSeeds(seeds),
			Hooks: loader.Hooks{Logger: said.logger()}})
		for range each(t, l.Epoch(background, 0)) {
		}
		n := strings.Count(said.String(), "no seed has reached any edge")
		expect.That(t, n == map[bool]int{true: 1, false: 0}[early] && (n == 0 || strings.Contains(said.String(),
			"column="+column)), "%s, %t: said %d times:\n%s", column, early, n, said.String())
	}
}
