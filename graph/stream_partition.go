package graph

import (
	"context"
	"fmt"

	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/unified"
)

// PartitionOptions say how StreamPartition divides a graph. Zeros are defaults; package internal/option reads the tags.
type PartitionOptions struct {
	Parts  int     `default:"16" range:"1,2147483647" help:"Number of parts, at most the number of nodes."`
	Passes int     `default:"10" range:"1,2147483647" help:"The most passes over the graph."`
	Slack  float64 `default:"0.03" range:"0,10" help:"How much larger than the mean a part may be, as a share."`
	// Progress, if set, receives how many nodes the passes have gone over, and the most that they can.
	Progress func(done, total int64)
}

// Most returns the greatest number of nodes that a part may have, in a graph with this number of nodes.
func (o PartitionOptions) Most(nodes int64) int64 {
	option.Fill(&o)
	mean := float64(nodes) / float64(o.Parts)
	return max(int64(mean*(1+o.Slack)), (nodes+int64(o.Parts)-1)/int64(o.Parts))
}

// PartitionQuality says how good a partition is.
type PartitionQuality struct {
	Cut     int64   `json:"cut"`     // edges between two parts
	Edges   int64   `json:"edges"`   // of the graph
	Largest int64   `json:"largest"` // nodes of the largest part
	Balance float64 `json:"balance"` // Largest over the mean
	Passes  int     `json:"passes"`  // that were made
}

// StreamPartition divides the nodes of a graph into parts of about equal size, so that few edges lead from one to
// another. It makes passes over the nodes in order, with 16 bytes a node and 40 a part in memory; the graph may be
// larger than memory. Each node goes to the part that has most of the sources of its in-edges, times the part's room.
// Later passes also know the earlier part of the nodes that follow. The result is the best pass; a pass that is not
// better is the last.
//
// It computes with integers: the same graph gives the same partition everywhere. If edges have a direction, store both
// directions for a better cut. Cost: a pass reads all edges. Sources: Stanton and Kliot, "Streaming graph partitioning
// for large distributed graphs", KDD 2012 (linear deterministic greedy); Nishimura and Ugander, "Restreaming graph
// partitioning", KDD 2013.
func StreamPartition(ctx context.Context, g *Graph, o PartitionOptions) (*Partition, PartitionQuality, error) {
	n := g.NumNodes()
	option.Fill(&o)
	err := option.Check(ErrPartition, o)
	if err == nil && int64(o.Parts) > n {
		err = option.Errorf(ErrPartition, o, "Parts", " is %d: there are %d nodes", o.Parts, n)
	}
	if err != nil {
		return nil, PartitionQuality{}, err
	}
	if ids, err := unified.View[int32](g.Indices()); err == nil {
		return streamPartition(ctx, g, ids, o)
	}
	ids, err := unified.View[int64](g.Indices())
	if err != nil {
		return nil, PartitionQuality{}, err
	}
	return streamPartition(ctx, g, ids, o)
}

// streamer is a pass over a graph.
type streamer[V int32 | int64] struct {
	indptr  []int64
	indices []V
	of      []int32 // part of each node: of this pass up to the node at hand, of the one before behind it; -1 for none
	most    int64   // nodes of a part
	sizes   []int64
	counts  []int64 // neighbours of the node at hand, by part
	touched []int32 // parts with some
	level   int64   // no part is smaller
	cursor  int     // no part before it is of this size
}

func streamPartition[V int32 | int64](ctx context.Context, g *Graph, ids []V, o PartitionOptions) (*Partition,
	PartitionQuality, error) {
	n := g.NumNodes()
	mean := float64(n) / float64(o.Parts)
	s := streamer[V]{indptr: g.Indptr(), indices: ids, of: make([]int32, n), sizes: make([]int64, o.Parts),
		counts: make([]int64, o.Parts)}
	s.most = o.Most(n)
	for v := range s.of {
		s.of[v] = -1
	}
	best := make([]int32, n)
	q := PartitionQuality{Edges: g.NumEdges()}
	for pass := range o.Passes {
		progress := func(v int64) {
			if o.Progress != nil {
				o.Progress(int64(pass)*n+v, int64(o.Passes)*n)
			}
		}
		if err := s.pass(ctx, progress); err != nil {
			return nil, q, err
		}
		cut, err := s.cut(ctx)
		if err != nil {
			return nil, q, err
		}
		q.Passes = pass + 1
		if pass > 0 && cut >= q.Cut {
			break
		}
		q.Cut = cut
		copy(best, s.of)
	}
	p, err := NewPartition(best, o.Parts)
	if err != nil {
		return nil, q, err
	}
	for i := range p.Parts() {
		q.Largest = max(q.Largest, int64(len(p.Part(i))))
	}
	q.Balance = float64(q.Largest) / mean
	return p, q, nil
}

// pass places each node anew.
func (s *streamer[V]) pass(ctx context.Context, progress func(v int64)) error {
	clear(s.sizes)
	s.level, s.cursor = 0, 0
	for v := range s.of {
		if v%(1<<14) == 0 {
			if progress(int64(v)); ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		from, to := s.indptr[v], s.indptr[v+1]
		if uint64(from) > uint64(to) || uint64(to) > uint64(len(s.indices)) {
			return fmt.Errorf("%w: node %d: its edges are %d to %d of %d", ErrEdge, v, from, to, len(s.indices))
		}
		for pos, u := range s.indices[from:to] {
			if uint64(u) >= uint64(len(s.of)) {
				return fmt.Errorf("%w: edge %d: source %d is not one of the %d nodes", ErrEdge, from+int64(pos), u,
					len(s.of))
			}
			if part := s.of[u]; part >= 0 && int(u) != v {
				if s.counts[part] == 0 {
					s.touched = append(s.touched, part)
				}
				s.counts[part]++
			}
		}
		part := s.choose()
		s.of[v] = part
		s.sizes[part]++
	}
	return nil
}

// choose returns the part of the node whose neighbours were counted: the greatest count times room, then the smaller
// part, then the lower number; the smallest part of all where no neighbour's has room.
func (s *streamer[V]) choose() int32 {
	best, score := int32(-1), int64(0)
	for _, part := range s.touched {
		x := s.counts[part] * (s.most - s.sizes[part])
		better := x > score
		if x == score && best >= 0 && x > 0 {
			better = s.sizes[part] < s.sizes[best] || s.sizes[part] == s.sizes[best] && part < best
		}
		if better {
			best, score = part, x
		}
		s.counts[part] = 0
	}
	s.touched = s.touched[:0]
	if best >= 0 {
		return best
	}
	for {
		for ; s.cursor < len(s.sizes); s.cursor++ {
			if s.sizes[s.cursor] == s.level {
				return int32(s.cursor)
			}
		}
		s.level++
		s.cursor = 0
	}
}

// cut counts the edges between two parts.
func (s *streamer[V]) cut(ctx context.Context) (n int64, err error) {
	for v, part := range s.of {
		if v%(1<<14) == 0 && ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		for _, u := range s.indices[s.indptr[v]:s.indptr[v+1]] {
			if s.of[u] != part {
				n++
			}
		}
	}
	return n, nil
}
