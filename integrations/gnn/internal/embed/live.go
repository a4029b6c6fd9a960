package embed

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// Live is the tables of a program in memory, which follow changes of its graph and features. A change makes again the
// rows that it reaches, of all of their edges: they have the bytes of a run over the graph that has changed. Apply,
// Compact and Close come one after the other; Rows may come from any goroutine at any time.
type Live struct {
	run      *run
	log      *changeLog
	inputs   []Input // by type of nodes
	in, out  *lists
	marks    []marks              // by type of nodes: those of a step
	from     []marks              // by type of nodes: sources
	normed   map[string]*Relation // by name of their degrees
	undo     undo
	take     takeMemory // of tables
	inFiles  bool       // tables are
	applying sync.Mutex
	closed   bool

	mu         sync.RWMutex // of what follows
	last       *Table
	rows       int64
	generation uint64
}

// LiveOptions say how a program is held in memory. They change no byte of what it makes.
type LiveOptions struct {
	Folder   string // of the log of changes, which is made and stays
	Dataset  string // tells graphs and features apart
	Memory   int64  // to take at most; 0: half of what is free
	Workers  int
	Tuning   *sparse.Tuning
	Files    bool // has tables in files, also where memory has room for them
	Progress func(step string, done, total int64)
}

// LiveReport is what a change came to.
type LiveReport struct {
	Generation uint64
	Nodes      int64   // with rows in the last table
	Rows       int64   // of features that changed
	Edges      int64   // that were added or taken away
	Made       []int64 // [step] rows that were made again
	EdgesRead  int64
	Seconds    float64
	LogBytes   int64
}

// errClosed is returned by a Live that is closed.
var errClosed = errors.New("embed: rows that follow changes: it is closed")

// OpenLive makes all tables of a program in memory, after the changes of the log in its folder. inputs are the features
// of each type of nodes. The graph is not read any more after that.
func OpenLive(ctx context.Context, p *Program, inputs []Input, opt LiveOptions) (l *Live, err error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if opt.Memory == 0 {
		opt.Memory = machine.Probe().Room() / 2
	}
	r := &run{ctx: ctx, p: p, rooms: map[string]*pinned.Buffer{}, wide: map[*Table][]float32{},
		degrees: map[string]*degrees{}, indexMissing: -1, of: make([]nodes, len(p.Steps)),
		opt: Options{Memory: opt.Memory, Files: opt.Files, Progress: opt.Progress}}
	r.pool = sparse.Open(sparse.Options{Workers: opt.Workers, Tuning: opt.Tuning})
	l = &Live{run: r, inputs: inputs, normed: map[string]*Relation{}}
	l.last = p.Steps[len(p.Steps)-1].To[0]
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	err = pinned.Guard(func() (err error) {
		if r.topology, err = newTopology(p.Graph); err != nil {
			return err
		}
		if err := l.fits(opt.Folder); err != nil {
			return err
		}
		var before *Change
		if l.log, before, err = openLog(opt.Folder, opt.Dataset, p.Base); err != nil {
			return err
		}
		return l.open(before)
	})
	return l, err
}

// fits decides whether tables are in memory or in files of a folder, and refuses what takes more memory than is
// allowed.
func (l *Live) fits(folder string) error {
	r := l.run
	schema, tables, edges, rest := r.p.Graph.Schema(), int64(0), int64(0), int64(2*residentRange)
	for i := range l.inputs {
		if n := schema.Nodes[i].Count; n > math.MaxInt32 {
			return fmt.Errorf("embed: rows that follow changes: there are %d nodes of type %q; there may be %d", n,
				schema.Nodes[i].Name, math.MaxInt32)
		}
		if in := &l.inputs[i]; in.Table != nil {
			tables += in.Table.Rows * int64(in.Width) * 4 * (growth + 1) / growth
		}
	}
	for _, s := range l.run.p.Steps {
		for _, t := range s.To { // a copy is for a change that ends early, or rows that nobody sees yet
			tables += 2 * t.size() * (growth + 1) / growth
		}
	}
	for _, s := range r.p.Steps {
		rest = max(rest, 2*residentRange+r.fixed(s, Resident))
	}
	for e := range schema.Edges {
		of := &schema.Edges[e]
		edges += of.Count
		rest += nodeBytes * (schema.Nodes[of.Src].Count + schema.Nodes[of.Dst].Count)
	}
	rest += 3 * listBytes(edges) // of both directions, and while one of them moves
	l.take = func(n int64) ([]byte, func() error, error) {
		region, err := pinned.Allocate(n, r.memory())
		return region.Bytes(), region.Close, err
	}
	if tables+rest <= r.opt.Memory && !r.opt.Files {
		return nil
	}
	l.inFiles = true
	if l.take = func(n int64) ([]byte, func() error, error) { return scratch(folder, n) }; rest <= r.opt.Memory {
		return nil
	}
	return fmt.Errorf("%w: rows that follow changes take %s in memory for edges and sums, and %s more, in memory or "+
		"in files, for features and the rows of all layers; the limit is %s; allow more", pinned.ErrLimit,
		machine.Bytes(rest), machine.Bytes(tables), machine.Bytes(r.opt.Memory))
}

// open makes lists and tables of the graph, after changes.
func (l *Live) open(before *Change) (err error) {
	r := l.run
	if l.in, l.out, err = listsOf(r.topology, r.pool, r.memory()); err != nil {
		return err
	}
	r.topology = &topology{g: r.p.Graph, lists: l.in, narrow: l.in.array}
	l.marks, l.from = make([]marks, len(l.in.nodes)), make([]marks, len(l.in.nodes))
	for i := range l.inputs {
		if err := l.inputs[i].hold(l.take); err != nil {
			return err
		}
	}
	for _, s := range r.p.Steps {
		for i := range s.Sums {
			if rel := &s.Sums[i]; rel.Reduce.normed() {
				l.normed[r.degreesName(rel)] = rel
			}
		}
	}
	if err := l.begin(before); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrLog, l.log.path, err)
	}
	l.undo = undo{}
	for k, s := range r.p.Steps {
		if err := l.make(k, s, nodes{count: l.in.nodes[s.Type]}); err != nil {
			return err
		}
	}
	for name, rel := range l.normed {
		d, err := r.degreesOf(rel) // also where there was no node to make a row of
		if err != nil {
			return err
		}
		r.degrees[name] = &degrees{slices.Clone(d.of)} // which grows
		if err := r.rooms[name].Close(); err != nil {
			return err
		}
		delete(r.rooms, name)
	}
	l.rows, l.generation, r.live = l.last.Rows, l.log.generation, l
	return r.ctxErr()
}

// hold gives a table of features memory of its own, as float32 where package sparse does not read them as they are.
func (in *Input) hold(take takeMemory) error {
	t := in.Table
	if t == nil || t.near {
		return nil
	}
	was := *t
	t.bytes, t.region = nil, nil
	if !was.operand() {
		*t = Table{Name: was.Name, Rows: was.Rows, Width: was.Width, DType: unified.Float32}
	}
	if err := t.grow(t.Rows, take); err != nil {
		return err
	}
	if was.operand() {
		copy(t.bytes, was.bytes)
	} else {
		was.widen(floats(t.bytes), was.bytes, 0)
	}
	return nil
}

// make makes rows of a step.
func (l *Live) make(k int, s *Step, of nodes) error {
	r := l.run
	for _, t := range s.To {
		if t.free == nil { // at first
			if err := t.grow(of.count, l.take); err != nil {
				return err
			}
		}
	}
	if r.of[k] = of; of.count == 0 {
		return nil
	}
	r.now = &StepReport{Way: Resident, room: residentRange}
	all := [2]int64{0, of.count}
	r.left = [][2]int64{all}
	if err := r.span(k, s, of, all); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	return nil
}

// Apply makes a change, and returns when it is on the disk. After an error everything is as before. The change is read
// until Apply returns.
func (l *Live) Apply(ctx context.Context, c *Change) (*LiveReport, error) {
	l.applying.Lock()
	defer l.applying.Unlock()
	if l.closed {
		return nil, errClosed
	}
	if err := l.log.usable(); err != nil {
		return nil, err
	}
	began, r := time.Now(), l.run
	r.ctx, r.linked = ctx, 0
	report := &LiveReport{Made: make([]int64, len(r.p.Steps))}
	err := pinned.Guard(func() error {
		if err := l.begin(c); err != nil {
			return err
		}
		for k, s := range r.p.Steps {
			of := l.reached(s)
			report.Made[k] = of.count
			if err := cmp.Or(l.make(k, s, of), r.ctxErr()); err != nil {
				return err
			}
		}
		return l.log.append(c)
	})
	if err != nil {
		if back := pinned.Guard(l.back); back != nil {
			l.log.unknown = back
			err = errors.Join(err, back)
		}
		return nil, err
	}
	report.Rows, report.Edges = c.counts()
	report.EdgesRead, report.LogBytes, report.Generation = r.linked, l.log.end, l.log.generation
	report.Nodes = l.last.Rows
	err = l.show()
	report.Seconds = time.Since(began).Seconds()
	return report, err
}

// put writes rows that differ, and remembers the old ones; those of the last table stay aside. Steps that follow make
// again only what these reach.
func (l *Live) put(t *Table, of nodes, first int64, raw []byte) error {
	r, row := l.run, t.rowBytes()
	n := int64(len(raw)) / row
	differ, err := room[bool](r, "differ", n)
	if err != nil {
		return err
	}
	if err := r.pool.Split(n, 256, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			v := of.at(first + i)
			differ[i] = !bytes.Equal(raw[i*row:(i+1)*row], t.rows(v, v+1))
		}
	}); err != nil {
		return err
	}
	var some, from []int32 // nodes, and which rows these are
	for i, differs := range differ {
		if differs {
			some, from = append(some, int32(of.at(first+int64(i)))), append(from, int32(i))
		}
	}
	if some == nil {
		return nil
	}
	return l.keep(t, some, from, raw)
}

// keep writes some of the rows in raw to a table.
func (l *Live) keep(t *Table, some, from []int32, raw []byte) (err error) {
	one, row := saved{t: t, nodes: some}, t.rowBytes()
	l.undo.changed[t] = append(l.undo.changed[t], one.nodes...)
	if one.rows, err = l.undo.room.take(int64(len(from))*row, l.take); err != nil {
		return err
	}
	last := t == l.last
	err = l.run.pool.Split(int64(len(from)), 256, func(lo, hi int64) {
		for k := lo; k < hi; k++ {
			v, made := int64(some[k]), raw[int64(from[k])*row:][:row]
			aside := one.rows[k*row : (k+1)*row]
			if last {
				copy(aside, made)
				continue
			}
			copy(aside, t.rows(v, v+1))
			copy(t.rows(v, v+1), made)
		}
	})
	if last {
		l.undo.shown = append(l.undo.shown, one)
	} else {
		l.undo.saved = append(l.undo.saved, one)
	}
	return err
}

// show has readers see what a change made.
func (l *Live) show() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.undo.shown {
		if err := l.undo.shown[i].put(l.run.pool); err != nil {
			l.log.unknown = err
			return err
		}
	}
	l.rows, l.generation = l.last.Rows, l.log.generation
	l.undo.end()
	return nil
}

// Rows writes rows of the last table, one behind the other, and returns the generation that all of them are of.
func (l *Live) Rows(to []float32, of []int64) (generation uint64, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.last.bytes == nil {
		return 0, errClosed
	}
	width := l.last.Width
	if len(to) != len(of)*width {
		return 0, fmt.Errorf("%w: %d numbers for the rows of %d nodes; a row has %d", ErrRows, len(to), len(of), width)
	}
	for _, v := range of {
		if v < 0 || v >= l.rows {
			return 0, fmt.Errorf("%w: node %d, and there are %d in generation %d", ErrRows, v, l.rows, l.generation)
		}
	}
	return l.generation, pinned.Guard(func() error {
		for i, v := range of {
			copy(to[i*width:(i+1)*width], floats(l.last.rows(v, v+1)))
		}
		return nil
	})
}

// State returns the generation, and how many rows the last table has in it, of which width.
func (l *Live) State() (generation uint64, rows int64, width int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.generation, l.rows, l.last.Width
}

// InFiles reports whether tables are in files, since memory has no room for them.
func (l *Live) InFiles() bool { return l.inFiles }

// Compact makes the changes of the log one, which takes the place of the log. After an error the log is as before.
func (l *Live) Compact(context.Context) error {
	l.applying.Lock()
	defer l.applying.Unlock()
	if l.closed {
		return errClosed
	}
	return cmp.Or(l.log.usable(), l.log.compact())
}

// Close frees all memory. The log stays. Later calls do nothing.
func (l *Live) Close() (err error) {
	l.applying.Lock()
	defer l.applying.Unlock()
	if l.closed {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for i := range l.inputs {
		if t := l.inputs[i].Table; t != nil {
			err = errors.Join(err, t.close())
		}
	}
	for _, all := range []*lists{l.in, l.out} {
		if all != nil {
			err = errors.Join(err, all.close())
		}
	}
	if l.log != nil {
		err = errors.Join(err, l.log.close())
	}
	return errors.Join(err, l.undo.room.close(), l.run.close())
}
