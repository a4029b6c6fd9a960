package embed

import (
	"fmt"
	"math"

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
	node, edge := r.bytesOf(s, Sweeps)
	left, all := memory-r.fixed(s, Sweeps), node*now.Nodes+edge*now.edgeCount()+r.sumBytes(s, of, 0, now.Nodes)
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
	now.Plan = Work{Read: r.indexBytes(now)}
	reading, computing := 0.0, now.edgeSeconds(s, r.rates.passing)
	for i := range s.Sums {
		rel := &s.Sums[i]
		v, err := r.survey(s, i, of)
		if err != nil {
			return err
		}
		read, seconds := r.passesOver(v, rel, rel.tables(), ranges, now.edges[i], false)
		now.Plan.Read, reading = now.Plan.Read+read, reading+float64(read)/r.rates.Read
		computing += seconds
		if rel.Loops {
			read, widen := r.passing(rel.tables(), now.Nodes)
			now.Plan.Read, reading = now.Plan.Read+read, reading+float64(read)/r.rates.Read
			computing += widen + float64(now.Nodes)*r.rates.passing[rel]
		}
	}
	now.Plan.Seconds = both(reading, computing) + r.indexSeconds(now) + float64(now.room)*r.rates.fresh
	return nil
}

// passesOver returns the bytes that a pass over tables for each of some ranges of nodes takes of the disk, and the
// seconds in which rows become float32 and blocks look at nodes, which have edges in all. own says that the nodes' own
// rows pass by, too.
func (r *run) passesOver(v *survey, rel *Relation, tables []*Table, ranges [][2]int64, edges int64, own bool) (
	read int64, seconds float64) {
	for _, one := range ranges {
		rows := rowsOf(v.spans(one[0], one[1], rowBytes(tables), own))
		bytes, widen := r.passing(tables, rows)
		read += bytes
		seconds += widen + r.looks(rel, rows, one[1]-one[0], float64(edges)/float64(len(ranges)))
	}
	return read, seconds
}

// passing returns the bytes that rows of tables take of the disk, and the seconds in which they become float32.
func (r *run) passing(tables []*Table, rows int64) (read int64, seconds float64) {
	for _, t := range tables {
		if seconds += float64(rows) * r.rates.widen[t]; !t.held {
			read += rows * t.rowBytes()
		}
	}
	return read, seconds
}

// looks returns the seconds in which the blocks of some rows look at nodes, which have this number of edges.
func (r *run) looks(rel *Relation, rows, nodes int64, edges float64) float64 {
	blocks := float64(rows/r.blockRows(rel.tables()) + 1)
	return blocks * lookedAt(float64(nodes), edges/blocks) * r.rates.looks[rel]
}

// cachedBytes returns how much of the memory that a step may take is left to the page cache, for edges that are read
// again and again: as much is there beside it as a third, where the limit is three quarters of all there is.
func (r *run) cachedBytes(edges int64) int64 { return max(edges-r.opt.Memory/3, 0) }

// planWindow takes the fewest ranges whose sums and own rows have room at any time.
func (r *run) planWindow(now *StepReport, s *Step, of nodes, memory int64) error {
	now.Way = Window
	rel := &s.Sums[0]
	v, err := r.survey(s, 0, of)
	if err != nil {
		return err
	}
	tables, _, width := s.windowTables()
	node, edge := r.bytesOf(s, Window)
	least := int64(math.MaxInt64)
	for n := int64(1); n <= parts; n++ {
		if parts%n > 0 {
			continue
		}
		most, cached := int64(0), int64(0)
		for i := range n {
			from, to := i*parts/n, (i+1)*parts/n
			sums, own := v.held(from, to)
			lo, hi := v.part(from), v.part(to)
			held := sums*(4*int64(rel.Table.Width)+4) + own*(4*width+4) + node*(hi-lo) +
				edge*r.topology.count(rel.Edges, of, lo, hi)
			near := r.indexBytes(now) / max(of.count, 1) * sums // edges of nodes whose sums are held
			most, cached = max(most, held), max(cached, r.cachedBytes(near))
		}
		now.Passes, now.room, now.Memory = int(n), most, most+r.fixed(s, Window)
		if least = min(least, now.Memory+cached); now.Memory+cached <= memory {
			r.planPasses(now, s, v, tables)
			return nil
		}
	}
	return fmt.Errorf("%w: %s takes at least %s for sums while rows pass by, and the limit is %s; allow more",
		pinned.ErrLimit, s.Name, machine.Bytes(least), machine.Bytes(r.opt.Memory))
}

// planPasses plans the passes of a window.
func (r *run) planPasses(now *StepReport, s *Step, v *survey, tables []*Table) {
	n := int64(now.Passes)
	ranges := make([][2]int64, n)
	for i := range n {
		ranges[i] = [2]int64{v.part(i * parts / n), v.part((i + 1) * parts / n)}
	}
	read, computing := r.passesOver(v, &s.Sums[0], tables, ranges, now.edges[0], true)
	now.Plan = Work{Read: r.indexBytes(now) + read}
	computing += now.edgeSeconds(s, r.rates.passing)
	now.Plan.Seconds = both(float64(read)/r.rates.Read, computing) + r.indexSeconds(now) +
		float64(now.room)*r.rates.fresh
}

// lookedAt returns how many of some nodes a sweep looks at for a block to which they have this number of edges: of each
// group, its number, and the nodes of those that have one of the edges.
func lookedAt(nodes, edges float64) float64 {
	return nodes * (1.0/group + 1 - math.Exp(-group*edges/max(nodes, 1)))
}

// both returns how long a disk and processors take that work at once: blocks wait for each other now and then, and who
// reads takes a bit of a processor.
func both(reading, computing float64) float64 {
	return max(reading, computing) + min(reading, computing)/5
}
