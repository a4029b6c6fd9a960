package sampling

import (
	"flag"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/invariants"
)

var heavy = flag.Bool("heavy", false, "also make the draws that take minutes")

// bias is the least relative bias that must be found.
func bias() float64 {
	if *heavy {
		return 0.01
	}
	return 0.02
}

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
	off, spread := c.of(c.counts, things)-n*p, math.Sqrt(max(0, n*p*(1-p)))
	if spread < 1e-3 && math.Abs(off) < 0.5 {
		return 0 // what is certain, or impossible, is so each time
	}
	return off / max(spread, 1e-6)
}

// finds is the least relative bias of the probability of some things together that is found.
func (c *chances) finds(things int) float64 {
	p := c.of(c.law, things)
	return (chanceLimit + power) * math.Sqrt((1-p)/(p*float64(c.trials)))
}

// each calls f for every thing and every pair of things, and says whether that may be so or not.
func (c *chances) each(f func(things int, open bool)) {
	for things := 1; things < len(c.law); things++ {
		if bits.OnesCount(uint(things)) <= 2 {
			p := c.of(c.law, things)
			f(things, p > 1e-9 && p < 1-1e-9)
		}
	}
}

// finding is how many trials find a bias in everything that a law says, with some to spare; fewer with the race
// detector.
func finding(law []float64) int {
	c, most := newChances(law), 0.0
	c.each(func(things int, open bool) {
		if open {
			p := c.of(law, things)
			most = max(most, (1-p)/p)
		}
	})
	return trialsOf(int(math.Ceil(1.2 * (chanceLimit + power) * (chanceLimit + power) * most / (bias() * bias()))))
}

// check compares the counts of every thing and of every pair. Unless there are few trials, as with the race detector,
// it fails where a bias would not be found, too, and where one is not found that it plants: 20 times in each.
func (c *chances) check(t *testing.T, what string) {
	t.Helper()
	c.compare(t, what, invariants.Enabled)
}

func (c *chances) compare(t *testing.T, what string, few bool) {
	t.Helper()
	const seed, plants = 3, 20
	r := rand.New(rand.NewPCG(seed, 0))
	far, least, events, found := 0.0, 0.0, 0, 0
	c.each(func(things int, open bool) {
		d := c.deviate(things)
		if !(math.Abs(d) <= chanceLimit) {
			t.Errorf("%s: %b is there %v times of %d, must be %.4f of them: %.1f standard deviations", what, things,
				c.of(c.counts, things), c.trials, c.of(c.law, things), d)
		}
		if !open {
			return
		}
		far, least, events = max(far, math.Abs(d)), max(least, c.finds(things)), events+1
		for range plants * int(bit(!few)) {
			found += int(bit(math.Abs(c.plant(r, things, int(1/bias())).deviate(things)) > chanceLimit))
		}
	})
	t.Logf("%s: %d events, the farthest %.1f standard deviations off; %d trials find a bias of %.2f %% in each", what,
		events, far, c.trials, 100*least)
	if few {
		return
	}
	t.Logf("%s: a bias of %v, planted %d times in each, is found %d times of %d", what, bias(), plants, found,
		plants*events)
	expect.That(t, least <= bias() && found >= plants*events && events != 0, "%s: a bias of %v is not found in each",
		what, bias())
}

// plant returns the counts after one in `one` of the sets that have some things lost the last of them.
func (c *chances) plant(r *rand.Rand, things, one int) *chances {
	p := &chances{counts: make([]float64, len(c.counts)), law: c.law, trials: c.trials}
	lost := 1 << (bits.Len(uint(things)) - 1)
	for set, n := range c.counts {
		p.counts[set] += n
		if n == 0 || set&things != things {
			continue
		}
		mean := n / float64(one) // of a binomial number, which is close to a normal one
		gone := math.Round(mean + math.Sqrt(mean)*r.NormFloat64())
		p.counts[set] -= gone
		p.counts[set&^lost] += gone
	}
	return p
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
	for range trialsOf(800_000) {
		c.add(r.IntN(4))
	}
	c.check(t, "two coins")
	s := fmt.Sprintf("%.3f", c.of(c.law, 1))
	expect.That(t, s == "0.500", "one coin is up with probability %s", s)
}
