package sampling

import (
	"context"
	"io"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/pinned"
)

// gadget is a little graph whose probabilities are known: destinations by their sources. Sources that two destinations
// have make them depend on each other, and a source that comes twice has parallel edges.
type gadget [][]int

// laborGadget has three destinations: of 4 and 5 edges, which share sources 0 and 1, and one with parallel edges.
var laborGadget = gadget{{0, 1, 2, 3}, {0, 1, 4, 5, 6}, {7, 7, 8, 9}}

const laborK = 3

// copies makes a graph of n gadgets with nodes of their own: first all destinations, gadget by gadget, then sources.
func (g gadget) copies(t *testing.T, n int) *graph.Graph {
	sources := 0
	for _, column := range g {
		for _, s := range column {
			sources = max(sources, s+1)
		}
	}
	indptr, indices := []int64{0}, []int32(nil)
	for i := range n {
		for _, column := range g {
			for _, s := range column {
				indices = append(indices, int32(n*len(g)+i*sources+s))
			}
			indptr = append(indptr, int64(len(indices)))
		}
	}
	for range n * sources {
		indptr = append(indptr, int64(len(indices)))
	}
	return graphs.CSC(t, indptr, indices)
}

// edges is how many edges a gadget has.
func (g gadget) edges() (n int) {
	for _, column := range g {
		n += len(column)
	}
	return n
}

// law returns the probability of each set of edges, given the probability of each rank or share of the sources.
func (g gadget) law(k int, poisson bool) []float64 {
	var laws [][]float64
	for _, part := range []gadget{g[:2], g[2:]} { // they have no source in common
		sets := make([]float64, 1<<part.edges())
		if poisson {
			part.poissonLaw(k, sets)
		} else {
			part.orderLaw(k, sets)
		}
		laws = append(laws, sets)
	}
	return apart(laws...)
}

// numbers returns sources numbered from 0 on.
func (g gadget) numbers() (numbered gadget, n int) {
	known := map[int]int{}
	for _, column := range g {
		var of []int
		for _, s := range column {
			if _, ok := known[s]; !ok {
				known[s] = len(known)
			}
			of = append(of, known[s])
		}
		numbered = append(numbered, of)
	}
	return numbered, len(known)
}

// orderLaw enumerates every order of the variates: all are as likely.
func (g gadget) orderLaw(k int, sets []float64) {
	numbered, n := g.numbers()
	total := 0.0
	orders(n, func(rank []uint64) {
		set, first := 0, 0
		for _, column := range numbered {
			var of []uint64
			for _, s := range column {
				of = append(of, rank[s])
			}
			for _, i := range laborPicks(of, k, false) {
				set |= 1 << (first + i)
			}
			first += len(column)
		}
		sets[set]++
		total++
	})
	for i := range sets {
		sets[i] /= total
	}
}

// poissonLaw enumerates between which of the limits k/n each variate lies.
func (g gadget) poissonLaw(k int, sets []float64) {
	numbered, n := g.numbers()
	share := func(column []int) float64 { return min(float64(k)/float64(len(column)), 1) }
	limits := []float64{0, 1}
	for _, column := range g {
		limits = append(limits, share(column))
	}
	slices.Sort(limits)
	limits = slices.Compact(limits)
	u := make([]float64, n)
	var place func(i int, p float64)
	place = func(i int, p float64) {
		if i < n {
			for c, low := range limits[:len(limits)-1] {
				u[i] = low
				place(i+1, p*(limits[c+1]-low))
			}
			return
		}
		set, first := 0, 0
		for _, column := range numbered {
			for i, s := range column {
				set |= int(bit(u[s] < share(column))) << (first + i)
			}
			first += len(column)
		}
		sets[set] += p
	}
	place(0, 1)
}

// draw counts the sets of edges that a sampler takes of copies of the gadget, in a number of trials. Where the sampler
// has several hops the destinations are expanded at each, and see gets the sets of them all, of one copy.
func (g gadget) draw(t *testing.T, l Sampler, hops, trials int, see func(batch int, sets []int)) {
	t.Helper()
	const copies = 2000
	graph := g.copies(t, copies)
	req := &Request{Seeds: [][]int64{make([]int64, copies*len(g))}}
	for i := range req.Seeds[0] {
		req.Seeds[0][i] = int64(i)
	}
	w := expect.Must(l.Open(Env{Graph: graph, BatchSize: len(req.Seeds[0]), EdgePos: true}))(t)
	defer w.Close()
	out := sampleOf(graph, l, len(req.Seeds[0]))
	defer out.Close()
	sets := make([]int, hops)
	for batch := range (trials + copies - 1) / copies {
		req.Rand = NewRand(20261124, 1, 0, uint64(batch))
		expect.OK(t, w.Sample(context.Background(), req, out))
		for i := range copies {
			for h := range sets {
				b := &out.Blocks[hops-1-h][0]
				ends, pos := mustView(t, b.Indptr), mustView(t, b.EdgePos)
				sets[h] = 0
				for _, at := range pos[ends[i*len(g)]:ends[(i+1)*len(g)]] {
					sets[h] |= 1 << (int(at) - i*g.edges())
				}
			}
			see(batch, sets)
		}
	}
}

// closeAll closes what can be closed.
func closeAll(t testing.TB, list ...any) {
	t.Helper()
	for _, x := range list {
		if c, ok := x.(io.Closer); ok {
			expect.OK(t, c.Close())
		}
	}
}

// sampleOf makes a sample as a sampler's workers expect it.
func sampleOf(g *graph.Graph, s Sampler, batchSize int) *graph.Sample {
	out := new(graph.Sample)
	bound := boundOf(s, g.Schema(), batchSize)
	bound.Init(out, g.Schema(), pinned.Options{})
	return out
}

func TestLaborPicksEveryEdgeAndPairAsOftenAsItMust(t *testing.T) {
	for _, l := range []Labor{{Fanouts: []int{laborK}}, {Fanouts: []int{laborK}, Poisson: true}} {
		c := newChances(laborGadget.law(laborK, l.Poisson))
		laborGadget.draw(t, l, 1, finding(c.law), func(_ int, sets []int) { c.add(sets[0]) })
		c.check(t, l.Fingerprint()) // edges, and pairs within a destination and across two
	}
}

// TestLaborKeepsVariatesOverHopsAndBatches counts how often an edge is taken at both hops, and in two batches that
// follow each other.
func TestLaborKeepsVariatesOverHopsAndBatches(t *testing.T) {
	one := gadget{{0, 1, 2, 3, 4}}
	const p = 3.0 / 5
	for _, c := range []struct {
		l             Labor
		hops, batches float64 // the probability to be taken twice
	}{
		{Labor{}, p * p, p * p},
		{Labor{LayerDependent: true}, p, p * p},
		{Labor{BatchDependency: 4}, p * p, p*3/4 + p*p/4},
		{Labor{BatchDependency: 2, LayerDependent: true}, p, p/2 + p*p/2},
	} {
		c.l.Fanouts, c.l.Poisson, c.l.Frontier = []int{laborK, laborK}, true, AllNodes
		both := func(q float64) *chances { return newChances([]float64{1 - 2*p + q, p - q, p - q, q}) }
		hops, batches := both(c.hops), both(c.batches)
		var last []int
		i, at := 0, -1
		one.draw(t, c.l, 2, max(finding(hops.law), finding(batches.law)), func(batch int, sets []int) {
			if batch != at {
				i, at = 0, batch
			}
			hops.add(sets[0]&1 | sets[1]&1<<1)
			if batch > 0 {
				batches.add(last[i] | sets[0]&1<<1)
				last[i] = sets[0] & 1
			} else {
				last = append(last, sets[0]&1)
			}
			i++
		})
		hops.check(t, c.l.Fingerprint()+": hops")
		batches.check(t, c.l.Fingerprint()+": batches")
	}
}
