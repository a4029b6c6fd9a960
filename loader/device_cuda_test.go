//go:build cuda

package loader_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
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
	checks string         // settings of the simulator
	r      *rand.Rand     // draws the options of samplers
	epoch  uint64

	timedSeeds, timedLinks bool // seeds are there as of their own times
	allEdges               bool // are the seeds
	noRoom                 bool // on the host for the topology, which lies in files
}

func newDeviceCase(seed uint64) *deviceCase {
	return &deviceCase{opt: loader.Options{Sampler: sampling.Neighbor{}}, r: rand.New(rand.NewPCG(seed, 2))}
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
		if all[i] = withWorth(t, all[i]); i%3 == 2 {
			all[i], _ = inFiles(t, all[i], true)
		}
	}
	plain := func(f ...int) func(*sampling.Neighbor) { return func(n *sampling.Neighbor) { n.Fanouts = f } }
	return append(append(machineFactors(), timeFactors()...),
		oneOf("graph", func(c *deviceCase, g *graph.Graph) { c.graph = g }, all...),
		narrowFactor(t),
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
		perTypeFactor(),
		seedFactor(),
		negativeFactor(),
		oneOf("exclusion", func(c *deviceCase, x loader.Exclusion) { c.opt.Links.ExcludeSeeds = x },
			loader.ExcludeNone, loader.ExcludeSeeds, loader.ExcludeReverse),
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

// machineFactors lists what only the device's loader has.
func machineFactors() []factor {
	return []factor{
		oneOf("workers", func(c *deviceCase, n int) { c.device.Workers = n }, 1, 2, 3),
		oneOf("prefetch", func(c *deviceCase, n int) { c.device.Tuning.Prefetch = n }, 1, 3),
		oneOf("residence", func(c *deviceCase, r loader.Residence) {
			if c.noRoom = r == loader.Auto; c.noRoom {
				r = loader.Disk
			}
			c.device.Residence = r
			c.device.Disk = loader.DiskOptions{CacheBytes: oneFor(c, int64(1), 4096), Lookahead: oneFor(c, 1, 5)}
		}, loader.Mapped, loader.Resident, loader.Disk, loader.Auto),
		oneOf("device memory", func(c *deviceCase, n int64) { c.device.Device.Memory = n }, 0, 256<<20),
		oneOf("device cache", func(c *deviceCase, n int64) { c.device.Device.Cache = n }, 0, loader.NoDeviceCache,
			1_000,
			2_500, 10_000),
		oneOf("carry", func(c *deviceCase, w loader.Carry) { c.device.Tuning.Carry = w }, loader.CarryKernels,
			loader.CarryCopies, loader.CarryMeasured),
		oneOf("hot rows", func(c *deviceCase, r loader.Ranking) { c.device.Device.HotRows = r },
			loader.RankInDegree, loader.RankPageRank, loader.RankPresample, loader.RankUses, loader.RankNone),
		oneOf("blocks", func(c *deviceCase, n int) { c.device.Tuning.DeviceBlocks = n }, 1, 3, 16),
		oneOf("lanes", func(c *deviceCase, o string) { c.checks = o }, "order=forward", "order=reverse",
			"order=random", expect.DayOrNight("order=random,checks=races", "order=random,checks=all")),
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
		timed(edge, func(n *sampling.Neighbor) { n.Time.Window, n.Share = []int64{9}, 0.7 }),
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

// narrowFactor stores rows narrow, every other graph in files.
func narrowFactor(t testing.TB) factor {
	inMemory := true
	narrow := narrower(t, func(t testing.TB, g *graph.Graph) *graph.Graph {
		if inMemory = !inMemory; !inMemory {
			g, _ = inFiles(t, g, true)
		}
		return g
	})
	return oneOf("narrow rows", func(c *deviceCase, w narrowWay) {
		if w.stored != "" {
			c.graph, c.opt.Columns.Widen = narrow(c.graph, w.stored), widenTo(w.widen)
		}
	}, narrowWays...)
}

// timeFactors vary what is done with the times of seeds.
func timeFactors() []factor {
	return []factor{
		oneOf("link time", func(c *deviceCase, b bool) { c.timedLinks = b }, false, true),
		oneOf("same time", func(c *deviceCase, span int64) { c.opt.SameTime = span }, 0, 0, 10),
		oneOf("time order", func(c *deviceCase, b bool) { c.opt.TimeOrder = b }, false, false, true),
	}
}

// nodesWithTimes are seeds with times, and perhaps with first times: windows.
func nodesWithTimes(windows bool) loader.SeedSource {
	timed := graph.NodeIDs([]int64{3, 3, 1, 0, 5, 3, 6, 2, 2})
	timed.Sets[0].Times = []int64{12, 5, 5, -7, 12, 6, 19, 5, 13}
	if windows {
		timed.Sets[0].From = []int64{4, 5, math.MinInt64, -9, 10, 7, 0, math.MinInt64, 13}
	}
	return loader.GivenSeeds(timed)
}

// seedFactor varies the seeds: nodes or edges.
func seedFactor() factor {
	sources := []loader.SeedSource{{}, loader.AllNodes(),
		loader.GivenSeeds(graph.NodeIDs([]int64{3, 3, 1, 0, 5, 3, 6})), loader.GivenSeeds(graph.NodeIDs([]int32{4})),
		loader.AllEdges(), loader.EdgePairs([]int64{1, 3, 0, 2, 3, 1}, []int64{2, 3, 1, 0, 3, 2}),
		nodesWithTimes(false), listedNegatives()}
	return factor{"seeds", len(sources), func(c *deviceCase, i int) {
		c.opt.Seeds, c.timedSeeds, c.allEdges = sources[i], i == 6, i == 4
	}}
}

// perTypeFactor gives edge types fan-outs of their own, some none.
func perTypeFactor() factor {
	return oneOf("per type", func(c *deviceCase, of string) {
		s, only := c.graph.Schema(), of == "some"
		if of == "" {
			return
		}
		c.setSampler(func(n *sampling.Neighbor) {
			n.PerType = map[string][]int{}
			for e := range s.Edges {
				if e == 0 || !only || c.r.IntN(2) == 0 {
					hops := []int{oneFor(c, 0, 2, 5), oneFor(c, 1, 3, sampling.All)}
					n.PerType[s.Edges[e].String()] = hops[:1+c.r.IntN(2)]
				}
			}
			if only {
				n.Fanouts = nil
			}
			if first := s.Edges[0].String(); n.Time.Edge != "" {
				n.Time.RulesPerType = map[string][]sampling.TimeRule{first: {sampling.Before}}
				n.Time.WindowPerType = map[string][]int64{first: {oneFor[int64](c, 0, 6)}}
			}
		})
	}, "", "", "all", "some")
}

// listedNegatives are edges that come with negatives, one with none.
func listedNegatives() loader.SeedSource {
	set := graph.EdgeSet{Sources: unified.FromSlice([]int32{1, 3, 0}), Targets: unified.FromSlice([]int32{2, 3, 1})}
	set.Negatives, _ = unified.New(unified.Int64, unified.FromSlice([]int64{0, -1, 3, 2, -1, -1}).Bytes(), 3, 2)
	return loader.GivenSeeds(graph.Seeds{Edges: []graph.EdgeSet{set}})
}

// negativeFactor varies the negatives of seeds that are edges; others have none.
func negativeFactor() factor {
	return oneOf("negatives", func(c *deviceCase, n sampling.Negatives) {
		seeds := c.opt.Seeds.String()
		if given := strings.Contains(seeds, "given"); strings.HasSuffix(seeds, "edges") && !(given && n.Timed()) &&
			seeds != listedNegatives().String() {
			c.opt.Links.Negatives, c.opt.Links.Time = n, n.History
		}
	}, sampling.Negatives{}, sampling.Negatives{Ratio: 1.5, Strict: true, Replace: sampling.EitherEnd},
		sampling.Negatives{Ratio: 2, Law: sampling.ByDegree, Replace: sampling.BothEnds},
		sampling.Negatives{Ratio: 1, Law: sampling.InBatch, Triplets: true},
		sampling.Negatives{Ratio: 2, Law: sampling.Historical, History: "t", Fill: true, Replace: sampling.EitherEnd})
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
	batches, refused := 0, map[string]int{}
	cudatest.ResetStats(t)
	for i := range cases {
		if (invariants.Enabled || testing.Short()) && i >= cases/4 && pairs.left == 0 {
			cases = i // with -race, which makes a case three times as long
			break
		}
		choice, own := pairs.most(r), r.Uint64()
		if *metamorphicOnly >= 0 && i != *metamorphicOnly {
			continue
		}
		n, why := compareWithCPU(t, factors, choice, own, i)
		if batches += n; why != "" {
			refused[why]++
		}
		if t.Failed() {
			options += fmt.Sprintf(" -metamorphic.only=%d", i)
			return
		}
	}
	if left := pairs.left; left > 0 && !onPTX {
		t.Errorf("%d of %d pairs of options were never tried together: raise -metamorphic.cases", left, pairs.total)
	}
	t.Logf("%d cases, %d batches, %d pairs of options, %d topologies on disk", cases, batches, pairs.total-pairs.left,
		loadedFromDisk)
	for why, n := range refused {
		t.Logf("%d refused: %s", n, why)
	}
	expect.That(t, batches >= cases/2, "only %d batches in %d cases", batches, cases)
	if !few && *metamorphicOnly < 0 {
		expect.That(t, loadedFromDisk >= cases/60, "the topology was on disk in %d of %d cases", loadedFromDisk, cases)
		wantLaunches(t)
	}
}

// most returns a case with two values that have not met yet, where there are such. Its other values are, one after the
// other, those that meet most of the ones it has for the first time.
func (p *meeting) most(r *rand.Rand) []int {
	var unmet [][4]int
	for i := range p.values {
		for j := range i {
			for k := range p.values[i] * p.values[j] {
				if pair := ([4]int{j, k % p.values[j], i, k / p.values[j]}); !p.met[pair] {
					unmet = append(unmet, pair)
				}
			}
		}
	}
	choice, order := make([]int, len(p.values)), r.Perm(len(p.values))
	for f, n := range p.values {
		choice[f] = r.IntN(n)
	}
	if len(unmet) > 0 {
		first := unmet[r.IntN(len(unmet))]
		choice[first[0]], choice[first[2]] = first[1], first[3]
		order = slices.DeleteFunc(order, func(f int) bool { return f == first[0] || f == first[2] })
		chosen := []int{first[0], first[2]}
		for _, f := range order {
			most := -1
			for _, value := range r.Perm(p.values[f]) {
				gain := 0
				for _, of := range chosen {
					pair := [4]int{of, choice[of], f, value}
					if of > f {
						pair = [4]int{f, value, of, choice[of]}
					}
					if !p.met[pair] {
						gain++
					}
				}
				if gain > most {
					choice[f], most = value, gain
				}
			}
			chosen = append(chosen, f)
		}
	}
	p.each(choice, func(key [4]int) { p.met[key] = true })
	p.left = p.total - len(p.met)
	return choice
}

// wantLaunches fails the test where a kernel of samplers has not run: that batches are equal proves nothing where the
// CPU has made them.
func wantLaunches(t *testing.T) {
	t.Helper()
	kernels, files := []string{"gather_rows", "gather_widen"}, expect.Must(filepath.Glob("../sampling/*.cu"))(t)
	if len(files) == 0 {
		t.Log("no sources are here: not looked at whether each kernel ran")
		return
	}
	for _, file := range files {
		text := expect.Must(os.ReadFile(file))(t)
		kernel := regexp.MustCompile(`__global__ void (?:__launch_bounds__\S* )?(\w+)`)
		for _, found := range kernel.FindAllSubmatch(text, -1) {
			kernels = append(kernels, string(found[1]))
		}
	}
	expect.That(t, len(kernels) > 30, "only %q were found", kernels)
	for _, kernel := range kernels {
		expect.That(t, cudatest.Launches(kernel) != 0, "%s never ran", kernel)
	}
}

// compareWithCPU loads some batches both ways and compares their digests. It returns why there are no more.
func compareWithCPU(t *testing.T, factors []factor, choice []int, own uint64, number int) (batches int, no string) {
	c := newDeviceCase(own)
	var text []string
	for f, i := range choice {
		factors[f].apply(c, i)
		text = append(text, fmt.Sprintf("%s %d", factors[f].name, i))
	}
	c.settle()
	want := c.opt
	want.Device.Name, want.Workers = "cpu", 1
	got := c.opt
	got.Workers, got.Tuning, got.Residence, got.Device, got.Disk = c.device.Workers, c.device.Tuning,
		c.device.Residence, c.device.Device, c.device.Disk
	got.Device.Name = "cuda:0"
	cudatest.Configure(t, fmt.Sprintf("%s,seed=%d", c.checks, number))
	available := int64(1 << 40)
	if c.noRoom {
		available, c.graph = 1, allInFiles(t, c.graph)
	}
	loader.AvailableMemory(t, available)
	a, errA := firstDigests(c.graph, want, c.epoch)
	b, errB := firstDigests(c.graph, got, c.epoch)
	if fmt.Sprint(a) != fmt.Sprint(b) || (errA == nil) != (errB == nil) {
		t.Errorf("case %d (%s: %s):\n CPU    %v %v\n device %v %v", number, c.opt.Sampler.Fingerprint(),
			strings.Join(text, ", "), a, errA, b, errB)
	}
	if errA != nil {
		no = errA.Error()
	}
	return len(a), no
}

// graphsInFiles are those that allInFiles has written.
var graphsInFiles = map[*graph.Graph]*graph.Graph{}

// allInFiles returns a graph that lies in files whole.
func allInFiles(t testing.TB, g *graph.Graph) *graph.Graph {
	if graphsInFiles[g] == nil {
		graphsInFiles[g], _ = inFiles(t, g, true)
	}
	return graphsInFiles[g]
}

// loadedFromDisk counts loaders of firstDigests whose topology stayed on disk.
var loadedFromDisk int

// firstDigests returns the digests of the first batches, and the error that ends them.
func firstDigests(g *graph.Graph, opt loader.Options, epoch uint64) (list []string, err error) {
	l, err := loader.New(g, opt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if l.Stats().TopologyOnDisk != nil {
		loadedFromDisk++
	}
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
			for b := range each(t, l.Range(context.Background(), 0, 0, 2)) {
				if x := b.X(); x.Placement() != pinned.Device || b.Device() != "cuda:0" {
					t.Fatalf("features are %v on %s", x, b.Device())
				}
				_, err := unified.View[float32](b.X())
				expect.Ensure(t, err != nil, "the host was given device memory to read")
			}
			s := l.Stats()
			if s.Device != "cuda:0" || s.DeviceMemory.Total() == 0 || s.DeviceMemoryPeak > l.Answer().DeviceMemory {
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

// weighingOnDevice looks at the columns that a device's worker gets.
type weighingOnDevice struct {
	weighing
	look func(sampling.DeviceEnv)
}

func (w weighingOnDevice) OpenDevice(env sampling.DeviceEnv) (sampling.DeviceWorker, error) {
	w.look(env)
	return w.Neighbor.OpenDevice(env)
}

func TestDeviceHasTheColumnsThatASamplerReads(t *testing.T) {
	cudatest.Open(t)
	g := graphs.Plain(t, 200, 3)
	source, _ := g.EdgeColumn("weight")
	have := make([]byte, len(source.Bytes()))
	s := weighingOnDevice{weighing{sampling.Neighbor{Fanouts: []int{2}}, "weight", nil}, func(env sampling.DeviceEnv) {
		expect.Ensure(t, len(env.Topology.Columns) == 1, "%d columns", len(env.Topology.Columns))
		err := env.Stream.CopyToHost(have, env.Topology.Columns[0])
		if err == nil {
			err = env.Stream.Synchronize()
		}
		expect.OK(t, err)
	}}
	l := open(t, g, loader.Options{Sampler: s, BatchSize: 8, Device: loader.DeviceOptions{Name: "cuda"}})
	expect.That(t, bytes.Equal(have, source.Bytes()), "the column on the device is not the source's")
	expect.OK(t, lastError(l.Epoch(background, 0)))
}
