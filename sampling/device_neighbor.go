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
	deviceSpine       = 512       // threads of the kernels that are one block
	maxStamp          = 1<<24 - 1 // what the keys of the table have room for
	maxDeviceNodes    = 1 << 40   // likewise
	maxDeviceTable    = 30        // bits: a slot is an int32 until it is relabelled
	defaultBlocksOfSM = 8
	bytesOfDst        = 24 // start, degree, ids
)

var _ DeviceSampler = Neighbor{}

// deviceNeighbor runs Neighbor on a device (batch.cuh says how a batch goes). All edge types of a hop go together.
type deviceNeighbor struct {
	env     DeviceEnv
	opt     Neighbor
	schema  *graph.Schema
	plan    plan
	ids     unified.DType // of the graph's arrays
	pos     unified.DType
	kernels *deviceKernels
	layout  deviceLayout
	blocks  int
	has     struct{ all, large bool } // fan-outs that take every edge, or more than a warp has lanes

	capacity deviceCapacity
	guess    int64 // edges of a hop that the first batch has room for; 0 once a batch has said how many there are
	seedRoom int64 // seeds that the description has room for
	direct   bool  // the table has no keys
	stamp    uint64

	graph    *device.Graph // what a batch puts on the stream
	captured launches      // what graph was made for

	order, begins         []int64 // of the segments of a hop, by source type
	seedOrder, seedBegins []int64

	host        unified.Buffer // the description as it is sent, and the results as they come back
	description []byte
	device      unified.Buffer
	values      unified.Buffer
	keys        unified.Buffer
	dsts        unified.Buffer
	fresh       unified.Buffer
	subsets     unified.Buffer
	partials    unified.Buffer

	out *graph.Sample // in hand
}

// launches is what the launches of a batch depend on.
type launches struct {
	device   device.Address
	host     *uint8
	size     int
	capacity int // how often it changed
}

// OpenDevice implements DeviceSampler.
func (n Neighbor) OpenDevice(env DeviceEnv) (DeviceWorker, error) {
	s := env.Graph.Schema()
	if err := n.Validate(s); err != nil {
		return nil, err
	}
	if s.NumNodes() > maxDeviceNodes {
		return nil, fmt.Errorf("%w: %d nodes, at most 2^40 are possible on a device", ErrOptions, s.NumNodes())
	}
	p, err := newPlan(s, n.Fanouts, n.PerType)
	if err != nil {
		return nil, err
	}
	w := &deviceNeighbor{env: env, opt: n, schema: s, plan: p, ids: s.IDType(), pos: s.PosType(), blocks: env.MaxBlocks}
	if w.blocks <= 0 {
		w.blocks = defaultBlocksOfSM * max(env.Device.SMs(), 1)
	}
	w.layout = newDeviceLayout(len(s.Nodes), len(s.Edges), len(p))
	w.guess = firstEdges
	w.capacity = newDeviceCapacity(s, p, n, env.BatchSize, w.guess)
	w.direct = directSlots(s.NumNodes(), n.Bound(s, env.BatchSize).Nodes)
	for _, fanouts := range p {
		for _, k := range fanouts {
			w.has.all = w.has.all || k == All
			w.has.large = w.has.large || k > 32 && !n.Replace
		}
	}
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
	if w.kernels, err = sharedKernels.Hold(env.Device, loadDeviceKernels); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *deviceNeighbor) scratch() []*unified.Buffer {
	return []*unified.Buffer{&w.device, &w.values, &w.keys, &w.dsts, &w.fresh, &w.subsets, &w.partials}
}

// Close implements DeviceWorker.
func (w *deviceNeighbor) Close() error {
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
	errs = append(errs, sharedKernels.LetGo(w.env.Device))
	w.kernels, w.description, w.out = nil, nil, nil
	return errors.Join(errs...)
}

// Enqueue implements DeviceWorker.
func (w *deviceNeighbor) Enqueue(ctx context.Context, req *Request, out *graph.Sample) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := w.check(req, out); err != nil {
		return err
	}
	if err := w.giveUp(); err != nil {
		return err
	}
	err := w.claim(req, out)
	for w.lessRoom(err, out) {
		err = w.claim(req, out)
	}
	if err != nil {
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
	return nil
}

// giveUp waits for a batch in hand that nobody finished, whose description and sample are then free.
func (w *deviceNeighbor) giveUp() error {
	if w.out == nil {
		return nil
	}
	if err := w.env.Stream.Synchronize(); err != nil {
		return err
	}
	w.out = nil
	return nil
}

func (w *deviceNeighbor) check(req *Request, out *graph.Sample) error {
	s := w.schema
	if len(req.Seeds) != len(s.Nodes) || len(out.Blocks) != len(w.plan) {
		return fmt.Errorf("%w: request of %d node types, sample of %d layers; must be %d and %d", ErrOptions,
			len(req.Seeds), len(out.Blocks), len(s.Nodes), len(w.plan))
	}
	if place := out.NodeBuffer(0).Options.Placement(); place == pinned.Host {
		return fmt.Errorf("%w: the sample is in %v memory, which the device cannot write", ErrOptions, place)
	}
	for t, seeds := range req.Seeds {
		for i, id := range seeds {
			if uint64(id) >= uint64(s.Nodes[t].Count) {
				return s.SeedError(t, i, id)
			}
		}
	}
	return nil
}

// lessRoom makes the guess for the first batch smaller, and gives back what was taken, where an error says that there
// is not so much memory. It returns whether to try again.
func (w *deviceNeighbor) lessRoom(err error, out *graph.Sample) bool {
	if w.guess < leastEdges || !errors.Is(err, pinned.ErrLimit) && !errors.Is(err, device.ErrOutOfMemory) {
		return false
	}
	w.guess /= 8
	w.capacity = newDeviceCapacity(w.schema, w.plan, w.opt, w.env.BatchSize, w.guess)
	w.direct = w.direct && 8*w.schema.NumNodes() <= 16<<w.capacity.bits
	for _, b := range w.scratch() {
		if b.Close() != nil {
			return false
		}
	}
	return out.Close() == nil
}

// claim makes the buffers as large as the capacities say.
func (w *deviceNeighbor) claim(req *Request, out *graph.Sample) error {
	s, c, hops := w.schema, &w.capacity, len(w.plan)
	seeds := int64(0)
	for t, ids := range req.Seeds {
		c.needNodes(0, t, min(int64(len(ids)), s.Nodes[t].Count))
		seeds += int64(len(ids))
	}
	dsts, picks, seedPicks := int64(0), int64(0), int64(0)
	for h := range hops {
		dsts, picks = max(dsts, c.dsts(s, h)), max(picks, c.picks(h))
	}
	for t := range req.Seeds {
		seedPicks += roundUp32(int64(len(req.Seeds[t])))
	}
	picks = max(picks, seedPicks)
	subsets := int64(0)
	if w.has.large {
		subsets = picks
	}
	w.seedRoom = max(w.seedRoom, seeds, int64(w.env.BatchSize))
	size := w.layout.size + 8*w.seedRoom
	mem, err := unified.Grow[uint8](&w.host, size, 0)
	if err != nil {
		return err
	}
	w.description = mem[:size]
	for _, need := range []struct {
		b *unified.Buffer
		n int64
	}{
		{&w.device, size}, {&w.dsts, bytesOfDst * dsts}, {&w.fresh, picks / 8}, {&w.subsets, 8 * subsets},
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
func (w *deviceNeighbor) claimTable() error {
	slots, keys := int64(1)<<w.capacity.bits, int64(1)<<w.capacity.bits
	if w.direct {
		slots, keys = w.schema.NumNodes(), 0
	} else if w.capacity.bits > maxDeviceTable {
		return fmt.Errorf("%w: a batch of %d nodes or more: take smaller batches or fan-outs", ErrOptions,
			int64(1)<<(maxDeviceTable-1))
	}
	if w.values.Cap() >= 8*slots && w.keys.Cap() >= 8*keys && w.stamp > 0 && w.stamp < maxStamp {
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

func (w *deviceNeighbor) claimSample(req *Request, out *graph.Sample) error {
	s, c, hops := w.schema, &w.capacity, len(w.plan)
	claim := func(b *unified.Buffer, n int64, of unified.DType) error { return b.Claim(n * of.Size()) }
	for t := range s.Nodes {
		if err := claim(out.NodeBuffer(t), c.nodes[hops][t], w.ids); err != nil {
			return err
		}
		if err := claim(out.SeedBuffer(t), int64(len(req.Seeds[t])), unified.Int32); err != nil {
			return err
		}
	}
	for layer := range hops {
		h := hops - 1 - layer
		if w.opt.Frontier == NewNodes && layer > 0 {
			break // views of layer 0
		}
		for e := range s.Edges {
			nodes, edges := c.nodes[h][s.Edges[e].Dst], c.edges[h][e]
			if w.opt.Frontier == NewNodes {
				nodes, edges = last(c.nodes[:hops], s.Edges[e].Dst), last(c.edges, e)
			}
			if err := claim(out.IndptrBuffer(layer, e), nodes+1, unified.Int32); err != nil {
				return err
			}
			if err := claim(out.IndicesBuffer(layer, e), edges, unified.Int32); err != nil {
				return err
			}
			if !w.env.EdgePos {
				continue
			}
			if err := claim(out.EdgePosBuffer(layer, e), edges, w.pos); err != nil {
				return err
			}
		}
	}
	return nil
}

// capture makes the graph of a batch's launches, unless there is one for buffers as they are. A graph is launched with
// one call where a batch has dozens. It is captured on a stream of its own, since others may use the worker's
// meanwhile.
func (w *deviceNeighbor) capture() (err error) {
	now := launches{w.device.Address(), &w.description[0], len(w.description), w.capacity.changes}
	if w.graph != nil && w.captured == now {
		return nil
	}
	if err := w.dropGraph(); err != nil {
		return err
	}
	stream, err := w.env.Device.NewStream(device.PriorityLow)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	if err := stream.BeginCapture(); err != nil {
		return err
	}
	launched := w.launch(stream)
	w.graph, err = stream.EndCapture()
	w.captured = now
	if launched != nil {
		err = errors.Join(launched, err, w.dropGraph())
	}
	return err
}

func (w *deviceNeighbor) dropGraph() (err error) {
	if w.graph != nil {
		err = w.graph.Close()
	}
	w.graph = nil
	return err
}

// launch puts a batch on a stream. Grids are as large as the capacities can keep busy.
func (w *deviceNeighbor) launch(stream *device.Stream) error {
	if err := stream.CopyToDevice(w.device.Address(), w.description); err != nil {
		return err
	}
	b, seeds := w.at(w.layout.batch), roundUp32(w.seedRoom)/32+int64(len(w.schema.Nodes))
	step, seed := deviceStep{batch: b}, w.kernels.assembly.assemblySeed
	if err := seed.Launch(stream, w.grid(seeds), device.Dim(deviceThreads), 0, step); err != nil {
		return err
	}
	if err := w.launchAssembly(stream, step, seeds); err != nil {
		return err
	}
	for h := range w.plan {
		step.stage = int64(h + 1)
		if err := w.launchPicks(stream, step, w.capacity.dsts(w.schema, h)/32, w.capacity.picks(h)/32); err != nil {
			return err
		}
		if err := w.launchAssembly(stream, step, w.capacity.picks(h)/32); err != nil {
			return err
		}
	}
	return stream.CopyToHost(w.description[:w.layout.results], w.device.Address())
}

// grid returns blocks for a number of warps.
func (w *deviceNeighbor) grid(warps int64) device.Dim3 {
	blocks := (warps + deviceBlockWarps - 1) / deviceBlockWarps
	return device.Dim(int(max(min(blocks, int64(w.blocks)), 1)))
}

// launchPicks is the part of a stage that the sampler decides on, with at most so many runs and words (batch.cuh).
func (w *deviceNeighbor) launchPicks(stream *device.Stream, step deviceStep, runs, words int64) error {
	k, block := w.kernels.neighbor, device.Dim(deviceThreads)
	if err := k.neighborCount.Launch(stream, w.grid(runs), block, 0, step); err != nil {
		return err
	}
	if err := k.neighborAdmit.Launch(stream, device.Dim(1), device.Dim(deviceSpine), 0, step); err != nil {
		return err
	}
	if err := k.neighborPick.Launch(stream, w.grid(32*runs), block, 0, step); err != nil {
		return err
	}
	if !w.has.all {
		return nil
	}
	return k.neighborExpand.Launch(stream, w.grid(words), block, 0, step)
}

// launchAssembly gives the picks of a stage local ids.
func (w *deviceNeighbor) launchAssembly(stream *device.Stream, step deviceStep, words int64) error {
	k, grid, block := w.kernels.assembly, w.grid(words), device.Dim(deviceThreads)
	if err := k.assemblyFlag.Launch(stream, grid, block, 0, step); err != nil {
		return err
	}
	if err := k.assemblyLists.Launch(stream, device.Dim(1), device.Dim(deviceSpine), 0, step); err != nil {
		return err
	}
	if err := k.assemblyAppend.Launch(stream, grid, block, 0, step); err != nil {
		return err
	}
	return k.assemblyRelabel.Launch(stream, grid, block, 0, step)
}

// at returns where a part of the description is on the device.
func (w *deviceNeighbor) at(offset int64) device.Address {
	return w.device.Address() + device.Address(offset)
}

// segment returns the offset of the segment of an edge type at a hop; hop -1 is the seeds, by node type.
func (w *deviceNeighbor) segment(hop, i int) int64 {
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
