package source

import (
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/unified"
)

// EdgeStore keeps edges in the order that they are appended in, in 8 bytes each while ids are below 2^31, else in 16.
// Its memory is a Spool's. It has one owner at a time, who calls Close.
type EdgeStore struct {
	Spool  Spool
	chunks []storedChunk
	count  int64
	max    int64
	min    int64
	pack   EdgeChunk
}

type storedChunk struct {
	at    int64
	edges int
	width int64
}

// EdgeChunk is edges as an EdgeStore keeps them. Many goroutines may pack chunks for one store. The zero value is
// ready, and is packed again and again.
type EdgeChunk struct {
	edges     int
	low, high int64
	narrow    []int32
	wide      []int64
}

// Pack makes the chunk one of the edges src[i] -> dst[i], at most a few hundred thousand: edges packed together are
// read together. Ids must not be negative. It keeps neither slice.
func (c *EdgeChunk) Pack(src, dst []int64) {
	c.edges, c.narrow, c.wide = len(src), c.narrow[:0], c.wide[:0]
	if len(src) == 0 {
		return
	}
	dst = dst[:len(src)]
	low, high := src[0], int64(0)
	for i, v := range src {
		low, high = min(low, v, dst[i]), max(high, v, dst[i])
	}
	if c.low, c.high = low, high; high >= 1<<31 {
		c.wide = append(append(c.wide, src...), dst...)
		return
	}
	c.narrow = slices.Grow(c.narrow, 2*len(src))[:2*len(src)]
	narrow(c.narrow[:len(src)], src)
	narrow(c.narrow[len(src):], dst)
}

func narrow(to []int32, from []int64) {
	to = to[:len(from)]
	for i, v := range from {
		to[i] = int32(v)
	}
}

// Append adds the edges src[i] -> dst[i], as Pack takes them.
func (s *EdgeStore) Append(src, dst []int64) error {
	s.pack.Pack(src, dst)
	return s.AppendChunk(&s.pack)
}

// AppendChunk adds the edges of a chunk, which it does not keep.
func (s *EdgeStore) AppendChunk(c *EdgeChunk) error {
	if c.edges == 0 {
		return nil
	}
	if s.count == 0 {
		s.min = c.low
	}
	s.min, s.max = min(s.min, c.low), max(s.max, c.high)
	stored, data := storedChunk{at: s.Spool.Len(), edges: c.edges, width: 4}, unified.FromSlice(c.narrow)
	if len(c.wide) > 0 {
		stored.width, data = 8, unified.FromSlice(c.wide)
	}
	if _, err := s.Spool.Write(data.Bytes()); err != nil {
		return err
	}
	s.chunks = append(s.chunks, stored)
	s.count += int64(c.edges)
	return nil
}

// Len returns the number of edges.
func (s *EdgeStore) Len() int64 { return s.count }

// Range returns the least and the greatest id; 0, -1 without edges.
func (s *EdgeStore) Range() (least, greatest int64) {
	if s.count == 0 {
		return 0, -1
	}
	return s.min, s.max
}

// Each yields the edges, in chunks of as many as were appended together.
func (s *EdgeStore) Each(yield func(src, dst []int64) error) error {
	mem, err := s.Spool.Bytes()
	if err != nil {
		return err
	}
	var src, dst []int64
	for _, c := range s.chunks {
		n, bytes := int64(c.edges), mem[c.at:]
		if c.width == 8 {
			t, err := unified.New(unified.Int64, bytes, 2*n)
			if err != nil {
				return fmt.Errorf("temporary edges: %w", err)
			}
			v, _ := unified.View[int64](t)
			src, dst = append(src[:0], v[:n]...), append(dst[:0], v[n:]...)
		} else {
			t, err := unified.New(unified.Int32, bytes, 2*n)
			if err != nil {
				return fmt.Errorf("temporary edges: %w", err)
			}
			v, _ := unified.View[int32](t)
			src, dst = widen(src[:0], v[:n]), widen(dst[:0], v[n:2*n])
		}
		if err := yield(src, dst); err != nil {
			return err
		}
	}
	return nil
}

func widen(to []int64, from []int32) []int64 {
	to = slices.Grow(to, len(from))[:len(from)]
	for i, v := range from {
		to[i] = int64(v)
	}
	return to
}

// Close frees the memory.
func (s *EdgeStore) Close() error {
	s.chunks, s.count = nil, 0
	return s.Spool.Close()
}
