package oncuda

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// hotAdjacency is a copy of the in-edges of some nodes in device memory, for graphs whose arrays stay in host memory:
// picks among these do not go over the bus. Samples stay the same.
type hotAdjacency struct {
	nodes int64 // that have a copy
	edges int64 // in the copies

	start, indices, types unified.Buffer
}

// maxHotEdges is the greatest start plus one.
const maxHotEdges = math.MaxUint32 - 1

// newHotAdjacency copies the in-edges of nodes, in the given order (fused ids, the hottest first), until bytes of
// device memory are used up; it passes over nodes whose in-edges do not fit. It first takes 4 bytes for each node of
// the graph; if they do not fit, it copies nothing. The stream is used, and waited for, until it returns.
//
// Errors: sampling.ErrGraph for invalid columns, graph.ErrSeed for an id that is not a node, those of the device, the
// context's cause.
func newHotAdjacency(ctx context.Context, stream *device.Stream, g *graph.Graph, order []int64, bytes int64,
	mem pinned.Options) (*hotAdjacency, error) {
	h := &hotAdjacency{}
	mem.Place = pinned.Device
	for _, b := range []*unified.Buffer{&h.start, &h.indices, &h.types} {
		b.Options = mem
	}
	mem.Place = pinned.Pinned
	var staging unified.Buffer
	staging.Options = mem
	err := h.copy(ctx, stream, g, order, bytes, &staging)
	if err = errors.Join(err, staging.Close()); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

func (h *hotAdjacency) copy(ctx context.Context, stream *device.Stream, g *graph.Graph, order []int64, bytes int64,
	staging *unified.Buffer) error {
	n := g.NumNodes()
	idSize, typeSize := g.Indices().DType().Size(), g.Types().DType().Size()
	room := min((bytes-4*n)/(idSize+typeSize), maxHotEdges)
	if room <= 0 {
		return nil
	}
	start, err := unified.Grow[uint32](staging, n, 0)
	if err != nil {
		return err
	}
	start = start[:n]
	chosen, err := h.choose(g, order, start, room)
	if err != nil || h.nodes == 0 {
		return err
	}
	if err := h.start.Claim(4 * n); err != nil {
		return err
	}
	if err := stream.CopyToDevice(h.start.Address(), unified.FromSlice(start).Bytes()); err != nil {
		return err
	}
	if err := stream.Synchronize(); err != nil {
		return err
	}
	if err := h.columns(ctx, stream, g, chosen, g.Indices(), &h.indices, staging); err != nil {
		return err
	}
	if typeSize == 0 {
		return nil
	}
	return h.columns(ctx, stream, g, chosen, g.Types(), &h.types, staging)
}

// choose sets where the copies begin, and returns the nodes that have one, in order.
func (h *hotAdjacency) choose(g *graph.Graph, order []int64, start []uint32, room int64) (chosen []int64, err error) {
	for v := range start {
		start[v] = math.MaxUint32
	}
	indptr := g.Indptr()
	for _, v := range order {
		if uint64(v) >= uint64(len(start)) {
			return nil, fmt.Errorf("%w: node %d of %d", graph.ErrSeed, v, len(start))
		}
		from, to := indptr[v], indptr[v+1]
		if from < 0 || from > to || to > g.NumEdges() {
			return nil, fmt.Errorf("%w: node %d: its edges are %d to %d of %d", sampling.ErrGraph, v, from, to,
				g.NumEdges())
		}
		if from == to || start[v] != math.MaxUint32 || to-from > room-h.edges {
			continue
		}
		start[v] = uint32(h.edges)
		h.edges += to - from
		h.nodes++
		chosen = append(chosen, v)
	}
	return chosen, nil
}

// hotChunk is how many bytes are brought together before they are sent.
const hotChunk = 4 << 20

// columns copies the chosen nodes' part of an edge array to the device.
func (h *hotAdjacency) columns(ctx context.Context, stream *device.Stream, g *graph.Graph, chosen []int64,
	array unified.Tensor, to, staging *unified.Buffer) error {
	size := array.DType().Size()
	if err := to.Claim(h.edges * size); err != nil {
		return err
	}
	buf, err := unified.Grow[uint8](staging, hotChunk, 0)
	if err != nil {
		return err
	}
	used, sent := 0, int64(0)
	flush := func() error {
		if err := stream.CopyToDevice(to.Address()+device.Address(sent), buf[:used]); err != nil {
			return err
		}
		sent, used = sent+int64(used), 0
		return stream.Synchronize()
	}
	for _, v := range chosen {
		for rest := array.Bytes()[g.Indptr()[v]*size : g.Indptr()[v+1]*size]; len(rest) > 0; {
			n := copy(buf[used:], rest)
			rest, used = rest[n:], used+n
			if used < len(buf) {
				break
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// addTo makes samplers use the copies. They must stay open as long as the topology is in use.
func (h *hotAdjacency) addTo(t *sampling.Topology) {
	t.HotStart, t.HotIndices, t.HotTypes = h.start.Address(), h.indices.Address(), h.types.Address()
}

// bytes returns the bytes of device memory that the copies take.
func (h *hotAdjacency) bytes() int64 { return h.start.Cap() + h.indices.Cap() + h.types.Cap() }

// Close frees the copies.
func (h *hotAdjacency) Close() error {
	return errors.Join(h.start.Close(), h.indices.Close(), h.types.Close())
}
