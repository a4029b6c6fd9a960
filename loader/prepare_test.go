package loader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// TestPreparedBlocksComeWithTheBatch: transposes and norms of every block, in the batches that come without them.
func TestPreparedBlocksComeWithTheBatch(t *testing.T) {
	g := graphs.Plain(t, 200, 6)
	for what, s := range map[string]sampling.Sampler{
		"neighbours": sampling.Neighbor{Fanouts: []int{3, 2}, Frontier: sampling.AllNodes},
		"views":      sampling.Neighbor{Fanouts: []int{3, 2}, Frontier: sampling.NewNodes},
		"turned":     sampling.Neighbor{Fanouts: []int{2}, Direction: sampling.Out},
		"items":      sampling.Saint{Kind: sampling.SaintNodes, Budget: 30},
	} {
		opt := loader.Options{Sampler: s, BatchSize: 16, Seeds: loader.AllNodes(), Seed: 4, Workers: 2,
			Device: loader.DeviceOptions{Name: "cpu"}}
		if d, _ := s.Describe(g.Schema(), 1); d.Items != nil {
			opt.Seeds = loader.SeedSource{}
		}
		var bare []uint64
		l := open(t, g, opt)
		for b, err := range l.Epoch(background, 0) {
			expect.Ensure(t, err == nil, "%s: %v", what, err)
			bare = append(bare, blocksOf(b))
		}
		opt.Columns.Prepare = loader.Transpose | loader.GCNNorm
		p := open(t, g, opt)
		expect.That(t, p.CheckState(l.State(0, 0)) != nil, "%s: the states are equal", what)
		checkMost(t, what, p)
		n := 0
		for b, err := range p.Epoch(background, 0) {
			expect.Ensure(t, err == nil, "%s: %v", what, err)
			expect.That(t, blocksOf(b) == bare[n], "%s: batch %d has other blocks", what, n)
			n++
			for layer := range b.Sample.Blocks {
				checkPrepared(t, what, p, b, layer)
			}
		}
		opt.Columns.Prepare |= loader.Loops
		loops := open(t, g, opt)
		checkMost(t, what, loops)
		checkLoops(t, what, loops)
		expect.That(t, n == len(bare) && n != 0, "%s: %d batches, not %d", what, n, len(bare))
	}
	if _, err := loader.New(g, loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{2}},
		Columns: loader.ColumnOptions{Prepare: 8}}); !errors.Is(
		err, loader.ErrOptions) {
		t.Errorf("an unknown preparation: %v", err)
	}
	_, err := loader.New(graphs.Typed(t, 9, 9), loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{2}},
		Columns: loader.ColumnOptions{Prepare: loader.Loops}, Seeds: loader.AllNodes(),
		Device: loader.DeviceOptions{Name: "cpu"}})
	expect.Says(t, err, loader.ErrOptions, "nodes of one type", "loops from users to items")
}

// checkMost compares the most rows of prepared arrays with those of the nodes and edges that they are of.
func checkMost(t *testing.T, what string, l *loader.Loader) {
	t.Helper()
	most, seen := map[string]int64{}, 0
	for _, a := range l.Arrays() {
		most[a.Name] = a.Most
	}
	nodes, edges := most["nodes/"+l.Schema().Nodes[0].Name], int64(0)
	for layer := range 2 { // a layer may be a view of another
		edges = max(edges, most[fmt.Sprintf("block/%d/%s/indices", layer, g0(l))])
	}
	for name, n := range most {
		of, part, _ := strings.Cut(strings.TrimPrefix(name, "sample/"), "/")
		want := edges
		if _, loops := most["sample/loops/0/"+g0(l)+"/indptr"]; loops {
			want += nodes
		}
		switch part = part[strings.LastIndex(part, "/")+1:]; {
		case of != "loops" && of != "transpose" && of != "gcn_norm":
			continue
		case part == "indptr":
			want = nodes + 1
		}
		if seen++; n != want || nodes == 0 || edges == 0 {
			t.Errorf("%s: %s has %d rows at most, want %d (%d nodes, %d edges)", what, name, n, want, nodes, edges)
		}
	}
	expect.That(t, seen != 0, "%s: nothing is prepared", what)
}

// checkLoops compares prepared matrices with those that are made of the blocks.
func checkLoops(t *testing.T, what string, l *loader.Loader) {
	t.Helper()
	for b, err := range l.Epoch(background, 0) {
		expect.Ensure(t, err == nil, "%s: %v", what, err)
		for layer := range b.Sample.Blocks {
			block := &b.Sample.Blocks[layer][0]
			got, err := sparse.Prepared(block, func(name string) unified.Tensor {
				of, part, more := strings.Cut(name, "/")
				path := fmt.Sprintf("sample/%s/%d/%s", of, layer, g0(l))
				if more {
					path += "/" + part
				}
				i := expect.Must(l.Find(path))(t)
				return b.Array(i)
			})
			expect.Ensure(t, err == nil, "%s: %v", what, err)
			plain, _ := sparse.Block(block)
			want, err := plain.WithLoops()
			if err != nil || got.Edges() != want.Edges() ||
				!bytes.Equal(got.GCNNorm().Bytes(), want.GCNNorm().Bytes()) ||
				!slices.Equal(got.TransposeOrder(), want.TransposeOrder()) {
				t.Fatalf("%s, layer %d: other edges or norms (%v)", what, layer, err)
			}
		}
	}
}

// blocksOf returns a number that depends on the nodes and blocks of a batch.
func blocksOf(b *loader.Batch) (sum uint64) {
	add := func(t unified.Tensor) {
		for _, v := range t.Bytes() {
			sum = sum*1099511628211 + uint64(v) + 1
		}
	}
	add(b.Sample.Nodes[0])
	for l := range b.Sample.Blocks {
		add(b.Sample.Blocks[l][0].Indptr)
		add(b.Sample.Blocks[l][0].Indices)
	}
	return sum
}

func checkPrepared(t *testing.T, what string, l *loader.Loader, b *loader.Batch, layer int) {
	t.Helper()
	array := func(name string) unified.Tensor {
		i := expect.Must(l.Find("sample/" + strings.Replace(name, "L", string(rune('0'+layer)), 1)))(t)
		return b.Array(i)
	}
	name := g0(l)
	indptr, _ := unified.View[int32](array("transpose/L/" + name + "/indptr"))
	indices, _ := unified.View[int32](array("transpose/L/" + name + "/indices"))
	edges, _ := unified.View[int32](array("transpose/L/" + name + "/edges"))
	norm, _ := unified.View[float32](array("gcn_norm/L/" + name))
	block := &b.Sample.Blocks[layer][0]
	ptr, _ := unified.View[int32](block.Indptr)
	columns, _ := unified.View[int32](block.Indices)
	expect.Ensure(t, int64(len(indptr)) == block.NumSrc+1 && len(edges) == len(columns) && len(norm) == len(columns),
		"%s: %d, %d, %d of %d sources and %d edges", what, len(indptr), len(edges), len(norm), block.NumSrc,
		len(columns))
	seen := 0
	for j := range block.NumSrc {
		for k := indptr[j]; k < indptr[j+1]; k++ {
			e, i := edges[k], indices[k]
			degrees := float64(ptr[i+1]-ptr[i]) * float64(indptr[j+1]-indptr[j])
			if int64(columns[e]) != j || e < ptr[i] || e >= ptr[i+1] || k > indptr[j] && edges[k-1] >= e ||
				norm[e] != float32(1/math.Sqrt(degrees)) {
				t.Fatalf("%s, layer %d: edge %d of source %d leads to %d, with norm %v", what, layer, e, j, i, norm[e])
			}
			seen++
		}
	}
	expect.That(t, seen == len(columns), "%s: %d edges of %d", what, seen, len(columns))
}

// g0 names the only edge type.
func g0(l *loader.Loader) string { return l.Schema().Edges[0].String() }

// Without a partition the batches are those of the one that StreamPartition makes.
func TestClustersHaveAPartitionByDefault(t *testing.T) {
	g := graphs.Plain(t, 3000, 4)
	of, _ := expect.Must2(graph.StreamPartition(context.Background(), g, graph.PartitionOptions{Parts: 3}))(t)
	opt := loader.Options{Sampler: sampling.Cluster{PerBatch: 2, Partition: of}, Shuffle: true}
	want := digests(t, open(t, g, opt).Epoch(background, 1))
	opt.Sampler = sampling.Cluster{PerBatch: 2}
	l := open(t, g, opt)
	said := expect.Must(opt.Sampler.Describe(g.Schema(), 0))(t)
	var got []string
	for b := range each(t, l.Epoch(background, 1)) {
		got = append(got, digestOf(b))
		checkBound(t, b, opt.Sampler, said.Bound)
	}
	d := expect.Diff(want, got)
	expect.That(t, d == "" && len(got) == 2, "%d batches: %s", len(got), d)
}

// What looks at the whole graph before the first batch says how far it is.
func TestPreparationReportsItsProgress(t *testing.T) {
	g := graphs.Columns(t, 1, 300, 900)
	negatives := sampling.Negatives{Ratio: 1, Law: sampling.ByDegree}
	for _, opt := range []loader.Options{{Sampler: sampling.FastGCN{Nodes: []int{5}}}, {Sampler: sampling.Cluster{}},
		{Sampler: sampling.Saint{Kind: sampling.SaintWalks, Budget: 9, Coverage: 3}},
		{Sampler: sampling.Neighbor{Fanouts: []int{2}, Direction: sampling.Both}},
		{Sampler: neighbor, Seeds: loader.AllEdges(), Links: loader.LinkOptions{Negatives: negatives}}} {
		calls := 0
		opt.Hooks.Progress = func(stage string, done, total int64) {
			if stage != "prepare" {
				return
			}
			if calls++; done < 0 || done > total || total == 0 {
				t.Errorf("%s: %d of %d", opt.Sampler.Fingerprint(), done, total)
			}
		}
		open(t, g, opt)
		expect.That(t, calls != 0, "%s with %v reports nothing", opt.Sampler.Fingerprint(), opt.Links.Negatives)
	}
}

// Blocks that cannot be prepared are an error with layer and batch; the sampler's own error stays as it is.
func TestBlocksThatCannotBePreparedAreAnError(t *testing.T) {
	g := graphs.Plain(t, 100, 3)
	beyond := block(func(b *graph.Block) {
		v, _ := unified.View[int32](b.Indices)
		v[0] = int32(b.NumSrc)
	})
	for _, what := range []loader.Preparation{loader.Transpose, loader.GCNNorm, loader.Loops,
		loader.Loops | loader.Transpose} {
		for _, fails := range []int{1, 0} {
			opt := loader.Options{Sampler: cycle{}, BatchSize: 7, Workers: 1,
				Device: loader.DeviceOptions{Name: "cpu"}, Columns: loader.ColumnOptions{Prepare: what}}
			if fails > 0 {
				opt.Sampler = cycle{spoil: beyond}
			}
			err := lastError(open(t, g, opt).Epoch(background, 0))
			if (err != nil) != (fails > 0) || err != nil && (!errors.Is(err, loader.ErrSampler) ||
				!strings.HasPrefix(err.Error(), "epoch 0, batch 0: layer 0: ")) {
				t.Errorf("%v: %v", what, err)
			}
		}
	}
	f := &faults{point: "sample", left: 9}
	l := open(t, g, loader.Options{Sampler: faulty{neighbor, f}, BatchSize: 7, Workers: 1,
		Columns: loader.ColumnOptions{Prepare: loader.Transpose}})
	if err := lastError(l.Epoch(background, 0)); !errors.Is(err, errFault) || strings.Contains(err.Error(), "layer") {
		t.Errorf("%v", err)
	}
	n := len(digests(t, l.Epoch(background, 0)))
	expect.That(t, n == 8, "%d batches", n)
	typed, s := graphs.Typed(t, 9, 9), sampling.Neighbor{Fanouts: []int{2}}
	_, err := loader.New(typed, loader.Options{Sampler: s, Columns: loader.ColumnOptions{Prepare: loader.Loops},
		Seeds:  loader.AllNodes(),
		Device: loader.DeviceOptions{Name: "cpu"}})
	want := fmt.Sprintf(": Columns.Prepare: loops are for edges between nodes of one type, and %s leads elsewhere",
		typed.Schema().Edges[0])
	expect.That(t, errors.Is(err, loader.ErrOptions) && strings.HasSuffix(err.Error(), want), "%v, want %s", err, want)
	for _, what := range []loader.Preparation{8, 255} {
		o := loader.Options{Sampler: s, Columns: loader.ColumnOptions{Prepare: what}}
		expect.That(t, o.EnsureDefaults().Validate() != nil, "%d is taken", what)
	}
	l = open(t, g, loader.Options{Sampler: s, Columns: loader.ColumnOptions{Prepare: loader.Transpose}})
	l = open(t, g, l.Options())
	expect.Same(t, l.Options().Sampler.Fingerprint(), s.Fingerprint())
	expect.Same(t, l.Answer().Sampler.Fingerprint(), s.Fingerprint()+" prepare=1")
}
