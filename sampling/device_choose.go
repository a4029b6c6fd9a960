package sampling

import (
	"fmt"
	"math"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
)

// deviceChoose picks for Neighbor on a device if the edges of a destination are not all alike: choose.cu says how many
// it takes, and which.
type deviceChoose struct {
	kernels *chooseKernels
	schema  *graph.Schema
	opt     Neighbor
	fanouts hopFanouts
	purpose Purpose
	values  edgeValues // on the host, for times of seeds, and errors
	past    pastRules
	nodes   []device.Address // [node type] where the times of nodes are; 0 for none
	step    deviceChooseStep // what is the same in every stage
}

var sharedChooseKernels device.PerDevice[*chooseKernels]

// newDeviceChoose makes one over edges of the types of a schema, which may be allEdgesOf the graph's.
func newDeviceChoose(o *deviceOpening, n Neighbor, s *graph.Schema, p hopFanouts) *deviceChoose {
	d := &deviceChoose{schema: s, opt: n, fanouts: p, purpose: PurposePick}
	var err error
	if d.values, err = n.values(o.Graph); err == nil {
		d.past, err = n.Time.past(s)
	}
	if err == nil {
		err = d.find(&o.Topology)
	}
	if d.values.weighted() || n.Time.HalfLife > 0 {
		d.purpose = purposeWeigh
	}
	o.fail(err)
	d.kernels = hold(o, &sharedChooseKernels, loadChooseKernels)
	return d
}

// find notes where the columns are that the kernels read, and how wide they are.
func (d *deviceChoose) find(at *Topology) error {
	n, v := &d.opt, &d.values
	if want := len(n.edgeColumns()); len(at.Columns) != want || len(at.NodeColumns) != len(n.nodeColumns()) {
		return fmt.Errorf("%w: a topology with %d columns of the edges and %d of the nodes; must be %d and %d",
			ErrOptions, len(at.Columns), len(at.NodeColumns), want, len(n.nodeColumns()))
	}
	s, columns := &d.step, at.Columns
	next := func(to *device.Address) {
		*to, columns = columns[0], columns[1:]
	}
	if n.Weight != "" {
		next(&s.weights)
		s.weightBytes = widthOf(v.weights32 != nil, v.weights64 != nil)
	}
	if n.Mask != "" {
		next(&s.mask)
		if s.maskBytes = widthOf(v.mask32 != nil, v.mask64 != nil); s.maskBytes == 0 {
			s.maskBytes = 1
		}
	}
	t := &n.Time
	if t.Edge != "" {
		next(&s.times)
		s.timeBytes = v.times.width()
	}
	if t.Node != "" {
		d.nodes = at.NodeColumns[0]
	}
	s.timed, s.chain, s.recent, s.replace = bit(t.on()), bit(t.Chain), bit(t.Recent), bit(n.Replace)
	if s.share = fixedShare(n.Share); t.HalfLife > 0 {
		s.decay = math.Ln2 / t.HalfLife
	}
	return nil
}

// widthOf returns the bytes of a number that has 32 or 64 bits, 0 for neither.
func widthOf(is32, is64 bool) int64 { return 4*bit(is32) + 8*bit(is64) }

// width returns the bytes of a time.
func (c *timeColumn) width() int64 { return widthOf(c.t32 != nil, c.t64 != nil) }

func (d *deviceChoose) needs() deviceNeeds {
	return deviceNeeds{eligible: true, least: true, cells: d.fanouts.any(func(k int) bool {
		return k > 32 && !d.opt.Replace || k == All && d.opt.Share != 0
	})}
}

func (d *deviceChoose) describe(seg *deviceSegment, r Rand, hop, edgeType int) {
	et := &d.schema.Edges[edgeType]
	seg.fanout = int64(d.fanouts[hop][edgeType])
	seg.key = r.Stage(et.Key, d.purpose, uint8(hop)).key
	seg.ordered = bit(d.opt.Time.ordered(et))
	past := d.past.at(hop, edgeType)
	seg.timeRule, seg.window = deviceTimeRule(past.TimeRule), past.window
	if d.nodes != nil {
		seg.sourceTimes, seg.sourceTimeBytes = d.nodes[et.Src], d.values.nodes[et.Src].width()
		seg.ascending = bit(d.values.sourcesAscend(et))
	}
}

func (d *deviceChoose) count(l *deviceLaunch) {
	l.measure()
	put(l, d.kernels.chooseCount, 32*l.runs, d.at(l))
}

func (d *deviceChoose) pick(l *deviceLaunch) {
	put(l, d.kernels.chooseLeast, 32*l.runs, d.at(l))
	put(l, d.kernels.choosePick, 32*l.runs, d.at(l))
}

// at returns what the kernels of a stage take.
func (d *deviceChoose) at(l *deviceLaunch) deviceChooseStep {
	step := d.step
	step.at = l.step
	return step
}

func (d *deviceChoose) badEdge(pos int64) error { return d.values.weightErr(pos) }

// weightErr returns the error of an edge's weight.
func (v *edgeValues) weightErr(pos int64) error {
	return errWeight(v.weightName, pos, v.weight(pos))
}

func (n Neighbor) nodeColumns() []string {
	if n.Time.Node == "" {
		return nil
	}
	return []string{n.Time.Node}
}
