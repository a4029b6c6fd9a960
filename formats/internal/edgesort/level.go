package edgesort

import (
	"encoding/binary"
	"math"

	"github.com/khop-gnn/khop/internal/csc"
)

// segment is records that lie one behind the other.
type segment struct{ at, n int64 }

// run is records in the order of their parts, and within a part in that of their arrival.
type run struct {
	starts []uint32 // of each part, counted in records; one more entry for the end
	at     int64    // in the file: the keys, then the rows
	keys   []byte   // in memory, the level's width each; nil if they lie in the file
	rows   []byte
}

// level is edges whose keys differ in some low bits only, on their way through the sort.
//
// What arrives is collected for a moment, while the cores' caches hold it, and then put into a room, a run for each.
// A room that is full goes to the file as one run, part by part, while the other is filled.
type level struct {
	s      *Sorter
	prefix uint64 // the bits of all keys above those that differ
	bits   int
	shift  int // a key's part is its low bits, shifted by this
	parts  int
	width  int64 // bytes that a key takes in a run: what lies below its part

	keys  []uint64 // as they arrive
	rows  []byte
	segs  []segment
	have  int64 // positions taken
	limit int64 // positions that there are

	rooms [][]byte // the first is being filled
	used  int64    // of it
	near  []run    // in it

	runs   []run // in the file
	counts []int64
	total  int64
}

const (
	partEdges   = 1 << 16 // aimed at: their keys, twice, fill a core's second-level cache
	maxParts    = 1 << 12 // streams that a core writes side by side while its translation cache still holds them
	pieceBytes  = 1 << 16 // of a part in a run, at least: reading shorter ones is slow
	roomBytes   = 1 << 17 // of a part in a room: more memory would only have to be taken
	arriveEdges = 1 << 17 // of each worker, that arrive before they are put into a room
	maxRun      = math.MaxUint32
)

// newLevel returns a level for about this number of edges, whose keys have the same bits above the low ones.
func (s *Sorter) newLevel(prefix uint64, bits int, edges int64) *level {
	l := &level{s: s, prefix: prefix, bits: bits}
	per := keyBytes + s.record
	l.limit = max(min(int64(len(s.mem))/8/per, arriveEdges*int64(s.opt.Workers)), 2)
	part := int64(len(s.mem)) / 8 / s.leafBytes()
	room := int64(len(s.mem)) / 2 / per
	want := max(min(edges/partEdges, maxParts, max(room*keyBytes/pieceBytes, 16)), 2*edges/max(part, 1), 1)
	greatest := uint64(1)<<bits - 1
	if bits == s.keyBits && s.nodes > 0 {
		greatest = s.key(uint64(max(s.last-1, s.first)), uint64(len(s.opt.Types)-1), uint64(s.nodes-1),
			uint64(s.dirBits))
	}
	l.shift = s.groupBits()
	for greatest>>l.shift >= uint64(min(want, maxParts)) && l.shift < bits {
		l.shift++
	}
	for l.shift > 32 && l.shift <= 34 && greatest>>(l.shift-1) < maxParts {
		l.shift-- // keys of half the bytes are worth more parts
	}
	if l.parts = 1; l.shift < 64 {
		l.parts = int(greatest>>l.shift) + 1
	}
	l.width = max(4, int64(l.shift+7)/8)
	l.counts = make([]int64, l.parts)
	l.carve(edges)
	return l
}

// groupBits is the number of low bits that no part cuts: records that differ in them only are looked at together.
func (s *Sorter) groupBits() int {
	if s.opt.ByTime >= 0 {
		return s.dirBits + s.idBits
	}
	return s.dirBits
}

// leafBytes is what sorting takes for an edge.
func (s *Sorter) leafBytes() int64 {
	n := 2*keyBytes + s.record // the other half is that of a radix sort
	if s.record > 0 {
		n += 8 // numbers of records, twice
	}
	if s.opt.ByTime >= 0 {
		n += 2*keyBytes + 4 // times, the keys once more, and their places
	}
	return n
}

// carve lays the memory out for taking edges in: a room for all where that leaves enough to sort in, else two.
func (l *level) carve(edges int64) {
	mem, at := l.s.mem, int64(0)
	cut := func(n int64) []byte {
		b := mem[at : at+n : at+n]
		at = (at + n + 7) &^ 7
		return b
	}
	l.keys, l.rows = words(cut(keyBytes*l.limit)), cut(l.s.record*l.limit)
	rest := mem[min(at, int64(len(mem))):]
	runs := edges/l.limit + 1
	if all := edges*(l.width+l.s.record) + runs*l.overhead(); all+all/8 <= int64(len(rest)) && edges < maxRun {
		l.rooms = [][]byte{rest}
		return
	}
	half := min(int64(len(rest))/2, (l.width+l.s.record)*maxRun, max(int64(l.parts)*roomBytes, 64<<20)) &^ 7
	l.rooms = [][]byte{rest[:half:half], rest[half : 2*half : 2*half]}
}

// overhead is what the runs of what has arrived take in a room beside their records, at most.
func (l *level) overhead() int64 { return int64(l.s.opt.Workers) * (4*int64(l.parts+1) + 3*8) }

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
	end := int64(0) // unused memory behind the last record is used again
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

// place puts what has arrived into the room, which has room for it: a run of each worker's share, so that no two write
// to the same lines of the cache.
func (l *level) place() {
	cut := func(n int64) []byte {
		b := l.rooms[0][l.used : l.used+n : l.used+n]
		l.used = (l.used + n + 7) &^ 7
		return b
	}
	var shares [][]segment
	first := len(l.near)
	for _, segs := range share(l.segs, l.s.opt.Workers) {
		n := int64(0)
		for _, g := range segs {
			n += g.n
		}
		if n > 0 {
			shares = append(shares, segs)
			l.near = append(l.near, run{starts: narrow(cut(4 * int64(l.parts+1))), keys: cut(n * l.width),
				rows: cut(n * l.s.record)})
		}
	}
	runs := l.near[first:]
	_ = csc.Parallel(len(runs), func(w int) error {
		l.put(&runs[w], shares[w])
		return nil
	})
	for i := range runs {
		for p := range l.parts {
			l.counts[p] += int64(runs[i].starts[p+1] - runs[i].starts[p])
		}
	}
	l.segs, l.have = l.segs[:0], 0
}

// put makes a run of the records of segments.
func (l *level) put(r *run, segs []segment) {
	mask, shift, record := l.mask(), l.shift, int(l.s.record)
	clear(r.starts)
	cursor := make([]uint32, l.parts)
	for _, g := range segs {
		for _, k := range l.keys[g.at : g.at+g.n] {
			cursor[k&mask>>shift]++
		}
	}
	at := uint32(0)
	for p, n := range cursor {
		r.starts[p], cursor[p] = at, at
		at += n
	}
	r.starts[l.parts] = at
	for _, g := range segs {
		keys := l.keys[g.at : g.at+g.n]
		if record == 0 {
			scatter(r.keys, keys, cursor, mask, shift, l.width)
			continue
		}
		rows := l.rows[g.at*int64(record):]
		for i, k := range keys {
			p := k & mask >> shift
			at := int(cursor[p])
			cursor[p]++
			putKey(r.keys[at*int(l.width):], k, l.width)
			copy(r.rows[at*record:(at+1)*record], rows[i*record:(i+1)*record])
		}
	}
}

// scatter puts keys where the cursor of their part is.
func scatter(to []byte, keys []uint64, cursor []uint32, mask uint64, shift int, width int64) {
	switch width {
	case 4:
		low := narrow(to)
		for _, k := range keys {
			p := k & mask >> shift
			low[cursor[p]] = uint32(k)
			cursor[p]++
		}
	case 5:
		for _, k := range keys {
			p := k & mask >> shift
			at := to[5*uint64(cursor[p]):][:5]
			cursor[p]++
			binary.LittleEndian.PutUint32(at, uint32(k))
			at[4] = byte(k >> 32)
		}
	case 6:
		for _, k := range keys {
			p := k & mask >> shift
			at := to[6*uint64(cursor[p]):][:6]
			cursor[p]++
			binary.LittleEndian.PutUint32(at, uint32(k))
			binary.LittleEndian.PutUint16(at[4:], uint16(k>>32))
		}
	default:
		for _, k := range keys {
			p := k & mask >> shift
			putKey(to[uint64(width)*uint64(cursor[p]):], k, width)
			cursor[p]++
		}
	}
}

// putKey writes the low bytes of a key, 4 to 8 of them.
func putKey(to []byte, k uint64, width int64) {
	switch width {
	case 4:
		binary.LittleEndian.PutUint32(to, uint32(k))
	case 5:
		to[4] = byte(k >> 32)
		binary.LittleEndian.PutUint32(to, uint32(k))
	case 6:
		binary.LittleEndian.PutUint16(to[4:], uint16(k>>32))
		binary.LittleEndian.PutUint32(to, uint32(k))
	case 7:
		to[6] = byte(k >> 48)
		binary.LittleEndian.PutUint16(to[4:], uint16(k>>32))
		binary.LittleEndian.PutUint32(to, uint32(k))
	default:
		binary.LittleEndian.PutUint64(to, k)
	}
}

// widen makes keys of the stored ones of a part. The stored ones may lie in the last bytes of the memory of the keys.
func (l *level) widen(keys []uint64, stored []byte, part int) {
	high, mask := l.prefix|uint64(part)<<l.shift, uint64(1)<<l.shift-1 // of a shift by 64 the mask is all ones
	width, i := int(l.width), 0
	for ; i < len(keys) && i*width+8 <= len(stored); i++ { // a key, and some bytes of the next that the mask clears
		keys[i] = high | binary.LittleEndian.Uint64(stored[i*width:])&mask
	}
	for ; i < len(keys); i++ {
		var k uint64
		for j, b := range stored[i*width : (i+1)*width] {
			k |= uint64(b) << (8 * j)
		}
		keys[i] = high | k&mask
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
