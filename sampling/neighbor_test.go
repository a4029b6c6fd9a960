package sampling

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// citesGraph is plainGraph with a second edge type that has no edges, so that the first one's key counts.
func citesGraph(t testing.TB, indptr []int64, indices []int32) *graph.Graph {
	t.Helper()
	return graphs.Of(t, graph.Arrays{
		Schema: graph.Schema{
			Nodes: []graph.NodeType{{Name: "paper", Count: int64(len(indptr) - 1)}},
			Edges: []graph.EdgeType{
				{Source: "paper", Relation: "cites", Target: "paper", Count: int64(len(indices))},
				{Source: "paper", Relation: "quotes", Target: "paper"},
			},
		},
		Indptr: unified.FromSlice(indptr), Indices: unified.FromSlice(indices),
		Types: unified.FromSlice(make([]uint8, len(indices))),
	})
}

// sampleOnce opens a worker, samples, and leaves the sample to the test.
func sampleOnce(t testing.TB, g *graph.Graph, n Neighbor, req *Request, edgePos bool) *graph.Sample {
	t.Helper()
	out := new(graph.Sample)
	batch := 0
	for t := range req.Seeds {
		batch += int(req.NumSeeds(g.Schema(), t))
	}
	w := expect.Must(n.Open(Env{Graph: g, BatchSize: batch, EdgePos: edgePos}))(t)
	defer w.Close()
	bound := boundOf(n, g.Schema(), batch)
	bound.Init(out, g.Schema(), pinned.Options{})
	t.Cleanup(func() { out.Close() })
	expect.OK(t, w.Sample(context.Background(), req, out))
	return out
}

type hex64 uint64

func (h *hex64) UnmarshalJSON(b []byte) error {
	text, err := strconv.Unquote(string(b))
	if err != nil {
		return err
	}
	v, err := strconv.ParseUint(text, 0, 64)
	*h = hex64(v)
	return err
}

func TestNeighborMakesTheKnownBatches(t *testing.T) {
	raw := expect.Must(os.ReadFile("../internal/rng/testdata/vectors.json"))(t)
	var known struct {
		Graph struct {
			Indptr  []int64
			Indices []int32
		}
		Batches []struct {
			T, Seed, Batch  hex64
			Epoch, Instance uint32
			Seeds           []int64
			Fanouts         []int
			Replace         bool
			SeedLocal       []int32 `json:"seed_local"`
			Nodes           []int32
			Blocks          []struct {
				Indptr  []int32
				Src     []int32
				EdgePos []int32 `json:"edge_pos"`
				NumDst  int64   `json:"num_dst"`
				NumSrc  int64   `json:"num_src"`
			}
		}
	}
	expect.OK(t, json.Unmarshal(raw, &known))
	expect.Ensure(t, len(known.Batches) != 0, "no known batches")
	for i, k := range known.Batches {
		g := graphs.CSC(t, known.Graph.Indptr, known.Graph.Indices)
		if k.T != 0 {
			g = citesGraph(t, known.Graph.Indptr, known.Graph.Indices)
		}
		r := NewRand(uint64(k.Seed), k.Epoch, k.Instance, uint64(k.Batch))
		out := sampleOnce(t, g, Neighbor{Fanouts: k.Fanouts, Frontier: AllNodes, Replace: k.Replace},
			&Request{Seeds: [][]int64{k.Seeds}, Rand: r}, true)
		for h, want := range k.Blocks {
			b := &out.Blocks[len(k.Blocks)-1-h][0]
			equal(t, fmt.Sprintf("batch %d hop %d indptr", i, h), b.Indptr, want.Indptr)
			equal(t, fmt.Sprintf("batch %d hop %d sources", i, h), b.Indices, want.Src)
			equal(t, fmt.Sprintf("batch %d hop %d positions", i, h), b.EdgePos, want.EdgePos)
			expect.That(t, b.NumDst == want.NumDst && b.NumSrc == want.NumSrc, "batch %d hop %d: %d x %d, want %d x %d",
				i, h, b.NumDst, b.NumSrc, want.NumDst, want.NumSrc)
		}
		nodes, _ := unified.View[int32](out.Nodes[0])
		equal(t, fmt.Sprintf("batch %d nodes", i), unified.FromSlice(nodes[:len(k.Nodes)]), k.Nodes)
		equal(t, fmt.Sprintf("batch %d seeds", i), out.SeedLocal[0], k.SeedLocal)
	}
}

func equal[T unified.Element](t *testing.T, what string, got unified.Tensor, want []T) {
	t.Helper()
	v, err := unified.View[T](got)
	expect.Ensure(t, err == nil, "%s: %v", what, err)
	expect.Ensure(t, len(v) == len(want), "%s: %d elements %v, want %d %v", what, len(v), v, len(want), want)
	for i := range v {
		if v[i] != want[i] {
			t.Fatalf("%s: element %d is %v, want %v", what, i, v[i], want[i])
		}
	}
}
