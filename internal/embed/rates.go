package embed

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/pinned"
)

// rates say how fast this machine is at what a run does. They are measured in some tenths of a second.
type rates struct {
	Read, Write float64 // bytes a second, of files from one end to the other
	probe       disk.Probe
	edges       map[*Step]float64 // seconds for an edge, by the step's sums while rows pass by
	kernels     map[*Step]float64 // and by package sparse
	looks       float64           // seconds for a node whose edges are looked at while a block passes by
	rows        map[*Step]float64 // seconds for a row of what Apply makes
}

// someRates are those of no machine, for plans that do not depend on them.
var someRates = rates{Read: 1e9, Write: 5e8}

const (
	tryTime  = 60 * time.Millisecond
	tryBytes = 24 << 20 // of rows that are summed in a trial: more than caches hold
	tryWrite = 32 << 20
)

// measure finds the rates out.
func (r *run) measure() error {
	r.rates = someRates
	r.rates.edges, r.rates.kernels, r.rates.rows = map[*Step]float64{}, map[*Step]float64{}, map[*Step]float64{}
	if err := r.measureDisk(); err != nil {
		return err
	}
	for _, s := range r.p.Steps {
		if err := r.measureStep(s); err != nil {
			return err
		}
	}
	return r.ctxErr()
}

// measureDisk reads the largest table that is there, and writes a file.
func (r *run) measureDisk() error {
	var largest *Table
	for _, s := range r.p.Steps {
		for _, t := range s.reads() {
			if t.bytes != nil && (largest == nil || t.size() > largest.size()) {
				largest = t
			}
		}
	}
	if largest == nil || largest.size() < r.opt.Memory/2 || largest.size() < 4*tryBytes {
		return nil // it has room in memory
	}
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
	r.now = &StepReport{}
	began, bytes := time.Now(), int64(0)
	step := r.blockRows([]*Table{largest})
	stop := errors.New("enough")
	first := largest.Rows / 3
	err = r.scan([]*Table{largest}, first, largest.Rows, step, func(int64, [][]float32) error {
		if bytes += step * largest.rowBytes(); time.Since(began) > 3*tryTime {
			return stop
		}
		return nil
	})
	if err != nil && !errors.Is(err, stop) {
		return err
	}
	r.rates.Read = float64(bytes) / time.Since(began).Seconds()
	r.rates.Write = min(r.rates.Read, cmp.Or(r.tryWrite(), r.rates.Read/2))
	return nil
}

// tryWrite writes a file beside the folder, and removes it. 0: it cannot be written.
func (r *run) tryWrite() float64 {
	f, err := os.CreateTemp(filepath.Dir(r.opt.Folder), ".khop-embed-*")
	if err != nil {
		return 0
	}
	defer os.Remove(f.Name())
	defer f.Close()
	began := time.Now()
	if _, err := f.Write(make([]byte, tryWrite)); err != nil || f.Sync() != nil {
		return 0
	}
	return tryWrite / time.Since(began).Seconds()
}

// measureStep times sums and Apply of a step, with zeros.
func (r *run) measureStep(s *Step) error {
	if len(s.Sums) > 0 {
		if err := r.measureSums(s); err != nil {
			return err
		}
	}
	n := cmp.Or(int64(s.Rows), 2048)
	b := Block{N: n, Pool: r.pool}
	for _, t := range s.Own {
		b.Own = append(b.Own, make([]float32, n*int64(t.Width)))
	}
	for i := range s.Sums {
		b.Sums = append(b.Sums, make([]float32, n*int64(s.Sums[i].Table.Width)))
	}
	for _, t := range s.To {
		b.To = append(b.To, make([]float32, n*int64(t.Width)))
	}
	took, err := fastest(func() error { return s.Apply(&b) })
	r.rates.rows[s] = took / float64(n)
	return err
}

// fastest returns the seconds of the fastest of a few calls.
func fastest(f func() error) (least float64, err error) {
	for n, began := 0, time.Now(); n < 2 || time.Since(began) < tryTime/3; n++ {
		start := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		if took := time.Since(start).Seconds(); n == 0 || took < least {
			least = took
		}
	}
	return least, nil
}

// tried are edges of a trial: of each node, so many sources all over the rows.
const (
	triedNodes = 2048
	triedEdges = 24
)

// measureSums times the sums of a step's relations, each with the same edges.
func (r *run) measureSums(s *Step) error {
	for i := range s.Sums {
		rel := &s.Sums[i]
		width := int64(rel.Table.Width)
		rows := min(max(tryBytes/(4*width), triedNodes), rel.Table.Rows)
		l := triedLinks(rows)
		o := &operands{global: l, local: l, x: matrix(make([]float32, rows*width), rel.Table.Width),
			score: make([]float32, rows*int64(rel.Heads))}
		y := make([]float32, triedNodes*width)
		at := state{make([]float32, triedNodes*rel.Heads), make([]float32, triedNodes*rel.Heads)}
		of := *rel
		if rel.Reduce.normed() { // whose degrees nobody has counted
			of.Reduce, of.Heads = Sum, 0
		}
		kernels, err := fastest(func() error { return r.multiply(y, &of, o, at) })
		if err != nil {
			return err
		}
		edges := float64(l.count() * int64(len(s.Sums)))
		r.rates.kernels[s] += kernels / edges
		w := &sweeping{run: r, rel: &of, l: l, y: y, width: width, state: at,
			whole: make([]float32, triedNodes*rel.Heads), rows: [][]float32{floats(o.x.Bytes()), o.score}}
		passing, err := fastest(func() error {
			if err := w.begin(); err != nil {
				return err
			}
			w.end = rows
			return r.pool.Split(triedNodes, 256, w.add)
		})
		if err != nil {
			return err
		}
		r.rates.edges[s] += passing / edges
		looks, err := fastest(func() error { return r.pool.Split(triedNodes, 256, w.add) })
		if err != nil {
			return err
		}
		r.rates.looks = looks / triedNodes
	}
	return nil
}

// triedLinks returns edges whose sources ascend, and are all over the rows.
func triedLinks(rows int64) *links {
	l := &links{start: make([]int64, triedNodes+1), narrow: make([]int32, triedNodes*triedEdges)}
	state := uint64(1)
	for i := range int64(triedNodes) {
		l.start[i+1] = l.start[i] + triedEdges
		at := int64(0)
		for k := range int64(triedEdges) {
			state = state*6364136223846793005 + 1442695040888963407
			at = rows*k/triedEdges + int64(state>>33)%max(rows/triedEdges, 1)
			l.narrow[l.start[i]+k] = int32(min(at, rows-1))
		}
	}
	return l
}
