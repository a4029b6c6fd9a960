package oncuda

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestThePlanFollowsWhatReadsCost: the same rows and devices, other ways between them.
func TestThePlanFollowsWhatReadsCost(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 0))
	scores := make([]float64, 10_000) // few rows are most of what is gathered
	for i := range scores {
		scores[i] = math.Pow(r.Float64(), -0.5)
	}
	const room, k = 1600, 4
	for name, c := range map[string]struct {
		share      Share
		cost       readCost
		own, dealt int64 // -1: some
	}{
		"a peer is as near as the own memory":  {shareFastest, readCost{1, 1, 40}, 0, k * room},
		"a peer is as far as the host":         {shareFastest, readCost{1, 40, 40}, room, 0},
		"a peer is farther than the host":      {shareFastest, readCost{1, 60, 40}, room, 0},
		"between them, the hottest are on all": {shareFastest, readCost{1, 20, 40}, -1, -1},
		"none asked for":                       {ShareNone, readCost{1, 1, 40}, room, 0},
		"all asked for":                        {ShareAll, readCost{1, 60, 40}, 0, k * room},
	} {
		p := planSharing(c.share, scores, room, k, c.cost)
		if c.own >= 0 && (p.own != c.own || p.dealt != c.dealt) || c.own < 0 && (p.own == 0 || p.dealt == 0) {
			t.Errorf("%s: %+v, want %d on each and %d dealt", name, p, c.own, c.dealt)
		}
		expect.That(t, p.own+(p.dealt+k-1)/k <= room && p.own+p.dealt <= int64(len(scores)),
			"%s: %+v exceeds %d rows a device", name, p, room)
	}
	p := planSharing(shareFastest, scores, 3000, k, readCost{1, 1.5, 40})
	expect.That(t, p.own+p.dealt == 10_000 && p.hits >= 0.999, "all rows have room among the devices: %+v", p)
	p = planSharing(shareFastest, make([]float64, 100), 10, 2, fixedCost)
	expect.That(t, p.own+p.dealt > 0, "rows of which nothing is known: %+v", p)
}
