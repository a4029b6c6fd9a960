package embed

import (
	"cmp"
	"fmt"
	"sync"

	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
)

// hubsPlan is which nodes are hubs: sources of as many edges, by classOf, and nodes with as many in-edges.
type hubsPlan struct {
	out, in  int
	rows     int64 // of sources that are kept, and of sums
	messages int64 // edges between others
	load     int64 // bytes of the rows that are spilled for a range of destinations, at most
}

// degreesSurvey is how many nodes there are of each class of degrees, and edges between them.
type degreesSurvey struct {
	out, in [classes]int64
	edges   [classes][classes]int64 // by the class of the source, and of the destination
}

// surveyDegrees looks at all edges of a relation.
func (r *run) surveyDegrees(rel *Relation, of nodes) (*degreesSurvey, error) {
	if d := r.classed[rel.Edges]; d != nil {
		return d, nil
	}
	out, err := r.outDegrees(rel, of)
	if err != nil {
		return nil, err
	}
	l, err := r.passingLinks(rel, of, 0, of.count)
	if err != nil {
		return nil, err
	}
	d := &degreesSurvey{}
	class, err := room[uint8](r, "classes of sources", int64(len(out))) // which caches hold longer than numbers
	if err != nil {
		return nil, err
	}
	for j, n := range out {
		class[j] = uint8(classOf(int64(n)))
		d.out[class[j]]++
	}
	var lock sync.Mutex
	err = r.pool.Split(of.count, max(of.count/64, 1), func(lo, hi int64) {
		var in [classes]int64
		var edges [classes][classes]int64
		for i := lo; i < hi; i++ {
			c := classOf(l.start[i+1] - l.start[i])
			in[c]++
			for e := l.start[i]; e < l.start[i+1]; e++ {
				edges[class[l.source(e)]][c]++
			}
		}
		lock.Lock()
		defer lock.Unlock()
		for a := range edges {
			d.in[a] += in[a]
			for b := range edges[a] {
				d.edges[a][b] += edges[a][b]
			}
		}
	})
	if err != nil {
		return nil, err
	}
	r.classed[rel.Edges] = d
	return d, r.free()
}

// least returns the hubs for which the fewest edges are spilled, of those whose rows and sums have room: each takes as
// many bytes.
func (d *degreesSurvey) least(bytes, left int64) *hubsPlan {
	var kept, sums, between [classes + 1]int64 // of classes from one on; between: edges to a class below, of all below
	for c := classes - 1; c > 0; c-- {
		kept[c], sums[c] = kept[c+1]+d.out[c], sums[c+1]+d.in[c]
	}
	best := (*hubsPlan)(nil)
	for out := 1; out <= classes; out++ {
		messages := int64(0)
		for in := range classes {
			between[in] += d.edges[out-1][in] // of sources below out
		}
		for in := 1; in <= classes; in++ {
			messages += between[in-1]
			one := &hubsPlan{out: out, in: in, rows: kept[out] + sums[in], messages: messages}
			if one.rows*bytes <= left && (best == nil || one.better(best)) {
				best = one
			}
		}
	}
	return best
}

// aheadBytes are what a node takes while rows pass by, but not when they are there: see sweeping.begin.
const aheadBytes = 12

// degreeBelow returns a degree that none of a class below one reaches.
func degreeBelow(class int) int64 {
	if class < 16 {
		return int64(class)
	}
	return int64(class%2+2) << ((class-16)/2 + 3)
}

// better reports that less is spilled, or as much with fewer rows in memory.
func (p *hubsPlan) better(than *hubsPlan) bool {
	return cmp.Or(cmp.Compare(p.messages, than.messages), cmp.Compare(p.rows, than.rows)) < 0
}

// planHubs chooses hubs for the memory that there is.
func (r *run) planHubs(now *StepReport, s *Step, of nodes, memory int64) error {
	now.Way = Hubs
	rel := &s.Sums[0]
	d, err := r.surveyDegrees(rel, of)
	if err != nil {
		return err
	}
	row, message := 4*int64(rel.Table.Width), messageBytes(int64(rel.Table.Width))
	node, _ := r.bytesOf(s, Hubs)
	buffers := memory / 64
	cached := r.cachedBytes(r.indexBytes(now))
	fixed := r.fixed(s, Hubs) + node*of.count + 2*buffers + cached
	plan := d.least(row, memory-fixed)
	if plan == nil {
		return fmt.Errorf("%w: %s takes %s beside rows and sums of hubs, and the limit is %s; allow more",
			pinned.ErrLimit, s.Name, machine.Bytes(fixed), machine.Bytes(r.opt.Memory))
	}
	// What is read of a range takes the memory of where sources go on, or that of the buffers.
	plan.load = max(aheadBytes*of.count, buffers)
	spilled, unit := plan.messages*message, spillUnit*degreeBelow(plan.in)*message
	if spilled > 0 && (unit > plan.load || (2*spilled/plan.load+1)*spillBuffer > buffers) {
		return fmt.Errorf("%w: %s spills %s, more than has room range by range in %s; allow more", pinned.ErrLimit,
			s.Name, machine.Bytes(spilled), machine.Bytes(r.opt.Memory))
	}
	now.hubs, now.Passes, now.room = plan, 1, plan.rows*row+node*of.count+2*buffers
	now.Memory = now.room + r.fixed(s, Hubs)
	v, err := r.survey(s, 0, of)
	if err != nil {
		return err
	}
	read, computing := r.passesOver(v, rel, rel.tables(), [][2]int64{{0, of.count}}, now.edges[0], false)
	if rel.Loops {
		more, widen := r.passing(rel.tables(), now.Nodes)
		read, computing = read+more, computing+widen
	}
	now.Plan = Work{Read: 2*r.indexBytes(now) + read + spilled, Written: spilled}
	computing += now.edgeSeconds(s, r.rates.passing)
	now.Plan.Seconds = both(float64(read+spilled)/r.rates.Read+float64(spilled)/r.rates.Write, computing) +
		r.indexSeconds(now) + float64(now.room)*r.rates.fresh
	return nil
}
