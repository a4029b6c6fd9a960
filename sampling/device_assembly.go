package sampling

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

const (
	deviceThreads     = 256 // a block
	deviceBlockWarps  = deviceThreads / 32
	deviceSpine       = 512                // threads of the kernels that are one block
	maxStamp          = 1<<(64-idBits) - 1 // what the keys of the table have room for
	maxDeviceNodes    = 1 << idBits        // likewise
	maxDeviceTable    = 30                 // bits: a slot is an int32 until it is relabelled
	defaultBlocksOfSM = 8
	bytesOfDst        = 24 // start, degree, ids
	idBits            = 40 // of an id in a key of the table
	timedIDBits       = 63 // the same where times matter: the table is then empty when a batch begins
)

// devicePicker is a picker on a device: kernels that decide which edges a hop follows. pick.cuh has their common code.
// All edge types of a hop go together.
type devicePicker interface {
	// needs says which optional memory its kernels need.
	needs() deviceNeeds
	// describe sets the fan-out and the key of a segment, which is one edge type of a hop. With fan-out 0 it is passed
	// over.
	describe(seg *deviceSegment, r Rand, hop, edgeType int)
	// count puts kernels on the stream that count the picks of a stage (count_picks).
	count(*deviceLaunch) error
	// pick puts kernels on the stream that write the indptr of the stage's blocks and take the edges.
	pick(*deviceLaunch) error
	// close lets go of the kernels. None may be running.
	close() error
}

// deviceNeeds is memory that not every picker needs.
type deviceNeeds struct {
	cells    bool // Batch.scratch: 8 bytes a pick
	eligible bool // Batch.eligible: 8 bytes a destination
}

// deviceOptions are those of an assembly on a device.
type deviceOptions struct {
	frontier Frontier
	disjoint bool // trees are kept apart
	bound    Bound
	// times writes the time of each item of a request, where nodes are looked at as of times.
	times func(req *Request, times []int64) error
}

// deviceAssembly is the assembly on a device (batch.cuh says how a batch goes).
type deviceAssembly struct {
	deviceOptions
	env     DeviceEnv
	picker  devicePicker
	schema  *graph.Schema
	ids     unified.DType // of the graph's arrays
	pos     unified.DType
	kernels *assemblyKernels
	layout  deviceLayout
	blocks  int

	capacity     deviceCapacity
	guess        int64         // edges of a hop that the first batch has room for; 0 once a batch has told their number
	seedRoom     int64         // seeds that the description has room for
	items        int64         // of the batch
	asOf         []int64       // the times of these
	exclusion    excludedEdges // the edges that the batch leaves out
	excluded     []int64       // their positions, ascending
	excludedRoom int64         // of these that the description has room for
	direct       bool          // the table has no keys
	stamp        uint64

	graph    *device.Graph // what a batch puts on the stream
	captured launches      // what graph was made for

	order, begins         []int64 // of the segments of a hop, by source type
	seedOrder, seedBegins []int64

	host        unified.Buffer // the description as it is sent, and the results as they come back
	description []byte
	device      unified.Buffer
	values      unified.Buffer
	keys        unified.Buffer
	numbers     unified.Buffer // of times
	dsts        unified.Buffer
	fresh       unified.Buffer
	cells       unified.Buffer // the picker's scratch
	partials    unified.Buffer

	out   *graph.Sample // in hand
	asked seedCounts    // of it
}

// newDeviceAssembly makes an assembly for a picker of opt.bound.Layers hops, which it closes with itself, but not if it
// fails.
func newDeviceAssembly(env DeviceEnv, p devicePicker, opt deviceOptions) (*deviceAssembly, error) {
	s := env.Graph.Schema()
	w := &deviceAssembly{deviceOptions: opt, env: env, picker: p, schema: s, ids: s.IDType(), pos: s.PosType(),
		blocks: env.MaxBlocks, guess: firstEdges}
	if s.NumNodes() > maxDeviceNodes/w.trees() {
		return nil, fmt.Errorf("%w: %d nodes in each of %d trees, at most 2^40 in all are possible on a device: take "+
			"smaller batches, or the device cpu", ErrOptions, s.NumNodes(), w.trees())
	}
	if w.blocks <= 0 {
		w.blocks = defaultBlocksOfSM * max(env.Device.SMs(), 1)
	}
	w.layout = newDeviceLayout(len(s.Nodes), len(s.Edges), w.bound.Layers, len(env.Topology.Columns))
	w.capacity = newDeviceCapacity(s, &w.bound, w.frontier, env.BatchSize, w.guess)
	w.direct = !w.apart() && directSlots(s.NumNodes(), w.bound.Nodes)
	sources, types := make([]int, len(s.Edges)), make([]int, len(s.Nodes))
	for e := range sources {
		sources[e] = s.Edges[e].Src
	}
	for t := range types {
		types[t] = t
	}
	w.order, w.begins = sourceOrder(len(s.Nodes), sources)
	w.seedOrder, w.seedBegins = sourceOrder(len(s.Nodes), types)
	mem := env.Scratch
	mem.Device, mem.Place = env.Device, pinned.Device
	for _, b := range w.scratch() {
		b.Options = mem
	}
	w.host.Options = mem
	w.host.Options.Place = pinned.Pinned
	var err error
	w.kernels, err = sharedAssemblyKernels.Hold(env.Device, loadAssemblyKernels)
	return w, err
}

// openDeviceAssembly is newDeviceAssembly, and closes the picker if it fails.
func openDeviceAssembly(env DeviceEnv, p devicePicker, opt deviceOptions) (DeviceWorker, error) {
	w, err := newDeviceAssembly(env, p, opt)
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return w, nil
}

// apart says that a node can be in a list several times.
func (w *deviceAssembly) apart() bool { return w.disjoint || w.times != nil }

// trees returns how many trees a batch can have.
func (w *deviceAssembly) trees() int64 {
	if !w.disjoint {
		return 1
	}
	return max(int64(w.env.BatchSize), w.items, 1)
}

// bytesOfDst returns what a destination takes.
func (w *deviceAssembly) bytesOfDst() int64 { return bytesOfDst + 8*bit(w.picker.needs().eligible) }

func (w *deviceAssembly) scratch() []*unified.Buffer {
	return []*unified.Buffer{&w.device, &w.values, &w.keys, &w.numbers, &w.dsts, &w.fresh, &w.cells, &w.partials}
}

func (w *deviceAssembly) Close() error {
	if w.kernels == nil {
		return nil
	}
	var errs []error
	if err := w.giveUp(); !errors.Is(err, device.ErrDeviceLost) { // nothing runs on a lost device
		errs = append(errs, err)
	}
	errs = append(errs, w.dropGraph())
	for _, b := range append(w.scratch(), &w.host) {
		errs = append(errs, b.Close())
	}
	errs = append(errs, sharedAssemblyKernels.LetGo(w.env.Device), w.picker.close())
	w.kernels, w.description, w.out = nil, nil, nil
	return errors.Join(errs...)
}

func (w *deviceAssembly) Enqueue(ctx context.Context, req *Request, out *graph.Sample) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := w.check(req, out); err != nil {
		return err
	}
	if err := w.giveUp(); err != nil {
		return err
	}
	if err := w.findExcluded(req); err != nil {
		return err
	}
	err := w.claim(req, out)
	for w.lessRoom(err, out) {
		err = w.claim(req, out)
	}
	if err != nil {
		return err
	}
	if err := w.findTimes(req); err != nil {
		return err
	}
	w.describe(req, out)
	if err := w.capture(); err != nil {
		return err
	}
	if err := w.env.Stream.LaunchGraph(w.graph); err != nil {
		return err
	}
	w.out = out
	w.asked.of(req)
	return nil
}

// giveUp waits for a batch in hand that nobody finished, whose description and sample are then free.
func (w *deviceAssembly) giveUp() error {
	if w.out == nil {
		return nil
	}
	if err := w.env.Stream.Synchronize(); err != nil {
		return err
	}
	w.out = nil
	return nil
}

func (w *deviceAssembly) check(req *Request, out *graph.Sample) error {
	s := w.schema
	if err := req.check(s, w.bound.Layers, out); err != nil {
		return err
	}
	w.items = req.numItems()
	if len(out.Arrays) != len(w.bound.Arrays) {
		return errArrays(len(out.Arrays), len(w.bound.Arrays))
	}
	if place := out.Buffers.Nodes[0].Options.Placement(); place == pinned.Host {
		return fmt.Errorf("%w: the sample is in %v memory, which the device cannot write", ErrOptions, place)
	}
	for t := range s.Nodes {
		err := req.seeds(s, t, func(ids []int64, _ int) error {
			for i, id := range ids {
				if uint64(id) >= uint64(s.Nodes[t].Count) {
					return s.SeedError(t, i, id)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lessRoom reports whether to try again after an error of too little memory: it gives back what was taken, and guesses
// less for the first batch.
func (w *deviceAssembly) lessRoom(err error, out *graph.Sample) bool {
	if w.guess < leastEdges || !errors.Is(err, pinned.ErrLimit) && !errors.Is(err, device.ErrOutOfMemory) {
		return false
	}
	w.guess /= 8
	w.capacity = newDeviceCapacity(w.schema, &w.bound, w.frontier, w.env.BatchSize, w.guess)
	w.direct = w.direct && 8*w.schema.NumNodes() <= 16<<w.capacity.bits
	for _, b := range w.scratch() {
		if b.Close() != nil {
			return false
		}
	}
	return out.Close() == nil
}

// claim makes the buffers as large as the capacities say.
func (w *deviceAssembly) claim(req *Request, out *graph.Sample) error {
	s, c := w.schema, &w.capacity
	seeds, dsts, picks, seedPicks, cells := int64(0), int64(0), int64(0), int64(0), int64(0)
	for t := range s.Nodes {
		n := req.NumSeeds(s, t)
		c.needNodes(0, t, min(n, c.maxNodes[t]))
		seeds, seedPicks = seeds+n, seedPicks+roundUp32(n)
	}
	for h := range w.bound.Layers {
		dsts, picks = max(dsts, c.dsts(s, h)), max(picks, c.picks(h))
	}
	picks = max(picks, seedPicks)
	if w.picker.needs().cells {
		cells = picks
	}
	w.seedRoom = max(w.seedRoom, seeds, int64(w.env.BatchSize))
	if n := int64(len(w.excluded)); n > w.excludedRoom {
		w.excludedRoom = n + n/4
	}
	size := w.excludedAt() + 8*w.excludedRoom
	mem, err := unified.Grow[uint8](&w.host, size, 0)
	if err != nil {
		return err
	}
	w.description = mem[:size]
	for _, need := range []struct {
		b *unified.Buffer
		n int64
	}{
		{&w.device, size}, {&w.dsts, w.bytesOfDst() * dsts}, {&w.fresh, picks / 8}, {&w.cells, 8 * cells},
		{&w.partials, 8 * (int64(w.blocks)*deviceBlockWarps + int64(len(s.Nodes)))},
	} {
		if err := need.b.Claim(need.n); err != nil {
			return err
		}
	}
	if err := w.claimTable(); err != nil {
		return err
	}
	return w.claimSample(req, out)
}

// claimTable makes the table as large as the capacity says. It starts empty where it moves and where stamps start over.
func (w *deviceAssembly) claimTable() error {
	slots, keys := int64(1)<<w.capacity.bits, int64(1)<<w.capacity.bits
	if w.direct {
		slots, keys = w.schema.NumNodes(), 0
	} else if w.capacity.bits > maxDeviceTable {
		return fmt.Errorf("%w: a batch of %d nodes or more: take smaller batches or fan-outs", ErrOptions,
			int64(1)<<(maxDeviceTable-1))
	}
	if w.times != nil {
		if err := w.claimTimes(slots); err != nil {
			return err
		}
	} else if w.values.Cap() >= 8*slots && w.keys.Cap() >= 8*keys && w.stamp > 0 && w.stamp < maxStamp {
		w.stamp++
		return nil
	}
	w.stamp = 0
	if err := w.values.Claim(8 * slots); err != nil {
		return err
	}
	if err := w.keys.Claim(8 * keys); err != nil {
		return err
	}
	if err := w.env.Stream.Fill32(w.values.Address(), ^uint32(0), 2*slots); err != nil {
		return err
	}
	if err := w.env.Stream.Fill32(w.keys.Address(), 0, 2*keys); err != nil {
		return err
	}
	w.stamp = 1
	return nil
}

// claimTimes makes the table of times as large as the other, and empty.
func (w *deviceAssembly) claimTimes(slots int64) error {
	if (slots+1)*w.trees() > (1<<timedIDBits-1)/max(w.schema.NumNodes(), 1) {
		return fmt.Errorf("%w: %d nodes in %d trees at so many times as a batch may have: take smaller batches, or "+
			"the device cpu", ErrOptions, w.schema.NumNodes(), w.trees())
	}
	if err := w.numbers.Claim(8 * (slots + 1)); err != nil {
		return err
	}
	return w.env.Stream.Fill32(w.numbers.Address(), ^uint32(0), 2*(slots+1))
}

func (w *deviceAssembly) claimSample(req *Request, out *graph.Sample) error {
	s, c, hops := w.schema, &w.capacity, w.bound.Layers
	var failed error
	claim := func(b *unified.Buffer, n int64, of unified.DType) {
		if failed == nil {
			failed = b.Claim(n * of.Size())
		}
	}
	for t := range s.Nodes {
		claim(&out.Buffers.Nodes[t], c.nodes[hops][t], w.ids)
		claim(&out.Buffers.Seeds[t], req.NumSeeds(s, t), unified.Int32)
		if w.disjoint {
			claim(&out.Buffers.Arrays[t], c.nodes[hops][t], unified.Int32)
		}
		if w.times != nil {
			claim(&out.Buffers.Arrays[w.timeArray(t)], c.nodes[hops][t], unified.Int64)
		}
	}
	for layer := range hops {
		h := hops - 1 - layer
		if w.frontier == NewNodes && layer > 0 {
			break // views of layer 0
		}
		for e := range s.Edges {
			nodes, edges := c.nodes[h][s.Edges[e].Dst], c.edges[h][e]
			if w.frontier == NewNodes {
				nodes, edges = last(c.nodes[:hops], s.Edges[e].Dst), last(c.edges, e)
			}
			claim(&out.Buffers.Indptr[layer][e], nodes+1, unified.Int32)
			claim(&out.Buffers.Indices[layer][e], edges, unified.Int32)
			if w.env.EdgePos {
				claim(&out.Buffers.EdgePos[layer][e], edges, w.pos)
			}
		}
	}
	return failed
}

// timeArray returns the number of the array with the times of a node type.
func (w *deviceAssembly) timeArray(t int) int { return t + int(bit(w.disjoint))*len(w.schema.Nodes) }

// at returns where a part of the description is on the device.
func (w *deviceAssembly) at(offset int64) device.Address {
	return w.device.Address() + device.Address(offset)
}

// segment returns the offset of the segment of an edge type at a hop; hop -1 is the seeds, by node type.
func (w *deviceAssembly) segment(hop, i int) int64 {
	n := int64(i)
	if hop >= 0 {
		n += int64(len(w.schema.Nodes) + hop*len(w.schema.Edges))
	}
	return w.layout.segments + n*int64(unsafe.Sizeof(deviceSegment{}))
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
