package loader_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

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
