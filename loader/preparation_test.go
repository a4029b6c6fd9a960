package loader_test

import (
	"context"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

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
	for b, err := range l.Epoch(background, 1) {
		expect.OK(t, err)
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
