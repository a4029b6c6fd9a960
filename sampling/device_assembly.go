package sampling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
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

// stageKind is what a stage behind the seeds' does.
type stageKind uint8

const (
	stageHop    stageKind = iota // the picker takes edges of the frontier
	stagePlace                   // the placer draws nodes
	stageInduce                  // all edges between the nodes of the lists are taken
	stageReach                   // the reacher lists edges of the frontier, for the stage behind
)

// deviceOptions are those of an assembly on a device.
type deviceOptions struct {
	frontier Frontier
	disjoint bool // trees are kept apart
	bound    Bound
	stages   []stageKind // nil: as many hops as layers
	hops     *Bound      // of a sample that the blocks of hops go to, where an induced block is what is delivered
	placer   devicePlacer
	reacher  devicePicker   // where a stage before each hop's lists what the picker picks from
	mixes    bool           // the reacher has edges of all types together, by node type
	arrays   []deviceArray  // nil: those of trees and times
	norms    *deviceNorms   // of induced blocks, or nil
	moved    device.Address // Batch.moved
	rawFault bool           // errors of a damaged graph do not name hop and edge type
	excludes bool           // edges can be left out
	// times writes the time of each item of a request, where nodes are looked at as of times.
	times func(req *Request, times []int64) error
	check func(*Request) error // of requests that the sampler refuses, or nil
	// request returns the request that is sampled in place of another one, whose seeds are not delivered then.
	request func(*Request) (*Request, error)
}

// deviceAssembly is the assembly on a device (batch.cuh says how a batch goes).
type deviceAssembly struct {
	deviceOptions
	env     DeviceEnv
	picker  devicePicker
	sender  deviceSender // one of picker and placer, or nil
	schema  *graph.Schema
	ids     unified.DType // of the graph's arrays
	pos     unified.DType
	kernels *assemblyKernels
	induce  *induceKernels  // nil where no stage induces blocks
	exclude *excludeKernels // nil where no edges are left out
	layout  deviceLayout
	blocks  int

	capacity     deviceCapacity
	reach        graph.Sample // what hops make where it is not delivered
	width        int          // segments of a stage, at most
	placed       int64        // nodes that a stage has room to place
	guess        int64        // edges of a hop that the first batch has room for; 0 once a batch has told their number
	seedRoom     int64        // seeds that the description has room for
	items        int64        // of the batch
	numSeeds     int64        // likewise, ends of edges included
	asOf         []int64      // the times of these
	bounded      bool         // these have first times
	exclusion    excludedEdges
	pairs        []deviceLeftOut // ends of the edges that the batch leaves out
	pairRoom     int64           // of these that the description has room for
	excludedRoom int64           // edges that there is room for
	direct       bool            // the table has no keys
	stamp        uint64

	graph    *device.Graph // what a batch puts on the stream
	captured launches      // what graph was made for

	sourceTypes, targetTypes, nodeTypes []int // of edge types, and all types
	hopOf                               []int // [stage]
	sortAt                              int64 // cell of Batch.scratch

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
	reached     unified.Buffer // what stages list
	leftOut     unified.Buffer // where each pair's edges begin, and the edges

	out   *graph.Sample // in hand
	asked seedCounts    // of it

	holds *deviceOpening // kernels, and what lets the device address arrays of the host
}

var sharedAssemblyKernels device.PerDevice[*assemblyKernels]

// newDeviceAssembly makes an assembly for a picker.
func newDeviceAssembly(o *deviceOpening, p devicePicker, opt deviceOptions) *deviceAssembly {
	env := o.DeviceEnv
	s := env.Graph.Schema()
	w := &deviceAssembly{deviceOptions: opt, env: env, picker: p, schema: s, ids: s.IDType(), pos: s.PosType(),
		blocks: env.MaxBlocks, guess: firstEdges, holds: o}
	w.complete()
	if s.NumNodes() > maxDeviceNodes/w.trees() {
		o.fail(fmt.Errorf("%w: %d nodes in each of %d trees, at most 2^40 in all are possible on a device: take "+
			"smaller batches, or the device cpu", ErrOptions, s.NumNodes(), w.trees()))
		return nil
	}
	if w.blocks <= 0 {
		w.blocks = defaultBlocksOfSM * max(env.Device.SMs(), 1)
	}
	own := int64(0)
	if w.sender, _ = p.(deviceSender); w.placer != nil {
		w.sender = w.placer
	}
	if w.sender != nil {
		own = w.sender.ownBytes()
	}
	w.layout = newDeviceLayout(len(s.Nodes), len(s.Edges), len(w.stages), w.width, len(env.Topology.Columns), own)
	w.capacity = w.newCapacity(env.BatchSize, w.guess)
	w.direct = !w.apart() && directSlots(s.NumNodes(), w.bound.Nodes)
	w.order, w.begins = sourceOrder(len(s.Nodes), w.sourceTypes)
	w.seedOrder, w.seedBegins = sourceOrder(len(s.Nodes), w.nodeTypes)
	mem := env.Scratch
	mem.Device, mem.Place = env.Device, pinned.Device
	for _, b := range w.scratch() {
		b.Options = mem
	}
	w.host.Options = mem
	w.host.Options.Place = pinned.Pinned
	if w.hops != nil {
		w.hops.Init(&w.reach, s, mem)
	}
	w.kernels = hold(o, &sharedAssemblyKernels, loadAssemblyKernels)
	if slices.Contains(w.stages, stageInduce) {
		w.induce = hold(o, &sharedInduceKernels, loadInduceKernels)
	}
	if w.excludes {
		w.exclude = hold(o, &sharedExcludeKernels, loadExcludeKernels)
	}
	return w
}

// complete fills in the options that say nothing.
func (w *deviceAssembly) complete() {
	s, hop := w.schema, 0
	for e := range s.Edges {
		w.sourceTypes, w.targetTypes = append(w.sourceTypes, s.Edges[e].Src), append(w.targetTypes, s.Edges[e].Dst)
	}
	for t := range s.Nodes {
		w.nodeTypes = append(w.nodeTypes, t)
	}
	if w.stages == nil {
		w.stages = make([]stageKind, w.bound.Layers)
	}
	if w.arrays == nil {
		for i := range w.bound.Arrays {
			w.arrays = append(w.arrays, deviceArray{at: i % len(w.schema.Nodes)})
		}
	}
	for h := 0; h < len(w.stages); h++ {
		if w.reacher != nil && w.picker != nil && w.stages[h] == stageHop {
			w.stages = slices.Insert(slices.Clone(w.stages), h, stageReach)
			h++
		}
	}
	for h := range w.stages {
		w.width = max(w.width, len(w.targets(h)))
		w.hopOf = append(w.hopOf, hop)
		if w.stages[h] != stageReach {
			hop++
		}
	}
}

// needs says which optional memory the picker needs.
func (w *deviceAssembly) needs() deviceNeeds {
	var n deviceNeeds
	if w.picker != nil {
		n = w.picker.needs()
	}
	if w.reacher != nil {
		of := w.reacher.needs()
		n.cells, n.eligible, n.least = n.cells || of.cells, n.eligible || of.eligible, n.least || of.least
	}
	n.eligible = n.eligible || w.induce != nil
	return n
}

// block returns the sample and the layer whose blocks a stage makes; nil for a stage that makes none.
func (w *deviceAssembly) block(h int, out *graph.Sample) (*graph.Sample, int) {
	switch hops := w.bound.Layers; {
	case w.stages[h] == stagePlace || w.stages[h] == stageReach:
		return nil, 0
	case w.stages[h] == stageInduce:
		return out, 0
	case w.hops != nil:
		out, hops = &w.reach, w.hops.Layers
		fallthrough
	default:
		if w.frontier == NewNodes {
			return out, 0
		}
		return out, hops - 1 - w.hopOf[h]
	}
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
func (w *deviceAssembly) bytesOfDst() int64 { return bytesOfDst + 8*bit(w.needs().eligible) }

func (w *deviceAssembly) scratch() []*unified.Buffer {
	return []*unified.Buffer{&w.device, &w.values, &w.keys, &w.numbers, &w.dsts, &w.fresh, &w.cells, &w.partials,
		&w.reached, &w.leftOut}
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
	errs = append(errs, w.reach.Close(), w.holds.close())
	w.kernels, w.description, w.out = nil, nil, nil
	return errors.Join(errs...)
}

// owns makes the worker close something with itself.
func (w *deviceAssembly) owns(c io.Closer) { w.holds.owned = append(w.holds.owned, c) }

func (w *deviceAssembly) Enqueue(ctx context.Context, req *Request, out *graph.Sample) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := w.checkRequest(req, out); err != nil {
		return err
	}
	if err := w.giveUp(); err != nil {
		return err
	}
	asked := req
	if w.request != nil {
		var err error
		if req, err = w.request(req); err != nil {
			return err
		}
	}
	if err := w.findExcluded(asked); err != nil {
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
	w.asked.of(asked)
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

func (w *deviceAssembly) checkRequest(req *Request, out *graph.Sample) error {
	s := w.schema
	if err := req.check(s, w.bound.Layers, out); err != nil {
		return err
	}
	w.items, w.numSeeds = req.numItems(), w.seeds(req)
	if len(out.Arrays) != len(w.bound.Arrays) {
		return errArrays(len(out.Arrays), len(w.bound.Arrays))
	}
	if place := out.Buffers.Nodes[0].Options.Placement(); place == pinned.Host {
		return fmt.Errorf("%w: the sample is in %v memory, which the device cannot write", ErrOptions, place)
	}
	if w.check != nil {
		if err := w.check(req); err != nil {
			return err
		}
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
	w.capacity = w.newCapacity(w.env.BatchSize, w.guess)
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
	placed := int64(0)
	if w.placer != nil {
		if placed = w.placer.cells(c, seeds); placed > maxDevicePicks/int64(len(s.Nodes)) {
			return errTooManyEdges(placed)
		}
	}
	for h, kind := range w.stages {
		if kind == stagePlace {
			for t := range s.Nodes {
				c.grow(&c.edges[h][t], placed, maxDevicePicks)
			}
		} else {
			dsts = max(dsts, w.stageDsts(h))
		}
		picks = max(picks, c.picks(h))
	}
	picks = max(picks, seedPicks)
	w.placed = placed
	cells = w.cellsOf(placed, picks)
	w.seedRoom = max(w.seedRoom, seeds, int64(w.env.BatchSize))
	if n := int64(len(w.pairs)); n > w.pairRoom {
		w.pairRoom = n + n/4
	}
	w.excludedRoom = max(w.excludedRoom, w.pairRoom)
	size := w.pairsAt() + w.pairRoom*int64(unsafe.Sizeof(deviceLeftOut{}))
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
		{&w.reached, w.reachedBytes()}, {&w.leftOut, 8 * (w.pairRoom + 1 + w.excludedRoom) * min(w.pairRoom, 1)},
		{&w.partials, 8*(int64(w.blocks)*deviceBlockWarps+int64(len(s.Nodes))) + w.needs().hubBytes()},
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

// cellsOf returns the cells of the scratch, for nodes that are placed, with local ids behind them, and for picks.
func (w *deviceAssembly) cellsOf(placed, picks int64) int64 {
	w.sortAt = roundUp32(placed + placed/2)
	cells := w.sortAt
	if w.needs().cells {
		cells = max(cells, picks)
	}
	if p, ok := w.sender.(deviceHoarder); ok {
		cells = max(cells, w.sortAt+p.hoard(&w.capacity))
	}
	return cells
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
		return fmt.Errorf("%w: %d nodes in %d trees, with as many times as a batch may have: take smaller "+
			"batches, or the device cpu", ErrOptions, w.schema.NumNodes(), w.trees())
	}
	if err := w.numbers.Claim(8 * (slots + 1)); err != nil {
		return err
	}
	return w.env.Stream.Fill32(w.numbers.Address(), ^uint32(0), 2*(slots+1))
}

func (w *deviceAssembly) claimSample(req *Request, out *graph.Sample) error {
	s, c, last := w.schema, &w.capacity, len(w.stages)
	var failed error
	claim := func(b *unified.Buffer, n int64, of unified.DType) {
		if failed == nil {
			failed = b.Claim(n * of.Size())
		}
	}
	for t := range s.Nodes {
		claim(&out.Buffers.Nodes[t], c.nodes[last][t], w.ids)
		claim(&out.Buffers.Seeds[t], req.NumSeeds(s, t), unified.Int32)
	}
	for i, a := range w.arrays {
		rows := w.rowsOf(&a, c.nodes[last], c.edges, w.seeds(req))
		claim(&out.Buffers.Arrays[i], rows*w.bound.Arrays[i].Width(), w.arrayType(i))
	}
	for h := len(w.stages) - 1; h >= 0; h-- { // blocks that stages share are as large as the last one's
		to, layer := w.block(h, out)
		if to == nil {
			continue
		}
		for e := range s.Edges {
			nodes, edges := c.nodes[h][s.Edges[e].Dst], c.edges[h][e]
			claim(&to.Buffers.Indptr[layer][e], nodes+1, unified.Int32)
			claim(&to.Buffers.Indices[layer][e], edges, unified.Int32)
			if w.env.EdgePos && to == out {
				claim(&to.Buffers.EdgePos[layer][e], edges, w.pos)
			}
		}
	}
	return cmp.Or(failed, w.claimEmpty(req, out))
}

// at returns where a part of the description is on the device.
func (w *deviceAssembly) at(offset int64) device.Address {
	return w.device.Address() + device.Address(offset)
}

// segment returns the offset of the segment of an edge type at a hop; hop -1 is the seeds, by node type.
func (w *deviceAssembly) segment(hop, i int) int64 {
	n := int64(i)
	if hop >= 0 {
		n += int64(len(w.schema.Nodes) + hop*w.width)
	}
	return w.layout.segments + n*int64(unsafe.Sizeof(deviceSegment{}))
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
