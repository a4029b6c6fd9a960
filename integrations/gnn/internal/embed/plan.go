package embed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
)

// The ways to sum rows.
const (
	None     = ""
	Resident = "resident"
	Sweeps   = "sweeps"
	Window   = "window"
	Hubs     = "hubs"
	Gather   = "gather"
)

// Work is what a step takes of disk and time: as planned, or as it was.
type Work struct {
	Read     int64   `json:"bytes_read"`
	Written  int64   `json:"bytes_written"`
	Scratch  int64   `json:"scratch_bytes"` // of those written: of files that no later run reads
	Requests int64   `json:"requests"`      // at places all over a file
	Seconds  float64 `json:"seconds"`
}

func (w *Work) add(o Work) {
	w.Read, w.Written, w.Scratch = w.Read+o.Read, w.Written+o.Written, w.Scratch+o.Scratch
	w.Requests, w.Seconds = w.Requests+o.Requests, w.Seconds+o.Seconds
}

// StepReport says how a step is carried out, and what came of it.
type StepReport struct {
	Step   string `json:"step"`
	Nodes  int64  `json:"nodes"`
	Way    string `json:"way"`          // None, Resident, Sweeps, ..
	Passes int    `json:"passes"`       // of sweeps and windows: ranges of nodes
	Memory int64  `json:"memory_bytes"` // that it takes
	Plan   Work   `json:"plan"`
	Did    Work   `json:"did"`

	room    int64   // bytes of a range
	edges   []int64 // of each relation
	cache   int64   // bytes of caches of rows
	asks    int64   // rows of a table that are known ahead
	missing int64   // bytes of tables that are to be in memory, and are not in the page cache
	cuts    []cutKey
	hubs    *hubsPlan
}

// Choice is what another limit of memory would come to.
type Choice struct {
	Memory int64 `json:"memory_bytes"`
	Passes int   `json:"passes"` // over tables, of all steps
	Work
}

// Report is what a run came to, or would.
type Report struct {
	Steps   []StepReport
	Choices []Choice // of a plan: by memory
	Rates   struct{ Read, Write float64 }
}

func (r *run) report() *Report {
	out := &Report{}
	for _, s := range r.plans {
		out.Steps = append(out.Steps, *s)
	}
	out.Rates.Read, out.Rates.Write = r.rates.Read, r.rates.Write
	return out
}

// Plan says how Run would carry out a program, which it does not begin, and what more or less memory would change.
func Plan(ctx context.Context, p *Program, opt Options) (*Report, error) {
	r, err := open(ctx, p, opt, true)
	if err != nil {
		return nil, err
	}
	out, given := r.report(), r.opt.Memory
	for memory := given / 2; memory > 0; memory *= 2 {
		r.only = memory > given // which a rehearsal would take
		r.opt.Memory, r.plans = memory, nil
		err := pinned.Guard(r.plan)
		if errors.Is(err, pinned.ErrLimit) {
			continue // less than any range takes
		}
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		c := Choice{Memory: memory}
		for _, s := range r.plans {
			c.add(s.Plan)
			c.Passes += s.Passes
		}
		out.Choices = append(out.Choices, c)
		if r.near() && memory > given || len(out.Choices) > mostChoices {
			break
		}
	}
	return out, r.close()
}

// mostChoices bounds how many limits of memory a plan tells.
const mostChoices = 12

// passing reports whether a way adds rows to sums while they pass by.
func passing(way string) bool { return way == Sweeps || way == Window || way == Hubs }

// bytesOf returns what a node of a step takes of memory, without its edges, and what an edge takes. Sums of rows that
// pass by are counted apart.
func (r *run) bytesOf(s *Step, way string) (node, edge int64) {
	for i := range s.Sums {
		rel := &s.Sums[i]
		node += 4 * int64(rel.Heads) // sums of weights
		if rel.Reduce == Attend {
			node += 8 * int64(rel.Heads)
		}
		if passing(way) {
			if node += 4; rel.Reduce.normed() { // places of sums, and degrees
				node += 4
			}
			if way == Window {
				node += 4 + 1 // places of own rows, and whose rows are there
			} else if way == Hubs {
				node += 2 // classes, and sets of hubs
			}
			continue
		}
		node += 4*int64(rel.Table.Width) + 8 // where edges begin
		size, each := r.p.Graph.Indices().DType().Size(), int64(0)
		if !r.topology.views(rel.Edges) || rel.Loops {
			each = size
		}
		each += map[Reduce]int64{Norm: 4, NormIn: 4, Attend: 4 * int64(rel.Heads)}[rel.Reduce]
		if way == Gather {
			each += 4
			for _, t := range rel.tables() { // at most: two ranges of rows, and one of them as float32
				each += 3 * max(t.rowBytes(), 4*int64(t.Width)/3)
			}
		}
		edge = max(edge, each)
	}
	if len(s.Sums) == 0 {
		for _, t := range s.To {
			node += 4 * int64(t.Width)
		}
	}
	return node, edge
}

// fixed returns what a step takes beside its ranges: blocks that are read, rows that are made, and degrees.
func (r *run) fixed(s *Step, way string) (bytes int64) {
	rows := s.applyRows()
	for _, t := range s.To {
		bytes += 2 * 4 * rows * int64(t.Width)
	}
	for _, t := range s.Own {
		if bytes += rows * 4 * int64(t.Width); way != Window { // where they pass by with the others
			bytes += rows * 3 * t.rowBytes()
		}
	}
	for i := range s.Sums {
		rel := &s.Sums[i]
		if rel.Reduce.normed() {
			bytes += 4 * rel.Table.Rows
		}
		if !passing(way) {
			continue
		}
		tables := rel.tables()
		if way == Window {
			tables, _, _ = s.windowTables()
			bytes += rows*4*int64(rel.Table.Width) + hugePage + 8*r.topology.nodes(s.Type)/s.windowUnit()
		}
		bytes += 5*max(r.blockBytes()*int64(len(tables)), rowBytes(tables)<<r.chunkShift(rel.Edges)) +
			r.cutMemory(rel, r.topology.nodes(s.Type))
		if way == Hubs {
			bytes += 4*rows*int64(rel.Table.Width) + 2*spillBuffer + 2*hugePage
			if rel.Loops {
				bytes += rows * (3*rel.Table.rowBytes() + 4*int64(rel.Table.Width))
			}
		}
	}
	return bytes + 1<<20
}

// hugePage is what memory is rounded up to, where there is much of it.
const hugePage = 2 << 20

// nearBytes returns what the tables of a step's sums take in memory.
func (r *run) nearBytes(s *Step) (bytes int64) {
	for i := range s.Sums {
		for _, t := range s.Sums[i].tables() {
			if !t.held {
				bytes += t.size()
			}
			if !t.operand() {
				bytes += t.Rows * 4 * int64(t.Width)
			}
		}
	}
	return bytes
}

// residentRange is how many bytes a range has whose operands are in memory anyway.
const residentRange = 32 << 20

// decide plans all steps, with rates that are measured where they matter.
func (r *run) decide(measured bool) error {
	if r.rates = someRates; !measured {
		if r.only = true; r.opt.Way != "" {
			return errors.Join(r.plan(), r.dropClasses())
		}
		if err := r.plan(); err == nil && r.near() {
			return nil
		}
		r.plans, r.only = nil, false
	}
	if err := r.measure(); err != nil {
		return err
	}
	return errors.Join(r.plan(), r.dropClasses())
}

// dropClasses gives back what only hubs need, where no step has any.
func (r *run) dropClasses() (err error) {
	if slices.ContainsFunc(r.plans, func(s *StepReport) bool { return s.Way == Hubs }) {
		return nil
	}
	for edges, d := range r.classed {
		d.class, err = nil, errors.Join(err, r.giveBack(classesRoom(edges)))
	}
	return err
}

// near reports whether all that steps sum has room in memory.
func (r *run) near() bool {
	return !slices.ContainsFunc(r.plans, func(s *StepReport) bool { return s.Way != Resident && s.Way != None })
}

// plan decides how each step is carried out.
func (r *run) plan() error {
	r.ledger.SetLimit(r.opt.Memory + r.opt.Memory/16)
	held := int64(0)
	for k, s := range r.p.Steps {
		now := &StepReport{Step: s.Name, Nodes: r.of[k].count}
		r.plans = append(r.plans, now)
		for i := range s.Sums {
			now.edges = append(now.edges, r.topology.count(s.Sums[i].Edges, r.of[k], 0, r.of[k].count))
		}
		if err := r.planStep(now, s, r.of[k], r.opt.Memory-held); err != nil {
			return err
		}
		size := int64(0)
		for _, t := range s.To {
			size += t.size()
		}
		hold := r.readBy(s, k) && size <= (r.opt.Memory-held)/4 && !r.opt.Files // and is no result
		for _, t := range s.To {
			t.held = hold
		}
		if hold {
			held += size
			now.Plan.Seconds += float64(size) * r.rates.fresh
		} else {
			written := now.Nodes * rowBytes(s.To)
			now.Plan.Written += written
			now.Plan.Seconds += float64(written) / r.rates.Write
			now.Plan.Seconds *= 1 + r.rates.note
			now.Plan.Seconds += r.rates.note * float64(1+len(s.To))
		}
	}
	return nil
}

// readBy reports whether steps after k read all tables that a step makes.
func (r *run) readBy(s *Step, k int) bool {
	for _, t := range s.To {
		if !r.readAfter(t, k) {
			return false
		}
	}
	return true
}

// planStep chooses the way of a step that is predicted to take the least time.
func (r *run) planStep(now *StepReport, s *Step, of nodes, memory int64) (err error) {
	ownOf := func(now *StepReport) Work { return r.planOwn(now.Way, s, of) }
	defer func() { now.Plan.add(ownOf(now)) }()
	if len(s.Sums) == 0 {
		now.room, now.Passes = residentRange, 1
		return nil
	}
	if r.opt.Way == Resident || r.opt.Way == "" {
		if left := memory - r.fixed(s, Resident) - r.nearBytes(s); r.opt.Way != "" || left > residentRange {
			r.planResident(now, s, left)
			return nil
		}
	}
	if r.opt.Way == Gather {
		return r.planGather(now, s, of, memory, math.Inf(1))
	}
	if r.opt.Way == Window && s.windowed(r, of) {
		return r.planWindow(now, s, of, memory)
	}
	if r.opt.Way == Hubs && s.hubbed(r, of) {
		return r.planHubs(now, s, of, memory)
	}
	if err = r.planSweeps(now, s, of, memory); slices.Contains([]string{Sweeps, Window, Hubs}, r.opt.Way) {
		return err
	}
	try := func(plan func(other *StepReport, most float64) error) {
		most := math.Inf(1)
		if err == nil {
			most = now.Plan.Seconds + ownOf(now).Seconds
		}
		other := *now
		if plan(&other, most) == nil && (err != nil || other.better(now, ownOf)) {
			*now, err = other, nil
		}
	}
	if s.windowed(r, of) {
		try(func(other *StepReport, _ float64) error { return r.planWindow(other, s, of, memory) })
	}
	if s.hubbed(r, of) {
		try(func(other *StepReport, _ float64) error { return r.planHubs(other, s, of, memory) })
	}
	if !r.only {
		try(func(other *StepReport, most float64) error {
			return r.planGather(other, s, of, memory, most-ownOf(&StepReport{}).Seconds)
		})
	}
	return err
}

// better reports that a step is carried out better than in another way: with fewer bytes, which are exact, in about the
// same time, or with more in much less.
func (now *StepReport) better(than *StepReport, ownOf func(*StepReport) Work) bool {
	ours, theirs := now.Plan, than.Plan
	ours.add(ownOf(now))
	theirs.add(ownOf(than))
	if now.Way == Gather { // whose bytes come from all over
		return ours.Seconds < theirs.Seconds
	}
	if ours.Read+ours.Written <= theirs.Read+theirs.Written {
		return ours.Seconds < theirs.Seconds*muchFaster
	}
	return ours.Seconds*muchFaster < theirs.Seconds
}

// muchFaster is the ratio of planned seconds from which on they decide: rates of trials are noisy.
const muchFaster = 1.25

// planOwn plans what is done for each node, beside its sums.
func (r *run) planOwn(way string, s *Step, of nodes) Work {
	own := Work{Seconds: float64(of.count) * r.rates.rows[s]}
	for _, t := range s.ownTables() {
		if way == Window {
			continue // they pass by, with those that are summed
		}
		own.Seconds += float64(of.count) * r.rates.widen[t]
		if !t.held {
			own.Read += of.count * t.rowBytes()
		}
	}
	own.Seconds = r.both(own.Seconds, float64(own.Read)/r.rates.Read, own.Read) // the next rows are read meanwhile
	own.Seconds += r.countingSeconds(s)
	return own
}

// countingSeconds returns what the degrees take that no step before has counted.
func (r *run) countingSeconds(s *Step) (seconds float64) {
	for i := range s.Sums {
		if rel := &s.Sums[i]; rel.Reduce.normed() {
			seconds += float64(r.p.Graph.Schema().Edges[rel.Edges].Count) * r.rates.degrees[rel]
		}
	}
	return seconds // measured for the first step that counts them alone
}

// edgeSeconds returns what the edges of a step take, by relation.
func (now *StepReport) edgeSeconds(s *Step, rate map[*Relation]float64) (seconds float64) {
	for i := range s.Sums {
		seconds += float64(now.edges[i]) * rate[&s.Sums[i]]
	}
	return seconds
}

// edgeCount returns how many edges a step has.
func (now *StepReport) edgeCount() (n int64) {
	for _, e := range now.edges {
		n += e
	}
	return n
}

// indexBytes returns the bytes of the edges that a step reads.
func (r *run) indexBytes(now *StepReport) int64 {
	return now.edgeCount()*r.p.Graph.Indices().DType().Size() + 8*now.Nodes*int64(len(now.edges))
}

// indexSeconds returns how long the disk reads as many bytes of the edges: of those in the page cache none.
func (r *run) indexSeconds(bytes int64) float64 {
	if r.indexMissing < 0 {
		all := r.p.Graph.Indices().Bytes()
		r.indexMissing = float64(missing(all)) / float64(max(len(all), 1))
	}
	return float64(bytes) * r.indexMissing / r.rates.Read
}

func (r *run) planResident(now *StepReport, s *Step, left int64) {
	now.Way, now.Passes, now.room = Resident, 1, min(max(left, 1<<20), residentRange)
	now.Memory = r.opt.Memory - left + now.room
	now.Plan = Work{Read: r.indexBytes(now)}
	for i := range s.Sums {
		rel := &s.Sums[i]
		rate := r.rates.kernels[rel]
		if !rel.Table.held && rel.Table.operand() {
			rate = r.rates.mapped[rel]
			now.Plan.Seconds += float64(rel.Table.size()) * r.rates.faults
		}
		now.Plan.Seconds += float64(now.edges[i]) * rate
		for _, t := range rel.tables() {
			if !t.held {
				now.Plan.Read += t.size()
				now.missing += missing(t.bytes)
			}
			if !t.operand() {
				now.Plan.Seconds += float64(t.Rows) * (r.rates.widen[t] + float64(4*t.Width)*r.rates.fresh)
			}
		}
	}
	now.Plan.Seconds += float64(now.missing)/r.rates.Read + r.indexSeconds(r.indexBytes(now))
}

// planGather divides memory: a quarter for the rows of ranges, a quarter for what is known ahead, and the rest for
// caches.
//
// Then it plans the reads of all ranges as the run will, until they take longer than seconds.
func (r *run) planGather(now *StepReport, s *Step, of nodes, memory int64, seconds float64) error {
	now.Way, now.cuts = Gather, nil
	states, tables := int64(0), int64(0)
	for i := range s.Sums {
		rel := &s.Sums[i]
		tables += int64(len(rel.tables()))
		states += rel.Table.Rows * 3 / 16
		for _, t := range rel.tables() {
			states += 5*t.Rows + gatherDepth<<16
		}
	}
	left := memory - r.fixed(s, Gather) - states
	node, edge := r.bytesOf(s, Gather)
	if all := node*now.Nodes + edge*now.edgeCount(); all < left/4 {
		now.room = all + 1
	} else {
		now.room = left / 4
	}
	least := r.unit(s) * (node + edge*(now.edgeCount()/max(now.Nodes, 1)))
	if now.room < least && now.room == left/4 {
		return fmt.Errorf("%w: %s takes %s for the rows of a range of %d nodes, and %s are left of %s; allow more",
			pinned.ErrLimit, s.Name, machine.Bytes(least), r.unit(s), machine.Bytes(max(left, 0)),
			machine.Bytes(r.opt.Memory))
	}
	now.asks = left / 4 / max(tables, 1) / diskio.AskBytes
	now.cache = left / 4
	now.Passes = 1
	now.Memory = left + r.fixed(s, Gather) + states
	now.Plan = Work{Read: 2 * r.indexBytes(now)} // ahead, and when their turn comes
	began := time.Now()
	if err := r.rehearse(now, s, of, seconds); err != nil {
		return err
	}
	// The run plans its reads as the rehearsal has, and sums a range while the rows of the next one are read.
	computing := time.Since(began).Seconds() + now.edgeSeconds(s, r.rates.kernels)
	now.Plan.Seconds = r.both(now.Plan.Seconds, computing, now.Plan.Read) + r.indexSeconds(r.indexBytes(now))
	return nil
}

// unit is what ranges of nodes are multiples of.
func (r *run) unit(s *Step) int64 { return cmp.Or(int64(s.Rows), 256) }

// rangeEnd returns where a range ends that begins at a node.
func (r *run) rangeEnd(s *Step, of nodes, lo, most int64) int64 {
	unit := r.unit(s)
	for hi, bytes := lo, int64(0); ; {
		next := min((hi/unit+1)*unit, most)
		bytes += r.rangeBytes(s, of, hi, next)
		if (bytes > r.now.room || next-lo > math.MaxInt32) && hi > lo { // places of sums are numbers of 32 bits
			return hi
		}
		if next == most {
			return most
		}
		hi = next
	}
}

// rangeBytes returns what a range takes of memory.
func (r *run) rangeBytes(s *Step, of nodes, lo, hi int64) int64 {
	node, edge := r.bytesOf(s, r.now.Way)
	bytes := node * (hi - lo)
	if r.now.Way == Sweeps {
		bytes += r.sumBytes(s, of, lo, hi)
	}
	if edge > 0 {
		for i := range s.Sums {
			bytes += edge * r.topology.count(s.Sums[i].Edges, of, lo, hi)
		}
	}
	return bytes
}
