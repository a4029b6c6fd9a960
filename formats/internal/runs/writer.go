package runs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/direct"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
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

// File describes a file, as JSON.
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
	blockEdges = 1 << 12   // of a block, at least
	mostEdges  = 1 << 16   // of a block, at most
	chunkEdges = 1 << 20   // that are put in order at a time, at most
	leastEdges = 1 << 12   // and at least, however little the memory is
	bins       = 1 << 10   // that these are put in
	sampled    = 1 << 10   // keys of a sample, at least, where there are that many edges; at most twice as many
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
	greatest int64 // of all ids

	keys   []Key // of edges of several types
	bin    []uint32
	cursor []int
	out    []byte // what has been put in order: ids, types and columns, each of all edges of the chunk
	block  []byte
	blocks []block
	at     int64
	edges  int64
	sample sampler
}

// Create begins a file. Its memory is a part of the budget's remaining memory: pinned.ErrLimit where that is too
// little.
func Create(path string, l Layout, b *source.Budget) (*Writer, error) {
	per := int64(2*16 + 8 + 4 + 2*2) // ids as they come and in order, keys, bins, types
	for _, w := range l.Widths {
		per += 2 * w
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
		w.src, w.dst = add(w.src, b.Src[lo:hi], w.limit), add(w.dst, b.Dst[lo:hi], w.limit)
		switch {
		case len(w.l.Types) < 2:
		case b.Types != nil:
			w.types = add(w.types, b.Types[lo:hi], w.limit)
		default:
			w.types = add(w.types, make([]uint16, hi-lo), w.limit)
		}
		for i, width := range w.l.Widths {
			w.columns[i] = add(w.columns[i], b.Columns[i][int64(lo)*width:int64(hi)*width], w.limit*int(width))
		}
		if lo = hi; len(w.src) == w.limit {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// add appends elements. A list that grows beyond some gets all the room that it may need.
func add[E any](to, more []E, limit int) []E {
	if n := len(to) + len(more); n > cap(to) && n > limit/8 {
		to = append(make([]E, 0, limit), to...)
	}
	return append(to, more...)
}

// flush writes the edges that have been taken.
func (w *Writer) flush() error {
	if len(w.src) == 0 {
		return nil
	}
	keys, err := w.key()
	if err != nil {
		return err
	}
	w.sample.add(keys)
	ends := w.arrange(keys)
	w.scatter()
	if err := w.write(ends); err != nil {
		return err
	}
	w.edges += int64(len(w.src))
	w.src, w.dst, w.types = w.src[:0], w.dst[:0], w.types[:0]
	for i := range w.columns {
		w.columns[i] = w.columns[i][:0]
	}
	return nil
}

// key returns keys of the ends that edges are in order by.
func (w *Writer) key() ([]Key, error) {
	of := w.dst
	if w.l.By == BySource {
		of = w.src
	}
	w.greatest = 0
	for _, ids := range [][]int64{w.src, w.dst} {
		all, most := int64(0), int64(0)
		for _, id := range ids {
			all, most = all|id, max(most, id)
		}
		if w.greatest = max(w.greatest, most); uint64(all) > maxID {
			for i, id := range ids {
				if uint64(id) > maxID {
					return nil, &source.BeyondError{Edge: w.edges + int64(i), ID: id}
				}
			}
		}
	}
	if len(w.l.Types) < 2 {
		typ := w.end(w.l.Types[0])
		if typ == 0 { // keys are ids
			return unsafe.Slice((*Key)(unsafe.SliceData(of)), len(of)), nil
		}
		w.keys = slices.Grow(w.keys[:0], len(of))[:len(of)]
		for i, id := range of {
			w.keys[i] = KeyOf(typ, id)
		}
		return w.keys, nil
	}
	w.keys = slices.Grow(w.keys[:0], len(of))[:len(of)]
	for i, id := range of {
		w.keys[i] = KeyOf(w.end(w.l.Types[w.types[i]]), id)
	}
	return w.keys, nil
}

// end returns the node type of the end that edges are in order by.
func (w *Writer) end(t source.EdgeType) int {
	if w.l.By == BySource {
		return t.Source
	}
	return t.Target
}

// spread puts keys into bins: those of a node type lie one behind the other.
type spread struct {
	least []int64
	shift []int
	first []int
}

// spreadOf divides the bins among node types by the edges of each.
func spreadOf(keys []Key, types int) (s spread, n int) {
	all := int64(len(keys))
	count, most := make([]int64, types), make([]int64, types)
	s = spread{make([]int64, types), make([]int, types), make([]int, types+1)}
	for t := range s.least {
		s.least[t] = math.MaxInt64
	}
	if types == 1 {
		count[0], s.least[0], most[0] = int64(len(keys)), int64(slices.Min(keys)), int64(slices.Max(keys))
		keys = nil
	}
	for _, k := range keys {
		t, id := k.Node()
		count[t]++
		most[t], s.least[t] = max(most[t], id), min(s.least[t], id)
	}
	for t, c := range count {
		if s.first[t] = n; c == 0 {
			continue
		}
		for want := max(bins*c/all, 1); (most[t]-s.least[t])>>s.shift[t] >= want; {
			s.shift[t]++
		}
		n += int((most[t]-s.least[t])>>s.shift[t]) + 1
	}
	s.first[types] = n
	return s, n
}

func (s *spread) bin(k Key) int {
	t, id := k.Node()
	return s.first[t] + int((id-s.least[t])>>s.shift[t])
}

// keys returns the least and the greatest key that a bin may have.
func (s *spread) keys(bin int) (least, greatest Key) {
	t := 0
	for s.first[t+1] <= bin {
		t++
	}
	from := KeyOf(t, s.least[t]+int64(bin-s.first[t])<<s.shift[t])
	return from, from + 1<<s.shift[t] - 1
}

// arrange decides where each edge goes, and returns where blocks of them end, with the keys that they may have.
func (w *Writer) arrange(keys []Key) (ends []block) {
	n := len(keys)
	if w.l.By == AsListed {
		w.cursor = nil
		for at := 0; at < n; at += blockEdges {
			ends = append(ends, block{Edges: uint32(min(blockEdges, n-at)), Greatest: End - 1})
		}
		return ends
	}
	types := 1
	for _, t := range w.l.Types {
		types = max(types, t.Source+1, t.Target+1)
	}
	s, all := spreadOf(keys, types)
	w.bin, w.cursor = slices.Grow(w.bin[:0], n)[:n], make([]int, all+1)
	if types == 1 {
		least, shift := s.least[0], s.shift[0]
		for i, k := range keys {
			b := (int64(k) - least) >> shift
			w.bin[i] = uint32(b)
			w.cursor[b+1]++
		}
	} else {
		for i, k := range keys {
			b := s.bin(k)
			w.bin[i] = uint32(b)
			w.cursor[b+1]++
		}
	}
	begun, first := 0, 0
	for b := range all {
		w.cursor[b+1] += w.cursor[b]
		for end := w.cursor[b+1]; end-begun >= blockEdges || b == all-1 && end > begun; {
			size := min(end-begun, mostEdges)
			if begun >= w.cursor[b] {
				first = b
			}
			least, _ := s.keys(first)
			_, greatest := s.keys(b)
			ends = append(ends, block{Edges: uint32(size), Least: least, Greatest: greatest})
			if begun += size; begun == end {
				first = b + 1
			} else {
				first = b
			}
		}
	}
	return ends
}

// scatter puts ids, types and columns in order. Ids lie in pairs, that of the target first.
func (w *Writer) scatter() {
	w.out = w.out[:0]
	if w.greatest > math.MaxUint32 {
		pairs := room[[2]int64](w)
		w.each(func(at, i int) { pairs[at] = [2]int64{w.dst[i], w.src[i]} })
	} else {
		w.scatterNarrow()
	}
	if len(w.types) > 0 {
		put(w, unified.FromSlice(w.types).Bytes(), 2)
	}
	for c, width := range w.l.Widths {
		put(w, w.columns[c], int(width))
	}
}

// scatterNarrow puts ids of 4 bytes in order: the inner loop of a read task.
func (w *Writer) scatterNarrow() {
	pairs := room[[2]uint32](w)
	src, dst := w.src[:len(w.dst)], w.dst
	if w.cursor == nil {
		for i, id := range dst {
			pairs[i] = [2]uint32{uint32(id), uint32(src[i])}
		}
		return
	}
	cursor, bins := slices.Clone(w.cursor), w.bin[:len(dst)]
	for i, id := range dst {
		b := bins[i]
		at := cursor[b]
		cursor[b] = at + 1
		pairs[at] = [2]uint32{uint32(id), uint32(src[i])}
	}
}

// room makes room for an element of each edge behind what has been put in order.
func room[E any](w *Writer) []E {
	at, n := len(w.out), len(w.src)
	more := n * int(unsafe.Sizeof(*new(E)))
	w.out = slices.Grow(w.out, more)[:at+more]
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(w.out[at:]))), n)
}

// each calls set with the place of each edge in the order.
func (w *Writer) each(set func(at, i int)) {
	if w.cursor == nil {
		for i := range w.src {
			set(i, i)
		}
		return
	}
	cursor := slices.Clone(w.cursor)
	for i, b := range w.bin {
		set(cursor[b], i)
		cursor[b]++
	}
}

// put puts rows in order behind what is there.
func put(w *Writer, rows []byte, width int) {
	at := len(w.out)
	w.out = slices.Grow(w.out, len(rows))[:at+len(rows)]
	out := w.out[at:]
	if w.cursor == nil {
		copy(out, rows)
		return
	}
	w.each(func(at, i int) { copy(out[at*width:(at+1)*width], rows[i*width:]) })
}

// write writes blocks, each with its part of what has been put in order.
func (w *Writer) write(blocks []block) error {
	n, first := int64(len(w.src)), int64(0)
	ids, wide := int64(8), uint32(0)
	if w.greatest > math.MaxUint32 {
		ids, wide = 16, 1
	}
	widths := []int64{ids}
	if len(w.types) > 0 {
		widths = append(widths, 2)
	}
	widths = append(widths, w.l.Widths...)
	begun := w.at
	for _, b := range blocks {
		edges := int64(b.Edges)
		b.Wide = wide
		bytes := w.out[first*ids : (first+edges)*ids]
		if len(widths) > 1 {
			w.block = w.block[:0]
			at := int64(0)
			for _, width := range widths {
				w.block = append(w.block, w.out[at+first*width:at+(first+edges)*width]...)
				at += n * width
			}
			bytes = w.block
		}
		b.At, b.Bytes, b.Sum = begun, int64(len(bytes)), xxh3.Hash(bytes)
		begun += b.Bytes
		w.blocks = append(w.blocks, b)
		if len(widths) > 1 {
			if err := w.put(bytes); err != nil {
				return err
			}
		}
		first += edges
	}
	if len(widths) > 1 {
		return nil
	}
	return w.put(w.out) // blocks of ids alone lie behind each other there
}

func (w *Writer) put(p []byte) error {
	n, err := direct.WriteAt(w.file, p, w.at)
	w.at += int64(n)
	return err
}

// Finish writes the remaining edges, waits until all is on the disk, and describes the file.
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
