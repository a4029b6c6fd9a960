package embed

import (
	"fmt"
	"math"
	"reflect"

	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
)

// sumBytes returns what the sums of a range take in a sweep: of nodes that sum any rows.
func (r *run) sumBytes(s *Step, of nodes, lo, hi int64) (bytes int64) {
	for i := range s.Sums {
		rel := &s.Sums[i]
		some := hi - lo
		if !rel.Loops {
			some = r.topology.some(rel.Edges, of, lo, hi)
		}
		bytes += 4 * int64(rel.Table.Width) * some
	}
	return bytes
}

// some returns how many nodes of a range have edges of a type.
func (t *topology) some(edges int, of nodes, lo, hi int64) (n int64) {
	for ; lo < hi; lo++ {
		from, to := t.between(edges, of.at(lo))
		n += min(to-from, 1)
	}
	return n
}

// planSweeps cuts the nodes into as few ranges as have room.
func (r *run) planSweeps(now *StepReport, s *Step, of nodes, memory int64) error {
	now.Way = Sweeps
	node, _ := r.bytesOf(s, Sweeps)
	left, all := memory-r.fixed(s, Sweeps), node*now.Nodes+r.sumBytes(s, of, 0, now.Nodes)
	least := r.unit(s) * node
	for i := range s.Sums {
		least += r.unit(s) * 4 * int64(s.Sums[i].Table.Width)
	}
	if left < least {
		return fmt.Errorf("%w: %s takes %s for a range of %d nodes beside %s for blocks of rows, and the limit is %s; "+
			"allow more", pinned.ErrLimit, s.Name, machine.Bytes(least), r.unit(s), machine.Bytes(r.fixed(s, Sweeps)),
			machine.Bytes(r.opt.Memory))
	}
	now.Passes = max(int((all+left-1)/left), 1)
	now.room = min(left, all/int64(now.Passes)+all/int64(now.Passes)/64+least)
	now.Memory = now.room + r.fixed(s, Sweeps)
	defer func(was *StepReport) { r.now = was }(r.now)
	r.now = now
	ranges := r.ranges(s, of, [2]int64{0, now.Nodes})
	now.Passes = len(ranges)
	now.Plan, now.cuts = Work{}, nil
	cost := passes{run: r, now: now}
	for i := range s.Sums {
		rel := &s.Sums[i]
		if err := cost.over(s, i, of, r.cutKey(s, i, of, ranges), now.edges[i]); err != nil {
			return err
		}
		if rel.Loops {
			cost.rows(rel.tables(), now.Nodes)
			cost.computing += float64(now.Nodes) * r.rates.passing[rel]
		}
	}
	cost.end()
	return nil
}

// passes are what passes over rows take.
type passes struct {
	*run
	now                *StepReport
	reading, computing float64 // seconds of the disk, and of processors
	waiting            float64 // and of the disk, for which processors wait
}

// over adds what ranges of nodes take of relation i, for whose edges of a cut rows are added while they pass by: the
// cut, which is made where the step before has none that fits, and the rows that ranges need.
func (p *passes) over(s *Step, i int, of nodes, key cutKey, edges int64) error {
	v, err := p.survey(s, i, of)
	if err != nil {
		return err
	}
	rel, tables := &s.Sums[i], s.Sums[i].tables()
	if key.unit > 0 {
		tables, _, _ = s.windowTables()
	}
	if p.now.cuts = append(p.now.cuts, key); !p.planned(i, key) {
		bytes := 2 * (8*p.now.Nodes + p.now.edges[i]*p.p.Graph.Indices().DType().Size())
		p.now.Plan.add(Work{Read: bytes, Written: edges * cutBytes, Scratch: edges * cutBytes})
		p.reading += p.indexSeconds(bytes)
		p.waiting += float64(edges*cutBytes) / p.rates.Write
		p.computing += float64(p.now.edges[i]) * p.rates.cutting[rel]
	}
	p.read(8*p.now.Nodes + edges*cutBytes)
	p.computing += float64(edges) * p.rates.passing[rel]
	for _, one := range key.ranges {
		p.rows(tables, rowsOf(v.spans(one[0], one[1], rowBytes(tables), key.unit > 0)))
	}
	return nil
}

// planned reports whether the step before that has a cut of relations number i has this one.
func (p *passes) planned(i int, key cutKey) bool {
	for k := len(p.plans) - 2; k >= 0; k-- { // the last one is the step in hand
		if cuts := p.plans[k].cuts; i < len(cuts) {
			return reflect.DeepEqual(cuts[i], key)
		}
	}
	return false
}

// read adds bytes that are read in order.
func (p *passes) read(bytes int64) {
	p.now.Plan.Read += bytes
	p.reading += float64(bytes) / p.rates.Read
}

// rows adds rows of tables that pass by.
func (p *passes) rows(tables []*Table, rows int64) {
	for _, t := range tables {
		if p.computing += float64(rows) * p.rates.widen[t]; !t.held {
			p.read(rows * t.rowBytes())
		}
	}
}

// end adds the seconds to the plan.
func (p *passes) end() {
	p.now.Plan.Seconds += p.both(p.reading, p.computing, p.now.Plan.Read) + p.waiting +
		float64(p.now.room)*p.rates.fresh
}

// planWindow takes the fewest ranges whose sums and own rows have room at any time.
func (r *run) planWindow(now *StepReport, s *Step, of nodes, memory int64) error {
	now.Way = Window
	rel := &s.Sums[0]
	v, err := r.survey(s, 0, of)
	if err != nil {
		return err
	}
	_, _, width := s.windowTables()
	node, _ := r.bytesOf(s, Window)
	least := int64(math.MaxInt64)
	for n := int64(1); n <= parts; n++ {
		if parts%n > 0 {
			continue
		}
		most := int64(0)
		for i, one := range v.ranges(n) {
			sums, own := v.held(int64(i)*parts/n, (int64(i)+1)*parts/n)
			most = max(most, sums*(4*int64(rel.Table.Width)+4)+own*(4*width+4)+node*(one[1]-one[0]))
		}
		now.Passes, now.room, now.Memory = int(n), most, most+r.fixed(s, Window)
		if least = min(least, now.Memory); now.Memory <= memory {
			key := r.cutKey(s, 0, of, v.ranges(n))
			key.unit = s.windowUnit()
			now.Plan, now.cuts = Work{}, nil
			cost := passes{run: r, now: now}
			defer cost.end()
			return cost.over(s, 0, of, key, now.edges[0])
		}
	}
	return fmt.Errorf("%w: %s takes at least %s for sums while rows pass by, and the limit is %s; allow more",
		pinned.ErrLimit, s.Name, machine.Bytes(least), machine.Bytes(r.opt.Memory))
}

// both returns how long a disk and processors take that work at once: blocks wait for each other now and then, and to
// read takes processors, too.
func (r *run) both(reading, computing float64, read int64) float64 {
	computing += float64(read) * r.rates.taking / float64(r.pool.Workers())
	return max(reading, computing) + min(reading, computing)/10
}
