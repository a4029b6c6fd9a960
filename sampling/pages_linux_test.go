package sampling

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

const testPage = 4096

// hiddenPages are arrays that cannot be read but for the pages that were brought: any other read is a fault.
type hiddenPages struct {
	t      *testing.T
	arrays [][]byte
	sizes  []int64
	wanted [][2]int64 // array and page
	left   int        // calls of Bring before the one that fails
	fail   error      // of that
}

// hide returns a copy of an array that is hidden from the first call of conceal on.
func (p *hiddenPages) hide(x unified.Tensor) unified.Tensor {
	if len(x.Bytes()) == 0 {
		return x
	}
	n := (len(x.Bytes()) + testPage - 1) / testPage * testPage
	b := expect.Must(unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON))(p.t)
	p.t.Cleanup(func() { _ = unix.Munmap(b) })
	copy(b, x.Bytes())
	p.arrays, p.sizes = append(p.arrays, b), append(p.sizes, int64(len(x.Bytes()))/x.Len())
	return expect.Must(unified.New(x.DType(), b[:len(x.Bytes())], x.Shape()...))(p.t)
}

func (p *hiddenPages) protect(b []byte, how int) {
	expect.OK(p.t, unix.Mprotect(b, how))
}

func (p *hiddenPages) conceal() {
	for _, b := range p.arrays {
		p.protect(b, unix.PROT_NONE)
	}
}

func (p *hiddenPages) reveal() {
	for _, b := range p.arrays {
		p.protect(b, unix.PROT_READ)
	}
}

func (p *hiddenPages) Array(x unified.Tensor) int {
	for i, b := range p.arrays {
		if len(x.Bytes()) > 0 && &b[0] == &x.Bytes()[0] {
			return i
		}
	}
	return -1
}

func (p *hiddenPages) Want(array int, from, to int64) {
	for page := from * p.sizes[array] / testPage; page*testPage < to*p.sizes[array] && from < to; page++ {
		p.wanted = append(p.wanted, [2]int64{int64(array), page})
	}
}

func (p *hiddenPages) Bring() error {
	for _, w := range p.wanted {
		p.protect(p.arrays[w[0]][w[1]*testPage:][:testPage], unix.PROT_READ)
	}
	p.wanted = p.wanted[:0]
	if p.left--; p.left == -1 {
		return p.fail
	}
	return nil
}

// hiddenGraph returns a graph of some edge types whose arrays are hidden pages.
func hiddenGraph(t *testing.T, types int) (*graph.Graph, *hiddenPages) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, uint64(types)))
	const nodes, edges = 20_000, 60_000
	born := make([]int64, nodes)
	for i := range born {
		born[i] = r.Int64N(50)
	}
	columns := map[string]unified.Tensor{"born": unified.FromSlice(born)}
	d := graph.Data{Nodes: []graph.NodeData{{Name: "a", Count: nodes, Columns: columns}}}
	if types == 3 {
		d.Nodes = append(d.Nodes, graph.NodeData{Name: "b", Count: nodes, Columns: columns})
	}
	for i := range types {
		e := graph.EdgeData{Source: "a", Relation: string(rune('r' + i)), Target: "a"}
		switch {
		case types == 3 && i == 1: // to the second type and back
			e.Source = "b"
		case types == 3 && i == 2:
			e.Target = "b"
		}
		w, m, s := make([]float32, edges), make([]uint8, edges), make([]int64, edges)
		for k := range edges {
			e.Src, e.Dst = append(e.Src, r.Int64N(nodes)), append(e.Dst, min(r.Int64N(nodes), r.Int64N(nodes)))
			w[k], m[k], s[k] = r.Float32(), uint8(r.IntN(3)), r.Int64N(50)
		}
		e.Columns = map[string]unified.Tensor{"w": unified.FromSlice(w), "m": unified.FromSlice(m),
			"t": unified.FromSlice(s)}
		d.Edges = append(d.Edges, e)
	}
	g := graphs.New(t, d)
	p := &hiddenPages{t: t}
	a := graphs.ArraysOf(g)
	a.Indptr, a.Indices = p.hide(a.Indptr), p.hide(a.Indices)
	if types > 1 {
		a.Types = p.hide(a.Types)
	}
	for name, x := range a.EdgeColumns {
		a.EdgeColumns[name] = p.hide(x)
	}
	return graphs.Of(t, a), p
}

var samplersFromDisk = map[string]Sampler{
	"uniform":   Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes},
	"all":       Neighbor{Fanouts: []int{-1, 2}, Frontier: AllNodes},
	"many":      Neighbor{Fanouts: []int{2, 700}, Frontier: AllNodes, Replace: true},
	"new nodes": Neighbor{Fanouts: []int{3, 3, 2}, Frontier: NewNodes},
	"disjoint":  Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes, Disjoint: true},
	"weighted":  Neighbor{Fanouts: []int{2, 2}, Frontier: AllNodes, Weight: "w"},
	"masked":    Neighbor{Fanouts: []int{2, 2}, Frontier: AllNodes, Mask: "m", Share: 0.5},
	"in time": Neighbor{Fanouts: []int{2, 2}, Frontier: AllNodes, Time: Temporal{Edge: "t", Recent: true,
		AsOf: new(int64)}},
	"born in time": Neighbor{Fanouts: []int{2, 2}, Frontier: AllNodes, Time: Temporal{Node: "born",
		AsOf: &[]int64{25}[0]}},
	"together": Neighbor{Fanouts: []int{2, 2}, Frontier: AllNodes, Together: true},
	"induced":  Neighbor{Fanouts: []int{2, 2}, Frontier: AllNodes, Induced: true},
	"labor":    Labor{Fanouts: []int{1, 1}, Frontier: AllNodes},
	"poisson":  Labor{Fanouts: []int{1, 1}, Frontier: AllNodes, Poisson: true},
	"hgt":      HGT{Nodes: []int{6, 5}},
	"fastgcn":  FastGCN{Nodes: []int{6, 5}},
	"ladies":   Ladies{Nodes: []int{6, 5}, Weight: "w"},
	"shadow":   Shadow{Fanouts: []int{2, 2}},
	"subgraph": Induced{},
	"saint":    Saint{Kind: SaintNodes, Budget: 9},
	"walk":     Walk{Length: 6, PerSeed: 2, Edges: true},
	"metapath": Walk{Metapath: []string{"r"}, Length: 4, Restart: 0.1},
	"node2vec": Node2Vec{Length: 4, P: 0.5, Q: 2},
	"pinsage":  PinSage{Neighbors: 3, Length: 2, Walks: 4, As: "r"},
	"ppr":      PPR{Neighbors: 3, Epsilon: 0.05, As: "r"},
	"rows":     Sequence{Of: Neighbor{Fanouts: []int{3, 2}}, Length: 5},
	"rows of picks": Sequence{Of: Neighbor{Fanouts: []int{4}, Mask: "m", Time: Temporal{Edge: "t",
		AsOf: &[]int64{25}[0]}}, Length: 5, SeedFirst: true},
	"rows of scores": Sequence{Of: PPR{Epsilon: 0.05, As: "r"}, Length: 3},
	"outsider's":     outsider{},
}

// outsider is a sampler like those of other modules.
type outsider struct{ Neighbor }

func (outsider) Describe(s *graph.Schema, n int) (Description, error) {
	return Description{Bound: BoundFanout(s, n, 1, 2)}, nil
}

type outsidersWorker struct{ *Assembler }

func (o outsider) Open(env Env) (Worker, error) {
	a, err := NewAssembler(env, AllNodes, boundOf(o, env.Graph.Schema(), env.BatchSize))
	return outsidersWorker{a}, err
}

func (w outsidersWorker) Sample(ctx context.Context, req *Request, out *graph.Sample) error {
	return w.Assembler.Sample(ctx, req, out, func(d *Destination, picks []int64) []int64 {
		if d.First < d.Last {
			picks = append(picks, d.Last-1)
		}
		return picks
	})
}

// A sampler has brought what it reads, before it reads it, and makes the batch that it makes of arrays in memory.
func TestSamplersBringWhatTheyReadFromDisk(t *testing.T) {
	for types := 1; types <= 3; types++ {
		g, pages := hiddenGraph(t, types)
		for name, k := range samplersFromDisk {
			expect.Ensure(t, validate(k, g.Schema()) == nil, "%s: %v", name, validate(k, g.Schema()))
			pages.reveal()
			for number := range uint64(2) {
				d := sameFromDisk(t, g, pages, k, number)
				expect.That(t, d == "", "%s, %d edge types, batch %d: %s", name, types, number, d)
			}
		}
	}
}

// sameFromDisk makes a batch of arrays in memory, and again of hidden ones. It returns how they differ.
func sameFromDisk(t *testing.T, g *graph.Graph, pages *hiddenPages, k Sampler, number uint64) (different string) {
	pages.reveal()
	env := Env{Graph: g, BatchSize: 4}
	prepared := expect.Must(Prepare(context.Background(), k, env))(t)
	req := requestFromDisk(g, k, number)
	var made [2]string
	for i := range made {
		if i == 1 {
			env.Pages = pages
		}
		w := expect.Must(prepared.Open(env))(t)
		out := sampleOf(g, k, 4)
		if i == 1 {
			pages.conceal()
		}
		err := pinned.Guard(func() error { return w.Sample(context.Background(), req, out) })
		pages.reveal()
		if err != nil {
			different = err.Error()
		} else {
			made[i] = arraysOf(out)
		}
		expect.OK(t, errors.Join(w.Close(), out.Close()))
	}
	if different == "" && made[0] != made[1] {
		different = "another batch"
	}
	return different
}

// requestFromDisk asks for the batch of a number: of seeds far apart, or of the item of that number.
func requestFromDisk(g *graph.Graph, k Sampler, number uint64) *Request {
	req := &Request{Seeds: make([][]int64, len(g.Schema().Nodes)), Rand: NewRand(5, 0, 0, number)}
	req.Seeds[0] = []int64{7, 3, 15_000, 511}
	if d, _ := k.Describe(g.Schema(), 4); d.Items != nil {
		req.Seeds[0], req.Items = nil, []int64{int64(number)}
	}
	return req
}

func arraysOf(s *graph.Sample) string {
	var all bytes.Buffer
	for _, x := range s.Nodes {
		all.Write(x.Bytes())
	}
	for _, layer := range s.Blocks {
		for i := range layer {
			for _, x := range []unified.Tensor{layer[i].Indptr, layer[i].Indices, layer[i].EdgePos} {
				all.Write(x.Bytes())
			}
		}
	}
	for _, a := range s.Arrays {
		all.Write(a.Rows.Bytes())
	}
	return all.String()
}

// A disk that fails ends the batch with its error, in whatever step that was, and the next batch goes on.
func TestADiskThatFailsEndsTheBatch(t *testing.T) {
	g, pages := hiddenGraph(t, 2)
	broken := errors.New("broken")
	for name, k := range samplersFromDisk {
		pages.reveal()
		env := Env{Graph: g, BatchSize: 4, Pages: pages}
		prepared := expect.Must(Prepare(context.Background(), k, env))(t)
		w := expect.Must(prepared.Open(env))(t)
		out := sampleOf(g, k, 4)
		req := requestFromDisk(g, k, 1)
		for calls, more := 0, true; more; calls++ {
			pages.left, pages.fail = calls, broken
			err := w.Sample(context.Background(), req, out)
			if more = pages.left < 0; more != errors.Is(err, broken) {
				t.Fatalf("%s: %v where the disk fails after %d calls, %d left", name, err, calls, pages.left)
			}
		}
		expect.OK(t, errors.Join(w.Close(), out.Close()))
	}
}

// Positions beyond 2^31 are int64. The sources are pages that are never written, so they take no memory.
func TestEdgesBeyondTheRangeOfInt32AreDelivered(t *testing.T) {
	const first, edges = 1<<31 - 10, 1<<31 + 1000
	zeros, err := unix.Mmap(-1, 0, 4*edges, unix.PROT_READ, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	expect.OK(t, err)
	defer unix.Munmap(zeros)
	indices := expect.Must(unified.New(unified.Int32, zeros, edges))(t)
	g := graphs.Of(t, graph.Arrays{
		Schema: graph.Schema{Nodes: []graph.NodeType{{Name: "node", Count: 2}},
			Edges: []graph.EdgeType{{Source: "node", Relation: "edge", Target: "node", Count: edges}}},
		Indptr: unified.FromSlice([]int64{0, first, edges}), Indices: indices,
	})
	runs := edgeRuns{}
	for pos := int64(first); pos < edges; pos++ {
		runs[[2]int64{1, 0}] = append(runs[[2]int64{1, 0}], pos)
	}
	walksOverWideEdges(t, g)
	for _, n := range []Neighbor{{Fanouts: []int{All}}, {Fanouts: []int{600}}, {Fanouts: []int{7}, Replace: true},
		{Fanouts: []int{5, 0}, Frontier: NewNodes}, {Fanouts: []int{5}, Disjoint: true}} {
		w := expect.Must(n.Open(Env{Graph: g, BatchSize: 2, EdgePos: true}))(t)
		req := &Request{Seeds: [][]int64{{1, 1}}, Rand: NewRand(3, 0, 0, 0)}
		compare(t, n.Fingerprint(), g, w, req, oracle(g, runs, n, req))
		expect.OK(t, w.Close())
	}
}

// walksOverWideEdges compares the positions of walks' edges, which are int64 there.
func walksOverWideEdges(t *testing.T, g *graph.Graph) {
	t.Helper()
	k := Walk{Length: 3, Edges: true}
	w := expect.Must(k.Open(Env{Graph: g, BatchSize: 2}))(t)
	defer w.Close()
	out := sampleOf(g, k, 2)
	defer out.Close()
	req := &Request{Seeds: [][]int64{{1}}, Rand: NewRand(3, 0, 0, 0)}
	expect.OK(t, w.Sample(context.Background(), req, out))
	var want []int64
	draws := rng.Stream(rng.StageKey(req.Rand.key, 0, rng.Walk, 0), 1)
	for i := range uint64(3) { // from node 1 to node 0, and around there
		from := g.Indptr()[max(0, 1-int64(i))]
		degree := g.Indptr()[max(0, 1-int64(i))+1] - from
		want = append(want, from+int64(rng.Bounded(rng.Draw(draws, i), uint64(degree))))
	}
	got, err := unified.View[int64](out.Arrays[1].Rows)
	expect.That(t, err == nil && slices.Equal(got, want), "edges %v, want %v: %v", got, want, err)
}
