package sampling

import (
	"flag"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/internal/invariants"
)

var heavy = flag.Bool("heavy", false, "also make the draws that take minutes")

// chanceLimit is the normal deviate beyond which a count is rejected, and power that of the least bias that is named: a
// fair sampler is rejected once in 1.7 million events, and a bias that is named is found 999 times of 1,000.
const chanceLimit, power = 5.0, 3.09

// chances are counts of outcomes, which are sets of up to 16 things, and what the probability of each set is.
type chances struct {
	counts, law []float64 // by the bits of the set
	trials      int
}

func newChances(law []float64) *chances {
	return &chances{counts: make([]float64, len(law)), law: law}
}

func (c *chances) add(set int) {
	c.counts[set]++
	c.trials++
}

// of returns the share of a measure that has all of some things.
func (c *chances) of(measure []float64, things int) (sum float64) {
	for set, x := range measure {
		if set&things == things {
			sum += x
		}
	}
	return sum
}

// deviate is how many standard deviations the count of some things together is from what it must be.
func (c *chances) deviate(things int) float64 {
	n, p := float64(c.trials), c.of(c.law, things)
	off := c.of(c.counts, things) - n*p
	if spread := math.Sqrt(n * p * (1 - p)); spread > 1e-6 || off == 0 {
		return off / max(spread, 1e-6)
	}
	return off * math.Inf(1) // what is certain, or impossible, is so each time
}

// finds is the least relative bias of the probability of some things together that is found.
func (c *chances) finds(things int) float64 {
	p := c.of(c.law, things)
	return (chanceLimit + power) * math.Sqrt((1-p)/(p*float64(c.trials)))
}

// each calls f for every thing and every pair of things.
func (c *chances) each(f func(things int)) {
	for things := 1; things < len(c.law); things++ {
		if bits.OnesCount(uint(things)) <= 2 {
			f(things)
		}
	}
}

// check compares the counts of every thing and of every pair, and says the least bias that all of them find. With the
// race detector there are fewer trials, which find less.
func (c *chances) check(t *testing.T, what string) {
	t.Helper()
	least, events := 0.0, 0
	c.each(func(things int) {
		if d := c.deviate(things); !(math.Abs(d) <= chanceLimit) {
			t.Errorf("%s: %b is there %v times of %d, must be %.4f of them: %.1f standard deviations", what, things,
				c.of(c.counts, things), c.trials, c.of(c.law, things), d)
		}
		if p := c.of(c.law, things); p > 0 && p < 1 {
			least, events = max(least, c.finds(things)), events+1
		}
	})
	t.Logf("%s: %d events, %d trials find a bias of %.2f %% in each", what, events, c.trials, 100*least)
	if !invariants.Enabled && least > 0.01 {
		t.Errorf("%s: a bias of 1 %% is not found in each", what)
	}
}

// plant returns the counts after one in `one` of the sets that have some things lost the last of them.
func (c *chances) plant(r *rand.Rand, things, one int) *chances {
	p := &chances{counts: make([]float64, len(c.counts)), law: c.law, trials: c.trials}
	lost := 1 << (bits.Len(uint(things)) - 1)
	for set, n := range c.counts {
		p.counts[set] += n
		if set&things != things {
			continue
		}
		mean := n / float64(one) // of a binomial number, which is close to a normal one
		gone := math.Round(mean + math.Sqrt(mean)*r.NormFloat64())
		p.counts[set] -= gone
		p.counts[set&^lost] += gone
	}
	return p
}

// checkPlanted plants a bias of 1 % in some things together, again and again, and fails unless it is found each time.
func (c *chances) checkPlanted(t *testing.T, what string, things int) {
	t.Helper()
	if invariants.Enabled {
		return // fewer trials
	}
	const seed = 3
	r := rand.New(rand.NewPCG(seed, 0))
	least := math.Inf(1)
	for range 20 {
		least = min(least, math.Abs(c.plant(r, things, 100).deviate(things)))
	}
	t.Logf("%s: a bias of 1 %% in %b, 20 times: found at %.1f standard deviations or more", what, things, least)
	if least <= chanceLimit {
		t.Errorf("%s: a bias of 1 %% in %b is not found: %.1f standard deviations (seed %d)", what, things, least, seed)
	}
}

// trialsOf is how many trials a test makes: fewer with the race detector.
func trialsOf(n int) int {
	if invariants.Enabled {
		return n / 20
	}
	return n
}

// roundsOf is how many rounds of a random test there are: fewer with the race detector, since a sampler is one
// goroutine's.
func roundsOf(n int) int {
	if invariants.Enabled {
		return n / 5
	}
	return n
}

// roundsOrHeavy is roundsOf n, or the second number with -heavy.
func roundsOrHeavy(n, heavily int) int {
	if *heavy {
		return heavily
	}
	return roundsOf(n)
}

// orders calls f with every order of 0 .. n-1, as the rank of each.
func orders(n int, f func(rank []uint64)) {
	rank := make([]uint64, n)
	var place func(i int, used uint)
	place = func(i int, used uint) {
		if i == n {
			f(rank)
			return
		}
		for r := range n {
			if used>>r&1 == 0 {
				rank[i] = uint64(r)
				place(i+1, used|1<<r)
			}
		}
	}
	place(0, 0)
}

func TestChancesOfAFairCoinAreFair(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	c := newChances([]float64{0.25, 0.25, 0.25, 0.25})
	for range trialsOf(2_000_000) {
		c.add(r.IntN(4))
	}
	c.check(t, "two coins")
	c.checkPlanted(t, "two coins", 3)
	if s := fmt.Sprintf("%.3f", c.of(c.law, 1)); s != "0.500" {
		t.Errorf("one coin is up with probability %s", s)
	}
}
