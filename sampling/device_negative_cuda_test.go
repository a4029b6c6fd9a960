//go:build cuda

package sampling

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// openDrawer opens a drawer and one that draws on the device, for all edge types that can have edges. They are closed
// when the test ends.
func (d *deviceUnderTest) openDrawer(n Negatives, g *graph.Graph, ids unified.DType, ledger *pinned.Ledger) (*Drawer,
	*DeviceDrawer) {
	d.t.Helper()
	env := DeviceEnv{Env: Env{Graph: g, Scratch: pinned.Options{Ledger: ledger}}, Device: d.device, Stream: d.stream,
		Topology: d.topology(g, ids), MaxBlocks: 1}
	types := make([]bool, len(g.Schema().Edges))
	for e := range types {
		types[e] = !noEnds(g.Schema(), e)
	}
	host := expect.Must(n.Open(d.t.Context(), env.Env, types))(d.t)
	on := expect.Must(host.OpenDevice(d.t.Context(), env))(d.t)
	on.ids = ids
	d.t.Cleanup(func() {
		expect.OK(d.t, errors.Join(on.Close(), on.Close(), host.Close()))
	})
	return host, on
}

func TestDeviceDrawsTheNegativesThatTheHostDraws(t *testing.T) {
	const seed = 20261129
	r := rand.New(rand.NewPCG(seed, 0))
	negatives, missed := 0, int64(0)
	for round := range roundsOrHeavy(100, 5000) {
		t.Run("", func(t *testing.T) {
			var ledger pinned.Ledger
			t.Cleanup(func() { // after the drawers
				expect.That(t, ledger.Total() == 0 && ledger.DeviceTotal() == 0,
					"%d bytes are held, %d of them on the device", ledger.Total(), ledger.DeviceTotal())
			})
			types := [][2]int{{1, 1}, {1, 1}, {1, 3}, {3, 5}}[r.IntN(4)]
			degree := func() int { return r.IntN(1 + r.IntN(16)) }
			g := sizedGraph(t, r, types[0], types[1], 12, degree)
			if round%3 == 0 { // edges of some types are not in order of their sources
				g = withColumns(t, r, g)
			}
			g = withNodeColumns(t, r, g)
			n := randomNegatives(r)
			ids := []unified.DType{unified.Int32, unified.Int64}[r.IntN(2)]
			host, on := openDevice(t).openDrawer(n, g, ids, &ledger)
			for range 2 {
				var want, got []LinkSeeds
				rand := NewRand(r.Uint64(), 1, 2, 3)
				for e := range g.Schema().Edges {
					l := randomLinks(r, g.Schema(), e)
					got = append(got, *l.clone())
					expect.OK(t, host.Draw(rand, e, l))
					negatives, missed = negatives+len(l.Sources)-len(l.Items), missed+l.Missed
					want = append(want, *l)
				}
				expect.OK(t, on.Draw(rand, got))
				diff := expect.Diff(want, got)
				expect.Ensure(t, diff == "", "seed %d, round %d: %s: %s", seed, round, n.Fingerprint(), diff)
			}
		})
	}
	expect.That(t, negatives >= roundsOf(2000) && missed >= int64(roundsOf(100)),
		"%d negatives, %d not found: the test says little", negatives, missed)
}

func TestDeviceThatDrawsNegativesRefusesWhatTheHostRefuses(t *testing.T) {
	d := openDevice(t)
	edge := func() *LinkSeeds {
		return &LinkSeeds{SeedEdges: SeedEdges{Sources: []int64{1}, Targets: []int64{0}, Labels: []int64{1}},
			Items: []int64{0}, Group: []int32{0}}
	}
	sound := withNodeColumns(t, rand.New(rand.NewPCG(1, 1)), graphs.CSC(t, []int64{0, 2, 2, 2}, []int32{1, 2}))
	for name, c := range map[string]struct {
		g    *graph.Graph
		n    Negatives
		want error
	}{
		"damage": {graphs.CSC(t, []int64{0, 3, 2, 2}, []int32{1, 2}), // node 0 has edges 0 to 3 of 2
			Negatives{Ratio: 2, Strict: true, Replace: SourceEnd}, ErrGraph},
		"no times": {sound, Negatives{Ratio: 2, Time: "time"}, ErrOptions},
	} {
		host, on := d.openDrawer(c.n, c.g, unified.Int32, nil)
		want, got := host.Draw(NewRand(1, 0, 0, 0), 0, edge()), on.Draw(NewRand(1, 0, 0, 0), []LinkSeeds{*edge()})
		expect.That(t, errors.Is(want, c.want) && got != nil && got.Error() == want.Error(),
			"%s: the host says %v, the device %v", name, want, got)
	}
}

// Lists are searched where an id would be if they were even, so these are not. The drawer asks for most nodes of each.
func TestDeviceFindsEdgesInListsOfAnyShape(t *testing.T) {
	const nodes = 256
	indptr, indices := []int64{0}, []int32(nil)
	for _, has := range []func(u int) bool{
		func(int) bool { return false },
		func(int) bool { return true },
		func(u int) bool { return u%2 == 0 },
		func(u int) bool { return u < 90 },
		func(u int) bool { return u > 170 },
		func(u int) bool { return u == 0 },
		func(u int) bool { return u == nodes-1 },
		func(u int) bool { return u < 40 || u > 250 },
		func(u int) bool { return u&(u-1) == 0 },
		func(u int) bool { return u&(u-1) == 0 && u > 16 || u > 200 && u%3 == 0 },
	} {
		for _, same := range []int{1, 3, 70} { // edges from each
			for u := range nodes {
				if has(u) {
					indices = append(indices, slices.Repeat([]int32{int32(u)}, same)...)
				}
			}
			indptr = append(indptr, int64(len(indices)))
		}
	}
	links := LinkSeeds{}
	for v := range int64(len(indptr) - 1) {
		links.Sources, links.Targets = append(links.Sources, v), append(links.Targets, v)
		links.Items = append(links.Items, v)
		links.Labels, links.Group = append(links.Labels, 1), append(links.Group, int32(v))
	}
	indptr = append(indptr, slices.Repeat([]int64{int64(len(indices))}, nodes+1-len(indptr))...)
	g := graphs.CSC(t, indptr, indices)
	for _, ids := range []unified.DType{unified.Int32, unified.Int64} {
		d := openDevice(t)
		host, on := d.openDrawer(Negatives{Ratio: 600, Strict: true, Replace: SourceEnd, Tries: 1}, g, ids, nil)
		want, got := links.clone(), []LinkSeeds{*links.clone()}
		expect.OK(t, host.Draw(NewRand(1, 0, 0, 0), 0, want))
		expect.OK(t, on.Draw(NewRand(1, 0, 0, 0), got))
		diff := expect.Diff([]LinkSeeds{*want}, got)
		expect.That(t, diff == "" && want.Missed > 1000, "ids of %v: %d are edges: %s", ids, want.Missed, diff)
		lies := make([]int64, len(indices)) // no answer is right, but there is one
		for i := range lies {
			lies[i] = []int64{math.MaxInt64, math.MinInt64, -1 << 40, nodes, 0, 1 << 40}[i%7%6]
		}
		inBatch := Negatives{Ratio: 600, Strict: true, Law: InBatch, Replace: SourceEnd, Tries: 1}
		_, on = d.openDrawer(inBatch, g, ids, nil)
		on.env.Topology.Indices, got[0] = d.upload(unified.FromSlice(lies).Bytes()), *links.clone()
		copy(got[0].Sources, lies)
		expect.OK(t, on.Draw(NewRand(1, 0, 0, 0), got))
	}
}
