package runs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/pinned"
)

// Key orders nodes of several types: by type, then by id.
type Key int64

// typeShift is where the node type stands in a key: ids are below 2^48.
const typeShift = 48

// End is behind all keys.
const End Key = math.MaxInt64

// KeyOf returns the key of a node.
func KeyOf(typ int, id int64) Key { return Key(typ)<<typeShift | Key(id) }

// Node returns the node of a key.
func (k Key) Node() (typ int, id int64) { return int(k >> typeShift), int64(k & (1<<typeShift - 1)) }

// By says what the edges of a file are in order by.
type By uint8

// The orders of a file.
const (
	ByTarget By = iota
	BySource
	AsListed
)

// Layout is what a file has of each edge.
type Layout struct {
	Types  []source.EdgeType
	Widths []int64 // bytes of a row of each column
	By     By
}

// File is what is said of a file: it is JSON.
type File struct {
	Name   string  `json:"name"`
	Edges  int64   `json:"edges"`
	Bytes  int64   `json:"bytes"`            // of the whole file
	Blocks int64   `json:"blocks"`           // their list is the end of the file
	Sum    uint64  `json:"xxh3"`             // of the list
	Sample []int64 `json:"sample,omitempty"` // keys, taken evenly of all edges
}

// block is some edges of a file.
type block struct {
	Least, Greatest Key
	At, Bytes       int64
	Sum             uint64
	Edges           uint32
	Wide            uint32 // 1: ids take 8 bytes, 0: 4
}

const (
	blockBytes = 48        // of a block in the list
	blockEdges = 1 << 13   // of a block, at least
	mostEdges  = 1 << 16   // of a block, at most
	chunkEdges = 1 << 21   // that are put in order at a time, at most
	leastEdges = 1 << 12   // and at least, however little the memory is
	bins       = 1 << 12   // that these are put in
	sampled    = 1 << 12   // keys of a sample, at least, where there are so many edges; at most twice as many
	maxID      = 1<<48 - 1 // of a node
)

// Writer writes a file. It has one owner, who calls Close.
type Writer struct {
	l      Layout
	file   *os.File
	ledger *pinned.Ledger
	taken  int64
	limit  int

	src, dst []int64
	types    []uint16 // nil of one type
	columns  [][]byte

	keys   []Key
	order  []uint32
	buf    []byte
	blocks []block
	at     int64
	edges  int64
	sample sampler
}

// Create begins a file. Its memory is a part of what is left of the budget's: pinned.ErrLimit where that is too little.
func Create(path string, l Layout, b *source.Budget) (*Writer, error) {
	per := int64(8 + 8 + 8 + 4)
	for _, w := range l.Widths {
		per += w
	}
	w := &Writer{l: l, ledger: b.Ledger(), sample: sampler{step: 1}}
	w.limit = int(min(max(w.ledger.Left()/8/per, leastEdges), chunkEdges))
	w.taken = per * int64(w.limit)
	if err := w.ledger.Take(pinned.Building, w.taken); err != nil {
		return nil, fmt.Errorf("put %d edges in order: %w", w.limit, err)
	}
	w.columns = make([][]byte, len(l.Widths))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		w.ledger.Give(pinned.Building, w.taken)
		return nil, err
	}
	w.file = f
	return w, nil
}

// Add takes a batch, of which it keeps nothing.
func (w *Writer) Add(b source.Batch) error {
	for lo := 0; lo < len(b.Src); {
		hi := min(len(b.Src), lo+w.limit-len(w.src))
		w.src, w.dst = append(w.src, b.Src[lo:hi]...), append(w.dst, b.Dst[lo:hi]...)
		switch {
		case len(w.l.Types) < 2:
		case b.Types != nil:
			w.types = append(w.types, b.Types[lo:hi]...)
		default:
			w.types = append(w.types, make([]uint16, hi-lo)...)
		}
		for i, width := range w.l.Widths {
			w.columns[i] = append(w.columns[i], b.Columns[i][int64(lo)*width:int64(hi)*width]...)
		}
		if lo = hi; len(w.src) == w.limit {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush writes the edges that have been taken.
func (w *Writer) flush() error {
	if len(w.src) == 0 {
		return nil
	}
	if err := w.key(); err != nil {
		return err
	}
	ends := w.arrange()
	lo := 0
	for _, hi := range ends {
		if err := w.write(w.order[lo:hi]); err != nil {
			return err
		}
		lo = hi
	}
	w.edges += int64(len(w.src))
	w.src, w.dst, w.types = w.src[:0], w.dst[:0], w.types[:0]
	for i := range w.columns {
		w.columns[i] = w.columns[i][:0]
	}
	return nil
}

// key makes keys of the ends that edges are in order by, and adds them to the sample.
func (w *Writer) key() error {
	of := w.dst
	if w.l.By == BySource {
		of = w.src
	}
	w.keys = slices.Grow(w.keys[:0], len(of))[:len(of)]
	for i, id := range of {
		if uint64(id) > maxID {
			return &source.BeyondError{Edge: w.edges + int64(i), ID: id}
		}
		w.keys[i] = KeyOf(w.end(i), id)
	}
	w.sample.add(w.keys)
	return nil
}

// end returns the node type of the end of edge i that edges are in order by.
func (w *Writer) end(i int) int {
	t := 0
	if len(w.types) > 0 {
		t = int(w.types[i])
	}
	if w.l.By == BySource {
		return w.l.Types[t].Source
	}
	return w.l.Types[t].Target
}

// spread puts keys into bins: those of a node type lie one behind the other.
type spread struct {
	least []int64
	shift []int
	first []int
}

// spreadOf divides the bins among node types by the edges of each.
func spreadOf(keys []Key) (s spread, n int) {
	var count, most []int64
	for _, k := range keys {
		t, id := k.Node()
		for len(count) <= t {
			count, most, s.least = append(count, 0), append(most, 0), append(s.least, math.MaxInt64)
		}
		count[t]++
		most[t], s.least[t] = max(most[t], id), min(s.least[t], id)
	}
	for t, c := range count {
		s.first, s.shift = append(s.first, n), append(s.shift, 0)
		if c == 0 {
			continue
		}
		for want := max(bins*c/int64(len(keys)), 1); (most[t]-s.least[t])>>s.shift[t] >= want; {
			s.shift[t]++
		}
		n += int((most[t]-s.least[t])>>s.shift[t]) + 1
	}
	return s, n
}

func (s *spread) bin(k Key) int {
	t, id := k.Node()
	return s.first[t] + int((id-s.least[t])>>s.shift[t])
}

// arrange puts the edges in order, and returns where blocks of them end.
func (w *Writer) arrange() (ends []int) {
	n := len(w.keys)
	w.order = slices.Grow(w.order[:0], n)[:n]
	if w.l.By == AsListed {
		for i := range w.order {
			w.order[i] = uint32(i)
		}
		for at := blockEdges; at < n; at += blockEdges {
			ends = append(ends, at)
		}
		return append(ends, n)
	}
	s, all := spreadOf(w.keys)
	cursor := make([]int, all+1)
	for _, k := range w.keys {
		cursor[s.bin(k)+1]++
	}
	begun := 0
	for b := range all {
		cursor[b+1] += cursor[b]
		for end := cursor[b+1]; end-begun >= blockEdges; {
			begun = min(end, begun+mostEdges)
			ends = append(ends, begun)
		}
	}
	if begun < n {
		ends = append(ends, n)
	}
	for i, k := range w.keys {
		b := s.bin(k)
		w.order[cursor[b]] = uint32(i)
		cursor[b]++
	}
	return ends
}

// write writes a block.
func (w *Writer) write(edges []uint32) error {
	b := block{Least: End, At: w.at, Edges: uint32(len(edges))}
	most := int64(0)
	for _, i := range edges {
		b.Least, b.Greatest = min(b.Least, w.keys[i]), max(b.Greatest, w.keys[i])
		most = max(most, w.src[i], w.dst[i])
	}
	w.buf = w.buf[:0]
	for _, ids := range [][]int64{w.dst, w.src} {
		if most > math.MaxUint32 {
			b.Wide = 1
			for _, i := range edges {
				w.buf = binary.LittleEndian.AppendUint64(w.buf, uint64(ids[i]))
			}
			continue
		}
		at := len(w.buf)
		w.buf = slices.Grow(w.buf, 4*len(edges))[:at+4*len(edges)]
		for k, i := range edges {
			binary.LittleEndian.PutUint32(w.buf[at+4*k:], uint32(ids[i]))
		}
	}
	if len(w.types) > 0 {
		for _, i := range edges {
			w.buf = binary.LittleEndian.AppendUint16(w.buf, w.types[i])
		}
	}
	for c, width := range w.l.Widths {
		for _, i := range edges {
			w.buf = append(w.buf, w.columns[c][int64(i)*width:int64(i+1)*width]...)
		}
	}
	b.Bytes, b.Sum = int64(len(w.buf)), xxh3.Hash(w.buf)
	w.blocks = append(w.blocks, b)
	return w.put(w.buf)
}

func (w *Writer) put(p []byte) error {
	n, err := w.file.Write(p)
	w.at += int64(n)
	return err
}

// Finish writes what is left, waits until all is on the disk, and says what the file is.
func (w *Writer) Finish() (*File, error) {
	if err := w.flush(); err != nil {
		return nil, err
	}
	var list []byte
	for i := range w.blocks {
		b := &w.blocks[i]
		for _, v := range []uint64{uint64(b.Least), uint64(b.Greatest), uint64(b.At), uint64(b.Bytes), b.Sum,
			uint64(b.Edges) | uint64(b.Wide)<<32} {
			list = binary.LittleEndian.AppendUint64(list, v)
		}
	}
	if err := w.put(list); err != nil {
		return nil, err
	}
	if err := w.file.Sync(); err != nil {
		return nil, err
	}
	return &File{Name: filepath.Base(w.file.Name()), Edges: w.edges, Bytes: w.at, Blocks: int64(len(w.blocks)),
		Sum: xxh3.Hash(list), Sample: w.sample.keys}, w.Close()
}

// Close closes the file.
func (w *Writer) Close() error {
	w.ledger.Give(pinned.Building, w.taken)
	w.taken = 0
	if err := w.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// sampler takes keys evenly of all that come: one at random of each step of them.
type sampler struct {
	keys  []int64
	step  uint64
	left  uint64 // until the next key is taken
	state uint64
}

func (s *sampler) add(keys []Key) {
	for at := uint64(0); ; {
		if rest := uint64(len(keys)) - at; s.left >= rest {
			s.left -= rest
			return
		}
		at += s.left
		s.keys = append(s.keys, int64(keys[at]))
		if len(s.keys) == 2*sampled { // every other one stays
			for i := range sampled {
				s.keys[i] = s.keys[2*i]
			}
			s.keys, s.step = s.keys[:sampled], 2*s.step
		}
		at++
		s.state = s.state*6364136223846793005 + 1442695040888963407 // Knuth's; any sequence that has no period of ours
		s.left = (s.state >> 33) % (2*s.step - 1)
	}
}
