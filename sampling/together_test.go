package sampling

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestAllEdgeTypesTogetherEqualTheOracle(t *testing.T) {
	const seed = 20261202
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range roundsOrHeavy(50, 5000) {
		types := [][2]int{{1, 1}, {1, 3}, {3, 5}, {2, 9}}[r.IntN(4)]
		if round == 0 {
			types = [2]int{2, 300}
		}
		degree := func() int { return []int{0, 0, r.IntN(4), r.IntN(12), 60 + r.IntN(10)}[r.IntN(5)] }
		if round%10 == 1 { // several chunks
			degree = func() int { return []int{0, 511, 700}[r.IntN(3)] }
		}
		g := withColumns(t, r, sizedGraph(t, r, types[0], types[1], 20, degree))
		n := randomOptions(r, g.Schema())
		for n.PerType != nil {
			n = randomOptions(r, g.Schema())
		}
		kind := r.IntN(3)
		if kind == 1 {
			n = randomChoice(r, n)
		}
		for kind == 2 && n.Time.Edge == "" {
			n.Time = Temporal{}
			n = randomTimes(r, g.Schema(), n)
			n.Time.Node, n.Time.RulesPerType, n.Time.WindowPerType = "", nil, nil
		}
		if r.IntN(3) == 0 {
			n.Disjoint = true
		}
		n.Together = true
		equalsOracle(t, fmt.Sprintf("seed %d round %d", seed, round), g, n, 2, func(batch uint64) *Request {
			if kind == 2 {
				return randomTimedRequest(r, g, n, batch)
			}
			return randomRequest(r, g.Schema(), batch)
		})
	}
}

func TestAllEdgeTypesTogetherRefuseWhatTheyCannotDo(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	g := withColumns(t, r, randomGraph(t, r, 2, 3))
	for _, n := range []Neighbor{{PerType: map[string][]int{"r0": {1}}}, {Fanouts: []int{1},
		Time: Temporal{Node: "born"}}} {
		n.Together = true
		expect.Is(t, validate(n, g.Schema()), ErrOptions, n.Fingerprint())
	}
	n := Neighbor{Fanouts: []int{1}, Frontier: AllNodes, Together: true}
	expect.That(t, !descriptionOf(t, n, g.Schema()).Excludes, "it excludes edges")
}
