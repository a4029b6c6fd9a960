package gomlx_test

import (
	"slices"
	"strings"
	"testing"

	ml "github.com/gomlx/gomlx/pkg/core/graph"
	mlctx "github.com/gomlx/gomlx/pkg/ml/context"

	"github.com/khop-gnn/khop/integrations/gomlx"
	"github.com/khop-gnn/khop/loader"

	"github.com/khop-gnn/khop/internal/expect"
)

// weightedBatch yields a batch of smallGraph with all that a batch can have, and the loader's own batch for comparison.
func weightedBatch(t *testing.T, check func(b *loader.Batch, y yielded)) {
	t.Helper()
	g := smallGraph(t, 100)
	opt := loader.Options{
		Sampler: neighbor, BatchSize: 16, Columns: loader.ColumnOptions{Edges: []string{"weight"},
			Nodes: []string{"feature", "label"}, Seeds: []string{"label", "feature"}},
	}
	y := epochOf(t, openDataset(t, openLoader(t, g, opt), gomlx.Options{}))[0]
	for b, err := range openLoader(t, g, opt).Epoch(background, 0) {
		expect.OK(t, err)
		check(b, y)
		break
	}
}

// execute runs a function of a batch's inputs in the Go backend.
func execute(t *testing.T, y yielded, f func(b gomlx.Batch) *ml.Node) (result any, err error) {
	t.Helper()
	exec, err := ml.NewExec(backend(), func(inputs []*ml.Node) *ml.Node { return f(gomlx.Unpack(y.spec, inputs)) })
	expect.OK(t, err)
	args := make([]any, len(y.inputs))
	for i := range args {
		args[i] = y.inputs[i]
	}
	out, err := exec.Exec(args...)
	if err != nil {
		return nil, err
	}
	return out[0].Value(), nil
}

func TestLayersComputeOnTheBlocksEdges(t *testing.T) {
	weightedBatch(t, func(b *loader.Batch, y yielded) {
		rows := int(b.Sample.Nodes[0].Len())
		ids := hostInt32(t, b.Sample.Nodes[0])
		for l := range b.Sample.Blocks {
			block := &b.Sample.Blocks[l][0]
			indptr, indices := hostInt32(t, block.Indptr), hostInt32(t, block.Indices)
			values := func(f func(b gomlx.Batch, x *ml.Node) *ml.Node) []float32 {
				result, err := execute(t, y, func(b gomlx.Batch) *ml.Node {
					x := ml.ConvertDType(b.IDs, b.X().DType()) // [nodes]
					for _, layer := range b.Layers[:l] {
						x = layer.Destinations(x)
					}
					return f(b, x)
				})
				expect.OK(t, err)
				return result.([]float32)
			}
			degree := values(func(b gomlx.Batch, x *ml.Node) *ml.Node {
				return ml.ConvertDType(b.Layers[l].Degree(), x.DType())
			})
			sum := values(func(b gomlx.Batch, x *ml.Node) *ml.Node { return b.Layers[l].Sum(b.Layers[l].Messages(x)) })
			mean := values(
				func(b gomlx.Batch, x *ml.Node) *ml.Node { return b.Layers[l].Mean(b.Layers[l].Messages(x)) })
			self := values(func(b gomlx.Batch, x *ml.Node) *ml.Node { return b.Layers[l].Destinations(x) })
			for v := range int(block.NumDst) {
				want, n := float32(0), float32(indptr[v+1]-indptr[v])
				for _, s := range indices[indptr[v]:indptr[v+1]] {
					want += float32(ids[s])
				}
				if degree[v] != n || sum[v] != want || mean[v] != want/max(n, 1) || self[v] != float32(ids[v]) {
					t.Fatalf("layer %d, destination %d: degree %v, sum %v, mean %v, self %v; want %v, %v, %v, %v",
						l, v, degree[v], sum[v], mean[v], self[v], n, want, want/max(n, 1), ids[v])
				}
			}
			// smallGraph's weights say the source, so that they equal the messages, where there are edges.
			same := values(func(b gomlx.Batch, x *ml.Node) *ml.Node {
				layer := b.Layers[l]
				difference := ml.Abs(ml.Sub(layer.Messages(x), ml.Squeeze(layer.Edge("weight"), -1)))
				edges := ml.ConvertDType(layer.EdgeMask(), x.DType())
				return ml.Stack([]*ml.Node{ml.ReduceAllSum(ml.Mul(difference, edges)), ml.ReduceAllSum(edges)}, 0)
			})
			expect.That(t, same[0] == 0 && same[1] == float32(len(indices)),
				"layer %d: weights differ by %v from their sources, over %v of %d edges", l, same[0], same[1],
				len(indices))
			expect.Ensure(t, int(block.NumSrc) == rows, "layer %d has %d sources for %d rows", l, block.NumSrc, rows)
			rows = int(block.NumDst)
		}
	})
}

func TestColumnsAreFoundByName(t *testing.T) {
	weightedBatch(t, func(b *loader.Batch, y yielded) {
		n := int(b.Sample.NumNodes[0][0])
		for what, f := range map[string]func(b gomlx.Batch) *ml.Node{
			"of the nodes": func(b gomlx.Batch) *ml.Node { return b.Node("label") },
			"of the seeds": func(b gomlx.Batch) *ml.Node { return b.Seed("feature") },
			"the features": func(b gomlx.Batch) *ml.Node { return b.X() },
		} {
			result, err := execute(t, y, func(b gomlx.Batch) *ml.Node {
				return ml.ConvertDType(ml.SliceAxis(f(b), 1, ml.AxisElem(0)), b.X().DType())
			})
			expect.OK(t, err)
			first := float32(0)
			if rows := result.([][]float32); what == "of the nodes" {
				first = rows[n-1][0] / 10
			} else {
				first = rows[n-1][0]
			}
			want := float32(hostInt32(t, b.Sample.Nodes[0])[n-1])
			expect.That(t, first == want, "column %s: %v in row %d, want %v", what, first, n-1, want)
		}
	})
}

func TestMisuseOfInputsIsAnErrorOfTheTrainer(t *testing.T) {
	weightedBatch(t, func(_ *loader.Batch, y yielded) {
		for want, model := range map[string]func(ctx *mlctx.Context, spec any, inputs []*ml.Node) []*ml.Node{
			`no column "embedding" among the loader's NodeColumns`: func(_ *mlctx.Context, spec any,
				in []*ml.Node) []*ml.Node {
				return []*ml.Node{gomlx.Unpack(spec, in).Node("embedding")}
			},
			`no column "time" among the loader's EdgeColumns`: func(_ *mlctx.Context, spec any,
				in []*ml.Node) []*ml.Node {
				return []*ml.Node{gomlx.Unpack(spec, in).Layers[1].Edge("time")}
			},
			"which is the labels": func(_ *mlctx.Context, spec any, in []*ml.Node) []*ml.Node {
				return []*ml.Node{gomlx.Unpack(spec, in).Seed("label")}
			},
			"spec is <nil>": func(_ *mlctx.Context, _ any, in []*ml.Node) []*ml.Node {
				return []*ml.Node{gomlx.Unpack(nil, in).X()}
			},
			"pass all that the model was given": func(_ *mlctx.Context, spec any, in []*ml.Node) []*ml.Node {
				return []*ml.Node{gomlx.Unpack(spec, in[1:]).X()}
			},
		} {
			_, err := newTrainer(model).EvalStep(y.spec, y.inputs, y.labels)
			expect.That(t, err != nil && strings.Contains(err.Error(), want), "error %v, want one that says: %s", err,
				want)
		}
	})
}

func TestDatasetsOfEqualColumnsShareACompiledModel(t *testing.T) {
	g := smallGraph(t, 100)
	var specs []any
	for _, columns := range [][]string{nil, {"feature"}, {"label", "feature"}} {
		ld := openLoader(t, g, loader.Options{Sampler: neighbor, Columns: loader.ColumnOptions{Nodes: columns}})
		specs = append(specs, epochOf(t, openDataset(t, ld, gomlx.Options{}))[0].spec)
	}
	expect.That(t, specs[0] == specs[1] && specs[0] != specs[2], "specs %v: the first two alone should be equal", specs)
	if !slices.ContainsFunc(specs, func(s any) bool {
		return s.(gomlx.Spec).String() == "khop layers=2 node=label,feature edge= seed=label"
	}) {
		t.Errorf("specs print as %v", specs)
	}
}
