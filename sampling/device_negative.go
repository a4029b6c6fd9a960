package sampling

import (
	"context"
	"errors"
	"math"
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// DeviceDrawer draws negatives on a device, the same as its Drawer, for one goroutine at a time. The host waits for
// them, because it delivers them and passes them to the sampler as seeds. Close it before the Drawer and the device.
type DeviceDrawer struct {
	of      *Drawer
	env     *deviceOpening // holds tables and kernels
	kernels *negativeKernels
	links   []deviceLinks // [edge type] what is the same in every batch
	ids     unified.DType // of the graph on the device
	blocks  int

	host, device unified.Buffer
}

var sharedNegativeKernels device.PerDevice[*negativeKernels]

// OpenDevice opens a drawer that draws on a device. It uses Device, Stream, MaxBlocks and the graph's arrays in
// Topology from env, and takes memory by Scratch: up to 80 bytes an edge and 16 a negative, on the host and on the
// device.
// Kernels read the tables of d by pinned.Attach, whose errors it returns.
func (d *Drawer) OpenDevice(ctx context.Context, env DeviceEnv) (*DeviceDrawer, error) {
	s, on := d.finder.schema, &deviceOpening{DeviceEnv: env, ctx: ctx}
	x := &DeviceDrawer{of: d, env: on, links: make([]deviceLinks, len(s.Edges)), ids: s.IDType(), blocks: env.MaxBlocks,
		kernels: hold(on, &sharedNegativeKernels, loadNegativeKernels)}
	if x.blocks <= 0 {
		x.blocks = defaultBlocksOfSM * max(env.Device.SMs(), 1)
	}
	x.device.Options = env.Scratch
	x.device.Options.Device, x.device.Options.Place = env.Device, pinned.Device
	x.host.Options = x.device.Options
	x.host.Options.Place = pinned.Pinned
	for e := range s.Edges {
		et := &s.Edges[e]
		l := deviceLinks{edgeType: int64(e), ordered: bit(et.Order == graph.BySource), loops: bit(et.Src == et.Dst),
			source: env.Graph.Offset(et.Src), target: env.Graph.Offset(et.Dst)}
		for end, to := range []*deviceNegativeNodes{&l.sources, &l.targets} {
			if in := d.ends[e][end]; in != nil {
				*to = deviceNegativeNodes{nodes: in.n, order: on.attach(unified.FromSlice(in.order)),
					sorted: on.attach(unified.FromSlice(in.sorted)), sums: on.attach(unified.FromSlice(in.sums))}
			}
		}
		for end, to := range []*devicePastEdges{&l.bySource, &l.byTarget} {
			if d.past != nil {
				in := &d.past[e][end]
				*to = devicePastEdges{on.attach(unified.FromSlice(in.starts)), on.attach(unified.FromSlice(in.words))}
			}
		}
		x.links[e] = l
	}
	if on.err != nil {
		return nil, on.close()
	}
	return x, nil
}

// Close frees the drawer's memory.
func (x *DeviceDrawer) Close() error {
	return errors.Join(x.host.Close(), x.device.Close(), x.env.close())
}

// linksLayout says where the parts of a batch of links lie, on the host and on the device: what goes to the device,
// then what comes back.
type linksLayout struct {
	links, sources, targets, items, times, sourceTimes, targetTimes, kinds, badNode, made, size int64
}

func newLinksLayout(types, edges, negatives int64, typed bool) (l linksLayout) {
	at := int64(0)
	place := func(p *int64, n int64) { *p, at = at, at+n }
	place(&l.links, types*int64(unsafe.Sizeof(deviceLinks{})))
	for _, p := range []*int64{&l.sources, &l.targets, &l.items, &l.times, &l.sourceTimes, &l.targetTimes} {
		place(p, 8*edges)
	}
	if place(&l.kinds, 0); typed {
		place(&l.kinds, 32*edges)
	}
	place(&l.badNode, 8)
	place(&l.made, 16*negatives)
	place(&l.size, 0)
	return l
}

// Draw appends their negatives to the edges of each type, which must be only the requested ones. It waits for the
// device. Errors are those of Drawer.Draw; for a damaged graph the error names the least node.
func (x *DeviceDrawer) Draw(r Rand, links []LinkSeeds) error {
	types, edges, negatives := int64(0), int64(0), int64(0)
	for e := range links {
		if err := x.of.check(&links[e]); err != nil {
			return err
		}
		if n := int64(len(links[e].Items)); n > 0 {
			types, edges, negatives = types+1, edges+n, negatives+x.of.opt.Of(n)
		}
	}
	if negatives == 0 {
		return nil
	}
	l := newLinksLayout(types, edges, negatives, x.of.opt.Type != "")
	mem, err := unified.Grow[uint8](&x.host, l.size, 0)
	if err != nil {
		return err
	}
	if err := x.device.Claim(x.host.Cap()); err != nil {
		return err
	}
	x.describe(r, links, &l, mem)
	if err := x.run(&l, mem, types, edges, negatives); err != nil {
		return err
	}
	return x.collect(links, &l, mem)
}

// describe writes the description of a batch for the device.
func (x *DeviceDrawer) describe(r Rand, links []LinkSeeds, l *linksLayout, mem []byte) {
	types, first, negatives := part[deviceLinks](mem, l.links, len(links)), int64(0), int64(0)
	edges := (l.targets - l.sources) / 8
	put := func(at, n int64, of func(i int64) int64) {
		for i := range n {
			part[int64](mem, at+8*(first+i), 1)[0] = of(i)
		}
	}
	for e := range links {
		list, ends := &links[e], &x.of.ends[e]
		n := int64(len(list.Items))
		if n == 0 {
			continue
		}
		types[0] = x.links[e]
		types[0].first, types[0].count, types[0].firstNegative = first, n, negatives
		types[0].key = r.Stage(x.of.finder.schema.Edges[e].Key, purposeNegative, 0).key
		types = types[1:]
		copy(part[int64](mem, l.sources+8*first, int(n)), list.Sources)
		copy(part[int64](mem, l.targets+8*first, int(n)), list.Targets)
		copy(part[int64](mem, l.items+8*first, int(n)), list.Items)
		copy(part[int64](mem, l.times+8*first, int(n)), list.Times)
		if x.of.opt.Law == InBatch && x.of.opt.Time != "" {
			put(l.sourceTimes, n, func(i int64) int64 { return ends[0].since(list.Sources[i]) })
			put(l.targetTimes, n, func(i int64) int64 { return ends[1].since(list.Targets[i]) })
		}
		for i := range n {
			if x.of.opt.Type == "" {
				break
			}
			for end, own := range [...]int64{list.Sources[i], list.Targets[i]} {
				to := part[int64](mem, l.kinds+16*(int64(end)*edges+first+i), 2)
				to[0], to[1] = ends[end].alike(own)
			}
		}
		first, negatives = first+n, negatives+x.of.opt.Of(n)
	}
	part[uint64](mem, l.badNode, 1)[0] = math.MaxUint64
}

// since returns the time from which a node exists.
func (s *negativeNodes) since(id int64) int64 {
	if s.times == nil {
		return math.MinInt64
	}
	return s.times(id)
}

// run draws, and waits.
func (x *DeviceDrawer) run(l *linksLayout, mem []byte, types, edges, negatives int64) error {
	at := func(offset int64) device.Address { return x.device.Address() + device.Address(offset) }
	o, top, g := &x.of.opt, &x.env.Topology, x.env.Graph
	step := deviceNegativeStep{indptr: top.Indptr, indices: top.Indices, types: top.Types,
		numNodes: g.NumNodes(), numEdges: g.NumEdges(), typeBytes: g.Types().DType().Size(),
		wideIds: bit(x.ids == unified.Int64), links: at(l.links), numLinks: types, negatives: negatives,
		sources: at(l.sources), targets: at(l.targets), items: at(l.items), times: at(l.times),
		sourceTimes: at(l.sourceTimes), targetTimes: at(l.targetTimes), sourceKinds: at(l.kinds),
		targetKinds: at(l.kinds + 16*edges), ratio: o.Ratio, law: deviceLaw(o.Law), replace: deviceEnd(o.Replace),
		timed: bit(o.Timed()), typed: bit(o.Type != ""), strict: bit(o.Strict), tries: int64(o.tries(true)),
		fills: int64(o.tries(true) - o.tries(false)), made: at(l.made), badNode: at(l.badNode)}
	s := x.env.Stream
	if err := s.CopyToDevice(x.device.Address(), mem[:l.made]); err != nil {
		return err
	}
	blocks := min((negatives+deviceThreads-1)/deviceThreads, int64(x.blocks))
	if err := x.kernels.negativeDraw.Launch(s, int(blocks), deviceThreads, 0, step); err != nil {
		return err
	}
	if err := s.CopyToHost(mem[l.badNode:l.size], at(l.badNode)); err != nil {
		return err
	}
	return s.Synchronize()
}

// collect appends what came back.
func (x *DeviceDrawer) collect(links []LinkSeeds, l *linksLayout, mem []byte) error {
	if bad := part[uint64](mem, l.badNode, 1)[0]; bad != math.MaxUint64 {
		g, v := x.env.Graph, int64(bad)
		return errColumn(v, g.Indptr()[v], g.Indptr()[v+1], int(g.NumEdges()))
	}
	at := l.made
	for e := range links {
		list := &links[e]
		n := int64(len(list.Items))
		for i := range n {
			for range x.of.opt.Of(i+1) - x.of.opt.Of(i) {
				ends := part[int64](mem, at, 2)
				list.add(int(i), ends[0], ends[1], ends[0] >= 0, x.of.opt.Triplets)
				at += 16
			}
		}
	}
	return nil
}
