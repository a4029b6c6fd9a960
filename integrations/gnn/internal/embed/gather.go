package embed

import (
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// gatherer brings the rows of ranges' sources, of one relation, from columns with caches.
type gatherer struct {
	*run
	name    string // of its memory
	rel     *Relation
	of      nodes
	marks   rankedSet // sources of the range in hand
	tables  []*gathered
	ranges  [][2]int64
	asked   int // ranges whose rows were asked for
	last    int // how many the last of them asked for
	planned int // and planned
	thin    int64
}

// A rehearsal over more than manyEdges plans the reads of one in thinly pieces of a table alone, in as much less of a
// cache: what these come to is a sample of all reads, and to plan those takes minutes where edges are very many. Rows
// of a piece may share a request.
const (
	thinly    = 16
	pieceRows = 4096
)

var manyEdges int64 = 1 << 25

// sampled reports whether a rehearsal plans the reads of a piece: of one in each thinly that follow each other.
func (g *gatherer) sampled(piece int) bool {
	return g.thin == 1 || uint64(piece/thinly+1)*0x9e3779b97f4a7c15>>32%thinly == uint64(piece%thinly)
}

// gathered is a table whose rows are brought.
type gathered struct {
	*Table
	reader *diskio.Reader // nil: the table is in memory
	column *diskio.Column
	plan   *diskio.Planner // the column's, or of a rehearsal
	begun  []*diskio.Batch
	rooms  [2]pinned.Buffer // of two ranges in turns
}

// lookahead is how many ranges are known ahead, at most: the memory of what they ask for bounds them, too.
const lookahead = 64

// gatherSpan makes rows of some nodes that follow each other, range by range.
func (r *run) gatherSpan(k int, s *Step, of nodes, span [2]int64) (err error) {
	ranges := r.ranges(s, of, span)
	var all []*gatherer
	defer func() {
		for _, g := range all {
			err = errors.Join(err, g.close())
		}
	}()
	for i := range s.Sums {
		g := &gatherer{run: r, name: fmt.Sprint(i), rel: &s.Sums[i], of: of, ranges: ranges, thin: 1}
		all = append(all, g)
		if err := g.open(int64(len(s.Sums))); err != nil {
			return err
		}
	}
	for n, one := range ranges {
		if err := r.rangeOf(k, s, of, one[0], one[1], func(i int, at state) (summed, error) {
			y, err := r.sumsRoom(i, &s.Sums[i], one[1]-one[0])
			if err != nil {
				return y, err
			}
			return y, all[i].sum(n, y.rows, at)
		}); err != nil {
			return fmt.Errorf("nodes %d to %d: %w", of.at(one[0]), of.at(one[1]-1), err)
		}
	}
	return nil
}

// ranges cuts nodes that follow each other into ranges.
func (r *run) ranges(s *Step, of nodes, span [2]int64) (all [][2]int64) {
	for lo := span[0]; lo < span[1]; {
		hi := r.rangeEnd(s, of, lo, span[1])
		all = append(all, [2]int64{lo, hi})
		lo = hi
	}
	return all
}

// errDear ends a rehearsal of what takes longer than another way.
var errDear = errors.New("embed: to gather takes longer")

// rehearse plans all reads of a step as the run will, and adds what they take.
func (r *run) rehearse(now *StepReport, s *Step, of nodes, seconds float64) (err error) {
	r.now = now
	defer func() { now.Did = Work{} }()
	ranges := r.ranges(s, of, [2]int64{0, of.count})
	for _, one := range ranges { // of a node with very many edges, which a sweep adds up in as much memory as any other
		if bytes := r.rangeBytes(s, of, one[0], one[1]); bytes > 2*now.room {
			return fmt.Errorf("%w: %s takes %s for the rows of the sources of nodes %d to %d, and the limit is %s; "+
				"allow more", pinned.ErrLimit, s.Name, machine.Bytes(bytes), of.at(one[0]), of.at(one[1]-1),
				machine.Bytes(r.opt.Memory))
		}
	}
	for i := range s.Sums {
		g := &gatherer{run: r, name: fmt.Sprint(i), rel: &s.Sums[i], of: of, ranges: ranges, thin: 1}
		if now.edges[i] > manyEdges {
			g.thin = thinly
		}
		defer func() { err = errors.Join(err, g.close()) }()
		if err := g.mark(); err != nil {
			return err
		}
		for _, t := range g.rel.tables() {
			planned := &gathered{Table: t}
			if g.tables = append(g.tables, planned); t.held {
				continue
			}
			layout := diskio.Layout{RowBytes: t.rowBytes(), Rows: t.Rows, Shape: r.shape()}
			opt := r.planner(t, rowBytes(g.rel.tables())*int64(len(s.Sums))*g.thin)
			if planned.plan, err = diskio.NewPlanner(layout, opt); err != nil {
				return err
			}
		}
		if err := g.rehearse(seconds); err != nil {
			return err
		}
	}
	return nil
}

// shape is that of requests.
func (r *run) shape() disk.Shape {
	shape := r.rates.probe.Shape
	if shape.Page == 0 {
		shape = disk.Shape{Page: 4096, Gap: 8 << 10, Most: 1 << 16, Sector: 512}
	}
	return shape
}

// rehearse plans the reads of all ranges.
func (g *gatherer) rehearse(seconds float64) error {
	var plan diskio.Plan
	for n := range g.ranges {
		if err := g.ask(n); err != nil {
			return err
		}
		for _, t := range g.tables {
			if t.plan == nil {
				continue
			}
			t.plan.Next(&plan)
			g.now.Plan.add(Work{Read: plan.Bytes * g.thin, Requests: plan.Requests * g.thin,
				Seconds: g.rates.probe.Seconds(plan.Requests*g.thin, plan.Bytes*g.thin)})
		}
		if g.now.Plan.Seconds > seconds {
			return errDear
		}
		if err := g.ctxErr(); err != nil {
			return err
		}
	}
	return nil
}

// mark takes the memory in which sources are marked.
func (g *gatherer) mark() (err error) {
	g.marks, err = g.rankedRoom("marks of "+g.name, g.rel.Table.Rows)
	return err
}

// open opens the tables, whose caches share what memory the plan has for them with those of other relations.
func (g *gatherer) open(relations int64) error {
	if err := g.mark(); err != nil {
		return err
	}
	for _, t := range g.rel.tables() {
		of := &gathered{Table: t}
		g.tables = append(g.tables, of)
		if t.near {
			continue
		}
		reader, layouts, err := diskio.Open(g.ctx, []diskio.Mapped{{Bytes: t.bytes, RowBytes: t.rowBytes()}},
			diskio.ReaderOptions{Depth: gatherDepth, Shape: g.rates.probe.Shape, Memory: g.memory()})
		if errors.Is(err, pinned.ErrNotMapped) {
			continue // it is in memory
		}
		if err != nil {
			return err
		}
		of.reader = reader
		of.column, err = diskio.NewColumn(reader, 0, layouts[0], diskio.ColumnOptions{
			PlannerOptions: g.planner(t, rowBytes(g.rel.tables())*relations), Early: 0, Cache: g.memory()})
		if err != nil {
			return err
		}
		of.plan = of.column.Planner()
	}
	return nil
}

// gatherDepth is how many requests are under way at a time.
const gatherDepth = 64

// planner returns what a table's cache may take: its share of what the plan has for caches, by the bytes of rows.
func (g *run) planner(t *Table, rows int64) diskio.PlannerOptions {
	share := g.now.cache / max(rows, 1) * t.rowBytes()
	return diskio.PlannerOptions{Slots: int(min(share/(t.rowBytes()+plannedRow), t.Rows)), Lookahead: lookahead,
		Asks: int(min(g.now.asks, lookahead*t.Rows)), Along: alongRows, Memory: g.memory()}
}

// plannedRow is what the plan of a cache takes for each of its rows.
const plannedRow = 12

// alongRows are read for later ranges at most, of those on the pages of others.
const alongRows = 1 << 16

func (g *gatherer) close() (err error) {
	for _, t := range g.tables {
		if t.column != nil {
			err = errors.Join(err, t.column.Stop(), t.column.Close())
		} else if t.plan != nil {
			err = errors.Join(err, t.plan.Close())
		}
		if t.reader != nil {
			err = errors.Join(err, t.reader.Close())
		}
		err = errors.Join(err, t.rooms[0].Close(), t.rooms[1].Close())
	}
	return err
}

// sources marks the sources of a range, and returns its edges.
func (g *gatherer) sources(n int) (*links, error) {
	l, err := g.links(g.rel, g.of, g.ranges[n][0], g.ranges[n][1], g.rel.Loops)
	if err != nil {
		return nil, err
	}
	clear(g.marks.set)
	for e := range l.count() {
		g.marks.add(l.source(e))
	}
	for i := range g.marks.set {
		if !g.sampled(i * 64 / pieceRows) {
			g.marks.set[i] = 0
		}
	}
	g.marks.number()
	return l, nil
}

// list returns the sources that are marked, ascending.
func (g *gatherer) list() ([]uint32, error) {
	all, err := room[uint32](g.run, "sources", g.marks.members())
	if err != nil {
		return nil, err
	}
	return appendMembers(all[:0], g.marks.set), nil
}

// ask asks for the rows of the range in hand, the next, and those after them as far as memory goes.
func (g *gatherer) ask(n int) error {
	for ; g.asked < len(g.ranges) && g.asked < n+lookahead; g.asked++ {
		full := false
		for _, t := range g.tables {
			full = full || t.plan != nil && g.asked > n+1 && int64(t.plan.Asks()+g.last)*g.thin > g.now.asks
		}
		if full {
			break
		}
		if _, err := g.sources(g.asked); err != nil {
			return err
		}
		rows, err := g.list()
		if err != nil {
			return err
		}
		g.last = len(rows)
		for _, t := range g.tables {
			if t.plan == nil {
				continue
			}
			if err := t.plan.Ask(rows); err != nil {
				return err
			}
		}
	}
	return nil
}

// look asks for the rows of ranges to come, and begins to read those of the range in hand and the next.
func (g *gatherer) look(n int) error {
	if err := g.ask(n); err != nil {
		return err
	}
	for ; g.planned < g.asked && g.planned <= n+1; g.planned++ {
		for _, t := range g.tables {
			if t.column == nil {
				continue
			}
			b, err := t.column.Next()
			if err != nil {
				return err
			}
			room := &t.rooms[g.planned%2]
			room.Options = g.memory()
			bytes := int64(b.Plan.Rows) * t.rowBytes()
			if err := room.Claim(bytes); err != nil {
				return err
			}
			if err := b.Start([]diskio.Part{{Rows: b.Plan.Rows, Bytes: room.Bytes()[:bytes]}}); err != nil {
				return err
			}
			g.now.Did.Read, g.now.Did.Requests = g.now.Did.Read+b.Plan.Bytes, g.now.Did.Requests+b.Plan.Requests
			t.begun = append(t.begun, b)
		}
	}
	return nil
}

// sum sums the rows of a range's sources.
func (g *gatherer) sum(n int, y []float32, at state) error {
	if err := g.look(n); err != nil {
		return err
	}
	global, err := g.sources(n)
	if err != nil {
		return err
	}
	local := &links{start: global.start}
	if local.narrow, err = room[int32](g.run, "local", global.count()); err != nil {
		return err
	}
	if err := g.pool.Split(global.count(), 1<<14, func(lo, hi int64) {
		for e := lo; e < hi; e++ {
			local.narrow[e] = int32(g.marks.rank(global.source(e)))
		}
	}); err != nil {
		return err
	}
	o := &operands{global: global, local: local}
	if o.x, err = g.rows(g.tables[0], n); err != nil {
		return err
	}
	if g.rel.Reduce == Attend {
		x, err := g.rows(g.tables[1], n)
		if err != nil {
			return err
		}
		o.score = floats(x.Bytes())
	}
	return g.multiply(y, g.rel, o, at)
}

// rows returns the rows of the range's sources in a table.
func (g *gatherer) rows(t *gathered, n int) (unified.Tensor, error) {
	count := g.marks.members()
	var raw []byte
	if t.column != nil {
		b := t.begun[0]
		if _, err := b.Finish(g.ctx); err != nil {
			return unified.Tensor{}, g.readError(t.Table, 0, err)
		}
		t.begun = t.begun[1:]
		raw = t.rooms[n%2].Bytes()[:count*t.rowBytes()]
	}
	if raw != nil && t.operand() {
		return unified.New(t.DType, raw, count, int64(t.Width))
	}
	own, err := g.list()
	if err != nil {
		return unified.Tensor{}, err
	}
	x, err := room[float32](g.run, "wide "+t.Name, count*int64(t.Width))
	if err != nil {
		return unified.Tensor{}, err
	}
	row, width := t.rowBytes(), int64(t.Width)
	return matrix(x, t.Width), g.pool.Split(count, 256, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			from := t.bytes[int64(own[i])*row:][:row]
			if raw != nil {
				from = raw[i*row : (i+1)*row]
			}
			t.widen(x[i*width:(i+1)*width], from, int64(own[i]))
		}
	})
}
