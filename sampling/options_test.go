package sampling

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// border is options that are taken, and those next to them that are not.
type border struct{ within, beyond []Sampler }

// Options have borders: those within are taken, the next ones beyond are ErrOptions.
func TestOptionsOfSamplersHaveBorders(t *testing.T) {
	g := badGraph(t, nil)
	for says, c := range borders(t) {
		for _, s := range c.within {
			expect.Is(t, validate(s, g.Schema()), nil, "%#v", s)
		}
		for _, s := range c.beyond {
			expect.Says(t, validate(s, g.Schema()), ErrOptions, says, "%#v", s)
			if w, err := s.Open(Env{Graph: g, BatchSize: 1}); err == nil {
				t.Errorf("%#v is opened", s)
				_ = w.Close()
			}
		}
	}
}

// borders are options at their borders, by what errors say.
func borders(t *testing.T) map[string]border {
	parts := func(nodes int) *graph.Partition {
		return expect.Must(graph.NewPartition(make([]int32, nodes), 1))(t)
	}
	hops := make([]int, 257)
	return map[string]border{
		"steps a seed": {[]Sampler{Walk{Length: 1}, Walk{Length: 1<<16 - 1}, Walk{Length: 1, PerSeed: 256},
			Node2Vec{Length: 1, PerSeed: 256}, PinSage{Neighbors: 1, Length: 1<<16 - 1}},
			[]Sampler{Walk{}, Walk{Length: -1}, Walk{Length: 1 << 16}, Walk{Length: 1, PerSeed: 257}, Node2Vec{},
				Walk{Length: 1, PerSeed: -1}, Node2Vec{Length: 1, PerSeed: 257}, PinSage{Neighbors: 1,
					Length: 1 << 16}}},
		"they are probabilities": {[]Sampler{Walk{Length: 1, Restart: 1}, Walk{Length: 1, Restart: 0.5, Stop: 0.5},
			Walk{Length: 1, Stop: 1}},
			[]Sampler{Walk{Length: 1, Restart: -1e-9}, Walk{Length: 1, Stop: -1e-9}, Walk{Length: 1,
				Restart: math.NaN()},
				Walk{Length: 1, Restart: 0.5, Stop: 0.5000001}, PinSage{Neighbors: 1, Length: 1, Stop: 2}}},
		"both must be 1e-9 to 1e9": {[]Sampler{Node2Vec{Length: 1, P: 1e-9, Q: 1e9}, Node2Vec{Length: 1, P: 1e9,
			Q: 1e-9}},
			[]Sampler{Node2Vec{Length: 1, P: 0.9e-9}, Node2Vec{Length: 1, Q: 1.1e9}, Node2Vec{Length: 1, Q: -1},
				Node2Vec{Length: 1, P: math.NaN()}}},
		"walks over all hops": {[]Sampler{PinSage{Neighbors: 1, Length: 1, Walks: 256},
			PinSage{Neighbors: 1, Length: 1, Walks: 128, Hops: 2}, PinSage{Neighbors: 1, Length: 1, Hops: 25}},
			[]Sampler{PinSage{Length: 1}, PinSage{Neighbors: 1, Length: 1, Walks: 257}, PinSage{Neighbors: 1, Length: 1,
				Hops: -1}, PinSage{Neighbors: 1, Length: 1, Walks: -1}, PinSage{Neighbors: 1, Length: 1, Hops: 26},
				PinSage{Neighbors: 1, Length: 1, Walks: 129, Hops: 2}}},
		"1e-9 <= epsilon": {[]Sampler{PPR{Neighbors: 1, Alpha: 0.001, Epsilon: 1e-9}, PPR{Neighbors: 1, Alpha: 0.999,
			Epsilon: 1}},
			[]Sampler{PPR{}, PPR{Neighbors: 1, Alpha: 0.0009}, PPR{Neighbors: 1, Alpha: 1}, PPR{Neighbors: 1,
				Epsilon: 1.1},
				PPR{Neighbors: 1, Epsilon: 0.9e-9}, PPR{Neighbors: 1, Alpha: math.NaN()}}},
		"and nothing negative": {[]Sampler{Saint{Budget: 1}, Saint{Budget: math.MaxInt32}, Saint{Kind: SaintWalks,
			Budget: 1,
			Length: 1<<16 - 1}},
			[]Sampler{Saint{}, Saint{Budget: 1, Kind: SaintWalks + 1}, Saint{Budget: 1 << 31}, Saint{Budget: 1,
				Length: -1},
				Saint{Budget: 1, Length: 1 << 16}, Saint{Budget: 1, Steps: -1}, Saint{Budget: 1, Coverage: -1}}},
		"parts a batch": {[]Sampler{Cluster{}, Cluster{Partition: parts(6), PerBatch: 1}},
			[]Sampler{Cluster{PerBatch: -1}, Cluster{Partition: parts(5)}, Cluster{Partition: parts(7)}}},
		"nodes and edges a batch": {[]Sampler{Full{}, Full{Work: 2}, Full{Work: maxBlockEdges / 2}},
			[]Sampler{Full{Work: 1}, Full{Work: -1}, Full{Work: maxBlockEdges/2 + 1}}},
		"leave one out": {[]Sampler{Neighbor{Fanouts: []int{1}, Induced: true}}, []Sampler{
			Neighbor{Fanouts: []int{1}, Induced: true, Direction: Out},
			Neighbor{Fanouts: []int{1}, Induced: true, Time: Temporal{Edge: "t"}}}},
		"batch": {nil, []Sampler{Labor{Fanouts: []int{1}, BatchDependency: -1}}},
		"hops; there must be": {[]Sampler{Neighbor{Fanouts: hops[:256]}, HGT{Nodes: hops[:256]}}, []Sampler{Neighbor{},
			Labor{}, HGT{}, FastGCN{}, Ladies{}, Neighbor{Fanouts: hops}, HGT{Nodes: hops}, FastGCN{Nodes: hops},
			Ladies{Nodes: hops}}},
		"must be -1 (all), 0 (none)": {nil, []Sampler{Neighbor{Fanouts: []int{-2}}, Labor{Fanouts: []int{-2}},
			HGT{Nodes: []int{-2}}, HGT{PerType: map[string][]int{"node": {1, -5}}}, Ladies{Nodes: []int{-2}},
			FastGCN{Nodes: []int{1, math.MaxInt32 + 1}}}},
		"frontier 7": {nil, []Sampler{Neighbor{Fanouts: []int{1}, Frontier: 7}, Labor{Fanouts: []int{1}, Frontier: 7}}},
	}
}

// everySampler calls f for the samplers of statedSamplers, prepared and opened for a graph, with a request for them.
// What fails before the request is the result.
func everySampler(t *testing.T, ctx context.Context, g *graph.Graph, f func(name string, err error)) {
	for _, c := range statedSamplers {
		err := func() (err error) {
			env := Env{Graph: g, BatchSize: 3}
			s, err := Prepare(ctx, c.sampler, env)
			if err != nil {
				return err
			}
			if c, ok := s.(io.Closer); ok {
				defer func() { err = errors.Join(err, c.Close()) }()
			}
			w, err := s.Open(env)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, w.Close()) }()
			out := sampleOf(g, s, 3)
			defer out.Close()
			req := timedSeeds(0, 1, 2)
			if d, _ := s.Describe(g.Schema(), 3); d.Items != nil {
				req = &Request{Seeds: [][]int64{nil}, Items: []int64{0}, Rand: req.Rand}
			}
			return w.Sample(ctx, req, out)
		}()
		f(c.name, err)
	}
}

func TestEverySamplerStopsWhenItsContextEnds(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	everySampler(t, ctx, badGraph(t, nil), func(name string, err error) {
		expect.Is(t, err, why, name)
	})
}

// A graph that is damaged wherever it is looked at is an error of every sampler that names the place.
func TestEverySamplerSaysWhereAGraphIsDamaged(t *testing.T) {
	sound := badGraph(t, nil)
	for what, damage := range map[string]func(indptr []int64, indices []int32){
		"source": func(_ []int64, indices []int32) {
			for i := range indices {
				indices[i] = 6
			}
		},
		"edges are": func(indptr []int64, _ []int32) {
			for i := range indptr[1 : len(indptr)-1] {
				indptr[i+1] = int64(len(indptr)-i) * 100
			}
		},
	} {
		ids := expect.Must(unified.View[int32](sound.Indices()))(t)
		indptr, indices := slices.Clone(sound.Indptr()), slices.Clone(ids)
		damage(indptr, indices)
		a := graph.Arrays{Schema: *sound.Schema(), Indptr: unified.FromSlice(indptr),
			Indices:     unified.FromSlice(indices),
			EdgeColumns: map[string]unified.Tensor{}}
		for _, c := range sound.Schema().EdgeColumns {
			a.EdgeColumns[c.Name], _ = sound.EdgeColumn(c.Name)
		}
		g := graphs.Of(t, a)
		everySampler(t, t.Context(), g, func(name string, err error) {
			expect.Says(t, err, ErrGraph, what, name)
		})
	}
}

// Negatives take the stated memory, by which loaders plan.
func TestNegativesTakeTheMemoryThatIsSaid(t *testing.T) {
	var ledger pinned.Ledger
	users, items := make([]float32, 20_000), make([]float32, 30_000)
	when := make([]int64, 20_000)
	for i := range users {
		users[i], when[i] = 1, int64(i)
	}
	for i := range items {
		items[i] = 1
	}
	g := graphs.New(t, graph.Data{Nodes: []graph.NodeData{
		{Name: "user", Count: 20_000, Columns: map[string]unified.Tensor{"w": unified.FromSlice(users),
			"t": unified.FromSlice(when)}},
		{Name: "item", Count: 30_000, Columns: map[string]unified.Tensor{"w": unified.FromSlice(items)}}},
		Edges: []graph.EdgeData{{Source: "user", Relation: "rates", Target: "item", Src: []int64{0, 1}, Dst: []int64{1,
			2}},
			{Source: "user", Relation: "knows", Target: "user", Src: []int64{0, 1}, Dst: []int64{1, 2}}}})
	env := Env{Graph: g, BatchSize: 4, Scratch: pinned.Options{Ledger: &ledger, Purpose: pinned.Scratch}}
	users8, items8 := pinned.Options{}.Size(8*20_000), pinned.Options{}.Size(8*30_000) // a number for each
	for _, n := range []Negatives{{Ratio: 1}, {Ratio: 1, Law: ByDegree}, {Ratio: 1, Law: ByWeight, Weight: "w"}} {
		for _, types := range [][]bool{{true, false}, {false, true}, {true, true}, {false, false}} {
			d := expect.Must(n.Open(t.Context(), env, types))(t)
			said, took := n.Bytes(g.Schema(), types), ledger.Total()
			if took > said || said > 0 && took == 0 || said == 0 && took > 0 {
				t.Errorf("%s of %v: %d bytes are taken, %d were said", n.Fingerprint(), types, took, said)
			}
			want := int64(0)
			if n.Law != Uniform {
				want = map[bool]int64{true: users8 + items8}[types[0]] + map[bool]int64{true: 2 * users8}[types[1]]
			}
			expect.That(t, said == want, "%s of %v: %d bytes are said, want %d", n.Fingerprint(), types, said, want)
			err := d.Close()
			expect.That(t, err == nil && ledger.Total() == 0, "%d bytes are left: %v", ledger.Total(), err)
		}
	}
	timed := Negatives{Ratio: 1, Time: "t"}
	got := timed.Bytes(g.Schema(), []bool{false, true})
	expect.That(t, got == 2*2*users8, "with times %d bytes are said", got)
	timed.Law = InBatch
	if got := timed.Bytes(g.Schema(), []bool{true, true}); got != 0 {
		t.Errorf("of the batch itself %d bytes are said", got)
	}
	if got := (Negatives{Law: ByDegree}).Bytes(g.Schema(), []bool{true, true}); got != 0 {
		t.Errorf("for none %d bytes are said", got)
	}
}
