package source

import (
	"fmt"

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
	narrow []int32
}

type storedChunk struct {
	at    int64
	edges int
	width int64
}

// Append adds the edges src[i] -> dst[i]. Ids must not be negative. At most a few hundred thousand at a time: what is
// appended together is read together.
func (s *EdgeStore) Append(src, dst []int64) error {
	if len(src) == 0 {
		return nil
	}
	low, high := src[0], int64(0)
	for i, v := range src {
		low, high = min(low, v, dst[i]), max(high, v, dst[i])
	}
	if s.count == 0 {
		s.min = low
	}
	s.min, s.max = min(s.min, low), max(s.max, high)
	c := storedChunk{at: s.Spool.Len(), edges: len(src), width: 8}
	parts := [][]byte{unified.FromSlice(src).Bytes(), unified.FromSlice(dst).Bytes()}
	if high < 1<<31 {
		c.width = 4
		s.narrow = s.narrow[:0]
		for _, v := range src {
			s.narrow = append(s.narrow, int32(v))
		}
		for _, v := range dst {
			s.narrow = append(s.narrow, int32(v))
		}
		parts = [][]byte{unified.FromSlice(s.narrow).Bytes()}
	}
	for _, p := range parts {
		if _, err := s.Spool.Write(p); err != nil {
			return err
		}
	}
	s.chunks = append(s.chunks, c)
	s.count += int64(len(src))
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
			src, dst = widen(src[:0], v[:n]), widen(dst[:0], v[n:])
		}
		if err := yield(src, dst); err != nil {
			return err
		}
	}
	return nil
}

func widen(to []int64, from []int32) []int64 {
	for _, v := range from {
		to = append(to, int64(v))
	}
	return to
}

// Close frees the memory.
func (s *EdgeStore) Close() error {
	s.chunks, s.count = nil, 0
	return s.Spool.Close()
}
