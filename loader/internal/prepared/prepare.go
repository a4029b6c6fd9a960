// Package prepared has the sampler that adds to each sample the transposes and norms of its blocks.
package prepared

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/internal/errs"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// preparing is a sampler that adds to each sample what it makes of its blocks, as arrays of its own: "sample/" and
//
//	loops/L/T/indptr, loops/L/T/indices
//	transpose/L/T/indptr, transpose/L/T/indices, transpose/L/T/edges, gcn_norm/L/T
//
// for layer L and edge type T. It runs on the CPU alone.
type preparing struct {
	sampling.Sampler
	what Preparation
}

var _ sampling.Wrapper = preparing{}

// Unwrap implements sampling.Wrapper.
func (p preparing) Unwrap() sampling.Sampler { return p.Sampler }

// Bare returns the sampler under all that was added to one.
func Bare(s sampling.Sampler) sampling.Sampler {
	for w, wraps := s.(sampling.Wrapper); wraps; w, wraps = s.(sampling.Wrapper) {
		s = w.Unwrap()
	}
	return s
}

// New returns a sampler of the samples of another, with what is to be prepared.
func New(of sampling.Sampler, what Preparation) sampling.Sampler {
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
	if p.what&GCNNorm != 0 {
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
			if p.what&Loops != 0 {
				edges = sat.Add(edges, nodes)
				add(unified.Int32, nodes+1, "loops/%d/%s/indptr", layer, name)
				add(unified.Int32, edges, "loops/%d/%s/indices", layer, name)
			}
			if p.what&Transpose != 0 {
				add(unified.Int32, nodes+1, "transpose/%d/%s/indptr", layer, name)
				add(unified.Int32, edges, "transpose/%d/%s/indices", layer, name)
				add(unified.Int32, edges, "transpose/%d/%s/edges", layer, name)
			}
			if p.what&GCNNorm != 0 {
				add(unified.Float32, edges, "gcn_norm/%d/%s", layer, name)
			}
		}
	}
	return b
}

func (p preparing) Open(env sampling.Env) (sampling.Worker, error) {
	for _, e := range env.Graph.Schema().Edges {
		if p.what&Loops != 0 && e.Src != e.Dst {
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
	what    Preparation
	degrees unified.Buffer
}

// Close implements sampling.Worker.
func (w *preparingWorker) Close() error { return errors.Join(w.Worker.Close(), w.degrees.Close()) }

func (w *preparingWorker) Sample(ctx context.Context, req *sampling.Request, out *graph.Sample) error {
	perBlock := 0
	if w.what&Loops != 0 {
		perBlock += 2
	}
	if w.what&Transpose != 0 {
		perBlock += 3
	}
	if w.what&GCNNorm != 0 {
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
func (w *preparingWorker) block(out *graph.Sample, at int, of *graph.Block) error {
	b, err := read(of)
	if err != nil {
		return err
	}
	if w.what&Loops != 0 {
		if b, err = looped(out, at, b); err != nil {
			return err
		}
		at += 2
	}
	edges := int64(len(b.indices))
	if w.what&Transpose != 0 {
		var to [3][]int32
		for i, n := range []int64{b.sources + 1, edges, edges} {
			if to[i], err = room[int32](out, at+i, n); err != nil {
				return err
			}
			show(out, at+i, unified.Int32, n)
		}
		b.transpose(to[0], to[1], to[2])
		at += 3
	}
	if w.what&GCNNorm == 0 {
		return nil
	}
	norm, err := room[float32](out, at, edges)
	if err != nil {
		return err
	}
	show(out, at, unified.Float32, edges)
	degrees, err := unified.Grow[int32](&w.degrees, b.sources, 0)
	if err != nil {
		return err
	}
	b.norm(norm, degrees[:b.sources])
	return nil
}

// looped makes the arrays of a block with loops, number at and the next, and returns that block.
func looped(out *graph.Sample, at int, b *block) (*block, error) {
	indptr, err := room[int32](out, at, b.destinations+1)
	if err != nil {
		return nil, err
	}
	indices, err := room[int32](out, at+1, int64(len(b.indices))+b.destinations)
	if err != nil {
		return nil, err
	}
	if b, err = b.addLoops(indptr, indices); err != nil {
		return nil, err
	}
	show(out, at, unified.Int32, b.destinations+1)
	show(out, at+1, unified.Int32, int64(len(b.indices)))
	return b, nil
}

// room returns the memory of array number at, for n elements.
func room[T int32 | float32](out *graph.Sample, at int, n int64) ([]T, error) {
	all, err := unified.Grow[T](&out.Buffers.Arrays[at], n, 0)
	if err != nil {
		return nil, err
	}
	return all[:n], nil
}

// show makes array number at the first n elements of its memory.
func show(out *graph.Sample, at int, dtype unified.DType, n int64) {
	out.Arrays[at].Rows, _ = out.Buffers.Arrays[at].Tensor(dtype, n)
}

// Preparation says what a loader computes for each block in its pipeline: loader.Preparation.
type Preparation uint8

// Those of package loader by these names.
const (
	Transpose Preparation = 1 << iota
	GCNNorm
	Loops
	preparations
)

// Valid reports whether all bits are preparations.
func (p Preparation) Valid() bool { return p < preparations }

// preparationNames are the names of the bits.
var preparationNames = []string{"transpose", "gcn-norm", "loops"}

// UnmarshalText reads names with commas: "transpose", "gcn-norm", "loops".
func (p *Preparation) UnmarshalText(text []byte) error {
	*p = 0
	for _, name := range strings.Split(string(text), ",") {
		i := slices.Index(preparationNames, strings.TrimSpace(name))
		if i < 0 {
			return fmt.Errorf("%q is not transpose, gcn-norm or loops", name)
		}
		*p |= 1 << i
	}
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (p Preparation) MarshalText() (text []byte, err error) {
	var names []string
	for i, name := range preparationNames {
		if p>>i&1 == 1 {
			names = append(names, name)
		}
	}
	return []byte(strings.Join(names, ",")), nil
}
