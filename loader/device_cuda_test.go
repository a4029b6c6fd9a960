//go:build cuda

package loader_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/invariants"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

var (
	metamorphicCases = flag.Int("metamorphic.cases", 360, "cases of TestDeviceMakesTheSameBatchesUnderAnyOptions")
	metamorphicOnly  = flag.Int("metamorphic.only", -1, "the one case to run")
)

// factor is an option with the values that it is tried with. apply sets value i.
type factor struct {
	name   string
	values int
	apply  func(c *deviceCase, i int)
}

// deviceCase is one way to load, on a device and on the CPU.
type deviceCase struct {
	graph  *graph.Graph
	opt    loader.Options // of both
	device loader.Options // what only the device's loader has
	order  string         // of the simulator's lanes

	exclude loader.Exclusion // of seeds that are edges, by samplers that can
	epoch   uint64
}

func (c *deviceCase) sampler() sampling.Neighbor { return c.opt.Sampler.(sampling.Neighbor) }

func (c *deviceCase) setSampler(f func(*sampling.Neighbor)) {
	n := c.sampler()
	f(&n)
	c.opt.Sampler = n
}

func oneOf[T any](name string, set func(*deviceCase, T), values ...T) factor {
	return factor{name, len(values), func(c *deviceCase, i int) { set(c, values[i]) }}
}

// deviceFactors lists what is varied. The graph comes before what depends on it.
func deviceFactors(t testing.TB) []factor {
	all := []*graph.Graph{graphs.Plain(t, 60, 5), graphs.Plain(t, 7, 40), graphs.Typed(t, 30, 20),
		graphs.Wide(t, 50, 6), graphs.Hub(t, 90), manyTypes(t, 24)}
	for i := range all {
		all[i] = withWorth(t, all[i])
	}
	narrow := narrower(t, func(_ testing.TB, g *graph.Graph) *graph.Graph { return g })
	plain := func(f ...int) func(*sampling.Neighbor) { return func(n *sampling.Neighbor) { n.Fanouts = f } }
	return append(machineFactors(),
		oneOf("graph", func(c *deviceCase, g *graph.Graph) { c.graph = g }, all...),
		oneOf("narrow rows", func(c *deviceCase, w narrowWay) {
			if w.stored != "" {
				c.graph, c.opt.Columns.Widen = narrow(c.graph, w.stored), widenTo(w.widen)
			}
		}, narrowWays...),
		oneOf("fanouts", func(c *deviceCase, f func(*sampling.Neighbor)) { c.setSampler(f) },
			plain(3), plain(4, 3), plain(3, 2, 2), plain(-1), plain(2, -1), plain(40), plain(0, 3), plain(33, 1),
			plain(1, 0, 1)),
		oneOf("replace", func(c *deviceCase, b bool) { c.setSampler(func(n *sampling.Neighbor) { n.Replace = b }) },
			false, true),
		choiceFactor(),
		oneOf("disjoint", func(c *deviceCase, apart bool) {
			c.setSampler(func(n *sampling.Neighbor) { n.Disjoint = apart })
		}, false, true),
		oneOf("frontier",
			func(c *deviceCase, f sampling.Frontier) { c.setSampler(func(n *sampling.Neighbor) { n.Frontier = f }) },
			sampling.AllNodes, sampling.NewNodes),
		seedFactor(),
		negativeFactor(),
		oneOf("exclusion", func(c *deviceCase, x loader.Exclusion) { c.exclude = x }, loader.ExcludeNone,
			loader.ExcludeSeeds, loader.ExcludeReverse),
		oneOf("batch size", func(c *deviceCase, n int) { c.opt.BatchSize = n }, 1, 5, 64),
		oneOf("shuffle", func(c *deviceCase, b bool) { c.opt.Shuffle = b }, false, true),
		oneOf("drop last", func(c *deviceCase, b bool) { c.opt.DropLast = b }, false, true),
		oneOf("seed", func(c *deviceCase, s uint64) { c.opt.Seed = s }, 0, 1<<63|12345),
		oneOf("instance", func(c *deviceCase, i uint32) { c.opt.Instance = i }, 0, 3),
		oneOf("epoch", func(c *deviceCase, e uint64) { c.epoch = e }, 0, 1<<31),
		oneOf("world", func(c *deviceCase, w [2]int) { c.opt.Rank, c.opt.WorldSize = w[0], w[1] }, [2]int{0, 1},
			[2]int{1, 3}),
		oneOf("remainder", func(c *deviceCase, r loader.Remainder) { c.opt.Remainder = r }, loader.Pad, loader.Drop,
			loader.Short),
		oneOf("columns", func(c *deviceCase, names []string) { c.opt.Columns.Nodes = names }, nil, []string{}),
		oneOf("seed columns", func(c *deviceCase, names []string) { c.opt.Columns.Seeds = names }, nil, []string{},
			[]string{"feature"}),
		oneOf("edge positions", func(c *deviceCase, b bool) { c.opt.Columns.EdgePos = b }, false, true),
		oneOf("edge columns", func(c *deviceCase, b bool) {
			if columns := c.graph.Schema().EdgeColumns; b && len(columns) > 0 {
				c.opt.Columns.Edges = []string{columns[0].Name}
			}
		}, false, true),
		samplerFactor(),
	)
}

// samplerFactor puts another sampler in place of the Neighbor so far, or turns options on that few others go with.
func samplerFactor() factor {
	var as []func(sampling.Neighbor) sampling.Sampler
	for _, l := range []sampling.Labor{{}, {Poisson: true, BatchDependency: 2},
		{LayerDependent: true, BatchDependency: 5}} {
		as = append(as, laborAs(l))
	}
	for _, set := range []func(*sampling.Neighbor){
		func(n *sampling.Neighbor) { n.Direction = sampling.Both },
		func(n *sampling.Neighbor) { n.Direction = sampling.Out },
		func(n *sampling.Neighbor) { n.Induced, n.Time = true, sampling.Temporal{} },
		func(n *sampling.Neighbor) {
			*n = sampling.Neighbor{Fanouts: []int{5, 3}, Together: true, Replace: n.Replace, Disjoint: n.Disjoint,
				Frontier: n.Frontier}
		},
	} {
		as = append(as, func(n sampling.Neighbor) sampling.Sampler {
			set(&n)
			return n
		})
	}
	for _, s := range []sampling.Sampler{sampling.Walk{Length: 5, PerSeed: 2, Restart: 0.1, Stop: 0.1, Edges: true},
		sampling.Node2Vec{Length: 4, PerSeed: 2, P: 0.5, Q: 3}, sampling.Induced{}, sampling.Cluster{PerBatch: 2},
		sampling.PinSage{Neighbors: 4, Length: 3, Hops: 2, Walks: 6}, sampling.FastGCN{Nodes: []int{20, 9}},
		sampling.Saint{Budget: 30, Coverage: 3}, sampling.Saint{Kind: sampling.SaintEdges, Budget: 20},
		sampling.Saint{Kind: sampling.SaintWalks, Budget: 9, Length: 3}} {
		as = append(as, func(sampling.Neighbor) sampling.Sampler { return s })
	}
	as = append(as, func(n sampling.Neighbor) sampling.Sampler {
		return sampling.Shadow{Fanouts: n.Fanouts, Replace: n.Replace}
	})
	return factor{"sampler", 2 + len(as), func(c *deviceCase, i int) {
		if i < 2 {
			return
		}
		c.opt.Sampler = as[i-2](c.sampler())
		if said, err := c.opt.Sampler.Describe(c.graph.Schema(), 1); err == nil && said.Items != nil {
			c.opt.Seeds, c.opt.Links = loader.SeedSource{}, loader.LinkOptions{}
		}
		if _, none := c.opt.Sampler.(sampling.PinSage); none {
			c.opt.Columns.EdgePos, c.opt.Columns.Edges = false, nil
			if len(c.graph.Schema().Nodes) > 1 { // it refuses seeds of other types
				c.opt.Seeds = loader.GivenSeeds(graph.NodeIDs([]int64{3, 1, 0, 5, 3}))
				c.opt.Links = loader.LinkOptions{}
			}
		}
	}}
}

// machineFactors lists what only the device's loader has.
func machineFactors() []factor {
	return []factor{
		oneOf("workers", func(c *deviceCase, n int) { c.device.Workers = n }, 1, 2, 3),
		oneOf("prefetch", func(c *deviceCase, n int) { c.device.Tuning.Prefetch = n }, 1, 3),
		oneOf("residence", func(c *deviceCase, r loader.Residence) { c.device.Residence = r }, loader.Mapped,
			loader.Resident),
		oneOf("device memory", func(c *deviceCase, n int64) { c.device.Device.Memory = n }, 0, 64<<20),
		oneOf("device cache", func(c *deviceCase, n int64) { c.device.Device.Cache = n }, 0, loader.NoDeviceCache,
			1_000,
			2_500, 10_000),
		oneOf("carry", func(c *deviceCase, w loader.Carry) { c.device.Tuning.Carry = w }, loader.CarryKernels,
			loader.CarryCopies, loader.CarryMeasured),
		oneOf("hot rows", func(c *deviceCase, r loader.Ranking) { c.device.Device.HotRows = r },
			loader.RankInDegree, loader.RankPageRank, loader.RankPresample, loader.RankUses, loader.RankNone),
		oneOf("blocks", func(c *deviceCase, n int) { c.device.Tuning.DeviceBlocks = n }, 1, 3, 16),
		oneOf("lanes", func(c *deviceCase, o string) { c.order = o }, "forward", "reverse", "random"),
	}
}

// choiceFactor varies which edges may be followed and what they count.
func choiceFactor() factor {
	now, edge, both := int64(15), sampling.Temporal{Edge: "t"}, sampling.Temporal{Edge: "t", Node: "born"}
	timed := func(of sampling.Temporal, set func(*sampling.Neighbor)) func(*sampling.Neighbor) {
		return func(n *sampling.Neighbor) {
			n.Time = of
			n.Time.AsOf = &now
			set(n)
		}
	}
	return oneOf("choice", func(c *deviceCase, f func(*sampling.Neighbor)) { c.setSampler(f) },
		func(*sampling.Neighbor) {}, func(*sampling.Neighbor) {},
		func(n *sampling.Neighbor) { n.Weight = "w" },
		func(n *sampling.Neighbor) { n.Mask, n.Share = "m", 0.5 },
		timed(edge, func(n *sampling.Neighbor) { n.Time.Window = []int64{9} }),
		timed(edge, func(n *sampling.Neighbor) { n.Time.Recent, n.Time.Chain, n.Replace = true, true, false }),
		timed(both, func(n *sampling.Neighbor) {
			n.Weight, n.Time.Chain, n.Time.Rules = "w", true, []sampling.TimeRule{sampling.NotAfter, sampling.Before}
		}),
		timed(both, func(n *sampling.Neighbor) { n.Time.HalfLife, n.Mask, n.Replace = 3, "m", false }))
}

// withWorth gives a graph's edges weights, a mask and times, and the nodes of the first type a column of times.
func withWorth(t testing.TB, g *graph.Graph) *graph.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(6, uint64(g.NumEdges())))
	a, n := graphs.ArraysOf(g), g.NumEdges()
	s := &a.Schema
	w, m, times := make([]float32, n), make([]uint8, n), make([]int64, n)
	for i := range n {
		w[i], m[i], times[i] = float32(r.IntN(3))*r.Float32(), uint8(r.IntN(3)), r.Int64N(20)
	}
	born := make([]int32, s.Nodes[0].Count)
	for i := range born {
		born[i] = r.Int32N(20)
	}
	for name, c := range map[string]unified.Tensor{"w": unified.FromSlice(w), "m": unified.FromSlice(m),
		"t": unified.FromSlice(times)} {
		a.EdgeColumns[name] = c
		s.EdgeColumns = append(s.EdgeColumns, graph.Column{Name: name, DType: c.DType()})
	}
	slices.SortFunc(s.EdgeColumns, func(a, b graph.Column) int { return strings.Compare(a.Name, b.Name) })
	a.NodeColumns[0]["born"] = unified.FromSlice(born)
	s.Nodes[0].Columns = append(s.Nodes[0].Columns, graph.Column{Name: "born", DType: unified.Int32})
	return graphs.Of(t, a)
}

// seedFactor varies the seeds: nodes or edges.
func seedFactor() factor {
	return oneOf("seeds", func(c *deviceCase, s loader.SeedSource) { c.opt.Seeds = s },
		loader.SeedSource{}, loader.AllNodes(), loader.GivenSeeds(graph.NodeIDs([]int64{3, 3, 1, 0, 5, 3, 6})),
		loader.GivenSeeds(graph.NodeIDs([]int32{4})), loader.AllEdges(),
		loader.EdgePairs([]int64{1, 3, 0, 2, 3, 1}, []int64{2, 3, 1, 0, 3, 2}))
}

// negativeFactor varies the negatives of seeds that are edges; others have none.
func negativeFactor() factor {
	return oneOf("negatives", func(c *deviceCase, n sampling.Negatives) {
		if strings.HasSuffix(c.opt.Seeds.String(), "edges") {
			c.opt.Links.Negatives = n
		}
	}, sampling.Negatives{}, sampling.Negatives{Ratio: 1.5, Strict: true, Replace: sampling.EitherEnd},
		sampling.Negatives{Ratio: 2, Law: sampling.ByDegree, Replace: sampling.BothEnds},
		sampling.Negatives{Ratio: 1, Law: sampling.InBatch, Triplets: true})
}

// laborAs returns what makes of a Neighbor the Labor with the same fan-outs.
func laborAs(l sampling.Labor) func(sampling.Neighbor) sampling.Sampler {
	return func(n sampling.Neighbor) sampling.Sampler {
		l.Fanouts, l.PerType, l.Frontier = n.Fanouts, n.PerType, n.Frontier
		return l
	}
}

// TestDeviceMakesTheSameBatchesUnderAnyOptions compares a device's batches with the CPU's over cases in which every two
// values of every two factors meet, and then over random ones.
func TestDeviceMakesTheSameBatchesUnderAnyOptions(t *testing.T) {
	cudatest.Open(t)
	factors := deviceFactors(t)
	options := " -tags cuda"
	r := newCases(t, func() string { return options })
	cases, onPTX := *metamorphicCases, os.Getenv("KHOP_CUDASIM_POSE") != ""
	few := onPTX && testing.Short() // the same Go code as on the .cu files, where every pair meets
	if few {
		cases = min(cases, 24)
	}
	values := make([]int, len(factors))
	for i, f := range factors {
		values[i] = f.values
	}
	pairs := newMeeting(values)
	batches := 0
	cudatest.ResetStats(t)
	for i := range cases {
		if (invariants.Enabled || testing.Short()) && i >= cases/4 && pairs.left == 0 {
			cases = i // with -race, which makes a case three times as long
			break
		}
		choice := pairs.next(r)
		if *metamorphicOnly >= 0 && i != *metamorphicOnly {
			continue
		}
		n, ok := compareWithCPU(t, factors, choice, i)
		if batches += n; !ok {
			options += fmt.Sprintf(" -metamorphic.only=%d", i)
			return
		}
	}
	if left := pairs.left; left > 0 && !onPTX {
		t.Errorf("%d of %d pairs of options were never tried together: raise -metamorphic.cases", left, pairs.total)
	}
	t.Logf("%d cases, %d batches, %d pairs of options", cases, batches, pairs.total-pairs.left)
	expect.That(t, batches >= cases/2, "only %d batches in %d cases", batches, cases)
	if !few {
		wantLaunches(t)
	}
}

// wantLaunches fails the test where a kernel that some case needs has not run: that batches are equal proves nothing
// where the CPU has made them.
func wantLaunches(t *testing.T) {
	t.Helper()
	for _, kernel := range []string{"assembly_seed", "assembly_flag", "assembly_lists", "assembly_append",
		"assembly_relabel", "neighbor_count", "assembly_admit", "neighbor_pick", "neighbor_expand", "labor_count",
		"labor_pick", "choose_count", "choose_pick", "together_count", "together_pick", "walk_take", "pinsage_walk",
		"pinsage_count", "pinsage_pick", "layer_draw", "layer_count", "layer_pick", "saint_draw", "induce_count",
		"induce_pick", "induce_norms", "gather_rows", "gather_widen"} {
		expect.That(t, cudatest.Launches(kernel) != 0, "%s never ran", kernel)
	}
}

// compareWithCPU loads some batches both ways and compares their digests.
func compareWithCPU(t *testing.T, factors []factor, choice []int, number int) (batches int, ok bool) {
	c := deviceCase{opt: loader.Options{Sampler: sampling.Neighbor{}}}
	var text []string
	for f, i := range choice {
		factors[f].apply(&c, i)
		text = append(text, fmt.Sprintf("%s %d", factors[f].name, i))
	}
	said, _ := c.opt.Sampler.Describe(c.graph.Schema(), 1)
	if said.Excludes && strings.HasSuffix(c.opt.Seeds.String(), "edges") {
		c.opt.Links.ExcludeSeeds = c.exclude
	}
	want := c.opt
	want.Device.Name, want.Workers = "cpu", 1
	got := c.opt
	got.Device.Name, got.Workers, got.Tuning.Prefetch = "cuda:0", c.device.Workers, c.device.Tuning.Prefetch
	got.Residence, got.Device.Memory, got.Device.HotRows, got.Tuning.DeviceBlocks = c.device.Residence,
		c.device.Device.Memory,
		c.device.Device.HotRows, c.device.Tuning.DeviceBlocks
	got.Device.Cache, got.Tuning.Carry = c.device.Device.Cache, c.device.Tuning.Carry
	cudatest.Configure(t, fmt.Sprintf("order=%s,seed=%d", c.order, number))
	a, errA := firstDigests(c.graph, want, c.epoch)
	b, errB := firstDigests(c.graph, got, c.epoch)
	if fmt.Sprint(a) != fmt.Sprint(b) || (errA == nil) != (errB == nil) {
		t.Errorf("case %d (%s):\n CPU    %v %v\n device %v %v", number, strings.Join(text, ", "), a, errA, b, errB)
		return len(a), false
	}
	return len(a), !t.Failed()
}

// firstDigests returns the digests of the first batches, and the error that ends them.
func firstDigests(g *graph.Graph, opt loader.Options, epoch uint64) (list []string, err error) {
	l, err := loader.New(g, opt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for b, err := range l.Range(context.Background(), epoch, 0, uint64(2*max(1, opt.WorldSize))) {
		if err != nil {
			return list, err
		}
		if err := b.Sync(); err != nil {
			return list, err
		}
		list = append(list, digestOf(b))
	}
	return list, nil
}

// manyTypes has three node types and seven edge types, some without edges.
func manyTypes(t testing.TB, n int) *graph.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(5, uint64(n)))
	names := []string{"a", "b", "c"}
	d := graph.Data{}
	for i, name := range names {
		f := make([]float64, n+i)
		for k := range f {
			f[k] = float64(100*i + k)
		}
		d.Nodes = append(d.Nodes, graph.NodeData{Name: name, Count: int64(n + i),
			Columns: map[string]unified.Tensor{"feature": unified.FromSlice(f)}})
	}
	for k := range 7 {
		s, o := k%3, (k/3+k)%3
		e := graph.EdgeData{Source: names[s], Relation: fmt.Sprintf("r%d", k), Target: names[o]}
		for range []int{3 * n, 0, n, n / 2, 2 * n, 0, n}[k] {
			e.Src, e.Dst = append(e.Src, int64(r.IntN(n+s))), append(e.Dst, int64(r.IntN(n+o)))
		}
		d.Edges = append(d.Edges, e)
	}
	return graphs.New(t, d)
}

// TestBatchesOfADeviceLieThere also looks at what the loader says of where it has put what.
func TestBatchesOfADeviceLieThere(t *testing.T) {
	cudatest.Open(t)
	g := graphs.Wide(t, 4000, 6)
	for _, c := range []struct {
		name     string
		opt      loader.Options
		whole    bool // the features are in device memory
		anyCache bool
	}{
		{"all that is free", loader.Options{}, true, false},
		{"half of the features", loader.Options{Device: loader.DeviceOptions{Cache: 1 << 20}}, false, true},
		{"most of the graph", loader.Options{Device: loader.DeviceOptions{Cache: 120_000}}, false, true},
		{"none", loader.Options{Device: loader.DeviceOptions{Cache: loader.NoDeviceCache}}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.opt.Sampler, c.opt.Device.Name = neighbor, "cuda"
			l := open(t, g, c.opt)
			for b, err := range l.Range(context.Background(), 0, 0, 2) {
				expect.OK(t, err)
				if x := b.X(); x.Placement() != pinned.Device || b.Device() != "cuda:0" {
					t.Fatalf("features are %v on %s", x, b.Device())
				}
				_, err := unified.View[float32](b.X())
				expect.Ensure(t, err != nil, "the host was given device memory to read")
			}
			s := l.Stats()
			if s.Device != "cuda:0" || s.DeviceMemory.Total() == 0 || s.DeviceMemoryPeak > l.Options().Device.Memory {
				t.Errorf("statistics: %+v", s)
			}
			for _, p := range l.Placed() {
				expect.That(t, p.Array != "indices" || (p.CachedRows > 0) == (c.opt.Device.Cache == 120_000), "%+v", p)
				if p.Array == "column feature" && ((p.Rung == pinned.RungDevice) != c.whole ||
					(p.CachedRows > 0) != c.anyCache) {
					t.Errorf("%+v", p)
				}
			}
			expect.That(t, (s.DeviceHits > 0) == c.anyCache && s.DeviceSaved == s.DeviceHits*129*4 && s.DeviceRows != 0,
				"%d rows, %d hits, %d bytes saved", s.DeviceRows, s.DeviceHits, s.DeviceSaved)
		})
	}
}
