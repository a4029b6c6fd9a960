//go:build !race

package sampling

import (
	"bytes"
	"fmt"
	"maps"
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
	if err != nil { // its edges are not the graph's
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
	closeAll(t, w, out, s)
	n := len(scratch.given) + len(memory.given)
	expect.That(t, n <= 0, "%s: %d pieces of memory are left", name, n)
	return text
}

// damaged returns a graph of the same arrays, but for invalid sources, weights or times.
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
