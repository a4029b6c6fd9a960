package embed

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/internal/direct/ahead"
)

// edge is one of a cut: its node, counted from the first of the range, and its source, from that of the chunk.
type edge struct {
	node   uint32
	source uint16
}

// cutReader reads the edges of a range, chunk by chunk.
type cutReader struct {
	*cut
	number int
	ahead  *ahead.Reader // nil: the file can only be read through the page cache
	buffer []byte        // then
	edges  []edge
}

// readCut returns a reader of the edges of a range, which the caller closes.
func (r *run) readCut(c *cut, number int) (from *cutReader, err error) {
	from = &cutReader{cut: c, number: number}
	lo, hi := c.begin[int64(number)*c.chunks], c.begin[int64(number+1)*c.chunks]
	n := min(r.pieceEdges(), max(hi-lo, 1))
	if from.edges, err = room[edge](r, "edges that pass by", n); err != nil {
		return nil, err
	}
	a, err := ahead.New(c.file, lo*cutBytes, hi*cutBytes, int(n*cutBytes))
	if err == nil {
		from.ahead = a
		return from, nil
	}
	from.buffer, err = room[byte](r, "bytes that pass by", n*cutBytes)
	return from, err
}

func (c *cutReader) close() error {
	if c.ahead == nil {
		return nil
	}
	return c.ahead.Close()
}

// chunk calls f with the edges of a chunk, some at a time, which are valid until f returns.
func (c *cutReader) chunk(k int64, f func(edges []edge) error) error {
	place := int64(c.number)*c.chunks + k
	at, end := c.begin[place]*cutBytes, c.begin[place+1]*cutBytes
	for from := c.firstOf(c.number, k); at < end; {
		some, err := c.from(at, end)
		if err != nil {
			return fmt.Errorf("%s: %w; see whether its disk is damaged, and run the same again", c.file.Name(), err)
		}
		edges := c.edges[:len(some)/cutBytes]
		from.decode(edges, some)
		if err := f(edges); err != nil {
			return err
		}
		at += int64(len(some))
	}
	return nil
}

// cutCursor is where edges of a chunk go on: in a strip of the range, behind as many of them.
type cutCursor struct {
	*cut
	chunk int64
	strip int
	done  uint32
}

// firstOf returns where the edges of a range's chunk begin.
func (c *cut) firstOf(number int, chunk int64) cutCursor {
	strip, _ := slices.BinarySearchFunc(c.strips, number, func(s strip, of int) int { return cmp.Compare(s.of, of) })
	return cutCursor{cut: c, chunk: chunk, strip: strip}
}

// decode reads the next edges.
func (c *cutCursor) decode(to []edge, bytes []byte) {
	for i := range to {
		for c.done == c.countsOf(c.strip)[c.chunk] {
			c.strip, c.done = c.strip+1, 0
		}
		s, pair := &c.strips[c.strip], binary.LittleEndian.Uint32(bytes[i*cutBytes:])
		to[i] = edge{uint32(s.lo-c.ranges[s.of][0]) + pair>>16, uint16(pair)}
		c.done++
	}
}

// from returns bytes of the file from a place on.
func (c *cutReader) from(at, end int64) ([]byte, error) {
	if c.ahead != nil {
		some, err := c.ahead.From(at)
		return some[:min(int64(len(some)), end-at)], err
	}
	n := min(int64(len(c.buffer)), end-at)
	_, err := c.file.ReadAt(c.buffer[:n], at)
	return c.buffer[:n], err
}

// unitsOf returns the units of a range that need a chunk and none behind it.
func (c *cut) unitsOf(number int, k int64) []uint32 {
	at := int64(number)*c.chunks + k
	return c.units[c.done[at]:c.done[at+1]]
}
