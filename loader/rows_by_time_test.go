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
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

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
	for b, err := range l.Epoch(background, 0) {
		expect.OK(t, err)
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
