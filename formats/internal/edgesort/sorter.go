package edgesort

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/csc"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
)

// ErrTooLarge is returned for more nodes and edge types than a key tells apart.
var ErrTooLarge = errors.New("too many nodes and edge types")

// Merge says what becomes of edges of one type between the same two nodes.
type Merge uint8

// What becomes of equal edges.
const (
	Keep      Merge = iota // all are kept
	MostOfTwo              // of p edges one way and q the other, max(p, q) are kept each way; for edges without columns
	First                  // one is kept, with the columns of the first
	Sum                    // one is kept, whose columns are the sums; "time" is the latest
	Max                    // one is kept, whose columns are the greatest
)

// Loops says what becomes of self-loops.
type Loops uint8

// What becomes of self-loops.
const (
	KeepLoops Loops = iota
	DropLoops
	AddLoops // each node without one of its first edge type, the first between nodes of its type, gets one
)

// Options say what to sort. Nodes and Types are those of the graph.
type Options struct {
	Nodes   []source.NodeType
	Types   []source.EdgeType
	Columns []graph.Column // of the batches
	Both    bool           // add the reverse of each edge but of self-loops; all types are between nodes of one type
	Merge   Merge
	Loops   Loops
	ByTime  int   // the number of the column by which edges of a destination and type are ordered; -1: by source
	Edges   int64 // how many will come, about
	// First and Last bound the destinations, as numbers among all nodes, whose edges are kept: First and what is below
	// Last. Last is 0 for all.
	First, Last int64
	Inside      bool // all edges that come are kept
	Budget      *source.Budget
	Workers     int // 0: one a core
	// Progress, if set, is called from one goroutine at a time.
	Progress formats.Progress
}

// RangeError reports an edge between nodes that do not exist.
type RangeError struct {
	Edge  int64 // in the order of the batches
	What  string
	Value int64
	Limit int64
}

// Error implements error.
func (e *RangeError) Error() string {
	return fmt.Sprintf("edge %d: %s %d is not in 0 .. %d", e.Edge, e.What, e.Value, e.Limit-1)
}

// Stats says what was done with the edges.
type Stats struct {
	Edges    int64 // handed on
	Reversed int64 // pairs of edges that were listed in both directions, of MostOfTwo
	Parallel int64 // edges kept that have an equal one before them
	Merged   int64 // edges that went into an earlier one
	Loops    int64 // self-loops dropped or added
}

// Add adds those of other edges.
func (s *Stats) Add(of Stats) {
	s.Edges += of.Edges
	s.Reversed += of.Reversed
	s.Parallel += of.Parallel
	s.Merged += of.Merged
	s.Loops += of.Loops
}

// Sorter sorts edges. It has one owner, who calls Close.
type Sorter struct {
	opt    Options
	Stats  Stats
	offset []int64 // of the ids of each node type
	nodes  int64
	first  int64 // the destination that keys count from
	last   int64 // the one behind the last

	dirBits, idBits, typeBits, keyBits int
	widths, places                     []int64 // of columns in a record
	record                             int64   // bytes of all columns of an edge

	arena *pinned.Region
	mem   []byte
	taken int64
	spill *spill
	top   *level
	edges int64 // that came in
	high  int64 // the greatest id of these, among all nodes; -1 without edges

	pending chan error // of the run that is being written
}

// keyBytes is what the key of an edge takes.
const keyBytes = 8

// sourceShare is the part of the memory that is left to the source, which decodes edges while they are added.
const sourceShare = 8

// leastMemory is the least that a sorter works with.
const leastMemory = 1 << 18

// New returns a sorter. It takes its memory from the budget: as much as it can use, at most 7/8 of the remaining
// memory. pinned.ErrLimit where that is too little.
func New(opt Options) (*Sorter, error) {
	if opt.Workers <= 0 {
		opt.Workers = machine.Workers()
	}
	s := &Sorter{opt: opt, high: -1}
	for _, n := range opt.Nodes {
		s.offset = append(s.offset, s.nodes)
		s.nodes += n.Count
	}
	if s.first, s.last = opt.First, opt.Last; s.last == 0 {
		s.last = s.nodes
	}
	if opt.Both || opt.Loops == AddLoops {
		s.dirBits = 1
	}
	s.idBits, s.typeBits = bitsFor(s.nodes), bitsFor(int64(len(opt.Types)))
	s.keyBits = s.dirBits + 2*s.idBits + s.typeBits
	if s.keyBits > 64 {
		return nil, fmt.Errorf("%w: %d nodes, %d edge types: of 64 bits they take %d", ErrTooLarge, s.nodes,
			len(opt.Types), s.keyBits)
	}
	for _, c := range opt.Columns {
		s.widths, s.places = append(s.widths, c.RowBytes()), append(s.places, s.record)
		s.record += c.RowBytes()
	}
	if err := s.allocate(); err != nil {
		return nil, err
	}
	s.spill = &spill{budget: opt.Budget, large: len(s.mem) >= directMemory}
	s.top = s.newLevel(0, s.keyBits, s.most())
	return s, nil
}

// most is how many edges there will be at most, about.
func (s *Sorter) most() int64 {
	n := s.opt.Edges
	if s.opt.Both {
		n *= 2
	}
	if s.opt.Loops == AddLoops {
		n += s.nodes
	}
	return n
}

// Need returns the memory with which a sorter never takes temporary files, however uneven the edges are, and the least
// that it works with.
func Need(opt Options) (all, least int64) {
	s := Sorter{opt: opt}
	for _, c := range opt.Columns {
		s.record += c.RowBytes()
	}
	most := s.most()
	all = most*(keyBytes+s.record) + most*s.leafBytes() // the runs, and one part that has all of them
	return all + all/4 + leastMemory, leastMemory + 64*s.record
}

// Spill returns the bytes that temporary files will take with so much memory, at most; but 0 where they are needed
// only if one node has a great share of the edges.
func Spill(opt Options, memory int64) int64 {
	s := Sorter{opt: opt}
	for _, c := range opt.Columns {
		s.record += c.RowBytes()
	}
	all := s.most() * (keyBytes + s.record)
	if all+all/8 <= memory-memory/8 {
		return 0
	}
	return all
}

// allocate takes the memory.
func (s *Sorter) allocate() error {
	all, least := Need(s.opt)
	left := s.opt.Budget.Ledger().Left()
	n := max(min(all, left-left/sourceShare), least) &^ 63
	if err := s.opt.Budget.Ledger().Take(pinned.Building, n); err != nil {
		return fmt.Errorf("sort %d edges: %w", s.opt.Edges, err)
	}
	s.taken = n
	r, err := pinned.Allocate(n, pinned.Options{})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	s.arena, s.mem = r, r.Bytes()[:n:n]
	return nil
}

// Close frees memory and files.
func (s *Sorter) Close() error {
	errs := []error{s.settle()}
	if s.arena != nil {
		errs = append(errs, s.arena.Close())
	}
	if s.spill != nil {
		errs = append(errs, s.spill.Close())
	}
	s.opt.Budget.Ledger().Give(pinned.Building, s.taken)
	s.arena, s.mem, s.spill, s.taken = nil, nil, nil, 0
	return errors.Join(errs...)
}

// Add takes a batch, of which it keeps nothing. Errors are *RangeError, formats.ErrSpace.
func (s *Sorter) Add(ctx context.Context, b source.Batch) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	n := len(b.Src)
	if len(b.Dst) != n || b.Types != nil && len(b.Types) != n || len(b.Columns) != len(s.widths) {
		return fmt.Errorf("a batch of %d sources, %d destinations, %d types, %d columns", n, len(b.Dst), len(b.Types),
			len(b.Columns))
	}
	for i, c := range b.Columns {
		if int64(len(c)) != int64(n)*s.widths[i] {
			return fmt.Errorf("column %q: %d bytes for %d edges", s.opt.Columns[i].Name, len(c), n)
		}
	}
	for lo := 0; lo < n; {
		room := int(s.top.room())
		if s.opt.Both {
			room /= 2
		}
		if room == 0 {
			if err := s.top.flush(ctx); err != nil {
				return err
			}
			continue
		}
		hi := min(n, lo+room)
		if err := s.fill(b, lo, hi); err != nil {
			return err
		}
		lo = hi
	}
	s.edges += int64(n)
	if s.opt.Progress != nil {
		s.opt.Progress("place", s.edges, max(s.opt.Edges, s.edges))
	}
	return nil
}

// fill adds edges lo to hi-1 of a batch, for which there is room, on all workers.
func (s *Sorter) fill(b source.Batch, lo, hi int) error {
	workers := min(s.opt.Workers, (hi-lo)/4096+1)
	times := 1
	if s.opt.Both {
		times = 2
	}
	base := s.top.have
	found, segments := make([]tally, workers), make([]segment, workers)
	err := csc.Parallel(workers, func(w int) error {
		from, to := lo+(hi-lo)*w/workers, lo+(hi-lo)*(w+1)/workers
		at := base + int64((from-lo)*times)
		n, err := s.encode(b, from, to, at, &found[w])
		segments[w] = segment{at, n}
		return err
	})
	if err != nil {
		return err
	}
	for w := range found {
		s.Stats.Loops += found[w].loops
		s.high = max(s.high, int64(found[w].high))
	}
	taken := int64((hi - lo) * times)
	if s.last-s.first < s.nodes && !s.opt.Inside {
		segments, taken = s.top.close(segments)
	}
	s.top.grow(segments, taken)
	return nil
}

// tally is what a worker finds while it encodes.
type tally struct {
	loops int64  // dropped
	high  uint64 // the greatest id
}

// encode makes records of edges, from position at on, and returns how many there are.
func (s *Sorter) encode(b source.Batch, lo, hi int, at int64, found *tally) (int64, error) {
	all := s.last-s.first == s.nodes || s.opt.Inside
	if b.Types == nil && all && !s.opt.Both && s.opt.Loops != DropLoops && s.record == 0 {
		return s.encodePlain(b, lo, hi, at, found)
	}
	l, first := s.top, at
	typ := &s.opt.Types[0]
	t := uint64(0)
	for i := lo; i < hi; i++ {
		if b.Types != nil {
			if int(b.Types[i]) >= len(s.opt.Types) {
				return 0, &RangeError{s.edges + int64(i), "type", int64(b.Types[i]), int64(len(s.opt.Types))}
			}
			t = uint64(b.Types[i])
			typ = &s.opt.Types[t]
		}
		src, dst := b.Src[i], b.Dst[i]
		if uint64(src) >= uint64(s.opt.Nodes[typ.Source].Count) {
			return 0, &RangeError{s.edges + int64(i), "source", src, s.opt.Nodes[typ.Source].Count}
		}
		if uint64(dst) >= uint64(s.opt.Nodes[typ.Target].Count) {
			return 0, &RangeError{s.edges + int64(i), "destination", dst, s.opt.Nodes[typ.Target].Count}
		}
		u, v := uint64(src+s.offset[typ.Source]), uint64(dst+s.offset[typ.Target])
		found.high = max(found.high, u, v)
		if u == v && s.opt.Loops == DropLoops {
			found.loops++
			continue
		}
		if s.keeps(v) {
			l.keys[at] = s.key(v, t, u, 0)
			s.pack(l.rows, at, b, i)
			at++
		}
		if s.opt.Both && u != v && s.keeps(u) {
			l.keys[at] = s.key(u, t, v, 1)
			s.pack(l.rows, at, b, i)
			at++
		}
	}
	return at - first, nil
}

// encodePlain is encode for edges of type 0 without columns, which are stored as they are listed.
func (s *Sorter) encodePlain(b source.Batch, lo, hi int, at int64, found *tally) (int64, error) {
	typ := &s.opt.Types[0]
	sources, targets := uint64(s.opt.Nodes[typ.Source].Count), uint64(s.opt.Nodes[typ.Target].Count)
	shift, added := s.typeBits+s.idBits+s.dirBits, s.dirBits
	from, most := uint64(s.first-s.offset[typ.Target]), uint64(s.last-s.first)
	first := s.key(uint64(s.offset[typ.Target]), 0, uint64(s.offset[typ.Source]), 0)
	keys, dst, high := s.top.keys[at:at+int64(hi-lo)], b.Dst[lo:hi], uint64(0)
	for i, src := range b.Src[lo:hi] {
		u, v := uint64(src), uint64(dst[i])
		if u >= sources || v >= targets || v-from >= most {
			if u >= sources {
				return 0, &RangeError{s.edges + int64(lo+i), "source", src, int64(sources)}
			}
			return 0, &RangeError{s.edges + int64(lo+i), "destination", dst[i], int64(targets)}
		}
		high = max(high, u, v)
		keys[i] = first + (v<<shift | u<<added)
	}
	found.high = high // of one node type, or of no use
	return int64(hi - lo), nil
}

// Greatest returns the greatest id of the edges that were added; -1 without edges. The nodes are of one type.
func (s *Sorter) Greatest() int64 { return s.high }

// SetNodes sets the number of nodes, before Emit, where New was given a greater one: no fewer than the edges name. The
// nodes are of one type, and all destinations are kept.
func (s *Sorter) SetNodes(n int64) {
	s.opt.Nodes = []source.NodeType{s.opt.Nodes[0]}
	s.opt.Nodes[0].Count, s.nodes, s.last = n, n, n
}

// keeps reports whether edges to a node are kept.
func (s *Sorter) keeps(v uint64) bool { return int64(v) >= s.first && int64(v) < s.last }

// key returns what an edge is sorted by: destination, type, source, and whether it was added.
func (s *Sorter) key(dst, typ, src, added uint64) uint64 {
	k := (dst-uint64(s.first))<<(s.typeBits+s.idBits) | typ<<s.idBits | src
	if s.dirBits == 1 {
		k = k<<1 | added
	}
	return k
}

// pack puts the columns of an edge into record at.
func (s *Sorter) pack(rows []byte, at int64, b source.Batch, i int) {
	for c, w := range s.widths {
		copy(rows[at*s.record+s.places[c]:][:w], b.Columns[c][int64(i)*w:][:w])
	}
}

// addLoops adds a self-loop to each node; those that are there already are dropped later.
func (s *Sorter) addLoops(ctx context.Context) error {
	types := map[int]int{} // of a node type
	for t, e := range s.opt.Types {
		if _, ok := types[e.Source]; !ok && e.Source == e.Target {
			types[e.Source] = t
		}
	}
	zero := make([]byte, s.record)
	for i, c := range s.opt.Columns {
		if c.Role() == graph.Weight {
			c.DType.Put(zero[s.places[i]:][:s.widths[i]], 1)
		}
	}
	for n := range s.opt.Nodes {
		t, ok := types[n]
		if !ok {
			continue
		}
		for v := range s.opt.Nodes[n].Count {
			if s.top.room() == 0 {
				if err := s.top.flush(ctx); err != nil {
					return err
				}
			}
			l, id := s.top, uint64(v+s.offset[n])
			if !s.keeps(id) {
				continue
			}
			l.keys[l.have] = s.key(id, uint64(t), id, 1)
			copy(l.rows[l.have*s.record:], zero)
			l.grow([]segment{{l.have, 1}}, 1)
		}
	}
	return nil
}

func bitsFor(n int64) int { return bits.Len64(uint64(max(n, 1) - 1)) }

// words returns memory as keys.
func words(mem []byte) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/8)
}

// narrow returns memory as numbers of records.
func narrow(mem []byte) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/4)
}
