package outside

import (
	"context"
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// kernels of this module, loaded once for each device.
var kernels device.PerDevice[*outsideKernels]

var _ sampling.DeviceSampler = First{}

// deviceWorker is a worker of First on a device.
type deviceWorker struct {
	First
	env     sampling.DeviceEnv
	kernels *outsideKernels
	local   unified.Buffer // on the device: First.local of outside.cu
	counts  unified.Buffer // on the device
	host    unified.Buffer // page-locked: 3 counts, then seeds
	cells   []int64        // of host
	out     *graph.Sample  // in hand
}

// OpenDevice implements sampling.DeviceSampler.
func (s First) OpenDevice(env sampling.DeviceEnv) (_ sampling.DeviceWorker, err error) {
	w := &deviceWorker{First: s, env: env}
	mem := env.Scratch
	mem.Device, mem.Place = env.Device, pinned.Device
	w.local.Options, w.counts.Options = mem, mem
	mem.Place = pinned.Pinned
	w.host.Options = mem
	if w.kernels, err = kernels.Hold(env.Device, loadOutsideKernels); err != nil {
		return nil, err
	}
	err = errors.Join(w.local.Claim(4*env.Graph.NumNodes()), w.counts.Claim(3*8))
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Enqueue implements sampling.DeviceWorker.
func (w *deviceWorker) Enqueue(ctx context.Context, req *sampling.Request, out *graph.Sample) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if req.Edges != nil {
		return fmt.Errorf("%w: seeds that are edges are not sampled here", sampling.ErrOptions)
	}
	if w.out != nil { // a batch that nobody finished
		if err := w.env.Stream.Synchronize(); err != nil {
			return err
		}
		w.out = nil
	}
	seeds, k, stream := req.Seeds[0], int64(w.K), w.env.Stream
	n := int64(len(seeds))
	for i, id := range seeds {
		if uint64(id) >= uint64(w.env.Graph.NumNodes()) {
			return fmt.Errorf("%w: seed %d: node %d of %d", graph.ErrSeed, i, id, w.env.Graph.NumNodes())
		}
	}
	positions, err := w.claim(out, n, k)
	if err != nil {
		return err
	}
	room, err := unified.Grow[int64](&w.host, 3+n, 0)
	if err != nil {
		return err
	}
	w.cells = room[:3+n]
	copy(w.cells[3:], seeds)
	args := deviceFirst{indptr: w.env.Topology.Indptr, indices: w.env.Topology.Indices,
		seeds: w.host.Address() + 3*8, numSeeds: n, k: k, local: w.local.Address(),
		nodes:     out.Buffers.Nodes[0].Address(),
		seedLocal: out.Buffers.Seeds[0].Address(), blockIndptr: out.Buffers.Indptr[0][0].Address(),
		blockIndices: out.Buffers.Indices[0][0].Address(), positions: positions, counts: w.counts.Address()}
	if err := stream.Fill32(w.local.Address(), ^uint32(0), w.env.Graph.NumNodes()); err != nil {
		return err
	}
	if err := w.kernels.outsideFirst.Launch(stream, 1, 32, 0, args); err != nil {
		return err
	}
	w.out = out
	return stream.CopyToHost(unified.FromSlice(w.cells[:3]).Bytes(), w.counts.Address())
}

// claim makes room for all that n seeds with k edges each can need, so that no batch is done twice.
func (w *deviceWorker) claim(out *graph.Sample, n, k int64) (positions device.Address, err error) {
	for _, need := range []struct {
		b *unified.Buffer
		n int64
	}{
		{&out.Buffers.Nodes[0], n + n*k}, {&out.Buffers.Seeds[0], n}, {&out.Buffers.Indptr[0][0], n + 1},
		{&out.Buffers.Indices[0][0], n * k},
	} {
		if err := need.b.Claim(4 * need.n); err != nil {
			return 0, err
		}
	}
	if !w.env.EdgePos {
		return 0, nil
	}
	err = out.Buffers.EdgePos[0][0].Claim(4 * n * k)
	return out.Buffers.EdgePos[0][0].Address(), err
}

// Finish implements sampling.DeviceWorker.
func (w *deviceWorker) Finish(out *graph.Sample) (replay bool, err error) {
	if w.out == nil || w.out != out {
		return false, fmt.Errorf("%w: the batch was not enqueued here", sampling.ErrOptions)
	}
	w.out = nil
	seeds, nodes, edges := w.cells[0], w.cells[1], w.cells[2]
	out.NumNodes[0][0], out.NumNodes[1][0] = seeds, nodes
	b := &out.Blocks[0][0]
	*b = graph.Block{NumSrc: nodes, NumDst: seeds}
	view := func(t *unified.Tensor, from *unified.Buffer, n int64) {
		if err == nil {
			*t, err = from.Tensor(unified.Int32, n)
		}
	}
	view(&out.Nodes[0], &out.Buffers.Nodes[0], nodes)
	view(&out.SeedLocal[0], &out.Buffers.Seeds[0], int64(len(w.cells))-3)
	view(&b.Indptr, &out.Buffers.Indptr[0][0], seeds+1)
	view(&b.Indices, &out.Buffers.Indices[0][0], edges)
	if w.env.EdgePos {
		view(&b.EdgePos, &out.Buffers.EdgePos[0][0], edges)
	}
	return false, err
}

// Close implements sampling.DeviceWorker.
func (w *deviceWorker) Close() (err error) {
	if w.kernels == nil {
		return nil
	}
	if w.out != nil {
		err = w.env.Stream.Synchronize()
	}
	w.kernels = nil
	return errors.Join(err, w.local.Close(), w.counts.Close(), w.host.Close(), kernels.LetGo(w.env.Device))
}
