package embed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// Options say how a program is carried out. They change no byte of what it makes.
type Options struct {
	Folder  string // of files of tables, which is made and stays; the caller removes it
	Memory  int64  // to take at most; 0: a quarter of what is free
	Workers int
	Tuning  *sparse.Tuning
	Way     string // of all sums that can be made so; "": the planner chooses for each step
	// Files keeps all tables in files, which a run that was killed goes on from, also where memory has room for them.
	Files bool
	// Keep leaves the tables of all steps in the folder. The next run of a program of the same Base, over a graph with
	// other rows or edges, or more nodes, makes only rows that differ.
	Keep bool
	// SaveEvery is how long rows may be finished before they are noted as such; 0: a second. Less than 0: no time.
	SaveEvery time.Duration
	// Progress receives how many nodes of a step are done.
	Progress func(step string, done, total int64)
}

// run is a program that is carried out.
type run struct {
	ctx      context.Context
	p        *Program
	opt      Options
	topology *topology
	pool     *sparse.Pool
	ledger   pinned.Ledger
	rooms    map[string]*pinned.Buffer
	wide     map[*Table][]float32 // see whole
	degrees  map[string]*degrees  // by name of their memory
	surveys  map[surveyKey]*survey
	classed  map[int]*degreesSurvey // by type of edges, of all nodes
	cuts     map[int]*cut           // by number of relations
	of       []nodes                // of each step
	journal  *journal
	left     [][2]int64 // numbers of nodes whose rows the step in hand is to make
	pieces   [][]piece  // by table of the step in hand
	noted    time.Time
	rates    rates
	// indexMissing is which part of the edges is not in the page cache; less than 0: nobody knows.
	indexMissing float64
	update       string // name of the program whose tables are kept; "": there are none
	only         bool   // sweeps are planned, and no rehearsals made
	planning     bool   // there will be no run
	live         *Live  // that takes rows which differ, once tables are made; nil: there is none
	linked       int64  // edges that were read
	plans        []*StepReport
	now          *StepReport // of the step in hand
}

// Run carries out a program, or the rest of it where its folder has a journal of the same program. The tables of
// its last step are then in files, which Output reads. After an error the folder has all that is finished.
func Run(ctx context.Context, p *Program, opt Options) (*Report, error) {
	r, err := open(ctx, p, opt, false)
	if err != nil {
		return nil, err
	}
	err = pinned.Guard(r.steps)
	return r.report(), errors.Join(err, r.close())
}

// open prepares a run: it plans, and makes nothing but sums of what is kept. planning says that there will be no run:
// not even these are made, and rates are measured in any case, and not only where the way of a step depends on them.
func open(ctx context.Context, p *Program, opt Options, planning bool) (*run, error) {
	opt.Files = opt.Files || opt.Keep
	if opt.Memory == 0 {
		opt.Memory = machine.Probe().Room() / 4
	}
	r := &run{ctx: ctx, p: p, opt: opt, rooms: map[string]*pinned.Buffer{}, wide: map[*Table][]float32{},
		degrees: map[string]*degrees{}, surveys: map[surveyKey]*survey{},
		classed: map[int]*degreesSurvey{}, cuts: map[int]*cut{}, indexMissing: -1, planning: planning}
	if err := p.check(); err != nil {
		return nil, err
	}
	r.pool = sparse.Open(sparse.Options{Workers: opt.Workers, Tuning: opt.Tuning})
	err := pinned.Guard(func() (err error) {
		if r.topology, err = newTopology(p.Graph); err != nil {
			return err
		}
		if err := r.chooseNodes(); err != nil {
			return err
		}
		if opt.Keep {
			if err := errors.Join(r.compare(planning), r.free()); err != nil {
				return err
			}
		}
		return r.decide(planning)
	})
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *run) close() (err error) {
	for _, s := range r.p.Steps {
		for _, t := range s.To {
			err = errors.Join(err, t.close())
		}
	}
	for i := range r.cuts {
		err = errors.Join(err, r.dropCut(i))
	}
	for _, b := range r.rooms {
		err = errors.Join(err, b.Close())
	}
	if r.journal != nil {
		err = errors.Join(err, r.journal.close())
	}
	return errors.Join(err, r.pool.Close())
}

func (r *run) ctxErr() error { return context.Cause(r.ctx) }

// room returns memory of a name, which is valid until it is asked for again.
func room[T any](r *run, name string, n int64) ([]T, error) {
	b := r.rooms[name]
	if b == nil {
		b = &pinned.Buffer{Options: r.memory()}
		r.rooms[name] = b
	}
	var of T
	if err := b.Claim(n * int64(unsafe.Sizeof(of))); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b.Bytes()))), n), nil
}

func (r *run) memory() pinned.Options {
	return pinned.Options{Ledger: &r.ledger, Purpose: pinned.Scratch}
}

// steps carries out all steps that are not done.
func (r *run) steps() (err error) {
	if err := os.MkdirAll(r.opt.Folder, 0o700); err != nil {
		return err
	}
	r.removeScratch()   // of a run that was killed
	if r.update == "" { // tables are made anew
		if err := os.Remove(filepath.Join(r.opt.Folder, keptFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	head := journalHead{journalFormat, r.p.Name, r.update}
	if r.journal, err = openJournal(filepath.Join(r.opt.Folder, journalFile), head, len(r.p.Steps)); err != nil {
		return err
	}
	if err := r.verify(); err != nil {
		return err
	}
	for k, s := range r.p.Steps {
		if !r.needed(k) {
			continue
		}
		if err := r.step(k, s); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		if r.opt.Keep {
			continue
		}
		if err := r.forget(k); err != nil {
			return err
		}
	}
	if !r.opt.Keep {
		return nil
	}
	return os.Rename(filepath.Join(r.opt.Folder, keptNext), filepath.Join(r.opt.Folder, keptFile))
}

// removeScratch removes files that only a step that was not finished has.
func (r *run) removeScratch() {
	names := []string{spillFile}
	for _, s := range r.p.Steps {
		for i := range s.Sums {
			names = append(names, fmt.Sprint(cutFile, i))
		}
	}
	for _, name := range names {
		_ = os.Remove(filepath.Join(r.opt.Folder, name))
	}
}

// path returns the file of a table that a step makes.
func (r *run) path(t *Table) string { return filepath.Join(r.opt.Folder, t.Name) }

// step makes the tables of a step.
func (r *run) step(k int, s *Step) error {
	r.now = r.plans[k]
	began := time.Now()
	defer func() { r.now.Did.Seconds += time.Since(began).Seconds() }()
	of := r.of[k]
	for _, t := range s.To {
		var err error
		switch {
		case t.file != nil: // verified
		case t.held:
			err = t.hold(r.memory())
		default:
			err = t.create(r.path(t))
		}
		if err != nil {
			return err
		}
	}
	r.left = gaps(r.journal.done[k], of.count)
	r.note(s)
	switch r.now.Way {
	case Window:
		return errors.Join(r.window(k, s), r.free())
	case Hubs:
		return errors.Join(r.hubs(k, s, of), r.free())
	case Sweeps:
		return errors.Join(r.sweeps(k, s, of), r.free())
	}
	for _, span := range r.left {
		if err := r.span(k, s, of, span); err != nil {
			return err
		}
		if err := r.finished(k, s); err != nil {
			return err
		}
	}
	return r.free()
}

// free gives back the memory of a step but what others read, too: a later step may need it for tables.
func (r *run) free() (err error) {
	clear(r.wide)
	for name, b := range r.rooms {
		if !strings.HasPrefix(name, lasting) {
			err = errors.Join(err, b.Close())
			delete(r.rooms, name)
		}
	}
	return err
}

// lasting is what names of memory begin with that later steps read, too.
const lasting = "lasting "

// giveBack gives the memory of a name back, if there is any.
func (r *run) giveBack(name string) error {
	b := r.rooms[name]
	if b == nil {
		return nil
	}
	delete(r.rooms, name)
	return b.Close()
}

// span makes rows of some nodes that follow each other, range by range.
func (r *run) span(k int, s *Step, of nodes, span [2]int64) error {
	if r.now.Way == Gather {
		return r.gatherSpan(k, s, of, span)
	}
	for lo := span[0]; lo < span[1]; {
		hi := r.rangeEnd(s, of, lo, span[1])
		if err := r.rangeOf(k, s, of, lo, hi, func(i int, at state) (summed, error) {
			y, err := r.sumsRoom(i, &s.Sums[i], hi-lo)
			if err != nil {
				return y, err
			}
			return y, r.resident(y.rows, &s.Sums[i], of, lo, hi, at)
		}); err != nil {
			return fmt.Errorf("nodes %d to %d: %w", of.at(lo), of.at(hi-1), err)
		}
		lo = hi
	}
	return nil
}

// rangeOf makes the rows of a range of nodes, with sum for relation i, and notes that they are finished.
func (r *run) rangeOf(k int, s *Step, of nodes, lo, hi int64,
	sum func(i int, at state) (summed, error)) error {
	var sums []summed
	for i := range s.Sums {
		rel := &s.Sums[i]
		var at state
		var err error
		if rel.Reduce == Attend {
			if at.target, err = r.own("target", rel.Target, of, lo, hi); err != nil {
				return err
			}
			if at.greatest, err = r.own("greatest", rel.Greatest, of, lo, hi); err != nil {
				return err
			}
		}
		y, err := sum(i, at)
		if err != nil {
			return err
		}
		sums = append(sums, y)
	}
	for _, part := range r.left {
		if part = [2]int64{max(part[0], lo), min(part[1], hi)}; part[0] >= part[1] {
			continue
		}
		if err := r.apply(s, of, lo, part[0], part[1], sums); err != nil {
			return err
		}
	}
	return r.progressed(k, s, hi, of.count)
}

// progressed says how many nodes of a step are done, and notes their rows now and then.
func (r *run) progressed(k int, s *Step, done, total int64) error {
	if r.opt.Progress != nil {
		r.opt.Progress(s.Name, done, total)
	}
	if r.journal == nil || time.Since(r.noted) < cmp.Or(r.opt.SaveEvery, time.Second) { // Live has a log instead
		return nil
	}
	return r.finished(k, s)
}

// own returns the rows of a table that a range of nodes has there.
func (r *run) own(name string, t *Table, of nodes, lo, hi int64) ([]float32, error) {
	if of.list == nil && t.near && t.plain() {
		return floats(t.rows(lo, hi)), nil
	}
	to, err := room[float32](r, name, (hi-lo)*int64(t.Width))
	if err != nil {
		return nil, err
	}
	width := int64(t.Width)
	if t.near && t.plain() {
		return to, r.pool.Split(hi-lo, 256, func(a, b int64) {
			for i := a; i < b; i++ {
				v := of.at(lo + i)
				copy(to[i*width:(i+1)*width], floats(t.rows(v, v+1)))
			}
		})
	}
	return to, of.runs(lo, hi, func(at, first, count int64) error {
		part := to[(at-lo)*width : (at-lo+count)*width]
		if count*t.rowBytes() < fewBytes { // through the page cache
			r.now.Did.Read += count * t.rowBytes()
			t.widen(part, t.rows(first, first+count), first)
			return nil
		}
		return r.scan([]*Table{t}, first, first+count, r.blockRows([]*Table{t}), func(row int64, x [][]float32) error {
			copy(part[(row-first)*width:], x[0])
			return nil
		})
	})
}

// fewBytes are read by page faults.
const fewBytes = 256 << 10

// apply calls a step's function for nodes from to hi of a range that begins at lo, some at a time, and writes what it
// makes.
func (r *run) apply(s *Step, of nodes, lo, from, hi int64, sums []summed) error {
	step := s.applyRows()
	if of.list == nil {
		return r.scan(s.Own, from, hi, step, func(first int64, own [][]float32) error {
			return r.applyBlock(s, of, lo, first, min(step, hi-first), own, sums)
		})
	}
	for first := from; first < hi; first += step {
		if err := r.ctxErr(); err != nil {
			return err
		}
		n := min(step, hi-first)
		var own [][]float32
		for i, t := range s.Own {
			x, err := r.own(fmt.Sprintf("own %d", i), t, of, first, first+n)
			if err != nil {
				return err
			}
			own = append(own, x)
		}
		if err := r.applyBlock(s, of, lo, first, n, own, sums); err != nil {
			return err
		}
	}
	return nil
}

// applyBlock calls a step's function for n nodes of a range that begins at lo.
func (r *run) applyBlock(s *Step, of nodes, lo, first, n int64, own [][]float32, sums []summed) error {
	b := Block{Type: s.Type, First: first, N: n, Own: own, Pool: r.pool}
	if of.list != nil {
		b.Nodes = of.list[first : first+n]
	}
	for i := range s.Sums {
		y, err := r.sumsOf(i, sums[i], first-lo, n)
		if err != nil {
			return err
		}
		b.Sums = append(b.Sums, y)
	}
	for i, t := range s.To {
		y, err := room[float32](r, fmt.Sprintf("to %d", i), n*int64(t.Width))
		if err != nil {
			return err
		}
		b.To = append(b.To, y)
	}
	if err := s.Apply(&b); err != nil {
		return fmt.Errorf("nodes %d to %d: %w", of.at(first), of.at(first+n-1), err)
	}
	for i, t := range s.To {
		if err := r.put(i, t, of, first, b.To[i]); err != nil {
			return err
		}
	}
	return nil
}

// put writes rows of nodes to a table, which must be finite.
func (r *run) put(number int, t *Table, of nodes, first int64, x []float32) error {
	raw, err := r.encode(t, of, first, x)
	if err != nil {
		return err
	}
	row := t.rowBytes()
	if r.live != nil {
		return r.live.put(t, of, first, raw)
	}
	if t.file != nil {
		r.now.Did.Written += int64(len(raw))
	}
	return of.runs(first, first+int64(len(raw))/row, func(at, node, count int64) error {
		part := raw[(at-first)*row : (at-first+count)*row]
		if t.file != nil {
			r.hash(number, of.number(at), count, part)
		}
		return t.write(part, node)
	})
}

// encode returns rows of nodes as they lie in a table. They must be finite.
func (r *run) encode(t *Table, of nodes, first int64, x []float32) ([]byte, error) {
	var wrong atomic.Int64 // number of one that is not, from 1
	if err := r.pool.Split(int64(len(x)), 1<<15, func(lo, hi int64) {
		for i, v := range x[lo:hi] {
			if math.Float32bits(v)&infinite == infinite {
				for at := lo + int64(i) + 1; ; { // the first of all
					if was := wrong.Load(); was > 0 && was < at || wrong.CompareAndSwap(was, at) {
						return
					}
				}
			}
		}
	}); err != nil {
		return nil, err
	}
	n := int64(len(x)) / int64(t.Width)
	if at := wrong.Load() - 1; at >= 0 {
		return nil, fmt.Errorf("%w: %s of node %d has %v; see that features and parameters are finite (khop info "+
			"--deep)", ErrRows, t.Name, of.at(first+at/int64(t.Width)), x[at])
	}
	if t.plain() {
		return unified.FromSlice(x).Bytes(), nil
	}
	narrow, err := room[byte](r, "narrow", n*t.rowBytes())
	if err != nil {
		return nil, err
	}
	if t.DType.PutFloats(narrow, x) > 0 {
		return nil, fmt.Errorf("%w: %s of nodes %d to %d has numbers beyond %v; keep layers as float32", ErrRows,
			t.Name, of.at(first), of.at(first+n-1), t.DType)
	}
	return narrow, nil
}

// infinite are the bits that numbers have which are not finite.
const infinite = 0x7f800000

// blockRows returns how many rows of tables are read at a time.
func (r *run) blockRows(tables []*Table) int64 {
	return max(r.blockBytes()/max(rowBytes(tables), 1), 1)
}

// blockBytes are read at a time: three such blocks are in memory.
func (r *run) blockBytes() int64 { return min(max(r.opt.Memory/64, 64<<10), 8<<20) }

func (r *run) readError(t *Table, row int64, err error) error {
	return fmt.Errorf("%s: row %d: %w; see whether its disk is damaged (khop check), and run the same again: what is "+
		"finished is kept", t.Name, row, err)
}
