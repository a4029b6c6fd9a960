package loader_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/convert"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// itemsOf returns the items of each batch of an epoch, of seeds that are nodes of type 0 or edges of type 0.
func itemsOf(t *testing.T, l *loader.Loader, epoch uint64) (all [][]int64) {
	t.Helper()
	for b := range each(t, l.Epoch(t.Context(), epoch)) {
		if links := b.Links(0); links != nil {
			all = append(all, slices.Clone(links.Items))
			continue
		}
		_, items := b.Seeds(0)
		all = append(all, slices.Clone(items))
	}
	return all
}

// Batches of seeds in the order of their times, and of one span of time, are those that a sort and a cut make; shuffled
// they are as many seeds of one span each, all of them once, in another order each epoch.
func TestBatchesLieWithinTheirSpanOfTime(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 7))
	g := graphs.Plain(t, 50, 3)
	for range 60 {
		n, width, size := 1+r.IntN(300), int64(r.IntN(4)*5), 1+r.IntN(40)
		set := graph.EdgeSet{}
		ids, ends := make([]int32, n), make([]int32, n)
		for i := range n {
			ids[i], ends[i] = int32(r.IntN(50)), int32(r.IntN(50))
			set.Times = append(set.Times, int64(r.IntN(60))-30)
		}
		seeds := graph.NodeIDs(ids)
		if seeds.Sets[0].Times = set.Times; r.IntN(2) == 0 {
			seeds = graph.EdgePairs(ids, ends)
			seeds.Edges[0].Times = set.Times
		}
		opt := loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{2}}, Seeds: loader.GivenSeeds(seeds),
			Times: loader.IgnoreTimes, BatchSize: size, SameTime: width, TimeOrder: width == 0 || r.IntN(2) == 0,
			DropLast: r.IntN(3) == 0}
		want := cutByTime(set.Times, width, size, opt.DropLast)
		what := fmt.Sprintf("%d seeds, %+v", n, opt)
		expect.Same(t, itemsOf(t, open(t, g, opt), 0), want, what)
		if width == 0 {
			continue
		}
		opt.TimeOrder, opt.Shuffle = false, true
		l := open(t, g, opt)
		got, other := itemsOf(t, l, 1), itemsOf(t, l, 2)
		expect.That(t, len(got) == len(want) && (len(want) < 3 || !slices.EqualFunc(got, other, slices.Equal)),
			"%s: %d batches, shuffled %d, or two epochs are alike", what, len(want), len(got))
		expect.Same(t, ranksTogether(t, g, opt), got, what)
		seen := map[int64]int{}
		for _, batch := range got {
			for _, item := range batch {
				seen[item]++
				expect.Ensure(t, floor(set.Times[item], width) == floor(set.Times[batch[0]], width),
					"%s: times %d and %d in a batch", what, set.Times[item], set.Times[batch[0]])
			}
		}
		for item, k := range seen {
			expect.That(t, k == 1, "%s: item %d is there %d times", what, item, k)
		}
		expect.That(t, opt.DropLast || len(seen) == n, "%s: %d items", what, len(seen))
	}
}

// ranksTogether returns the batches of epoch 1, as two ranks of one worker each have them by turns.
func ranksTogether(t *testing.T, g *graph.Graph, opt loader.Options) (all [][]int64) {
	t.Helper()
	var of [2][][]int64
	opt.WorldSize, opt.Remainder, opt.Workers = 2, loader.Short, 1
	for opt.Rank = range 2 {
		of[opt.Rank] = itemsOf(t, open(t, g, opt), 1)
	}
	for i := range len(of[0]) + len(of[1]) {
		all = append(all, of[i%2][i/2])
	}
	return all
}

func floor(a, width int64) int64 {
	if width == 0 {
		return 0
	}
	return (a - (a%width+width)%width) / width
}

// cutByTime is what the options mean, slowly.
func cutByTime(times []int64, width int64, size int, whole bool) (all [][]int64) {
	var items []int64
	for i := range times {
		items = append(items, int64(i))
	}
	slices.SortStableFunc(items, func(a, b int64) int { return int(times[a] - times[b]) })
	var batch []int64
	flush := func() {
		if len(batch) == size || len(batch) > 0 && !whole {
			all = append(all, batch)
		}
		batch = nil
	}
	for _, item := range items {
		if len(batch) == size || len(batch) > 0 && floor(times[batch[0]], width) != floor(times[item], width) {
			flush()
		}
		batch = append(batch, item)
	}
	flush()
	return all
}

// The edges of one type of several are in the order of a column of times, on any number of ranks, and a state says so.
func TestEdgesOfATypeComeInTheOrderOfTheirTimes(t *testing.T) {
	g := graphs.Typed(t, 60, 40)
	e := expect.Must(g.Schema().EdgeType("rates"))(t)
	opt := loader.Options{Sampler: neighbor, Seeds: loader.AllEdges(g.Schema().Edges[e].String()), BatchSize: 16,
		Times: loader.IgnoreTimes, TimeOrder: true, Links: loader.LinkOptions{Time: "stars"}}
	l := open(t, g, opt)
	last := int64(-1 << 62)
	for b := range each(t, l.Epoch(t.Context(), 0)) {
		for _, at := range b.Links(e).Times {
			expect.Ensure(t, at >= last, "%d follows %d", at, last)
			last = at
		}
	}
	opt.TimeOrder = false
	expect.Is(t, open(t, g, opt).CheckState(l.State(0, 1)), loader.ErrState, "the state of another order")
	for what, change := range map[string]func(*loader.Options){
		"no times":    func(o *loader.Options) { o.Links.Time = "" },
		"shuffled":    func(o *loader.Options) { o.Shuffle = true },
		"of its own":  func(o *loader.Options) { o.Seeds = loader.SeedSource{}; o.Sampler = &sampling.Full{} },
		"a bad width": func(o *loader.Options) { o.SameTime = -1 },
	} {
		bad := opt
		bad.TimeOrder = true
		change(&bad)
		expect.Is(t, expect.Err(loader.New(g, bad)), loader.ErrOptions, what)
	}
}

// TestTimesThatTheSamplerIgnoresAreRefused, of nodes, of links and of requests, unless the caller ignores them, too.
func TestTimesThatTheSamplerIgnoresAreRefused(t *testing.T) {
	g := graphs.Columns(t, 1, 30, 150)
	timed := graph.NodeIDs([]int32{3, 1, 4})
	timed.Sets[0].Times = []int64{5, 6, 7}
	past := sampling.Neighbor{Fanouts: []int{3}, Time: sampling.Temporal{Edge: "time"}}
	for what, opt := range map[string]loader.Options{
		"nodes": {Seeds: loader.GivenSeeds(timed)},
		"links": {Seeds: loader.AllEdges(), Links: loader.LinkOptions{Time: "time"}},
	} {
		for _, s := range []sampling.Sampler{neighbor, sampling.Labor{Fanouts: []int{2}}, sampling.Walk{Length: 2}} {
			opt.Sampler, opt.Times = s, loader.ReadTimes
			expect.Says(t, expect.Err(loader.New(g, opt)), loader.ErrOptions, `take the sampler "temporal"`, what)
			opt.Times = loader.IgnoreTimes
			open(t, g, opt)
		}
		opt.Sampler, opt.Times = past, loader.ReadTimes
		open(t, g, opt)
	}
	for i, s := range []sampling.Sampler{neighbor, past} {
		l := open(t, g, loader.Options{Sampler: s, Seeds: loader.OnRequest(), BatchSize: 8})
		b, err := l.Sample(t.Context(), loader.Request{Seeds: timed})
		if i == 0 {
			expect.Is(t, err, loader.ErrOptions, "a request")
			continue
		}
		expect.OK(t, err)
		b.Release()
	}
}

// writeShop writes a database of users, and of orders in no order, no two of which are of the same time.
func writeShop(t *testing.T, r *rand.Rand) string {
	const users, orders = 20, 300
	dir := t.TempDir()
	people, rows := "user\n", "user,at\n"
	for u := range users {
		people += fmt.Sprintf("u%d\n", u)
	}
	for _, at := range r.Perm(orders) {
		rows += fmt.Sprintf("u%d,%d\n", r.IntN(users), 1000+at)
	}
	for name, text := range map[string]string{"users.csv": people, "orders.csv": rows,
		"manifest.yaml": "name: shop\nval_timestamp: '1970-01-01'\ntest_timestamp: '1970-01-02'\ntables:\n" +
			"  users: {pkey: user, time_col: null, fkeys: {}}\n" +
			"  orders: {pkey: null, time_col: at, fkeys: {user: users}}\n"} {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// rowsOfTrees returns the rows of the source that each seed reaches, in order.
func rowsOfTrees(t *testing.T, g *graph.Graph, opt loader.Options) map[int64][]string {
	trees, l := map[int64][]string{}, open(t, g, opt)
	for b := range each(t, l.Epoch(background, 0)) {
		for nodeType := range b.Sample.Nodes {
			ids := expect.Must(unified.Integers(b.Sample.Nodes[nodeType]))(t)
			row := func(id int64) int64 { return id }
			if old, ok := g.NodeColumn(nodeType, "old_id"); ok {
				row = expect.Must(unified.Integers(old))(t)
			}
			for i, tree := range view[int32](t, b.Sample.Arrays[nodeType].Rows) {
				trees[int64(tree)] = append(trees[int64(tree)], fmt.Sprintf("%d/%d", nodeType, row(ids(int64(i)))))
			}
		}
	}
	for _, list := range trees {
		slices.Sort(list)
	}
	return trees
}

// Rows of a database that nobody names are numbered by their times, which shows in no batch: where no draw decides,
// each seed reaches the same rows of the source.
func TestBatchesHaveTheSameRowsHoweverTheseAreNumbered(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 0))
	src := writeShop(t, r)
	graphOf := func(how convert.Reorder) *graph.Graph {
		path := filepath.Join(t.TempDir(), "x")
		expect.Must(convert.Run(background, src, path, convert.Options{Reorder: how, TimesIn: "s"}))(t)
		ds := expect.Must(formats.Open(path))(t)
		t.Cleanup(func() { _ = ds.Close() })
		return ds.Graph()
	}
	listed, byTime := graphOf(convert.AsListed), graphOf(0)
	for of, g := range map[bool]*graph.Graph{false: listed, true: byTime} {
		columns := g.Schema().Nodes[1].Columns
		ascends := slices.ContainsFunc(columns, func(c graph.Column) bool { return c.Name == "time" && c.Ascending })
		expect.That(t, ascends == of, "in order of time: %v", columns)
	}
	var ids, times []int64
	for range 40 {
		ids, times = append(ids, r.Int64N(20)), append(times, 990+r.Int64N(330))
	}
	seeds := graph.NodeIDs(ids)
	seeds.Sets[0].Times = times
	for _, at := range []sampling.Temporal{{}, {Rules: []sampling.TimeRule{sampling.Before}}, {Window: []int64{50}},
		{Window: []int64{50, 0}, Recent: true}, {Recent: true, Chain: true}} {
		at.Node = "time"
		n := sampling.Neighbor{Fanouts: []int{-1, -1, -1}, Disjoint: true, Time: at}
		if at.Recent {
			n.Fanouts = []int{2, 2, 2}
		}
		opt := loader.Options{Sampler: n, BatchSize: len(ids), Seeds: loader.GivenSeeds(seeds)}
		want, got := rowsOfTrees(t, listed, opt), rowsOfTrees(t, byTime, opt)
		expect.Same(t, got, want)
		expect.That(t, strings.Contains(fmt.Sprint(got), "1/"), "%s: no seed reaches an order", n.Fingerprint())
	}
}
