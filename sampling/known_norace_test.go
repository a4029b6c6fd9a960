//go:build !race

package sampling

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// knownBeside are options that statedSamplers and moreSamplers leave out.
var knownBeside = map[string]Sampler{
	"all":            Neighbor{Fanouts: []int{All, 3}, Frontier: AllNodes},
	"hubs":           Neighbor{Fanouts: []int{70, 8}, Frontier: AllNodes},
	"hubs, replaced": Neighbor{Fanouts: []int{70, 40}, Frontier: AllNodes, Replace: true},
	"hubs, weighted": Neighbor{Fanouts: []int{40, 33}, Frontier: AllNodes, Weight: "w"},
	"hubs, labor":    Labor{Fanouts: []int{40, 12}, Frontier: AllNodes},
	"share":          Neighbor{Fanouts: []int{30, 9}, Frontier: AllNodes, Share: 0.3, Weight: "w"},
	"per type": Neighbor{PerType: map[string][]int{"r1": {3, 2}, "r4": {20}, "c:r3:a": {3, All}},
		Frontier: AllNodes},
	"per type, twice": Neighbor{PerType: map[string][]int{"r3": {2}, "c:r3:a": {3}}, Frontier: AllNodes},
	"in a window": Neighbor{Fanouts: []int{4, 3}, Frontier: AllNodes, Time: Temporal{Edge: "t", Window: []int64{10},
		Chain: true}},
	"before": Neighbor{Fanouts: []int{4, 3}, Frontier: AllNodes, Time: Temporal{Edge: "t",
		Rules: []TimeRule{Before, NotAfter}}},
	"half life":        Neighbor{Fanouts: []int{4, 3}, Frontier: AllNodes, Time: Temporal{Edge: "t", HalfLife: 5}},
	"trees, induced":   Neighbor{Fanouts: []int{4, 3}, Frontier: AllNodes, Disjoint: true, Induced: true},
	"together, masked": Neighbor{Fanouts: []int{9, 3}, Frontier: AllNodes, Together: true, Mask: "m"},
	"out, new":         Neighbor{Fanouts: []int{4, 3}, Direction: Out, Frontier: NewNodes, Mask: "m"},
	"both, replaced":   Neighbor{Fanouts: []int{4, 3}, Frontier: AllNodes, Direction: Both, Replace: true},
	"labor, new":       Labor{Fanouts: []int{5, 5, 5}, Frontier: NewNodes, BatchDependency: 4},
	"saint, measured":  Saint{Kind: SaintWalks, Budget: 30, Length: 2, Coverage: 5},
	"clusters of one":  Cluster{PerBatch: 1},
	"walk, stopped":    Walk{Length: 5, PerSeed: 3, Restart: 0.2, Stop: 0.1},
	"node2vec, far":    Node2Vec{Length: 6, P: 4, Q: 0.25, PerSeed: 2},
	"pinsage, again":   PinSage{Neighbors: 3, Length: 4, Restart: 0.3},
	"pinsage, as":      PinSage{Neighbors: 3, Length: 4, Metapath: []string{"r1", "r2"}, As: "r0"},
	"walk, path":       Walk{Length: 4, Metapath: []string{"r1", "r2"}, Edges: true},
}

// tally gives memory, and counts how often it was asked, and for how much.
type tally struct {
	giver
	pieces, total int64
	count         sync.Mutex
}

func newTally() *tally {
	return &tally{giver: giver{scarce: scarce{given: map[*byte]*pinned.Region{}}}}
}

func (p *tally) Take(n int64) ([]byte, error) {
	p.count.Lock()
	p.pieces, p.total = p.pieces+1, p.total+n
	p.count.Unlock()
	return p.giver.Take(n)
}

func (p *tally) String() string { return fmt.Sprintf("%d/%d", p.total, p.pieces) }

// knownRequest is batch number n of a sampler on a graph: seeds of every type, with times; or an item.
func knownRequest(g *graph.Graph, s Sampler, n, seeds int) *Request {
	schema := g.Schema()
	req := &Request{Rand: NewRand(20261123, 3, 1, uint64(n)), Seeds: make([][]int64, len(schema.Nodes))}
	if d, _ := s.Describe(schema, seeds); d.Items != nil && n < 3 {
		req.Items = []int64{int64(n) % d.Items.Count}
		return req
	}
	if n == 2 {
		req.Edges = make([]SeedEdges, len(schema.Edges))
		for e := range schema.Edges {
			source, target := schema.Nodes[schema.Edges[e].Src].Count, schema.Nodes[schema.Edges[e].Dst].Count
			req.Edges[e] = SeedEdges{Sources: []int64{3 % source, 50 % source},
				Targets: []int64{60 % target, 2 % target}, Times: []int64{30, 20}}
		}
	}
	for of := range req.Seeds {
		p, _ := s.(PinSage)
		if w, _ := s.(Walk); of > 0 && len(p.Metapath)+len(w.Metapath) > 0 {
			break
		}
		for i := range seeds {
			if count := schema.Nodes[of].Count; count > 0 {
				req.Seeds[of] = append(req.Seeds[of], int64(n*7+i*11)%count)
			}
		}
	}
	if of, ok := s.(Neighbor); ok && of.Time.Edge != "" {
		for _, list := range req.Seeds {
			req.Times = append(req.Times, slices.Repeat([]int64{30}, len(list)))
		}
	}
	return req
}

// known says what a sampler makes on a graph: the hash of what it draws, and the memory that it takes and states, in
// bytes and pieces.
func known(t *testing.T, g *graph.Graph, s Sampler) string {
	t.Helper()
	scratch, memory := newTally(), newTally()
	env := Env{Graph: g, BatchSize: 40, EdgePos: true, Scratch: pinned.Options{From: scratch}}
	name := s.Fingerprint()
	s, err := Prepare(t.Context(), s, env)
	if err != nil {
		return expect.Line(t, err, "")
	}
	prepared := scratch.String()
	w, err := s.Open(env)
	if err != nil { // its edges are none of the graph's
		env.EdgePos = false
		if w, err = s.Open(env); err != nil {
			return expect.Line(t, err, "")
		}
	}
	out, hash := &graph.Sample{}, xxh3.New()
	bound := boundOf(s, g.Schema(), env.BatchSize)
	bound.Init(out, g.Schema(), pinned.Options{From: memory})
	edges, failed := 0, error(nil)
	for batch, seeds := range []int{3, 12, 1, 12} {
		if err := w.Sample(t.Context(), knownRequest(g, s, batch, seeds), out); err != nil {
			if failed == nil {
				failed = err
			}
			continue
		}
		_, _ = hash.WriteString(wholly(out))
		for _, layer := range out.Blocks {
			for e := range layer {
				edges += int(layer[e].Indices.Len())
			}
		}
	}
	text := fmt.Sprintf("%d edges, %016x; took %s, %s and %s; stated %d and %d, %d nodes, %d edges", edges,
		hash.Sum64(), prepared, scratch, memory, bound.Scratch, bound.Shared, bound.Nodes, bound.Edges)
	if failed != nil {
		text += "; " + expect.Line(t, failed, "")
	}
	errs := []error{w.Close(), out.Close()}
	if c, ok := s.(io.Closer); ok {
		errs = append(errs, c.Close())
	}
	for _, err := range errs {
		expect.Is(t, err, nil, name)
	}
	n := len(scratch.given) + len(memory.given)
	expect.That(t, n <= 0, "%s: %d pieces of memory are left", name, n)
	return text
}

// typedGraph has three types of nodes and five of edges with the columns of steadyGraph. One type has few nodes, and
// many edges lead to them.
func typedGraph(t *testing.T) *graph.Graph {
	r := rand.New(rand.NewPCG(20261123, 0))
	data := graph.Data{Nodes: []graph.NodeData{{Name: "a", Count: 200}, {Name: "b", Count: 80}, {Name: "c", Count: 6}}}
	for i, ends := range [][2]int{{0, 0}, {1, 0}, {0, 1}, {2, 0}, {0, 2}} {
		source, target := data.Nodes[ends[0]], data.Nodes[ends[1]]
		e := steadyEdges(r, source.Count, target.Count, 9+100*(i/4))
		e.Source, e.Target, e.Relation = source.Name, target.Name, fmt.Sprint("r", i)
		data.Edges = append(data.Edges, e)
	}
	return graphs.New(t, data)
}

// damaged returns a graph of the same arrays, but for sources, weights or times that are none.
func damaged(t *testing.T, g *graph.Graph, sources, weights bool) *graph.Graph {
	a := graphs.ArraysOf(g)
	if sources {
		a.Indices = unified.FromSlice(slices.Repeat([]int32{300}, int(g.Indices().Len())))
	}
	if weights {
		a.EdgeColumns["w"] = unified.FromSlice(slices.Repeat([]float32{-1}, int(g.Indices().Len())))
	}
	return graphs.Of(t, a)
}

// knownNegatives says what is drawn for edges of every type of a graph, under every law, for each end.
func knownNegatives(t *testing.T, g *graph.Graph) string {
	t.Helper()
	schema, text := g.Schema(), ""
	types := slices.Repeat([]bool{true}, len(schema.Edges))
	for law := Uniform; law <= InBatch; law++ {
		for end := TargetEnd; end <= BothEnds; end++ {
			n := Negatives{Ratio: 2.5, Law: law, Replace: end, Strict: end%2 == 0, Tries: 3}
			memory := newTally()
			d, err := n.Open(t.Context(), Env{Graph: g, BatchSize: 8, Scratch: pinned.Options{From: memory}}, types)
			if err != nil {
				text += fmt.Sprintf("%s\n  %s\n", n.Fingerprint(), expect.Line(t, err, ""))
				continue
			}
			hash, missed := xxh3.New(), int64(0)
			for e := range schema.Edges {
				l := LinkSeeds{}
				for i := range int64(8) {
					l.Sources = append(l.Sources, i*5%schema.Nodes[schema.Edges[e].Src].Count)
					l.Targets = append(l.Targets, i*3%schema.Nodes[schema.Edges[e].Dst].Count)
					l.Labels, l.Group, l.Items = append(l.Labels, 1), append(l.Group, int32(i)), append(l.Items, i+10)
				}
				expect.OK(t, d.Draw(NewRand(20261123, 2, 0, 5), e, &l))
				missed += l.Missed
				fmt.Fprintln(hash, l.Sources, l.Targets, l.Labels, l.Group)
			}
			text += fmt.Sprintf("%s\n  %016x, %d missed; took %s\n", n.Fingerprint(), hash.Sum64(), missed, memory)
			if err := d.Close(); err != nil || len(memory.given) > 0 {
				t.Errorf("%s: %v, %d pieces of memory are left", n.Fingerprint(), err, len(memory.given))
			}
		}
	}
	return text
}

// A batch is the same in every version, on every machine, and takes the same memory. What differs here on purpose is
// another version of the sampling semantics, or another plan of memory.
func TestSamplersDrawWhatTheyDrewAndTakeWhatTheyTook(t *testing.T) {
	plain := steadyGraph(t)
	typed := typedGraph(t)
	badSources, badWeights := damaged(t, plain, true, false), damaged(t, plain, false, true)
	samplers := maps.Clone(moreSamplers)
	maps.Copy(samplers, knownBeside)
	for _, c := range statedSamplers {
		if c.name != "ppr" { // the coarse one does the same in a tenth of the time
			samplers[c.name] = c.sampler
		}
	}
	var got bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(samplers)) {
		of := samplers[name]
		draws := known(t, plain, of)
		fmt.Fprintf(&got, "%s: %s\n  %s\n  typed: %s\n", name, expect.Short(of.Fingerprint()), draws,
			known(t, typed, of))
		fmt.Fprintf(&got, "  sources that are no nodes: %s\n", known(t, badSources, of))
		if text := known(t, badWeights, of); text != draws {
			fmt.Fprintf(&got, "  negative weights: %s\n", text)
		}
	}
	fmt.Fprintf(&got, "negatives: %snegatives, typed: %s", knownNegatives(t, plain), knownNegatives(t, typed))
	if os.Getpagesize() != 4096 && !expect.Rewriting() {
		t.Log("not compared: memory is taken in other pages here")
		return
	}
	expect.Golden(t, "testdata/known.txt", got.String())
}
