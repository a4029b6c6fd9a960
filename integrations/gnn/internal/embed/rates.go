package embed

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// rates say how fast this machine is at what a run does. They are measured in some tenths of a second, over nodes and
// edges of the graph at hand: hubs are in caches, and others are not.
type rates struct {
	Read, Write float64 // bytes a second, of files from one end to the other
	taking      float64 // seconds of a processor for a byte that is read
	probe       disk.Probe
	note        float64               // seconds for a line of the journal
	fresh       float64               // seconds for a byte of new memory
	rows        map[*Step]float64     // seconds for a row that Apply makes, and that is written
	kernels     map[*Relation]float64 // seconds for an edge, by package sparse
	mapped      map[*Relation]float64 // and of rows of a file that is mapped, whose pages are small
	faults      float64               // seconds for a byte of such a file that is in the page cache, and not mapped yet
	passing     map[*Relation]float64 // and while rows pass by
	cutting     map[*Relation]float64 // and to bring edges into the order of rows that pass by
	degrees     map[*Relation]float64 // seconds for an edge, to count degrees
	widen       map[*Table]float64    // seconds for a row that becomes float32
}

// someRates are those of no machine, for plans that do not depend on them.
var someRates = rates{Read: 1e9, Write: 5e8}

const (
	tryTime   = 60 * time.Millisecond
	tryBytes  = 96 << 20 // of rows that are summed in a trial, or twice what a cache holds, but
	mostTried = 1 << 30  // at most
	tryWrite  = 32 << 20
	tryFresh  = 128 << 20
	tryEdges  = 1 << 23
)

// measure finds the rates out.
func (r *run) measure() error {
	r.rates = someRates
	r.rates.rows, r.rates.widen = map[*Step]float64{}, map[*Table]float64{}
	r.rates.kernels, r.rates.passing = map[*Relation]float64{}, map[*Relation]float64{}
	r.rates.mapped = map[*Relation]float64{}
	r.rates.cutting, r.rates.degrees = map[*Relation]float64{}, map[*Relation]float64{}
	r.now = &StepReport{}
	counted := maps.Clone(r.degrees)
	defer func() { r.degrees = counted }() // others are of no edges
	if err := r.measureDisk(); err != nil {
		return err
	}
	if err := r.measureMemory(); err != nil {
		return err
	}
	return r.tryMap(func(mapped []byte) error {
		for k, s := range r.p.Steps {
			if err := r.measureStep(k, s, mapped); err != nil {
				return err
			}
			if err := errors.Join(r.free(), r.ctxErr()); err != nil {
				return err
			}
		}
		return nil
	})
}

// tried returns how many of some rows, of this number of bytes each, a trial has. Memory that grows may take twice as
// much.
func (r *run) tried(rows, bytes int64) int64 { return max(min(rows, r.tryBytes()/max(bytes, 1)), 1) }

// tryBytes is how many bytes of rows a trial has at most: more than a cache holds, where there is memory for as many.
func (r *run) tryBytes() int64 {
	return min(max(tryBytes, 2*machine.Probe().CacheBytes), mostTried, r.opt.Memory/4)
}

// filled returns floats of memory that is there: reading what was never written costs nothing.
func (r *run) filled(name string, n int64) ([]float32, error) {
	x, err := room[float32](r, "trial "+name, n)
	for i := range x {
		x[i] = 1
	}
	return x, err
}

// largest returns the largest table that is there; nil: none is.
func (r *run) largest() (largest *Table) {
	for _, s := range r.p.Steps {
		for _, t := range s.reads() {
			if t.bytes != nil && (largest == nil || t.size() > largest.size()) {
				largest = t
			}
		}
	}
	return largest
}

// measureDisk reads the largest table that is there, and writes a file.
func (r *run) measureDisk() error {
	r.tryWrite()
	largest := r.largest()
	if largest == nil || largest.size() < tryWrite {
		return nil
	}
	if !r.only && largest.size() > r.opt.Memory/2 { // some step may gather
		reader, _, err := diskio.Open(r.ctx, []diskio.Mapped{{Bytes: largest.bytes, RowBytes: largest.rowBytes()}},
			diskio.ReaderOptions{Memory: r.memory()})
		if errors.Is(err, pinned.ErrNotMapped) {
			return nil
		}
		if err != nil {
			return err
		}
		r.rates.probe = reader.Probe()
		if err := reader.Close(); err != nil {
			return err
		}
	}
	var began time.Time
	var used time.Duration
	bytes, blocks := int64(0), 0
	step := r.blockRows([]*Table{largest})
	stop := errors.New("enough")
	err := r.pass([]*Table{largest}, largest.Rows/3, largest.Rows, step, func(_ int64, raw [][]byte) error {
		if blocks++; blocks == untimedBlocks {
			began = time.Now()
			used, _ = machine.ProcessorTime()
		} else if blocks > untimedBlocks {
			bytes += int64(len(raw[0]))
		}
		if bytes > 0 && time.Since(began) > 4*tryTime {
			return stop
		}
		return nil
	})
	if err != nil && !errors.Is(err, stop) {
		return err
	}
	if bytes > 0 {
		r.rates.Read = float64(bytes) / time.Since(began).Seconds()
		if now, err := machine.ProcessorTime(); err == nil {
			r.rates.taking = (now - used).Seconds() / float64(bytes)
		}
	}
	return nil
}

// untimedBlocks are read first, into memory that is new, or are there when the time begins.
const untimedBlocks = 5

// tryFile makes a file beside the folder. done closes it, and it is gone: at once, where the system removes what is
// open.
func (r *run) tryFile() (f *os.File, done func(), err error) {
	if f, err = os.CreateTemp(filepath.Dir(r.opt.Folder), ".khop-embed-*"); err != nil {
		return nil, nil, err
	}
	_ = os.Remove(f.Name())
	return f, func() { _, _ = f.Close(), os.Remove(f.Name()) }, nil
}

// tryMap maps a file of ones, for trials of rows that are in the page cache, as long as f runs: nothing where none can
// be written.
func (r *run) tryMap(f func(mapped []byte) error) error {
	file, done, err := r.tryFile()
	if err != nil {
		return f(nil)
	}
	defer done()
	ones := make([]float32, 1<<18)
	for i := range ones {
		ones[i] = 1
	}
	bytes, size := unified.FromSlice(ones).Bytes(), int64(0)
	if t := r.largest(); t != nil {
		size = min(t.size(), r.tryBytes())
	}
	for n := int64(0); n < size; n += int64(len(bytes)) {
		if _, err := file.Write(bytes); err != nil {
			return f(nil)
		}
	}
	region, err := pinned.Map(file)
	if err != nil {
		return f(nil)
	}
	sum := int64(0)
	took, _ := timed(func() error {
		for i := 0; i < len(region.Bytes()); i += os.Getpagesize() {
			sum += int64(region.Bytes()[i])
		}
		return nil
	})
	touched.Store(sum)
	r.rates.faults = took / float64(len(region.Bytes()))
	return errors.Join(f(region.Bytes()), region.Close())
}

// tryWrite writes a file beside the folder. Where it cannot be written, the rates stay.
func (r *run) tryWrite() {
	f, done, err := r.tryFile()
	if err != nil {
		return
	}
	defer done()
	data := make([]byte, tryWrite)
	for i := range data {
		data[i] = byte(i)
	}
	write := func(n int) float64 {
		took, err := timed(func() error {
			_, err := f.Write(data[:n])
			return errors.Join(err, f.Sync())
		})
		if err != nil {
			return 0
		}
		return took
	}
	_ = write(1) // which makes room in the file system
	r.rates.note = write(1)
	if took := write(tryWrite); took > 0 {
		r.rates.Write = tryWrite / max(took-r.rates.note, took/4)
	}
}

// measureMemory takes memory, and touches it.
func (r *run) measureMemory() error {
	n := min(tryFresh, r.opt.Memory/8)
	began := time.Now()
	region, err := pinned.Allocate(n, r.memory())
	if err != nil {
		return err
	}
	clear(region.Bytes())
	r.rates.fresh = time.Since(began).Seconds() / float64(n)
	return region.Close()
}

// measureStep times sums, Apply and what becomes of its rows, where the step has any to make. mapped is a trial of a
// mapped file.
func (r *run) measureStep(k int, s *Step, mapped []byte) error {
	if r.of[k].count == 0 {
		return nil
	}
	for i := range s.Sums {
		rel := &s.Sums[i]
		if rel.Reduce.normed() {
			if err := r.measureDegrees(rel, r.of[k]); err != nil {
				return err
			}
		}
		if err := r.measureKernels(rel, r.of[k], mapped); err != nil {
			return err
		}
		if err := errors.Join(r.free(), r.measurePassing(s, i, r.of[k])); err != nil {
			return err
		}
	}
	for _, t := range s.reads() {
		if err := r.measureWiden(t); err != nil {
			return err
		}
	}
	if s.Rows > 0 && !r.planning { // a function that is somebody's own is called for rows alone
		return nil
	}
	return r.measureApply(s)
}

// measureApply times a step's function, and what becomes of its rows.
func (r *run) measureApply(s *Step) error {
	n := cmp.Or(int64(s.Rows), 2048)
	b := Block{N: n, Type: s.Type, Pool: r.pool}
	for _, t := range s.Own {
		b.Own = append(b.Own, make([]float32, n*int64(t.Width)))
	}
	for i := range s.Sums {
		b.Sums = append(b.Sums, make([]float32, n*int64(s.Sums[i].Table.Width)))
	}
	for _, t := range s.To {
		b.To = append(b.To, make([]float32, n*int64(t.Width)))
	}
	hash := xxh3.New()
	took, err := fastest(func() error {
		if err := s.Apply(&b); err != nil {
			return err
		}
		for i, t := range s.To {
			raw, err := r.encode(t, nodes{count: n}, 0, b.To[i])
			if err != nil && !errors.Is(err, ErrRows) { // which rows of nothing may be
				return err
			}
			_, _ = hash.Write(raw)
		}
		return nil
	})
	r.rates.rows[s] = took / float64(n)
	return err
}

// measureWiden times rows that become float32, of a table that is there.
func (r *run) measureWiden(t *Table) error {
	if _, known := r.rates.widen[t]; known || t.plain() {
		return nil
	}
	n := r.tried(min(t.Rows, 1<<14), 4*int64(t.Width))
	raw := make([]byte, n*t.rowBytes())
	to, err := r.filled("wide", n*int64(t.Width))
	if err != nil {
		return err
	}
	took, err := fastest(func() error { return r.widen(to, raw, t, 0) })
	r.rates.widen[t] = took / float64(n)
	return err
}

// fastest returns the seconds of the fastest of a few calls.
func fastest(f func() error) (least float64, err error) {
	for n, began := 0, time.Now(); n < 2 || time.Since(began) < tryTime/3; n++ {
		took, err := timed(f)
		if err != nil {
			return 0, err
		}
		if n == 0 || took < least {
			least = took
		}
	}
	return least, nil
}

// timed returns the seconds of a call.
func timed(f func() error) (float64, error) {
	began := time.Now()
	err := f()
	return time.Since(began).Seconds(), err
}

// chunks are ranges of nodes from all over, each tried at once. The first ones bring into caches what stays there.
const (
	chunks     = 16
	chunkNodes = 32768
	untimed    = chunks / 4
)

// measureDegrees counts those of some nodes, and leaves 1 for all.
func (r *run) measureDegrees(rel *Relation, of nodes) error {
	name := r.degreesName(rel)
	if r.degrees[name] != nil {
		return nil
	}
	d, err := room[uint32](r, name, rel.Table.Rows)
	if err != nil {
		return err
	}
	for i := range d {
		d[i] = 1
	}
	r.degrees[name] = &degrees{d}
	edges, took := int64(0), 0.0
	for c := range int64(chunks) {
		lo := of.count * c / chunks
		l, err := r.links(rel, of, lo, min(lo+chunkNodes/4, of.count), false)
		if err != nil {
			return err
		}
		l.touch()
		one, _ := timed(func() error {
			for e := range l.count() {
				d[l.source(e)]++
			}
			return nil
		})
		edges, took = edges+l.count(), took+one
	}
	r.rates.degrees[rel] = took / float64(max(edges, 1))
	return nil
}

// measureKernels times sums of nodes from all over, of rows in memory, and of rows of a file that is mapped.
func (r *run) measureKernels(rel *Relation, of nodes, mapped []byte) error {
	dtype := unified.Float32
	if rel.Table.operand() {
		dtype = rel.Table.DType
	}
	row := int64(rel.Table.Width) * dtype.Size()
	rows := r.tried(rel.Table.Rows, 4*int64(rel.Table.Width+rel.Heads))
	raw, err := r.filled("x", (rows*row+3)/4)
	if err != nil {
		return err
	}
	rate, err := r.measureKernel(rel, of, dtype, rows, unified.FromSlice(raw).Bytes()[:rows*row])
	r.rates.kernels[rel], r.rates.mapped[rel] = rate, rate
	if rows = min(rows, int64(len(mapped))/row); err == nil && rel.Table.operand() && rows > 0 {
		r.rates.mapped[rel], err = r.measureKernel(rel, of, dtype, rows, mapped[:rows*row])
	}
	return err
}

// measureKernel returns how many seconds sums take for an edge, of the rows of a trial.
func (r *run) measureKernel(rel *Relation, of nodes, dtype unified.DType, rows int64, raw []byte) (float64, error) {
	width := int64(rel.Table.Width)
	x, err := unified.New(dtype, raw, rows, width)
	if err != nil {
		return 0, err
	}
	most := r.tried(chunkNodes, 4*(width+2*int64(rel.Heads)))
	y, err := r.filled("y", most*width)
	if err != nil {
		return 0, err
	}
	o, at, err := r.trialScores(rel, rows, most)
	if err != nil {
		return 0, err
	}
	o.x = x
	edges, took := int64(0), 0.0
	for c := range int64(chunks) {
		lo := of.count * c / chunks
		n := min(most, max(of.count/chunks, 1), of.count-lo)
		var l *links
		load := func() (err error) { l, err = r.links(rel, of, lo, lo+n, rel.Loops); return err }
		if err := load(); err != nil { // from the disk, maybe
			return 0, err
		}
		linked, err := timed(load)
		if err != nil {
			return 0, err
		}
		o.global, o.local = l, l.within(rows)
		multiplied, err := timed(func() error { return r.multiply(y[:n*width], rel, o, at) })
		if err != nil {
			return 0, err
		}
		if c >= untimed {
			edges, took = edges+l.count(), took+linked+multiplied
		}
		if took > tryTime.Seconds() {
			break
		}
	}
	return took / float64(max(edges, 1)), nil
}

// trialScores returns what attention reads beside rows.
func (r *run) trialScores(rel *Relation, sources, targets int64) (o *operands, at state, err error) {
	o = &operands{}
	if o.score, err = r.filled("score", sources*int64(rel.Heads)); err != nil {
		return nil, at, err
	}
	at.target, err = r.filled("target", targets*int64(rel.Heads))
	at.greatest = at.target
	return o, at, err
}

// touch reads the sources, from the disk maybe, so that what is timed then does not.
func (l *links) touch() {
	sum := int64(0)
	for e := range l.count() {
		sum += l.source(e)
	}
	touched.Store(sum)
}

// touched keeps the compiler from leaving reads out.
var touched atomic.Int64

// within returns the same edges with sources below a number: hubs stay hubs.
func (l *links) within(rows int64) *links {
	to := &links{start: l.start, narrow: make([]int32, l.count())}
	for e := range to.narrow {
		to.narrow[e] = int32(l.source(int64(e)) % rows)
	}
	return to
}

// measurePassing times what rows that pass by take for an edge: to cut edges of nodes in the middle, and to add rows of
// one chunk, which stand for those of all.
func (r *run) measurePassing(step *Step, i int, of nodes) error {
	rel := &step.Sums[i]
	rows, edges := int64(1)<<r.chunkShift(rel.Edges), r.topology.count(rel.Edges, of, 0, of.count)
	degree := max(edges/max(of.count, 1), 1)
	bytes := 4*int64(rel.Table.Width) + (8+cutBytes)*degree + 12*int64(rel.Heads) + 32
	n := min(r.tried(of.count, bytes), tryEdges/degree+1)
	lo := (of.count - n) / 2
	o, at, err := r.trialScores(rel, rows, n)
	if err != nil {
		return err
	}
	s := &sweeping{run: r, step: step, relation: i, of: of, state: at}
	if err := s.open([2]int64{lo, lo + n}); err != nil {
		return err
	}
	if s.y.width = s.width; s.rel.Heads > 0 {
		if s.whole, err = r.filled("whole", n*int64(rel.Heads)); err != nil {
			return err
		}
	}
	if s.y.rows, err = r.filled("y", n*s.width); err != nil {
		return err
	}
	x, err := r.filled("x", rows*s.width)
	if err != nil {
		return err
	}
	s.rows = [][]float32{x, o.score}
	trial, count, took, err := r.trialEdges(step, i, of, lo, n)
	if err != nil || count == 0 {
		return err
	}
	r.rates.cutting[rel] = took / float64(count)
	took, err = fastest(func() error {
		return r.pool.Split(int64(len(trial)), 1, func(lo, hi int64) {
			for _, edges := range trial[lo:hi] {
				s.addSome(edges)
			}
		})
	})
	r.rates.passing[rel] = took / float64(count)
	return err
}

// trialEdges cuts the edges of n nodes in memory, and says in which time. They come in lists that have no node in
// common, each in the order of chunks.
func (r *run) trialEdges(s *Step, i int, of nodes, lo, n int64) (lists [][]edge, count int, took float64, err error) {
	var ranges [][2]int64
	for k := range int64(sheetStrips) {
		ranges = append(ranges, [2]int64{lo + n*k/sheetStrips, lo + n*(k+1)/sheetStrips})
	}
	c := &cutting{r: r, cut: &cut{cutKey: r.cutKey(s, i, of, ranges)}, number: i, rel: &s.Sums[i], of: of}
	var sheet []byte
	cutOnce := func() error {
		if r.topology.narrow != nil {
			sheet, err = trySheet(c, r.topology.narrow)
		} else {
			sheet, err = trySheet(c, r.topology.wide)
		}
		return err
	}
	if err := cutOnce(); err != nil { // edges are read from the disk, maybe
		return nil, 0, 0, err
	}
	if took, err = timed(cutOnce); err != nil {
		return nil, 0, 0, err
	}
	all, err := room[edge](r, "trial edges", int64(len(sheet)/cutBytes))
	for place := range len(c.begin) - 1 {
		number, first, end := place/int(c.chunks), c.begin[place], c.begin[place+1]
		from := c.firstOf(number, int64(place)%c.chunks)
		from.decode(all[first:end], sheet[first*cutBytes:end*cutBytes])
		for k := first; k < end; k++ {
			all[k].node += uint32(ranges[number][0] - lo)
		}
	}
	for k := range ranges {
		lists = append(lists, all[c.begin[int64(k)*c.chunks]:c.begin[int64(k+1)*c.chunks]])
	}
	return lists, len(all), took, err
}
