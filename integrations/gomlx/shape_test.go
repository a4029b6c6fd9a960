package gomlx_test

import (
	"context"
	"fmt"
	"math/bits"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/pkg/core/tensors"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/gomlx"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
)

func hostInt32(t testing.TB, x unified.Tensor) []int32 {
	t.Helper()
	return expect.Must(unified.View[int32](x))(t)
}

// The inputs of a dataset of smallGraph with two layers and the edge column "weight", by place.
const (
	ids = iota
	feature
	mask
	layer0
	layer1    = layer0 + perLayer
	numInputs = layer1 + perLayer
)

// Within a layer.
const (
	source = iota
	target
	dstMask
	weight
	perLayer
)

func TestTensorsHoldTheBatchAndPadding(t *testing.T) {
	g := smallGraph(t, 100)
	for _, frontier := range []sampling.Frontier{sampling.AllNodes, sampling.NewNodes} {
		for _, pad := range []gomlx.Pad{gomlx.PowerOfTwo, gomlx.Maximum} {
			t.Run(fmt.Sprintf("frontier=%v/%v", frontier, pad), func(t *testing.T) {
				opt := loader.Options{
					Sampler:   sampling.Neighbor{Fanouts: []int{3, 2}, Frontier: frontier},
					BatchSize: 16, Shuffle: true, Columns: loader.ColumnOptions{Edges: []string{"weight"}},
				}
				batches := epochOf(t, openDataset(t, openLoader(t, g, opt), gomlx.Options{Pad: pad}))
				i := 0
				for b, err := range openLoader(t, g, opt).Epoch(background, 0) {
					expect.OK(t, err)
					checkBatch(t, b, batches[i])
					i++
				}
				expect.That(t, i == len(batches), "%d batches, want the loader's %d", len(batches), i)
			})
		}
	}
}

// checkBatch compares a batch's tensors with the loader's batch.
func checkBatch(t *testing.T, b *loader.Batch, y yielded) {
	t.Helper()
	expect.Ensure(t, len(y.inputs) == numInputs && len(y.labels) == 2, "%d inputs and %d labels, want %d and 2",
		len(y.inputs), len(y.labels), numInputs)
	n := int(b.Sample.Nodes[0].Len())
	checkRows(t, "ids", flat[int32](t, y.inputs[ids]), hostInt32(t, b.Sample.Nodes[0]))
	x := expect.Must(unified.View[float32](b.X()))(t)
	checkRows(t, "features", flat[float32](t, y.inputs[feature]), x)
	checkMask(t, "nodes", y.inputs[mask], n)
	rows := y.inputs[feature].Shape().Dimensions[0]
	expect.That(t, rows > n, "%d rows for %d nodes: there is no dump row", rows, n)
	for l, at := range []int{layer0, layer1} {
		block := &b.Sample.Blocks[l][0]
		in := y.inputs[at : at+perLayer]
		checkMask(t, fmt.Sprint("destinations of layer ", l), in[dstMask], int(block.NumDst))
		dstRows := in[dstMask].Shape().Size()
		expect.That(t, dstRows > int(block.NumDst) && dstRows <= rows,
			"layer %d: %d rows for %d destinations, of %d sources", l, dstRows, block.NumDst, rows)
		indices, indptr := hostInt32(t, block.Indices), hostInt32(t, block.Indptr)
		src, dst := flat[int32](t, in[source]), flat[int32](t, in[target])
		expect.That(t, slices.IsSorted(dst), "layer %d: targets %v do not ascend", l, dst)
		for e := range src {
			want := [2]int32{int32(rows - 1), int32(dstRows - 1)} // from dump row to dump row
			if e < len(indices) {
				want[0] = indices[e]
				v, _ := slices.BinarySearch(indptr, int32(e+1)) // the first v with indptr[v] > e
				want[1] = int32(v - 1)
			}
			got := [2]int32{src[e], dst[e]}
			expect.Ensure(t, got == want, "layer %d, edge %d of %d: %v, want %v", l, e, len(indices), got, want)
		}
		w := expect.Must(unified.View[float32](b.Edge(l, 0, "weight")))(t)
		checkRows(t, fmt.Sprint("weights of layer ", l), flat[float32](t, in[weight]), w)
		rows = dstRows
	}
	label := expect.Must(unified.View[int64](b.Y()))(t)
	checkRows(t, "labels", flat[int64](t, y.labels[0]), label)
	checkMask(t, "seeds", y.labels[1], len(label))
	if want := []int{16 + 1, 1}; !reflect.DeepEqual(y.labels[0].Shape().Dimensions, want) {
		t.Errorf("labels are %v, want %v", y.labels[0].Shape(), want)
	}
}

func checkRows[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	expect.Ensure(t, len(got) >= len(want) && slices.Equal(got[:len(want)], want), "%s are %v, want %v and padding",
		what, got, want)
	var zero T
	for i, v := range got[len(want):] {
		expect.Ensure(t, v == zero, "%s: padding %d is %v, want %v", what, i, v, zero)
	}
}

func checkMask(t *testing.T, what string, m *tensors.Tensor, n int) {
	t.Helper()
	for i, v := range flat[bool](t, m) {
		expect.Ensure(t, v == (i < n), "%s: mask[%d] is %t, of %d", what, i, v, n)
	}
}

// shapesOf returns the distinct combinations of shapes, in order.
func shapesOf(batches []yielded) (distinct []string) {
	for _, y := range batches {
		s := ""
		for _, x := range slices.Concat(y.inputs, y.labels) {
			s += x.Shape().String()
		}
		if !slices.Contains(distinct, s) {
			distinct = append(distinct, s)
		}
	}
	return distinct
}

func TestShapesArePowersOfTwoThatSettle(t *testing.T) {
	ds := openDataset(t, openLoader(t, smallGraph(t, 2000), loader.Options{Sampler: neighbor, BatchSize: 20,
		Shuffle: true}), gomlx.Options{})
	var batches []yielded
	for range 3 {
		batches = append(batches, epochOf(t, ds)...)
		ds.Reset()
	}
	for _, y := range batches {
		// ids, sources, targets, mask, sources, targets: without the weight column
		for _, i := range []int{0, 3, 4, 5, 6, 7} {
			n := y.inputs[i].Shape().Dimensions[0]
			expect.Ensure(t, bits.OnesCount(uint(n)) == 1, "input %d has %d rows: no power of two", i, n)
		}
		n := y.labels[0].Shape().Dimensions[0]
		expect.Ensure(t, n == 21, "%d rows of labels, want the batch size and a dump row", n)
	}
	if n := len(shapesOf(batches)); n > 6 {
		t.Errorf("%d combinations of shapes in %d batches:\n%s", n, len(batches), strings.Join(shapesOf(batches), "\n"))
	}
	n := len(shapesOf(batches[len(batches)/3:]))
	expect.That(t, n == 1, "%d combinations of shapes after the first epoch", n)
}

func TestMaximumHasOneShape(t *testing.T) {
	for _, s := range []sampling.Neighbor{
		{Fanouts: []int{3, 2}}, {Fanouts: []int{3, 2}, Frontier: sampling.NewNodes}, {Fanouts: []int{sampling.All, 2}},
		{Fanouts: []int{4}, Replace: true}, {Fanouts: []int{0, 2}}, {Fanouts: []int{3, 0}},
		{Fanouts: []int{2, 2, 2}, Frontier: sampling.NewNodes},
	} {
		ds := openDataset(t, openLoader(t, smallGraph(t, 300), loader.Options{Sampler: s, BatchSize: 20,
			Shuffle: true}), gomlx.Options{Pad: gomlx.Maximum})
		all := shapesOf(epochOf(t, ds))
		expect.That(t, len(all) == 1, "%s: %d combinations of shapes", s.Fingerprint(), len(all))
	}
}

// endlessBound says that it may make more than fits.
type endlessBound struct{ sampling.Neighbor }

func (e endlessBound) Describe(s *graph.Schema, n int) (sampling.Description, error) {
	d, err := e.Neighbor.Describe(s, n)
	d.Bound.Blocks, d.Bound.Edges = nil, 1<<40
	return d, err
}

// broken is a sampler that spoils what another made.
type broken struct {
	sampling.Neighbor
	spoil func(*graph.Block)
}

type brokenWorker struct {
	sampling.Worker
	broken
}

func (b broken) Open(env sampling.Env) (sampling.Worker, error) {
	w, err := b.Neighbor.Open(env)
	return brokenWorker{w, b}, err
}

func (w brokenWorker) Sample(ctx context.Context, req *sampling.Request, out *graph.Sample) error {
	err := w.Worker.Sample(ctx, req, out)
	if err == nil {
		w.spoil(&out.Blocks[len(out.Blocks)-1][0])
	}
	return err
}

func TestASampleThatContradictsItselfIsAnError(t *testing.T) {
	g := smallGraph(t, 400)
	for what, spoil := range map[string]func(*graph.Block){
		"a source beyond the list": func(b *graph.Block) { hostInt32(t, b.Indices)[2] = int32(b.NumSrc) },
		"a negative source":        func(b *graph.Block) { hostInt32(t, b.Indices)[2] = -1 },
		"more sources than nodes":  func(b *graph.Block) { b.NumSrc = 1 << 20 },
		"edges that go backwards":  func(b *graph.Block) { hostInt32(t, b.Indptr)[3] = -5 },
		"edges beyond the list":    func(b *graph.Block) { hostInt32(t, b.Indptr)[3] = 1 << 20 },
		"edges of nobody before":   func(b *graph.Block) { hostInt32(t, b.Indptr)[0] = 1 },
		"edges of nobody after": func(b *graph.Block) {
			p := hostInt32(t, b.Indptr)
			for i := range p {
				p[i] = 0
			}
		},
		"a destination too few": func(b *graph.Block) {
			b.NumDst--
			b.Indptr, _ = b.Indptr.Rows(0, b.NumDst+1)
		},
	} {
		t.Run(what, func(t *testing.T) {
			ds := openDataset(t, openLoader(t, g, loader.Options{Sampler: broken{neighbor, spoil}, BatchSize: 16}),
				gomlx.Options{})
			expect.Says(t, expect.Err(next(ds)), gomlx.ErrBatch, "epoch 0, batch 0")
		})
	}
}

func TestAGraphWithoutEdgesOrColumnsIsFed(t *testing.T) {
	g := graphs.New(t, graph.Data{Nodes: []graph.NodeData{{Count: 10}}, Edges: []graph.EdgeData{{}}})
	for _, pad := range []gomlx.Pad{gomlx.PowerOfTwo, gomlx.Maximum} {
		batches := epochOf(t, openDataset(t, openLoader(t, g, loader.Options{Sampler: neighbor, BatchSize: 4}),
			gomlx.Options{Pad: pad}))
		expect.Ensure(t, len(batches) == 3 && len(batches[0].labels) == 0, "%v: %d batches, %d labels", pad,
			len(batches), len(batches[0].labels))
		got := flat[int32](t, batches[2].inputs[0])
		expect.That(t, slices.Equal(got, []int32{8, 9, 0, 0, 0}), "%v: ids %v", pad, got)
	}
}

func TestRepeatedSeedsHaveOneRow(t *testing.T) {
	ds := openDataset(t, openLoader(t, smallGraph(t, 40), loader.Options{
		Sampler: neighbor, BatchSize: 4, Seeds: loader.NodeIDs([]int32{7, 3, 7, 7}),
	}), gomlx.Options{})
	got := epochOf(t, ds)[0].ids(t)
	expect.That(t, slices.Equal(got, []int64{7, 3}), "seeds %v, want 7 and 3", got)
}

// A yielded tensor is the caller's: what comes later, and freeing it, touches nothing else.
func TestSameEpochYieldsTheSameBatchesAgainAndTheyBelongToTheCaller(t *testing.T) {
	ld := openLoader(t, smallGraph(t, 400), loader.Options{Sampler: neighbor, BatchSize: 8, Shuffle: true})
	ds := openDataset(t, ld, gomlx.Options{After: gomlx.SameEpoch, Epoch: 5, Pad: gomlx.Maximum})
	kept := epochOf(t, ds)
	ds.Reset()
	for i, y := range epochOf(t, ds) {
		before := slices.Concat(kept[i].inputs, kept[i].labels)
		for k, x := range slices.Concat(y.inputs, y.labels) {
			expect.Ensure(t, before[k].Equal(x), "batch %d, tensor %d is another the second time", i, k)
			x.MustFinalizeAll()
		}
	}
	s, _ := ds.State()
	expect.Same(t, s.Epoch, uint64(5), "epoch")
}
