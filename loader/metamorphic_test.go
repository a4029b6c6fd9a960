package loader_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/invariants"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

var (
	metamorphicSeed  = flag.Uint64("metamorphic.seed", 0, "seed of the random cases; 0: as KHOP_SEED says")
	metamorphicLoads = flag.Int("metamorphic.loads", 160, "cases of TestBatchesAreTheSameHoweverTheyAreLoaded")
	metamorphicLoad  = flag.Int("metamorphic.load", -1, "the one case of these to run")
)

// newCases returns what draws the cases of a test. Where the test fails, the command that repeats it is printed, with
// what more returns besides.
func newCases(t *testing.T, more func() string) *rand.Rand {
	t.Helper()
	seed := *metamorphicSeed
	if seed == 0 {
		seed = expect.Seed(t)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat it with: go test ./loader -run '^%s$' -metamorphic.seed=%d%s", t.Name(), seed, more())
		}
	})
	return rand.New(rand.NewPCG(seed, 7))
}

// meeting chooses cases so that every two values of every two options meet soon.
type meeting struct {
	values      []int // [option] how many it has
	met         map[[4]int]bool
	left, total int
}

func newMeeting(values []int) *meeting {
	p := &meeting{values: values, met: map[[4]int]bool{}}
	for i := range values {
		for j := range i {
			p.total += values[i] * values[j]
		}
	}
	p.left = p.total
	return p
}

// next returns the one of several random cases in which most pairs meet for the first time.
func (p *meeting) next(r *rand.Rand) []int {
	var best []int
	gain := -1
	for range 20 {
		choice := make([]int, len(p.values))
		for f := range choice {
			choice[f] = r.IntN(p.values[f])
		}
		n := 0
		p.each(choice, func(key [4]int) {
			if !p.met[key] {
				n++
			}
		})
		if n > gain {
			best, gain = choice, n
		}
	}
	p.each(best, func(key [4]int) { p.met[key] = true })
	p.left = p.total - len(p.met)
	return best
}

func (p *meeting) each(choice []int, f func([4]int)) {
	for i := range choice {
		for j := range i {
			f([4]int{j, choice[j], i, choice[i]})
		}
	}
}

// loadCase is what is loaded, and two ways to do it.
type loadCase struct {
	graph *graph.Graph
	near  sampling.Neighbor // its options; those that another sampler has are its, too
	make  func(*loadCase) sampling.Sampler
	opt   loader.Options // of both ways
	how   loader.Options // of the second
	epoch uint64

	timedLinks bool // seeds that are edges are there as of their times
}

// option is one that cases differ in.
type option struct {
	name   string
	values int
	set    func(c *loadCase, i int)
}

func choice[T any](name string, set func(*loadCase, T), values ...T) option {
	return option{name, len(values), func(c *loadCase, i int) { set(c, values[i]) }}
}

// drawnGraph is columnsGraph with its columns and its topology in files.
func drawnGraph(t testing.TB, types, nodes, edges int) *graph.Graph {
	t.Helper()
	g, _ := inFiles(t, graphs.Columns(t, types, nodes, edges), true)
	return g
}

// samplersOfCases make a sampler of a case, with its fan-outs where it has such.
func samplersOfCases() (all []func(*loadCase) sampling.Sampler) {
	of := func(f func(c *loadCase) sampling.Sampler) { all = append(all, f) }
	for range 8 { // as often as half of the others together
		of(func(c *loadCase) sampling.Sampler { return c.near })
	}
	for _, l := range []sampling.Labor{{}, {Poisson: true, LayerDependent: true}, {BatchDependency: 3}} {
		of(func(c *loadCase) sampling.Sampler {
			l.Fanouts, l.Frontier = c.near.Fanouts, c.near.Frontier
			return l
		})
	}
	of(func(c *loadCase) sampling.Sampler {
		return sampling.FastGCN{Nodes: c.near.Fanouts, Weight: c.near.Weight}
	})
	of(func(c *loadCase) sampling.Sampler {
		return sampling.Ladies{Nodes: c.near.Fanouts, Weight: c.near.Weight}
	})
	of(func(c *loadCase) sampling.Sampler { return sampling.HGT{Nodes: c.near.Fanouts} })
	of(func(c *loadCase) sampling.Sampler {
		return sampling.Shadow{Fanouts: c.near.Fanouts, Replace: c.near.Replace}
	})
	for _, s := range []sampling.Sampler{sampling.Walk{Length: 4, PerSeed: 2, Edges: true},
		sampling.Walk{Length: 3, Restart: 0.2, Stop: 0.1}, sampling.Node2Vec{Length: 5, P: 0.5, Q: 2},
		sampling.Induced{}, sampling.Saint{Kind: sampling.SaintNodes, Budget: 40},
		sampling.Saint{Kind: sampling.SaintEdges, Budget: 20},
		sampling.Saint{Kind: sampling.SaintWalks, Budget: 9, Steps: 5, Coverage: 3}, sampling.Full{Work: 300},
		sampling.Cluster{PerBatch: 2}, sampling.PinSage{Neighbors: 3, Walks: 4, Length: 2, Stop: 0.2, Hops: 2,
			As: "r0"},
		sampling.PPR{Neighbors: 5, Epsilon: 1e-3, As: "r0"}} {
		of(func(*loadCase) sampling.Sampler { return s })
	}
	for _, k := range []sampling.Sequence{{Length: 3}, {Length: 12, SeedFirst: true}} {
		of(func(c *loadCase) sampling.Sampler {
			n := c.near
			n.Frontier, n.Induced = sampling.NewNodes, false
			k.Of = n
			return k
		})
	}
	of(func(*loadCase) sampling.Sampler {
		return sampling.Sequence{Of: sampling.PPR{Epsilon: 1e-3, As: "r0"}, Length: 4, SeedFirst: true}
	})
	of(func(*loadCase) sampling.Sampler {
		return sampling.Sequence{Of: sampling.PinSage{Walks: 4, Length: 2, As: "r0"}, Length: 4}
	})
	return all
}

// loadOptions lists what cases differ in. The graph comes first.
func loadOptions(t testing.TB) []option {
	near := func(f func(*sampling.Neighbor)) func(c *loadCase) { return func(c *loadCase) { f(&c.near) } }
	flip := func(name string, f func(*sampling.Neighbor)) option {
		return choice(name, func(c *loadCase, on bool) {
			if on {
				near(f)(c)
			}
		}, false, false, true)
	}
	asOf := int64(30)
	return append([]option{
		choice("graph", func(c *loadCase, g *graph.Graph) { c.graph = g }, drawnGraph(t, 1, 80, 500),
			drawnGraph(t, 3, 30, 150), drawnGraph(t, 1, 300, 900), drawnGraph(t, 2, 9, 200)),
		choice("fan-outs", func(c *loadCase, f []int) { c.near.Fanouts = f }, []int{3}, []int{4, 2}, []int{-1},
			[]int{3, 0, 2}, []int{2, -1}, []int{40}),
		flip("replace", func(n *sampling.Neighbor) { n.Replace = true }),
		flip("disjoint", func(n *sampling.Neighbor) { n.Disjoint = true }),
		choice("frontier", func(c *loadCase, f sampling.Frontier) { c.near.Frontier = f }, sampling.AllNodes,
			sampling.AllNodes, sampling.NewNodes),
		flip("weight", func(n *sampling.Neighbor) { n.Weight = "weight" }),
		flip("mask", func(n *sampling.Neighbor) { n.Mask = "mask" }),
		flip("share", func(n *sampling.Neighbor) { n.Share = 0.3 }),
		flip("together", func(n *sampling.Neighbor) { n.Together = true }),
		flip("induced", func(n *sampling.Neighbor) { n.Induced = true }),
		choice("direction", func(c *loadCase, d sampling.Direction) { c.near.Direction = d }, sampling.In, sampling.In,
			sampling.In, sampling.Out, sampling.Both),
		choice("time", func(c *loadCase, x sampling.Temporal) {
			if c.near.Time = x; x.Edge != "" || x.Node != "" {
				c.near.Time.AsOf = &asOf
			}
		}, sampling.Temporal{}, sampling.Temporal{}, sampling.Temporal{Edge: "time"},
			sampling.Temporal{Edge: "time", Recent: true}, sampling.Temporal{Node: "born", HalfLife: 3},
			sampling.Temporal{Edge: "time", Chain: true, Window: []int64{20, 7},
				Rules: []sampling.TimeRule{sampling.Before}}),
		choice("sampler", func(c *loadCase, f func(*loadCase) sampling.Sampler) { c.make = f }, samplersOfCases()...),
	}, waysToLoad()...)
}

// seedsWithTimes are nodes of which some are there as of several times, and several as of one.
func seedsWithTimes() loader.SeedSource { return loader.GivenSeeds(timedSeeds()) }

// seedsWithWindows are the same, each with a first time as well.
func seedsWithWindows() loader.SeedSource {
	s := timedSeeds()
	s.Sets[0].From = []int64{20, 4, -9, -7, math.MinInt64, 9, 0, 5, 10, math.MaxInt64, 25}
	return loader.GivenSeeds(s)
}

// pairsWithNegatives are edges with times and negatives of their own, some fewer than others.
func pairsWithNegatives() loader.SeedSource {
	set := graph.EdgeSet{Sources: unified.FromSlice([]int32{3, 0, 5, 5}),
		Targets: unified.FromSlice([]int64{1, 1, 0, 7}), Times: []int64{9, 30, 9, 44}}
	set.Negatives, _ = unified.New(unified.Int32, unified.FromSlice([]int32{4, 4, 2, -1, -1, -1, 8, 1}).Bytes(), 4, 2)
	return loader.GivenSeeds(graph.Seeds{Edges: []graph.EdgeSet{set}})
}

func timedSeeds() graph.Seeds {
	s := graph.NodeIDs([]int64{3, 3, 1, 0, 5, 3, 6, 2, 2, 7, 8})
	s.Sets[0].Times = []int64{30, 5, 5, -7, 30, 6, 44, 5, 31, 30, 30}
	return s
}

// waysToLoad are the options of the loader.
func waysToLoad() []option {
	timed := seedsWithTimes()
	return []option{
		choice("seeds", func(c *loadCase, s loader.SeedSource) { c.opt.Seeds = s }, loader.AllNodes(),
			loader.AllNodes("n0"), loader.GivenSeeds(graph.NodeIDs([]int64{3, 3, 1, 0, 5, 3, 6})), timed, timed,
			loader.AllEdges(), loader.AllEdges("r0"), pairsWithNegatives()),
		choice("negatives", func(c *loadCase, n sampling.Negatives) {
			if strings.Contains(c.opt.Seeds.String(), "edges") {
				c.opt.Links.Negatives = n
			}
		}, sampling.Negatives{}, sampling.Negatives{Ratio: 1.5, Strict: true, Replace: sampling.EitherEnd},
			sampling.Negatives{Ratio: 2, Law: sampling.ByDegree, Replace: sampling.BothEnds},
			sampling.Negatives{Ratio: 1, Law: sampling.InBatch, Triplets: true},
			sampling.Negatives{Ratio: 1, Law: sampling.ByDegree, Alpha: 0.4, Type: "born"},
			sampling.Negatives{Ratio: 2, Law: sampling.Historical, History: "time", Fill: true,
				Replace: sampling.EitherEnd}),
		choice("exclude", func(c *loadCase, x loader.Exclusion) { c.opt.Links.ExcludeSeeds = x }, 0, 1, 2),
		choice("batch size", func(c *loadCase, n int) { c.opt.BatchSize = n }, 1, 7, 60),
		choice("shuffle", func(c *loadCase, b bool) { c.opt.Shuffle = b }, false, true),
		choice("same time", func(c *loadCase, span int64) { c.opt.SameTime = span }, 0, 1, 10),
		choice("time order", func(c *loadCase, b bool) { c.opt.TimeOrder = b }, false, true),
		choice("link time", func(c *loadCase, b bool) { c.timedLinks = b }, false, true),
		choice("drop last", func(c *loadCase, b bool) { c.opt.DropLast = b }, false, true),
		choice("seed", func(c *loadCase, s uint64) { c.opt.Seed = s }, 0, 1<<63|12345),
		choice("epoch", func(c *loadCase, e uint64) { c.epoch = e }, 0, 1<<31),
		choice("edge positions", func(c *loadCase, b bool) { c.opt.Columns.EdgePos = b }, false, true),
		choice("edge columns", func(c *loadCase, names []string) { c.opt.Columns.Edges = names }, nil,
			[]string{"mask"}),
		choice("world", func(c *loadCase, n int) { c.how.WorldSize = n }, 1, 2, 3),
		choice("workers", func(c *loadCase, n int) { c.how.Workers = n }, 1, 2, 5),
		choice("prefetch", func(c *loadCase, n int) { c.how.Tuning.Prefetch = n }, 1, 4),
		choice("residence", func(c *loadCase, r loader.Residence) { c.how.Residence = r }, loader.Mapped,
			loader.Resident, loader.Disk, loader.Disk),
		choice("cache", func(c *loadCase, n int64) { c.how.Disk.CacheBytes = n }, 1, 4096, 1<<30),
		choice("look-ahead", func(c *loadCase, n int) { c.how.Disk.Lookahead = n }, 1, 3, 64),
		choice("memory", func(c *loadCase, n int64) { c.how.MaxMemory = n }, 0, 256<<20),
	}
}

// narrowOption stores the features of the graph narrow, and widens them.
func narrowOption(t testing.TB) option {
	narrow := narrower(t, func(t testing.TB, g *graph.Graph) *graph.Graph {
		g, _ = inFiles(t, g, true)
		return g
	})
	return choice("narrow rows", func(c *loadCase, w narrowWay) {
		if w.stored != "" {
			c.graph = narrow(c.graph, w.stored)
			c.opt.Columns.Widen = widenTo(w.widen)
		}
	}, narrowWays...)
}

// What is in a batch does not depend on how it was loaded, whatever the sampler and its options. A case that makes no
// sense is refused either way.
func TestBatchesAreTheSameHoweverTheyAreLoaded(t *testing.T) {
	only := ""
	r := newCases(t, func() string { return fmt.Sprintf(" -metamorphic.loads=%d%s", *metamorphicLoads, only) })
	options := append(loadOptions(t), narrowOption(t),
		choice("pack", func(c *loadCase, n int64) { c.how.Disk.PackBytes = n }, 0, 0, 1<<20),
		choice("soon", func(c *loadCase, on bool) { c.how.Hooks.Soon = on }, false, false, true))
	var values []int
	for _, o := range options {
		values = append(values, o.values)
	}
	pairs, cases, refused, batches := newMeeting(values), *metamorphicLoads, map[string]int{}, 0
	if invariants.Enabled {
		cases = min(cases, expect.DayOrNight(10, 30)+cases/10)
	}
	for i := range cases {
		choice, breaks := pairs.next(r), rand.New(rand.NewPCG(r.Uint64(), 1))
		if *metamorphicLoad >= 0 && i != *metamorphicLoad {
			continue
		}
		n, why := sameEitherWay(t, options, choice, breaks)
		if batches += n; why != "" {
			refused[why]++
		}
		if t.Failed() {
			only = fmt.Sprintf(" -metamorphic.load=%d", i)
			return
		}
	}
	t.Logf("%d cases, %d batches, %d of %d pairs of options met", cases, batches, pairs.total-pairs.left, pairs.total)
	for why, n := range refused {
		t.Logf("%d refused: %s", n, why)
	}
	expect.That(t, *metamorphicLoads < 2000 || pairs.left <= 0, "%d pairs of options never met", pairs.left)
	expect.That(t, *metamorphicLoad >= 0 || batches >= cases, "only %d batches in %d cases", batches, cases)
}

// load sets how the second way loads.
func (c *loadCase) load(o *loader.Options) {
	o.Workers, o.Tuning.Prefetch, o.WorldSize = c.how.Workers, c.how.Tuning.Prefetch, c.how.WorldSize
	o.Residence, o.MaxMemory, o.Remainder = c.how.Residence, c.how.MaxMemory, loader.Short
	o.Disk = c.how.Disk
}

// timed reports whether the seeds have times of their own.
func (c *loadCase) timed() bool {
	seeds := c.opt.Seeds.String()
	return seeds == seedsWithTimes().String() || seeds == pairsWithNegatives().String() ||
		c.timedLinks && strings.Contains(seeds, "edges")
}

// settle makes the sampler, and takes back what does not go with it or with the seeds.
func (c *loadCase) settle(t *testing.T) sampling.Sampler {
	t.Helper()
	if c.timed() {
		c.near.Time.AsOf = nil // each seed is as of its own time
	}
	c.opt.Device.Name, c.opt.Sampler = "cpu", c.make(c)
	s, edges := suit(t, &c.opt, c.graph), strings.Contains(c.opt.Seeds.String(), "edges")
	d, _ := s.Describe(c.graph.Schema(), 1)
	if !d.Excludes || !edges {
		c.opt.Links.ExcludeSeeds = 0
	}
	if d.From && c.timed() && !edges {
		c.opt.Seeds = seedsWithWindows()
	}
	given := c.opt.Seeds.String() == pairsWithNegatives().String()
	if !edges || given || !c.timed() && c.opt.Links.Negatives.Timed() {
		c.opt.Links.Negatives = sampling.Negatives{}
	}
	if edges && c.timedLinks && !given {
		c.opt.Links.Time = "time"
	}
	if !c.timed() {
		c.opt.SameTime, c.opt.TimeOrder = 0, false
	}
	c.opt.TimeOrder = c.opt.TimeOrder && !c.opt.Shuffle
	c.opt.Times = loader.IgnoreTimes // most samplers drawn do not read them
	return s
}

// sameEitherWay loads a case in both ways. It returns how many batches there were, or why the case is refused.
func sameEitherWay(t *testing.T, options []option, choice []int, r *rand.Rand) (batches int, refused string) {
	t.Helper()
	c, text := loadCase{}, []string{}
	for o, i := range choice {
		options[o].set(&c, i)
		text = append(text, fmt.Sprintf("%s %d", options[o].name, i))
	}
	s := c.settle(t)
	one, other := c.opt, c.opt
	one.Workers, one.Tuning.Prefetch = 1, 1
	c.load(&other)
	l, err := loader.New(c.graph, one)
	if err != nil {
		more, err2 := loader.New(c.graph, other)
		if err2 == nil {
			t.Errorf("%s, %s: refused with one worker (%v), not with several: %v", s.Fingerprint(),
				strings.Join(text, ", "), err, more.Close())
		}
		return 0, err.Error()
	}
	var whole []string
	of := expect.Must(s.Describe(c.graph.Schema(), mostSeedsOf(&c.opt)))(t)
	for b, err := range l.Epoch(background, c.epoch) {
		if err != nil {
			t.Errorf("%s, %s: %v", s.Fingerprint(), strings.Join(text, ", "), err)
			break
		}
		whole = append(whole, digestOf(b))
		checkBound(t, b, s, of.Bound)
	}
	expect.OK(t, l.Close())
	first := uint64(r.IntN(len(whole) + 1))
	got := make([]string, uint64(len(whole))-first)
	for rank := range other.WorldSize {
		other.Rank = rank
		l, err := loader.New(c.graph, other)
		if err != nil {
			t.Errorf("%s, %s: refused: %v", s.Fingerprint(), strings.Join(text, ", "), err)
			return len(whole), ""
		}
		digestsWithBreaks(t, r, l, c.epoch, first, got)
		expect.OK(t, l.Close())
	}
	if d := expect.Diff(whole[first:], got); d != "" {
		t.Errorf("%s, %s: %s", s.Fingerprint(), strings.Join(text, ", "), d)
	}
	return len(whole), ""
}

// mostSeedsOf is how many seeds a batch of these options can have.
func mostSeedsOf(o *loader.Options) int {
	if !strings.Contains(o.Seeds.String(), "edges") {
		return o.BatchSize
	}
	if o.Seeds.String() == pairsWithNegatives().String() {
		return 2 * 3 * o.BatchSize
	}
	return 2 * (o.BatchSize + int(o.Links.Negatives.Of(int64(o.BatchSize))))
}
