// Package prepared has the sampler that adds to each sample what package sparse makes of its blocks.
package prepared

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/internal/errs"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// preparing is a sampler that adds to each sample what sparse makes of its blocks, as arrays of its own: "sample/" and
//
//	loops/L/T/indptr, loops/L/T/indices
//	transpose/L/T/indptr, transpose/L/T/indices, transpose/L/T/edges, gcn_norm/L/T
//
// for layer L and edge type T. It runs on the CPU alone.
type preparing struct {
	sampling.Sampler
	what sparse.Preparation
}

var _ sampling.Wrapper = preparing{}

// Unwrap implements sampling.Wrapper.
func (p preparing) Unwrap() sampling.Sampler { return p.Sampler }

// New returns a sampler of the samples of another, with what is to be prepared.
func New(of sampling.Sampler, what sparse.Preparation) sampling.Sampler {
	if _, is := of.(preparing); is {
		return of
	}
	return preparing{of, what}
}

func (p preparing) Fingerprint() string {
	return fmt.Sprintf("%s prepare=%d", p.Sampler.Fingerprint(), p.what)
}

// Prepare prepares the sampler.
func (p preparing) Prepare(ctx context.Context, env sampling.Env) (sampling.Sampler, error) {
	s, err := sampling.Prepare(ctx, p.Sampler, env)
	if err != nil {
		return nil, err
	}
	return preparedBlocks{preparing{s, p.what}}, nil
}

// preparedBlocks opens the workers, and closes what Prepare took.
type preparedBlocks struct{ preparing }

func (p preparedBlocks) Close() error {
	if c, ok := p.Sampler.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Describe adds the arrays to the bound.
func (p preparing) Describe(s *graph.Schema, batchSize int) (sampling.Description, error) {
	d, err := p.Sampler.Describe(s, batchSize)
	d.Bound = p.bound(s, d.Bound)
	return d, err
}

// bound adds the arrays, of as many rows as a block has sources and edges.
func (p preparing) bound(s *graph.Schema, b sampling.Bound) sampling.Bound {
	b.Arrays = slices.Clone(b.Arrays)
	if p.what&sparse.GCNNorm != 0 {
		b.Scratch = sat.Add(b.Scratch, sat.Mul(4, b.Nodes))
	}
	add := func(dtype unified.DType, rows int64, name string, of ...any) {
		b.Arrays = append(b.Arrays, sampling.ArrayBound{Rows: rows,
			Column: graph.Column{Name: fmt.Sprintf(name, of...), DType: dtype}})
	}
	for layer := range max(b.Layers, 0) {
		for e := range s.Edges {
			nodes, edges := b.Nodes, b.Edges
			if t := s.Edges[e].Src; b.Lists != nil {
				nodes = b.Lists[t]
			}
			if b.Blocks != nil {
				edges = 0
			}
			for l := range b.Blocks { // a layer may be a view of another
				edges = max(edges, b.Blocks[l][e])
			}
			name := s.Edges[e].String()
			if p.what&sparse.Loops != 0 {
				edges = sat.Add(edges, nodes)
				add(unified.Int32, nodes+1, "loops/%d/%s/indptr", layer, name)
				add(unified.Int32, edges, "loops/%d/%s/indices", layer, name)
			}
			if p.what&sparse.Transpose != 0 {
				add(unified.Int32, nodes+1, "transpose/%d/%s/indptr", layer, name)
				add(unified.Int32, edges, "transpose/%d/%s/indices", layer, name)
				add(unified.Int32, edges, "transpose/%d/%s/edges", layer, name)
			}
			if p.what&sparse.GCNNorm != 0 {
				add(unified.Float32, edges, "gcn_norm/%d/%s", layer, name)
			}
		}
	}
	return b
}

func (p preparing) Open(env sampling.Env) (sampling.Worker, error) {
	for _, e := range env.Graph.Schema().Edges {
		if p.what&sparse.Loops != 0 && e.Src != e.Dst {
			named := option.Option{Name: "prepare", Path: "Columns.Prepare"}
			return nil, named.Errorf(errs.ErrOptions, ": loops are for edges between nodes of one type, and %s leads "+
				"elsewhere", e)
		}
	}
	w, err := p.Sampler.Open(env)
	if err != nil {
		return nil, err
	}
	prepares := &preparingWorker{Worker: w, what: p.what}
	prepares.degrees.Options = env.Scratch
	return prepares, nil
}

// preparingWorker samples, and then makes the arrays, which follow those of the sampler.
type preparingWorker struct {
	sampling.Worker
	what    sparse.Preparation
	degrees unified.Buffer
}

// Close implements sampling.Worker.
func (w *preparingWorker) Close() error { return errors.Join(w.Worker.Close(), w.degrees.Close()) }

func (w *preparingWorker) Sample(ctx context.Context, req *sampling.Request, out *graph.Sample) error {
	perBlock := 0
	if w.what&sparse.Loops != 0 {
		perBlock += 2
	}
	if w.what&sparse.Transpose != 0 {
		perBlock += 3
	}
	if w.what&sparse.GCNNorm != 0 {
		perBlock++
	}
	blocks := 0
	for l := range out.Blocks {
		blocks += len(out.Blocks[l])
	}
	all, at := out.Arrays, len(out.Arrays)-blocks*perBlock
	out.Arrays = all[:at] // the sampler's own
	err := w.Worker.Sample(ctx, req, out)
	if out.Arrays = all; err != nil {
		return err
	}
	for l := range out.Blocks {
		for e := range out.Blocks[l] {
			if err := w.block(out, at, &out.Blocks[l][e]); err != nil {
				return fmt.Errorf("layer %d: %w", l, err)
			}
			at += perBlock
		}
	}
	return nil
}

// block makes the arrays of a block, from number at on.
func (w *preparingWorker) block(out *graph.Sample, at int, b *graph.Block) error {
	edges := b.NumEdges()
	if w.what&sparse.Loops != 0 {
		looped, err := loops(out, at, b)
		if err != nil {
			return err
		}
		b, edges, at = looped, looped.NumEdges(), at+2
	}
	if w.what&sparse.Transpose != 0 {
		var of [3][]int32
		for i, n := range []int64{b.NumSrc + 1, edges, edges} {
			room, err := unified.Grow[int32](&out.Buffers.Arrays[at+i], n, 0)
			if err != nil {
				return err
			}
			of[i] = room[:n]
			out.Arrays[at+i].Rows, _ = out.Buffers.Arrays[at+i].Tensor(unified.Int32, n)
		}
		if err := sparse.TransposeBlock(of[0], of[1], of[2], b); err != nil {
			return err
		}
		at += 3
	}
	if w.what&sparse.GCNNorm == 0 {
		return nil
	}
	norm, err := unified.Grow[float32](&out.Buffers.Arrays[at], edges, 0)
	if err != nil {
		return err
	}
	out.Arrays[at].Rows, _ = out.Buffers.Arrays[at].Tensor(unified.Float32, edges)
	degrees, err := unified.Grow[int32](&w.degrees, b.NumSrc, 0)
	if err != nil {
		return err
	}
	return sparse.NormBlock(norm[:edges], degrees[:b.NumSrc], b)
}

// loops makes the arrays of a block with loops, number at and the next, and returns that block.
func loops(out *graph.Sample, at int, b *graph.Block) (*graph.Block, error) {
	indptr, err := unified.Grow[int32](&out.Buffers.Arrays[at], b.NumDst+1, 0)
	if err != nil {
		return nil, err
	}
	indices, err := unified.Grow[int32](&out.Buffers.Arrays[at+1], b.NumEdges()+b.NumDst, 0)
	if err != nil {
		return nil, err
	}
	n, err := sparse.LoopBlock(indptr[:b.NumDst+1], indices[:b.NumEdges()+b.NumDst], b)
	if err != nil {
		return nil, err
	}
	looped := *b
	looped.Indptr, _ = out.Buffers.Arrays[at].Tensor(unified.Int32, b.NumDst+1)
	looped.Indices, _ = out.Buffers.Arrays[at+1].Tensor(unified.Int32, n)
	out.Arrays[at].Rows, out.Arrays[at+1].Rows = looped.Indptr, looped.Indices
	return &looped, nil
}
