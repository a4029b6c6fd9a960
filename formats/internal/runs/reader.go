package runs

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/formats/internal/depot"
	"github.com/khop-gnn/khop/formats/internal/ranges"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// Reader reads a file. It has one owner, who calls Close.
type Reader struct {
	l      Layout
	file   depot.File
	path   string
	blocks []block
	b      source.Batch
}

// Open opens a file of a folder. The list of its blocks is compared with its checksum: formats.ErrCorrupt.
func Open(folder depot.Depot, f *File, l Layout) (_ *Reader, err error) {
	in, err := folder.Open(f.Name, f.Bytes)
	if err != nil {
		return nil, err
	}
	r := &Reader{l: l, file: in, path: folder.Path(f.Name)}
	defer source.CloseOnError(&err, r)
	bad := func(what string) error { return depot.Damaged(r.path, "%s", what) }
	if f.Blocks < 0 || f.Blocks > f.Bytes/blockBytes {
		return nil, bad("its list of blocks is longer than the file")
	}
	list := make([]byte, f.Blocks*blockBytes)
	if _, err := in.ReadAt(list, f.Bytes-int64(len(list))); err != nil {
		return nil, err
	}
	if xxh3.Hash(list) != f.Sum {
		return nil, bad("its list of blocks does not fit its checksum")
	}
	edges := int64(0)
	for ; len(list) > 0; list = list[blockBytes:] {
		v := func(i int) uint64 { return binary.LittleEndian.Uint64(list[8*i:]) }
		b := block{Key(v(0)), Key(v(1)), int64(v(2)), int64(v(3)), v(4), uint32(v(5)), uint32(v(5) >> 32)}
		if b.Edges > mostEdges || b.Bytes != int64(b.Edges)*r.record(b.Wide) || b.At < 0 || b.At > f.Bytes-b.Bytes {
			return nil, bad("its blocks are not those of these edges")
		}
		edges += int64(b.Edges)
		r.blocks = append(r.blocks, b)
	}
	if edges != f.Edges {
		return nil, bad("it has another number of edges")
	}
	return r, nil
}

// record is what an edge takes.
func (r *Reader) record(wide uint32) int64 {
	n := int64(8)
	if wide == 1 {
		n = 16
	}
	if len(r.l.Types) > 1 {
		n += 2
	}
	for _, w := range r.l.Widths {
		n += w
	}
	return n
}

// Count returns how many edges the blocks have in which there are some from a key on to below another.
func (r *Reader) Count(from, to Key) (n int64) {
	for i := range r.blocks {
		if b := &r.blocks[i]; b.Greatest >= from && b.Least < to {
			n += int64(b.Edges)
		}
	}
	return n
}

// Each yields the edges whose keys are from one on to below another: those to one node in the order that they were
// added in. Errors are formats.ErrCorrupt, and those of yield.
func (r *Reader) Each(from, to Key, yield func(source.Batch) error) error {
	blocks, list := r.wanted(from, to)
	spans := r.file.Ahead(list)
	defer spans.Close()
	var rest []byte
	for _, b := range blocks {
		if len(rest) == 0 {
			var err error
			if rest, err = spans.Next(); err != nil {
				return err
			}
		}
		if err := r.load(b, rest[:b.Bytes]); err != nil {
			return err
		}
		rest = rest[b.Bytes:]
		if b.Least < from || b.Greatest >= to {
			r.keep(from, to)
		}
		if err := yield(r.b); err != nil {
			return err
		}
	}
	return nil
}

// wanted returns the blocks that have edges from a key on to below another, and the spans of the file in which they
// lie, one behind the other.
func (r *Reader) wanted(from, to Key) (blocks []*block, spans []ranges.Span) {
	for i := range r.blocks {
		b := &r.blocks[i]
		if b.Greatest < from || b.Least >= to {
			continue
		}
		blocks = append(blocks, b)
		if last := len(spans) - 1; last >= 0 && spans[last].At+spans[last].Bytes == b.At &&
			spans[last].Bytes+b.Bytes <= spanBytes {
			spans[last].Bytes += b.Bytes
			continue
		}
		spans = append(spans, ranges.Span{At: b.At, Bytes: b.Bytes})
	}
	return blocks, spans
}

// spanBytes is the most of several blocks that are read at a time.
const spanBytes = 4 << 20

// load takes a block apart, and compares it with its checksum.
func (r *Reader) load(b *block, bytes []byte) error {
	if xxh3.Hash(bytes) != b.Sum {
		return depot.Damaged(r.path, "bytes %d to %d do not fit their checksum", b.At, b.At+b.Bytes)
	}
	n, rest := int64(b.Edges), bytes
	r.b.Dst, r.b.Src = slices.Grow(r.b.Dst[:0], int(n))[:n], slices.Grow(r.b.Src[:0], int(n))[:n]
	dst, src := r.b.Dst, r.b.Src[:n]
	if b.Wide == 1 {
		for i := range dst {
			dst[i] = int64(binary.LittleEndian.Uint64(rest[16*i:]))
			src[i] = int64(binary.LittleEndian.Uint64(rest[16*i+8:]))
		}
		rest = rest[16*n:]
	} else {
		for i := range dst {
			pair := binary.LittleEndian.Uint64(rest[8*i:])
			dst[i], src[i] = int64(uint32(pair)), int64(pair>>32)
		}
		rest = rest[8*n:]
	}
	r.b.Types = r.b.Types[:0]
	if len(r.l.Types) > 1 {
		for i := range n {
			t := binary.LittleEndian.Uint16(rest[2*i:])
			if int(t) >= len(r.l.Types) {
				return depot.Damaged(r.path, "edge type %d", t)
			}
			r.b.Types = append(r.b.Types, t)
		}
		rest = rest[2*n:]
	} else {
		r.b.Types = nil
	}
	r.b.Columns = make([][]byte, len(r.l.Widths))
	for c, width := range r.l.Widths {
		r.b.Columns[c], rest = rest[:n*width:n*width], rest[n*width:]
	}
	return nil
}

// keep leaves out the edges of the batch with other keys.
func (r *Reader) keep(from, to Key) {
	Keep(&r.b, r.l.Widths, func(i int) bool {
		t := r.l.Types[source.TypeAt(r.b.Types, i)]
		k := KeyOf(t.Target, r.b.Dst[i])
		if r.l.By == BySource {
			k = KeyOf(t.Source, r.b.Src[i])
		}
		return k >= from && k < to
	})
}

// Keep leaves out the edges of a batch that are not kept.
func Keep(b *source.Batch, widths []int64, keeps func(i int) bool) {
	n := 0
	for i := range b.Src {
		if !keeps(i) {
			continue
		}
		b.Src[n], b.Dst[n] = b.Src[i], b.Dst[i]
		if b.Types != nil {
			b.Types[n] = b.Types[i]
		}
		for c, w := range widths {
			copy(b.Columns[c][int64(n)*w:int64(n+1)*w], b.Columns[c][int64(i)*w:])
		}
		n++
	}
	b.Src, b.Dst = b.Src[:n], b.Dst[:n]
	if b.Types != nil {
		b.Types = b.Types[:n]
	}
	for c, w := range widths {
		b.Columns[c] = b.Columns[c][:int64(n)*w]
	}
}

// Close closes the file.
func (r *Reader) Close() error { return r.file.Close() }

// Widths returns the bytes of a row of each column.
func Widths[C interface{ RowBytes() int64 }](columns []C) (list []int64) {
	for _, c := range columns {
		list = append(list, c.RowBytes())
	}
	return list
}

// Borders divides nodes into ranges that as many edges lead to, by samples of files: a range begins at each key, the
// first at 0, and ends where the next begins. A node is in one range, however many edges it has.
func Borders(ranges int, files []*File) []Key {
	weights, total := map[int64]float64{}, 0.0
	for _, f := range files {
		for _, k := range f.Sample {
			weights[k] += float64(f.Edges) / float64(len(f.Sample))
		}
		total += float64(f.Edges)
	}
	keys := slices.Sorted(maps.Keys(weights))
	borders, sum, at := []Key{0}, 0.0, 0
	for r := 1; r < ranges; r++ {
		want := total * float64(r) / float64(ranges)
		for at < len(keys) && sum+weights[keys[at]] < want {
			sum += weights[keys[at]]
			at++
		}
		next := End
		if at < len(keys) {
			next = Key(keys[at])
			if want-sum > sum+weights[keys[at]]-want { // behind the node is nearer
				next++
			}
		}
		borders = append(borders, max(next, borders[r-1]))
	}
	return borders
}
