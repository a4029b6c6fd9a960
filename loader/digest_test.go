package loader_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// array is a named array as docs/digest.md has it.
type array struct {
	name, dtype string
	shape       []int64
	data        []byte
}

func ids(name string, t unified.Tensor) array {
	a := array{name: name, dtype: "int64", shape: []int64{t.Len()}}
	for i := range t.Len() {
		id := int64(0)
		if t.DType() == unified.Int32 {
			id = int64(int32(binary.LittleEndian.Uint32(t.Bytes()[4*i:])))
		} else {
			id = int64(binary.LittleEndian.Uint64(t.Bytes()[8*i:]))
		}
		a.data = binary.LittleEndian.AppendUint64(a.data, uint64(id))
	}
	return a
}

// arraysOf lists a batch's arrays as docs/digest.md words it; columns only if full.
func arraysOf(g *graph.Graph, b *loader.Batch, full bool) (list []array) {
	s, p := g.Schema(), b.Sample
	counts := array{name: "num_nodes", dtype: "int64", shape: []int64{int64(len(p.NumNodes)), int64(len(s.Nodes))}}
	for _, row := range p.NumNodes {
		for _, n := range row {
			counts.data = binary.LittleEndian.AppendUint64(counts.data, uint64(n))
		}
	}
	list = append(list, counts)
	col := func(name string, t unified.Tensor) {
		if full && t.Valid() {
			list = append(list, array{name, t.DType().String(), t.Shape(), t.Bytes()})
		}
	}
	for t, nt := range s.Nodes {
		list = append(list, ids("nodes/"+nt.Name, p.Nodes[t]), ids("seeds/"+nt.Name, p.SeedLocal[t]))
		for _, c := range nt.Columns {
			col("node/"+nt.Name+"/"+c.Name, b.Node(t, c.Name))
			col("seed/"+nt.Name+"/"+c.Name, b.Seed(t, c.Name))
		}
	}
	for l := range p.Blocks {
		for e, et := range s.Edges {
			block, name := &p.Blocks[l][e], fmt.Sprintf("%d/%s:%s:%s", l, et.Source, et.Relation, et.Target)
			list = append(list, ids("block/"+name+"/indptr", block.Indptr),
				ids("block/"+name+"/indices", block.Indices))
			if block.EdgePos.Valid() {
				list = append(list, ids("block/"+name+"/edge_pos", block.EdgePos))
			}
			for _, c := range s.EdgeColumns {
				col("edge/"+name+"/"+c.Name, b.Edge(l, e, c.Name))
			}
		}
	}
	for e, et := range s.Edges {
		l, name := b.Links(e), "link/"+et.String()
		if l == nil || len(l.Items) == 0 {
			continue
		}
		counts := []int64{int64(len(l.Items)), int64(len(l.Sources) - len(l.Items)), l.Missed}
		list = append(list, ids(name+"/counts", unified.FromSlice(counts)), ids(name+"/label",
			unified.FromSlice(l.Labels)), ids(name+"/group", unified.FromSlice(l.Group)))
		if len(l.Times) > 0 {
			list = append(list, ids(name+"/time", unified.FromSlice(l.Times)))
		}
	}
	return list
}

func hashArrays(list []array) uint64 {
	sort.Slice(list, func(i, j int) bool { return list[i].name < list[j].name })
	var all []byte
	u64 := func(n int) { all = binary.LittleEndian.AppendUint64(all, uint64(n)) }
	for _, a := range list {
		u64(len(a.name))
		all = append(all, a.name...)
		u64(len(a.dtype))
		all = append(all, a.dtype...)
		u64(len(a.shape))
		for _, d := range a.shape {
			u64(int(d))
		}
		all = append(all, a.data...)
	}
	return xxh3.Hash(all)
}

func TestDigestIsTheHashOfTheArraysByName(t *testing.T) {
	for _, c := range []struct {
		g   *graph.Graph
		opt loader.Options
	}{
		{graphs.Plain(t, 900, 5), loader.Options{BatchSize: 300}},
		{graphs.Plain(t, 200, 5), loader.Options{Columns: loader.ColumnOptions{EdgePos: true},
			Sampler: sampling.Neighbor{Fanouts: slices.Repeat([]int{1}, 12)}}},
		{graphs.Typed(t, 60, 40), loader.Options{Columns: loader.ColumnOptions{Edges: []string{"stars"},
			Nodes: []string{"label", "feature"}}}},
		{graphs.Typed(t, 60, 40), loader.Options{Seeds: loader.AllNodes("item")}},
		{graphs.Typed(t, 60, 40), loader.Options{Times: loader.IgnoreTimes, Seeds: loader.AllEdges("rates"),
			Links: loader.LinkOptions{Time: "stars", Negatives: sampling.Negatives{Ratio: 0.5}}}},
	} {
		if c.opt.Sampler == nil {
			c.opt.Sampler = neighbor
		}
		l := open(t, c.g, c.opt)
		for b := range each(t, l.Epoch(background, 0)) {
			topology, full := b.Digest()
			want := hashArrays(arraysOf(c.g, b, false))
			expect.That(t, topology == want, "topology %016x, want %016x", topology, want)
			want = hashArrays(arraysOf(c.g, b, true))
			expect.That(t, full == want, "full %016x, want %016x", full, want)
		}
	}
}

// checkBound demands that a batch is within what its sampler said of it: memory limits are kept against that.
func checkBound(t *testing.T, b *loader.Batch, s sampling.Sampler, bound sampling.Bound) {
	t.Helper()
	nodes := int64(0)
	for _, n := range b.Sample.NumNodes[bound.Layers] {
		nodes += n
	}
	edges := int64(0)
	for layer := range b.Sample.Blocks {
		for e := range b.Sample.Blocks[layer] {
			n := b.Sample.Blocks[layer][e].NumEdges()
			if b.Sample.ViewOf[layer] != layer { // a view of layer 0
				continue
			}
			if edges += n; n > bound.Blocks[layer][e] {
				t.Errorf("%s: block %d, %d has %d edges, bound %v", s.Fingerprint(), layer, e, n, bound.Blocks)
			}
		}
	}
	expect.That(t, nodes <= bound.Nodes && edges <= bound.Edges, "%s: %d nodes and %d edges, bound %+v",
		s.Fingerprint(), nodes, edges, bound)
}

// digestsWithBreaks sets those of digests that belong to the loader's rank, from batch first on. It leaves some loops
// and resumes there.
func digestsWithBreaks(t *testing.T, r *rand.Rand, l *loader.Loader, epoch, first uint64, digests []string) {
	t.Helper()
	at := l.Options().Rank
	seq := l.Range(background, epoch, first, 1<<62)
	for seq != nil {
		var next func(func(*loader.Batch, error) bool)
		for b := range each(t, seq) {
			digests[at] = digestOf(b)
			at += l.Options().WorldSize
			if r.IntN(5) == 0 {
				next = l.Resume(background, b.State())
				break
			}
		}
		seq = next
	}
}

// suit makes options fit their sampler, which it returns.
func suit(t *testing.T, o *loader.Options, g *graph.Graph) sampling.Sampler {
	t.Helper()
	if c, ok := o.Sampler.(sampling.Cluster); ok {
		of := make([]int32, g.NumNodes())
		for v := range of {
			of[v] = int32(v * 7 % 11)
		}
		c.Partition = expect.Must(graph.NewPartition(of, 11))(t)
		o.Sampler = c
	}
	if d, _ := o.Sampler.Describe(g.Schema(), 1); d.Items != nil {
		o.Seeds = loader.SeedSource{}
		o.Shuffle = o.Shuffle && !d.Items.InOrder
	}
	of := o.Sampler
	if k, is := of.(sampling.Sequence); is {
		of, o.Columns.EdgePos, o.Columns.Edges = k.Of, false, nil
	}
	switch of.(type) {
	case sampling.PinSage, sampling.PPR:
		o.Columns.EdgePos, o.Columns.Edges, o.Seeds = false, nil, loader.AllNodes(g.Schema().Nodes[0].Name)
	}
	return o.Sampler
}
