//go:build cuda

package sampling

import (
	"errors"
	"math/rand/v2"
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
			g := withNodeColumns(t, r, sizedGraph(t, r, types[0], types[1], 12, degree))
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
