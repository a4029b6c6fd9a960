//go:build !race

package sampling

import (
	"math"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/unified"
)

// hub is the in-edges of a hub.
const hub = 1_000_000

// raceOf returns the probabilities of two kinds of edges, half of them each, to be among the k first of a race by
// weight over a hub: 1-exp(-wT), where T makes them k together. That is exact up to a part of 1/hub.
func raceOf(k int, a, b float64) (p [2]float64) {
	low, high := 0.0, 100.0
	for range 100 {
		T := (low + high) / 2
		p = [2]float64{-math.Expm1(-a * T), -math.Expm1(-b * T)}
		if (p[0]+p[1])*hub/2 < float64(k) {
			low = T
		} else {
			high = T
		}
	}
	return p
}

// twice repeats two values over a hub, each for two edges that follow one another.
func twice[T any](a, b T) []T { return slices.Repeat([]T{a, a, b, b}, hub/4) }

// Of a hub's edges of each kind every one, and every two that follow one another, are picked as often as the law says.
func TestPicksOfAHubAreAsTheirLawsSay(t *testing.T) {
	const k = hub / 10 * 7
	even := [2]float64{0.7, 0.7}
	for _, c := range []struct {
		name string
		of   Sampler
		star star
		law  [2]float64 // the probability of an edge of each kind
	}{
		{"uniform", Neighbor{Fanouts: []int{k}}, star{}, even},
		{"weighted", Neighbor{Fanouts: []int{k}, Weight: "w"}, star{weights: twice(2., 3)}, raceOf(k, 2, 3)},
		{"recency", Neighbor{Fanouts: []int{k}, Time: Temporal{Edge: "time", HalfLife: 4}},
			star{times: twice[int64](1, 3)}, raceOf(k, 1, math.Sqrt2)},
		{"LABOR", Labor{Fanouts: []int{k}}, star{}, even},
		{"LABOR, Poisson", Labor{Fanouts: []int{k}, Poisson: true}, star{}, even},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.star.d = hub
			var kinds [2]*chances
			for i, p := range c.law {
				kinds[i] = newChances(apart([]float64{1 - p, p}, []float64{1 - p, p}))
			}
			trials := max(finding(kinds[0].law), finding(kinds[1].law))
			req, picked := &Request{Seeds: [][]int64{{0}}}, make([]uint8, hub)
			if c.star.times != nil {
				req.Times = [][]int64{{3}}
			}
			drawBatches(t, c.star.copies(t, 1), c.of, req, true, func(out *graph.Sample) bool {
				clear(picked)
				for _, pos := range mustView(t, out.Blocks[0][0].EdgePos) {
					picked[pos] = 1
				}
				for i := 0; i < hub; i += 2 {
					kinds[i/2%2].add(int(picked[i] | picked[i+1]<<1))
				}
				return kinds[0].trials < trials
			})
			for _, kind := range kinds {
				kind.check(t, c.name)
			}
		})
	}
}

// Of a fan-out that is a small part of a hub the picks of each kind are as many as the law says; 1 % is found with
// -heavy.
func TestFewPicksOfAHubAreAsTheirLawSays(t *testing.T) {
	const k = 1000
	batches := 6
	if *heavy {
		batches = 2500
	}
	law, n := raceOf(k, 2, 3), 0
	var counts [2]float64
	req, s := &Request{Seeds: [][]int64{{0}}}, star{d: hub, weights: twice(2., 3)}
	drawBatches(t, s.copies(t, 1), Neighbor{Fanouts: []int{k}, Weight: "w"}, req, true, func(out *graph.Sample) bool {
		for _, pos := range mustView(t, out.Blocks[0][0].EdgePos) {
			counts[pos/2%2]++
		}
		n++
		return n < batches
	})
	for i, p := range law {
		mean := p * hub / 2 * float64(n)
		spread := math.Sqrt(mean * (1 - p))
		finds := (chanceLimit + power) * spread / mean
		t.Logf("kind %d: %v picks, must be %.1f: %.2f deviations; a bias of %.2f %% is found", i, counts[i], mean,
			(counts[i]-mean)/spread, 100*finds)
		if !(math.Abs(counts[i]-mean) <= chanceLimit*spread) || *heavy && finds > 0.01 {
			t.Errorf("kind %d: %v picks, must be %.1f", i, counts[i], mean)
		}
	}
}

// With replacement: thing 0 is that a pick is of the second kind of a hub's edges, thing 1 that the pick after it is.
func TestPicksOfAHubWithReplacementAreAsTheirLawsSay(t *testing.T) {
	for name, n := range map[string]Neighbor{"uniform": {}, "weighted": {Weight: "w"}} {
		n.Fanouts, n.Replace = []int{hub}, true
		p := 0.5
		if n.Weight != "" {
			p = 5. / 9
		}
		c := newChances(apart([]float64{1 - p, p}, []float64{1 - p, p}))
		s, trials := star{d: hub, weights: twice(4., 5)}, finding(c.law)
		drawBatches(t, s.copies(t, 1), n, &Request{Seeds: [][]int64{{0}}}, true, func(out *graph.Sample) bool {
			pos := mustView(t, out.Blocks[0][0].EdgePos)
			for i := 0; i < len(pos); i += 2 {
				c.add(int(pos[i]/2%2 | pos[i+1]/2%2<<1))
			}
			return c.trials < trials
		})
		c.check(t, name)
	}
}

// A walk's first step from a hub: thing i is that walk i of two leads to an odd source. Node 1 is reached from the hub
// by half of its own edges, and from each odd source by one; a walk of node2vec that goes from node 1 to the hub (thing
// 0) goes on to a source that node 1 has, too (thing 1), with weight 1, and else with weight 1/2.
func TestStepsFromAHubAreAsTheirLawsSay(t *testing.T) {
	const first = 2
	indptr, indices := make([]int64, first+hub+1), make([]int32, 0, 2*hub)
	for i := range int32(hub) {
		indices = append(indices, first+i)
	}
	for range hub / 2 {
		indices = append(indices, 0)
	}
	for i := int32(1); i < hub; i += 2 {
		indices = append(indices, first+i)
	}
	for v := 1; v < len(indptr); v++ {
		indptr[v] = int64(min(v, 2) * hub)
	}
	g := graphs.CSC(t, indptr, indices)
	steps := func(of Sampler, length int, root int64, c *chances, set func(a, b []int32) int) {
		trials := finding(c.law)
		drawBatches(t, g, of, &Request{Seeds: [][]int64{{root}}}, false, func(out *graph.Sample) bool {
			nodes := slices.Clone(mustView(t, out.Nodes[0]))
			walks := expect.Must(unified.View[int32](mustFlat(t, out.Arrays[0].Rows)))(t)
			for i := range walks {
				if walks[i] >= 0 {
					walks[i] = nodes[walks[i]]
				}
			}
			for w := 2 * (length + 1); w <= len(walks); w += 2 * (length + 1) {
				c.add(set(walks[w-2*(length+1):w-length-1], walks[w-length-1:w]))
			}
			return c.trials < trials
		})
		c.check(t, of.Fingerprint())
	}
	odd := func(v int32) int { return int(v-first) & 1 }
	steps(Walk{Length: 1, PerSeed: 256}, 1, 0, newChances([]float64{0.25, 0.25, 0.25, 0.25}),
		func(a, b []int32) int { return odd(a[1]) | odd(b[1])<<1 })
	steps(Node2Vec{Length: 2, PerSeed: 256, P: 1, Q: 2}, 2, 1, newChances([]float64{0.5, 1. / 6, 0, 1. / 3}),
		func(a, _ []int32) int {
			if a[1] != 0 {
				return 0
			}
			return 1 | odd(a[2])<<1
		})
}

// A hub among layers and budgets: sources of the second kind have twice the edges of the first.
func TestNodesAroundAHubAreDrawnAsTheirLawsSay(t *testing.T) {
	indptr, indices := make([]int64, 1+hub+1), make([]int32, 0, hub/2*3)
	for i, again := range twice(1, 2) {
		for range again {
			indices = append(indices, int32(1+i))
		}
	}
	for v := 1; v < len(indptr); v++ {
		indptr[v] = int64(len(indices))
	}
	g, req := graphs.CSC(t, indptr, indices), &Request{Seeds: [][]int64{{0}}}
	const k = hub / 5 * 3
	race := raceOf(k, 1, 4) // budgets of n and 2n
	var kinds [2]*chances
	for i, p := range race {
		kinds[i] = newChances([]float64{1 - p, p})
	}
	trials := max(finding(kinds[0].law), finding(kinds[1].law))
	drawBatches(t, g, HGT{Nodes: []int{k}}, req, false, func(out *graph.Sample) bool {
		in := make([]int, hub)
		for _, v := range mustView(t, out.Nodes[0])[1:] {
			in[v-1] = 1
		}
		for i, x := range in {
			kinds[i/2%2].add(x)
		}
		return kinds[0].trials < trials
	})
	for _, c := range kinds {
		c.check(t, "HGT")
	}
	for _, near := range []bool{false, true} {
		const draws = 2_000_000
		_, s := layeredOf(near, []int{draws}, "")
		c := newChances([]float64{1. / 3, 2. / 3}) // an edge counts 1/n^2, and a source of two edges twice
		c.trials = draws
		drawBatches(t, g, s, req, true, func(out *graph.Sample) bool {
			scaled := expect.Must(unified.View[float32](out.Arrays[0].Rows))(t)
			last := int32(-1)
			for i, pos := range mustView(t, out.Blocks[0][0].EdgePos) {
				if u := indices[pos]; u != last {
					// weight = a * m * Q / (draws * q), where a = 1/n, and q/Q = its edges / n
					kind := int(u-1) / 2 % 2
					c.counts[kind] += math.Round(float64(scaled[i]) * draws * float64(1+kind))
					last = u
				}
			}
			return false
		})
		expect.That(t, int(sum(c.counts)) == draws, "%s: %v draws, want %d", s.Fingerprint(), c.counts, draws)
		c.check(t, s.Fingerprint())
	}
}
