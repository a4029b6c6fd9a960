//go:build cuda

package oncuda

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// onDevice returns n elements of device memory.
func onDevice[T unified.Element](t *testing.T, stream *device.Stream, at device.Address, n int64) []T {
	t.Helper()
	list := make([]T, n)
	expect.OK(t, errors.Join(stream.CopyToHost(unified.FromSlice(list).Bytes(), at), stream.Synchronize()))
	return list
}

// As many in-edges are copied as fit, and each node that has copies has its own.
func TestHotInEdgesTakeWhatFits(t *testing.T) {
	dev := cudatest.Open(t)
	stream := expect.Must(dev.NewStream())(t)
	defer stream.Close()
	g, memory := graphs.Typed(t, 200, 300), pinned.Options{Device: dev}
	nodes, edges := g.NumNodes(), g.NumEdges()
	var order []int64
	for _, v := range rand.New(rand.NewPCG(52, 0)).Perm(int(nodes)) {
		order = append(order, int64(v))
	}
	ids, types := g.Indices().DType().Size(), g.Types().DType().Size()
	expect.Ensure(t, types == 1 && ids == 4, "a graph of %d edge types", len(g.Schema().Edges))
	for _, room := range []int64{0, 4 * nodes, 4*nodes + (ids+types)*edges/2, 1 << 40} {
		h := expect.Must(newHotAdjacency(t.Context(), stream, g, append(order, order...), room, memory))(t)
		expect.That(t, h.bytes() <= room+int64(3*512) && h.bytes() >= (ids+types)*h.edges,
			"%d bytes: %d nodes with %d edges in %d bytes", room, h.nodes, h.edges, h.bytes())
		expect.That(t, (room == 1<<40) == (h.edges == edges) && (room <= 4*nodes) == (h.bytes() == 0),
			"%d bytes: %d of %d edges", room, h.edges, edges)
		if h.edges > 0 {
			var top sampling.Topology
			h.addTo(&top)
			sameEdges(t, g, onDevice[uint32](t, stream, top.HotStart, nodes),
				onDevice[uint8](t, stream, top.HotIndices, ids*h.edges),
				onDevice[uint8](t, stream, top.HotTypes, types*h.edges))
		}
		expect.OK(t, h.Close())
	}
}

// sameEdges compares copies with what they are of.
func sameEdges(t *testing.T, g *graph.Graph, start []uint32, indices, types []byte) {
	t.Helper()
	for v, at := range start {
		if at == math.MaxUint32 {
			continue
		}
		first, end, from := g.Indptr()[v], g.Indptr()[v+1], int64(at)
		to := from + end - first
		expect.That(t, bytes.Equal(indices[4*from:4*to], g.Indices().Bytes()[4*first:4*end]) &&
			bytes.Equal(types[from:to], g.Types().Bytes()[first:end]), "node %d: other in-edges", v)
	}
}

func TestHotInEdgesOfWhatIsNoGraphAreRefused(t *testing.T) {
	dev := cudatest.Open(t)
	stream := expect.Must(dev.NewStream())(t)
	defer stream.Close()
	g := graphs.Typed(t, 20, 30)
	keep := func(g *graph.Graph, v int64) error {
		_, err := newHotAdjacency(context.Background(), stream, g, []int64{v}, 1<<40, pinned.Options{Device: dev})
		return err
	}
	expect.Is(t, keep(g, g.NumNodes()), graph.ErrSeed, "a node that is none")
	expect.Is(t, keep(graphs.CSC(t, []int64{0, 9, 3}, []int32{0, 0, 0}), 0), sampling.ErrGraph, "a damaged column")
}
