package edgesort

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/khop-gnn/khop/internal/csc"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
)

// segment is records that lie one behind the other.
type segment struct{ at, n int64 }

// run is records in the order of their parts, and within a part in that of their arrival.
type run struct {
	starts []uint32 // of each part, counted in records; one more entry for the end
	at     int64    // in the file: the keys, then the rows
	keys   []uint64 // in memory: nil if it lies in the file
	rows   []byte
}

// level is edges whose keys differ in some low bits only, on their way through the sort.
type level struct {
	s     *Sorter
	bits  int
	shift int // a key's part is its low bits, shifted by this
	parts int

	keys  []uint64 // as they arrive
	rows  []byte
	segs  []segment
	have  int64 // positions taken
	limit int64 // positions that there are
	to    run   // where a run is made

	runs   []run
	counts []int64
	total  int64
}

const (
	partEdges  = 1 << 16 // aimed at: their keys, twice, fill a core's second-level cache
	maxParts   = 1 << 12 // streams that a core writes side by side while its translation cache still holds them
	pieceBytes = 1 << 16 // of a part in a run, at least: reading shorter ones is slow
	maxRun     = math.MaxUint32
)

// newLevel returns a level for about so many edges.
func (s *Sorter) newLevel(bits int, edges int64) *level {
	l := &level{s: s, bits: bits}
	per := 2 * (keyBytes + s.record)
	l.limit = min(int64(len(s.mem))/per&^7, maxRun)
	part := int64(len(s.mem)) / 8 / s.leafBytes(true)
	want := max(min(edges/partEdges, maxParts, max(l.limit*keyBytes/pieceBytes, 16)), 2*edges/max(part, 1), 1)
	greatest := uint64(1)<<bits - 1
	if bits == s.keyBits && s.nodes > 0 {
		greatest = s.key(uint64(max(s.last-1, s.first)), uint64(len(s.opt.Types)-1), uint64(s.nodes-1),
			uint64(s.dirBits))
	}
	l.shift = s.groupBits()
	for greatest>>l.shift >= uint64(min(want, maxParts)) && l.shift < bits {
		l.shift++
	}
	if l.parts = 1; l.shift < 64 {
		l.parts = int(greatest>>l.shift) + 1
	}
	l.counts = make([]int64, l.parts)
	l.carve()
	return l
}

// groupBits is the number of low bits that no part cuts: records that differ in them only are looked at together.
func (s *Sorter) groupBits() int {
	if s.opt.ByTime >= 0 {
		return s.dirBits + s.idBits
	}
	return s.dirBits
}

// leafBytes is what sorting takes for an edge, with its record or besides.
func (s *Sorter) leafBytes(record bool) int64 {
	n := int64(keyBytes) // the other half of a radix sort
	if s.record > 0 {
		n += 8 // numbers of records, twice
	}
	if s.opt.ByTime >= 0 {
		n += 2*keyBytes + 4 // times, the keys once more, and their places
	}
	if record {
		n += keyBytes + s.record
	}
	return n
}

// carve lays the memory out for taking edges in.
func (l *level) carve() {
	at := int64(0)
	cut := func(n int64) []byte {
		b := l.s.mem[at : at+n : at+n]
		at += n
		return b
	}
	// what arrives lies behind what is placed, so that it makes room for sorting when all is in memory
	l.to.keys, l.to.rows = words(cut(keyBytes*l.limit)), cut(l.s.record*l.limit)
	l.keys, l.rows = words(cut(keyBytes*l.limit)), cut(l.s.record*l.limit)
}

func (l *level) room() int64 { return l.limit - l.have }

// grow takes in segments, which end at most n positions on.
func (l *level) grow(segs []segment, n int64) {
	for _, g := range segs {
		if last := len(l.segs) - 1; last >= 0 && l.segs[last].at+l.segs[last].n == g.at {
			l.segs[last].n += g.n
		} else if g.n > 0 {
			l.segs = append(l.segs, g)
		}
		l.total += g.n
	}
	l.have += n
	end := int64(0) // what is left unused behind the last record is used again
	if last := len(l.segs) - 1; last >= 0 {
		end = l.segs[last].at + l.segs[last].n
	}
	l.have = min(l.have, end)
}

// close moves segments together, and returns the one that they become, and its length.
func (l *level) close(segs []segment) ([]segment, int64) {
	end, record := segs[0].at, l.s.record
	for _, g := range segs {
		copy(l.keys[end:], l.keys[g.at:g.at+g.n])
		copy(l.rows[end*record:], l.rows[g.at*record:(g.at+g.n)*record])
		end += g.n
	}
	return []segment{{segs[0].at, end - segs[0].at}}, end - segs[0].at
}

func (l *level) mask() uint64 {
	if l.bits == 64 {
		return math.MaxUint64
	}
	return 1<<l.bits - 1
}

// place makes a run of what has arrived.
func (l *level) place() run {
	workers := l.s.opt.Workers
	shares := share(l.segs, workers)
	counts := make([][]uint32, workers)
	mask, shift := l.mask(), l.shift
	_ = csc.Parallel(workers, func(w int) error {
		cnt := make([]uint32, l.parts+1)
		for _, g := range shares[w] {
			for _, k := range l.keys[g.at : g.at+g.n] {
				cnt[k&mask>>shift]++
			}
		}
		counts[w] = cnt
		return nil
	})
	r := run{starts: make([]uint32, l.parts+1), keys: l.to.keys, rows: l.to.rows}
	at := uint32(0)
	for p := range l.parts {
		r.starts[p] = at
		for w := range workers {
			n := counts[w][p]
			counts[w][p] = at
			at += n
		}
		l.counts[p] += int64(at - r.starts[p])
	}
	r.starts[l.parts] = at
	_ = csc.Parallel(workers, func(w int) error {
		l.put(shares[w], counts[w])
		return nil
	})
	l.segs, l.have = l.segs[:0], 0
	return r
}

// put puts the records of segments where their part lies.
func (l *level) put(segs []segment, cursor []uint32) {
	mask, shift, to, record := l.mask(), l.shift, l.to.keys, int(l.s.record)
	for _, g := range segs {
		keys := l.keys[g.at : g.at+g.n]
		if record == 0 {
			for _, k := range keys {
				p := k & mask >> shift
				to[cursor[p]] = k
				cursor[p]++
			}
			continue
		}
		rows := l.rows[g.at*int64(record):]
		for i, k := range keys {
			p := k & mask >> shift
			at := int(cursor[p])
			cursor[p]++
			to[at] = k
			copy(l.to.rows[at*record:(at+1)*record], rows[i*record:(i+1)*record])
		}
	}
}

// share cuts segments into n equal shares, in order.
func share(segs []segment, n int) [][]segment {
	total := int64(0)
	for _, g := range segs {
		total += g.n
	}
	shares, done := make([][]segment, n), int64(0)
	for _, g := range segs {
		for g.n > 0 {
			w := min(int(done*int64(n)/max(total, 1)), n-1)
			end := (total*int64(w+1) + int64(n) - 1) / int64(n)
			k := min(g.n, max(end-done, 1))
			shares[w] = append(shares[w], segment{g.at, k})
			g.at, g.n, done = g.at+k, g.n-k, done+k
		}
	}
	return shares
}

// flush moves what has arrived to the file. It waits for the run before, not for this one.
func (l *level) flush(ctx context.Context) error {
	if err := l.s.settle(); err != nil {
		return err
	}
	if len(l.segs) == 0 {
		return nil
	}
	if err := l.write(l.place()); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// write begins to write a run to the file.
func (l *level) write(r run) (err error) {
	s, n := l.s, int64(r.starts[l.parts])
	if r.at, err = s.spill.reserve(n * (keyBytes + s.record)); err != nil {
		return err
	}
	keys, rows, done := bytesOf(r.keys[:n]), r.rows[:n*s.record], make(chan error, 1)
	r.keys, r.rows = nil, nil
	l.runs, s.pending = append(l.runs, r), done
	go func() {
		err := s.spill.write(keys, r.at)
		if err == nil {
			err = s.spill.write(rows, r.at+n*keyBytes)
		}
		done <- err
	}()
	return nil
}

// settle waits for the run that is being written.
func (s *Sorter) settle() error {
	if s.pending == nil {
		return nil
	}
	err := <-s.pending
	s.pending = nil
	return err
}

// end ends the taking in of edges, and returns the memory that sorting may use.
func (l *level) end(ctx context.Context) ([]byte, error) {
	if len(l.runs) > 0 {
		if err := l.flush(ctx); err != nil {
			return nil, err
		}
		return l.s.mem, l.s.settle()
	}
	r, rest := l.place(), l.s.mem[(keyBytes+l.s.record)*l.limit:]
	if slices.Max(l.counts)*l.s.leafBytes(false) <= int64(len(rest)) {
		l.runs = append(l.runs, r)
		return rest, nil
	}
	if err := l.write(r); err != nil {
		return nil, err
	}
	return l.s.mem, l.s.settle()
}

// tooLarge is the error of a part that the memory does not hold and that no bits part again.
func (l *level) tooLarge(edges int64) error {
	return fmt.Errorf("%w: %d edges between two nodes, or of one node by time, are sorted at once, which takes %s; "+
		"allow so much", pinned.ErrLimit, edges, machine.Bytes(edges*l.s.leafBytes(true)))
}
