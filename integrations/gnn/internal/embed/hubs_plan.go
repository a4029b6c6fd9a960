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
	cut      int64 // edges for which rows are added or spilled while they pass by
	load     int64 // bytes of the rows that are spilled for a range of destinations, at most
}

// degreesSurvey is how many nodes there are of each class of degrees, and edges between them.
type degreesSurvey struct {
	out, in [classes]int64
	edges   [classes][classes]int64 // by the class of the source, and of the destination
	class   []uint8                 // of each source
}

// classesRoom is the name of the memory of classes of sources.
func classesRoom(edges int) string { return fmt.Sprint(lasting, "classes of sources of ", edges) }

// surveyDegrees looks at all edges of a relation.
func (r *run) surveyDegrees(rel *Relation, of nodes) (*degreesSurvey, error) {
	if d := r.classed[rel.Edges]; d != nil {
		return d, nil
	}
	out, err := r.outDegrees(rel, of)
	if err != nil {
		return nil, err
	}
	d, l := &degreesSurvey{}, r.topology.all(rel, of)
	// Classes stay for the steps, and caches hold them longer than numbers.
	if d.class, err = room[uint8](r, classesRoom(rel.Edges), int64(len(out))); err != nil {
		return nil, err
	}
	for j, n := range out {
		d.class[j] = uint8(classOf(int64(n)))
		d.out[d.class[j]]++
	}
	var lock sync.Mutex
	err = r.pool.Split(of.count, max(of.count/64, 1), func(lo, hi int64) {
		var in [classes]int64
		var edges [classes][classes]int64
		for i := lo; i < hi; i++ {
			c := classOf(l.start[i+1] - l.start[i])
			in[c]++
			for e := l.start[i]; e < l.start[i+1]; e++ {
				edges[d.class[l.source(e)]][c]++
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

// least returns the hubs that leave the fewest bytes to write for later. Their rows and sums, of the given bytes each,
// fit in left. The rows that are spilled for a unit of nodes, one for each in-edge at most, fit in load.
func (d *degreesSurvey) least(bytes, left, message, load int64) *hubsPlan {
	// Of classes from one on; between is edges from sources below one, by the class of the node.
	var kept, sums, to, between [classes + 1]int64
	top := 0
	for c := classes - 1; c > 0; c-- {
		kept[c], sums[c], to[c] = kept[c+1]+d.out[c], sums[c+1]+d.in[c], to[c+1]
		for out := range classes {
			to[c] += d.edges[out][c]
		}
		if top == 0 && d.in[c] > 0 {
			top = c
		}
	}
	best := (*hubsPlan)(nil)
	for out := 1; out <= classes; out++ {
		messages := int64(0)
		for in := range classes {
			between[in] += d.edges[out-1][in]
		}
		for in := 1; in <= top+1; in++ {
			messages += between[in-1]
			one := &hubsPlan{out: out, in: in, rows: kept[out] + sums[in], messages: messages,
				cut: messages + to[in]}
			if spillUnit*degreeBelow(in)*message <= load && one.rows*bytes <= left &&
				(best == nil || one.better(best, message)) {
				best = one
			}
		}
	}
	return best
}

// degreeBelow returns a degree that none of a class below one reaches.
func degreeBelow(class int) int64 {
	if class < 16 {
		return int64(class)
	}
	return int64(class%2+2) << ((class-16)/2 + 3)
}

// better reports that less is written for later, or as much with fewer rows in memory. A row that is spilled takes
// message bytes.
func (p *hubsPlan) better(than *hubsPlan, message int64) bool {
	return cmp.Or(cmp.Compare(p.messages*message+p.cut*cutBytes, than.messages*message+than.cut*cutBytes),
		cmp.Compare(p.rows, than.rows)) < 0
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
	load := memory / 16 // of buffers, and then of what is read for a range of nodes
	fixed := r.fixed(s, Hubs) + node*of.count + load
	plan := d.least(row, memory-fixed, message, load)
	if plan == nil {
		return fmt.Errorf("%w: %s takes %s beside rows and sums of hubs, and the limit is %s; allow more",
			pinned.ErrLimit, s.Name, machine.Bytes(fixed), machine.Bytes(r.opt.Memory))
	}
	spilled := plan.messages * message
	if plan.load = load; (2*(spilled+startBytes*of.count)/load+1)*spillBuffer > load {
		return fmt.Errorf("%w: %s spills %s, more than has room range by range in %s; allow more", pinned.ErrLimit,
			s.Name, machine.Bytes(spilled), machine.Bytes(r.opt.Memory))
	}
	now.hubs, now.Passes, now.room = plan, 1, plan.rows*row+node*of.count+load
	now.Memory = now.room + r.fixed(s, Hubs)
	key := r.cutKey(s, 0, of, [][2]int64{{0, of.count}})
	key.hubs = [2]int{plan.out, plan.in}
	now.Plan, now.cuts = Work{}, nil
	cost := passes{run: r, now: now}
	if err := cost.over(s, 0, of, key, plan.cut); err != nil {
		return err
	}
	if rel.Loops {
		cost.rows(rel.tables(), now.Nodes)
	}
	now.Plan.add(Work{Read: r.indexBytes(now) + spilled, Written: spilled, Scratch: spilled})
	cost.reading += r.indexSeconds(r.indexBytes(now))
	cost.waiting += float64(spilled)/r.rates.Write + float64(spilled)/r.rates.Read
	cost.computing += now.edgeSeconds(s, r.rates.kernels)
	cost.end()
	return nil
}
